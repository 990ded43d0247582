//! What the command said last, and what failed last: the last lines of its processes' standard error that say why, and the last call that failed for want of something.
//! They are recorded where it failed, as attributes, and only then (run/mod.rs).

use super::stack_lines::last_reason;
use super::syscalls::Call;
use crate::bpf::raw::{LookHead, WordsHead};
use std::collections::HashMap;
use thalweg_trace::secrets;

/// Bound: of each process so much of the end of its standard error is kept, and of so many processes.
const MOST_BYTES: usize = 4_096;
const MOST_PROCESSES: usize = 256;

/// Bound: a line is cut to so many characters.
const MOST_CHARACTERS: usize = 160;

/// Bound: of so many processes that wrote before the last one, the last line is recorded.
const MOST_BEFORE: usize = 4;

/// What is wanting for all that a process does, and not at one path.
const LASTS: [i32; 4] = [libc::EMFILE, libc::ENFILE, libc::ENOSPC, libc::EDQUOT];

/// Calls that fail for the same within this of each other do so in a row. A program that went on for longer has coped.
const IN_A_ROW_NS: u64 = 1_000_000_000;

/// The attributes, of which a recording has none where its command did not fail.
pub(crate) const SAID: &str = "ended.said";
pub(crate) const SAID_BY: &str = "ended.said_by";
pub(crate) const FAILED: &str = "ended.failed";

/// Of the processes that wrote before the last one, latest first: `ended.said_before.1` and so on, each `PID LINE`.
pub(crate) const SAID_BEFORE: &str = "ended.said_before.";

/// A call that failed, and when it, or the last of a row that it began, did.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failed {
    at_ns: u64,
    pid: u32,
    call: Call,
    error: i32,
    path: String,
}

/// All that was said.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// By process: when it wrote last, and the end of it.
    said: HashMap<u32, (u64, Vec<u8>)>,
    failed: Option<Failed>,
}

impl Words {
    /// A process has written to standard error.
    pub(super) fn wrote(&mut self, head: &WordsHead, text: &[u8], pid: u32) {
        if self.said.len() >= MOST_PROCESSES && !self.said.contains_key(&pid) {
            self.said.clear();
        }
        let (at_ns, said) = self.said.entry(pid).or_default();
        *at_ns = head.head.at_ns;
        said.extend_from_slice(text);
        if let Some(too_many) = said.len().checked_sub(MOST_BYTES).filter(|bytes| *bytes > 0) {
            // (The rest of a line is none.)
            let rest = said[too_many..].iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            said.drain(..too_many + rest);
        }
    }

    /// A call of a process has failed.
    pub(super) fn failed(&mut self, look: &LookHead, call: Call, path: Option<String>, pid: u32) {
        let Some(path) = path.filter(|path| path.starts_with('/')) else { return };
        self.note(Failed { at_ns: look.head.at_ns, pid, call, error: -look.result, path });
    }

    /// Where a process has no descriptors or no room left, whatever it does next fails for the same: the first of those in a row is
    /// why, and the others are what it did about it (a runtime looks for its own source, to say where it was).
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

    /// What stands in the recording of them.
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

/// The last line that says why. A line that writes itself anew (of progress) ends at its carriage return.
fn last_line(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let lines: Vec<String> = text.split(['\n', '\r']).map(plain).collect();
    let line = last_reason(&lines.iter().map(String::as_str).collect::<Vec<&str>>())?.trim();
    let cut: String = line.chars().take(MOST_CHARACTERS).collect();
    Some(if cut.len() < line.len() { cut + "…" } else { cut })
}

/// A line without what says to a terminal how to show it.
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
