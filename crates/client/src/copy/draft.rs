//! The file that a local copy writes to until it is whole: `NAME.partial` ([`super::partial`]).
//!
//! It is made, never found: no file and no link that is there is written through. A copy that is killed leaves its draft behind, so a draft
//! carries a mark (an extended attribute) that only we set, and is locked while its copy lives. What has the name already is
//! - another copy's, if it is marked and locked: that copy is under way, and this one does not begin;
//! - left by a copy that was killed, if it is marked, ours alone and not locked: it is begun anew;
//! - somebody's, otherwise: it is left alone, and the draft gets a name that nobody has.

use super::beneath::failure;
use super::partial;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use thalweg_base::proc::status;
use thalweg_wire::protocol::common::random_u64;
use thalweg_wire::{Error, ErrorKind, Result};

/// The extended attribute of a draft.
const MARK: &str = "user.thalweg.partial";
/// How often a name may come and go while we look at it.
const TRIES: usize = 64;

/// A draft, open for writing.
pub(super) struct Draft {
    pub file: OwnedFd,
    /// Its name in its directory.
    pub name: Vec<u8>,
    /// `NAME.partial` is something else, which was left alone.
    pub beside: bool,
}

/// What there is to be known of a name that is taken.
enum Found {
    /// Left by a copy that was killed: it is ours now, and empty.
    Ours(OwnedFd),
    UnderWay,
    Foreign,
    /// It has gone again.
    Gone,
}

/// Makes the draft of the file `name` in a directory.
///
/// # Errors
/// [`ErrorKind::Busy`] when another copy to the name is under way; the file system's.
pub(super) fn make(directory: BorrowedFd<'_>, name: &[u8], mode: u32) -> Result<Draft> {
    let mut usual = partial::name_of(name);
    for _ in 0..TRIES {
        match exclusive(directory, &usual, mode) {
            Ok(file) => return Ok(Draft { file, name: usual, beside: false }),
            // Not every file system has names of that length.
            Err(Errno::NAMETOOLONG) if usual != partial::short_name_of(name) => usual = partial::short_name_of(name),
            Err(Errno::EXIST) => match look(directory, &usual, mode).map_err(failure)? {
                Found::Ours(file) => return Ok(Draft { file, name: usual, beside: false }),
                Found::Foreign => return unusual(directory, name, mode),
                Found::UnderWay => {
                    let shown = String::from_utf8_lossy(&usual).into_owned();
                    return Err(Error::new(ErrorKind::Busy, format!("another copy to it is under way: {shown} is locked")));
                }
                Found::Gone => {}
            },
            Err(e) => return Err(failure(e)),
        }
    }
    unusual(directory, name, mode)
}

/// Under a name that nobody has.
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

/// Makes, locks and marks a file: in this order, so that what is marked and not locked was left behind. Where the file system has no
/// locks or attributes, what is left behind stays.
fn exclusive(directory: BorrowedFd<'_>, name: &[u8], mode: u32) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(mode & 0o777))?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        let _ = rustix::fs::fsetxattr(&file, MARK, b"1", XattrFlags::empty());
    }
    Ok(file)
}

fn look(directory: BorrowedFd<'_>, name: &[u8], mode: u32) -> rustix::io::Result<Found> {
    // To look at a pipe or a device must not wait for anybody, nor do anything.
    let there = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => there,
        Err(Errno::NOENT) => return Ok(Found::Gone),
        Err(e) => return Err(e),
    };
    let own = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(there.st_mode) != FileType::RegularFile || there.st_uid != own || there.st_nlink != 1 {
        return Ok(Found::Foreign);
    }
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(Found::Gone),
        Err(_) => return Ok(Found::Foreign),
    };
    if rustix::fs::fgetxattr(&file, MARK, &mut [0_u8; 1][..]).is_err() {
        return Ok(Found::Foreign);
    }
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Found::UnderWay),
        Err(_) => return Ok(Found::Foreign),
    }
    // Locked: what it is now it stays, if it still has the name.
    let opened = rustix::fs::fstat(&file)?;
    let named = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => named,
        Err(Errno::NOENT) => return Ok(Found::Gone),
        Err(e) => return Err(e),
    };
    if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino) {
        return Ok(Found::Gone);
    }
    if opened.st_nlink != 1 || rustix::fs::fgetxattr(&file, MARK, &mut [0_u8; 1][..]).is_err() {
        return Ok(Found::Foreign);
    }
    // Not where it is empty already: ext4 takes any truncation to 0 for the first half of a replacement, and starts writing
    // the whole file back when it is closed.
    if opened.st_size > 0 {
        rustix::fs::ftruncate(&file, 0)?;
    }
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777 & !umask()))?;
    Ok(Found::Ours(file))
}

/// The file is whole: it is a draft no more.
pub(super) fn unmark(file: impl AsFd) {
    let _ = rustix::fs::fremovexattr(file, MARK);
}

/// Gives a whole file its name; without `replace`, only if nothing has it.
pub(super) fn publish(directory: BorrowedFd<'_>, draft: &[u8], name: &[u8], replace: bool) -> Result<()> {
    let done = if replace {
        rustix::fs::renameat(directory, draft, directory, name)
    } else {
        match rustix::fs::renameat_with(directory, draft, directory, name, RenameFlags::NOREPLACE) {
            // Not every file system can.
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

/// Takes a draft away; nothing more can be done where that fails.
pub(super) fn remove(directory: BorrowedFd<'_>, draft: &[u8]) {
    let _ = rustix::fs::unlinkat(directory, draft, AtFlags::empty());
}

/// The name is taken.
pub(super) fn exists() -> Error {
    Error::new(ErrorKind::Exists, "exists already: use --force to replace it")
}

/// The bits that new files of this process do not get, as of the first copy: reading them costs as much as a short copy's
/// round trip.
pub fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(read_umask)
}

fn read_umask() -> u32 {
    status::here().field("Umask").and_then(|text| u32::from_str_radix(text, 8).ok()).unwrap_or(0o022)
}
