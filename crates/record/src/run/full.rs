//! Finds the file system that was full when a command failed: one that it was working in, or that its arguments name.
//!
//! Recorders do not see a write fail with ENOSPC (the tier `lean` traces no calls), but a full file system is still
//! full right after the command has ended. If the output was removed again, or a quota was reached, it is not found.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Free space below which most programs' next write fails or is cut short.
const NO_ROOM_BYTES: u64 = 64 << 10;

/// Bound: words of a command that are examined.
const MOST_WORDS: usize = 256;

/// Returns the mount point of the first full file system.
pub(super) fn full(command: &[OsString], directory: &Path) -> Option<String> {
    let places = [directory.to_owned()].into_iter().chain(named(command, directory)).chain([std::env::temp_dir()]);
    places.filter(|place| is_full(place)).map(|place| mounted_on(&place).display().to_string()).next()
}

/// Returns the directories that a command's words name: `of=/mnt/out`, and the paths in a shell script argument.
fn named(command: &[OsString], directory: &Path) -> Vec<PathBuf> {
    let parts = |word: &OsString| {
        let apart = |byte: &u8| byte.is_ascii_whitespace() || b"=<>;|&'\"()".contains(byte);
        word.as_bytes().split(apart).map(|part| PathBuf::from(std::ffi::OsStr::from_bytes(part))).collect::<Vec<_>>()
    };
    let words = command.iter().skip(1).flat_map(parts).filter(|part| !part.as_os_str().is_empty()).take(MOST_WORDS);
    words.filter_map(|word| existing(&directory.join(word))).filter(|place| place != directory).collect()
}

/// Returns the path if it exists, or the directory it would be created in.
fn existing(path: &Path) -> Option<PathBuf> {
    [Some(path), path.parent()].into_iter().flatten().find(|path| path.exists()).map(Path::to_owned)
}

fn is_full(place: &Path) -> bool {
    let Ok(space) = rustix::fs::statvfs(place) else { return false };
    let free_blocks = if rustix::process::geteuid().is_root() { space.f_bfree } else { space.f_bavail };
    let no_room = space.f_blocks > 0 && free_blocks.saturating_mul(space.f_frsize) < NO_ROOM_BYTES;
    let no_inodes = space.f_files > 0 && space.f_ffree == 0;
    (no_room || no_inodes) && !space.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY)
}

/// Returns the mount point of the file system that contains a path.
fn mounted_on(place: &Path) -> PathBuf {
    let Ok(mut top) = place.canonicalize() else { return place.to_owned() };
    let device = |path: &Path| rustix::fs::stat(path).ok().map(|status| status.st_dev);
    let own = device(&top);
    while let Some(above) = top.parent().filter(|above| device(above) == own) {
        top = above.to_owned();
    }
    top
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_that_a_command_names_are_found_in_its_words() {
        let directory = tempfile::tempdir().expect("a directory");
        let out = directory.path().join("out");
        std::fs::create_dir(&out).expect("made");
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let here = directory.path();
        assert_eq!(named(&words(&["dd", "if=/dev/zero", "of=out/file"]), here), vec![PathBuf::from("/dev/zero"), out.clone()]);
        let script = format!("cat x >'{}/y' && echo done", out.display());
        assert!(named(&words(&["sh", "-c", &script]), here).contains(&out));
    }

    #[test]
    fn a_file_system_without_room_is_full_and_one_with_room_is_not() {
        // A device that is always full, and a temporary directory that normally is not.
        assert!(!is_full(&tempfile::tempdir().expect("a directory").path().join(".")));
        assert!(!is_full(Path::new("/proc")));
        assert_eq!(mounted_on(Path::new("/proc/self")), PathBuf::from("/proc"));
    }
}
