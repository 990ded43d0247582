//! A target: one directory of datafiles.
//!
//! ```text
//! TARGET/
//!   thalweg-target.toml           which store's target this is, and which number
//!   datafiles/xx/FFFFFFFFFFFFFFFF.I   datafile I of the file with that number (hexadecimal; xx: its last two digits)
//! ```
//!
//! Datafiles are plain sparse files: a person can look at them, and the kernel serves them without our help.

use super::datafile::{Datafile, Make};
use super::home::{Home, sync_directory};
use super::open::OpenDatafiles;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::io::{Allocate, DatafileId, DatafileSize, Found, Seek, TargetId, TargetSpace};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// The version of a target's layout on disk.
const FORMAT: u32 = 1;
const IDENTITY: &str = "thalweg-target.toml";

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
    home: Arc<Home>,
    open: OpenDatafiles,
    /// Locked as long as the target is served, so that no other process serves it.
    _lock: File,
}

fn make_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(e) => Err(Error::system(path.display(), e)),
    }
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
        Ok(Target { number, home: Arc::new(Home::open(directory)?), open: OpenDatafiles::default(), _lock: lock })
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
        &self.home.directory
    }

    /// A datafile that exists.
    pub fn existing(&self, id: DatafileId) -> Result<Option<Arc<Datafile>>> {
        self.open.get_or_open(id, || Datafile::open(&self.home, id, Make::Not))
    }

    /// A datafile that is to exist.
    pub fn created(&self, id: DatafileId) -> Result<Arc<Datafile>> {
        self.open.get_or_open(id, || Datafile::open(&self.home, id, Make::IfMissing)).map(|found| found.expect("created"))
    }

    /// A datafile for one request of many: kept open no longer than that, since it is one of very many. `create`: it is probably
    /// not there yet, and is made.
    pub fn briefly(&self, id: DatafileId, create: bool) -> Result<Option<Arc<Datafile>>> {
        match self.open.get(id) {
            Some(datafile) => Ok(Some(datafile)),
            None => Ok(Datafile::open(&self.home, id, if create { Make::Surely } else { Make::Not })?.map(Arc::new)),
        }
    }

    /// Puts a datafile on the medium, and its name, if that is not there yet.
    pub fn sync(&self, id: DatafileId) -> Result<()> {
        self.briefly(id, false)?.map_or(Ok(()), |datafile| datafile.sync())
    }

    /// Its size; 0 if it does not exist.
    pub fn glimpse(&self, id: DatafileId) -> Result<DatafileSize> {
        self.home.glimpse(id)
    }

    /// Cuts it off or extends it with a hole.
    pub fn truncate(&self, id: DatafileId, size_bytes: u64) -> Result<()> {
        let datafile = if size_bytes == 0 { self.existing(id)? } else { Some(self.created(id)?) };
        datafile.map_or(Ok(()), |datafile| datafile.truncate(size_bytes))
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
        self.open.without(id, || self.home.remove(id))
    }

    /// Space on it.
    pub fn space(&self) -> Result<TargetSpace> {
        let s = rustix::fs::statvfs(self.directory()).map_err(|e| Error::system(self.directory().display(), e))?;
        let directory = std::fs::metadata(self.directory()).map_err(|e| Error::system(self.directory().display(), e))?;
        Ok(TargetSpace {
            target: self.number,
            directory: self.directory().display().to_string(),
            total_bytes: s.f_blocks.saturating_mul(s.f_frsize),
            available_bytes: s.f_bavail.saturating_mul(s.f_frsize),
            available_files: s.f_favail,
            file_system: directory.dev(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::open::OPEN_DATAFILES;
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
