//! A file of one thread in /proc that is kept open, so that a reading is one system call.

use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;

/// The file, which answers for that thread alone, even where its number is given to another.
#[derive(Debug)]
pub struct TaskFile(File);

impl TaskFile {
    /// Opens `/proc/PID/task/TID/NAME`.
    ///
    /// # Errors
    /// The thread is gone.
    pub fn open(pid: u32, tid: u32, name: &str) -> Result<TaskFile> {
        Ok(TaskFile(File::open(format!("/proc/{pid}/task/{tid}/{name}"))?))
    }

    /// What the file says now, as far as it fits into the buffer; `None` where the thread is gone.
    pub fn read<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let length = self.0.read_at(buffer, 0).ok()?;
        Some(&buffer[..length])
    }

    /// The same as text.
    pub fn text<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b str> {
        std::str::from_utf8(self.read(buffer)?).ok()
    }
}
