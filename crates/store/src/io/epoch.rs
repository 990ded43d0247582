//! The highest epoch of the file numbers that a target has served.
//!
//! A file's number begins with the epoch in which the metadata service gave it, and the service never goes back by itself. So a
//! service whose epoch is lower than a target's has lost its directory, or was given an older copy of it: it would give numbers a
//! second time, and new files would find the bytes of old ones. The epoch is on stable storage before the first datafile of it is
//! made.

use super::home::publish;
use super::target::DATAFILES;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::io::FileId;
use crate::sync::locked;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const NAME: &str = "thalweg-epoch.toml";

/// What the file says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    epoch: u64,
}

/// See the module.
pub(super) struct Epoch {
    directory: PathBuf,
    highest: AtomicU64,
    /// Held while it grows.
    growing: Mutex<()>,
    adopted: bool,
}

impl Epoch {
    /// Of a target that is being made.
    pub fn make(directory: &Path) -> Result<()> {
        write(directory, 0)
    }

    /// Of a target that is there. One that was made by an earlier release has its datafiles looked through, once.
    pub fn open(directory: &Path) -> Result<Epoch> {
        let path = directory.join(NAME);
        let kept = match std::fs::read_to_string(&path) {
            Ok(text) => Some(toml::from_str::<Kept>(&text).map_err(|e| {
                let what = "expected `epoch = NUMBER`; removed, it is found again from the datafiles";
                Error::new(ErrorKind::Invalid, format!("{}: {}: {what}", path.display(), e.message()))
            })?),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::system(path.display(), e)),
        };
        let adopted = kept.is_none();
        let highest = match kept {
            Some(kept) => kept.epoch,
            None => {
                let found = highest_of_datafiles(&directory.join(DATAFILES))?;
                write(directory, found)?;
                found
            }
        };
        Ok(Epoch { directory: directory.to_owned(), highest: AtomicU64::new(highest), growing: Mutex::default(), adopted })
    }

    pub fn highest(&self) -> u64 {
        self.highest.load(Ordering::Acquire)
    }

    pub fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// A datafile of this file may be made.
    pub fn serves(&self, file: FileId) -> Result<()> {
        let epoch = file.epoch();
        if epoch <= self.highest() {
            return Ok(());
        }
        let _growing = locked(&self.growing);
        if epoch > self.highest() {
            write(&self.directory, epoch)?;
            self.highest.store(epoch, Ordering::Release);
        }
        Ok(())
    }
}

fn write(directory: &Path, epoch: u64) -> Result<()> {
    publish(directory, NAME, &format!("epoch = {epoch}\n"))
}

/// The highest epoch among the names of datafiles; what is no datafile's name is passed over.
fn highest_of_datafiles(datafiles: &Path) -> Result<u64> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |e: std::io::Error| Error::system(path.display(), e)
    };
    let mut highest = 0;
    for part in std::fs::read_dir(datafiles).map_err(failed(datafiles))? {
        let part = part.map_err(failed(datafiles))?.path();
        if !part.is_dir() {
            continue;
        }
        for datafile in std::fs::read_dir(&part).map_err(failed(&part))? {
            let name = datafile.map_err(failed(&part))?.file_name();
            let number = name.to_str().and_then(|name| u64::from_str_radix(name.split_once('.')?.0, 16).ok());
            highest = highest.max(number.map_or(0, |number| FileId(number).epoch()));
        }
    }
    Ok(highest)
}
