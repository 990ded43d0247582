//! Where a target's datafiles are: their names, which of those are durable, and what is known of their sizes.

use super::sizes::{Since, Sizes};
use crate::durable;
use crate::error::{Error, Result};
use crate::protocol::io::{DatafileId, DatafileSize};
use crate::sync::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Directories that datafiles are spread over.
const PARTS: usize = 256;
/// The directory of the datafiles.
pub(super) const DATAFILES: &str = "datafiles";
/// The directory of datafiles that no file has.
const SET_ASIDE: &str = "set-aside";

/// A datafile's name below `datafiles/`, made without an allocation: it is needed for each of thousands of glimpses.
pub(super) struct Name {
    bytes: [u8; Name::MOST],
    part: u8,
}

impl Name {
    /// `xx/`, 16 digits, a dot, at most 10 digits, and the byte that ends it.
    const MOST: usize = 3 + 16 + 1 + 10 + 1;

    pub(super) fn of(id: DatafileId) -> Name {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut bytes = [0; Name::MOST];
        let hexadecimal = |bytes: &mut [u8], number: u64| {
            let many = bytes.len();
            for (place, byte) in bytes.iter_mut().enumerate() {
                *byte = DIGITS[(number >> (4 * (many - 1 - place)) & 0xf) as usize];
            }
        };
        hexadecimal(&mut bytes[..2], id.file.0 & 0xff);
        bytes[2] = b'/';
        hexadecimal(&mut bytes[3..19], id.file.0);
        bytes[19] = b'.';
        let digits = id.index.checked_ilog10().unwrap_or(0) as usize + 1;
        let mut rest = id.index;
        for byte in bytes[20..20 + digits].iter_mut().rev() {
            *byte = DIGITS[(rest % 10) as usize];
            rest /= 10;
        }
        Name { bytes, part: id.file.0 as u8 }
    }

    pub(super) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).expect("its last byte is 0")
    }

    /// Which of the directories it is in.
    pub(super) fn part(&self) -> usize {
        self.part.into()
    }
}

/// Which names are not durable yet, by directory: that is what can be synced. All of a directory's that were made before one
/// sync share it.
pub(super) struct UnsyncedNames {
    /// For each part, and for the parts' own names (the last).
    directories: Vec<Directory>,
}

struct Directory {
    /// Names made so far. Begins at 1: those that were there at the start may be of a process that was killed before it synced them.
    made: AtomicU64,
    /// Of those, durable.
    synced: Mutex<u64>,
}

impl UnsyncedNames {
    fn new() -> UnsyncedNames {
        let directory = |_| Directory { made: AtomicU64::new(1), synced: Mutex::new(0) };
        UnsyncedNames { directories: (0..=PARTS).map(directory).collect() }
    }

    /// A name was made in this directory.
    pub(super) fn made(&self, directory: usize) {
        self.directories[directory].made.fetch_add(1, Ordering::Release);
    }

    /// Syncs a directory, unless all of its names are durable.
    fn sync(&self, directory: usize, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let names = &self.directories[directory];
        let wanted = names.made.load(Ordering::Acquire);
        let mut synced = names.synced.lock();
        if *synced >= wanted {
            return Ok(());
        }
        let made = names.made.load(Ordering::Acquire);
        sync()?;
        *synced = made;
        Ok(())
    }
}

/// Datafiles that were changed since the last time that all of them were synced.
pub(super) struct Changed(Mutex<Option<HashSet<DatafileId>>>);

impl Changed {
    /// Of a target that is new; of one that was served before, that server may have left any datafile unsynced.
    fn of(is_new: bool) -> Changed {
        Changed(Mutex::new(is_new.then(HashSet::new)))
    }

    /// More are not distinguished: then the whole file system is synced.
    const MOST: usize = 1 << 14;

    /// This one was changed: to be said after that, and before anybody is answered.
    pub(super) fn note(&self, id: DatafileId) {
        let mut changed = self.0.lock();
        if let Some(known) = &mut *changed {
            known.insert(id);
            if known.len() > Changed::MOST {
                *changed = None;
            }
        }
    }

    /// Has those synced that were changed before; `None`: nobody knows which. Where that fails, any of them may be unsynced.
    fn take(&self) -> Option<HashSet<DatafileId>> {
        self.0.lock().replace(HashSet::new())
    }

    /// See [`Changed::take`].
    pub(super) fn sync(&self, sync: impl FnOnce(Option<&HashSet<DatafileId>>) -> Result<()>) -> Result<()> {
        let changed = self.take();
        let synced = sync(changed.as_ref());
        if synced.is_err() {
            *self.0.lock() = None;
        }
        synced
    }
}

/// The directory of a target's datafiles.
pub(super) struct Home {
    /// The target's directory.
    pub directory: PathBuf,
    /// `datafiles/`, open for looking up names in it.
    pub datafiles: OwnedFd,
    /// Which names are durable.
    pub names: UnsyncedNames,
    /// What is known of sizes.
    pub sizes: Sizes,
    /// Which datafiles were changed since all of them were synced.
    pub changed: Changed,
}

impl Home {
    /// Of a target's directory, in which `datafiles/` exists.
    pub(super) fn open(directory: &Path, is_new: bool) -> Result<Home> {
        let path = directory.join(DATAFILES);
        let opened = rustix::fs::open(&path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let datafiles = opened.map_err(|e| Error::system(path.display(), e))?;
        Ok(Home {
            directory: directory.to_owned(),
            datafiles,
            names: UnsyncedNames::new(),
            sizes: Sizes::default(),
            changed: Changed::of(is_new),
        })
    }

    /// Where a datafile is, for messages.
    pub(super) fn path(&self, id: DatafileId) -> PathBuf {
        self.directory.join(DATAFILES).join(Name::of(id).as_c_str().to_string_lossy().as_ref())
    }

    /// Makes the directory that a datafile is in.
    pub(super) fn make_part(&self, id: DatafileId) -> rustix::io::Result<()> {
        match rustix::fs::mkdirat(&self.datafiles, format!("{:02x}", id.file.0 & 0xff), Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(e),
        }
        self.names.made(PARTS);
        Ok(())
    }

    /// Puts a datafile's name on stable storage, unless it is there.
    pub(super) fn sync_name(&self, id: DatafileId) -> Result<()> {
        let datafiles = self.directory.join(DATAFILES);
        let sync = |directory: &Path| {
            let failed = |e| Error::system(format!("{}: syncing the directory", directory.display()), e);
            durable::sync_directory(directory).map_err(failed)
        };
        self.names.sync(Name::of(id).part(), || sync(&datafiles.join(format!("{:02x}", id.file.0 & 0xff))))?;
        self.names.sync(PARTS, || sync(&datafiles))
    }

    /// Puts everything on the target's file system on stable storage, other people's files too.
    pub(super) fn sync_file_system(&self) -> Result<()> {
        let path = self.directory.join(DATAFILES);
        let synced = File::open(&path).and_then(|datafiles| rustix::fs::syncfs(&datafiles).map_err(Into::into));
        synced.map_err(|e| Error::system(format!("{}: syncing its file system", path.display()), e))
    }

    /// A datafile's size; 0 if it does not exist.
    pub(super) fn glimpse(&self, id: DatafileId) -> Result<DatafileSize> {
        let ticket = match self.sizes.look(id) {
            Ok(known) => return Ok(known),
            Err(ticket) => ticket,
        };
        let (size, since) = match rustix::fs::statat(&self.datafiles, Name::of(id).as_c_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => {
                let size = DatafileSize { size_bytes: found.st_size as u64, allocated_bytes: found.st_blocks as u64 * 512, quiet: false };
                (size, Some(Since::stamp(found.st_ctime, i64::try_from(found.st_ctime_nsec).unwrap_or(0))))
            }
            Err(Errno::NOENT) => (DatafileSize::default(), None),
            Err(e) => return Err(Error::system(self.path(id).display(), e)),
        };
        let quiet = self.sizes.keep(id, size, since, ticket);
        Ok(DatafileSize { quiet, ..size })
    }

    /// Removes a datafile; one that does not exist is removed already.
    pub(super) fn remove(&self, id: DatafileId) -> Result<()> {
        let _changing = self.sizes.changing(id);
        match rustix::fs::unlinkat(&self.datafiles, Name::of(id).as_c_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(Error::system(self.path(id).display(), e)),
        }
    }

    /// Moves datafiles, and where they are, out of the way, durably; `without` does something with one while nobody has it open.
    pub(super) fn set_aside(
        &self,
        datafiles: &[(DatafileId, PathBuf)],
        without: impl Fn(DatafileId, &mut dyn FnMut() -> std::io::Result<()>) -> std::io::Result<()>,
    ) -> Result<()> {
        let aside = self.directory.join(SET_ASIDE);
        match std::fs::create_dir(&aside) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(Error::system(aside.display(), e)),
            _ => {}
        }
        for (id, path) in datafiles {
            let _changing = self.sizes.changing(*id);
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // What was set aside earlier stays, under the same name too.
            let names = std::iter::once(name.clone()).chain((1..).map(|n| format!("{name}-{n}")));
            let free = names.map(|name| aside.join(name)).find(|path| path.symlink_metadata().is_err()).expect("an endless range");
            let moved = without(*id, &mut || std::fs::rename(path, &free));
            moved.map_err(|e| Error::system(path.display(), e))?;
        }
        for directory in [&aside, &self.directory] {
            durable::sync_directory(directory).map_err(|e| Error::system(directory.display(), e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::io::{FileId, TargetId};

    #[test]
    fn names_are_as_the_layout_on_disk_says() {
        for (file, index) in [(0, 0), (1, 9), (0x1234_5678_9abc_def0, 10), (u64::MAX, u32::MAX), (0xff, 4095)] {
            let id = DatafileId { file: FileId(file), index, target: TargetId(0), lot: None };
            let expected = format!("{:02x}/{}.{}", file & 0xff, FileId(file), index);
            assert_eq!(Name::of(id).as_c_str().to_str().unwrap(), expected);
        }
    }

    #[test]
    fn names_made_before_a_sync_share_it_and_one_that_failed_is_made_again() {
        let names = UnsyncedNames::new();
        let syncs = std::cell::Cell::new(0);
        let sync = || {
            syncs.set(syncs.get() + 1);
            Ok(())
        };
        names.made(3);
        names.made(3);
        assert!(names.sync(3, || Err(Error::new(crate::ErrorKind::Io, "the disk"))).is_err());
        names.sync(3, sync).unwrap();
        names.sync(3, sync).unwrap();
        assert_eq!(syncs.get(), 1);
        names.made(3);
        names.sync(3, sync).unwrap();
        assert_eq!(syncs.get(), 2);
    }
}
