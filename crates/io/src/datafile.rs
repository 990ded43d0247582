//! One datafile: a plain sparse file of a target, open.

use super::home::Home;
use super::lots::{Lot, OfLot, taken_by_others};
use super::name::Name;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_base::sparse;
use thalweg_wire::limits;
use thalweg_wire::protocol::io::{Allocate, DataMap, DatafileId, Found, Seek};
use thalweg_wire::{Error, ErrorKind, Result};

/// How often a datafile's directory is made again that has gone meanwhile.
const DIRECTORY_TRIES: u32 = 8;

/// An open datafile.
pub struct Datafile {
    file: File,
    id: DatafileId,
    home: Arc<Home>,
    /// The lot that it draws on.
    lot: Option<OfLot>,
}

/// Whether opening a datafile makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Make {
    /// It is there or it is not.
    Not,
    /// If it is missing, which it rarely is.
    IfMissing,
    /// It is probably missing.
    Surely,
}

impl Datafile {
    /// Opens it; `None`: it does not exist, and is not to be made.
    pub(super) fn open(home: &Arc<Home>, id: DatafileId, make: Make) -> Result<Option<Datafile>> {
        let name = Name::of(id);
        // Looked up once: a look is a good part of what a small file costs.
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
        let failed = |e: Errno| Error::system(home.path(id).display(), e);
        let opened = match make {
            Make::Surely => Err(Errno::NOENT),
            Make::Not | Make::IfMissing => open(OFlags::empty()),
        };
        let (file, is_new) = match opened {
            Ok(file) => (file, false),
            Err(Errno::NOENT) if make == Make::Not => return Ok(None),
            Err(Errno::NOENT) => Datafile::create(home, id, known.as_deref(), &open)?,
            Err(e) => return Err(failed(e)),
        };
        let file = File::from(file);
        let lot = id.lot.map(|lot| home.lots.of(known.unwrap_or_else(|| home.lots.make(lot)), id, &file, is_new));
        Ok(Some(Datafile { file, id, home: Arc::clone(home), lot }))
    }

    /// Makes it, if it is not there; `open` takes what the system is to do besides opening. Whether it is known to be new: of one in a lot it saves
    /// a look.
    fn create(
        home: &Home,
        id: DatafileId,
        lot: Option<&Lot>,
        open: &dyn Fn(OFlags) -> rustix::io::Result<OwnedFd>,
    ) -> Result<(OwnedFd, bool)> {
        let _room = match home.lots.room_for_name(lot) {
            Ok(room) => room,
            // One that is there needs none.
            Err(refused) => return open(OFlags::empty()).map(|file| (file, false)).map_err(|_| refused),
        };
        let make = || match id.lot.map(|_| open(OFlags::CREATE | OFlags::EXCL)) {
            Some(Ok(file)) => Ok((file, true)),
            None | Some(Err(Errno::EXIST)) => open(OFlags::CREATE).map(|file| (file, false)),
            Some(Err(e)) => Err(e),
        };
        let failed = |e: Errno| Error::system(home.path(id).display(), e);
        let create = || {
            let mut made = make();
            // Its directory may go again before it is in it, while a lot of which nothing is promised is emptied.
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

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.home.path(self.id)
    }

    /// Puts its bytes on stable storage, and its name, if that is not there yet.
    pub(super) fn sync(&self) -> Result<()> {
        let _allocation = self.home.sizes.changing(self.id);
        self.file.sync_data().map_err(|e| Error::system(format!("{}: syncing", self.path().display()), e))?;
        self.lot.iter().for_each(|lot| lot.look(&self.file));
        self.home.sync_name(self.id)
    }

    /// Cuts it off or extends it with a hole.
    pub(super) fn truncate(&self, size_bytes: u64) -> Result<()> {
        let _changing = self.home.sizes.changing(self.id);
        let truncated = self.giving(|| self.file.set_len(size_bytes));
        self.home.changed.note(self.id);
        truncated.map_err(|e| Error::system(format!("{}: truncating to {size_bytes}", self.path().display()), e))
    }

    /// Fills `buffer` from `offset` on; how many bytes there were before its end.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut have = 0;
        while have < buffer.len() {
            match self.file.read_at(&mut buffer[have..], offset + have as u64) {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::system(format!("{}: reading at {offset}", self.path().display()), e)),
            }
        }
        Ok(have)
    }

    /// Writes all of `bytes`. If that fails in the middle (the disk is full), each byte of the range is the old one or the new one:
    /// nothing is taken back, since what was there before may have been synced.
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let _room = self.home.lots.room(self.lot.as_ref(), &self.file, offset, bytes.len() as u64).map_err(|e| self.refused(&e))?;
        let _changing = self.home.sizes.changing(self.id);
        let written = self.with_room(bytes.len() as u64, || self.file.write_all_at(bytes, offset));
        self.home.changed.note(self.id);
        written.map_err(|e| {
            let error = Error::system(format!("{}: writing {} bytes at {offset}", self.path().display(), bytes.len()), e);
            let advice = if error.kind() == ErrorKind::NoSpace { "; free space on this target or choose others" } else { "" };
            self.explained(Error::new(error.kind(), format!("{}{advice}", error.message())))
        })
    }

    /// As [`Datafile::write`]: always.
    pub(crate) fn overwrite(&self, bytes: &[u8], offset: u64) -> Result<bool> {
        self.write(bytes, offset).map(|()| true)
    }

    /// Writes all of `bytes` at `offset` if the datafile ends there or before; `false`: it goes on. Of several that do so at a time each sees what
    /// the one before it wrote.
    pub(crate) fn append(&self, bytes: &[u8], offset: u64) -> Result<bool> {
        let _others = self.home.appending(self.id);
        let about = self.file.metadata().map_err(|e| Error::system(self.path().display(), e))?;
        if about.len() > offset {
            return Ok(false);
        }
        self.write(bytes, offset).map(|()| true)
    }

    /// Does something that adds blocks, again when the file system was full and there is more room now.
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

    /// Does something that may give blocks back.
    fn giving<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.lot {
            Some(lot) => lot.give(&self.file, work),
            None => work(),
        }
    }

    fn refused(&self, error: &Error) -> Error {
        Error::new(error.kind(), format!("{}: {}", self.path().display(), error.message()))
    }

    /// A full file system is no answer to who was promised room.
    fn explained(&self, error: Error) -> Error {
        match &self.lot {
            Some(of) if error.kind() == ErrorKind::NoSpace => taken_by_others(&error, &of.lot),
            _ => error,
        }
    }

    /// Gives a range space, or takes it away.
    pub(super) fn allocate(&self, offset: u64, length: u64, how: Allocate) -> Result<()> {
        let takes_only = how == Allocate::PunchHole;
        let room = || self.home.lots.room(self.lot.as_ref(), &self.file, offset, length).map_err(|e| self.refused(&e));
        let _room = if takes_only { None } else { Some(room()?) };
        let _changing = self.home.sizes.changing(self.id);
        let work = || self.fallocate(offset, length, how).map_err(std::io::Error::from);
        let done = if takes_only { self.giving(work) } else { self.with_room(length, work) };
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
        // A file system that cannot do it in one step (tmpfs) can in two: nobody is promised that a range is zeroed
        // at one instant. Extending by allocation never shortens what another request extends meanwhile.
        fallocate(&self.file, Flags::PUNCH_HOLE | keep, offset, length)?;
        if how == Allocate::ZeroRange { fallocate(&self.file, Flags::empty(), offset, length) } else { Ok(()) }
    }

    /// Looks for data or a hole.
    pub(super) fn seek(&self, offset: u64, what: Seek) -> Result<Found> {
        use rustix::fs::{SeekFrom, seek};
        let failed = |e| Error::system(format!("{}: seeking from {offset}", self.path().display()), e);
        let size_bytes = self.file.metadata().map_err(|e| Error::system(self.path().display(), e))?.len();
        // Nothing else uses the descriptor's own position, so that moving it is harmless.
        let at = match what {
            Seek::Data => seek(&self.file, SeekFrom::Data(offset)),
            Seek::Hole => seek(&self.file, SeekFrom::Hole(offset)),
        };
        match (at, what) {
            (Ok(at), _) => Ok(Found { at: Some(at), size_bytes }),
            (Err(rustix::io::Errno::NXIO), Seek::Data) => Ok(Found { at: None, size_bytes }),
            (Err(rustix::io::Errno::NXIO), Seek::Hole) => Ok(Found { at: Some(offset), size_bytes }),
            (Err(e), _) => Err(failed(e)),
        }
    }

    /// The parts of a range that are not holes, at most so many.
    pub(super) fn data_map(&self, range: Range<u64>, most: usize) -> Result<DataMap> {
        let size_bytes = self.file.metadata().map_err(|e| Error::system(self.path().display(), e))?.len();
        // Nothing else uses the descriptor's own position, so that moving it is harmless.
        let found = sparse::data_of(&self.file, range.start..range.end.min(size_bytes), most);
        let (data, known_to) = found.map_err(|e| Error::system(format!("{}: looking for holes", self.path().display()), e))?;
        let known_to = if known_to >= range.end.min(size_bytes) { range.end } else { known_to };
        Ok(DataMap { size_bytes, known_to, data: data.into_iter().map(|part| (part.start, part.end - part.start)).collect() })
    }

    /// Begins to put a range on stable storage. Only a hint: what fails here fails again, and is reported, in a sync.
    pub(crate) fn start_writeback(&self, offset: u64, length: u64) {
        // SAFETY: takes numbers only, and an open descriptor.
        unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset as i64, length as i64, libc::SYNC_FILE_RANGE_WRITE) };
    }
}
