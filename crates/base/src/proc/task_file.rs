//! A file of one thread in /proc, kept open so that each read is a single system call.

use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;

/// An open file of one thread. It answers for that thread only, even if its ID is reused.
#[derive(Debug)]
pub struct TaskFile(File);

impl TaskFile {
    /// Opens `/proc/PID/task/TID/NAME`.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn open(pid: u32, tid: u32, name: &str) -> Result<TaskFile> {
        Ok(TaskFile(File::open(format!("/proc/{pid}/task/{tid}/{name}"))?))
    }

    /// Reads the file from its start, as far as the buffer holds; `None` if the thread has ended.
    pub fn read<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let length = self.0.read_at(buffer, 0).ok()?;
        Some(&buffer[..length])
    }

    /// Reads the file as text.
    pub fn text<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b str> {
        std::str::from_utf8(self.read(buffer)?).ok()
    }
}
