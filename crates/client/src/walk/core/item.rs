//! One entry that was listed and that nobody has read, and what it still lacks.

use super::layouts::Placed;
use crate::walk::{Known, Size, SizeFrom, WalkEntry};
use std::sync::Arc;
use std::time::Instant;
use thalweg_layout::Distribution;
use thalweg_wire::protocol::io::DatafileSize;
use thalweg_wire::{Error, ErrorKind, Result};

/// How long a datafile has been unchanged when its server calls it quiet.
pub(in crate::walk) const QUIET_NS: u64 = 1_000_000_000;
/// Rounds of questions about one file at most: one that is written all the time never gives the same answer twice.
const ROUNDS: u8 = 3;

/// A walk's number; 0 is nobody's.
pub type WalkId = u32;

/// Which item: of a walk, by its place in the directory; or, for walk 0, of somebody who asks for a single file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub walk: WalkId,
    pub number: u64,
}

/// What an item waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Attributes, which are to be asked for when it is wanted.
    LacksAttributes,
    /// Attributes, which are asked for.
    AwaitsAttributes,
    /// A size, which is to be asked for when it is wanted.
    LacksSize,
    /// A size, which is asked for.
    AwaitsSize,
    /// Whether it is there still: its size was asked of servers while it was being removed, perhaps.
    AwaitsPresence,
    /// Nothing.
    Done,
    /// It is no entry any more.
    Gone,
}

pub(super) struct Item {
    pub entry: WalkEntry,
    pub stage: Stage,
    /// Answers that are due for [`Stage::AwaitsSize`].
    pub due: u32,
    pub gather: Option<Box<Gather>>,
    /// Length of the longest chain of round trips behind what is known.
    pub depth: u32,
    /// When the oldest question was asked whose answer is in here.
    pub asked_ns: u64,
    /// When the last question was asked whose answer said, or is to say, that it is there.
    pub there_ns: u64,
    /// Something was asked for only when the reader wanted it.
    pub is_missed: bool,
    /// Who else waits for it: keys of single files.
    pub joined: Vec<u64>,
}

/// A size in the making.
pub(super) struct Gather {
    pub placed: Arc<Placed>,
    /// Sizes of datafiles, by index.
    pub sizes: Vec<u64>,
    /// Those of the round before.
    before: Option<(Vec<u64>, u64)>,
    allocated_bytes: u64,
    is_quiet: bool,
    /// A datafile is not there; `true`: and may have been a moment ago.
    missing: Option<bool>,
    round: u8,
    began_ns: u64,
    /// When the file's attributes were asked for: it was there then.
    known_ns: u64,
    pub error: Option<Error>,
}

/// What follows a round of questions.
pub(super) enum Followed {
    /// The size, or why it is not known.
    Size(Result<Size>),
    /// All datafiles are to be asked once more.
    Again,
    /// Whether there still is such a file.
    Presence,
}

impl Item {
    pub(super) fn new(entry: WalkEntry, stage: Stage, depth: u32, asked_ns: u64) -> Item {
        Item { entry, stage, due: 0, gather: None, depth, asked_ns, there_ns: asked_ns, is_missed: false, joined: Vec::new() }
    }

    /// Its attributes are asked for now.
    pub(super) fn ask_began(&mut self, now_ns: u64, moment: Instant) {
        self.there_ns = now_ns;
        if self.asked_ns == u64::MAX {
            (self.asked_ns, self.entry.asked) = (now_ns, moment);
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done | Stage::Gone)
    }

    /// What is known of it, once it is done.
    pub(super) fn known(&self) -> Result<Known> {
        let gone = || Error::new(ErrorKind::NotFound, format!("there is no file {}", self.entry.id));
        match (&self.entry.attributes, &self.entry.size) {
            _ if self.stage == Stage::Gone => Err(gone()),
            (_, Some(Err(error))) => Err(error.clone()),
            (None, _) => Err(gone()),
            (Some(attributes), size) => {
                let size = size.as_ref().and_then(|size| size.as_ref().ok().copied());
                Ok(Known { attributes: attributes.clone(), size, asked: self.entry.asked })
            }
        }
    }
}

impl Gather {
    pub(super) fn new(placed: Arc<Placed>, now_ns: u64, known_ns: u64) -> Gather {
        let sizes = vec![0; placed.targets.len()];
        Gather {
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

    /// One datafile's answer. (A server that says less than what it should have said has said nothing.)
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

    /// All answers of a round are there. The answer is exact if every datafile has been unchanged since before the first question
    /// was asked, or if two rounds found the same and nothing in between had shrunk.
    pub(super) fn round_ended(&mut self, now_ns: u64) -> Followed {
        if let Some(error) = self.error.take() {
            return Followed::Size(Err(error));
        }
        let size_bytes = match self.placed.layout.logical_file_size(&self.sizes) {
            Ok(size_bytes) => size_bytes,
            Err(e) => return Followed::Size(Err(Error::new(ErrorKind::Io, e.to_string()))),
        };
        let is_exact = self.sizes.len() <= 1
            || (self.is_quiet && now_ns.saturating_sub(self.began_ns) < QUIET_NS)
            || self.before.as_ref().is_some_and(|(sizes, size)| *size == size_bytes && sizes.iter().zip(&self.sizes).all(|(b, a)| b <= a));
        if !is_exact && self.round < ROUNDS {
            self.round += 1;
            let empty = vec![0; self.sizes.len()];
            self.before = Some((std::mem::replace(&mut self.sizes, empty), size_bytes));
            (self.allocated_bytes, self.is_quiet, self.missing, self.began_ns) = (0, true, None, now_ns);
            return Followed::Again;
        }
        // One that is quiet has been missing for a second: that is, since before the file was known to be there, if that is less ago.
        let is_old = now_ns.saturating_sub(self.known_ns) >= QUIET_NS;
        if self.missing.take().is_some_and(|is_new| is_new || is_old) {
            return Followed::Presence;
        }
        Followed::Size(Ok(self.size_of(size_bytes)))
    }

    /// The size that was found, of a file that is there.
    pub(super) fn present(&self) -> Result<Size> {
        let found = self.placed.layout.logical_file_size(&self.sizes);
        found.map(|size_bytes| self.size_of(size_bytes)).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))
    }

    fn size_of(&self, size_bytes: u64) -> Size {
        Size { size_bytes, allocated_bytes: Some(self.allocated_bytes), from: SizeFrom::Glimpse }
    }
}
