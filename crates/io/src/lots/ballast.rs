//! A preallocated file that holds promised and unused space against other programs. It shrinks a step ahead of writes into lots,
//! and grows again when their files are removed.
//!
//! Space it gives up is free for everyone until the write that needs it arrives, so that a program that writes all the time takes
//! some of it. Giving the step to the datafile immediately was tried: it helps little on ext4, and the step would count as used.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use thalweg_base::private;
use thalweg_base::sync::Mutex;
use thalweg_wire::limits;
use thalweg_wire::{Error, Result};

const NAME: &str = "ballast";
/// Bytes preallocated per system call: a writer that needs some waits no longer than that.
const GROWTH_BYTES: u64 = 256 << 20;

/// The ballast file of a target.
pub(super) struct Ballast {
    path: PathBuf,
    file: Mutex<Option<File>>,
    /// Bytes held.
    bytes: AtomicU64,
    /// Bytes given up ahead of writes.
    ahead: AtomicI64,
}

impl Ballast {
    /// Opens the file in `lots`, which may not exist yet; takes over an existing file.
    pub(super) fn open(lots: &Path) -> Result<Ballast> {
        let path = lots.join(NAME);
        let failed = |e| Error::system(path.display(), e);
        let file = match File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(&path) {
            Ok(file) => Some(file),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(failed(e)),
        };
        let bytes = match &file {
            // The blocks count, in case a growth was interrupted.
            Some(file) => file.metadata().map(|found| found.len().min(found.blocks() * 512)).map_err(failed)?,
            None => 0,
        };
        Ok(Ballast { file: Mutex::new(file), path, bytes: bytes.into(), ahead: 0.into() })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }

    /// Gives up space before `bytes` are written into lots, a step ahead.
    pub(super) fn ahead_of(&self, bytes: u64) {
        if self.bytes() > 0 && self.ahead.fetch_sub(bytes as i64, SeqCst) < bytes as i64 {
            self.give_up(bytes.max(limits::BALLAST_STEP_BYTES));
        }
    }

    /// Gives up `bytes`, or what there is; returns whether there was something.
    pub(super) fn give_up(&self, bytes: u64) -> bool {
        let file = self.file.lock();
        let Some(open) = &*file else { return false };
        let before = self.bytes();
        let after = before.saturating_sub(bytes);
        if before == 0 || open.set_len(after).is_err() {
            return false;
        }
        self.bytes.store(after, SeqCst);
        self.ahead.fetch_add((before - after) as i64, SeqCst);
        true
    }

    /// Holds what is promised, and room for names if available.
    ///
    /// # Errors
    /// When what is promised is not free; the previous amount stays held.
    pub(super) fn fit(&self, promised: u64) -> Result<()> {
        if promised == 0 {
            return self.take_away();
        }
        while self.bytes() < promised {
            // In steps, so that writers get their turn.
            self.grow(promised)?;
        }
        let wanted = promised + limits::LOT_NAMES_BYTES + promised / limits::HEADROOM_PART;
        let _ = self.grow(wanted);
        let surplus = self.bytes().saturating_sub(wanted);
        if surplus > 0 {
            self.give_up(surplus);
        }
        self.ahead.store(0, SeqCst);
        Ok(())
    }

    fn grow(&self, wanted: u64) -> Result<()> {
        let failed = |e| Error::system(format!("{}: preallocating space promised to lots", self.path.display()), e);
        let mut file = self.file.lock();
        let open = match &mut *file {
            Some(open) => open,
            empty => {
                let made = private::files().write(true).create(true).truncate(true).custom_flags(libc::O_NOFOLLOW).open(&self.path);
                empty.insert(made.map_err(failed)?)
            }
        };
        let before = self.bytes();
        let more = wanted.saturating_sub(before).min(GROWTH_BYTES);
        if more == 0 {
            return Ok(());
        }
        let grown = rustix::fs::fallocate(&*open, rustix::fs::FallocateFlags::empty(), before, more);
        if let Err(e) = grown {
            let _ = open.set_len(before);
            return Err(failed(e.into()));
        }
        self.bytes.store(before + more, SeqCst);
        Ok(())
    }

    fn take_away(&self) -> Result<()> {
        let mut file = self.file.lock();
        if file.take().is_some() {
            std::fs::remove_file(&self.path).map_err(|e| Error::system(self.path.display(), e))?;
        }
        self.bytes.store(0, SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shrinks_a_step_ahead_of_writes_and_grows_again_and_is_taken_away_with_the_last_promise() {
        let directory = tempfile::tempdir().unwrap();
        let ballast = Ballast::open(directory.path()).unwrap();
        let step = limits::BALLAST_STEP_BYTES;
        let names = |promised| limits::LOT_NAMES_BYTES + promised / limits::HEADROOM_PART;
        ballast.fit(8 * step).unwrap();
        let whole = 8 * step + names(8 * step);
        assert_eq!(ballast.bytes(), whole);
        for _ in 0..4 {
            ballast.ahead_of(step / 4);
        }
        assert_eq!(ballast.bytes(), whole - step, "a step at a time");
        ballast.ahead_of(1);
        assert_eq!(ballast.bytes(), whole - 2 * step);
        ballast.ahead_of(3 * step);
        assert_eq!(ballast.bytes(), whole - 5 * step);
        let again = Ballast::open(directory.path()).unwrap();
        assert_eq!(again.bytes(), whole - 5 * step, "a restart takes it over");
        ballast.fit(8 * step).unwrap();
        assert_eq!((ballast.bytes(), std::fs::metadata(directory.path().join(NAME)).unwrap().len()), (whole, whole));
        ballast.fit(2 * step).unwrap();
        assert_eq!(ballast.bytes(), 2 * step + names(2 * step));
        ballast.fit(0).unwrap();
        assert!(!directory.path().join(NAME).exists() && !ballast.give_up(1));
    }
}
