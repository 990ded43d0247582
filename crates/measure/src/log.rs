//! The raw log: every run, one line of JSON each, appended as soon as it is known. A measurement that was killed goes on from it.
//!
//! The first line is the plan's [`Header`]; another plan's log is never added to. A last line that was cut short is left out, and
//! overwritten.

use crate::plan::{Header, Key};
use crate::runs::Run;
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A log that was opened, and the runs that are in it.
pub(crate) type Opened<P, S, X> = (RawLog, Vec<Run<P, S, X>>);

/// A log that is written.
#[derive(Debug)]
pub(crate) struct RawLog {
    path: PathBuf,
    file: File,
}

impl RawLog {
    /// Begins a log, or goes on with the one that is there when `resume`; the runs that are there.
    pub(crate) fn open<P: Key, S: Key, X: DeserializeOwned>(path: &Path, header: &Header, resume: bool) -> Result<Opened<P, S, X>> {
        check_log(path, resume)?;
        let at = |doing| Error::file(path, doing);
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(at("opening the raw log"))?;
        let (found, runs, whole) = read(path, &file)?;
        if let Some(found) = found.filter(|found| found != header) {
            let problem = format!("{}:1: the runs of another measurement ({})", path.display(), found.describe());
            return Err(Error::Log(format!("{problem}: give another place for this one ({})", header.describe())));
        }
        file.set_len(whole).map_err(at("cutting off half a line"))?;
        file.seek(SeekFrom::End(0)).map_err(at("finding its end"))?;
        let mut log = RawLog { path: path.to_owned(), file };
        if whole == 0 {
            log.add(header)?;
        }
        Ok((log, runs))
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string(line).expect("numbers, strings and lists always serialise");
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(Error::file(&self.path, "adding a line"))
    }
}

/// Whether a log may be begun here, for a caller with something to do before [`crate::measure`] opens it.
///
/// # Errors
/// There is one, and it is not to be gone on with.
pub fn check_log(path: &Path, resume: bool) -> Result<()> {
    if resume || !path.exists() {
        return Ok(());
    }
    let problem = "has the runs of a measurement: give --resume to go on with it, or another place for this one";
    Err(Error::Log(format!("{} {problem}", path.display())))
}

/// Which plan the runs of a log belong to; `None` where nothing is in it yet, or no file is there.
///
/// # Errors
/// It cannot be read, or is none.
pub fn header_of(path: &Path) -> Result<Option<Header>> {
    let mut text = String::new();
    match File::open(path).and_then(|file| BufReader::new(file).read_line(&mut text)) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(Error::file(path, "reading the raw log"))?,
    };
    if !text.ends_with('\n') {
        return Ok(None);
    }
    serde_json::from_str(&text).map(Some).map_err(|e| Error::Log(format!("{}:1: no raw log: {e}", path.display())))
}

/// A plan and its runs.
pub type Kept<P, S, X> = (Header, Vec<Run<P, S, X>>);

/// The plan and all runs of a log, to be looked at; `None` where no file is there, or nothing is in it yet.
///
/// # Errors
/// It cannot be read, or is none.
pub fn read_log<P: Key, S: Key, X: DeserializeOwned>(path: &Path) -> Result<Option<Kept<P, S, X>>> {
    let file = match File::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::file(path, "reading the raw log"))?,
    };
    let (header, runs, _) = read(path, &file)?;
    Ok(header.map(|header| (header, runs)))
}

type Lines<P, S, X> = (Option<Header>, Vec<Run<P, S, X>>, u64);

/// The header, the runs, and where the last whole line ends.
fn read<P: Key, S: Key, X: DeserializeOwned>(path: &Path, file: &File) -> Result<Lines<P, S, X>> {
    let (mut header, mut runs, mut whole) = (None, Vec::new(), 0);
    let mut reader = BufReader::new(file);
    let mut text = String::new();
    for number in 1.. {
        text.clear();
        let bytes = reader.read_line(&mut text).map_err(Error::file(path, "reading the raw log"))? as u64;
        if bytes == 0 || !text.ends_with('\n') {
            break;
        }
        let wrong = |what: &str, problem: String| Error::Log(format!("{}:{number}: {what}: {problem}", path.display()));
        if header.is_none() {
            let found: Header = serde_json::from_str(&text).map_err(|e| wrong("no raw log", e.to_string()))?;
            if found.schema != Header::SCHEMA {
                return Err(wrong("no raw log of this version", format!("{}, expected {}", found.schema, Header::SCHEMA)));
            }
            header = Some(found);
        } else {
            runs.push(serde_json::from_str(&text).map_err(|e| wrong("no run", e.to_string()))?);
        }
        whole += bytes;
    }
    Ok((header, runs, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Line = Run<u32, String, f64>;

    fn header() -> Header {
        Header::new("test", "a disk").of("nodes", ["a"])
    }

    fn run(repeat: usize) -> Line {
        Run { point: 4, subject: "local".into(), repeat, at_unix_s: 7, sample: 0.25 }
    }

    #[test]
    fn a_log_that_was_cut_in_a_line_goes_on_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("raw.jsonl");
        let (mut log, runs) = RawLog::open::<u32, String, f64>(&path, &header(), false).unwrap();
        assert!(runs.is_empty());
        log.add(&run(1)).unwrap();
        log.add(&run(2)).unwrap();
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        let (mut log, runs) = RawLog::open::<u32, String, f64>(&path, &header(), true).unwrap();
        assert_eq!(runs, [run(1)]);
        log.add(&run(3)).unwrap();
        drop(log);
        assert_eq!(RawLog::open::<u32, String, f64>(&path, &header(), true).unwrap().1, [run(1), run(3)]);
    }

    #[test]
    fn the_runs_of_another_plan_are_never_added_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("raw.jsonl");
        let open = |header: &Header, resume| RawLog::open::<u32, String, f64>(&path, header, resume).map(|_| ()).map_err(|e| e.to_string());
        open(&header(), false).unwrap();
        assert!(open(&header(), false).unwrap_err().contains("--resume"));
        let error = open(&Header::new("test", "a disk").of("nodes", ["b"]), true).unwrap_err();
        assert!(error.contains("another measurement (test, a disk, nodes [\"a\"])") && error.contains(":1:"), "{error}");
        std::fs::write(&path, "{}\n").unwrap();
        assert!(open(&header(), true).unwrap_err().contains(":1: no raw log"));
        let old = serde_json::to_string(&Header { schema: "thalweg.measure-log/0".into(), ..header() }).unwrap();
        std::fs::write(&path, old + "\n").unwrap();
        assert!(open(&header(), true).unwrap_err().contains("expected thalweg.measure-log/1"));
    }
}
