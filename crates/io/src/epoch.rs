//! A target's durable knowledge of the metadata service: the last start whose file numbers it has served, and how far the
//! metadata's log had come.
//!
//! A file's number begins with the epoch in which the metadata service assigned it, and the service's epoch never decreases on
//! its own. A service with a lower epoch than a target's has therefore lost its directory or was given an older copy: it would
//! reuse numbers, and new files would find the bytes of old ones. The same holds for another start with the same epoch, from
//! another copy. A service whose log is shorter than the target was notified of has lost names that were synced.
//!
//! Clients are not trusted about this: that an epoch has begun, and how far the log has come, is accepted only from the store's
//! own service at the address in the store's configuration ([`Starts`], [`super::follower`]).
//!
//! The epoch is on stable storage before the first datafile of it is created. It changes with starts, in a small text file that
//! is replaced whole. The log's position changes with every sync: it is stored in two lines of a separate file, overwritten
//! alternately in place, so that it costs one `fdatasync` of one block, and the previous line survives a power failure.

use super::name::each_datafile;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_base::durable;
use thalweg_base::sync::Mutex;
use thalweg_bulk::crc32c;
use thalweg_wire::protocol::common::{ServiceStart, Witnessed};
use thalweg_wire::protocol::io::FileId;
use thalweg_wire::{Error, ErrorKind, Result};

const NAME: &str = "thalweg-epoch.toml";
const WITNESS: &str = "thalweg-witness";
/// Bytes of a line of the witness file: a device writes them atomically.
const LINE: usize = 512;
const LINES: u64 = 2;

/// Knows the starts of the metadata service.
pub(super) trait Starts: Send + Sync {
    /// Returns the current start of the service, which has at least this epoch.
    ///
    /// # Errors
    /// When this epoch has not begun, or the service does not answer.
    fn of(&self, epoch: u64) -> Result<ServiceStart>;
}

/// The contents of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EpochFile {
    epoch: u64,
    /// The start with this epoch, 16 hexadecimal digits; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<String>,
}

impl EpochFile {
    fn start(&self) -> Option<u64> {
        match &self.start {
            None => Some(0),
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
        }
    }
}

/// A target's knowledge of the metadata service.
pub(super) struct Epoch {
    directory: PathBuf,
    highest: AtomicU64,
    /// Held while its files are written.
    kept: Mutex<Durable>,
    starts: OnceLock<Arc<dyn Starts>>,
    adopted: bool,
}

/// The state on stable storage.
struct Durable {
    seen: Witnessed,
    /// Lines written to the witness file so far.
    lines: u64,
    /// The witness file; `None` before the first write, and after a failed one.
    file: Option<File>,
}

impl Epoch {
    /// Creates the file of a new target.
    pub(super) fn make(directory: &Path) -> Result<()> {
        write(directory, ServiceStart::default())
    }

    /// Opens the file of an existing target. For a target of an earlier release, scans the datafiles once.
    pub(super) fn open(directory: &Path) -> Result<Epoch> {
        let kept = read_start(directory)?;
        let adopted = kept.is_none();
        let start = match kept {
            Some(kept) => kept,
            None => {
                let mut epoch = 0;
                each_datafile(directory, false, &mut |_, file, _, _| epoch = epoch.max(file.epoch()))?;
                let found = ServiceStart { epoch, start: 0 };
                write(directory, found)?;
                found
            }
        };
        let (lines, witnessed) = read_witness(&directory.join(WITNESS))?;
        let kept = Durable { seen: witnessed_in(start, witnessed), lines, file: None };
        let (highest, directory) = (AtomicU64::new(start.epoch), directory.to_owned());
        Ok(Epoch { directory, highest, kept: Mutex::new(kept), starts: OnceLock::new(), adopted })
    }

    /// Sets whom to ask which epochs have begun.
    pub(super) fn ask(&self, starts: Arc<dyn Starts>) {
        let _ = self.starts.set(starts);
    }

    /// Returns the durable knowledge.
    pub(super) fn seen(&self) -> Witnessed {
        self.kept.lock().seen
    }

    pub(super) fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// Checks that a datafile of this file may be created. For a later epoch, the service must confirm that it has begun.
    pub(super) fn serves(&self, file: FileId) -> Result<()> {
        let epoch = file.epoch();
        if epoch <= self.highest.load(Ordering::Acquire) {
            return Ok(());
        }
        let starts = self.starts.get();
        let start = starts.ok_or_else(|| Error::new(ErrorKind::Io, "there is no metadata service to ask"))?.of(epoch)?;
        self.begin(&mut self.kept.lock(), start)
    }

    /// Records the service's current start, unless known.
    fn begin(&self, kept: &mut Durable, start: ServiceStart) -> Result<()> {
        if start == kept.seen.start {
            return Ok(());
        }
        if start.is_behind(kept.seen.start) {
            return Err(Error::new(ErrorKind::Absent, "the metadata service runs from an older copy of its directory"));
        }
        self.set(kept, start)
    }

    fn set(&self, kept: &mut Durable, start: ServiceStart) -> Result<()> {
        write(&self.directory, start)?;
        kept.seen = Witnessed { start, change: 0 };
        self.highest.store(start.epoch, Ordering::Release);
        Ok(())
    }

    /// Records durably that the service's log has reached `change`, in this start.
    pub(super) fn witness(&self, start: ServiceStart, change: u64) -> Result<()> {
        let mut kept = self.kept.lock();
        self.begin(&mut kept, start)?;
        if change <= kept.seen.change {
            return Ok(());
        }
        let path = self.directory.join(WITNESS);
        let written = self.write_line(&mut kept, Witnessed { start, change });
        if written.is_err() {
            // Reopen the file: its state after a failed sync is unknown.
            kept.file = None;
        }
        written.map_err(|e| Error::system(path.display(), e))?;
        kept.seen.change = change;
        Ok(())
    }

    fn write_line(&self, kept: &mut Durable, witnessed: Witnessed) -> std::io::Result<()> {
        let path = self.directory.join(WITNESS);
        let file = match &mut kept.file {
            Some(file) => file,
            empty => {
                if std::fs::metadata(&path).map_or(0, |there| there.len()) < LINES * LINE as u64 {
                    let empty = format!("{}\n", " ".repeat(LINE - 1));
                    durable::replace(&empty.repeat(LINES as usize), &path)?;
                }
                empty.insert(File::options().write(true).open(&path)?)
            }
        };
        file.write_all_at(&line(kept.lines + 1, witnessed), (kept.lines + 1) % LINES * LINE as u64)?;
        file.sync_data()?;
        kept.lines += 1;
        Ok(())
    }

    /// Continues from a start with older metadata than this target was notified of, on an administrator's request. If numbers go
    /// back, `set_aside` moves the datafiles with later ones.
    pub(super) fn continue_from(&self, start: ServiceStart, set_aside: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut kept = self.kept.lock();
        if start == kept.seen.start {
            return Ok(());
        }
        if start.is_behind(kept.seen.start) {
            set_aside()?;
        }
        self.set(&mut kept, start)
    }
}

/// Returns what a target has witnessed, without changing anything; the default of an early release's target, which did not keep it.
pub(super) fn seen(directory: &Path) -> Result<Witnessed> {
    let start = read_start(directory)?.unwrap_or_default();
    Ok(witnessed_in(start, read_witness(&directory.join(WITNESS))?.1))
}

fn witnessed_in(start: ServiceStart, witnessed: Witnessed) -> Witnessed {
    Witnessed { start, change: if witnessed.start == start { witnessed.change } else { 0 } }
}

/// Reads the start in a target's file, if there is one.
fn read_start(directory: &Path) -> Result<Option<ServiceStart>> {
    let path = directory.join(NAME);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::system(path.display(), e)),
    };
    let kept = toml::from_str::<EpochFile>(&text).ok();
    let read = kept.and_then(|kept| Some(ServiceStart { epoch: kept.epoch, start: kept.start()? }));
    let what = "expected `epoch = NUMBER`; if you remove it, it is inferred from the datafiles";
    read.map(Some).ok_or_else(|| Error::new(ErrorKind::Invalid, format!("{}: {what}", path.display())))
}

fn write(directory: &Path, service: ServiceStart) -> Result<()> {
    let start = (service.start != 0).then(|| format!("{:016x}", service.start));
    let text = toml::to_string(&EpochFile { epoch: service.epoch, start }).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
    let path = directory.join(NAME);
    durable::replace(&text, &path).map_err(|e| Error::system(path.display(), e))
}

/// Formats a line of the witness file: readable text, and a checksum.
fn line(number: u64, Witnessed { start, change }: Witnessed) -> Vec<u8> {
    let text = format!("{number} epoch {} start {:016x} change {change}", start.epoch, start.start);
    let mut line = format!("{text} crc {:08x}", crc32c(text.as_bytes())).into_bytes();
    line.resize(LINE - 1, b' ');
    line.push(b'\n');
    line
}

/// Parses a line's number and contents; `None`: not written completely.
fn read_line(line: &[u8]) -> Option<(u64, Witnessed)> {
    let (text, crc) = std::str::from_utf8(line).ok()?.trim_end().rsplit_once(" crc ")?;
    if u32::from_str_radix(crc, 16) != Ok(crc32c(text.as_bytes())) {
        return None;
    }
    let [number, "epoch", epoch, "start", start, "change", change] = text.split(' ').collect::<Vec<_>>()[..] else { return None };
    let start = ServiceStart { epoch: epoch.parse().ok()?, start: u64::from_str_radix(start, 16).ok()? };
    Some((number.parse().ok()?, Witnessed { start, change: change.parse().ok()? }))
}

/// Reads the last line of a witness file; the default if there is none.
fn read_witness(path: &Path) -> Result<(u64, Witnessed)> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(bytes.chunks(LINE).filter_map(read_line).max_by_key(|(number, _)| *number).unwrap_or_default()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Default::default()),
        Err(e) => Err(Error::system(path.display(), e)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::name::DATAFILES;
    use super::*;

    const START: ServiceStart = ServiceStart { epoch: 3, start: 5 };

    #[test]
    fn what_was_witnessed_is_found_again_and_a_line_cut_short_leaves_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        Epoch::make(directory.path()).unwrap();
        std::fs::create_dir(directory.path().join(DATAFILES)).unwrap();
        let open = || Epoch::open(directory.path()).unwrap();
        let epoch = open();
        for change in 10..15 {
            epoch.witness(START, change).unwrap();
        }
        epoch.witness(START, 12).unwrap();
        assert_eq!(open().seen(), Witnessed { start: START, change: 14 });
        // The last of five lines is the second one of the file.
        let path = directory.path().join(WITNESS);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[LINE + 30] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let epoch = open();
        assert_eq!(epoch.seen().change, 13);
        epoch.witness(START, 20).unwrap();
        assert_eq!(open().seen().change, 20);
        let next = ServiceStart { epoch: 4, start: 6 };
        epoch.witness(next, 18).unwrap();
        assert_eq!(open().seen(), Witnessed { start: next, change: 18 });
        assert!(epoch.witness(START, 99).is_err(), "an older start is not believed");
        assert_eq!(open().seen(), Witnessed { start: next, change: 18 });
    }
}
