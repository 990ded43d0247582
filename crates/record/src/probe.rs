//! What this machine, and this user on it, allow a recorder to see: one finding for each thing that matters.
//!
//! A probe reads, or asks the kernel for something and gives it back at once; it changes nothing. What is less than it could
//! be says what that costs and what would help.

use crate::preload::PreloadRecorder;
use crate::proc::diagnostics::Diagnostics;
use crate::proc::tasks::TaskFiles;
use crate::quota;
use serde::Serialize;
use std::borrow::Cow;
use std::fs;
use std::path::Path;
use thalweg_base::proc::status;

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There, as good as it gets.
    Good,
    /// There, with a limit worth knowing.
    Limited,
    /// Not there.
    Absent,
}

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: Cow<'static, str>,
    /// How it stands.
    pub state: State,
    /// What was found, with units.
    pub found: String,
    /// What its absence or limit costs; empty: nothing.
    pub costs: String,
    /// How to get it; empty: nothing is to be done.
    pub get: String,
}

/// A finding of something that is as good as it gets.
pub fn good(name: impl Into<Cow<'static, str>>, found: impl Into<String>) -> Finding {
    Finding { name: name.into(), state: State::Good, found: found.into(), costs: String::new(), get: String::new() }
}

/// A finding of something that is limited or absent: what that costs, and how to get it.
pub fn less(name: impl Into<Cow<'static, str>>, state: State, found: impl Into<String>, costs: &str, get: &str) -> Finding {
    Finding { name: name.into(), state, found: found.into(), costs: costs.to_owned(), get: get.to_owned() }
}

/// Looks at everything, recorders first.
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

/// What the kernel recorder needs or uses in the kernel, each with whether it is there, else what is not seen without it.
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
    Err("this build has none: it was made without clang, libelf and zlib".to_owned())
}

fn recorder_bpf() -> Finding {
    const NAME: &str = "recorder bpf";
    match bpf_allowed() {
        Ok(()) => good(NAME, "allowed: any program and its servers, waits with who ended them, devices, TCP"),
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
        Ok(_) => good(NAME, "allowed: dynamic programs of this user, from within"),
        Err(error) => less(
            NAME,
            State::Absent,
            error.to_string(),
            "without privilege a program is only sampled through /proc, every few milliseconds",
            "set TMPDIR to a directory on a file system that is not mounted noexec",
        ),
    }
}

fn recorder_proc() -> Finding {
    const NAME: &str = "recorder proc";
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    match TaskFiles::open(std::process::id(), tid) {
        Some(files) if files.doing().is_some() => good(NAME, "allowed: what a thread waits for, by samples, every 2 ms or more seldom"),
        Some(_) => less(
            NAME,
            State::Limited,
            "a thread's times can be read, its system call cannot",
            "waits of static and set-user-ID programs have a length and no reason",
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
    // CAP_SYS_ADMIN stands for the first three on older kernels; none of it is needed where those are there.
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
            "the kernel recorder cannot find its way in this kernel's structures",
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
            "no samples of what a processor was doing without CAP_PERFMON",
            "`sysctl kernel.perf_event_paranoid=1`, or run as root",
        ),
        None => less(
            NAME,
            State::Absent,
            "this kernel has none",
            "no samples of what a processor was doing",
            "use a kernel with CONFIG_PERF_EVENTS",
        ),
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
            "ptrace scope 1: only what we started ourselves",
            "of processes named with --also the waits have a length and no reason",
            "`sysctl kernel.yama.ptrace_scope=0`, or run as root",
        ),
        (level, _) => less(
            NAME,
            State::Absent,
            format!("ptrace scope {level}: nobody's"),
            "waits seen in /proc have a length and no reason",
            "`sysctl kernel.yama.ptrace_scope=1`, or run as root",
        ),
    }
}

fn tracepoints() -> Finding {
    const NAME: &str = "tracefs";
    let found = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].into_iter().find(|path| Path::new(path).join("events").is_dir());
    match found {
        Some(path) => good(NAME, path),
        // The kernel recorder attaches through BTF and needs no tracefs.
        None => less(
            NAME,
            State::Limited,
            "not mounted, or not to be read",
            "nothing for our recorders; other tools (perf trace, trace-cmd) need it",
            "`mount -t tracefs tracefs /sys/kernel/tracing` as root",
        ),
    }
}

fn socket_diagnostics() -> Finding {
    const NAME: &str = "socket diagnostics";
    match Diagnostics::open().and_then(|mut diagnostics| diagnostics.sockets()) {
        Ok(sockets) => {
            let connections = sockets.iter().filter(|socket| socket.info.is_some()).count();
            good(NAME, format!("TCP's own figures of {connections} sockets in this network namespace"))
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
        "/proc/PID/schedstat is not there",
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
            let costs = "a processor quota, and how long it stopped the program, are not seen";
            return less(NAME, State::Absent, "not mounted under /sys/fs/cgroup", costs, "mount them");
        }
    };
    match quota::processors(std::process::id()) {
        None => good(NAME, format!("{version}, no processor quota here")),
        Some(quota) => less(
            NAME,
            State::Limited,
            format!("{version}, {quota:.2} processors at most"),
            "what is run from here is stopped when it has used them",
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
            "threads for which there is no room are not recorded from within (280 KiB each)",
            "enlarge it: `mount -o remount,size=1G /dev/shm` (containers: --shm-size)",
        ),
        Err(error) => less(NAME, State::Absent, error.to_string(), "the rings of programs lie on a disk, in TMPDIR", "mount a tmpfs there"),
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
