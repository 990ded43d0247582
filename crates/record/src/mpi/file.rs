//! Reads a rank's file; `mpi/record/record.h` describes the format. Everything is checked: a killed rank leaves a
//! partial file.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use thalweg_base::release::RELEASE;

/// Offset of the names of calls.
const NAMES_AT: usize = 512;
/// Maximum plausible header.
const MOST_HEADER: usize = 1 << 20;
/// Size of the known part of a record.
const RECORD_BYTES: usize = 80;
/// Maximum text that is read.
const MOST_TEXT: usize = 1 << 20;
/// An absent value in the file.
const UNKNOWN: u64 = u64::MAX;

/// The header of a rank's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) struct Header {
    pub header_bytes: usize,
    pub record_bytes: usize,
    pub rank: i32,
    pub world_size: i32,
    pub pid: u32,
    pub tid: u32,
    pub ended: bool,
    pub start_ns: u64,
    pub used_records: u64,
    pub lost_records: u64,
    pub host: String,
    pub library: String,
    pub job: String,
    pub directory: String,
    /// Names of calls, by number.
    pub calls: Vec<String>,
}

/// A record; `mpi/record/record.h` defines the flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) struct Record {
    pub start_ns: u64,
    pub end_ns: u64,
    pub size_bytes: u64,
    pub offset_bytes: Option<u64>,
    pub serial: u64,
    pub tid: u32,
    pub count: u32,
    pub peer: i32,
    pub tag: i32,
    pub object: u32,
    pub result: i32,
    pub call: usize,
    pub flags: u8,
    pub sequence: u64,
    /// The text of a description record.
    pub text: String,
}

pub(super) const POSTED: u8 = 1;
pub(super) const FRUITLESS: u8 = 2;
pub(super) const COLLECTIVE: u8 = 4;
pub(super) const SEND: u8 = 8;
pub(super) const RECEIVE: u8 = 16;
/// Peer number of MPI_ANY_SOURCE.
pub(super) const ANY: i32 = -2;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().replace('\t', " ")
}

impl Header {
    /// Reads the header, and checks that the rest can be read.
    pub(crate) fn read(path: &Path) -> Result<Header, String> {
        let mut file = File::open(path).map_err(|error| error.to_string())?;
        let mut fixed = [0; NAMES_AT];
        file.read_exact(&mut fixed).map_err(|_| "has no complete header".to_owned())?;
        if &fixed[..8] != b"thalmpi\n" {
            return Err("is not a rank's file".to_owned());
        }
        let version = u32_at(&fixed, 8);
        if version != 1 {
            return Err(format!(
                "is by another release's library, of version {version}; this is {RELEASE}, which reads version 1: rebuild the library in mpi/"
            ));
        }
        let (header_bytes, record_bytes) = (u32_at(&fixed, 12) as usize, u32_at(&fixed, 16) as usize);
        if !(NAMES_AT..=MOST_HEADER).contains(&header_bytes) || !(RECORD_BYTES..=4096).contains(&record_bytes) {
            return Err("has an invalid header".to_owned());
        }
        let mut names = vec![0; header_bytes - NAMES_AT];
        file.read_exact(&mut names).map_err(|_| "has no complete header".to_owned())?;
        let length = file.metadata().map_err(|error| error.to_string())?.len();
        let have = length.saturating_sub(header_bytes as u64) / record_bytes as u64;
        let end = names.iter().position(|&byte| byte == 0).unwrap_or(names.len());
        let limit = u64_at(&fixed, 48);
        Ok(Header {
            header_bytes,
            record_bytes,
            rank: u32_at(&fixed, 20) as i32,
            world_size: u32_at(&fixed, 24) as i32,
            pid: u32_at(&fixed, 28),
            tid: u32_at(&fixed, 32),
            ended: u32_at(&fixed, 36) != 0,
            start_ns: u64_at(&fixed, 40),
            used_records: u64_at(&fixed, 56).min(limit).min(have),
            lost_records: u64_at(&fixed, 64),
            host: text_of(&fixed[72..136]),
            library: text_of(&fixed[136..200]),
            job: text_of(&fixed[200..264]),
            directory: text_of(&fixed[264..504]),
            calls: String::from_utf8_lossy(&names[..end]).lines().map(str::to_owned).collect(),
        })
    }
}

/// The records of a rank, in file order.
pub(crate) struct Records {
    reader: BufReader<File>,
    record_bytes: usize,
    left: u64,
    slot: Vec<u8>,
}

impl Records {
    /// Opens the file at its first record.
    pub(crate) fn open(path: &Path, header: &Header) -> std::io::Result<Records> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(header.header_bytes as u64))?;
        let reader = BufReader::with_capacity(1 << 18, file);
        Ok(Records { reader, record_bytes: header.record_bytes, left: header.used_records, slot: vec![0; header.record_bytes] })
    }

    /// Reads the next complete record; `None` at the end.
    pub(crate) fn next(&mut self) -> std::io::Result<Option<Record>> {
        while self.left > 0 {
            self.left -= 1;
            self.reader.read_exact(&mut self.slot)?;
            let slot = &self.slot;
            if slot[66] != 1 {
                continue;
            }
            let offset = u64_at(slot, 24);
            let extra = u64::from(u32_at(slot, 68)).min(self.left);
            let mut record = Record {
                start_ns: u64_at(slot, 0),
                end_ns: u64_at(slot, 8),
                size_bytes: u64_at(slot, 16),
                offset_bytes: (offset != UNKNOWN).then_some(offset),
                serial: u64_at(slot, 32),
                tid: u32_at(slot, 40),
                count: u32_at(slot, 44),
                peer: u32_at(slot, 48) as i32,
                tag: u32_at(slot, 52) as i32,
                object: u32_at(slot, 56),
                result: u32_at(slot, 60) as i32,
                call: usize::from(u16::from_le_bytes([slot[64], slot[65]])),
                flags: slot[67],
                sequence: u64_at(slot, 72),
                text: String::new(),
            };
            if extra > 0 {
                record.text = self.text(extra)?;
            }
            record.end_ns = record.end_ns.max(record.start_ns);
            return Ok(Some(record));
        }
        Ok(None)
    }

    fn text(&mut self, slots: u64) -> std::io::Result<String> {
        let bytes = slots * self.record_bytes as u64;
        self.left -= slots;
        let mut text = vec![0; bytes.min(MOST_TEXT as u64) as usize];
        self.reader.read_exact(&mut text)?;
        let rest = bytes - text.len() as u64;
        std::io::copy(&mut self.reader.by_ref().take(rest), &mut std::io::sink())?;
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }
}
