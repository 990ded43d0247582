//! Reports what this machine lets this user's recorder see: one finding for each relevant feature.
//!
//! A probe reads, or requests something from the kernel and releases it immediately; it changes nothing. A finding
//! that falls short says what that costs and what would help, and proposes a change of the machine if one would
//! ([`fix`]).

pub mod fix;

use crate::preload::PreloadRecorder;
use crate::proc::diagnostics::Diagnostics;
use crate::proc::tasks::TaskFiles;
use crate::quota;
use crate::refusal::Guards;
use crate::switches;
use fix::Fix;
use rustix::fs::StatVfsMountFlags;
use serde::Serialize;
use std::borrow::Cow;
use std::fs;
use std::path::Path;
use thalweg_base::proc::status;

/// How well a feature is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Fully available.
    Good,
    /// Available, with a limit worth knowing.
    Limited,
    /// Not available.
    Absent,
}

/// The result of one probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the feature.
    pub name: Cow<'static, str>,
    /// Its availability.
    pub state: State,
    /// The result, with units.
    pub found: String,
    /// Cost of its absence or limit; empty if none.
    pub costs: String,
    /// How to get it; empty: nothing to do.
    pub get: String,
    /// A change of this machine that would help.
    pub fix: Option<Fix>,
}

impl Finding {
    /// Adds a change that would help.
    #[must_use]
    pub fn with(self, fix: Option<Fix>) -> Finding {
        Finding { fix, ..self }
    }
}

/// Creates a finding of a fully available feature.
pub fn good(name: impl Into<Cow<'static, str>>, found: impl Into<String>) -> Finding {
    Finding { name: name.into(), state: State::Good, found: found.into(), costs: String::new(), get: String::new(), fix: None }
}

/// Creates a finding of a limited or absent feature: what that costs, and how to get it.
pub fn less(name: impl Into<Cow<'static, str>>, state: State, found: impl Into<String>, costs: &str, get: &str) -> Finding {
    Finding { name: name.into(), state, found: found.into(), costs: costs.to_owned(), get: get.to_owned(), fix: None }
}

/// Runs all probes, recorders first.
pub fn probe() -> Vec<Finding> {
    vec![
        recorder_bpf(),
        recorder_user(),
        recorder_preload(),
        recorder_proc(),
        build(),
        capabilities(),
        security_modules(),
        type_information(),
        perf_events(),
        ptrace_scope(),
        tracepoints(),
        socket_diagnostics(),
        scheduler_times(),
        control_groups(),
        shared_memory(),
    ]
}

/// Returns the kernel features that the kernel recorder needs or uses: each one's detail if available, otherwise what
/// is not seen without it.
pub fn kernel_facts() -> Vec<(String, Result<String, String>)> {
    #[cfg(feature = "bpf")]
    return crate::bpf::probe();
    #[cfg(not(feature = "bpf"))]
    Vec::new()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(feature = "bpf")]
fn bpf_allowed() -> Result<(), String> {
    crate::bpf::BpfRecorder::new().map(drop).map_err(|error| error.to_string())
}

#[cfg(not(feature = "bpf"))]
fn bpf_allowed() -> Result<(), String> {
    Err("not in this build, which was made without clang, libelf and zlib".to_owned())
}

/// The capabilities of the kernel recorder, as for setcap.
const OF_RECORDER: &str = "cap_bpf,cap_perfmon,cap_sys_ptrace+ep";

fn recorder_bpf() -> Finding {
    const NAME: &str = "recorder bpf";
    const COSTS: &str = "recordings are made from within the program or from /proc: no page faults, no writeback, no kernel wakers, no other users' servers";
    let Err(why) = bpf_allowed() else {
        return good(NAME, "allowed: any program and its servers, waits and their wakers, devices, TCP");
    };
    if !cfg!(feature = "bpf") {
        return less(NAME, State::Absent, why, COSTS, "use a binary that has it: see `this binary`");
    }
    if lacking_capabilities(&OF_BPF).is_empty() {
        // The reason says what to do.
        return less(NAME, State::Absent, why, COSTS, "");
    }
    match no_effect_of_capabilities() {
        None => {
            let fix = Fix::capabilities(OF_RECORDER, "the kernel recorder, for those who run this file without root");
            less(NAME, State::Absent, why, COSTS, &format!("run as root, or `setcap {OF_RECORDER}` on the command")).with(fix)
        }
        Some(reason) => {
            less(NAME, State::Absent, why, COSTS, &format!("run as root; capabilities of the file would have no effect: {reason}"))
        }
    }
}

/// Says why capabilities given to this program's file would not reach its processes; `None` if they would.
fn no_effect_of_capabilities() -> Option<String> {
    let status = status::here();
    if status.number("NoNewPrivs") == Some(1) {
        return Some("this process may gain no privileges (no_new_privs)".to_owned());
    }
    let may = status.bits("CapBnd")?;
    let beyond: Vec<&str> = OF_BPF.iter().chain([&PTRACE]).filter(|(bit, _)| may & (1 << bit) == 0).map(|(_, name)| *name).collect();
    if !beyond.is_empty() {
        return Some(format!("the container's bounding set lacks {}", beyond.join(", ")));
    }
    let file = std::env::current_exe().ok()?;
    let is_nosuid = rustix::fs::statvfs(&file).ok()?.f_flag.contains(StatVfsMountFlags::NOSUID);
    is_nosuid.then(|| format!("{} is on a file system mounted nosuid", file.display()))
}

fn recorder_user() -> Finding {
    const NAME: &str = "recorder user";
    const SETTING: &str = "kernel.perf_event_paranoid";
    let Err(why) = switches::allowed() else {
        return good(NAME, "allowed: each context switch of this user's own threads");
    };
    let costs = "without privilege, when threads ran and waited is known only inside calls of the C library, or from samples";
    let adds = "exact running and waiting times, and profiles, of their own programs, for users without privilege";
    let fix = Fix::setting("perf-events", SETTING, "2", adds, "all users of this machine");
    let gives_up = "users may measure their own programs with perf events, a large interface in which faults of the kernel have been found";
    let fix = fix.filter(|_| switches::is_setting()).map(|fix| fix.giving_up(gives_up));
    less(NAME, State::Absent, why, costs, "").with(fix)
}

fn recorder_preload() -> Finding {
    const NAME: &str = "recorder preload";
    match PreloadRecorder::new(None) {
        Ok(recorder) => {
            let library = recorder.library();
            let place = library.parent().and_then(Path::parent).unwrap_or(Path::new("/")).display();
            good(NAME, format!("allowed: dynamically linked programs of this user (its library goes to {place})"))
        }
        Err(error) => less(
            NAME,
            State::Absent,
            error.to_string(),
            "without privilege, programs are only sampled through /proc, every few milliseconds",
            "set TMPDIR to a directory on a file system that can be written and is not mounted noexec",
        ),
    }
}

/// Says which optional parts this binary has.
fn build() -> Finding {
    const NAME: &str = "this binary";
    let version = env!("CARGO_PKG_VERSION");
    let machine = std::env::consts::ARCH;
    if cfg!(feature = "bpf") {
        return good(NAME, format!("thalweg {version} for {machine}, with the kernel recorder"));
    }
    less(
        NAME,
        State::Limited,
        format!("thalweg {version} for {machine}, without the kernel recorder: built without clang, libelf or zlib"),
        "there is no recorder bpf, and a profile has samples of your own programs alone",
        "install clang, libelf-dev and zlib1g-dev and build it again, or use a released binary",
    )
}

fn security_modules() -> Finding {
    good("security modules", Guards::here().line())
}

fn recorder_proc() -> Finding {
    const NAME: &str = "recorder proc";
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    match TaskFiles::open(std::process::id(), tid) {
        Some(files) if files.doing().is_some() => good(NAME, "allowed: what threads wait for, sampled at most every 2 ms"),
        Some(_) => less(
            NAME,
            State::Limited,
            "a thread's times are readable, its system call is not",
            "waits of static and set-user-ID programs have a duration but no reason",
            "run as root, or with a kernel that has CONFIG_HAVE_ARCH_TRACEHOOK (/proc/PID/syscall)",
        ),
        None => less(
            NAME,
            State::Absent,
            "/proc does not show threads' times (schedstat)",
            "static and set-user-ID programs cannot be recorded without privilege",
            "mount /proc, and use a kernel with CONFIG_SCHED_INFO",
        ),
    }
}

/// Capabilities without which the kernel recorder is refused, by number.
const OF_BPF: [(u32, &str); 2] = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];
const PTRACE: (u32, &str) = (19, "CAP_SYS_PTRACE");
const NET_RAW: (u32, &str) = (13, "CAP_NET_RAW");
const ADMIN: (u32, &str) = (21, "CAP_SYS_ADMIN");

/// Returns which of these this process lacks. CAP_SYS_ADMIN has what is in CAP_BPF and CAP_PERFMON.
fn lacking_capabilities(wanted: &[(u32, &'static str)]) -> Vec<&'static str> {
    let effective = status::here().bits("CapEff").unwrap_or(u64::MAX);
    let has = |bit: u32| effective & (1 << bit) != 0;
    let covered = |wanted: &(u32, &str)| OF_BPF.contains(wanted) && has(ADMIN.0);
    wanted.iter().filter(|wanted| !has(wanted.0) && !covered(wanted)).map(|(_, name)| *name).collect()
}

fn capabilities() -> Finding {
    const NAME: &str = "capabilities";
    if status::here().bits("CapEff").is_none() {
        return less(NAME, State::Limited, "not reported by the kernel", "which recorders are allowed shows only when they are tried", "");
    }
    let wanted = [OF_BPF[0], OF_BPF[1], PTRACE, NET_RAW];
    let lack = lacking_capabilities(&wanted);
    let have: Vec<&str> = wanted.iter().map(|(_, name)| *name).filter(|name| !lack.contains(name)).collect();
    if lack.is_empty() {
        return good(NAME, have.join(", "));
    }
    less(
        NAME,
        if have.is_empty() { State::Absent } else { State::Limited },
        if have.is_empty() { "none that a recorder uses".to_owned() } else { have.join(", ") },
        "CAP_BPF and CAP_PERFMON: the kernel recorder; CAP_SYS_PTRACE: other users' processes; CAP_NET_RAW: `rpcstat` on an interface",
        "run as root, or `setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_net_raw+ep` on the command",
    )
}

fn type_information() -> Finding {
    const NAME: &str = "kernel types (BTF)";
    match fs::metadata("/sys/kernel/btf/vmlinux") {
        Ok(metadata) => good(NAME, format!("/sys/kernel/btf/vmlinux, {} KiB", metadata.len() >> 10)),
        Err(_) => less(
            NAME,
            State::Absent,
            "there is no /sys/kernel/btf/vmlinux",
            "the kernel recorder cannot locate fields in this kernel's structures",
            "use a kernel with CONFIG_DEBUG_INFO_BTF (every distribution's since 2021)",
        ),
    }
}

fn perf_events() -> Finding {
    const NAME: &str = "perf events";
    let Some(level) = fix::value_of("kernel.perf_event_paranoid").and_then(|text| text.parse::<i32>().ok()) else {
        return less(NAME, State::Absent, "this kernel has none", "no CPU samples", "use a kernel with CONFIG_PERF_EVENTS");
    };
    if level <= 1 || lacking_capabilities(&OF_BPF[1..]).is_empty() {
        return good(NAME, format!("perf_event_paranoid is {level}"));
    }
    match switches::allowed() {
        // Lowering the setting would not help: samples of the whole machine are taken through BPF.
        Ok(()) => less(
            NAME,
            State::Limited,
            format!("perf_event_paranoid is {level}: the code of your own programs"),
            "no CPU samples of the kernel and of other users' programs without CAP_PERFMON",
            "as for the recorder bpf; the setting can stay as it is",
        ),
        Err(_) => less(
            NAME,
            State::Limited,
            format!("perf_event_paranoid is {level}"),
            "no CPU samples without CAP_PERFMON, not even of your own programs",
            "as for the recorder user: your own programs; as for the recorder bpf: all",
        ),
    }
}

fn ptrace_scope() -> Finding {
    const NAME: &str = "looking at processes";
    const SETTING: &str = "kernel.yama.ptrace_scope";
    let level = fix::value_of(SETTING).and_then(|text| text.parse::<u8>().ok()).unwrap_or(0);
    let fix = |value: &str, gives_up: &str| {
        let adds = "the reason of each wait of processes of the same user that are named with --also";
        Fix::setting("ptrace-scope", SETTING, value, adds, "all users of this machine").map(|fix| fix.giving_up(gives_up))
    };
    match (level, lacking_capabilities(&[PTRACE]).is_empty()) {
        (0, _) | (_, true) => good(NAME, format!("ptrace scope {level}: processes of the same user (root: all)")),
        (1, _) => less(
            NAME,
            State::Limited,
            "ptrace scope 1: only children of the recorder",
            "waits of processes named with --also have a duration but no reason",
            "`sysctl kernel.yama.ptrace_scope=0`, or run as root",
        )
        .with(fix("0", "a program may then read and change the memory of its user's other programs")),
        (3, _) => less(
            NAME,
            State::Absent,
            "ptrace scope 3: none, until the next boot",
            "waits seen in /proc have a duration but no reason",
            "boot with another kernel.yama.ptrace_scope, or run as root",
        ),
        (level, _) => less(
            NAME,
            State::Absent,
            format!("ptrace scope {level}: none"),
            "waits seen in /proc have a duration but no reason",
            "`sysctl kernel.yama.ptrace_scope=1`, or run as root",
        )
        .with(fix("1", "a program may then read and change the memory of the programs that it starts")),
    }
}

fn tracepoints() -> Finding {
    const NAME: &str = "tracefs";
    const AT: &str = "/sys/kernel/tracing";
    let found = [AT, "/sys/kernel/debug/tracing"].into_iter().find(|path| Path::new(path).join("events").is_dir());
    let Some(path) = found else {
        let fix = Fix::mount("tracefs", "tracefs", AT, "tracing with perf trace and trace-cmd", "nobody; only root can read these files");
        // The kernel recorder attaches through BTF and does not need tracefs.
        return less(
            NAME,
            State::Limited,
            "not mounted, or not readable",
            "nothing for these recorders; other tools (perf trace, trace-cmd) need it",
            "`mount -t tracefs tracefs /sys/kernel/tracing` as root",
        )
        .with(fix.filter(|_| rustix::process::geteuid().is_root()));
    };
    good(NAME, path)
}

fn socket_diagnostics() -> Finding {
    const NAME: &str = "socket diagnostics";
    match Diagnostics::open().and_then(|mut diagnostics| diagnostics.sockets()) {
        Ok(sockets) => {
            let connections = sockets.iter().filter(|socket| socket.info.is_some()).count();
            good(NAME, format!("TCP statistics of {connections} sockets in this network namespace"))
        }
        Err(error) => less(
            NAME,
            State::Absent,
            format!("the kernel refuses: {error}"),
            "without the kernel recorder, connections of processes named with --also are not seen",
            "load the modules tcp_diag and inet_diag, or allow netlink in the container",
        )
        .with(Fix::modules(
            "socket-diagnostics",
            &["inet_diag", "tcp_diag"],
            "TCP's state of connections, without the kernel recorder",
        )),
    }
}

fn scheduler_times() -> Finding {
    const NAME: &str = "scheduler times";
    let times = read("/proc/self/schedstat").is_some_and(|text| text.split_ascii_whitespace().count() == 3);
    if times {
        return good(NAME, "time running and time in the run queue, for each thread");
    }
    less(
        NAME,
        State::Absent,
        "/proc/PID/schedstat does not exist",
        "waiting for a processor cannot be distinguished from waiting for something else",
        "use a kernel with CONFIG_SCHED_INFO, or the kernel recorder",
    )
}

fn control_groups() -> Finding {
    const NAME: &str = "control groups";
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let hybrid = Path::new("/sys/fs/cgroup/unified/cgroup.controllers").exists() || Path::new("/sys/fs/cgroup/cpu").is_dir();
    let version = match (unified, hybrid) {
        (true, _) => "version 2",
        (false, true) => "version 1",
        (false, false) => {
            let costs = "CPU quotas, and how long they throttled the program, are not seen";
            let adds = "CPU quotas, and how long they throttled the program";
            let fix = Fix::mount("control-groups", "cgroup2", "/sys/fs/cgroup", adds, "programs that look for control groups find them");
            return less(
                NAME,
                State::Absent,
                "not mounted under /sys/fs/cgroup",
                costs,
                "`mount -t cgroup2 cgroup2 /sys/fs/cgroup` as root",
            )
            .with(fix);
        }
    };
    match quota::processors(std::process::id()) {
        None => good(NAME, format!("{version}, no processor quota here")),
        Some(quota) => less(
            NAME,
            State::Limited,
            format!("{version}, {quota:.2} processors at most"),
            "programs run from here are throttled beyond it",
            "raise cpu.max (version 1: cpu.cfs_quota_us) of this control group",
        ),
    }
}

fn shared_memory() -> Finding {
    const NAME: &str = "shared memory";
    const WANTED_BYTES: u64 = 64 << 20;
    match rustix::fs::statvfs("/dev/shm").map(|status| status.f_bavail * status.f_frsize) {
        Ok(bytes) if bytes >= WANTED_BYTES => good(NAME, format!("{} MiB free in /dev/shm", bytes >> 20)),
        Ok(bytes) => less(
            NAME,
            State::Limited,
            format!("{} MiB free in /dev/shm", bytes >> 20),
            "threads that do not fit are not recorded by the preloaded library (280 KiB each)",
            "enlarge it: `mount -o remount,size=1G /dev/shm` (containers: --shm-size)",
        )
        .with(Fix::size(
            "shared-memory",
            "/dev/shm",
            1 << 30,
            "room for the rings of some thousand threads",
            "all users: programs may then take as much memory",
        )),
        Err(error) => less(NAME, State::Absent, error.to_string(), "the rings of programs are on a disk, in TMPDIR", "mount a tmpfs there")
            .with(Fix::mount(
                "shared-memory",
                "tmpfs",
                "/dev/shm",
                "memory for the rings of programs",
                "all users: programs may then keep files in memory",
            )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_less_than_good_says_what_it_costs_and_names_are_said_once() {
        let found = probe();
        let mut names: Vec<_> = found.iter().map(|finding| &finding.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), found.len());
        for finding in &found {
            assert!(!finding.found.is_empty(), "{finding:?}");
            assert_eq!(finding.state == State::Good, finding.costs.is_empty(), "{finding:?}");
        }
    }
}
