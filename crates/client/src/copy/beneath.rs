//! Opening what is below a directory, and nothing else.
//!
//! Names of a tree come from a peer, and symbolic links in it may have been made a moment ago by the copy itself. So a path below a
//! directory is resolved by the kernel with two rules: it never leaves the directory, and no symbolic link is followed (`openat2`). A kernel
//! without that call is asked for one name after the other. Whatever is made, renamed or removed is then a single name in the
//! directory that was opened: a single name has nothing that could be followed.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_wire::{Error, Result};

/// The kernel does not know `openat2`, or something between us and it forbids it.
static STEP_BY_STEP: AtomicBool = AtomicBool::new(false);

/// Opens a path below a directory. An empty path is the directory itself. A link on the way, or at its end, is [`Errno::LOOP`].
pub(super) fn open(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let path = if path.is_empty() { b"." } else { path };
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if !STEP_BY_STEP.load(Ordering::Relaxed) {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        loop {
            match rustix::fs::openat2(directory, path, flags, mode, resolve) {
                // Something was renamed meanwhile, so that the kernel cannot say whether the path left the directory.
                Err(Errno::AGAIN) => {}
                Err(Errno::NOSYS | Errno::PERM) => break,
                opened => return opened,
            }
        }
        STEP_BY_STEP.store(true, Ordering::Relaxed);
    }
    open_stepwise(directory, path, flags, mode)
}

/// The same, one name after the other.
fn open_stepwise(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    if path.starts_with(b"/") || path.split(|b| *b == b'/').any(|name| name == b"..") {
        return Err(Errno::XDEV);
    }
    let (above, name) = split(path);
    let mut at: Option<OwnedFd> = None;
    for step in above.split(|b| *b == b'/').filter(|step| !step.is_empty()) {
        let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = rustix::fs::openat(at.as_ref().map_or(directory, AsFd::as_fd), step, way, Mode::empty());
        // A link that is not followed is no directory.
        at = Some(next.map_err(|e| if e == Errno::NOTDIR { Errno::LOOP } else { e })?);
    }
    rustix::fs::openat(at.as_ref().map_or(directory, AsFd::as_fd), name, flags, mode)
}

/// The directory that a path is in (empty: where it begins), and its last name.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    path.iter().rposition(|b| *b == b'/').map_or((&[], path), |at| (&path[..at], &path[at + 1..]))
}

/// An error without a name, which a caller that knows one adds.
pub(super) fn failure(error: Errno) -> Error {
    let problem = Error::system("", error);
    Error::new(problem.kind(), problem.message().trim_start_matches(": ").to_owned())
}

/// The directories in which names of a tree are, one at a time: neighbours are mostly in the same.
pub(super) struct Parents<'a> {
    root: BorrowedFd<'a>,
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl<'a> Parents<'a> {
    /// Below this directory.
    pub(super) fn of(root: BorrowedFd<'a>) -> Parents<'a> {
        Parents { root, last: None }
    }

    /// The directory of a path below the root, and the name there.
    ///
    /// # Errors
    /// When it is not there, or a link is on the way.
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
