//! Room that is kept for the day on which the disk is full: a file in the metadata directory whose space is given up then.
//!
//! A start writes (the log's next segment, the epoch), and so does removing, which is the way out. The reserve is given up in steps, as they are
//! needed, and a step goes to the file that needs it in the same moment: a program that fills the disk takes what is free. While the disk is full,
//! transactions that make something are refused, so that the reserve is there for those that remove. It is taken again, before anything else is
//! written, as soon as there is room for it and as much again; and a start, which leaves the log no longer than it was, takes back what it used.

use super::layers::Layer;
use crate::database::{DatabaseError, Table};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use thalweg_base::private;
use thalweg_base::sync::Mutex;

/// Its name.
pub(super) const RESERVE_FILE: &str = "reserve";
/// Its size: the records of some thousand removals.
const RESERVE_BYTES: u64 = 512 << 10;
/// What is given up at a time.
pub(super) const STEP_BYTES: u64 = 32 << 10;

/// The reserve of one metadata directory.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    is_held: Mutex<bool>,
}

impl Reserve {
    /// The one that is there, or not.
    pub(super) fn of(directory: &Path) -> Reserve {
        let path = directory.join(RESERVE_FILE);
        let reserve = Reserve { path, is_held: Mutex::new(false) };
        *reserve.is_held.lock() = reserve.bytes() >= RESERVE_BYTES;
        reserve
    }

    /// Whether it is there, or could be taken just now.
    pub(super) fn hold(&self) -> bool {
        let mut is_held = self.is_held.lock();
        if !*is_held {
            *is_held = self.has_room() && self.extend_to(RESERVE_BYTES).is_ok();
        }
        *is_held
    }

    /// Its bytes that have not been given up.
    pub(super) fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |found| found.len())
    }

    /// Gives a step of it up; whether there was one.
    pub(super) fn give_up(&self) -> bool {
        let mut is_held = self.is_held.lock();
        *is_held = false;
        let shorter = File::options().write(true).open(&self.path).and_then(|file| {
            let left = file.metadata()?.len();
            file.set_len(left.saturating_sub(STEP_BYTES)).map(|()| left > 0)
        });
        shorter.unwrap_or(false)
    }

    /// Gives a step of it up for what is written to `file` past `at`; whether there was one.
    pub(super) fn lend(&self, file: &File, at: u64) -> bool {
        // Where a file system allocates nothing beforehand, the step is free until it is written to.
        self.give_up()
            && fallocate(file, FallocateFlags::KEEP_SIZE, at, STEP_BYTES).map_or_else(|e| e != rustix::io::Errno::NOSPC, |()| true)
    }

    /// Takes back what was given up since it had `bytes`, as far as there is room. The disk is as full as it was.
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

    /// What the disk has free for anybody; `None`: it does not say.
    fn available_bytes(&self) -> Option<u64> {
        statvfs(self.directory()).ok().map(|space| space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Whether so many bytes of log have room in the redb file.
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

    /// Makes it `bytes` long. Without room for that it is as long as it was.
    fn extend_to(&self, bytes: u64) -> std::io::Result<()> {
        let file = private::files().write(true).create(true).truncate(false).open(&self.path)?;
        let before = file.metadata()?.len();
        let done = match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Err(rustix::io::Errno::OPNOTSUPP) => file.write_all_at(&vec![0; bytes as usize], 0),
            done => done.map_err(Into::into),
        };
        done.inspect_err(|_| drop(file.set_len(before)))
    }

    /// Why nothing is made while it is given up.
    pub(super) fn refusal(&self) -> DatabaseError {
        DatabaseError {
            full: true,
            ..DatabaseError::new(self.directory(), "its disk is full: reading and removing only until there is room")
        }
    }
}

/// Whether a transaction makes something, and removes nothing: what waits until there is room.
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
