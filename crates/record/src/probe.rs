//! Reports what this machine lets this user's recorder see: one finding for each relevant feature.
//!
//! A probe reads, or requests something from the kernel and releases it immediately; it changes nothing. A finding
//! that falls short says what that costs and what would help.

use crate::preload::PreloadRecorder;
use crate::proc::diagnostics::Diagnostics;
use crate::proc::tasks::TaskFiles;
use crate::quota;
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
}

/// Creates a finding of a fully available feature.
pub fn good(name: impl Into<Cow<'static, str>>, found: impl Into<String>) -> Finding {
    Finding { name: name.into(), state: State::Good, found: found.into(), costs: String::new(), get: String::new() }
}

/// Creates a finding of a limited or absent feature: what that costs, and how to get it.
pub fn less(name: impl Into<Cow<'static, str>>, state: State, found: impl Into<String>, costs: &str, get: &str) -> Finding {
    Finding { name: name.into(), state, found: found.into(), costs: costs.to_owned(), get: get.to_owned() }
}

/// Runs all probes, recorders first.
pub fn probe() -> Vec<Finding> {
    vec![
        recorder_bpf(),
        recorder_preload(),
        recorder_proc(),
        capabilities(),
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

fn recorder_bpf() -> Finding {
    const NAME: &str = "recorder bpf";
    match bpf_allowed() {
        Ok(()) => good(NAME, "allowed: any program and its servers, waits and their wakers, devices, TCP"),
        Err(why) => less(
            NAME,
            State::Absent,
            why,
            "recordings are made from within the program or from /proc: no page faults, no writeback, no kernel wakers, no other users' servers",
            "run as root, or give the command CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE",
        ),
    }
}

fn recorder_preload() -> Finding {
    const NAME: &str = "recorder preload";
    match PreloadRecorder::new() {
        Ok(_) => good(NAME, "allowed: dynamically linked programs of this user"),
        Err(error) => less(
            NAME,
            State::Absent,
            error.to_string(),
            "without privilege, programs are only sampled through /proc, every few milliseconds",
            "set TMPDIR to a directory on a file system that is not mounted noexec",
        ),
    }
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

/// Capabilities that recorders use, by number.
const CAPABILITIES: [(u32, &str); 5] =
    [(39, "CAP_BPF"), (38, "CAP_PERFMON"), (19, "CAP_SYS_PTRACE"), (13, "CAP_NET_RAW"), (21, "CAP_SYS_ADMIN")];

fn capabilities() -> Finding {
    const NAME: &str = "capabilities";
    let Some(effective) = status::here().bits("CapEff") else {
        return less(NAME, State::Limited, "not reported by the kernel", "which recorders are allowed shows only when they are tried", "");
    };
    let (have, lack): (Vec<_>, Vec<_>) = CAPABILITIES.into_iter().partition(|(bit, _)| effective & (1 << bit) != 0);
    let names = |list: &[(u32, &str)]| list.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    // CAP_SYS_ADMIN covers the first three on older kernels; it is not needed if those are present.
    match lack.iter().any(|(bit, _)| *bit != 21) {
        false => good(NAME, names(&have)),
        true => less(
            NAME,
            if have.is_empty() { State::Absent } else { State::Limited },
            if have.is_empty() { "none that a recorder uses".to_owned() } else { names(&have) },
            "CAP_BPF and CAP_PERFMON: the kernel recorder; CAP_SYS_PTRACE: other users' processes; CAP_NET_RAW: packets",
            "run as root, or `setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_net_raw+ep` on the command",
        ),
    }
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
    match read("/proc/sys/kernel/perf_event_paranoid").and_then(|text| text.parse::<i32>().ok()) {
        Some(level) if level <= 1 || rustix::process::geteuid().is_root() => good(NAME, format!("perf_event_paranoid is {level}")),
        Some(level) => less(
            NAME,
            State::Limited,
            format!("perf_event_paranoid is {level}"),
            "no CPU samples without CAP_PERFMON",
            "`sysctl kernel.perf_event_paranoid=1`, or run as root",
        ),
        None => less(NAME, State::Absent, "this kernel has none", "no CPU samples", "use a kernel with CONFIG_PERF_EVENTS"),
    }
}

fn ptrace_scope() -> Finding {
    const NAME: &str = "looking at processes";
    let level = read("/proc/sys/kernel/yama/ptrace_scope").and_then(|text| text.parse::<u8>().ok()).unwrap_or(0);
    match (level, rustix::process::geteuid().is_root()) {
        (0, _) | (_, true) => good(NAME, format!("ptrace scope {level}: processes of the same user (root: all)")),
        (1, _) => less(
            NAME,
            State::Limited,
            "ptrace scope 1: only children of the recorder",
            "waits of processes named with --also have a duration but no reason",
            "`sysctl kernel.yama.ptrace_scope=0`, or run as root",
        ),
        (level, _) => less(
            NAME,
            State::Absent,
            format!("ptrace scope {level}: none"),
            "waits seen in /proc have a duration but no reason",
            "`sysctl kernel.yama.ptrace_scope=1`, or run as root",
        ),
    }
}

fn tracepoints() -> Finding {
    const NAME: &str = "tracefs";
    let found = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].into_iter().find(|path| Path::new(path).join("events").is_dir());
    match found {
        Some(path) => good(NAME, path),
        // The kernel recorder attaches through BTF and does not need tracefs.
        None => less(
            NAME,
            State::Limited,
            "not mounted, or not readable",
            "nothing for these recorders; other tools (perf trace, trace-cmd) need it",
            "`mount -t tracefs tracefs /sys/kernel/tracing` as root",
        ),
    }
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
        ),
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
            return less(NAME, State::Absent, "not mounted under /sys/fs/cgroup", costs, "mount them");
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
        ),
        Err(error) => less(NAME, State::Absent, error.to_string(), "the rings of programs are on a disk, in TMPDIR", "mount a tmpfs there"),
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
