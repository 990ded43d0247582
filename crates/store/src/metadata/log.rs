//! The embedded database's log: what was committed since the last checkpoint, in append-only segments.
//!
//! ```text
//! segment  log-<first sequence number, 20 digits>
//!   0  8  magic "THALWLOG"
//!   8  4  version (1), little endian as everything here
//!  12  4  reserved, 0
//!  16  8  identity of the database
//!  24  8  sequence number of the first record
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
//! A record is a transaction's *outcome*, not its operation, so that replaying it twice is replaying it
//! once. A killed process leaves at most one record cut short at the end. Power loss leaves any state
//! of the bytes after the last `fdatasync`; the first record that is short, fails its checksum or is
//! out of sequence ends the log, and whatever follows it was never promised to anyone.

use super::database::{DatabaseError, Table};
use super::layers::Layer;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"THALWLOG";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 40;
const RECORD_HEADER_BYTES: usize = 16;
/// No transaction of the namespace comes near; a longer claim is a torn record.
const MAX_PAYLOAD_BYTES: u32 = 16 << 20;

/// A segment that is being written, or waits to be part of a checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub path: PathBuf,
    pub file: Arc<File>,
    pub bytes: u64,
}

impl Segment {
    /// Makes a new segment in `directory`, and makes sure that its name survives power loss.
    pub fn create(directory: &Path, identity: u64, first_sequence: u64) -> Result<Segment, DatabaseError> {
        let path = directory.join(format!("log-{first_sequence:020}"));
        let make = || -> std::io::Result<File> {
            let mut file = File::options().append(true).read(true).create_new(true).open(&path)?;
            let mut header = [0_u8; HEADER_BYTES];
            header[..8].copy_from_slice(MAGIC);
            header[8..12].copy_from_slice(&VERSION.to_le_bytes());
            header[16..24].copy_from_slice(&identity.to_le_bytes());
            header[24..32].copy_from_slice(&first_sequence.to_le_bytes());
            let crc = crc32c(&header[..32]);
            header[32..36].copy_from_slice(&crc.to_le_bytes());
            file.write_all(&header)?;
            sync_directory(directory)?;
            Ok(file)
        };
        let file = make().map_err(|e| DatabaseError::io(&path, "cannot create a log segment", &e))?;
        Ok(Segment { path, file: Arc::new(file), bytes: HEADER_BYTES as u64 })
    }

    /// Appends whole records. When that fails, the segment is cut back to what it was.
    pub fn append(&self, records: &[u8]) -> Result<(), AppendError> {
        (&*self.file).write_all(records).map_err(|e| AppendError {
            error: DatabaseError::io(&self.path, "cannot write the log", &e),
            cut_back: self.file.set_len(self.bytes).is_ok(),
        })
    }

    /// Puts the segment on media.
    pub fn sync(&self) -> Result<(), DatabaseError> {
        self.file.sync_data().map_err(|e| DatabaseError::io(&self.path, "cannot sync the log", &e))
    }
}

/// An append failed.
#[derive(Debug)]
pub(super) struct AppendError {
    pub error: DatabaseError,
    /// Whether the segment is as it was before; if not, no more may be appended to it.
    pub cut_back: bool,
}

/// One change in a record's payload: table, key, value.
type Row<'a> = (u8, &'a [u8], Option<&'a [u8]>);

/// Adds a transaction's record to `out`; answers how many bytes it takes.
pub(super) fn encode(out: &mut Vec<u8>, sequence: u64, changes: &Layer) -> u64 {
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

/// What was found in the log at a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Transactions read back that were not yet in the database's file.
    pub replayed: u64,
    /// Bytes at the end of the log that are no whole record.
    pub dropped_bytes: u64,
}

/// Reads every segment in `directory` in order into `onto`, from the record after `applied` on.
/// Answers the last sequence number reached, what was found, and the segments' paths.
pub(super) fn replay(
    directory: &Path,
    identity: u64,
    applied: u64,
    onto: &mut Layer,
) -> Result<(u64, Recovery, Vec<PathBuf>), DatabaseError> {
    let paths = segments(directory)?;
    let mut recovery = Recovery::default();
    let mut reached = applied;
    let mut ended = false;
    for path in &paths {
        let mut bytes = Vec::new();
        File::open(path).and_then(|mut f| f.read_to_end(&mut bytes)).map_err(|e| DatabaseError::io(path, "cannot read the log", &e))?;
        if ended {
            recovery.dropped_bytes += bytes.len() as u64;
            continue;
        }
        let Some(mut rest) = records_of(path, identity, &bytes)? else {
            recovery.dropped_bytes += bytes.len() as u64;
            ended = true;
            continue;
        };
        while let Some((sequence, payload, after)) = next_record(rest) {
            if sequence > reached + 1 {
                break;
            }
            if sequence == reached + 1 {
                apply(path, payload, onto)?;
                reached = sequence;
                recovery.replayed += 1;
            }
            rest = after;
        }
        recovery.dropped_bytes += rest.len() as u64;
        ended = !rest.is_empty();
    }
    Ok((reached, recovery, paths))
}

/// The bytes after a segment's header; `None` if the header is torn.
fn records_of<'a>(path: &Path, identity: u64, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, DatabaseError> {
    let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else { return Ok(None) };
    if crc32c(&header[..32]) != u32_at(header, 32) || &header[..8] != MAGIC {
        return Ok(None);
    }
    let version = u32_at(header, 8);
    if version != VERSION {
        return Err(DatabaseError::new(
            path,
            format!("the log has format version {version}, this program reads version {VERSION}: use the program that wrote it"),
        ));
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
    Ok(Some(rest))
}

/// The first record of `bytes`: sequence number, payload, what follows. `None` at a torn one.
fn next_record(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (header, rest) = bytes.split_at_checked(RECORD_HEADER_BYTES)?;
    let length = u32_at(header, 0);
    if length > MAX_PAYLOAD_BYTES {
        return None;
    }
    let (payload, after) = rest.split_at_checked(length as usize)?;
    let whole = crc32c(&bytes[8..RECORD_HEADER_BYTES + length as usize]) == u32_at(header, 4);
    whole.then(|| (u64_at(header, 8), payload, after))
}

fn apply(path: &Path, payload: &[u8], onto: &mut Layer) -> Result<(), DatabaseError> {
    let strange = || DatabaseError::new(path, "a whole record says what this program does not know: use the program that wrote it");
    let changes: Vec<Row<'_>> = postcard::from_bytes(payload).map_err(|_| strange())?;
    for (table, key, value) in changes {
        let table = Table::from_number(table).ok_or_else(strange)?;
        onto.set(table, key.to_vec(), value.map(<[u8]>::to_vec));
    }
    Ok(())
}

fn segments(directory: &Path) -> Result<Vec<PathBuf>, DatabaseError> {
    let list = || -> std::io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("log-") {
                paths.push(entry.path());
            }
        }
        paths.sort();
        Ok(paths)
    };
    list().map_err(|e| DatabaseError::io(directory, "cannot list the log's segments", &e))
}

/// Makes names created and removed in `directory` survive power loss.
pub(super) fn sync_directory(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
