//! Checks whether, and with which features, this machine allows the kernel recorder: for the choice of a recorder,
//! and for `doctor`.

use super::file_counts::COUNTED;
use super::load::{NEEDED, OPTIONAL, WHO, function_programs};
use crate::RecordError;
use crate::kernel;
use crate::kernel::cost::statistics;
use crate::kernel::probe::ring_buffer;
use crate::kernel::tracepoints::Tracepoints;
use crate::kernel::types::BTF;
use crate::perf::clock_event;

/// Returns the kernel's tracepoints, if a recorder can be created.
pub(crate) fn allowed() -> Result<Tracepoints, RecordError> {
    kernel::probe::allowed(WHO, NEEDED, &COUNTED.map(|(_, function)| function))
}

/// Returns what the kernel recorder needs or uses: each one's detail if present, otherwise why not and what is not
/// seen without it.
pub(crate) fn probe() -> Vec<(String, Result<String, String>)> {
    let mut facts = Vec::new();
    let mut say = |name: String, found: Result<String, String>| facts.push((name, found));
    say("BTF (types of the running kernel)".to_owned(), std::fs::metadata(BTF).map(|_| BTF.to_owned()).map_err(|e| format!("{BTF}: {e}")));
    let yes = |found: std::io::Result<()>| found.map(|()| "yes".to_owned()).map_err(|error| error.to_string());
    say("BPF ring buffer".to_owned(), yes(ring_buffer()));
    let without = |error| format!("{error}; the cost of the recorder's programs is unknown");
    say("BPF run-time statistics".to_owned(), yes(statistics().map(drop)).map_err(without));
    let without = |error| format!("{error}; the activity of running threads is unknown");
    say("clock samples".to_owned(), yes(clock_event(0).map(drop)).map_err(without));
    match Tracepoints::of_kernel(&COUNTED.map(|(_, function)| function)) {
        Err(error) => say("tracepoints".to_owned(), Err(error.to_string())),
        Ok(tracepoints) => {
            let needed = NEEDED.iter().map(|t| (*t, "anything"));
            for (tracepoint, what) in needed.chain(OPTIONAL.iter().map(|(_, t, w)| (*t, *w))) {
                let found = if tracepoints.has(tracepoint) { Ok("yes".to_owned()) } else { Err(format!("absent; not seen: {what}")) };
                say(format!("tracepoint {tracepoint}"), found);
            }
            let allowed = function_programs();
            let found = match (&allowed, tracepoints.not_counted(allowed.is_ok())) {
                (Err(error), Some(what)) => Err(format!("{error}; unknown: {what}")),
                (_, Some(what)) => Err(format!("some are absent; unknown: {what}")),
                (_, None) => Ok("yes".to_owned()),
            };
            say("programs on kernel functions (fentry)".to_owned(), found);
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_has_what_it_needs() {
        let Ok(found) = Tracepoints::of_kernel(&[]) else { return println!("SKIPPED: this kernel has no types") };
        assert!(NEEDED.iter().all(|name| found.has(name)));
        assert!(found.target("iter/task").is_some());
    }
}
