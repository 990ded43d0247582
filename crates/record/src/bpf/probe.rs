//! Whether this machine allows the kernel recorder, and what of it: for the choice of a recorder, and for `doctor`.

use super::load::{NEEDED, OPTIONAL, function_programs};
use crate::RecordError;
use crate::kernel::perf::clock_event;
use crate::kernel::tracepoints::Tracepoints;
use crate::kernel::types::BTF;
use libbpf_rs::libbpf_sys;
use std::os::fd::{FromRawFd, OwnedFd};

/// What the kernel has, if a recorder can be made.
pub(crate) fn allowed() -> Result<Tracepoints, RecordError> {
    if !std::path::Path::new(BTF).exists() {
        return Err(RecordError::NotAllowed(format!(
            "the kernel has no {BTF}: it was built without CONFIG_DEBUG_INFO_BTF, which the kernel recorder needs"
        )));
    }
    if let Err(problem) = ring_buffer() {
        return Err(RecordError::NotAllowed(format!(
            "BPF is not allowed here ({problem}): run as root, or give the command CAP_BPF and CAP_PERFMON (setcap cap_bpf,cap_perfmon+ep)"
        )));
    }
    let tracepoints = Tracepoints::of_kernel().map_err(|e| RecordError::NotAllowed(format!("{BTF} cannot be read: {e}")))?;
    for name in NEEDED {
        if !tracepoints.has(name) {
            return Err(RecordError::NotAllowed(format!("the kernel has no tracepoint {name}, which the kernel recorder needs")));
        }
    }
    Ok(tracepoints)
}

/// Makes a small ring, as the recorder will make a larger one.
fn ring_buffer() -> Result<String, String> {
    // SAFETY: no pointers but the name, which is a C string.
    let fd =
        unsafe { libbpf_sys::bpf_map_create(libbpf_sys::BPF_MAP_TYPE_RINGBUF, c"thalweg_probe".as_ptr(), 0, 0, 65_536, std::ptr::null()) };
    if fd < 0 {
        return Err(std::io::Error::from_raw_os_error(-fd).to_string());
    }
    // SAFETY: the call made this descriptor, and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok("yes".to_owned())
}

fn statistics() -> Result<String, String> {
    // SAFETY: a system call without pointers; 0 is BPF_STATS_RUN_TIME.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(0) };
    if fd < 0 {
        return Err(format!("{}; what the recorder's programs cost is not known", std::io::Error::from_raw_os_error(-fd)));
    }
    // SAFETY: the call made this descriptor, and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok("yes".to_owned())
}

/// What the kernel recorder needs or uses, each with whether it is there, else why not and what is not seen without it.
pub(crate) fn probe() -> Vec<(String, Result<String, String>)> {
    let mut facts = Vec::new();
    let mut say = |name: String, found: Result<String, String>| facts.push((name, found));
    say("BTF (types of the running kernel)".to_owned(), std::fs::metadata(BTF).map(|_| BTF.to_owned()).map_err(|e| format!("{BTF}: {e}")));
    say("BPF ring buffer".to_owned(), ring_buffer());
    say("BPF run-time statistics".to_owned(), statistics());
    let clock = clock_event(0).map(|_| "yes".to_owned());
    say("clock samples".to_owned(), clock.map_err(|e| format!("{e}; what threads do while they run is not known")));
    match Tracepoints::of_kernel() {
        Err(error) => say("tracepoints".to_owned(), Err(error.to_string())),
        Ok(tracepoints) => {
            let needed = NEEDED.iter().map(|t| (*t, "anything"));
            for (tracepoint, what) in needed.chain(OPTIONAL.iter().map(|(_, t, w)| (*t, *w))) {
                let found = if tracepoints.has(tracepoint) { Ok("yes".to_owned()) } else { Err(format!("absent; not seen: {what}")) };
                say(format!("tracepoint {tracepoint}"), found);
            }
            let allowed = function_programs();
            let found = match (&allowed, tracepoints.not_counted(allowed.is_ok())) {
                (Err(error), Some(what)) => Err(format!("{error}; not known: {what}")),
                (_, Some(what)) => Err(format!("some are absent; not known: {what}")),
                (_, None) => Ok("yes".to_owned()),
            };
            say("programs on the kernel's functions (fentry)".to_owned(), found);
        }
    }
    facts
}
