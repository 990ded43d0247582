//! Tracks which names of datafiles are on stable storage.

use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_base::sync::Mutex;
use thalweg_wire::Result;

/// Directories over which datafiles are spread.
pub(super) const PARTS: usize = 256;

/// The names not yet durable, by directory, which is the unit of a sync. All names made in a directory before one sync share it.
pub(super) struct UnsyncedNames {
    /// One for each part; the last is for the parts' own names.
    directories: Vec<Directory>,
}

struct Directory {
    /// Names made so far. Starts at 1: names found at start may be from a process killed before it synced them.
    made: AtomicU64,
    /// How many of them are durable.
    synced: Mutex<u64>,
}

impl UnsyncedNames {
    pub(super) fn new() -> UnsyncedNames {
        let directory = |_| Directory { made: AtomicU64::new(1), synced: Mutex::new(0) };
        UnsyncedNames { directories: (0..=PARTS).map(directory).collect() }
    }

    /// Counts a name made in this directory.
    pub(super) fn made(&self, directory: usize) {
        self.directories[directory].made.fetch_add(1, Ordering::Release);
    }

    /// Syncs a directory, unless all its names are durable.
    pub(super) fn sync(&self, directory: usize, sync: impl FnOnce() -> Result<()>) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::Error;

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
        assert!(names.sync(3, || Err(Error::new(thalweg_wire::ErrorKind::Io, "the disk"))).is_err());
        names.sync(3, sync).unwrap();
        names.sync(3, sync).unwrap();
        assert_eq!(syncs.get(), 1);
        names.made(3);
        names.sync(3, sync).unwrap();
        assert_eq!(syncs.get(), 2);
    }
}
