//! The embedded database's log: the commits since the last checkpoint, in append-only segments.
//!
//! ```text
//! segment  log-<first sequence number, 20 digits>
//!   0  8  magic "THALWLOG"
//!   8  4  version (1), little endian as everything here
//!  12  4  how many numbers are passed over before the first record's: it joins the records of that many transactions and its own
//!  16  8  identity of the database
//!  24  8  sequence number of the first record, or of the first that the first record joins
//!  32  4  CRC-32C of the bytes 0..32
//!  36  4  reserved, 0
//!  40     records
//! record
//!   0  4  length of the payload
//!   4  4  CRC-32C of the sequence number and the payload
//!   8  8  sequence number: the previous record's + 1, across segments
//!  16     payload: postcard of a list of (table u8, key, value or none): one transaction's changes
//! ```
//!
//! A record holds a transaction's *outcome*, not its operation, so replay is idempotent, and records can be joined: a start on a full disk
//! turns the last segment's records into one ([`Segment::join`]), so that repeated starts do not lengthen the log. A killed process leaves
//! at most one record cut short at the end. Power loss leaves any state of the bytes after the last `fdatasync`. [`super::replay`] reads
//! what is left.
//!
//! Replay distinguishes the effects of power loss from damage. This requires that a segment is named only once its header is on stable
//! storage, and has a successor only once all of its records are; that no sequence number kept in a file is reused; and that a segment is
//! deleted only once all of it is durably in the redb file and its successor exists.

use super::DatabaseError;
use super::layers::Layer;
use super::reserve::Reserve;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_base::durable;
use thalweg_base::private;
use thalweg_base::release;
use thalweg_bulk::crc32c;

/// The redb file beside the log.
pub(super) const DATABASE_FILE: &str = "metadata.redb";
/// Prefix of a segment's name.
const SEGMENT: &str = "log-";
/// Prefix of the name of a segment that was set aside because part of it was dropped.
pub(super) const ASIDE: &str = "damaged-log-";
/// Name of a segment until it has its header. A file of this name was never part of the log.
const BEGUN: &str = "begun-log";
const MAGIC: &[u8; 8] = b"THALWLOG";
const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 40;
pub(super) const RECORD_HEADER_BYTES: usize = 16;
/// Bound: maximum payload of a record. Transactions are far smaller; a larger length indicates a torn record.
const MAX_PAYLOAD_BYTES: u32 = 16 << 20;

/// A segment that is being written, or awaits its checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub path: PathBuf,
    pub file: Arc<File>,
    pub bytes: u64,
}

/// Returns whether a name in the metadata's directory belongs to the database, a log, or a draft of one.
pub(super) fn is_of_database(name: &str) -> bool {
    name == DATABASE_FILE || name == BEGUN || name.starts_with(SEGMENT) || name.starts_with(ASIDE) || name == super::reserve::RESERVE_FILE
}

impl Segment {
    /// Creates a new segment in `directory`, durably. A failure, as on a full disk, leaves the log unchanged, except perhaps for an empty
    /// segment, which is harmless and can be recreated. On a full disk `reserve` lends space.
    pub(super) fn create(
        directory: &Path,
        identity: u64,
        first_sequence: u64,
        reserve: Option<&Reserve>,
    ) -> Result<Segment, DatabaseError> {
        Segment::publish(directory, first_sequence, &header(identity, first_sequence, 0), reserve)
    }

    /// Replaces a segment by a single record of its transactions, from `first_sequence` to `last`, whose changes are `layer`. `None` if
    /// there are too many to join.
    pub(super) fn join(
        directory: &Path,
        identity: u64,
        (first_sequence, last): (u64, u64),
        layer: &Layer,
        reserve: &Reserve,
    ) -> Result<Option<Segment>, DatabaseError> {
        let Ok(passed) = u32::try_from(last - first_sequence) else { return Ok(None) };
        let mut bytes = header(identity, first_sequence, passed);
        encode(&mut bytes, last, layer);
        Segment::publish(directory, first_sequence, &bytes, Some(reserve)).map(Some)
    }

    /// Writes a segment and renames it to its name, replacing any file there.
    fn publish(directory: &Path, first_sequence: u64, bytes: &[u8], reserve: Option<&Reserve>) -> Result<Segment, DatabaseError> {
        let path = directory.join(format!("{SEGMENT}{first_sequence:020}"));
        let begun = directory.join(BEGUN);
        let make = || -> std::io::Result<File> {
            let _ = std::fs::remove_file(&begun);
            let mut file = private::files().append(true).read(true).create_new(true).open(&begun)?;
            if let Some(reserve) = reserve {
                reserve.lend(&file, 0);
            }
            file.write_all(bytes)?;
            durable::publish(&file, &begun, &path)?;
            Ok(file)
        };
        let file = make().map_err(|e| {
            let _ = std::fs::remove_file(&begun);
            DatabaseError::io(&path, "cannot create a log segment", &e)
        })?;
        Ok(Segment { path, file: Arc::new(file), bytes: bytes.len() as u64 })
    }

    /// Opens an existing segment whose records are in memory but not yet in the redb file.
    pub(super) fn reopen(path: PathBuf) -> Result<Segment, DatabaseError> {
        let open = || File::options().append(true).read(true).open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = open().map_err(|e| DatabaseError::io(&path, "cannot open", &e))?;
        Ok(Segment { path, file: Arc::new(file), bytes })
    }

    /// Appends whole records. On failure, cuts the segment back durably, so that a failed write does not reappear after power loss.
    pub(super) fn append(&self, records: &[u8]) -> Result<(), AppendError> {
        (&*self.file).write_all(records).map_err(|e| AppendError {
            error: DatabaseError::io(&self.path, "cannot write the log", &e),
            cut_back: self.file.set_len(self.bytes).and_then(|()| self.file.sync_data()).is_ok(),
        })
    }

    /// Syncs the segment.
    pub(super) fn sync(&self) -> Result<(), DatabaseError> {
        self.file.sync_data().map_err(|e| DatabaseError::io(&self.path, "cannot sync the log", &e))
    }
}

/// A failed append.
#[derive(Debug)]
pub(super) struct AppendError {
    pub error: DatabaseError,
    /// Whether the segment was restored; if not, nothing more may be appended.
    pub cut_back: bool,
}

/// One change in a record's payload: table, key, value.
pub(crate) type Row<'a> = (u8, &'a [u8], Option<&'a [u8]>);

/// Appends a transaction's record to `out`; returns its length in bytes.
pub(crate) fn encode(out: &mut Vec<u8>, sequence: u64, changes: &Layer) -> u64 {
    let list: Vec<Row<'_>> = changes.iter().map(|(t, k, v)| (t as u8, k.as_slice(), v.as_deref())).collect();
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
    out[start + 8..start + 16].copy_from_slice(&sequence.to_le_bytes());
    let payload = postcard::to_stdvec(&list).expect("bytes always encode");
    out.extend_from_slice(&payload);
    let length = u32::try_from(payload.len()).expect("a transaction is far below 4 GiB");
    let crc = crc32c(&out[start + 8..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    (out.len() - start) as u64
}

/// Encodes a segment's header.
fn header(identity: u64, first_sequence: u64, passed: u32) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&passed.to_le_bytes());
    header.extend_from_slice(&identity.to_le_bytes());
    header.extend_from_slice(&first_sequence.to_le_bytes());
    let crc = crc32c(&header);
    header.extend_from_slice(&crc.to_le_bytes());
    header.resize(HEADER_BYTES, 0);
    header
}

/// Decodes a segment's header; returns the sequence number that its name must have, and its first record's. `None` if the header is torn.
pub(super) fn first_sequence(path: &Path, identity: u64, bytes: &[u8]) -> Result<Option<(u64, u64)>, DatabaseError> {
    let Some(header) = bytes.get(..HEADER_BYTES) else { return Ok(None) };
    if crc32c(&header[..32]) != u32_at(header, 32) || &header[..8] != MAGIC {
        return Ok(None);
    }
    let version = u32_at(header, 8);
    if version != VERSION {
        return Err(DatabaseError::new(path, release::other_format("a metadata log", version, VERSION, None)));
    }
    let found = u64_at(header, 16);
    if found != identity {
        return Err(DatabaseError::new(
            path,
            format!(
                "the log belongs to the database {found:016x}, not to {identity:016x} beside it: put back the files that belong together"
            ),
        ));
    }
    let first = u64_at(header, 24);
    Ok(Some((first, first.saturating_add(u32_at(header, 12).into()))))
}

/// Splits off the first record of `bytes`: sequence number, payload, remainder. `None` if it is torn.
pub(super) fn next_record(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (header, rest) = bytes.split_at_checked(RECORD_HEADER_BYTES)?;
    let length = u32_at(header, 0);
    if length > MAX_PAYLOAD_BYTES {
        return None;
    }
    let (payload, after) = rest.split_at_checked(length as usize)?;
    let whole = crc32c(&bytes[8..RECORD_HEADER_BYTES + length as usize]) == u32_at(header, 4);
    whole.then(|| (u64_at(header, 8), payload, after))
}

/// Lists the segments in `directory` in order, with the sequence number in each name.
pub(super) fn segments(directory: &Path) -> Result<Vec<(u64, PathBuf)>, DatabaseError> {
    let list = || -> std::io::Result<Vec<(u64, PathBuf)>> {
        let mut segments = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(SEGMENT)).filter(|digits| digits.len() == 20);
            if let Some(number) = number.and_then(|digits| digits.parse().ok()) {
                segments.push((number, entry.path()));
            }
        }
        segments.sort();
        Ok(segments)
    };
    list().map_err(|e| DatabaseError::io(directory, "cannot list the log's segments", &e))
}

/// Returns the total length of these files.
pub(super) fn bytes_of(segments: &[PathBuf]) -> u64 {
    segments.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|found| found.len()).sum()
}

/// Renames a segment so that it is no longer part of the log; returns its new path.
pub(super) fn put_aside(path: &Path) -> Result<PathBuf, DatabaseError> {
    let number = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(SEGMENT)).unwrap_or_default();
    let names = (0..).map(|again: u32| match again {
        0 => path.with_file_name(format!("{ASIDE}{number}")),
        again => path.with_file_name(format!("{ASIDE}{number}-{again}")),
    });
    let free = names.into_iter().find(|path| !path.exists()).expect("one of so many names is free");
    std::fs::rename(path, &free).map_err(|e| DatabaseError::io(path, "cannot set the damaged log aside", &e))?;
    Ok(free)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
