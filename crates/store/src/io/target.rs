//! A target: one directory of datafiles.
//!
//! ```text
//! TARGET/
//!   thalweg-target.toml           which store's target this is, and which number
//!   datafiles/xx/FFFFFFFFFFFFFFFF.I   datafile I of the file with that number (hexadecimal; xx: its last two digits)
//! ```
//!
//! Datafiles are plain sparse files: a person can look at them, and the kernel serves them without our help.

use crate::error::{Error, ErrorKind, Result};
use crate::protocol::io::{Allocate, DatafileId, DatafileSize, Found, Seek, TargetId, TargetSpace};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The version of a target's layout on disk.
const FORMAT: u32 = 1;
const IDENTITY: &str = "thalweg-target.toml";
/// Open datafiles kept for the next request.
const OPEN_DATAFILES: usize = 512;

/// What a target's directory says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetIdentity {
    /// Version of the layout on disk.
    pub format: u32,
    /// The store, 16 hexadecimal digits.
    pub store: String,
    /// The target's number in it.
    pub target: u32,
}

impl TargetIdentity {
    /// What this directory says of itself; `None` if it is not a target (or does not exist).
    ///
    /// # Errors
    /// When it says something that cannot be read.
    pub fn read(directory: &Path) -> Result<Option<TargetIdentity>> {
        let path = directory.join(IDENTITY);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => return Ok(None),
            Err(e) => return Err(Error::system(path.display(), e)),
        };
        let identity: TargetIdentity = toml::from_str(&text)
            .map_err(|e| Error::new(ErrorKind::Invalid, format!("{}: not a target's identity: {e}", path.display())))?;
        if identity.format != FORMAT {
            return Err(Error::new(
                ErrorKind::Version,
                format!("{}: made by format {}, this program knows {FORMAT}", path.display(), identity.format),
            ));
        }
        Ok(Some(identity))
    }
}

/// One directory of datafiles, being served.
pub struct Target {
    number: TargetId,
    directory: PathBuf,
    open: Mutex<HashMap<DatafileId, Arc<Datafile>>>,
    /// Locked as long as the target is served, so that no other process serves it.
    _lock: File,
}

/// An open datafile.
pub struct Datafile {
    file: File,
    path: PathBuf,
    /// Its name is not on the medium yet.
    name_unsynced: AtomicBool,
}

fn make_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(e) => Err(Error::system(path.display(), e)),
    }
}

fn sync_directory(path: &Path) -> Result<()> {
    File::open(path).and_then(|d| d.sync_all()).map_err(|e| Error::system(format!("{}: syncing the directory", path.display()), e))
}

impl Target {
    /// Opens target `number` of `store` in `directory`, which becomes one if it is none yet.
    ///
    /// # Errors
    /// When the directory is another store's or another number, is served already, or cannot be used.
    pub fn open(directory: &Path, store: u64, number: TargetId) -> Result<Target> {
        make_directory(directory)?;
        let path = directory.join(IDENTITY);
        let wanted = TargetIdentity { format: FORMAT, store: format!("{store:016x}"), target: number.0 };
        match TargetIdentity::read(directory)? {
            Some(found) if found == wanted => {}
            Some(found) => {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!(
                        "{} is target {} of store {}: expected target {} of store {}; give another directory",
                        directory.display(),
                        found.target,
                        found.store,
                        wanted.target,
                        wanted.store
                    ),
                ));
            }
            None if directory.join("datafiles").exists() => {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!("{} has datafiles and no {IDENTITY}: give another directory", directory.display()),
                ));
            }
            None => Target::make(directory, &path, &wanted)?,
        }
        make_directory(&directory.join("datafiles"))?;
        let lock = File::open(&path).map_err(|e| Error::system(path.display(), e))?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Error::new(ErrorKind::Busy, format!("{} is served by another process already", directory.display())));
        }
        Ok(Target { number, directory: directory.to_owned(), open: Mutex::default(), _lock: lock })
    }

    /// The identity appears whole or not at all.
    fn make(directory: &Path, path: &Path, identity: &TargetIdentity) -> Result<()> {
        let text = toml::to_string(identity).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
        let draft = directory.join(format!(".{IDENTITY}.{}", std::process::id()));
        let made = File::create(&draft)
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&draft, path));
        made.map_err(|e| Error::system(path.display(), e))?;
        sync_directory(directory)
    }

    /// Its number.
    pub fn number(&self) -> TargetId {
        self.number
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, id: DatafileId) -> PathBuf {
        self.directory.join(format!("datafiles/{:02x}/{}.{}", id.file.0 & 0xff, id.file, id.index))
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<DatafileId, Arc<Datafile>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A datafile that exists.
    pub fn existing(&self, id: DatafileId) -> Result<Option<Arc<Datafile>>> {
        self.find(id, false)
    }

    /// A datafile that is to exist.
    pub fn created(&self, id: DatafileId) -> Result<Arc<Datafile>> {
        self.find(id, true).map(|found| found.expect("created"))
    }

    fn find(&self, id: DatafileId, create: bool) -> Result<Option<Arc<Datafile>>> {
        let mut open = self.opened();
        if let Some(found) = open.get(&id) {
            return Ok(Some(Arc::clone(found)));
        }
        let path = self.path(id);
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let (file, is_new) = match options.open(&path) {
            Ok(file) => (file, false),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && !create => return Ok(None),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                options.create(true);
                let made = options.open(&path).or_else(|e| {
                    if e.kind() != std::io::ErrorKind::NotFound {
                        return Err(e);
                    }
                    let parent = path.parent().expect("it has one");
                    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
                    options.open(&path)
                });
                (made.map_err(|e| Error::system(path.display(), e))?, true)
            }
            Err(e) => return Err(Error::system(path.display(), e)),
        };
        if open.len() >= OPEN_DATAFILES {
            // Any one will do: whoever needs it again opens it again. One whose name is not on the medium is kept, since
            // that is remembered nowhere else.
            let victim =
                open.iter().find(|(_, d)| !d.name_unsynced.load(Ordering::Relaxed) && Arc::strong_count(d) == 1).map(|(id, _)| *id);
            let victim = victim.or_else(|| open.iter().find(|(_, d)| Arc::strong_count(d) == 1).map(|(id, _)| *id));
            if let Some(datafile) = victim.and_then(|victim| open.remove(&victim))
                && datafile.name_unsynced.load(Ordering::Relaxed)
            {
                self.sync_name(&datafile)?;
            }
        }
        let datafile = Arc::new(Datafile { file, path, name_unsynced: AtomicBool::new(is_new) });
        open.insert(id, Arc::clone(&datafile));
        Ok(Some(datafile))
    }

    /// Puts a datafile on the medium, and its name, if that is not there yet.
    pub fn sync(&self, id: DatafileId) -> Result<()> {
        let Some(datafile) = self.existing(id)? else { return Ok(()) };
        datafile.file.sync_data().map_err(|e| Error::system(format!("{}: syncing", datafile.path.display()), e))?;
        if datafile.name_unsynced.load(Ordering::Acquire) {
            self.sync_name(&datafile)?;
        }
        Ok(())
    }

    fn sync_name(&self, datafile: &Datafile) -> Result<()> {
        sync_directory(datafile.path.parent().expect("it has one"))?;
        sync_directory(&self.directory.join("datafiles"))?;
        datafile.name_unsynced.store(false, Ordering::Release);
        Ok(())
    }

    /// Its size; 0 if it does not exist.
    pub fn glimpse(&self, id: DatafileId) -> Result<DatafileSize> {
        let found = self.opened().get(&id).cloned();
        let metadata = match &found {
            Some(datafile) => datafile.file.metadata(),
            None => std::fs::symlink_metadata(self.path(id)),
        };
        match metadata {
            Ok(m) => Ok(DatafileSize { size_bytes: m.len(), allocated_bytes: m.blocks() * 512 }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(DatafileSize::default()),
            Err(e) => Err(Error::system(self.path(id).display(), e)),
        }
    }

    /// Cuts it off or extends it with a hole.
    pub fn truncate(&self, id: DatafileId, size_bytes: u64) -> Result<()> {
        let datafile = if size_bytes == 0 { self.existing(id)? } else { Some(self.created(id)?) };
        let Some(datafile) = datafile else { return Ok(()) };
        datafile.file.set_len(size_bytes).map_err(|e| Error::system(format!("{}: truncating to {size_bytes}", datafile.path.display()), e))
    }

    /// Gives a range of it space, or takes it away. One that does not exist has nothing that could be taken away.
    pub fn allocate(&self, id: DatafileId, offset: u64, length: u64, how: Allocate) -> Result<()> {
        let takes_only = matches!(how, Allocate::PunchHole | Allocate::ZeroRangeKeepSize);
        let datafile = if takes_only { self.existing(id)? } else { Some(self.created(id)?) };
        let Some(datafile) = datafile.filter(|_| length > 0) else { return Ok(()) };
        datafile.allocate(offset, length, how)
    }

    /// Looks for data or a hole in it.
    pub fn seek(&self, id: DatafileId, offset: u64, what: Seek) -> Result<Found> {
        match self.existing(id)? {
            Some(datafile) => datafile.seek(offset, what),
            None => Ok(Found { at: (what == Seek::Hole).then_some(offset), size_bytes: 0 }),
        }
    }

    /// Removes it. Requests that are working on it finish on what nobody can find any more.
    pub fn remove(&self, id: DatafileId) -> Result<()> {
        let mut open = self.opened();
        open.remove(&id);
        match std::fs::remove_file(self.path(id)) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(Error::system(self.path(id).display(), e)),
        }
    }

    /// Space on it.
    pub fn space(&self) -> Result<TargetSpace> {
        let s = rustix::fs::statvfs(&self.directory).map_err(|e| Error::system(self.directory.display(), e))?;
        let directory = std::fs::metadata(&self.directory).map_err(|e| Error::system(self.directory.display(), e))?;
        Ok(TargetSpace {
            target: self.number,
            directory: self.directory.display().to_string(),
            total_bytes: s.f_blocks.saturating_mul(s.f_frsize),
            available_bytes: s.f_bavail.saturating_mul(s.f_frsize),
            available_files: s.f_favail,
            file_system: directory.dev(),
        })
    }
}

impl Datafile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills `buffer` from `offset` on; how many bytes there were before its end.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut have = 0;
        while have < buffer.len() {
            match self.file.read_at(&mut buffer[have..], offset + have as u64) {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::system(format!("{}: reading at {offset}", self.path.display()), e)),
            }
        }
        Ok(have)
    }

    /// Writes all of `bytes`. If that fails in the middle (the disk is full), the range becomes a hole again, so that no
    /// part of a write that failed is read as data.
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let failed = match self.file.write_all_at(bytes, offset) {
            Ok(()) => return Ok(()),
            Err(e) => e,
        };
        use rustix::fs::FallocateFlags;
        let punched = rustix::fs::fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes.len() as u64);
        let note = match punched {
            Ok(()) => String::new(),
            Err(e) => format!(" (and what was stored of it could not be taken back: {e})"),
        };
        let error = Error::system(format!("{}: writing {} bytes at {offset}", self.path.display(), bytes.len()), failed);
        let advice = if error.kind() == ErrorKind::NoSpace { "; free space on this target or choose others" } else { "" };
        Err(Error::new(error.kind(), format!("{}{note}{advice}", error.message())))
    }

    /// Gives a range space, or takes it away.
    fn allocate(&self, offset: u64, length: u64, how: Allocate) -> Result<()> {
        use rustix::fs::{FallocateFlags as Flags, fallocate};
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
        done.map_err(|e| Error::system(format!("{}: allocating {length} bytes at {offset} ({how:?})", self.path.display()), e))
    }

    /// Looks for data or a hole.
    fn seek(&self, offset: u64, what: Seek) -> Result<Found> {
        use rustix::fs::{SeekFrom, seek};
        let failed = |e| Error::system(format!("{}: seeking from {offset}", self.path.display()), e);
        let size_bytes = self.file.metadata().map_err(|e| Error::system(self.path.display(), e))?.len();
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

    /// Begins to put a range on the medium. Only a hint: what fails here fails again, and is told, in a sync.
    pub fn start_writeback(&self, offset: u64, length: u64) {
        // SAFETY: takes numbers only, and an open descriptor.
        unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset as i64, length as i64, libc::SYNC_FILE_RANGE_WRITE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::io::FileId;

    #[test]
    fn a_directory_of_another_store_or_number_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(Target::open(dir.path(), 7, TargetId(3)).unwrap());
        drop(Target::open(dir.path(), 7, TargetId(3)).unwrap());
        for (store, number) in [(8, 3), (7, 4)] {
            let error = Target::open(dir.path(), store, TargetId(number)).err().unwrap();
            assert!(error.message().contains("target 3 of store 0000000000000007"), "{error}");
        }
    }

    #[test]
    fn a_target_is_served_once() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Target::open(dir.path(), 7, TargetId(3)).unwrap();
        assert_eq!(Target::open(dir.path(), 7, TargetId(3)).err().unwrap().kind(), ErrorKind::Busy);
    }

    #[test]
    fn more_datafiles_than_are_kept_open_still_work() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::open(dir.path(), 7, TargetId(0)).unwrap();
        let id = |file| DatafileId { file: FileId(file), index: 0, target: TargetId(0) };
        for file in 0..OPEN_DATAFILES as u64 + 50 {
            target.created(id(file)).unwrap().write(&file.to_le_bytes(), 4096).unwrap();
        }
        for file in 0..OPEN_DATAFILES as u64 + 50 {
            let mut bytes = [0; 8];
            assert_eq!(target.existing(id(file)).unwrap().unwrap().read(&mut bytes, 4096).unwrap(), 8);
            assert_eq!(u64::from_le_bytes(bytes), file);
            assert_eq!(target.glimpse(id(file)).unwrap().size_bytes, 4104);
        }
        target.remove(id(1)).unwrap();
        target.remove(id(1)).unwrap();
        assert_eq!(target.glimpse(id(1)).unwrap(), DatafileSize::default());
    }
}
