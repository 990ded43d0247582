//! Sinks written sequentially: standard output, a pipe, a terminal or other device, a socket.
//!
//! Standard output can be a file, in which holes stay holes. Its file position is shared with other processes, which may continue from it.
//! So a hole is skipped by seeking, provided there is no old data beyond that would show through, and at the end the file gets its size. A
//! file opened for appending is written at its end whatever the position: there, as in a pipe, holes are written as zeros.

use super::local::failure;
use rustix::fs::{Mode, OFlags, SeekFrom, fcntl_getfl, fcntl_setfl, fstat, ftruncate, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg_wire::{Error, ErrorKind, Result};

/// Zeros written per call.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Interval between attempts to open a pipe that has no reader yet.
const TRIES_EVERY: Duration = Duration::from_millis(20);

/// An output, with the number of bytes written.
pub(super) struct Output {
    file: File,
    /// `None`: standard output.
    path: Option<PathBuf>,
    takes_holes: bool,
    /// Bytes written; only the thread whose turn it is writes it.
    done_bytes: AtomicU64,
}

/// Whether the file at `path` is written to, rather than replaced by a new file.
pub(super) fn is_stream_output(path: &Path) -> bool {
    let found = std::fs::metadata(path).map(|found| found.file_type());
    is_standard(path) || found.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device() || kind.is_socket())
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("/dev/stdout")
}

impl Output {
    /// Opens standard output.
    pub(super) fn standard() -> Result<Output> {
        let file = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 0).map_err(|e| Error::system("writing to standard output", e))?;
        Ok(Output::new(file.into(), None))
    }

    /// Opens the output at `path`; waits for a pipe's reader until `stopping` returns true.
    pub(super) fn open(path: &Path, stopping: &dyn Fn() -> bool) -> Result<Output> {
        if is_standard(path) {
            return Output::standard();
        }
        let kind = std::fs::metadata(path).map_err(|e| failure(path, e))?.file_type();
        if kind.is_socket() {
            let socket = UnixStream::connect(path).map_err(|e| failure(path, e))?;
            return Ok(Output::new(std::os::fd::OwnedFd::from(socket).into(), Some(path)));
        }
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = loop {
            match rustix::fs::open(path, flags, Mode::empty()) {
                Err(Errno::NXIO) if kind.is_fifo() && stopping() => return Err(Error::new(ErrorKind::Cancelled, "stopped on request")),
                Err(Errno::NXIO) if kind.is_fifo() => std::thread::sleep(TRIES_EVERY),
                opened => break opened.map_err(|e| failure(path, e.into()))?,
            }
        };
        let blocking = fcntl_getfl(&opened).and_then(|flags| fcntl_setfl(&opened, flags - OFlags::NONBLOCK));
        blocking.map_err(|e| failure(path, e.into()))?;
        Ok(Output::new(opened.into(), Some(path)))
    }

    fn new(file: File, path: Option<&Path>) -> Output {
        let takes_holes = takes_holes(&file);
        Output { file, path: path.map(Path::to_owned), takes_holes, done_bytes: AtomicU64::new(0) }
    }

    /// Returns the file written to.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Whether holes can be skipped by seeking.
    pub(super) fn takes_holes(&self) -> bool {
        self.takes_holes
    }

    /// Writes bytes at this offset of the output. One thread at a time.
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.pass(offset).and_then(|()| (&self.file).write_all(bytes)).map_err(|e| self.failure(e))?;
        self.done_bytes.store(offset + bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Completes the output once everything is written: writes or skips a trailing hole.
    pub(super) fn finish(&self, size_bytes: u64) -> Result<()> {
        let had_hole = size_bytes > self.done_bytes.load(Ordering::Relaxed);
        let passed = self.pass(size_bytes);
        passed.and_then(|()| if had_hole && self.takes_holes { self.give_size() } else { Ok(()) }).map_err(|e| self.failure(e))
    }

    fn pass(&self, offset: u64) -> std::io::Result<()> {
        let mut hole_bytes = offset - self.done_bytes.load(Ordering::Relaxed);
        if self.takes_holes && hole_bytes > 0 {
            seek(&self.file, SeekFrom::Current(hole_bytes as i64))?;
            hole_bytes = 0;
        }
        while hole_bytes > 0 {
            let now = hole_bytes.min(ZEROS.len() as u64);
            (&self.file).write_all(&ZEROS[..now as usize])?;
            hole_bytes -= now;
        }
        self.done_bytes.store(offset, Ordering::Relaxed);
        Ok(())
    }

    /// Extends the file to its position, if it is shorter.
    fn give_size(&self) -> std::io::Result<()> {
        let at = seek(&self.file, SeekFrom::Current(0))?;
        if fstat(&self.file)?.st_size < at as i64 {
            ftruncate(&self.file, at)?;
        }
        Ok(())
    }

    fn failure(&self, error: std::io::Error) -> Error {
        match &self.path {
            Some(path) => failure(path, error),
            None => Error::system("writing to standard output", error),
        }
    }
}

fn takes_holes(file: &File) -> bool {
    let is_file = fstat(file).is_ok_and(|found| {
        let ends_here = || seek(file, SeekFrom::Current(0)).is_ok_and(|at| at >= found.st_size as u64);
        rustix::fs::FileType::from_raw_mode(found.st_mode).is_file() && ends_here()
    });
    is_file && fcntl_getfl(file).is_ok_and(|flags| !flags.contains(OFlags::APPEND))
}
