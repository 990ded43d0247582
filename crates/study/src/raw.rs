//! Every time that was taken, one line of JSON each, appended as soon as it is known: what a study goes on from after it was killed.
//!
//! The first line says of what study the lines are ([`Header`]); another study's lines are never added to. A last line that was cut
//! short is left out, and overwritten.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use thalweg_measure::CacheState;

/// The version of the lines.
pub const SCHEMA: &str = "thalweg.layout-study/1";

/// What the lines belong to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// The store's identity.
    pub store: String,
    /// The nodes, in the order of ranks.
    pub nodes: Vec<String>,
    /// Where the disks and links can be told apart from others: what the user said of them.
    pub label: String,
}

/// What is measured: a point of a curve.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The series' name, or a peer's.
    pub series: String,
    /// Through what: `posix` (a local file), `library`, `mount`, `mpich`, `openmpi`, `command`.
    pub via: String,
    /// The pattern's name.
    pub pattern: String,
    /// Bytes of each rank.
    pub part_bytes: u64,
    /// Bytes of a transfer.
    pub transfer_bytes: u64,
}

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Into a new file.
    Write,
    /// Over what is there.
    Rewrite,
    /// Out of it.
    Read,
}

impl Way {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Way::Write => "write",
            Way::Rewrite => "rewrite",
            Way::Read => "read",
        }
    }
}

/// One node's run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// Which way.
    pub way: Way,
    /// Which repetition, from 1.
    pub repeat: usize,
    /// Whose.
    pub node: String,
    /// Bytes it moved.
    pub bytes: u64,
    /// Time of the transfers alone.
    pub transfer_s: f64,
    /// Time of the sync after them; absent where there was none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sync_s: Option<f64>,
    /// The state of the caches before a read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<CacheState>,
    /// What the run's recording says held it up.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub explanation: Option<Digest>,
    /// When it ended, seconds since 1970.
    pub at_unix_s: u64,
}

/// What an explanation says, in a few words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// The verdict's cause.
    pub cause: String,
    /// Where.
    pub place: String,
    /// Its share of the time.
    pub share: f64,
    /// The first charges: cause, place, share.
    pub charges: Vec<(String, String, f64)>,
    /// The verdict's sentence.
    pub sentence: String,
}

impl Line {
    /// Transfers and sync together.
    pub fn synced_s(&self) -> f64 {
        self.transfer_s + self.sync_s.unwrap_or(0.0)
    }
}

/// The file of lines.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Begins a file, or goes on with the one that is there when `resume`; the lines that are there.
    ///
    /// # Errors
    /// It exists and is not to be gone on with, is another study's, or cannot be read or written.
    pub fn open(path: &Path, header: &Header, resume: bool) -> Result<(Log, Vec<Line>)> {
        let at = |doing| Error::file(path, doing);
        if !resume && path.exists() {
            let problem = format!("{} has the times of a study: give --resume to go on with it, or another --out", path.display());
            return Err(Error::Choice(problem));
        }
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(at("opening the raw times"))?;
        let (lines, whole) = read(path, &file, header)?;
        file.set_len(whole).map_err(at("cutting off half a line"))?;
        file.seek(SeekFrom::End(0)).map_err(at("finding its end"))?;
        let mut log = Log { path: path.to_owned(), file };
        if whole == 0 {
            log.put(header)?;
        }
        Ok((log, lines))
    }

    /// Adds a line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, line: &Line) -> Result<()> {
        self.put(line)
    }

    fn put(&mut self, what: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string(what).expect("numbers, strings and lists always serialise");
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(Error::file(&self.path, "adding a line"))
    }
}

/// The lines of a study that is only to be shown.
///
/// # Errors
/// It cannot be read, or is none.
pub fn load(path: &Path) -> Result<(Header, Vec<Line>)> {
    let file = File::open(path).map_err(Error::file(path, "opening the raw times"))?;
    let mut first = String::new();
    BufReader::new(&file).read_line(&mut first).map_err(Error::file(path, "reading it"))?;
    let header: Header = serde_json::from_str(&first).map_err(|e| Error::Choice(format!("{}: no study's times: {e}", path.display())))?;
    (&file).seek(SeekFrom::Start(0)).map_err(Error::file(path, "reading it"))?;
    let (lines, _) = read(path, &file, &header)?;
    Ok((header, lines))
}

/// The lines, and where the last whole one ends.
fn read(path: &Path, file: &File, header: &Header) -> Result<(Vec<Line>, u64)> {
    let (mut lines, mut whole) = (Vec::new(), 0);
    let mut reader = BufReader::new(file);
    let mut text = String::new();
    let mut number = 0;
    loop {
        text.clear();
        let bytes = reader.read_line(&mut text).map_err(Error::file(path, "reading the raw times"))? as u64;
        if bytes == 0 || !text.ends_with('\n') {
            return Ok((lines, whole));
        }
        number += 1;
        let wrong = |problem: String| Error::Choice(format!("{}:{number}: {problem}", path.display()));
        if number == 1 {
            let found: Header = serde_json::from_str(&text).map_err(|e| wrong(format!("no study's times: {e}")))?;
            if found != *header {
                return Err(wrong(format!(
                    "the times of another study ({}, nodes {}): give another --out",
                    found.label,
                    found.nodes.join(", ")
                )));
            }
        } else {
            lines.push(serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?);
        }
        whole += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { schema: SCHEMA.into(), store: "1".into(), nodes: vec!["a".into()], label: "test".into() }
    }

    fn line(repeat: usize) -> Line {
        let point = Point { series: "local".into(), via: "posix".into(), pattern: "part".into(), part_bytes: 1, transfer_bytes: 1 };
        let cache = Some(CacheState::VerifiedEmpty { by: "cachestat".into() });
        Line {
            point,
            way: Way::Read,
            repeat,
            node: "a".into(),
            bytes: 1,
            transfer_s: 0.25,
            sync_s: None,
            cache,
            explanation: None,
            at_unix_s: 7,
        }
    }

    #[test]
    fn a_study_that_was_killed_in_a_line_goes_on_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("raw.jsonl");
        let (mut log, lines) = Log::open(&path, &header(), false).unwrap();
        assert!(lines.is_empty());
        log.add(&line(1)).unwrap();
        log.add(&line(2)).unwrap();
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        let (mut log, lines) = Log::open(&path, &header(), true).unwrap();
        assert_eq!(lines, [line(1)]);
        log.add(&line(3)).unwrap();
        drop(log);
        assert_eq!(load(&path).unwrap().1, [line(1), line(3)]);
    }

    #[test]
    fn the_times_of_another_study_are_never_added_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("raw.jsonl");
        drop(Log::open(&path, &header(), false).unwrap());
        assert!(Log::open(&path, &header(), false).unwrap_err().to_string().contains("--resume"));
        let other = Header { nodes: vec!["b".into()], ..header() };
        let error = Log::open(&path, &other, true).unwrap_err().to_string();
        assert!(error.contains("another study") && error.contains(":1:"), "{error}");
        std::fs::write(&path, "{}\n").unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("no study's times"));
    }
}
