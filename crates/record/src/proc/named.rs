//! Calls on names: what file system a blocked one is on, and whether it opens a FIFO. The path is read from the caller's memory, and
//! never looked up: a file system that does not answer its program would not answer the recorder either.

use super::memory;
use std::fs;
use std::path::PathBuf;

/// Returns the path that a call names, made absolute; `None` if it names none.
pub(super) fn path(pid: u32, number: i64, arguments: &[u64; 6]) -> Option<PathBuf> {
    let (directory, address) = match number {
        libc::SYS_openat | libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_faccessat | libc::SYS_readlinkat => {
            (arguments[0] as i32, arguments[1])
        }
        libc::SYS_unlinkat | libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_mkdirat | libc::SYS_utimensat => {
            (arguments[0] as i32, arguments[1])
        }
        other => (libc::AT_FDCWD, old_path(other, arguments)?),
    };
    let text = PathBuf::from(memory::text(pid, address)?);
    if text.is_absolute() {
        return Some(text);
    }
    let from = if directory == libc::AT_FDCWD { format!("/proc/{pid}/cwd") } else { format!("/proc/{pid}/fd/{directory}") };
    Some(fs::read_link(from).ok()?.join(text))
}

#[cfg(target_arch = "x86_64")]
fn old_path(number: i64, arguments: &[u64; 6]) -> Option<u64> {
    match number {
        libc::SYS_open | libc::SYS_creat | libc::SYS_stat | libc::SYS_lstat | libc::SYS_access | libc::SYS_readlink => Some(arguments[0]),
        libc::SYS_unlink | libc::SYS_rename | libc::SYS_mkdir | libc::SYS_rmdir => Some(arguments[0]),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn old_path(_number: i64, _arguments: &[u64; 6]) -> Option<u64> {
    None
}

/// Whether a thread sleeps in this kernel function because nobody has opened the other end of a FIFO.
pub(super) fn is_fifo_open(function: &str) -> bool {
    function.starts_with("wait_for_partner") || function.starts_with("fifo_open")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_from_the_arguments_and_made_absolute() {
        let (absolute, relative) = (c"/data/file", c"file");
        let asked = |number: i64, arguments: [u64; 6]| path(std::process::id(), number, &arguments);
        let here = libc::AT_FDCWD as u64;
        assert_eq!(asked(libc::SYS_openat, [here, absolute.as_ptr() as u64, 0, 0, 0, 0]), Some(PathBuf::from("/data/file")));
        let from = std::env::current_dir().expect("a directory");
        assert_eq!(asked(libc::SYS_newfstatat, [here, relative.as_ptr() as u64, 0, 0, 0, 0]), Some(from.join("file")));
        assert_eq!(asked(libc::SYS_read, [here, absolute.as_ptr() as u64, 0, 0, 0, 0]), None);
        assert_eq!(asked(libc::SYS_openat, [here, 8, 0, 0, 0, 0]), None, "not readable");
    }
}
