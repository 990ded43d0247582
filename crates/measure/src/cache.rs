//! Evicts a file from the page cache, and verifies it.
//!
//! `posix_fadvise(DONTNEED)` is only advice: dirty pages, pages under writeback, mapped pages and everything on tmpfs stay. So the file is
//! synced first, and afterwards the number of resident pages is queried with `cachestat` (system call 451, from Linux 6.5), or else with
//! `mincore` on a mapping. The answer is part of the result. The host's cache under a virtual machine cannot be verified.

use crate::{Error, Result};
use rustix::fs::Advice;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// State of the page cache for a run's files just before the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CacheState {
    /// Verified: no page of any file was resident.
    VerifiedEmpty {
        /// The query used: `cachestat` or `mincore`.
        by: String,
    },
    /// Verified: every page was resident.
    VerifiedFull {
        /// The query used.
        by: String,
    },
    /// Not in the requested state, or not verifiable.
    NotVerified {
        /// The reason, with the file and its resident pages.
        why: String,
    },
}

impl CacheState {
    /// Whether the kernel confirmed the requested state.
    pub fn is_verified(&self) -> bool {
        !matches!(self, CacheState::NotVerified { .. })
    }
}

impl std::fmt::Display for CacheState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CacheState::VerifiedEmpty { by } => write!(f, "empty (verified by {by})"),
            CacheState::VerifiedFull { by } => write!(f, "full (verified by {by})"),
            CacheState::NotVerified { why } => write!(f, "not verified: {why}"),
        }
    }
}

/// Numbers of resident pages and of all pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Resident pages.
    pub resident_pages: u64,
    /// All pages of the file, including a partial last one.
    pub pages: u64,
    /// The query used.
    pub by: &'static str,
}

/// Syncs the files, evicts them from the page cache, and verifies it. Fails only if a file cannot be opened or synced; pages that stay are
/// reported as a [`CacheState`].
pub fn evict<P: AsRef<Path>>(paths: &[P]) -> Result<CacheState> {
    for path in paths {
        let (path, file) = open(path.as_ref())?;
        rustix::fs::fdatasync(&file).map_err(|e| Error::file(path, "making its data durable")(e.into()))?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(|e| Error::file(path, "advising to drop its cache")(e.into()))?;
    }
    verdict(paths, |r| r.resident_pages == 0, "stay resident", |by| CacheState::VerifiedEmpty { by })
}

/// Reads the files into the page cache, and verifies it.
pub fn warm<P: AsRef<Path>>(paths: &[P]) -> Result<CacheState> {
    for path in paths {
        let (path, mut file) = open(path.as_ref())?;
        std::io::copy(&mut file, &mut std::io::sink()).map_err(Error::file(path, "reading it into the page cache"))?;
    }
    verdict(paths, |r| r.resident_pages >= r.pages, "are resident", |by| CacheState::VerifiedFull { by })
}

fn verdict<P: AsRef<Path>>(
    paths: &[P],
    as_wanted: impl Fn(&Residency) -> bool,
    what: &str,
    verified: impl Fn(String) -> CacheState,
) -> Result<CacheState> {
    let mut by = "cachestat";
    for path in paths {
        let (path, file) = open(path.as_ref())?;
        match residency(&file).map_err(Error::file(path, "asking which of its pages are resident")) {
            Ok(found) if as_wanted(&found) => by = found.by,
            Ok(found) => {
                let why = format!("{}: {} of {} pages {what}", path.display(), found.resident_pages, found.pages);
                return Ok(CacheState::NotVerified { why });
            }
            Err(error) => return Ok(CacheState::NotVerified { why: error.to_string() }),
        }
    }
    if paths.is_empty() {
        return Ok(CacheState::NotVerified { why: "no file was given".into() });
    }
    Ok(verified(by.into()))
}

fn open(path: &Path) -> Result<(&Path, File)> {
    let file = File::open(path).map_err(Error::file(path, "opening it"))?;
    Ok((path, file))
}

/// Returns how much of the file is in the page cache, by `cachestat` or else by `mincore`.
pub fn residency(file: &File) -> std::io::Result<Residency> {
    let page = rustix::param::page_size() as u64;
    let size = file.metadata()?.len();
    let pages = size.div_ceil(page);
    match cachestat(file) {
        Ok(resident_pages) => Ok(Residency { resident_pages, pages, by: "cachestat" }),
        Err(_) => Ok(Residency { resident_pages: mincore(file, size, page)?, pages, by: "mincore" }),
    }
}

/// `struct cachestat_range` of Linux: a length of 0 means to the end.
#[repr(C)]
struct CachestatRange {
    offset_bytes: u64,
    length_bytes: u64,
}

/// `struct cachestat` of Linux.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The number of `cachestat` on every architecture with the common system call table.
const SYS_CACHESTAT: libc::c_long = 451;

fn cachestat(file: &File) -> std::io::Result<u64> {
    let mut range = CachestatRange { offset_bytes: 0, length_bytes: 0 };
    let mut found = Cachestat::default();
    // SAFETY: both structures have the kernel's layout and outlive the call, and the descriptor is open.
    let code = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw mut range, &raw mut found, 0_u32) };
    if code == 0 { Ok(found.cached) } else { Err(std::io::Error::last_os_error()) }
}

/// Bytes of a file mapped at a time for `mincore`.
const MINCORE_WINDOW_BYTES: u64 = 1 << 30;

fn mincore(file: &File, size: u64, page: u64) -> std::io::Result<u64> {
    use rustix::mm::{MapFlags, ProtFlags};
    let mut resident = 0;
    let mut offset = 0;
    while offset < size {
        let length = (size - offset).min(MINCORE_WINDOW_BYTES) as usize;
        let mut pages = vec![0_u8; (length as u64).div_ceil(page) as usize];
        // SAFETY: a new mapping at an address chosen by the kernel, never accessed, and unmapped below; `pages` has one byte for each of
        // its pages.
        let code = unsafe {
            let at = rustix::mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, offset)?;
            let code = libc::mincore(at, length, pages.as_mut_ptr());
            rustix::mm::munmap(at, length)?;
            code
        };
        if code != 0 {
            return Err(std::io::Error::last_os_error());
        }
        resident += pages.iter().filter(|p| **p & 1 == 1).count() as u64;
        offset += length as u64;
    }
    Ok(resident)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_of(directory: &Path, bytes: usize) -> std::path::PathBuf {
        let path = directory.join("file");
        File::create(&path).unwrap().write_all(&vec![7; bytes]).unwrap();
        path
    }

    #[test]
    fn an_evicted_file_is_verified_empty_and_a_read_one_full() {
        // Beside the test program: unlike /tmp, that is rarely a tmpfs.
        let program = std::env::current_exe().unwrap();
        let directory = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let path = file_of(directory.path(), 3 * 1024 * 1024 + 17);
        if crate::machine::FileSystem::of(directory.path()).is_ok_and(|f| f.kind == "tmpfs" || f.kind == "overlay") {
            println!("SKIPPED: the build directory is on a file system that keeps its pages");
            return;
        }
        assert!(matches!(evict(&[&path]).unwrap(), CacheState::VerifiedEmpty { .. }), "{:?}", evict(&[&path]));
        let file = File::open(&path).unwrap();
        assert_eq!(residency(&file).unwrap().resident_pages, 0);
        assert!(matches!(warm(&[&path]).unwrap(), CacheState::VerifiedFull { .. }));
        assert_eq!(residency(&file).unwrap().resident_pages, 769);
    }

    #[test]
    fn both_ways_of_asking_agree() {
        let directory = tempfile::tempdir().unwrap();
        let path = file_of(directory.path(), 100 * 4096 - 5);
        let file = File::open(&path).unwrap();
        let page = rustix::param::page_size() as u64;
        let by_mincore = mincore(&file, file.metadata().unwrap().len(), page).unwrap();
        assert_eq!(by_mincore, file.metadata().unwrap().len().div_ceil(page));
        match cachestat(&file) {
            Ok(by_cachestat) => assert_eq!(by_cachestat, by_mincore),
            Err(e) => println!("SKIPPED: this kernel has no cachestat: {e}"),
        }
    }

    #[test]
    fn pages_that_stay_are_never_called_evicted() {
        let shm = Path::new("/dev/shm");
        if !crate::machine::FileSystem::of(shm).is_ok_and(|f| f.kind == "tmpfs") {
            println!("SKIPPED: /dev/shm is not a tmpfs here");
            return;
        }
        let directory = tempfile::tempdir_in(shm).unwrap();
        let path = file_of(directory.path(), 64 * 4096);
        let state = evict(&[&path]).unwrap();
        let CacheState::NotVerified { why } = &state else { panic!("{state:?}") };
        assert!(why.contains("64 of 64 pages stay resident"), "{why}");
    }

    #[test]
    fn a_missing_file_is_an_error_that_names_it() {
        let error = evict(&["/no/such/file"]).unwrap_err().to_string();
        assert!(error.starts_with("/no/such/file: opening it: "), "{error}");
        assert!(!evict::<&str>(&[]).unwrap().is_verified());
    }
}
