//! Names that say what a wait is for: the path in a blocked call, and what a program says of itself. A path is read from the caller's
//! memory, and never looked up: a file system that does not answer its program would not answer the recorder either.

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

/// Whether this is the kernel function in which an open waits for the other end of a FIFO.
pub(super) fn is_fifo_open(function: &str) -> bool {
    function.starts_with("wait_for_partner") || function.starts_with("fifo_open")
}

/// Whether a descriptor delivers signals.
pub(super) fn is_signals(pid: u32, fd: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|link| link.as_os_str() == "anon_inode:[signalfd]")
}

/// Returns the name of a program whose process says in its title that it waits for a lock, as PostgreSQL's do.
pub(super) fn waits_by_its_title(pid: u32) -> Option<String> {
    let title = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    waits_by_title(&String::from_utf8_lossy(&title))
}

fn waits_by_title(title: &str) -> Option<String> {
    let (program, rest) = title.trim_end_matches(['\0', ' ']).split_once(": ")?;
    (rest.ends_with(" waiting") && !program.contains(['\0', '/', ' '])).then(|| program.to_owned())
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

    #[test]
    fn only_a_title_says_that_its_program_waits() {
        let title = "postgres: me base 127.0.0.1(40000) UPDATE waiting\0\0\0";
        assert_eq!(waits_by_title(title).as_deref(), Some("postgres"));
        assert_eq!(waits_by_title("postgres: me base 127.0.0.1(40000) UPDATE\0"), None);
        assert_eq!(waits_by_title("echo\0note: it is waiting\0"), None);
    }
}
