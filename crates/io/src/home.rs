//! A target's directory of datafiles: their names, which of those are durable, and their cached sizes.

use super::lots::{Lot, Lots};
use super::name::{DATAFILES, LOTS, Name, SUMS, lot_directory};
use super::sizes::{Since, Sizes};
use super::sums::Table;
use super::unsynced::{PARTS, UnsyncedNames};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::fs::{DirBuilder, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_base::durable;
use thalweg_base::private;
use thalweg_base::sync::{Mutex, MutexGuard};
use thalweg_wire::protocol::io::{DatafileId, DatafileSize, LotId, TargetId};
use thalweg_wire::{Error, Result};

/// The directory of datafiles without a file.
pub(super) const SET_ASIDE: &str = "set-aside";

/// Datafiles changed since all of them were last synced.
pub(super) struct Changed(Mutex<Option<HashSet<DatafileId>>>);

impl Changed {
    /// Makes the set for a target; of one served before, any datafile may have been left unsynced.
    fn of(is_new: bool) -> Changed {
        Changed(Mutex::new(is_new.then(HashSet::new)))
    }

    /// Beyond this number, the whole file system is synced.
    const MOST: usize = 1 << 14;

    /// Notes a changed datafile. Call after the change and before answering.
    pub(super) fn note(&self, id: DatafileId) {
        let mut changed = self.0.lock();
        if let Some(known) = &mut *changed {
            known.insert(id);
            if known.len() > Changed::MOST {
                *changed = None;
            }
        }
    }

    /// Takes the changed datafiles for syncing; `None`: unknown, sync everything.
    fn take(&self) -> Option<HashSet<DatafileId>> {
        self.0.lock().replace(HashSet::new())
    }

    /// Runs `sync` on the changed datafiles; if it fails, any may be unsynced. See [`Changed::take`].
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
    /// `datafiles/`, open for looking up names.
    datafiles: OwnedFd,
    /// Which names in it are durable; each lot tracks its own.
    names: UnsyncedNames,
    /// The promises, and the lots with datafiles.
    pub lots: Arc<Lots>,
    /// Cached sizes.
    pub sizes: Sizes,
    /// Their checksums.
    pub sums: Table,
    /// Datafiles changed since all were last synced.
    pub changed: Changed,
    /// Locks of appends, one for each hash of a datafile.
    appends: [Mutex<()>; APPENDS],
}

/// Maximum concurrent appends, to as many datafiles.
const APPENDS: usize = 16;

impl Home {
    /// Opens a target's directory, in which `datafiles/` exists.
    pub(super) fn open(directory: &Path, target: TargetId, is_new: bool, has_sums: bool) -> Result<Home> {
        let path = directory.join(DATAFILES);
        let lots = directory.join(LOTS);
        if lots.is_dir() {
            // A killed process may have left a lot's name unsynced.
            sync_directory(&lots).and_then(|()| sync_directory(directory))?;
        }
        let opened = rustix::fs::open(&path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let datafiles = opened.map_err(|e| Error::system(path.display(), e))?;
        Ok(Home {
            directory: directory.to_owned(),
            datafiles,
            names: UnsyncedNames::new(),
            lots: Lots::open(directory, target)?,
            sizes: Sizes::default(),
            sums: Table::new(has_sums),
            changed: Changed::of(is_new),
            appends: Default::default(),
        })
    }

    /// Locks a datafile against other appends.
    pub(super) fn appending(&self, id: DatafileId) -> MutexGuard<'_, ()> {
        self.appends[(id.file.0 as usize).wrapping_add(id.index as usize) % APPENDS].lock()
    }

    /// Returns the directory to which a datafile's [`Name`] is relative.
    pub(super) fn root(&self, id: DatafileId) -> BorrowedFd<'_> {
        if id.lot.is_some() { self.lots.root() } else { self.datafiles.as_fd() }
    }

    /// Returns the parent of a datafile's directory.
    pub(super) fn parts(&self, lot: Option<LotId>) -> PathBuf {
        self.directory.join(lot.map_or(DATAFILES.to_owned(), lot_directory))
    }

    /// Returns a datafile's path, for messages.
    pub(super) fn path(&self, id: DatafileId) -> PathBuf {
        let root = if id.lot.is_some() { self.directory.clone() } else { self.directory.join(DATAFILES) };
        root.join(Name::of(id).as_c_str().to_string_lossy().as_ref())
    }

    /// Notes that a datafile's name was made; `lot`: its lot, if known.
    pub(super) fn made(&self, id: DatafileId, lot: Option<&Lot>) {
        let part = usize::from(id.file.0 as u8);
        match (id.lot, lot) {
            (None, _) => self.names.made(part),
            (Some(_), Some(lot)) => lot.names.made(part),
            (Some(lot), None) => self.lots.make(lot).names.made(part),
        }
    }

    /// Makes a datafile's directory. A lot's own directory is synced immediately.
    pub(super) fn make_part(&self, id: DatafileId) -> Result<()> {
        let make = |path: &Path| match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(Error::system(path.display(), e)),
        };
        let parts = self.parts(id.lot);
        if id.lot.is_some() {
            let lots = self.directory.join(LOTS);
            if make(&lots)? {
                sync_directory(&self.directory)?;
            }
            if make(&parts)? {
                sync_directory(&lots)?;
            }
        }
        make(&parts.join(format!("{:02x}", id.file.0 & 0xff)))?;
        match id.lot {
            None => self.names.made(PARTS),
            Some(lot) => self.lots.make(lot).names.made(PARTS),
        }
        Ok(())
    }

    /// Syncs a datafile's name to stable storage, if necessary.
    pub(super) fn sync_name(&self, id: DatafileId) -> Result<()> {
        let lot = id.lot.map(|lot| self.lots.make(lot));
        let names = lot.as_ref().map_or(&self.names, |lot| &lot.names);
        let parts = || self.parts(id.lot);
        // A lot's directory that disappeared was empty: its file has no name here any more.
        let sync = |directory: &Path| match sync_directory(directory) {
            Err(_) if id.lot.is_some() && !directory.exists() => Ok(()),
            other => other,
        };
        names.sync(Name::of(id).part(), || sync(&parts().join(format!("{:02x}", id.file.0 & 0xff))))?;
        names.sync(PARTS, || sync(&parts()))
    }

    /// Syncs the target's whole file system, other users' files included.
    pub(super) fn sync_file_system(&self) -> Result<()> {
        let path = self.directory.join(DATAFILES);
        let synced = File::open(&path).and_then(|datafiles| rustix::fs::syncfs(&datafiles).map_err(Into::into));
        synced.map_err(|e| Error::system(format!("{}: syncing its file system", path.display()), e))
    }

    /// Returns a datafile's size; 0 if it does not exist.
    pub(super) fn glimpse(&self, id: DatafileId) -> Result<DatafileSize> {
        let ticket = match self.sizes.look(id) {
            Ok(known) => return Ok(known),
            Err(ticket) => ticket,
        };
        let (size, since) = match rustix::fs::statat(self.root(id), Name::of(id).as_c_str(), AtFlags::SYMLINK_NOFOLLOW) {
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

    /// Removes a datafile; a missing one counts as removed.
    pub(super) fn remove(&self, id: DatafileId) -> Result<()> {
        let _changing = self.sizes.changing(id);
        self.lots.leave(id, || {
            self.sums.forget(id);
            match rustix::fs::unlinkat(self.root(id), Name::of(id).as_c_str(), AtFlags::empty()) {
                // After the datafile: without sums it would only be unverified. Sums that stay are found by a scrub.
                Ok(()) | Err(Errno::NOENT) => {
                    let _ = rustix::fs::unlinkat(self.root(id), Name::of_sums(id).as_c_str(), AtFlags::empty());
                    Ok(())
                }
                Err(e) => Err(Error::system(self.path(id).display(), e)),
            }
        })
    }

    /// Opens the file of checksums beside a datafile; `create`: an empty one.
    pub(super) fn open_sums(&self, id: DatafileId, create: bool) -> std::io::Result<Option<File>> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let flags = if create { flags | OFlags::CREATE | OFlags::TRUNC } else { flags };
        match rustix::fs::openat(self.root(id), Name::of_sums(id).as_c_str(), flags, Mode::from_raw_mode(0o600)) {
            Ok(file) => {
                if create {
                    self.made(id, None);
                }
                Ok(Some(File::from(file)))
            }
            Err(Errno::NOENT) if !create => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Moves datafiles and their checksums out of the way, durably; either may be missing. `without` runs work on one while it cannot be found open.
    pub(super) fn set_aside(
        &self,
        datafiles: &[(DatafileId, PathBuf)],
        without: impl Fn(DatafileId, &mut dyn FnMut() -> std::io::Result<()>) -> std::io::Result<()>,
    ) -> Result<()> {
        let aside = self.directory.join(SET_ASIDE);
        private::make_directory(&aside).map_err(|e| Error::system(aside.display(), e))?;
        let sums_of = |path: &Path| PathBuf::from(format!("{}{SUMS}", path.display()));
        for (id, path) in datafiles {
            let _changing = self.sizes.changing(*id);
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Datafiles set aside earlier stay, also under the same name.
            let names = std::iter::once(name.clone()).chain((1..).map(|n| format!("{name}-{n}")));
            let free = names
                .map(|name| aside.join(name))
                .find(|path| [path.clone(), sums_of(path)].iter().all(|path| path.symlink_metadata().is_err()))
                .expect("an endless range");
            let moved = without(*id, &mut || {
                self.sums.forget(*id);
                self.lots.leave(*id, || {
                    let moved = [(path.clone(), free.clone()), (sums_of(path), sums_of(&free))].map(|(from, to)| std::fs::rename(from, to));
                    let is_there = |moved: &std::io::Result<()>| !moved.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
                    moved.into_iter().filter(is_there).collect()
                })
            });
            moved.map_err(|e| Error::system(path.display(), e))?;
        }
        sync_directory(&aside).and_then(|()| sync_directory(&self.directory))
    }
}

fn sync_directory(directory: &Path) -> Result<()> {
    let failed = |e| Error::system(format!("{}: syncing the directory", directory.display()), e);
    durable::sync_directory(directory).map_err(failed)
}
