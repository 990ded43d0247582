//! Sources without a reliable size: pipes, sockets, devices, and files whose reported size is false.
//!
//! Files of `/proc` report a size of 0 and those of `/sys` one of 4096, whatever their content; FUSE file systems may do likewise. No list
//! of file systems decides: a size is accepted if there is no byte beyond it and there is one before it. Any other source is read in order
//! to its end, like standard input.

use super::local::{LocalSource, failure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use thalweg_base::sync::Mutex;
use thalweg_wire::{Error, ErrorKind, Result};

/// Interval at which a wait for bytes checks `stopping`.
const POLL_INTERVAL: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Bytes read of a file of size 0 to find out whether it is empty.
const HEAD_BYTES: usize = 1 << 16;

/// A source read in order to its end.
pub(super) struct Stream {
    input: OwnedFd,
    path: PathBuf,
    /// Permission bits for the copy.
    pub mode: u32,
    /// Bytes already read.
    head: Mutex<Vec<u8>>,
}

/// An opened local source.
pub(super) enum Opened {
    /// Has a size and can be read at any offset.
    Sized(Box<LocalSource>),
    /// Read in order to its end.
    Stream(Stream),
}

/// Opens a path the user gave. `stopping` says whether to give up waiting for the first bytes.
///
/// # Errors
/// Names the file: a directory, or the system's error.
pub(super) fn open(path: &Path, stopping: &dyn Fn() -> bool) -> Result<Opened> {
    // Opening a FIFO waits for its writer, so check the type first.
    let found = std::fs::metadata(path).map_err(|e| failure(path, e))?;
    let kind = found.file_type();
    if kind.is_dir() {
        return Err(Error::new(ErrorKind::IsDirectory, "it is a directory: copy it with -r").on_file(path.display().to_string()));
    }
    if kind.is_socket() {
        return Ok(Opened::Stream(Stream::new(socket(path)?, path, 0o666)));
    }
    if kind.is_file() {
        return of(File::open(path).map_err(|e| failure(path, e))?, path, stopping);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let input = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failure(path, e.into()))?;
    let opened = File::from(input);
    let now = opened.metadata().map_err(|e| failure(path, e))?;
    if now.is_file() {
        return of(opened, path, stopping);
    }
    let mode = now.mode() & if kind.is_fifo() { 0o777 } else { 0o666 };
    Ok(Opened::Stream(Stream::new(opened.into(), path, mode)))
}

/// Wraps an open regular file; `path` names it in messages.
pub(super) fn of(file: File, path: &Path, stopping: &dyn Fn() -> bool) -> Result<Opened> {
    let before = file.metadata().map_err(|e| failure(path, e))?;
    if before.is_file() && before.len() == 0 {
        let stream = Stream::new(file.try_clone().map_err(|e| failure(path, e))?.into(), path, before.mode() & 0o777);
        let mut head = vec![0; HEAD_BYTES];
        let have = stream.read_once(&mut head, stopping)?;
        if have > 0 {
            head.truncate(have);
            *stream.head.lock() = head;
            return Ok(Opened::Stream(stream));
        }
    } else if before.is_file() && !is_true_size(&file, &before) {
        return Ok(Opened::Stream(Stream::new(file.into(), path, before.mode() & 0o777)));
    }
    Ok(Opened::Sized(Box::new(LocalSource::of(file, path)?)))
}

/// Whether a file's reported size is true. A file that cannot be read at an offset counts as false.
fn is_true_size(file: &File, said: &Metadata) -> bool {
    let has = |offset: u64| match file.read_at(&mut [0], offset) {
        Ok(read) => Some(read > 0),
        // The read fails again later, where it is reported.
        Err(e) if e.raw_os_error() != Some(Errno::SPIPE.raw_os_error()) => Some(offset < said.len()),
        Err(_) => None,
    };
    // Bytes with allocated blocks exist.
    let has_last = || said.blocks().saturating_mul(512) >= said.len() || has(said.len() - 1) == Some(true);
    has(said.len()) == Some(false) && has_last()
}

/// Connects to a socket, or takes the one that this process has open under the path.
fn socket(path: &Path) -> Result<OwnedFd> {
    let on_it = |e: Errno| failure(path, e.into());
    if let Some(number) = own_descriptor(path) {
        let itself = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty()).map_err(on_it)?;
        return rustix::process::pidfd_getfd(itself, number, rustix::process::PidfdGetfdFlags::empty()).map_err(on_it);
    }
    let socket = UnixStream::connect(path).map_err(|e| failure(path, e))?;
    // A server that reads first sees end of file.
    let _ = socket.shutdown(Shutdown::Write);
    Ok(socket.into())
}

/// Returns the descriptor number in a path like `/dev/fd/3`.
fn own_descriptor(path: &Path) -> Option<i32> {
    let text = path.to_str()?;
    if text == "/dev/stdin" {
        return Some(0);
    }
    ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|above| text.strip_prefix(above)?.parse().ok())
}

impl Stream {
    fn new(input: OwnedFd, path: &Path, mode: u32) -> Stream {
        Stream { input, path: path.to_owned(), mode, head: Mutex::default() }
    }

    /// Opens standard input.
    pub(super) fn stdin() -> Result<Stream> {
        let input = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 0).map_err(|e| Error::system("reading standard input", e))?;
        Ok(Stream::new(input, Path::new("standard input"), 0o666))
    }

    /// Fills `bytes`, or up to the end of file. A pipe's writer may block forever, so the wait polls `stopping` rather than blocking in a
    /// read.
    pub(super) fn fill(&self, bytes: &mut [u8], stopping: &dyn Fn() -> bool) -> Result<u64> {
        let mut head = self.head.lock();
        let mut have = head.len().min(bytes.len());
        bytes[..have].copy_from_slice(&head[..have]);
        head.drain(..have);
        drop(head);
        while have < bytes.len() {
            match self.read_once(&mut bytes[have..], stopping)? {
                0 => break,
                read => have += read,
            }
        }
        Ok(have as u64)
    }

    fn read_once(&self, bytes: &mut [u8], stopping: &dyn Fn() -> bool) -> Result<usize> {
        loop {
            match poll(&mut [PollFd::new(&self.input, PollFlags::IN)], Some(&POLL_INTERVAL)) {
                Ok(0) if stopping() => return Err(Error::new(ErrorKind::Cancelled, "stopped on request")),
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(e) => return Err(failure(&self.path, e.into())),
            }
            match rustix::io::read(&self.input, &mut *bytes) {
                Ok(read) => return Ok(read),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if stopping() => return Err(Error::new(ErrorKind::Cancelled, "stopped on request")),
                // Another reader took the bytes.
                Err(Errno::AGAIN) => std::thread::sleep(std::time::Duration::from_millis(1)),
                Err(e) => return Err(failure(&self.path, e.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(path: &Path) -> Option<Vec<u8>> {
        let Opened::Stream(stream) = open(path, &|| false).unwrap() else { return None };
        let mut bytes = vec![0; 4 << 20];
        let have = stream.fill(&mut bytes, &|| false).unwrap();
        bytes.truncate(have as usize);
        Some(bytes)
    }

    #[test]
    fn a_size_is_believed_only_where_it_is_true() {
        for path in ["/proc/version", "/proc/self/cmdline", "/sys/kernel/mm/transparent_hugepage/enabled"] {
            if let Ok(there) = std::fs::read(path) {
                assert_eq!(whole(Path::new(path)).as_ref(), Some(&there), "{path}");
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let (plain, hole, empty) = (dir.path().join("plain"), dir.path().join("hole"), dir.path().join("empty"));
        std::fs::write(&plain, "text").unwrap();
        std::fs::write(&empty, "").unwrap();
        File::create(&hole).unwrap().set_len(10 << 20).unwrap();
        for path in [&plain, &hole, &empty] {
            assert!(whole(path).is_none(), "{}", path.display());
        }
        assert_eq!(open(dir.path(), &|| false).err().unwrap().kind(), ErrorKind::IsDirectory);
    }

    #[test]
    fn a_socket_s_file_and_a_descriptor_that_is_a_socket_are_read_to_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| std::io::Write::write_all(&mut listener.accept().unwrap().0, b"said by a server").unwrap());
            assert_eq!(whole(&path).unwrap(), b"said by a server");
        });
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::io::Write::write_all(&mut &theirs, b"said by a pair").unwrap();
        drop(theirs);
        let number = std::os::fd::AsRawFd::as_raw_fd(&ours);
        assert_eq!(whole(Path::new(&format!("/dev/fd/{number}"))).unwrap(), b"said by a pair");
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_is_waited_for_only_while_it_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let Opened::Stream(stream) = open(&path, &|| false).unwrap() else { panic!("a pipe has a size") };
        assert_eq!(stream.fill(&mut [0; 8], &|| true).unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(stream.mode, 0o600);
        std::fs::write(&path, "come").unwrap();
        assert_eq!(stream.fill(&mut [0; 8], &|| false).unwrap(), 4);
    }
}
