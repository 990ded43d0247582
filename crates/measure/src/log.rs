//! The raw log: a line of JSON for every run, appended as soon as it ends. A killed measurement resumes from it.
//!
//! The first line is the plan's [`Header`]; runs are never added to another plan's log. A partial last line is ignored and overwritten.

use crate::plan::{Header, Key};
use crate::runs::Run;
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use thalweg_base::release::other_schema;

/// An open log, and the runs in it.
pub(crate) type Opened<P, S, X> = (RawLog, Vec<Run<P, S, X>>);

/// A log open for writing.
#[derive(Debug)]
pub(crate) struct RawLog {
    path: PathBuf,
    file: File,
}

impl RawLog {
    /// Creates a log, or continues an existing one if `resume` is set; returns the runs in it.
    pub(crate) fn open<P: Key, S: Key, X: DeserializeOwned>(path: &Path, header: &Header, resume: bool) -> Result<Opened<P, S, X>> {
        check_log(path, resume)?;
        let at = |doing| Error::file(path, doing);
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(at("opening the raw log"))?;
        let (found, runs, whole) = read(path, &file)?;
        if let Some(found) = found.filter(|found| found != header) {
            let problem = format!("{}:1: has the runs of another measurement ({})", path.display(), found.describe());
            return Err(Error::Log(format!("{problem}: choose another log for this one ({})", header.describe())));
        }
        file.set_len(whole).map_err(at("removing a partial line"))?;
        file.seek(SeekFrom::End(0)).map_err(at("seeking to its end"))?;
        let mut log = RawLog { path: path.to_owned(), file };
        if whole == 0 {
            log.add(header)?;
        }
        Ok((log, runs))
    }

    /// Appends a line.
    pub(crate) fn add(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string(line).expect("numbers, strings and lists always serialise");
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(Error::file(&self.path, "appending a line"))
    }
}

/// Checks that a log may be created here, for a caller with work to do before [`crate::measure`] opens it.
///
/// # Errors
/// A log exists, and is not to be resumed.
pub fn check_log(path: &Path, resume: bool) -> Result<()> {
    if resume || !path.exists() {
        return Ok(());
    }
    let problem = "has the runs of a measurement: resume it with --resume, or choose another log for this one";
    Err(Error::Log(format!("{} {problem}", path.display())))
}

/// Returns the header of a log; `None` if it is empty or does not exist.
///
/// # Errors
/// The file cannot be read, or is not a log.
pub fn header_of(path: &Path) -> Result<Option<Header>> {
    let mut text = String::new();
    match File::open(path).and_then(|file| BufReader::new(file).read_line(&mut text)) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(Error::file(path, "reading the raw log"))?,
    };
    if !text.ends_with('\n') {
        return Ok(None);
    }
    serde_json::from_str(&text).map(Some).map_err(|e| Error::Log(format!("{}:1: not a raw log: {e}", path.display())))
}

/// The header and the runs of a log.
pub type LoggedRuns<P, S, X> = (Header, Vec<Run<P, S, X>>);

/// Reads the header and all runs of a log; `None` if it is empty or does not exist.
///
/// # Errors
/// The file cannot be read, or is not a log.
pub fn read_log<P: Key, S: Key, X: DeserializeOwned>(path: &Path) -> Result<Option<LoggedRuns<P, S, X>>> {
    let file = match File::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::file(path, "reading the raw log"))?,
    };
    let (header, runs, _) = read(path, &file)?;
    Ok(header.map(|header| (header, runs)))
}

type Lines<P, S, X> = (Option<Header>, Vec<Run<P, S, X>>, u64);

/// Reads the header, the runs, and the offset of the end of the last complete line.
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
            let found: Header = serde_json::from_str(&text).map_err(|e| wrong("not a raw log", e.to_string()))?;
            if found.schema != Header::SCHEMA {
                return Err(wrong("not a raw log of this version", other_schema(&found.schema, Header::SCHEMA)));
            }
            header = Some(found);
        } else {
            runs.push(serde_json::from_str(&text).map_err(|e| wrong("not a run", e.to_string()))?);
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
        assert!(open(&header(), true).unwrap_err().contains(":1: not a raw log"));
        let old = serde_json::to_string(&Header { schema: "thalweg.measure-log/0".into(), ..header() }).unwrap();
        std::fs::write(&path, old + "\n").unwrap();
        assert!(open(&header(), true).unwrap_err().contains("a document `thalweg.measure-log` of format 0"));
    }
}
