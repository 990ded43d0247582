//! Reading the log at a start: records to apply, a torn tail, or damage.
//!
//! A killed process leaves a last record that is cut short. Power loss leaves anything after the last `fdatasync`, which is before the end
//! of a segment that has a successor. So invalid bytes without a later record are a *torn tail*: no client was promised that they were
//! synced, and they are cut off and counted. With valid records after them they are *damage*: continuing would revert transactions that can
//! still be read, so the start is refused, nothing is changed, and the operator decides. Later records are searched byte by byte, since a
//! record's length may be damaged: a match is a valid checksum with a possible number.
//!
//! [`Scan`] makes every decision on bytes in memory; [`replay`] reads the files.

use super::layers::Layer;
use super::log::{self, HEADER_BYTES, RECORD_HEADER_BYTES, Row};
use crate::database::{DatabaseError, Table};
use std::path::{Path, PathBuf};

/// The result of reading the log at a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Transactions replayed that were not yet in the database's file.
    pub replayed: u64,
    /// Bytes of the log that were dropped.
    pub dropped_bytes: u64,
    /// The files that they were in, set aside.
    pub aside: Vec<PathBuf>,
    /// The damage that the operator chose to accept.
    pub damage: Option<String>,
}

impl Recovery {
    /// Returns a sentence for the operator if anything was dropped.
    pub fn note(&self) -> Option<String> {
        if self.dropped_bytes == 0 && self.damage.is_none() {
            return None;
        }
        let what = match &self.damage {
            Some(damage) => format!("metadata: {damage}; {} bytes of the log were dropped as requested", self.dropped_bytes),
            None => format!("metadata: the last {} bytes of the log, an incomplete transaction, were dropped", self.dropped_bytes),
        };
        let aside: Vec<_> = self.aside.iter().map(|path| path.display().to_string()).collect();
        Some(if aside.is_empty() { what } else { format!("{what}; they are in {}, which can be inspected or removed", aside.join(", ")) })
    }
}

/// The result of [`replay`].
#[derive(Debug, Default)]
pub(super) struct Replayed {
    pub recovery: Recovery,
    /// The highest sequence number in the log or the database's file: numbers are never reused.
    pub last: u64,
    /// Segments that were applied completely.
    pub applied: Vec<PathBuf>,
    /// Segments from which something was dropped.
    pub dropped: Vec<PathBuf>,
}

/// Reads every segment in `directory` in order into `onto`, starting after record `applied`. Changes nothing in the directory.
pub(super) fn replay(
    directory: &Path,
    identity: u64,
    applied: u64,
    drop_damaged: bool,
    onto: &mut Layer,
) -> Result<Replayed, DatabaseError> {
    let segments = log::segments(directory)?;
    let mut scan = Scan { reached: applied, damage: None, found: Replayed { last: applied, ..Replayed::default() } };
    for (number, path) in &segments {
        let bytes = std::fs::read(path).map_err(|e| DatabaseError::io(path, "cannot read the log", &e))?;
        scan.segment(*number, path, identity, &bytes, onto)?;
    }
    if segments.is_empty() && applied > 0 {
        scan.damage = Some(Damage::at(directory, format!("the log is missing: expected a file log-NNN beside {}", log::DATABASE_FILE)));
    }
    if let Some(damage) = &scan.damage {
        if !drop_damaged {
            return Err(damage.refusal(scan.reached));
        }
        scan.found.recovery.damage = Some(format!("{}: {}", damage.path.display(), damage.what()));
    }
    Ok(scan.found)
}

/// Damage: transactions exist that cannot be applied.
struct Damage {
    path: PathBuf,
    what: String,
    /// Number of valid records after the damage.
    behind: u64,
}

impl Damage {
    fn at(path: &Path, what: String) -> Damage {
        Damage { path: path.to_owned(), what, behind: 0 }
    }

    fn what(&self) -> String {
        match self.behind {
            0 => self.what.clone(),
            many => format!("{}, and {many} whole transactions behind it cannot be applied without what is lost", self.what),
        }
    }

    fn refusal(&self, reached: u64) -> DatabaseError {
        DatabaseError::new(
            &self.path,
            format!(
                "{}. Nothing was changed. Put back a copy of all of the metadata directory's files, or start with --drop-damaged-log: that goes \
                 on as of transaction {reached}, gives up everything after it, and keeps the files as {}...",
                self.what(),
                log::ASIDE
            ),
        )
    }
}

struct Scan {
    /// The last applied transaction.
    reached: u64,
    /// If set, nothing further is applied.
    damage: Option<Damage>,
    found: Replayed,
}

impl Scan {
    /// Reads the next segment, whose name gives the number of its first record.
    fn segment(&mut self, number: u64, path: &Path, identity: u64, bytes: &[u8], onto: &mut Layer) -> Result<(), DatabaseError> {
        let header = log::first_sequence(path, identity, bytes)?;
        let mut at = 0;
        if let Some((first, at_first)) = header {
            if first != number {
                return Err(DatabaseError::new(
                    path,
                    format!("begins with transaction {first}, which differs from its name: rename it back"),
                ));
            }
            if first > self.reached + 1 {
                let missing = format!("begins with transaction {first}, but the last one found before it is {}", self.reached);
                self.damage.get_or_insert_with(|| Damage::at(path, missing));
            }
            if self.damage.is_none() {
                at = HEADER_BYTES + self.records(path, (first, at_first), &bytes[HEADER_BYTES..], onto)?;
            }
            self.found.last = self.found.last.max(first - 1);
        }
        let rest = &bytes[at..];
        if rest.is_empty() {
            self.found.applied.push(path.to_owned());
            return Ok(());
        }
        // Avoids giving a new segment the number of one that is set aside.
        self.found.last = self.found.last.max(number);
        let most = self.found.last.saturating_add((rest.len() / RECORD_HEADER_BYTES) as u64);
        let (behind, last) = whole_records(rest, self.reached, most);
        if behind > 0 {
            let damaged = format!("damaged at byte {at}: transaction {} cannot be read", self.reached + 1);
            self.damage.get_or_insert_with(|| Damage::at(path, damaged)).behind += behind;
            self.found.last = self.found.last.max(last);
        }
        self.found.recovery.dropped_bytes += rest.len() as u64;
        self.found.dropped.push(path.to_owned());
        Ok(())
    }

    /// Applies the new records of a segment; returns the length of its sequence of valid records. The first record is the outcome of
    /// transactions `first` to `joined`.
    fn records(&mut self, path: &Path, (first, joined): (u64, u64), bytes: &[u8], onto: &mut Layer) -> Result<usize, DatabaseError> {
        let mut expected = joined;
        let mut rest = bytes;
        while let Some((sequence, payload, after)) = log::next_record(rest) {
            if sequence != expected {
                break;
            }
            let follows = sequence == self.reached + 1 || sequence == joined && sequence > self.reached && first <= self.reached + 1;
            if follows {
                apply(path, payload, onto)?;
                self.reached = sequence;
                self.found.last = self.found.last.max(sequence);
                self.found.recovery.replayed += 1;
            }
            expected += 1;
            rest = after;
        }
        Ok(bytes.len() - rest.len())
    }
}

/// Searches `bytes` for valid records with a number above `reached` and at most `most`; returns their count and the highest number.
fn whole_records(bytes: &[u8], reached: u64, most: u64) -> (u64, u64) {
    let (mut many, mut last, mut at) = (0, 0, 0);
    while let Some(header) = bytes.get(at..at + RECORD_HEADER_BYTES) {
        let number = log::u64_at(header, 8);
        let plausible = number > reached && number <= most;
        if let Some((_, _, after)) = plausible.then(|| log::next_record(&bytes[at..])).flatten() {
            many += 1;
            last = last.max(number);
            at = bytes.len() - after.len();
        } else {
            at += 1;
        }
    }
    (many, last)
}

pub(super) fn apply(path: &Path, payload: &[u8], onto: &mut Layer) -> Result<(), DatabaseError> {
    let strange = || DatabaseError::new(path, "a valid record has contents that this program does not know: use the program that wrote it");
    let changes: Vec<Row<'_>> = postcard::from_bytes(payload).map_err(|_| strange())?;
    for (table, key, value) in changes {
        let table = Table::from_number(table).ok_or_else(strange)?;
        onto.set(table, key.to_vec(), value.map(<[u8]>::to_vec));
    }
    Ok(())
}

/// Returns the combined changes of a whole segment's records, and the number of the first one; `None` if it has none.
pub(super) fn outcome_of(path: &Path, identity: u64) -> Result<Option<(u64, Layer)>, DatabaseError> {
    let bytes = std::fs::read(path).map_err(|e| DatabaseError::io(path, "cannot read the log", &e))?;
    let Some((first, _)) = log::first_sequence(path, identity, &bytes)? else { return Ok(None) };
    let mut layer = Layer::default();
    let mut rest = &bytes[HEADER_BYTES..];
    while let Some((_, payload, after)) = log::next_record(rest) {
        apply(path, payload, &mut layer)?;
        rest = after;
    }
    Ok((!layer.is_empty()).then_some((first, layer)))
}

/// Refuses a directory with a log but no database file: a new database would not match the log.
pub(super) fn refuse_a_log_without_its_database(directory: &Path, path: &Path) -> Result<(), DatabaseError> {
    let there = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0);
    if there || log::segments(directory)?.is_empty() {
        return Ok(());
    }
    Err(DatabaseError::new(path, "missing or empty, although there is a log beside it: restore all files of the directory from a copy"))
}

/// Deletes the segments before `live`, or sets them aside, once all that was read from them is in the redb file.
pub(super) fn clear_away(directory: &Path, found: Replayed, live: &log::Segment) -> Result<Recovery, DatabaseError> {
    let mut recovery = found.recovery;
    for path in &found.dropped {
        recovery.aside.push(log::put_aside(path)?);
    }
    for path in found.applied.iter().filter(|path| **path != live.path) {
        std::fs::remove_file(path).map_err(|e| DatabaseError::io(path, "cannot remove", &e))?;
    }
    thalweg_base::durable::sync_directory(directory).map_err(|e| DatabaseError::io(directory, "cannot sync", &e))?;
    Ok(recovery)
}
