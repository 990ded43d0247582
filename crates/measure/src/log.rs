//! Every time that was taken, one line of JSON each, appended as soon as it is known: what a study goes on from after it was killed.
//!
//! The first line says of what study the lines are (its header); another study's lines are never added to. A last line that was cut
//! short is left out, and overwritten.

use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What the first line is.
pub trait OfStudy: Serialize + DeserializeOwned + PartialEq {
    /// The study in a few words, for whoever has taken the wrong one.
    fn describe(&self) -> String;
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
    pub fn open<L: DeserializeOwned>(path: &Path, header: &impl OfStudy, resume: bool) -> Result<(Log, Vec<L>)> {
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
    pub fn add(&mut self, line: &impl Serialize) -> Result<()> {
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
pub fn load<H: OfStudy, L: DeserializeOwned>(path: &Path) -> Result<(H, Vec<L>)> {
    let file = File::open(path).map_err(Error::file(path, "opening the raw times"))?;
    let mut first = String::new();
    BufReader::new(&file).read_line(&mut first).map_err(Error::file(path, "reading it"))?;
    let header: H = serde_json::from_str(&first).map_err(|e| Error::Choice(format!("{}: no study's times: {e}", path.display())))?;
    (&file).seek(SeekFrom::Start(0)).map_err(Error::file(path, "reading it"))?;
    let (lines, _) = read(path, &file, &header)?;
    Ok((header, lines))
}

/// The lines, and where the last whole one ends.
fn read<H: OfStudy, L: DeserializeOwned>(path: &Path, file: &File, header: &H) -> Result<(Vec<L>, u64)> {
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
            let found: H = serde_json::from_str(&text).map_err(|e| wrong(format!("no study's times: {e}")))?;
            if found != *header {
                return Err(wrong(format!("the times of another study ({}): give another --out", found.describe())));
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
    use crate::raw::{Header, Line, Point, SCHEMA, Way};
    use thalweg_measure::CacheState;

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
        let (mut log, lines) = Log::open::<Line>(&path, &header(), false).unwrap();
        assert!(lines.is_empty());
        log.add(&line(1)).unwrap();
        log.add(&line(2)).unwrap();
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        let (mut log, lines) = Log::open::<Line>(&path, &header(), true).unwrap();
        assert_eq!(lines, [line(1)]);
        log.add(&line(3)).unwrap();
        drop(log);
        assert_eq!(load::<Header, Line>(&path).unwrap().1, [line(1), line(3)]);
    }

    #[test]
    fn the_times_of_another_study_are_never_added_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("raw.jsonl");
        drop(Log::open::<Line>(&path, &header(), false).unwrap());
        assert!(Log::open::<Line>(&path, &header(), false).unwrap_err().to_string().contains("--resume"));
        let other = Header { nodes: vec!["b".into()], ..header() };
        let error = Log::open::<Line>(&path, &other, true).unwrap_err().to_string();
        assert!(error.contains("another study") && error.contains(":1:"), "{error}");
        std::fs::write(&path, "{}\n").unwrap();
        assert!(load::<Header, Line>(&path).unwrap_err().to_string().contains("no study's times"));
    }
}
