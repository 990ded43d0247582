//! One listed entry that was not read yet, and the data it still lacks.

use super::layouts::Placement;
use crate::walk::{FileInfo, Size, SizeFrom, WalkEntry};
use std::sync::Arc;
use std::time::Instant;
use thalweg_layout::Distribution;
use thalweg_wire::protocol::io::DatafileSize;
use thalweg_wire::{Error, ErrorKind, Result};

/// Minimum time since a datafile's last change for its server to report it as quiet.
pub(in crate::walk) const QUIET_NS: u64 = 1_000_000_000;
/// Bound: rounds of glimpses per file; a file that is written continuously never gives the same answer twice.
const ROUNDS: u8 = 3;

/// Number of a walk; 0 is reserved for single files.
pub type WalkId = u32;

/// Identifies an item: a walk and the index in its directory; for walk 0, the number of a request for a single file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub walk: WalkId,
    pub number: u64,
}

/// What an item is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Attributes, to be requested when needed.
    LacksAttributes,
    /// Attributes, requested.
    AwaitsAttributes,
    /// Size, to be requested when needed.
    LacksSize,
    /// Size, requested.
    AwaitsSize,
    /// Confirmation that it still exists: it may have been removed while its size was requested.
    AwaitsPresence,
    /// Complete.
    Done,
    /// The entry no longer exists.
    Gone,
}

pub(super) struct Item {
    pub entry: WalkEntry,
    pub stage: Stage,
    /// Answers outstanding in [`Stage::AwaitsSize`].
    pub due: u32,
    pub gather: Option<Box<SizeGather>>,
    /// Length of the longest chain of round trips behind what is known.
    pub depth: u32,
    /// Time of the oldest request whose answer is included.
    pub asked_ns: u64,
    /// Time of the last request whose answer confirms, or will confirm, that it exists.
    pub there_ns: u64,
    /// Whether part of it was requested only when the reader needed it.
    pub is_missed: bool,
    /// Requests for this file alone that wait for it too.
    pub joined: Vec<u64>,
}

/// A size being determined.
pub(super) struct SizeGather {
    pub placed: Arc<Placement>,
    /// Sizes of datafiles, by index.
    pub sizes: Vec<u64>,
    /// Result of the previous round.
    before: Option<(Vec<u64>, u64)>,
    allocated_bytes: u64,
    is_quiet: bool,
    /// Set if a datafile is missing; `true`: it may have existed a moment ago.
    missing: Option<bool>,
    round: u8,
    began_ns: u64,
    /// When the file's attributes were requested: the file existed then.
    known_ns: u64,
    pub error: Option<Error>,
}

/// What follows a round of glimpses.
pub(super) enum RoundOutcome {
    /// The size is determined, or an error.
    Size(Result<Size>),
    /// Ask all datafiles again.
    Again,
    /// Ask whether the file still exists.
    Presence,
}

impl Item {
    pub(super) fn new(entry: WalkEntry, stage: Stage, depth: u32, asked_ns: u64) -> Item {
        Item { entry, stage, due: 0, gather: None, depth, asked_ns, there_ns: asked_ns, is_missed: false, joined: Vec::new() }
    }

    /// Records that its attributes are requested now.
    pub(super) fn ask_began(&mut self, now_ns: u64, moment: Instant) {
        self.there_ns = now_ns;
        if self.asked_ns == u64::MAX {
            (self.asked_ns, self.entry.asked) = (now_ns, moment);
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done | Stage::Gone)
    }

    /// Returns the attributes and size of a completed item.
    pub(super) fn known(&self) -> Result<FileInfo> {
        let gone = || Error::new(ErrorKind::NotFound, format!("there is no file {}", self.entry.id));
        match (&self.entry.attributes, &self.entry.size) {
            _ if self.stage == Stage::Gone => Err(gone()),
            (_, Some(Err(error))) => Err(error.clone()),
            (None, _) => Err(gone()),
            (Some(attributes), size) => {
                let size = size.as_ref().and_then(|size| size.as_ref().ok().copied());
                Ok(FileInfo { attributes: attributes.clone(), size, asked: self.entry.asked })
            }
        }
    }
}

impl SizeGather {
    pub(super) fn new(placed: Arc<Placement>, now_ns: u64, known_ns: u64) -> SizeGather {
        let sizes = vec![0; placed.targets.len()];
        SizeGather {
            placed,
            sizes,
            before: None,
            allocated_bytes: 0,
            is_quiet: true,
            missing: None,
            round: 1,
            began_ns: now_ns,
            known_ns,
            error: None,
        }
    }

    /// Records one datafile's answer. (An answer with fewer fields than required is ignored.)
    pub(super) fn answered(&mut self, index: u32, size: &DatafileSize) {
        if let Some(known) = self.sizes.get_mut(index as usize) {
            *known = size.size_bytes;
            self.allocated_bytes = self.allocated_bytes.saturating_add(size.allocated_bytes);
            self.is_quiet &= size.quiet;
            if size.size_bytes == 0 {
                self.missing = Some(self.missing.unwrap_or(false) || !size.quiet);
            }
        }
    }

    /// Completes a round. The size is exact if every datafile has been unchanged since before the first request, or if two rounds agree
    /// and nothing shrank in between.
    pub(super) fn round_ended(&mut self, now_ns: u64) -> RoundOutcome {
        if let Some(error) = self.error.take() {
            return RoundOutcome::Size(Err(error));
        }
        let size_bytes = match self.placed.layout.logical_file_size(&self.sizes) {
            Ok(size_bytes) => size_bytes,
            Err(e) => return RoundOutcome::Size(Err(Error::new(ErrorKind::Io, e.to_string()))),
        };
        let is_exact = self.sizes.len() <= 1
            || (self.is_quiet && now_ns.saturating_sub(self.began_ns) < QUIET_NS)
            || self.before.as_ref().is_some_and(|(sizes, size)| *size == size_bytes && sizes.iter().zip(&self.sizes).all(|(b, a)| b <= a));
        if !is_exact && self.round < ROUNDS {
            self.round += 1;
            let empty = vec![0; self.sizes.len()];
            self.before = Some((std::mem::replace(&mut self.sizes, empty), size_bytes));
            (self.allocated_bytes, self.is_quiet, self.missing, self.began_ns) = (0, true, None, now_ns);
            return RoundOutcome::Again;
        }
        // A quiet datafile has been missing for a second: since before the file was known to exist, if that was later.
        let is_old = now_ns.saturating_sub(self.known_ns) >= QUIET_NS;
        if self.missing.take().is_some_and(|is_new| is_new || is_old) {
            return RoundOutcome::Presence;
        }
        RoundOutcome::Size(Ok(self.size_of(size_bytes)))
    }

    /// Returns the size of a file that exists.
    pub(super) fn present(&self) -> Result<Size> {
        let found = self.placed.layout.logical_file_size(&self.sizes);
        found.map(|size_bytes| self.size_of(size_bytes)).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))
    }

    fn size_of(&self, size_bytes: u64) -> Size {
        Size { size_bytes, allocated_bytes: Some(self.allocated_bytes), from: SizeFrom::Glimpse }
    }
}
