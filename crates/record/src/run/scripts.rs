//! Two `python3` are distinguished by what each runs: `python3 (producer.py)`.
//!
//! The kernel calls a process by its program. Where several of a recording have one name, what distinguishes them is the command line: the file that
//! a program was given to run, the text after `-c` or `-e`, the module after `-m`. That is decided by the words and the files that they name, and
//! not by a list of programs. So what is no interpreter is distinguished too, where each was given another text file.
//!
//! All recorders' events come through here. Command lines are read as processes appear, for most are gone at the end; files are looked at when the
//! recording has ended, because their file system may be one that is recorded, or does not answer.

use crate::symbols::open_file;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_trace::{Event, Role, Sink, Track, TrackKind, secrets};

/// Different ones that have names of their own; more are each for one of many things.
const MOST_DIFFERENT: usize = 4;
/// Command lines that are read, of one name and in all: in a storm of short processes the rest keep their name.
const MOST_OF_NAME: usize = 64;
const MOST_LINES: usize = 512;

/// Tracks that are remembered.
const MOST_TRACKS: usize = 65_536;

/// Words of a command line that are looked at, and bytes of them.
const MOST_WORDS: usize = 24;
const MOST_BYTES: usize = 4_096;

/// Characters of a program's text that are shown.
const SHOWN: usize = 20;

/// What a process was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line {
    words: Vec<String>,
    directory: PathBuf,
}

#[derive(Debug, Default)]
struct Known {
    /// Threads of who is recorded, by their track.
    tracks: HashMap<u64, Track>,
    /// By process: the name under which its command line was read.
    lines: HashMap<u32, (String, Line)>,
    of_name: HashMap<String, usize>,
    read: usize,
}

/// Passes events on, and remembers who is in them.
pub(super) struct Scripts {
    inner: Arc<dyn Sink>,
    known: Mutex<Known>,
}

impl Scripts {
    pub(super) fn before(inner: Arc<dyn Sink>) -> Arc<Scripts> {
        Arc::new(Scripts { inner, known: Mutex::default() })
    }

    /// The recording ends: who has one name with others is called by what it ran.
    pub(super) fn finish(&self) {
        let known = std::mem::take(&mut *self.known.lock());
        let named = known.distinguished(|line| script(&line.words, |path| is_text(&line.directory.join(path))));
        self.inner.take(&mut named.into_iter().map(Event::Track).collect());
    }
}

impl Sink for Scripts {
    fn take(&self, batch: &mut Vec<Event>) {
        let mut known = None;
        for event in batch.iter() {
            if let Event::Track(track) = event
                && track.kind == TrackKind::Thread
                && matches!(track.role, Role::Client | Role::Server)
            {
                known.get_or_insert_with(|| self.known.lock()).met(track, read_line);
            }
        }
        drop(known);
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

impl Known {
    /// A thread is recorded, or has another name.
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

    /// The tracks that have other names: of programs that ran different things under one.
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
            // Of many that differ, each for one of many things, the name says more.
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

/// What a program was given to run, by its words: the first text file, the text after `-c` or `-e`, or the module after `-m`, whichever comes first.
/// A file that is no text ends the search: it is data. A word that names no file may be an option's value, and is the file only if it looks like
/// one that is gone by now.
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

/// Short options written together.
fn is_cluster(options: &str) -> bool {
    options.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn is_module(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b))
}

/// What a value of an option hardly ever is.
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

/// The beginning of a program's text, its paths without folders and its secrets cut.
fn shown(text: &str) -> String {
    let cut = secrets::cut_line(text);
    let words: Vec<&str> = cut.split_whitespace().map(base).collect();
    let line = words.join(" ").replace('/', "");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

/// Whether a file is text; `None`: there is none.
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
        let mut known = Known::default();
        // A process runs what its number says; those below ten run the same.
        let read = |pid: u32| Some(Line { words: vec![(pid / 10).to_string()], ..Line::default() });
        tracks.iter().for_each(|track| known.met(track, read));
        let script = |line: &Line| Some(line.words[0].clone()).filter(|word| word != "9");
        known.distinguished(script).into_iter().map(|track| (track.track.number(), track.name)).collect()
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
