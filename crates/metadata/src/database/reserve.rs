//! Space reserved for a full disk: a file in the metadata directory that is released then.
//!
//! A start writes (the log's next segment, the epoch), and so does removing files, which is the way to free space. The reserve is released
//! in steps as needed, and each step goes immediately to the file that needs it, since a program that fills the disk takes any free space.
//! While the disk is full, transactions that need space are refused, so that the reserve remains for removals. It is refilled, before
//! anything else is written, once there is room for it and as much again. A start leaves the log no longer than it was, and refills what it
//! used.

use super::layers::Layer;
use crate::database::{DatabaseError, Table};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use thalweg_base::private;
use thalweg_base::sync::Mutex;

/// The name of the file.
pub(super) const RESERVE_FILE: &str = "reserve";
/// The full size: enough for the records of some thousand removals.
const RESERVE_BYTES: u64 = 512 << 10;
/// The size of a step.
pub(super) const STEP_BYTES: u64 = 32 << 10;

/// The reserve of a metadata directory.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    is_held: Mutex<bool>,
}

impl Reserve {
    /// Returns the directory's reserve, whether held or not.
    pub(super) fn of(directory: &Path) -> Reserve {
        let path = directory.join(RESERVE_FILE);
        let reserve = Reserve { path, is_held: Mutex::new(false) };
        *reserve.is_held.lock() = reserve.bytes() >= RESERVE_BYTES;
        reserve
    }

    /// Returns whether the reserve is complete, refilling it if possible.
    pub(super) fn hold(&self) -> bool {
        let mut is_held = self.is_held.lock();
        if !*is_held {
            *is_held = self.has_room() && self.extend_to(RESERVE_BYTES).is_ok();
        }
        *is_held
    }

    /// Returns the bytes not released.
    pub(super) fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |found| found.len())
    }

    /// Releases a step; returns whether there was one.
    pub(super) fn give_up(&self) -> bool {
        let mut is_held = self.is_held.lock();
        *is_held = false;
        let shorter = File::options().write(true).open(&self.path).and_then(|file| {
            let left = file.metadata()?.len();
            file.set_len(left.saturating_sub(STEP_BYTES)).map(|()| left > 0)
        });
        shorter.unwrap_or(false)
    }

    /// Releases a step for writing to `file` after offset `at`; returns whether there was one.
    pub(super) fn lend(&self, file: &File, at: u64) -> bool {
        // On a file system without preallocation, the step is free until it is written to.
        self.give_up()
            && fallocate(file, FallocateFlags::KEEP_SIZE, at, STEP_BYTES).map_or_else(|e| e != rustix::io::Errno::NOSPC, |()| true)
    }

    /// Refills what was released since the reserve had `bytes`, as far as there is room.
    pub(super) fn take_back(&self, bytes: u64) {
        let _held = self.is_held.lock();
        let mut back = bytes;
        while back > self.bytes() && self.extend_to(back).is_err() {
            back -= STEP_BYTES.min(back);
        }
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn has_room(&self) -> bool {
        self.available_bytes().is_some_and(|available| available >= 2 * RESERVE_BYTES)
    }

    /// Returns the disk's free space; `None` if unknown.
    fn available_bytes(&self) -> Option<u64> {
        statvfs(self.directory()).ok().map(|space| space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Checks that this many bytes of log fit into the redb file.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), DatabaseError> {
        match self.available_bytes() {
            Some(available) if available < bytes => {
                let problem =
                    format!("its disk is full: the log has {bytes} bytes, and {available} are free to put them into the database");
                Err(DatabaseError { full: true, ..DatabaseError::new(self.directory(), problem) })
            }
            _ => Ok(()),
        }
    }

    /// Extends the file to `bytes`, or leaves its length unchanged if there is no room.
    fn extend_to(&self, bytes: u64) -> std::io::Result<()> {
        let file = private::files().write(true).create(true).truncate(false).open(&self.path)?;
        let before = file.metadata()?.len();
        let done = match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Err(rustix::io::Errno::OPNOTSUPP) => file.write_all_at(&vec![0; bytes as usize], 0),
            done => done.map_err(Into::into),
        };
        done.inspect_err(|_| drop(file.set_len(before)))
    }

    /// Returns the error for transactions refused while it is released.
    pub(super) fn refusal(&self) -> DatabaseError {
        DatabaseError {
            full: true,
            ..DatabaseError::new(self.directory(), "its disk is full: until there is room, files can only be read and removed")
        }
    }
}

/// Returns whether a transaction adds data and removes none, so that it waits for space.
pub(super) fn makes_something(changes: &Layer) -> bool {
    let is_made_of = |table: Table| matches!(table, Table::Inodes | Table::Entries | Table::Extended | Table::Drafts);
    let mut makes = false;
    for (table, _, value) in changes.iter() {
        match value {
            None => return false,
            Some(_) => makes |= is_made_of(table),
        }
    }
    makes
}
