//! The file a local copy writes to until it is complete: `NAME.partial` ([`super::partial`]).
//!
//! A draft is always newly created: an existing file or link is never written through. A killed copy leaves its draft behind, so a draft
//! carries a mark (an extended attribute) that only we set, and is locked while its copy runs. If the name is taken, the existing file is
//! - in use by another copy, if marked and locked: this copy fails;
//! - left by a killed copy, if marked, owned by us alone and unlocked: it is reused from the beginning;
//! - unrelated otherwise: it is left alone, and the draft gets an unused name.

use super::beneath::failure;
use super::partial;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use thalweg_base::proc::status;
use thalweg_wire::protocol::common::random_u64;
use thalweg_wire::{Error, ErrorKind, Result};

/// Extended attribute that marks a draft.
const MARK: &str = "user.thalweg.partial";
/// Maximum attempts while the name keeps appearing and disappearing.
const TRIES: usize = 64;

/// A draft, open for writing.
pub(super) struct Draft {
    pub file: OwnedFd,
    /// Name in its directory.
    pub name: Vec<u8>,
    /// Whether `NAME.partial` is an unrelated file and the draft has another name.
    pub beside: bool,
}

/// State of a name that is taken.
enum Occupant {
    /// Left by a killed copy: now locked by us and empty.
    Ours(OwnedFd),
    UnderWay,
    Foreign,
    /// Removed in the meantime.
    Gone,
}

/// Creates the draft for file `name` in a directory.
///
/// # Errors
/// [`ErrorKind::Busy`] when another copy to the name is in progress; otherwise the file system's error.
pub(super) fn make(directory: BorrowedFd<'_>, name: &[u8], mode: u32) -> Result<Draft> {
    let mut usual = partial::name_of(name);
    for _ in 0..TRIES {
        match exclusive(directory, &usual, mode) {
            Ok(file) => return Ok(Draft { file, name: usual, beside: false }),
            // Some file systems have a shorter limit on names.
            Err(Errno::NAMETOOLONG) if usual != partial::short_name_of(name) => usual = partial::short_name_of(name),
            Err(Errno::EXIST) => match look(directory, &usual, mode).map_err(failure)? {
                Occupant::Ours(file) => return Ok(Draft { file, name: usual, beside: false }),
                Occupant::Foreign => return unusual(directory, name, mode),
                Occupant::UnderWay => {
                    let shown = String::from_utf8_lossy(&usual).into_owned();
                    return Err(Error::new(ErrorKind::Busy, format!("another copy to it is in progress: {shown} is locked")));
                }
                Occupant::Gone => {}
            },
            Err(e) => return Err(failure(e)),
        }
    }
    unusual(directory, name, mode)
}

/// Creates a draft under an unused name.
fn unusual(directory: BorrowedFd<'_>, name: &[u8], mode: u32) -> Result<Draft> {
    loop {
        let name = partial::unusual_name_of(name, random_u64());
        match exclusive(directory, &name, mode) {
            Ok(file) => return Ok(Draft { file, name, beside: true }),
            Err(Errno::EXIST) => {}
            Err(e) => return Err(failure(e)),
        }
    }
}

/// Creates, locks and marks a file, in this order, so that a marked, unlocked file was left behind. On a file system without locks or
/// attributes, files left behind are not reused.
fn exclusive(directory: BorrowedFd<'_>, name: &[u8], mode: u32) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(mode & 0o777))?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        let _ = rustix::fs::fsetxattr(&file, MARK, b"1", XattrFlags::empty());
    }
    Ok(file)
}

fn look(directory: BorrowedFd<'_>, name: &[u8], mode: u32) -> rustix::io::Result<Occupant> {
    // Opening a pipe or device must not block and must have no side effect.
    let there = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => there,
        Err(Errno::NOENT) => return Ok(Occupant::Gone),
        Err(e) => return Err(e),
    };
    let own = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(there.st_mode) != FileType::RegularFile || there.st_uid != own || there.st_nlink != 1 {
        return Ok(Occupant::Foreign);
    }
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(Occupant::Gone),
        Err(_) => return Ok(Occupant::Foreign),
    };
    if rustix::fs::fgetxattr(&file, MARK, &mut [0_u8; 1][..]).is_err() {
        return Ok(Occupant::Foreign);
    }
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Occupant::UnderWay),
        Err(_) => return Ok(Occupant::Foreign),
    }
    // With the lock held, the file's state is stable, provided it still has the name.
    let opened = rustix::fs::fstat(&file)?;
    let named = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => named,
        Err(Errno::NOENT) => return Ok(Occupant::Gone),
        Err(e) => return Err(e),
    };
    if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino) {
        return Ok(Occupant::Gone);
    }
    if opened.st_nlink != 1 || rustix::fs::fgetxattr(&file, MARK, &mut [0_u8; 1][..]).is_err() {
        return Ok(Occupant::Foreign);
    }
    // Skip an empty file: ext4 takes any truncation to 0 for the first half of a replacement, and writes the whole file back on close.
    if opened.st_size > 0 {
        rustix::fs::ftruncate(&file, 0)?;
    }
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777 & !umask()))?;
    Ok(Occupant::Ours(file))
}

/// Removes the mark: the file is complete.
pub(super) fn unmark(file: impl AsFd) {
    let _ = rustix::fs::fremovexattr(file, MARK);
}

/// Renames a complete file to its final name; without `replace`, fails if the name is taken.
pub(super) fn publish(directory: BorrowedFd<'_>, draft: &[u8], name: &[u8], replace: bool) -> Result<()> {
    let done = if replace {
        rustix::fs::renameat(directory, draft, directory, name)
    } else {
        match rustix::fs::renameat_with(directory, draft, directory, name, RenameFlags::NOREPLACE) {
            // Not every file system supports RENAME_NOREPLACE.
            Err(Errno::INVAL) => match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => rustix::fs::renameat(directory, draft, directory, name),
                Err(e) => Err(e),
                Ok(_) => Err(Errno::EXIST),
            },
            done => done,
        }
    };
    match done {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(exists()),
        Err(e) => Err(failure(e)),
    }
}

/// Removes a draft; errors are ignored.
pub(super) fn remove(directory: BorrowedFd<'_>, draft: &[u8]) {
    let _ = rustix::fs::unlinkat(directory, draft, AtFlags::empty());
}

/// Returns the error for a destination name that is taken.
pub(super) fn exists() -> Error {
    Error::new(ErrorKind::Exists, "exists already: use --force to replace it")
}

/// Returns the process's umask as of the first copy: reading it costs as much as a short copy's round trip.
pub fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(read_umask)
}

fn read_umask() -> u32 {
    status::here().field("Umask").and_then(|text| u32::from_str_radix(text, 8).ok()).unwrap_or(0o022)
}
