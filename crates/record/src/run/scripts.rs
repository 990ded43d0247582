//! Distinguishes processes of one name by what each runs: `python3 (producer.py)`.
//!
//! The kernel names a process after its program. Where several in a recording share a name, the command line
//! distinguishes them: the file the program was given to run, the text after `-c` or `-e`, the module after `-m`. The
//! words and the files they name decide, not a list of interpreters, so other programs are distinguished too if each
//! was given a different text file.
//!
//! All recorders' events pass through here. Command lines are read as processes appear, for most are gone at the end;
//! files are examined after the recording, because their file system may be a recorded one, or hang.

use crate::symbols::open_file;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_trace::{Event, Role, Sink, Track, TrackKind, secrets};

/// Maximum distinct scripts to name separately; with more, each is an instance of a kind.
const MOST_DIFFERENT: usize = 4;
/// Maximum command lines read per name and in total: in a storm of short processes the rest keep their name.
const MOST_OF_NAME: usize = 64;
const MOST_LINES: usize = 512;

/// Maximum tracks remembered.
const MOST_TRACKS: usize = 65_536;

/// Maximum words of a command line examined, and bytes of them.
const MOST_WORDS: usize = 24;
const MOST_BYTES: usize = 4_096;

/// Characters shown of a program's text.
const SHOWN: usize = 20;

/// A process's command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line {
    words: Vec<String>,
    directory: PathBuf,
}

#[derive(Debug, Default)]
struct CommandLines {
    /// Threads of recorded processes, by track.
    tracks: HashMap<u64, Track>,
    /// By process: the name under which its command line was read.
    lines: HashMap<u32, (String, Line)>,
    of_name: HashMap<String, usize>,
    read: usize,
}

/// Passes events on, and remembers the processes in them.
pub(super) struct Scripts {
    inner: Arc<dyn Sink>,
    lines: Mutex<CommandLines>,
}

impl Scripts {
    pub(super) fn before(inner: Arc<dyn Sink>) -> Arc<Scripts> {
        Arc::new(Scripts { inner, lines: Mutex::default() })
    }

    /// Ends the recording: processes that share a name are renamed after their scripts.
    pub(super) fn finish(&self) {
        let lines = std::mem::take(&mut *self.lines.lock());
        let named = lines.distinguished(|line| script(&line.words, |path| is_text(&line.directory.join(path))));
        self.inner.take(&mut named.into_iter().map(Event::Track).collect());
    }
}

impl Sink for Scripts {
    fn take(&self, batch: &mut Vec<Event>) {
        let mut lines = None;
        for event in batch.iter() {
            if let Event::Track(track) = event
                && track.kind == TrackKind::Thread
                && matches!(track.role, Role::Client | Role::Server)
            {
                lines.get_or_insert_with(|| self.lines.lock()).met(track, read_line);
            }
        }
        drop(lines);
        self.inner.take(batch);
    }
}

fn read_line(pid: u32) -> Option<Line> {
    let mut bytes = vec![0; MOST_BYTES];
    let file = std::fs::File::open(format!("/proc/{pid}/cmdline")).ok()?;
    let read = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(read);
    let words = bytes.split(|byte| *byte == 0).take(MOST_WORDS).map(|word| String::from_utf8_lossy(word).into_owned());
    Some(Line { words: words.collect(), directory: std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default() })
}

impl CommandLines {
    /// Notes a new thread, or a thread's new name.
    fn met(&mut self, track: &Track, read: impl Fn(u32) -> Option<Line>) {
        if self.tracks.len() < MOST_TRACKS {
            self.tracks.insert(track.track.number(), track.clone());
        }
        let Some(pid) = track.pid.filter(|_| track.pid == track.tid) else { return };
        if self.lines.get(&pid).is_some_and(|(name, _)| *name == track.name) {
            return;
        }
        let count = self.of_name.entry(track.name.clone()).or_default();
        if *count >= MOST_OF_NAME || self.read >= MOST_LINES {
            return;
        }
        *count += 1;
        self.read += 1;
        match read(pid) {
            Some(line) => drop(self.lines.insert(pid, (track.name.clone(), line))),
            None => drop(self.lines.remove(&pid)),
        }
    }

    /// Returns the renamed tracks: those of programs that ran different scripts under one name.
    fn distinguished(self, script: impl Fn(&Line) -> Option<String>) -> Vec<Track> {
        let mut by_name: HashMap<&str, Vec<(u32, Option<&Line>)>> = HashMap::new();
        for track in self.tracks.values() {
            if let Some(pid) = track.pid.filter(|_| track.pid == track.tid) {
                let line = self.lines.get(&pid).filter(|(name, _)| *name == track.name).map(|(_, line)| line);
                by_name.entry(&track.name).or_default().push((pid, line));
            }
        }
        let mut called: HashMap<u32, (&str, String)> = HashMap::new();
        for (name, processes) in by_name.into_iter().filter(|(_, processes)| processes.len() > 1) {
            let scripts: Vec<(u32, Option<String>)> = processes.into_iter().map(|(pid, line)| (pid, line.and_then(&script))).collect();
            // If many differ, each is an instance of a kind, and the program's name says more.
            let different = scripts.iter().map(|(_, script)| script).collect::<BTreeSet<_>>().len();
            if (2..=MOST_DIFFERENT).contains(&different) {
                called.extend(scripts.into_iter().filter_map(|(pid, script)| Some((pid, (name, script?)))));
            }
        }
        let renamed = |track: &Track| {
            let (name, script) = called.get(&track.pid?)?;
            let rest = track.name.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
            Some(Track { name: format!("{name} ({script}){rest}"), ..track.clone() })
        };
        let mut renamed: Vec<Track> = self.tracks.values().filter_map(renamed).collect();
        renamed.sort_unstable_by_key(|track| track.track.number());
        renamed
    }
}

/// Returns what a program was given to run: the first text file, the text after `-c` or `-e`, or the module after
/// `-m`, whichever comes first. A non-text file ends the search: it is data. A word that names no file may be an
/// option's value; it counts only if it looks like a file deleted since.
fn script(words: &[String], is_text: impl Fn(&str) -> Option<bool>) -> Option<String> {
    let mut gone = None;
    for (at, word) in words.iter().enumerate().skip(1) {
        if let Some(options) = word.strip_prefix('-') {
            let next = words.get(at + 1).filter(|next| is_text(next).is_none());
            match next {
                Some(module) if options == "m" && is_module(module) => return Some(format!("-m {module}")),
                Some(text) if options.ends_with(['c', 'e']) && is_cluster(options) && is_program(text) => {
                    return Some(format!("-{} {}", &options[options.len() - 1..], shown(text)));
                }
                _ => {}
            }
            continue;
        }
        match is_text(word) {
            Some(true) => return Some(base(word).to_owned()),
            Some(false) => return None,
            None if gone.is_none() && has_extension(word) => gone = Some(base(word).to_owned()),
            None => {}
        }
    }
    gone
}

/// Whether this is a cluster of one-letter options.
fn is_cluster(options: &str) -> bool {
    options.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn is_module(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b))
}

/// Whether a word looks like a program file, as option values hardly ever do.
fn is_program(word: &str) -> bool {
    word.contains([' ', '\n', '(', ';'])
}

fn has_extension(word: &str) -> bool {
    let extension = base(word).rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
    extension
        .is_some_and(|e| e.len() <= 4 && e.starts_with(|c: char| c.is_ascii_alphabetic()) && e.bytes().all(|b| b.is_ascii_alphanumeric()))
}

fn base(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// Returns the beginning of a program's text, with directories and secrets removed.
fn shown(text: &str) -> String {
    let cut = secrets::cut_line(text);
    let words: Vec<&str> = cut.split_whitespace().map(base).collect();
    let line = words.join(" ").replace('/', "");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

/// Whether a file is text; `None` if it does not exist.
fn is_text(path: &Path) -> Option<bool> {
    let file = open_file(path)?;
    let mut bytes = [0; 256];
    let read = file.read_at(&mut bytes, 0).ok()?;
    Some(read > 0 && !bytes[..read].contains(&0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_trace::{HostId, TrackId};

    fn script_of(line: &str) -> Option<String> {
        let words: Vec<String> = line.split('|').map(str::to_owned).collect();
        script(&words, |path| match path {
            "/src/a.py" | "b.js" | "run" => Some(true),
            "data.bin" => Some(false),
            _ => None,
        })
    }

    #[test]
    fn what_a_program_runs_is_its_first_text_file_its_text_or_its_module() {
        let said = |line| script_of(line).unwrap_or_default();
        assert_eq!(said("python3|/src/a.py|b.js"), "a.py");
        assert_eq!(said("python3|-u|-W|ignore|/src/a.py"), "a.py", "an option's value is no file");
        assert_eq!(said("node|--max-old-space-size=64|b.js"), "b.js");
        assert_eq!(said("bash|run|x"), "run");
        assert_eq!(said("python3|-m|http.server|8000"), "-m http.server");
        assert_eq!(said("sh|-c|cat /data/deep/x; sort"), "-c cat x; sort");
        assert_eq!(said("bash|-ec|while read line; do echo $line; done"), "-c while read line; do…");
        assert_eq!(said("perl|-e|print(1)"), "-e print(1)");
        assert_eq!(said("python3|gone.py|b.js"), "b.js");
        assert_eq!(said("python3|gone.py|17"), "gone.py", "deleted by now");
    }

    #[test]
    fn what_runs_nothing_has_no_script() {
        for line in
            ["gzip", "gzip|-c|data.bin", "gzip|-9c|data.bin|b.js", "sort|-m|/src", "dd|if=/dev/zero|bs=1M", "sleep|0.5", "mkdir|-m|755"]
        {
            assert_eq!(script_of(line), None, "{line}");
        }
    }

    #[test]
    fn a_secret_in_a_text_is_not_shown() {
        let said = script_of("sh|-c|PASSWORD=hunter2 run it").unwrap_or_default();
        assert!(!said.contains("hunter2"), "{said}");
    }

    fn track(number: u64, pid: u32, tid: u32, name: &str) -> Track {
        let (kind, role) = (TrackKind::Thread, Role::Client);
        let track = TrackId::new(number).expect("a number");
        Track { track, host: HostId(0), kind, role, pid: Some(pid), tid: Some(tid), name: name.to_owned() }
    }

    fn named(tracks: &[Track]) -> Vec<(u64, String)> {
        let mut lines = CommandLines::default();
        // A process runs what its number says; numbers with the same tens digit run the same.
        let read = |pid: u32| Some(Line { words: vec![(pid / 10).to_string()], ..Line::default() });
        tracks.iter().for_each(|track| lines.met(track, read));
        let script = |line: &Line| Some(line.words[0].clone()).filter(|word| word != "9");
        lines.distinguished(script).into_iter().map(|track| (track.track.number(), track.name)).collect()
    }

    #[test]
    fn processes_of_one_name_that_run_different_things_are_distinguished_with_their_threads() {
        let tracks = [track(1, 10, 10, "node"), track(2, 20, 20, "node"), track(3, 20, 21, "node/worker"), track(4, 30, 30, "sort")];
        let expected = [(1, "node (1)"), (2, "node (2)"), (3, "node (2)/worker")].map(|(track, name)| (track, name.to_owned()));
        assert_eq!(named(&tracks), expected);
        let with_one_of_nothing = [track(1, 10, 10, "node"), track(2, 90, 90, "node")];
        assert_eq!(named(&with_one_of_nothing), [(1, "node (1)".to_owned())]);
    }

    #[test]
    fn equal_ones_and_single_ones_keep_their_names() {
        assert_eq!(named(&[track(1, 1, 1, "node"), track(2, 2, 2, "node")]), []);
        assert_eq!(named(&[track(1, 10, 10, "node"), track(2, 20, 20, "python3")]), []);
        let before_it_began = track(2, 20, 20, "node");
        assert_eq!(named(&[track(1, 10, 10, "node"), before_it_began, track(2, 20, 20, "python3")]), []);
    }
}
