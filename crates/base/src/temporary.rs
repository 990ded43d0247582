//! Temporary directories that other users cannot enter, on the first file system that takes them.
//!
//! `TMPDIR` may be full or read-only, or name nothing. The other usual places are tried then, memory last; and for root, where nothing can be
//! written at all, a file system in memory without a mount point.

use std::fs::DirBuilder;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory, removed with its contents on drop.
#[derive(Debug)]
pub struct TemporaryDirectory {
    path: PathBuf,
    instead_of: Option<String>,
}

impl TemporaryDirectory {
    /// Creates one whose name ends with `ending`.
    ///
    /// # Errors
    /// None of the directories can be written; the text names each with the reason, and what to do.
    pub fn new(ending: &str) -> std::result::Result<TemporaryDirectory, String> {
        TemporaryDirectory::in_first(&directories(), ending).or_else(|problems| match in_memory().map(|above| make(&above, ending)) {
            Some(Ok(path)) => Ok(TemporaryDirectory { path, instead_of: Some(format!("{problems}: it is in memory")) }),
            _ => Err(format!("cannot create a temporary directory ({problems}): set TMPDIR to a directory that can be written")),
        })
    }

    fn in_first(directories: &[PathBuf], ending: &str) -> std::result::Result<TemporaryDirectory, String> {
        let mut problems: Vec<String> = Vec::new();
        for above in directories {
            match make(above, ending) {
                Ok(path) => {
                    let instead_of = (!problems.is_empty()).then(|| format!("{}: it is in {}", problems.join("; "), above.display()));
                    return Ok(TemporaryDirectory { path, instead_of });
                }
                Err(error) => problems.push(format!("{}: {error}", above.display())),
            }
        }
        Err(problems.join("; "))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns why it is not where temporary files belong, and where it is; `None` if it is there.
    pub fn instead_of(&self) -> Option<&str> {
        self.instead_of.as_deref()
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Returns the directories for temporary files, best first, each once: `TMPDIR`, those on disks, and those in memory.
pub fn directories() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = ["/tmp", "/var/tmp"].map(PathBuf::from);
    let mut all: Vec<PathBuf> = Vec::new();
    for directory in std::iter::once(std::env::temp_dir()).chain(usual).chain(runtime).chain(["/dev/shm".into()]) {
        if !all.contains(&directory) {
            all.push(directory);
        }
    }
    all
}

/// Creates a directory of mode 700, whatever the umask.
fn make(above: &Path, ending: &str) -> Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let path = above.join(format!("thalweg-{}-{}{ending}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
        match DirBuilder::new().mode(0o700).create(&path) {
            // Left by an earlier process of this process ID, or in use by one in another namespace.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
}

/// Returns the root of a file system in memory that is mounted nowhere and ends with this process; `None` without the privilege.
fn in_memory() -> Option<PathBuf> {
    static MOUNT: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let mount = MOUNT.get_or_init(|| mount_in_memory().ok()).as_ref()?;
    // Not /proc/self: children may need it.
    Some(format!("/proc/{}/fd/{}", std::process::id(), mount.as_raw_fd()).into())
}

fn mount_in_memory() -> Result<OwnedFd> {
    /// Flag of fsopen and fsmount: not inherited by programs.
    const CLOSE_ON_EXEC: libc::c_uint = 1;
    const CREATE: libc::c_uint = 6;
    let made = |fd: libc::c_long| match i32::try_from(fd) {
        // SAFETY: the kernel just returned it to us alone.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Error::last_os_error()),
    };
    let nothing = std::ptr::null::<libc::c_char>();
    // SAFETY: the name is a C string.
    let system = made(unsafe { libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), CLOSE_ON_EXEC) })?;
    // SAFETY: this command takes no key and no value.
    if unsafe { libc::syscall(libc::SYS_fsconfig, system.as_raw_fd(), CREATE, nothing, nothing, 0) } != 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: no pointers.
    made(unsafe { libc::syscall(libc::SYS_fsmount, system.as_raw_fd(), CLOSE_ON_EXEC, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_that_can_be_written_is_taken_and_nothing_is_left_in_it() {
        let here = tempfile::tempdir().unwrap();
        let (missing, there) = (here.path().join("missing"), here.path().join("there"));
        std::fs::create_dir(&there).unwrap();
        let made = TemporaryDirectory::in_first(&[missing.clone(), there.clone()], "-x").unwrap();
        assert!(made.path().starts_with(&there) && made.path().to_str().unwrap().ends_with("-x"));
        let why = made.instead_of().unwrap();
        assert!(why.contains(missing.to_str().unwrap()) && why.contains("No such file"), "{why}");
        std::fs::write(made.path().join("a"), "b").unwrap();
        drop(made);
        assert_eq!(std::fs::read_dir(&there).unwrap().count(), 0);
        let said = TemporaryDirectory::in_first(&[missing], "").unwrap_err();
        assert!(said.contains("missing: No such file"), "{said}");
    }

    #[test]
    fn memory_serves_where_nothing_can_be_written() {
        let Some(above) = in_memory() else { return println!("SKIPPED: mounting needs root") };
        let made = TemporaryDirectory::in_first(&[above], "").unwrap();
        std::fs::write(made.path().join("a"), "b").unwrap();
        assert_eq!(std::fs::read_to_string(made.path().join("a")).unwrap(), "b");
        let path = made.path().to_owned();
        drop(made);
        assert!(!path.exists());
    }

    #[test]
    fn places_are_named_once() {
        let all = directories();
        assert!(all.iter().enumerate().all(|(at, path)| !all[..at].contains(path)), "{all:?}");
    }
}
