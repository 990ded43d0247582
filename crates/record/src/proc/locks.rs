//! Finds the holder of a file lock in /proc/locks, which any user may read.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Returns the process holding the lock that a call on descriptor `fd` of `pid` waits for; `None` if there is no
/// single one, or it is unknown.
pub(super) fn holder(pid: u32, fd: u32) -> Option<u32> {
    let file = fs::metadata(format!("/proc/{pid}/fd/{fd}")).ok()?;
    holder_in(&fs::read_to_string("/proc/locks").ok()?, pid, (libc::major(file.dev()), libc::minor(file.dev()), file.ino()))
}

/// Waiters' lines have `->` after the lock's number.
fn holder_in(text: &str, waiter: u32, (major, minor, inode): (u32, u32, u64)) -> Option<u32> {
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let holds = |line: &str| -> Option<u32> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let pid = words.get(4)?.parse().ok()?;
        (words.get(1) != Some(&"->") && *words.get(5)? == file && pid != waiter).then_some(pid)
    };
    let mut holders = text.lines().filter_map(holds);
    let first = holders.next()?;
    holders.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_holder_is_found_and_waiters_are_not_taken_for_it() {
        let text = "1: FLOCK  ADVISORY  WRITE 100 fe:00:42 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 200 fe:00:42 0 EOF\n\
                    2: POSIX  ADVISORY  READ 300 fe:00:43 0 EOF\n3: POSIX  ADVISORY  READ 301 fe:00:43 0 EOF\n";
        assert_eq!(holder_in(text, 200, (254, 0, 42)), Some(100));
        assert_eq!(holder_in(text, 100, (254, 0, 42)), None);
        assert_eq!(holder_in(text, 200, (254, 0, 43)), None);
        assert_eq!(holder_in(text, 200, (254, 1, 42)), None);
    }
}
