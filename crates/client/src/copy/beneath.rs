//! Opens paths beneath a directory without leaving it.
//!
//! The names of a tree come from a peer, and the copy itself may just have made symbolic links in it. The kernel resolves a path with
//! `openat2`, which never leaves the directory and never follows a symbolic link. On a kernel without that call, each component is opened
//! separately. Anything then made, renamed or removed is a single name in the directory opened, so there is no link to follow.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_wire::{Error, Result};

/// Set when the kernel lacks `openat2`, or a filter (seccomp) forbids it.
static STEP_BY_STEP: AtomicBool = AtomicBool::new(false);

/// Opens a path beneath a directory; an empty path opens the directory itself. A symbolic link anywhere in the path gives [`Errno::LOOP`].
pub(super) fn open(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let path = if path.is_empty() { b"." } else { path };
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if !STEP_BY_STEP.load(Ordering::Relaxed) {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        loop {
            match rustix::fs::openat2(directory, path, flags, mode, resolve) {
                // A concurrent rename: the kernel cannot know whether the path left the directory. Retry.
                Err(Errno::AGAIN) => {}
                Err(Errno::NOSYS | Errno::PERM) => break,
                opened => return opened,
            }
        }
        STEP_BY_STEP.store(true, Ordering::Relaxed);
    }
    open_stepwise(directory, path, flags, mode)
}

/// Does what [`open`] does, one component at a time.
fn open_stepwise(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    if path.starts_with(b"/") || path.split(|b| *b == b'/').any(|name| name == b"..") {
        return Err(Errno::XDEV);
    }
    let (above, name) = split(path);
    let mut at: Option<OwnedFd> = None;
    for step in above.split(|b| *b == b'/').filter(|step| !step.is_empty()) {
        let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = rustix::fs::openat(at.as_ref().map_or(directory, AsFd::as_fd), step, way, Mode::empty());
        // Opening an unfollowed link as a directory gives NOTDIR.
        at = Some(next.map_err(|e| if e == Errno::NOTDIR { Errno::LOOP } else { e })?);
    }
    rustix::fs::openat(at.as_ref().map_or(directory, AsFd::as_fd), name, flags, mode)
}

/// Splits a path into its directory (empty: the starting directory) and its last name.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    path.iter().rposition(|b| *b == b'/').map_or((&[], path), |at| (&path[..at], &path[at + 1..]))
}

/// Converts `error`; the caller adds the path.
pub(super) fn failure(error: Errno) -> Error {
    let problem = Error::system("", error);
    Error::new(problem.kind(), problem.message().trim_start_matches(": ").to_owned())
}

/// The directory of the entry being handled, kept open because neighbouring entries are mostly in the same directory.
pub(super) struct Parents<'a> {
    root: BorrowedFd<'a>,
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl<'a> Parents<'a> {
    /// Resolves paths beneath `root`.
    pub(super) fn of(root: BorrowedFd<'a>) -> Parents<'a> {
        Parents { root, last: None }
    }

    /// Returns the directory of a path beneath the root, and the entry's name in it.
    ///
    /// # Errors
    /// When the directory is missing, or a symbolic link is on the way.
    pub(super) fn find<'s, 'p>(&'s mut self, path: &'p [u8]) -> Result<(BorrowedFd<'s>, &'p [u8])> {
        let (above, name) = split(path);
        if above.is_empty() {
            return Ok((self.root, name));
        }
        if self.last.as_ref().is_none_or(|(known, _)| known != above) {
            let opened = open(self.root, above, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).map_err(failure)?;
            self.last = Some((above.to_vec(), opened));
        }
        let directory = self.last.as_ref().map_or(self.root, |(_, opened)| opened.as_fd());
        Ok((directory, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_is_opened_outside_of_the_directory_or_through_a_link_with_openat2_or_without() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/f"), "in").unwrap();
        std::fs::write(dir.path().join("out"), "out").unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("a", root.join("here")).unwrap();
        symlink("../out", root.join("a/last")).unwrap();
        let at = rustix::fs::open(&root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for open in [open, open_stepwise_too] {
            let read = |path: &[u8]| open(at.as_fd(), path, OFlags::RDONLY, Mode::empty()).map(drop);
            assert_eq!(read(b"a/b/f"), Ok(()));
            for path in [&b"up/out"[..], b"here/b/f", b"a/last", b"up", b"here"] {
                assert_eq!(read(path), Err(Errno::LOOP), "{}", path.escape_ascii());
            }
            for path in [&b"../out"[..], b"a/../../out", b"/etc/passwd"] {
                assert_eq!(read(path), Err(Errno::XDEV), "{}", path.escape_ascii());
            }
            assert_eq!(read(b"a/none"), Err(Errno::NOENT));
        }
    }

    fn open_stepwise_too(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        open_stepwise(directory, path, flags | OFlags::NOFOLLOW, mode)
    }
}
