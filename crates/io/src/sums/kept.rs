//! The state of one datafile's sums, shared by all open copies of it.

use super::block::{BLOCK, Block, Blocks, count};
use super::ledger::Ledger;
use super::mark::{ATTRIBUTE_BLOCKS, Mark, attribute, read_attribute};
use super::place::{self, Place};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_base::sync::{Mutex, MutexGuard};
use thalweg_bulk::BLOCK_BYTES;
use thalweg_wire::protocol::io::DatafileId;
use thalweg_wire::{Error, ErrorKind, Result};

/// An open datafile, as its sums see it.
pub(crate) trait Beside {
    /// The datafile.
    fn file(&self) -> &File;
    /// Its number.
    fn id(&self) -> DatafileId;
    /// Its path, for messages.
    fn path(&self) -> PathBuf;
    /// Opens the file of sums beside it; `create`: a new, empty one.
    fn open_sums(&self, create: bool) -> io::Result<Option<File>>;
    /// Runs work that may need space on the target.
    fn with_room(&self, bytes: u64, work: &dyn Fn() -> io::Result<()>) -> io::Result<()>;
    /// The sums of its target.
    fn ledger(&self) -> &Ledger;
    /// Whether it was created by this opening.
    fn is_new(&self) -> bool;
}

/// Whether sums can be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Trust {
    /// Not looked at yet.
    #[default]
    Unknown = 0,
    /// The target has no sums.
    Off = 1,
    /// They may differ without damage, or there are none.
    Unverified = 2,
    /// A block that does not match is damaged.
    Verified = 3,
}

/// The recorded size of a datafile that is not clean.
pub(super) const NOT_CLEAN: u64 = u64::MAX;

/// What is known of one datafile's sums.
pub(crate) struct SumState {
    /// [`Trust`], for readers.
    trust: AtomicU8,
    /// The size it must have, or [`NOT_CLEAN`]; for readers.
    clean: AtomicU64,
    /// The file of sums, once it is open.
    pub(super) beside: OnceLock<File>,
    inner: Mutex<Inner>,
}

impl Default for SumState {
    fn default() -> SumState {
        let inner = Inner { place: Place::Nowhere, unfinished: false, noted: false, is_old: false };
        SumState { trust: AtomicU8::new(0), clean: NOT_CLEAN.into(), beside: OnceLock::new(), inner: Mutex::new(inner) }
    }
}

/// The part that only one thread at a time may use.
pub(super) struct Inner {
    pub(super) place: Place,
    /// A change of data whose sums are not stored yet.
    pub(super) unfinished: bool,
    /// Whether the ledger knows that it is dirty.
    noted: bool,
    /// Whether bytes may have been written before its target had sums.
    is_old: bool,
}

impl SumState {
    pub(super) fn trust(&self) -> Trust {
        match self.trust.load(Ordering::Acquire) {
            0 => Trust::Unknown,
            1 => Trust::Off,
            2 => Trust::Unverified,
            _ => Trust::Verified,
        }
    }

    pub(super) fn clean(&self) -> u64 {
        self.clean.load(Ordering::Acquire)
    }

    /// Notes that the ledger has taken the datafile from its list.
    pub(super) fn is_taken(&self) {
        self.inner.lock().noted = false;
    }

    /// Notes that the target has sums now: what is there has none.
    pub(super) fn turn_on(&self) {
        let mut inner = self.inner.lock();
        inner.is_old = true;
        if self.trust() == Trust::Off {
            self.trust.store(Trust::Unknown as u8, Ordering::Release);
        }
    }

    /// Waits for other changes of the datafile, and reads its mark if that has not been done.
    ///
    /// # Errors
    /// When the mark or the sums cannot be read.
    pub(crate) fn lock<'a>(self: &'a Arc<SumState>, of: &'a dyn Beside) -> Result<Locked<'a>> {
        let mut locked = Locked { kept: self, inner: self.inner.lock(), of };
        if self.trust() == Trust::Unknown {
            locked.load().map_err(|e| Error::system(format!("{}: reading its checksums", of.path().display()), e))?;
        }
        if locked.inner.unfinished {
            locked.distrust();
        }
        Ok(locked)
    }

    /// Reads sums without waiting for anyone, except for those of small datafiles; `None`: nothing can be verified.
    pub(super) fn sums(&self, blocks: Range<u64>) -> io::Result<Option<Vec<u32>>> {
        if let Some(beside) = self.beside.get() {
            return place::read(beside, blocks).map(Some);
        }
        let inner = self.inner.lock();
        match &inner.place {
            Place::Nowhere => Ok(Some(vec![0; (blocks.end - blocks.start) as usize])),
            Place::Attribute(sums) => Ok(Some(some_of(sums, blocks))),
            Place::Beside => Ok(None),
        }
    }
}

fn some_of(sums: &[u32], blocks: Range<u64>) -> Vec<u32> {
    blocks.map(|block| sums.get(block as usize).copied().unwrap_or(0)).collect()
}

/// The state of one datafile's sums, for the one thread that may change it.
pub(crate) struct Locked<'a> {
    pub(super) kept: &'a Arc<SumState>,
    pub(super) inner: MutexGuard<'a, Inner>,
    pub(super) of: &'a dyn Beside,
}

impl Locked<'_> {
    pub(super) fn trust(&self) -> Trust {
        self.kept.trust()
    }

    fn set(&self, trust: Trust, clean: Option<u64>) {
        self.kept.clean.store(clean.unwrap_or(NOT_CLEAN), Ordering::Release);
        self.kept.trust.store(trust as u8, Ordering::Release);
    }

    fn load(&mut self) -> io::Result<()> {
        let ledger = self.of.ledger();
        if !ledger.is_on() {
            self.set(Trust::Off, None);
            return Ok(());
        }
        if self.of.is_new() && !self.inner.is_old {
            self.set(Trust::Verified, None);
            return Ok(());
        }
        let (mark, place) = match place::attribute(self.of.file())? {
            Some(value) => match read_attribute(&value, ledger.run) {
                Some((mark, sums)) => (Some(mark), Place::Attribute(sums)),
                None => (None, Place::Attribute(Vec::new())),
            },
            None => match self.of.open_sums(false)? {
                Some(beside) => {
                    let mark = place::mark(&beside)?;
                    let _ = self.kept.beside.set(beside);
                    (mark, Place::Beside)
                }
                None if self.of.file().metadata()?.len() == 0 => (Some(Mark::Dirty(ledger.run)), Place::Nowhere),
                None => (Some(Mark::Dirty(0)), Place::Nowhere),
            },
        };
        self.inner.place = place;
        match mark {
            Some(Mark::Clean(size)) => self.set(Trust::Verified, Some(size)),
            Some(Mark::Dirty(run)) if run == ledger.run => self.set(Trust::Verified, None),
            _ => {
                if mark.is_none() {
                    ledger.counts.is_unsummed();
                }
                self.set(Trust::Unverified, None);
                ledger.is_unverified(self.of.id());
            }
        }
        Ok(())
    }

    /// The mark of a datafile that is not clean.
    fn dirty(&self) -> Mark {
        Mark::Dirty(if self.trust() == Trust::Verified { self.of.ledger().run } else { 0 })
    }

    /// Reads sums.
    pub(super) fn get(&self, blocks: Range<u64>) -> io::Result<Vec<u32>> {
        match (&self.inner.place, self.kept.beside.get()) {
            (Place::Beside, Some(beside)) => place::read(beside, blocks),
            (Place::Attribute(sums), _) => Ok(some_of(sums, blocks)),
            _ => Ok(vec![0; (blocks.end - blocks.start) as usize]),
        }
    }

    /// Stores sums. Never fails: a datafile whose sums cannot be stored has none that are believed.
    pub(super) fn put(&mut self, first: u64, sums: &[u32]) {
        let stored = self.store(first, sums);
        self.stored(stored);
    }

    pub(super) fn stored(&mut self, stored: io::Result<()>) {
        self.inner.unfinished = false;
        if stored.is_err() {
            self.distrust();
        } else if !self.inner.noted && self.trust() == Trust::Verified {
            self.inner.noted = true;
            self.of.ledger().is_dirty(self.of.id());
        }
    }

    fn store(&mut self, first: u64, sums: &[u32]) -> io::Result<()> {
        let end = first + sums.len() as u64;
        let is_verified = self.trust() == Trust::Verified;
        match &mut self.inner.place {
            // Without sums of its other blocks; they are computed in the background.
            Place::Nowhere if !is_verified => return Ok(()),
            Place::Nowhere if end <= ATTRIBUTE_BLOCKS => self.inner.place = Place::Attribute(Vec::new()),
            Place::Nowhere => self.move_beside(&[])?,
            Place::Attribute(known) if end > ATTRIBUTE_BLOCKS => {
                let known = std::mem::take(known);
                self.move_beside(&known)?;
            }
            Place::Attribute(_) | Place::Beside => {}
        }
        if let Place::Attribute(known) = &mut self.inner.place {
            let mut known = std::mem::take(known);
            if known.len() < end as usize {
                known.resize(end as usize, 0);
            }
            known[first as usize..end as usize].copy_from_slice(sums);
            return self.set_attribute(self.dirty(), known);
        }
        let Some(beside) = self.kept.beside.get() else { return Err(io::Error::other("no file of checksums")) };
        self.of.with_room(4 * sums.len() as u64, &|| place::write(beside, first, sums))
    }

    /// Stores the sums of a small datafile in its attribute, or in a file where that is not possible.
    fn set_attribute(&mut self, mark: Mark, sums: Vec<u32>) -> io::Result<()> {
        let takes = &self.of.ledger().takes_attributes;
        let value = attribute(mark, &sums).filter(|_| takes.load(Ordering::Relaxed));
        let set = value.map(|value| place::set_attribute(self.of.file(), &value));
        match set {
            Some(Ok(())) => {
                self.inner.place = Place::Attribute(sums);
                Ok(())
            }
            other => {
                if other.and_then(Result::err).is_some_and(|e| e.raw_os_error() == Some(libc::EOPNOTSUPP)) {
                    takes.store(false, Ordering::Relaxed);
                }
                self.move_beside(&sums)
            }
        }
    }

    /// Moves the sums to a file beside the datafile.
    fn move_beside(&mut self, sums: &[u32]) -> io::Result<()> {
        let beside = match self.kept.beside.get() {
            Some(_) => return Err(io::Error::other("the file of checksums is open already")),
            None => self.of.open_sums(true)?.ok_or_else(|| io::Error::other("no file of checksums could be made"))?,
        };
        let mark = self.dirty();
        let written = self.of.with_room(BLOCK, &|| place::set_mark(&beside, mark).and_then(|()| place::write(&beside, 0, sums)));
        if written.is_ok() {
            place::remove_attribute(self.of.file())?;
        }
        // Also where it could not be written: there is no other place.
        let _ = self.kept.beside.set(beside);
        self.inner.place = Place::Beside;
        written
    }

    /// Moves the sums of a datafile that grew without bytes, if it is too large for an attribute now.
    pub(super) fn grown(&mut self, size_bytes: u64) -> io::Result<()> {
        match &mut self.inner.place {
            Place::Attribute(sums) if count(size_bytes) > ATTRIBUTE_BLOCKS => {
                let sums = std::mem::take(sums);
                self.move_beside(&sums)
            }
            _ => Ok(()),
        }
    }

    /// Removes the sums of all blocks from this one on.
    pub(super) fn cut(&mut self, blocks: u64) -> io::Result<()> {
        match (&mut self.inner.place, self.kept.beside.get()) {
            (Place::Attribute(sums), _) => {
                sums.truncate(blocks as usize);
                let sums = std::mem::take(sums);
                self.set_attribute(self.dirty(), sums)
            }
            (Place::Beside, Some(beside)) => place::cut(beside, blocks),
            _ => Ok(()),
        }
    }

    /// Makes sums 0, as those of holes.
    pub(super) fn zero(&mut self, blocks: Range<u64>) -> io::Result<()> {
        match (&mut self.inner.place, self.kept.beside.get()) {
            (Place::Attribute(sums), _) => {
                let mut sums = std::mem::take(sums);
                sums.iter_mut().enumerate().filter(|(at, _)| blocks.contains(&(*at as u64))).for_each(|(_, sum)| *sum = 0);
                self.set_attribute(self.dirty(), sums)
            }
            (Place::Beside, Some(beside)) => place::zero(beside, blocks),
            _ => Ok(()),
        }
    }

    /// Writes the mark, with the sums if they are in an attribute.
    fn set_mark(&mut self, mark: Mark) -> io::Result<()> {
        match (&self.inner.place, self.kept.beside.get()) {
            (Place::Attribute(sums), _) => match attribute(mark, sums) {
                Some(value) => place::set_attribute(self.of.file(), &value),
                None => Err(io::Error::other("too many checksums for an attribute")),
            },
            (Place::Beside, Some(beside)) => place::set_mark(beside, mark),
            _ => Ok(()),
        }
    }

    /// Believes the sums no longer: the datafile is unverified until they have been recomputed.
    pub(super) fn distrust(&mut self) {
        let ledger = self.of.ledger();
        self.inner.unfinished = false;
        self.set(Trust::Unverified, None);
        ledger.counts.is_unsummed();
        ledger.is_unverified(self.of.id());
        if self.set_mark(Mark::Dirty(0)).is_err() {
            ledger.hold(Arc::clone(self.kept) as _);
        }
    }

    /// Prepares for a change: a clean datafile is dirty on stable storage before its data or sums change. `to`: the size it will be
    /// cut to.
    ///
    /// # Errors
    /// When the mark cannot be made durable; [`ErrorKind::Damaged`] when the datafile has not the size it had.
    pub(super) fn begin(&mut self, to: Option<u64>) -> Result<()> {
        let clean = self.kept.clean();
        if clean == NOT_CLEAN {
            return Ok(());
        }
        let path = || self.of.path();
        let size = self.of.file().metadata().map_err(|e| Error::system(path().display(), e))?.len();
        if size != clean && to.is_none_or(|to| to > size.min(clean)) {
            return Err(self.damaged(&format!("it has {size} bytes, expected {clean}")));
        }
        let marked = self.set_mark(self.dirty()).and_then(|()| match self.kept.beside.get() {
            Some(beside) => beside.sync_data(),
            None => self.of.file().sync_all(),
        });
        marked.map_err(|e| Error::system(format!("{}: marking its checksums as being changed", path().display()), e))?;
        self.set(self.trust(), None);
        Ok(())
    }

    /// Syncs the file of sums.
    pub(super) fn sync_sums(&self) -> io::Result<()> {
        self.kept.beside.get().map_or(Ok(()), File::sync_data)
    }

    /// Marks the datafile clean: its data and sums are on stable storage.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        let size = self.of.file().metadata()?.len();
        self.grown(size)?;
        if let Place::Attribute(sums) = &mut self.inner.place {
            sums.resize(count(size) as usize, 0);
        }
        if matches!(self.inner.place, Place::Nowhere) {
            return Ok(());
        }
        self.set_mark(Mark::Clean(size))?;
        self.set(Trust::Verified, Some(size));
        Ok(())
    }

    /// Makes a place for the sums of a datafile that has none, where they are not believed yet.
    pub(super) fn prepare(&mut self, size_bytes: u64) -> io::Result<()> {
        match self.inner.place {
            Place::Nowhere if count(size_bytes) <= ATTRIBUTE_BLOCKS => self.set_attribute(Mark::Dirty(0), Vec::new()),
            Place::Nowhere => self.move_beside(&[]),
            _ => self.set_mark(Mark::Dirty(0)),
        }
    }

    /// Believes the sums from now on: all of them have been recomputed.
    pub(super) fn believe(&mut self) -> io::Result<()> {
        self.set_mark(Mark::Dirty(self.of.ledger().run))?;
        self.set(Trust::Verified, None);
        self.inner.noted = true;
        self.of.ledger().is_dirty(self.of.id());
        Ok(())
    }

    /// Reads a block, with zeros after the end of the datafile.
    pub(super) fn block(&self, block: u64) -> Result<Block> {
        let mut bytes = [0; BLOCK_BYTES];
        let read = place::read_to(self.of.file(), &mut bytes, block * BLOCK);
        read.map_err(|e| Error::system(format!("{}: reading at {}", self.of.path().display(), block * BLOCK), e))?;
        Ok(bytes)
    }

    /// Counts damage and makes its error.
    pub(super) fn damaged(&self, problem: &str) -> Error {
        let id = self.of.id();
        let text = format!(
            "{}: {problem}: damaged at rest, not returned; `thalweg cp --skip-damaged` copies what is intact",
            self.of.path().display()
        );
        self.of.ledger().counts.is_damaged(&format!("target {}: {text}", id.target));
        Error::new(ErrorKind::Damaged, text)
    }

    /// The error for a block that does not match its sum.
    pub(super) fn mismatch(&self, block: u64) -> Error {
        let Blocks { from, to } = Blocks::of(block * BLOCK, BLOCK);
        self.damaged(&format!("bytes {from} to {to} do not match their checksum"))
    }
}
