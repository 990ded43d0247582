//! The last start of the metadata service whose file numbers a target has served.
//!
//! A file's number begins with the epoch in which the metadata service gave it, and the service never goes back by itself. So a
//! service whose epoch is lower than a target's has lost its directory, or was given an older copy of it: it would give numbers a
//! second time, and new files would find the bytes of old ones. So would one of the same epoch that is another start, of another copy: clients
//! say which start they know. The epoch is on stable storage before the first datafile of it is made.

use super::home::DATAFILES;
use crate::durable;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::common::ServiceStart;
use crate::protocol::io::FileId;
use crate::sync::Mutex;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const NAME: &str = "thalweg-epoch.toml";

/// What the file says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    epoch: u64,
    /// Which start of that epoch, 16 hexadecimal digits; not there if nobody has said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<String>,
}

impl Kept {
    fn start(&self) -> Option<u64> {
        match &self.start {
            None => Some(0),
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
        }
    }
}

/// See the module.
pub(super) struct Epoch {
    directory: PathBuf,
    highest: AtomicU64,
    /// Held while it grows.
    starts: Mutex<Starts>,
    adopted: bool,
}

struct Starts {
    /// Of the highest epoch; 0: not known.
    kept: u64,
    /// What clients have said lately.
    said: ServiceStart,
}

impl Epoch {
    /// Of a target that is being made.
    pub(super) fn make(directory: &Path) -> Result<()> {
        write(directory, ServiceStart::default())
    }

    /// Of a target that is there. One that was made by an earlier release has its datafiles looked through, once.
    pub(super) fn open(directory: &Path) -> Result<Epoch> {
        let path = directory.join(NAME);
        let kept = match std::fs::read_to_string(&path) {
            Ok(text) => {
                let kept = toml::from_str::<Kept>(&text).ok();
                let read = kept.and_then(|kept| Some(ServiceStart { epoch: kept.epoch, start: kept.start()? }));
                Some(read.ok_or_else(|| {
                    let what = "expected `epoch = NUMBER`; removed, it is found again from the datafiles";
                    Error::new(ErrorKind::Invalid, format!("{}: {what}", path.display()))
                })?)
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::system(path.display(), e)),
        };
        let adopted = kept.is_none();
        let kept = match kept {
            Some(kept) => kept,
            None => {
                let found = ServiceStart { epoch: highest_of_datafiles(&directory.join(DATAFILES))?, start: 0 };
                write(directory, found)?;
                found
            }
        };
        let starts = Mutex::new(Starts { kept: kept.start, said: ServiceStart::default() });
        Ok(Epoch { directory: directory.to_owned(), highest: AtomicU64::new(kept.epoch), starts, adopted })
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest.load(Ordering::Acquire)
    }

    /// The last start that it has served.
    pub(super) fn seen(&self) -> ServiceStart {
        let starts = self.starts.lock();
        ServiceStart { epoch: self.highest(), start: starts.kept }
    }

    /// A client knows this start of the service.
    pub(super) fn is_said(&self, service: ServiceStart) {
        let mut starts = self.starts.lock();
        starts.said = starts.said.max(service);
    }

    pub(super) fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// A datafile of this file may be made.
    pub(super) fn serves(&self, file: FileId) -> Result<()> {
        let epoch = file.epoch();
        if epoch <= self.highest() {
            return Ok(());
        }
        let mut starts = self.starts.lock();
        if epoch > self.highest() {
            let start = if starts.said.epoch == epoch { starts.said.start } else { 0 };
            write(&self.directory, ServiceStart { epoch, start })?;
            starts.kept = start;
            self.highest.store(epoch, Ordering::Release);
        }
        Ok(())
    }
}

fn write(directory: &Path, service: ServiceStart) -> Result<()> {
    let start = (service.start != 0).then(|| format!("{:016x}", service.start));
    let text = toml::to_string(&Kept { epoch: service.epoch, start }).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
    let path = directory.join(NAME);
    durable::write(&text, &directory.join(format!(".{NAME}.{}", std::process::id())), &path).map_err(|e| Error::system(path.display(), e))
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
