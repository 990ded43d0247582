//! The recorder's own directory, on a file system that allows execution.
//!
//! ```text
//! thalweg-preload-PID-TIME/   0711   any user the program becomes may load the library
//!   recorder                  0600   the marker: known content, locked while the recorder lives
//!   libthalweg-preload.so     0555
//!   rings/                    0700   one file for each process; removed when the recording ends
//! ```
//!
//! The next recorder removes what a killed recorder left, and nothing else: a directory of this user, made exactly
//! this way, with an intact, unlocked marker. A lock ends with its process, in whatever namespace, so process ids do
//! not matter. Everything is opened beneath its directory, following neither symbolic links nor mounts; only files of
//! known names are removed, and a directory with any other content is left unchanged. The marker gets its final name
//! once it is locked, so that no other process sees it unlocked too early.
//!
//! A process that outlives the recording may still name the library in its environment (a static daemon, of which the
//! library knows nothing), and its loader would complain if it were gone: then the library stays until a later
//! recorder finds no process naming it. That can be checked only in the process namespace recorded in the marker.

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use thalweg_trace::Time;

const PREFIX: &str = "thalweg-preload-";
const MARKER: &str = "recorder";
/// The marker's name before it is locked.
const UNLOCKED: &str = "recorder.new";
const LIBRARY: &str = "libthalweg-preload.so";
const RINGS: &str = "rings";
const ALL: [&str; 4] = [MARKER, UNLOCKED, LIBRARY, RINGS];
const DIRECTORY_MODE: u32 = 0o711;
const MARKER_TEXT: &str = "A directory of `thalweg record --method preload`. It may be removed when nobody holds a lock on this file.\n";
/// Maximum size of a marker.
const MARKER_BYTES: u64 = 512;
/// Processes about to end may create rings while these are removed.
const TRIES: usize = 100;

/// A recorder's directory, removed on drop, except for a library that a process may still load.
#[derive(Debug)]
pub(super) struct RecorderDirectory {
    base: OwnedFd,
    name: String,
    path: PathBuf,
    directory: OwnedFd,
    /// Locked while open.
    _marker: File,
}

impl RecorderDirectory {
    /// Creates a directory in `base`, without the library.
    pub(crate) fn make(base: &Path) -> std::io::Result<RecorderDirectory> {
        let at = rustix::fs::open(base, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let name = loop {
            let name = format!("{PREFIX}{}-{}", std::process::id(), Time::now().ns());
            match rustix::fs::mkdirat(&at, &name, Mode::from_raw_mode(0o700)) {
                Err(Errno::EXIST) => {}
                made => break made.map(|()| name)?,
            }
        };
        let made = RecorderDirectory::fill(&at, &name);
        match made {
            Ok((directory, marker)) => Ok(RecorderDirectory { base: at, path: base.join(&name), name, directory, _marker: marker }),
            Err(error) => {
                // Empty, or with an unlocked marker: it was just created by us.
                if let Ok(directory) = open_directory(at.as_fd(), &name) {
                    remove(at.as_fd(), &name, directory.as_fd());
                }
                Err(error)
            }
        }
    }

    fn fill(base: &OwnedFd, name: &str) -> std::io::Result<(OwnedFd, File)> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(base, name, flags, Mode::empty())?;
        let create = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let mut marker = File::from(rustix::fs::openat(&directory, UNLOCKED, create, Mode::from_raw_mode(0o600))?);
        rustix::fs::fchmod(&marker, Mode::from_raw_mode(0o600))?;
        marker.write_all(marker_text().as_bytes())?;
        rustix::fs::flock(&marker, FlockOperation::NonBlockingLockExclusive)?;
        rustix::fs::renameat(&directory, UNLOCKED, &directory, MARKER)?;
        rustix::fs::mkdirat(&directory, RINGS, Mode::from_raw_mode(0o700))?;
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(DIRECTORY_MODE))?;
        Ok((directory, marker))
    }

    /// Writes the library.
    pub(crate) fn write_library(&self, bytes: &[u8]) -> std::io::Result<()> {
        let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.directory, LIBRARY, create, Mode::from_raw_mode(0o500))?);
        file.write_all(bytes)?;
        Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(0o555))?)
    }

    /// Returns the path of the library.
    pub(crate) fn library(&self) -> PathBuf {
        self.path.join(LIBRARY)
    }

    /// Returns the directory for the processes' rings.
    pub(crate) fn rings(&self) -> PathBuf {
        self.path.join(RINGS)
    }
}

impl Drop for RecorderDirectory {
    fn drop(&mut self) {
        // Without it, processes neither create rings nor pass the library on.
        if remove_rings(self.directory.as_fd()) && !is_named_by_a_process(&self.path) {
            remove(self.base.as_fd(), &self.name, self.directory.as_fd());
        }
    }
}

/// Returns a marker's text: what the directory is, and the process namespace in which the library's users are
/// visible.
fn marker_text() -> String {
    let namespace = std::fs::read_link("/proc/self/ns/pid").map_or_else(|_| "unknown".to_owned(), |link| link.display().to_string());
    format!("{MARKER_TEXT}{namespace}\n")
}

/// Removes what dead recorders have left in `base`.
pub(super) fn remove_abandoned(base: &Path) {
    let Ok(at) = rustix::fs::open(base, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else { return };
    for name in names(at.as_fd()).unwrap_or_default() {
        if let Some(name) = name.to_str().ok().filter(|name| name.starts_with(PREFIX)) {
            remove_if_abandoned(at.as_fd(), base, name);
        }
    }
}

fn remove_if_abandoned(base: BorrowedFd<'_>, path: &Path, name: &str) -> Option<()> {
    let directory = open_directory(base, name).ok()?;
    let status = rustix::fs::fstat(&directory).ok()?;
    let exact = status.st_uid == rustix::process::geteuid().as_raw() && status.st_mode & 0o7777 == DIRECTORY_MODE;
    let marker = exact.then(|| locked_marker(directory.as_fd())).flatten()?;
    if !is_named_by_a_process(&path.join(name)) {
        remove(base, name, directory.as_fd());
    }
    drop(marker);
    Some(())
}

/// Returns the marker, now locked by us, if it is ours and was not locked.
fn locked_marker(directory: BorrowedFd<'_>) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let marker = File::from(rustix::fs::openat2(directory, MARKER, flags, Mode::empty(), beneath()).ok()?);
    if !is_our_file(&rustix::fs::fstat(&marker).ok()?) {
        return None;
    }
    rustix::fs::flock(&marker, FlockOperation::NonBlockingLockExclusive).ok()?;
    let mut text = String::new();
    (&marker).take(MARKER_BYTES).read_to_string(&mut text).ok()?;
    (text == marker_text()).then_some(marker)
}

fn beneath() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV
}

/// Opens a directory that is neither a symbolic link nor a mount point.
fn open_directory(base: BorrowedFd<'_>, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat2(base, name, flags, Mode::empty(), beneath())
}

fn is_our_file(status: &rustix::fs::Stat) -> bool {
    let ours = status.st_uid == rustix::process::geteuid().as_raw();
    ours && FileType::from_raw_mode(status.st_mode) == FileType::RegularFile && status.st_nlink == 1
}

/// Lists a directory.
fn names(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<CString>> {
    let entries = rustix::fs::Dir::read_from(directory)?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_owned())).collect::<rustix::io::Result<Vec<_>>>()?;
    Ok(names.into_iter().filter(|name| !matches!(name.to_bytes(), b"." | b"..")).collect())
}

/// Whether a name is one that a process gives its ring file: `PID.TIME.ring`, or `.new` while it is created.
pub(crate) fn is_ring(name: &str) -> bool {
    let number = |text: Option<&str>| text.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    let mut parts = name.split('.');
    number(parts.next()) && number(parts.next()) && matches!(parts.next(), Some("ring" | "new")) && parts.next().is_none()
}

/// Removes the rings and their directory; `false` if there is anything else in it, and then nothing is removed.
fn remove_rings(directory: BorrowedFd<'_>) -> bool {
    let rings = match open_directory(directory, RINGS) {
        Ok(rings) => rings,
        Err(error) => return error == Errno::NOENT,
    };
    for _ in 0..TRIES {
        let Ok(names) = names(rings.as_fd()) else { return false };
        let ours = |name: &CString| {
            let status = rustix::fs::statat(&rings, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
            // One that has vanished was renamed or removed by its creator.
            name.to_str().is_ok_and(is_ring) && status.map_or_else(|error| error == Errno::NOENT, |status| is_our_file(&status))
        };
        if !names.iter().all(ours) {
            return false;
        }
        for name in &names {
            let _ = rustix::fs::unlinkat(&rings, name.as_c_str(), AtFlags::empty());
        }
        match rustix::fs::unlinkat(directory, RINGS, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY) => {}
            done => return done.is_ok(),
        }
    }
    false
}

/// Removes a directory of ours, if it holds nothing but recorders' files. The caller holds its lock.
fn remove(base: BorrowedFd<'_>, name: &str, directory: BorrowedFd<'_>) {
    let Ok(found) = names(directory) else { return };
    let known = |name: &CString| {
        let status = rustix::fs::statat(directory, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
        let name = name.to_str().unwrap_or_default();
        ALL.contains(&name) && (name == RINGS || status.is_ok_and(|status| is_our_file(&status)))
    };
    if !found.iter().all(known) || !remove_rings(directory) {
        return;
    }
    // The marker last: after an interruption, the rest is still recognised.
    for file in [LIBRARY, UNLOCKED, MARKER] {
        let _ = rustix::fs::unlinkat(directory, file, AtFlags::empty());
    }
    let same = |a: &rustix::fs::Stat, b: &rustix::fs::Stat| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
    let still = rustix::fs::statat(base, name, AtFlags::SYMLINK_NOFOLLOW).ok().zip(rustix::fs::fstat(directory).ok());
    if still.is_some_and(|(there, here)| same(&there, &here)) {
        let _ = rustix::fs::unlinkat(base, name, AtFlags::REMOVEDIR);
    }
}

/// Whether a process has the directory in its environment. A process that loaded the library has removed it.
fn is_named_by_a_process(directory: &Path) -> bool {
    let wanted = directory.as_os_str().as_bytes();
    let Ok(processes) = rustix::fs::openat(CWD, "/proc", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) else { return false };
    let numbers = names(processes.as_fd()).unwrap_or_default();
    numbers.iter().filter(|name| name.to_bytes().iter().all(u8::is_ascii_digit)).any(|pid| {
        let environment = std::fs::read(format!("/proc/{}/environ", pid.to_string_lossy())).unwrap_or_default();
        environment.windows(wanted.len()).any(|window| window == wanted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// Makes a directory as a killed recorder leaves it: complete and unlocked.
    fn abandoned(base: &Path) -> PathBuf {
        let made = RecorderDirectory::make(base).expect("made");
        made.write_library(b"code").expect("written");
        fs::write(made.rings().join("17.4711.ring"), "ring").expect("written");
        let path = made.path.clone();
        let directory = made.directory.try_clone().expect("duplicated");
        // Releases its lock and removes nothing.
        rustix::fs::flock(&made._marker, FlockOperation::Unlock).expect("unlocked");
        std::mem::forget(made);
        drop(directory);
        path
    }

    #[test]
    fn what_a_killed_recorder_left_is_removed_and_what_a_living_one_has_is_not() {
        let base = tempfile::tempdir().expect("a directory");
        let (left, lives) = (abandoned(base.path()), RecorderDirectory::make(base.path()).expect("made"));
        remove_abandoned(base.path());
        assert!(!left.exists() && lives.path.exists() && lives.rings().exists());
        let path = lives.path.clone();
        drop(lives);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_that_is_not_exactly_of_our_making_is_left_with_all_that_is_in_it() {
        type Harm = fn(&Path);
        let harms: [(&str, Harm); 9] = [
            ("no marker", |d| fs::remove_file(d.join(MARKER)).unwrap()),
            ("another's marker", |d| fs::write(d.join(MARKER), "mine").unwrap()),
            ("a marker that is a link", |d| {
                fs::rename(d.join(MARKER), d.with_file_name("marker")).unwrap();
                std::os::unix::fs::symlink("../marker", d.join(MARKER)).unwrap();
            }),
            ("open to others", |d| fs::set_permissions(d, fs::Permissions::from_mode(0o755)).unwrap()),
            ("a file besides", |d| fs::write(d.join("store.toml"), "precious").unwrap()),
            ("a directory besides", |d| fs::create_dir(d.join("data")).unwrap()),
            ("something else among the rings", |d| fs::write(d.join("rings/17.4711.ring.bak"), "precious").unwrap()),
            ("rings that are a link", |d| {
                fs::remove_dir_all(d.join("rings")).unwrap();
                fs::create_dir(d.with_file_name("elsewhere")).unwrap();
                fs::write(d.with_file_name("elsewhere").join("1.2.ring"), "precious").unwrap();
                std::os::unix::fs::symlink("../elsewhere", d.join("rings")).unwrap();
            }),
            ("a library with another name too", |d| fs::hard_link(d.join(LIBRARY), d.with_file_name("kept.so")).unwrap()),
        ];
        for (what, harm) in harms {
            let base = tempfile::tempdir().expect("a directory");
            let left = abandoned(base.path());
            harm(&left);
            let before = files(base.path());
            remove_abandoned(base.path());
            assert_eq!(files(base.path()), before, "{what}");
        }
    }

    #[test]
    fn a_store_with_a_name_like_ours_is_left() {
        let base = tempfile::tempdir().expect("a directory");
        for name in ["thalweg-4194300-1", "thalweg-preload-4194300-1", "thalweg-preload-", "thalweg-4194300"] {
            fs::create_dir(base.path().join(name)).unwrap();
            fs::write(base.path().join(name).join("data"), "precious").unwrap();
        }
        std::os::unix::fs::symlink("thalweg-4194300", base.path().join("thalweg-preload-1-1")).unwrap();
        let before = files(base.path());
        remove_abandoned(base.path());
        assert_eq!(files(base.path()), before);
    }

    /// Lists all paths below.
    fn files(below: &Path) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for entry in fs::read_dir(below).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                all.extend(files(&entry.path()));
            }
            all.push(entry.path());
        }
        all.sort();
        all
    }

    #[test]
    fn names_of_rings_are_numbers_and_nothing_else() {
        for (name, expected) in
            [("1.2.ring", true), ("1.2.new", true), ("1.ring", false), ("a.2.ring", false), ("1.2.ring.x", false), ("..ring", false)]
        {
            assert_eq!(is_ring(name), expected, "{name}");
        }
    }
}
