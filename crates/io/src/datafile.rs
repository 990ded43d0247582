//! An open datafile: a plain sparse file of a target.

use super::home::Home;
use super::lots::{Lot, OfLot, taken_by_others};
use super::name::Name;
use super::sums::{Beside, BlockSums, Fetched, Ledger, Locked, Open, Scanned, Source, SumState};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_base::sparse;
use thalweg_wire::limits;
use thalweg_wire::protocol::io::{Allocate, DataMap, DatafileId, Seek, SeekResult};
use thalweg_wire::{Error, ErrorKind, Result};

/// How often a datafile's directory is recreated if it disappears meanwhile.
const DIRECTORY_TRIES: u32 = 8;

/// An open datafile.
pub struct Datafile {
    file: File,
    id: DatafileId,
    home: Arc<Home>,
    /// The lot it draws on.
    lot: Option<OfLot>,
    /// Its checksums; `None` only while it is dropped.
    kept: Option<Arc<SumState>>,
    /// Whether this opening created it.
    is_new: bool,
}

/// Whether opening a datafile creates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Make {
    /// Never create it.
    Not,
    /// Create it if missing, which is rare.
    IfMissing,
    /// It is probably missing: create it first.
    Surely,
}

impl Datafile {
    /// Opens a datafile; `None`: it does not exist, and is not to be created.
    pub(super) fn open(home: &Arc<Home>, id: DatafileId, make: Make) -> Result<Option<Datafile>> {
        let name = Name::of(id);
        // Looked up once: the look-up is a good part of a small file's cost.
        let known = id.lot.and_then(|lot| home.lots.find(lot));
        let directory = known.as_deref().and_then(|lot| home.lots.directory_of(lot));
        let open = |create: OFlags| {
            let flags = OFlags::RDWR | OFlags::CLOEXEC | create;
            let (root, name) = match &directory {
                Some(directory) => (directory.as_fd(), name.in_lot()),
                None => (home.root(id), name.as_c_str()),
            };
            rustix::fs::openat(root, name, flags, Mode::from_raw_mode(0o600))
        };
        // Before the file is opened, so that all open copies share it.
        let mut kept = Some(home.sums.get(id));
        let opened = Datafile::open_file(home, id, make, known.as_deref(), &open);
        let (file, is_new) = match opened {
            Ok(Some(opened)) => opened,
            other => {
                home.sums.release(id, &mut kept);
                return other.map(|_| None);
            }
        };
        let file = File::from(file);
        let lot = id.lot.map(|lot| home.lots.of(known.unwrap_or_else(|| home.lots.make(lot)), id, &file, is_new));
        Ok(Some(Datafile { file, id, home: Arc::clone(home), lot, kept, is_new }))
    }

    fn open_file(
        home: &Home,
        id: DatafileId,
        make: Make,
        lot: Option<&Lot>,
        open: &dyn Fn(OFlags) -> rustix::io::Result<OwnedFd>,
    ) -> Result<Option<(OwnedFd, bool)>> {
        let opened = match make {
            Make::Surely => Err(Errno::NOENT),
            Make::Not | Make::IfMissing => open(OFlags::empty()),
        };
        match opened {
            Ok(file) => Ok(Some((file, false))),
            Err(Errno::NOENT) if make == Make::Not => Ok(None),
            Err(Errno::NOENT) => Datafile::create(home, id, lot, open).map(Some),
            Err(e) => Err(Error::system(home.path(id).display(), e)),
        }
    }

    /// Creates the datafile unless it exists; `open` takes the flags besides those for opening. Returns whether it is known to be
    /// new, which saves a look at its space and its checksums.
    fn create(
        home: &Home,
        id: DatafileId,
        lot: Option<&Lot>,
        open: &dyn Fn(OFlags) -> rustix::io::Result<OwnedFd>,
    ) -> Result<(OwnedFd, bool)> {
        let _room = match home.lots.room_for_name(lot) {
            Ok(room) => room,
            // An existing datafile needs no room.
            Err(refused) => return open(OFlags::empty()).map(|file| (file, false)).map_err(|_| refused),
        };
        let make = || match open(OFlags::CREATE | OFlags::EXCL) {
            Ok(file) => Ok((file, true)),
            Err(Errno::EXIST) => open(OFlags::CREATE).map(|file| (file, false)),
            Err(e) => Err(e),
        };
        let failed = |e: Errno| Error::system(home.path(id).display(), e);
        let create = || {
            let mut made = make();
            // Its directory may disappear again first, while a lot without promises is being emptied.
            for _ in 0..DIRECTORY_TRIES {
                if !matches!(made, Err(Errno::NOENT)) {
                    break;
                }
                home.make_part(id)?;
                made = make();
            }
            made.map_err(failed)
        };
        let made = match create() {
            // A full file system may have no room for a name either.
            Err(e) if e.kind() == ErrorKind::NoSpace && home.lots.make_room(id.lot, 0) => create(),
            other => other,
        };
        home.made(id, lot);
        made
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> PathBuf {
        self.home.path(self.id)
    }

    /// Syncs its bytes to stable storage, and its name if necessary.
    pub(super) fn sync(&self) -> Result<()> {
        let _allocation = self.home.sizes.changing(self.id);
        self.file.sync_data().map_err(|e| Error::system(format!("{}: syncing", self.path().display()), e))?;
        self.lot.iter().for_each(|lot| lot.look(&self.file));
        self.home.sync_name(self.id)
    }

    /// Truncates it, or extends it with a hole.
    pub(super) fn truncate(&self, size_bytes: u64) -> Result<()> {
        let mut sums = self.locked()?;
        let _changing = self.home.sizes.changing(self.id);
        let truncated = sums.resize(size_bytes, || self.giving(|| self.file.set_len(size_bytes)))?;
        self.home.changed.note(self.id);
        truncated.map_err(|e| Error::system(format!("{}: truncating to {size_bytes}", self.path().display()), e))
    }

    /// Reads into `buffer` from `offset` on; returns how many bytes there were before the end, all of them verified.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`] when a block does not match its checksum.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let fetched = self.fetch(buffer, offset)?;
        Ok(self.verify(&fetched, buffer)?.0)
    }

    /// Reads like [`Datafile::read`], without verifying.
    pub(crate) fn fetch(&self, buffer: &mut [u8], offset: u64) -> Result<Fetched> {
        Source { kept: self.kept(), of: self }.fetch(buffer, offset)
    }

    /// Verifies what was fetched; returns how many bytes there are, and their CRC-32C.
    pub(crate) fn verify(&self, fetched: &Fetched, buffer: &mut [u8]) -> Result<(usize, u32)> {
        Source { kept: self.kept(), of: self }.verify(fetched, buffer)
    }

    /// Verifies the piece at an offset that is a multiple of a block, for a scrub.
    pub(crate) fn scan(&self, buffer: &mut [u8], offset: u64) -> Result<Scanned> {
        Source { kept: self.kept(), of: self }.scan(buffer, offset)
    }

    /// Returns its size, and the space allocated to it.
    pub(crate) fn lengths(&self) -> Result<(u64, u64)> {
        let about = self.file.metadata().map_err(|e| Error::system(self.path().display(), e))?;
        Ok((about.len(), about.blocks() * 512))
    }

    fn kept(&self) -> &Arc<SumState> {
        self.kept.as_ref().expect("there until it is dropped")
    }

    /// Writes all of `bytes`. If that fails halfway (disk full), each byte of the range is the old or the new one: nothing is
    /// undone, because the previous contents may have been synced.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`] when a block that is written in part does not match its checksum.
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut sums = BlockSums::default();
        sums.compute(bytes, offset);
        self.write_summed(bytes, offset, &sums)
    }

    fn write_summed(&self, bytes: &[u8], offset: u64, sums: &BlockSums) -> Result<()> {
        let _room = self.home.lots.room(self.lot.as_ref(), &self.file, offset, bytes.len() as u64).map_err(|e| self.refused(&e))?;
        let mut locked = self.locked()?;
        let _changing = self.home.sizes.changing(self.id);
        let work = || self.with_room(bytes.len() as u64, || self.file.write_all_at(bytes, offset));
        let written = locked.write(bytes, offset, sums, work)?;
        self.home.changed.note(self.id);
        written.map_err(|e| {
            let error = Error::system(format!("{}: writing {} bytes at {offset}", self.path().display(), bytes.len()), e);
            let advice = if error.kind() == ErrorKind::NoSpace { "; free space on this target or choose others" } else { "" };
            self.explained(Error::new(error.kind(), format!("{}{advice}", error.message())))
        })
    }

    /// Writes bytes with these checksums; always `true`, as [`Datafile::append`] is if it wrote.
    pub(crate) fn overwrite(&self, bytes: &[u8], offset: u64, sums: &BlockSums) -> Result<bool> {
        self.write_summed(bytes, offset, sums).map(|()| true)
    }

    /// Writes all of `bytes` at `offset` if the datafile ends there or before; `false`: it extends further. Concurrent appends
    /// are serialised.
    pub(crate) fn append(&self, bytes: &[u8], offset: u64, sums: &BlockSums) -> Result<bool> {
        let _others = self.home.appending(self.id);
        let about = self.file.metadata().map_err(|e| Error::system(self.path().display(), e))?;
        if about.len() > offset {
            return Ok(false);
        }
        self.write_summed(bytes, offset, sums).map(|()| true)
    }

    /// Runs work that adds blocks; retries it if the file system was full and room was made.
    fn with_room<T>(&self, bytes: u64, work: impl Fn() -> std::io::Result<T>) -> std::io::Result<T> {
        let mut done = work();
        for _ in 0..limits::LOT_TRIES {
            let is_full = done.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::ENOSPC));
            if !is_full {
                break;
            }
            let has_made_room = self.home.lots.make_room(self.id.lot, bytes);
            done = work();
            if !has_made_room {
                break;
            }
        }
        done
    }

    /// Runs work that may free blocks.
    fn giving<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.lot {
            Some(lot) => lot.give(&self.file, work),
            None => work(),
        }
    }

    fn refused(&self, error: &Error) -> Error {
        Error::new(error.kind(), format!("{}: {}", self.path().display(), error.message()))
    }

    /// Explains a full file system to a writer who was promised room.
    fn explained(&self, error: Error) -> Error {
        match &self.lot {
            Some(of) if error.kind() == ErrorKind::NoSpace => taken_by_others(&error, &of.lot),
            _ => error,
        }
    }

    /// Allocates or frees a range.
    pub(super) fn allocate(&self, offset: u64, length: u64, how: Allocate) -> Result<()> {
        let takes_only = how == Allocate::PunchHole;
        let room = || self.home.lots.room(self.lot.as_ref(), &self.file, offset, length).map_err(|e| self.refused(&e));
        let _room = if takes_only { None } else { Some(room()?) };
        let mut sums = self.locked()?;
        let _changing = self.home.sizes.changing(self.id);
        let work = || self.fallocate(offset, length, how).map_err(std::io::Error::from);
        let work = || if takes_only { self.giving(work) } else { self.with_room(length, work) };
        let done = match how {
            Allocate::Extend => sums.allocate(work)?,
            Allocate::KeepSize => work(),
            Allocate::PunchHole | Allocate::ZeroRange | Allocate::ZeroRangeKeepSize => sums.make_zeros(offset, length, work)?,
        };
        self.home.changed.note(self.id);
        done.map_err(|e| {
            self.explained(Error::system(format!("{}: allocating {length} bytes at {offset} ({how:?})", self.path().display()), e))
        })
    }

    fn fallocate(&self, offset: u64, length: u64, how: Allocate) -> rustix::io::Result<()> {
        use rustix::fs::{FallocateFlags as Flags, fallocate};
        let keep = Flags::KEEP_SIZE;
        let flags = match how {
            Allocate::Extend => Flags::empty(),
            Allocate::KeepSize => keep,
            Allocate::PunchHole => Flags::PUNCH_HOLE | keep,
            Allocate::ZeroRange => Flags::ZERO_RANGE,
            Allocate::ZeroRangeKeepSize => Flags::ZERO_RANGE | keep,
        };
        let done = fallocate(&self.file, flags, offset, length);
        if done != Err(Errno::OPNOTSUPP) || !flags.contains(Flags::ZERO_RANGE) {
            return done;
        }
        // Where the file system cannot zero a range in one step (tmpfs), two steps do: zeroing is not promised to be atomic.
        // Extending by allocation never shortens what another request extends meanwhile.
        fallocate(&self.file, Flags::PUNCH_HOLE | keep, offset, length)?;
        if how == Allocate::ZeroRange { fallocate(&self.file, Flags::empty(), offset, length) } else { Ok(()) }
    }

    /// Finds the next data or hole.
    pub(super) fn seek(&self, offset: u64, what: Seek) -> Result<SeekResult> {
        use rustix::fs::{SeekFrom, seek};
        let failed = |e| Error::system(format!("{}: seeking from {offset}", self.path().display()), e);
        let size_bytes = self.file.metadata().map_err(|e| Error::system(self.path().display(), e))?.len();
        // The descriptor's own position is not used otherwise, so moving it is harmless.
        let at = match what {
            Seek::Data => seek(&self.file, SeekFrom::Data(offset)),
            Seek::Hole => seek(&self.file, SeekFrom::Hole(offset)),
        };
        match (at, what) {
            (Ok(at), _) => Ok(SeekResult { at: Some(at), size_bytes }),
            (Err(rustix::io::Errno::NXIO), Seek::Data) => Ok(SeekResult { at: None, size_bytes }),
            (Err(rustix::io::Errno::NXIO), Seek::Hole) => Ok(SeekResult { at: Some(offset), size_bytes }),
            (Err(e), _) => Err(failed(e)),
        }
    }

    /// Returns the parts of a range that are not holes, at most `most`.
    pub(super) fn data_map(&self, range: Range<u64>, most: usize) -> Result<DataMap> {
        let size_bytes = self.file.metadata().map_err(|e| Error::system(self.path().display(), e))?.len();
        // The descriptor's own position is not used otherwise, so moving it is harmless.
        let found = sparse::data_of(&self.file, range.start..range.end.min(size_bytes), most);
        let (data, known_to) = found.map_err(|e| Error::system(format!("{}: looking for holes", self.path().display()), e))?;
        let known_to = if known_to >= range.end.min(size_bytes) { range.end } else { known_to };
        Ok(DataMap { size_bytes, known_to, data: data.into_iter().map(|part| (part.start, part.end - part.start)).collect() })
    }

    /// Starts write-back of a range. Only a hint: errors recur, and are reported, in a sync.
    pub(crate) fn start_writeback(&self, offset: u64, length: u64) {
        // SAFETY: takes numbers only, and an open descriptor.
        unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset as i64, length as i64, libc::SYNC_FILE_RANGE_WRITE) };
    }
}

impl Drop for Datafile {
    fn drop(&mut self) {
        self.home.sums.release(self.id, &mut self.kept);
    }
}

impl Open for Datafile {
    fn locked(&self) -> Result<Locked<'_>> {
        self.kept().lock(self)
    }

    fn sync(&self) -> Result<()> {
        Datafile::sync(self)
    }
}

impl Beside for Datafile {
    fn file(&self) -> &File {
        &self.file
    }

    fn id(&self) -> DatafileId {
        self.id
    }

    fn path(&self) -> PathBuf {
        self.path()
    }

    fn open_sums(&self, create: bool) -> std::io::Result<Option<File>> {
        self.home.open_sums(self.id, create)
    }

    fn with_room(&self, bytes: u64, work: &dyn Fn() -> std::io::Result<()>) -> std::io::Result<()> {
        self.with_room(bytes, work)
    }

    fn ledger(&self) -> &Ledger {
        &self.home.sums
    }

    fn is_new(&self) -> bool {
        self.is_new
    }
}
