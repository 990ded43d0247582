//! Standard output as a sink: a pipe, a terminal, or a file in which holes stay holes.
//!
//! A file has a position, which others may go on from. So a hole is passed over by moving it, where there is nothing behind it that would
//! show through, and at the end the file is given its size. A file that is appended to is written to its end whatever the position is: there,
//! as in a pipe, holes are zeros.

use crate::error::{Error, Result};
use rustix::fs::{OFlags, SeekFrom, fcntl_getfl, fstat, ftruncate, seek};
use std::io::{Stdout, Write, stdout};

/// Zeros that are written at a time.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// How far it is written.
pub(super) struct StandardOutput {
    done_bytes: u64,
    holes: bool,
}

impl StandardOutput {
    /// Nothing is written yet.
    pub(super) fn new() -> StandardOutput {
        StandardOutput { done_bytes: 0, holes: StandardOutput::takes_holes() }
    }

    /// Whether holes can be passed over.
    pub(super) fn takes_holes() -> bool {
        let output = stdout();
        let is_file = fstat(&output).is_ok_and(|found| {
            let ends_here = || seek(&output, SeekFrom::Current(0)).is_ok_and(|at| at >= found.st_size as u64);
            rustix::fs::FileType::from_raw_mode(found.st_mode).is_file() && ends_here()
        });
        is_file && fcntl_getfl(&output).is_ok_and(|flags| !flags.contains(OFlags::APPEND))
    }

    /// Writes bytes that are at this offset of what is written.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut output = stdout().lock();
        self.pass(offset).and_then(|()| output.write_all(bytes)).and_then(|()| output.flush()).map_err(failure)?;
        self.done_bytes = offset + bytes.len() as u64;
        Ok(())
    }

    /// Everything up to the end is written.
    pub(super) fn finish(&mut self, size_bytes: u64) -> Result<()> {
        let had_hole = size_bytes > self.done_bytes;
        self.pass(size_bytes).and_then(|()| if had_hole && self.holes { give_size(&stdout()) } else { Ok(()) }).map_err(failure)
    }

    fn pass(&mut self, offset: u64) -> std::io::Result<()> {
        let mut hole_bytes = offset - self.done_bytes;
        if self.holes && hole_bytes > 0 {
            seek(stdout(), SeekFrom::Current(hole_bytes as i64))?;
            hole_bytes = 0;
        }
        while hole_bytes > 0 {
            let now = hole_bytes.min(ZEROS.len() as u64);
            stdout().write_all(&ZEROS[..now as usize])?;
            hole_bytes -= now;
        }
        self.done_bytes = offset;
        Ok(())
    }
}

/// The file ends at its position at least.
fn give_size(output: &Stdout) -> std::io::Result<()> {
    let at = seek(output, SeekFrom::Current(0))?;
    if fstat(output)?.st_size < at as i64 {
        ftruncate(output, at)?;
    }
    Ok(())
}

fn failure(error: std::io::Error) -> Error {
    Error::system("writing to standard output", error)
}
