//! The command's last output and its last failed call: the last lines of its processes' standard error that give a
//! reason, and the last call that failed for lack of a resource. They are recorded as attributes, and only if the
//! command failed (run/mod.rs).

use super::stack_lines::last_reason;
use super::syscalls::Call;
use crate::bpf::raw::{LookHead, WordsHead};
use std::collections::HashMap;
use thalweg_trace::secrets;

/// Bound: bytes kept of the end of each process's standard error, and the number of such processes.
const MOST_BYTES: usize = 4_096;
const MOST_PROCESSES: usize = 256;

/// Bound: maximum characters kept of a line.
const MOST_CHARACTERS: usize = 160;

/// Bound: earlier processes whose last line is recorded.
const MOST_BEFORE: usize = 4;

/// Errors that affect everything a process does, rather than one path.
const LASTS: [i32; 4] = [libc::EMFILE, libc::ENFILE, libc::ENOSPC, libc::EDQUOT];

/// Calls failing with the same error within this time form a series. A program that continued for longer has coped.
const IN_A_ROW_NS: u64 = 1_000_000_000;

/// Attributes of a failed command.
pub(crate) const SAID: &str = "ended.said";
pub(crate) const SAID_BY: &str = "ended.said_by";
pub(crate) const FAILED: &str = "ended.failed";

/// The last lines of earlier writers, latest first: `ended.said_before.1` and so on, each `PID LINE`.
pub(crate) const SAID_BEFORE: &str = "ended.said_before.";

/// A failed call, and the time of it, or of the last call in the series it began.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failed {
    at_ns: u64,
    pid: u32,
    call: Call,
    error: i32,
    path: String,
}

/// Output and failures so far.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// By process: when it last wrote, and the end of its output.
    said: HashMap<u32, (u64, Vec<u8>)>,
    failed: Option<Failed>,
}

impl Words {
    /// Records what a process wrote to standard error.
    pub(super) fn wrote(&mut self, head: &WordsHead, text: &[u8], pid: u32) {
        if self.said.len() >= MOST_PROCESSES && !self.said.contains_key(&pid) {
            self.said.clear();
        }
        let (at_ns, said) = self.said.entry(pid).or_default();
        *at_ns = head.head.at_ns;
        said.extend_from_slice(text);
        if let Some(too_many) = said.len().checked_sub(MOST_BYTES).filter(|bytes| *bytes > 0) {
            // (Drops the partial first line.)
            let rest = said[too_many..].iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            said.drain(..too_many + rest);
        }
    }

    /// Records a failed call of a process.
    pub(super) fn failed(&mut self, look: &LookHead, call: Call, path: Option<String>, pid: u32) {
        let Some(path) = path.filter(|path| path.starts_with('/')) else { return };
        self.note(Failed { at_ns: look.head.at_ns, pid, call, error: -look.result, path });
    }

    /// Notes a failure. When a process has run out of descriptors or space, whatever it does next fails for the same
    /// reason: the first failure in a series is the cause, and the rest are reactions (a runtime reading its own
    /// source, to print where it failed).
    fn note(&mut self, failed: Failed) {
        let goes_on = |last: &&mut Failed| {
            let is_alike = last.pid == failed.pid && last.error == failed.error && LASTS.contains(&failed.error);
            is_alike && failed.at_ns <= last.at_ns + IN_A_ROW_NS
        };
        match self.failed.as_mut().filter(goes_on) {
            Some(first) => first.at_ns = failed.at_ns,
            None => self.failed = Some(failed),
        }
    }

    /// Returns the recording's attributes.
    pub(crate) fn attributes(&self) -> Vec<(String, String)> {
        let lines = self.said.iter().filter_map(|(pid, (at_ns, said))| Some((*at_ns, *pid, secrets::cut_line(&last_line(said)?))));
        let mut lines: Vec<(u64, u32, String)> = lines.collect();
        lines.sort_by_key(|(at_ns, ..)| std::cmp::Reverse(*at_ns));
        let mut lines = lines.into_iter();
        let (by, last) = lines.next().map_or((None, None), |(_, pid, line)| (Some(pid.to_string()), Some(line)));
        let before =
            lines.take(MOST_BEFORE).zip(1..).map(|((_, pid, line), place)| (format!("{SAID_BEFORE}{place}"), format!("{pid} {line}")));
        let call = |call: Call| match call {
            Call::Read => "read",
            Call::Write | Call::SendFile | Call::Between => "write",
            Call::Open => "open",
            Call::Sync => "sync",
            Call::FileOther => "change",
            _ => "use",
        };
        let failed = self
            .failed
            .as_ref()
            .map(|f| format!("at_ns={} pid={} call={} error={} path={}", f.at_ns, f.pid, call(f.call), f.error, f.path));
        let named = |name: &str, value: Option<String>| value.map(|value| (name.to_owned(), value));
        [named(SAID, last), named(SAID_BY, by), named(FAILED, failed)].into_iter().flatten().chain(before).collect()
    }
}

/// Returns the last line that gives a reason. A line that rewrites itself (progress output) ends at its carriage
/// return.
fn last_line(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let lines: Vec<String> = text.split(['\n', '\r']).map(plain).collect();
    let line = last_reason(&lines.iter().map(String::as_str).collect::<Vec<&str>>())?.trim();
    let cut: String = line.chars().take(MOST_CHARACTERS).collect();
    Some(if cut.len() < line.len() { cut + "…" } else { cut })
}

/// Removes terminal escape sequences from a line.
fn plain(line: &str) -> String {
    let (mut plain, mut rest) = (String::new(), line.chars().peekable());
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' if rest.peek() == Some(&'[') => {
                rest.next();
                while rest.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
            }
            '\u{fffd}' => {}
            c if c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain.truncate(plain.trim_end().len());
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        let of = |text: &str| last_line(text.as_bytes());
        assert_eq!(
            of("cp: error writing 'x': No space left on device\n").as_deref(),
            Some("cp: error writing 'x': No space left on device")
        );
        assert_eq!(of("  0 0 0 --:--\r 10 0 0\ncurl: (7) Failed\n\n").as_deref(), Some("curl: (7) Failed"));
        assert_eq!(of("\u{1b}[31merror\u{1b}[0m: no\n^\n---\n").as_deref(), Some("error: no"));
        assert_eq!(of("\n ^~~ \n"), None);
        assert_eq!(
            of("java.lang.OutOfMemoryError: Java heap space\n\tat J.main(J.java:1)\n").as_deref(),
            Some("java.lang.OutOfMemoryError: Java heap space")
        );
    }

    #[test]
    fn the_first_call_that_failed_of_a_row_for_the_same_is_kept() {
        let mut words = Words::default();
        let mut fail = |at_ms: u64, error: i32, path: &str, pid: u32| {
            words.note(Failed { at_ns: at_ms * 1_000_000, pid, call: Call::Open, error, path: path.to_owned() });
            words.failed.as_ref().map(|failed| (failed.path.clone(), failed.at_ns / 1_000_000)).expect("one")
        };
        assert_eq!(fail(10, libc::EMFILE, "/w/small", 7), ("/w/small".to_owned(), 10));
        assert_eq!(fail(12, libc::EMFILE, "/usr/lib/python3/f.py", 7), ("/w/small".to_owned(), 12));
        assert_eq!(fail(13, libc::EMFILE, "/w/other", 8), ("/w/other".to_owned(), 13));
        assert_eq!(fail(3_000, libc::EMFILE, "/w/later", 8), ("/w/later".to_owned(), 3_000));
        assert_eq!(fail(3_001, libc::EACCES, "/w/mine", 8), ("/w/mine".to_owned(), 3_001));
        assert_eq!(fail(3_002, libc::EACCES, "/w/yours", 8), ("/w/yours".to_owned(), 3_002));
    }

    #[test]
    fn who_wrote_before_the_last_is_recorded_too_latest_first() {
        let mut words = Words::default();
        for (at_ns, pid, text) in [(1, 7, "ld: undefined\n"), (3, 9, "make: *** Error 1\n"), (2, 8, "collect2: ld returned 1\n")] {
            words.said.insert(pid, (at_ns, text.into()));
        }
        let named = |name: &str| words.attributes().into_iter().find(|(known, _)| known == name).map(|(_, value)| value);
        assert_eq!(named(SAID).as_deref(), Some("make: *** Error 1"));
        assert_eq!(named(SAID_BY).as_deref(), Some("9"));
        assert_eq!(named("ended.said_before.1").as_deref(), Some("8 collect2: ld returned 1"));
        assert_eq!(named("ended.said_before.2").as_deref(), Some("7 ld: undefined"));
        assert_eq!(named("ended.said_before.3"), None);
    }
}
