//! One datafile: a plain sparse file of a target, open.

use super::home::{Home, Name};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::io::{Allocate, DataMap, DatafileId, Found, Seek};
use crate::sparse;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

/// An open datafile.
pub(crate) struct Datafile {
    file: File,
    id: DatafileId,
    home: Arc<Home>,
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
        let plain = OFlags::RDWR | OFlags::CLOEXEC;
        let open = |flags: OFlags| rustix::fs::openat(&home.datafiles, name.as_c_str(), flags, Mode::from_raw_mode(0o600));
        let created = || {
            let made = open(plain | OFlags::CREATE).or_else(|e| match e {
                Errno::NOENT => home.make_part(id).and_then(|()| open(plain | OFlags::CREATE)),
                e => Err(e),
            });
            home.names.made(name.part());
            made
        };
        let opened = match make {
            Make::Not => open(plain),
            Make::IfMissing => match open(plain) {
                Err(Errno::NOENT) => created(),
                other => other,
            },
            Make::Surely => created(),
        };
        match opened {
            Ok(file) => Ok(Some(Datafile { file: File::from(file), id, home: Arc::clone(home) })),
            Err(Errno::NOENT) if make == Make::Not => Ok(None),
            Err(e) => Err(Error::system(home.path(id).display(), e)),
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.home.path(self.id)
    }

    /// Puts its bytes on stable storage, and its name, if that is not there yet.
    pub(super) fn sync(&self) -> Result<()> {
        let _allocation = self.home.sizes.changing(self.id);
        self.file.sync_data().map_err(|e| Error::system(format!("{}: syncing", self.path().display()), e))?;
        self.home.sync_name(self.id)
    }

    /// Cuts it off or extends it with a hole.
    pub(super) fn truncate(&self, size_bytes: u64) -> Result<()> {
        let _changing = self.home.sizes.changing(self.id);
        let truncated = self.file.set_len(size_bytes);
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
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let _changing = self.home.sizes.changing(self.id);
        let written = self.file.write_all_at(bytes, offset);
        self.home.changed.note(self.id);
        written.map_err(|e| {
            let error = Error::system(format!("{}: writing {} bytes at {offset}", self.path().display(), bytes.len()), e);
            let advice = if error.kind() == ErrorKind::NoSpace { "; free space on this target or choose others" } else { "" };
            Error::new(error.kind(), format!("{}{advice}", error.message()))
        })
    }

    /// Gives a range space, or takes it away.
    pub(super) fn allocate(&self, offset: u64, length: u64, how: Allocate) -> Result<()> {
        use rustix::fs::{FallocateFlags as Flags, fallocate};
        let _changing = self.home.sizes.changing(self.id);
        let keep = Flags::KEEP_SIZE;
        let flags = match how {
            Allocate::Extend => Flags::empty(),
            Allocate::KeepSize => keep,
            Allocate::PunchHole => Flags::PUNCH_HOLE | keep,
            Allocate::ZeroRange => Flags::ZERO_RANGE,
            Allocate::ZeroRangeKeepSize => Flags::ZERO_RANGE | keep,
        };
        let mut done = fallocate(&self.file, flags, offset, length);
        if done == Err(rustix::io::Errno::OPNOTSUPP) && flags.contains(Flags::ZERO_RANGE) {
            // A file system that cannot do it in one step (tmpfs) can in two: nobody is promised that a range is zeroed
            // at one instant. Extending by allocation never shortens what another request extends meanwhile.
            done = fallocate(&self.file, Flags::PUNCH_HOLE | keep, offset, length);
            if done.is_ok() && how == Allocate::ZeroRange {
                done = fallocate(&self.file, Flags::empty(), offset, length);
            }
        }
        self.home.changed.note(self.id);
        done.map_err(|e| Error::system(format!("{}: allocating {length} bytes at {offset} ({how:?})", self.path().display()), e))
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
