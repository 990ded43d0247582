//! Segments: the files of a recording until it is finished.
//!
//! ```text
//! file    ┌ "THWSEG\r
//! " 8 ┬ version u32 ┬ 0 u32 ┐ then frames to the end
//! frame   ┌ length u32 ┬ CRC-32C u32 ┬ events u32, top bit: describes ┬ payload ┐   little endian
//! ```
//!
//! The payload is the output of [`crate::encode_events`], `length` bytes long; the checksum covers the event count
//! and the payload. *Describes* is set if the frame has rows of the small tables (hosts, clocks, tracks, objects,
//! stacks) or stacks of waits, so that these can be read without decoding the rest.
//!
//! A frame that runs past the end of the file is the torn tail of a killed recorder: it is dropped, and its bytes are
//! counted. A frame with a wrong checksum is skipped, and its events are counted as lost.

use crate::codec::{MAX_ENCODED_BYTES, encode_events_into};
use crate::{Event, TraceError, WaitStacks};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use thalweg_base::release;
use thalweg_bulk::crc32c;

/// Maximum size of segments sorted in memory; larger ones are first converted to tables in the temporary directory
/// (`TMPDIR`).
pub(super) const IN_MEMORY_BYTES: u64 = 32 << 20;

const MAGIC: &[u8; 8] = b"THWSEG\r\n";
const HEADER_BYTES: usize = 16;
const FRAME_HEADER_BYTES: usize = 12;
const DESCRIBES: u32 = 1 << 31;

/// Size from which a new segment is begun, so that damage is confined to one segment.
const SEGMENT_BYTES: u64 = 64 << 20;

/// Whether an event is a row of a small table, or part of another row.
pub(super) fn describes(event: &Event) -> bool {
    matches!(event, Event::Host(_) | Event::Clock(_) | Event::Track(_) | Event::Object(_) | Event::Stack(_) | Event::Waited(_))
}

/// Encodes these events as a frame; `None` if they do not fit into one.
pub(super) fn frame(events: &[Event]) -> Option<Vec<u8>> {
    // A span's stack is a separate event here.
    let waited: Vec<Event> = events.iter().filter_map(WaitStacks::stack_event).collect();
    let all: Vec<Event>;
    let events = if waited.is_empty() {
        events
    } else {
        all = events.iter().cloned().chain(waited).collect();
        &all
    };
    let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + events.len() * 64);
    bytes.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    encode_events_into(events, &mut bytes);
    let length = bytes.len() - FRAME_HEADER_BYTES;
    if length > MAX_ENCODED_BYTES || events.len() >= DESCRIBES as usize {
        return None;
    }
    let count = events.len() as u32 | if events.iter().any(describes) { DESCRIBES } else { 0 };
    bytes[8..12].copy_from_slice(&count.to_le_bytes());
    bytes[0..4].copy_from_slice(&(length as u32).to_le_bytes());
    let crc = crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    Some(bytes)
}

/// Appends frames to the segments of a directory.
pub(super) struct SegmentWriter {
    directory: PathBuf,
    file: Option<File>,
    number: u32,
    length: u64,
    /// Remaining bytes for all segments together.
    room: u64,
}

impl SegmentWriter {
    pub(super) fn create(directory: &Path, limit_bytes: u64) -> Result<SegmentWriter, TraceError> {
        std::fs::create_dir(directory).map_err(|e| TraceError::new(directory, format!("cannot be created: {e}")))?;
        let mut writer = SegmentWriter { directory: directory.to_owned(), file: None, number: 0, length: 0, room: limit_bytes };
        writer.begin().map_err(|e| TraceError::new(directory, format!("a segment cannot be begun: {e}")))?;
        Ok(writer)
    }

    fn begin(&mut self) -> std::io::Result<()> {
        let path = self.directory.join(format!("{:08}.segment", self.number));
        let mut file = File::options().append(true).create_new(true).open(path)?;
        self.number += 1;
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&crate::FORMAT_VERSION.to_le_bytes());
        file.write_all(&header)?;
        self.length = HEADER_BYTES as u64;
        self.file = Some(file);
        Ok(())
    }

    /// Appends a whole frame, or nothing.
    pub(super) fn append(&mut self, frame: &[u8]) -> std::io::Result<()> {
        let room =
            self.room.checked_sub(frame.len() as u64).ok_or_else(|| std::io::Error::other("the recording's size limit is reached"))?;
        if self.length >= SEGMENT_BYTES || self.file.is_none() {
            self.file = None;
            self.begin()?;
        }
        let Some(file) = &mut self.file else { return Err(std::io::Error::other("no segment")) };
        if let Err(error) = file.write_all(frame) {
            // A partial frame would hide all that follow it: truncate it, or leave this segment.
            if file.set_len(self.length).is_err() {
                self.file = None;
            }
            return Err(error);
        }
        self.length += frame.len() as u64;
        self.room = room;
        Ok(())
    }
}

/// One verified frame.
pub(super) struct Frame {
    pub describes: bool,
    pub payload: Vec<u8>,
}

/// Data skipped while reading the segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Damage {
    /// Bytes of incomplete frames.
    pub torn_bytes: u64,
    /// Events of damaged frames.
    pub lost_events: u64,
}

/// Returns the segments of a recording, in order.
pub(super) fn segment_paths(directory: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let read = |e| TraceError::new(directory, format!("cannot be read: {e}"));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.extension().is_some_and(|x| x == "segment") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads every frame of every segment, in order, and passes it to `each`.
pub(super) fn read_frames(paths: &[PathBuf], mut each: impl FnMut(&Path, Frame) -> Result<(), TraceError>) -> Result<Damage, TraceError> {
    let mut damage = Damage::default();
    for path in paths {
        read_segment(path, &mut damage, &mut each)?;
    }
    Ok(damage)
}

fn read_segment(path: &Path, damage: &mut Damage, each: &mut impl FnMut(&Path, Frame) -> Result<(), TraceError>) -> Result<(), TraceError> {
    let failed = |e: std::io::Error| TraceError::new(path, format!("cannot be read: {e}"));
    let file = File::open(path).map_err(failed)?;
    let mut left = file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut header = [0; HEADER_BYTES];
    if left < HEADER_BYTES as u64 {
        damage.torn_bytes += left;
        return Ok(());
    }
    reader.read_exact(&mut header).map_err(failed)?;
    left -= HEADER_BYTES as u64;
    if &header[..8] != MAGIC {
        return Err(TraceError::new(path, "is not a segment of a recording (wrong first bytes)"));
    }
    let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    if version > crate::FORMAT_VERSION {
        return Err(newer_version(path, version, None));
    }
    while left >= FRAME_HEADER_BYTES as u64 {
        let mut frame = [0; FRAME_HEADER_BYTES];
        reader.read_exact(&mut frame).map_err(failed)?;
        left -= FRAME_HEADER_BYTES as u64;
        let word = |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        let (length, crc, count) = (word(0) as usize, word(4), word(8));
        if length == 0 || length > MAX_ENCODED_BYTES || length as u64 > left {
            left += FRAME_HEADER_BYTES as u64;
            break;
        }
        let mut bytes = vec![0; 4 + length];
        bytes[..4].copy_from_slice(&frame[8..]);
        reader.read_exact(&mut bytes[4..]).map_err(failed)?;
        left -= length as u64;
        if crc32c(&bytes) == crc {
            each(path, Frame { describes: count & DESCRIBES != 0, payload: bytes.split_off(4) })?;
        } else {
            // An event has at least two bytes; a count that implies less is itself damaged.
            damage.lost_events += u64::from(count & !DESCRIBES).min(length as u64 / 2);
            damage.torn_bytes += (length + FRAME_HEADER_BYTES) as u64;
        }
    }
    damage.torn_bytes += left;
    Ok(())
}

/// Returns the error for a recording made by a newer program, which says in `made_by` which one it is.
pub(super) fn newer_version(path: &Path, version: u32, made_by: Option<&str>) -> TraceError {
    TraceError::new(path, release::other_format("a recording", version, crate::FORMAT_VERSION, made_by))
}
