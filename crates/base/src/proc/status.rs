//! `/proc/PID/status`: lines of a name, a colon and a value.

use super::task_file::TaskFile;
use std::io::Result;
use std::str::FromStr;

/// Longer than any such file.
const MOST_BYTES: usize = 4096;

/// The text of a `status` file.
#[derive(Clone, Debug, Default)]
pub struct Status(String);

/// Reads the status of this process; empty if /proc is not mounted.
pub fn here() -> Status {
    Status(std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// Reads the status of a process, or of a thread by its ID.
///
/// # Errors
/// The process has ended, or permission is denied.
pub fn of(pid: u32) -> Result<Status> {
    Ok(Status(std::fs::read_to_string(format!("/proc/{pid}/status"))?))
}

impl Status {
    /// Returns the value of a line.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.0, name)
    }

    /// Parses the number at the start of a line's value.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.field(name)?.split_ascii_whitespace().next()?.parse().ok()
    }

    /// Parses a line's bit set: signals, capabilities.
    pub fn bits(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.field(name)?, 16).ok()
    }
}

/// The open `status` file of one thread: each read is a single system call.
#[derive(Debug)]
pub struct ThreadStatus(TaskFile);

impl ThreadStatus {
    /// Opens the file.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn open(pid: u32, tid: u32) -> Result<ThreadStatus> {
        TaskFile::open(pid, tid, "status").map(ThreadStatus)
    }

    /// Returns the number of its voluntary context switches; `None` if it has ended.
    pub fn sleeps(&self) -> Option<u64> {
        field(self.0.text(&mut [0; MOST_BYTES])?, "voluntary_ctxt_switches")?.parse().ok()
    }
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_its_whole_name() {
        let status = Status("Name:\ta b\nVmHWM:\t  2048 kB\nSigPnd:\t0000000000000100\nNSpid:\t7\t1\n".to_owned());
        assert_eq!((status.field("Name"), status.field("NSpid"), status.field("Nam")), (Some("a b"), Some("7\t1"), None));
        assert_eq!((status.number::<u64>("VmHWM"), status.number::<u64>("Name")), (Some(2048), None));
        assert_eq!((status.bits("SigPnd"), status.bits("Name")), (Some(0x100), None));
    }

    #[test]
    fn our_own_is_read() {
        assert_eq!(here().number("Pid"), Some(std::process::id()));
        assert_eq!(of(std::process::id()).expect("it is there").number("Pid"), Some(std::process::id()));
        assert!(of(u32::MAX).is_err());
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert!(ThreadStatus::open(std::process::id(), tid).expect("it is there").sleeps().is_some());
    }
}
