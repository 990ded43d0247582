//! Sums of real datafiles: after any sequence of changes, under damage of every kind, and beside other readers and writers.

mod damage;
mod killed;
mod model;
mod together;

use crate::datafile::Datafile;
use crate::target::Target;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::protocol::io::{DatafileId, FileId, TargetId};
use thalweg_wire::{ErrorKind, Result};

const ID: DatafileId = DatafileId { file: FileId(0x2a), index: 0, target: TargetId(3), lot: None };

/// Directories on file systems with attributes, of which one may be in memory.
fn places() -> Vec<tempfile::TempDir> {
    let in_memory = tempfile::tempdir_in("/dev/shm").ok();
    std::iter::once(tempfile::tempdir().unwrap()).chain(in_memory).collect()
}

fn target(directory: &Path) -> Target {
    Target::initialise(directory, 7, TargetId(3)).unwrap()
}

fn datafile(target: &Target) -> Arc<Datafile> {
    target.created(ID).unwrap()
}

fn path(directory: &Path) -> PathBuf {
    directory.join("datafiles/2a/000000000000002a.0")
}

fn sums_path(directory: &Path) -> PathBuf {
    directory.join("datafiles/2a/000000000000002a.0.crc")
}

/// Makes everything clean that is dirty.
fn settle(target: &Target) {
    target.settle(Duration::ZERO);
    target.settle(Duration::ZERO);
    assert_eq!(target.waiting(), (0, 0));
}

/// Reads all of a datafile; the bytes, or damage.
fn read(target: &Target) -> Result<Vec<u8>> {
    let Some(datafile) = target.existing(ID)? else { return Ok(Vec::new()) };
    let mut bytes = vec![0; 4 << 20];
    let have = datafile.read(&mut bytes, 0)?;
    bytes.truncate(have);
    Ok(bytes)
}

fn is_damaged<T>(result: &Result<T>) -> bool {
    result.as_ref().is_err_and(|e| e.kind() == ErrorKind::Damaged)
}

/// Random numbers that a seed repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }

    fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }
}
