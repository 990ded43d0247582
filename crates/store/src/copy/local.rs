//! Files of this machine as sources and sinks, memory as a source, and nothing as a sink.
//!
//! A source is read with `pread`, never mapped: a file that is cut off while it is mapped kills its reader.

use crate::client::flow;
use crate::error::{Error, ErrorKind, Result};
use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use thalweg_trace::{ObjectId, TrackId};

/// A file being read.
pub(super) struct LocalSource {
    file: File,
    path: PathBuf,
    /// As it was when the copy began.
    before: Metadata,
    pub object: Option<ObjectId>,
}

fn failure(path: &Path, error: std::io::Error) -> Error {
    let problem = Error::system("", error);
    Error::new(problem.kind(), problem.message().trim_start_matches(": ").to_owned()).on_file(path.display().to_string())
}

impl LocalSource {
    /// A regular file.
    pub fn open(path: &Path) -> Result<LocalSource> {
        // Opening a FIFO waits for its writer, so it is looked at first.
        let before = std::fs::metadata(path).map_err(|e| failure(path, e))?;
        let kind = before.file_type();
        let refusal = if kind.is_dir() {
            Some((ErrorKind::IsDirectory, "it is a directory: copy it with -r"))
        } else if kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
            Some((ErrorKind::Invalid, "it is a pipe, socket or character device: copy its bytes through standard input, `-`"))
        } else if kind.is_block_device() {
            Some((ErrorKind::Invalid, "it is a block device: copy its bytes through standard input, `-`"))
        } else {
            None
        };
        if let Some((kind, problem)) = refusal {
            return Err(Error::new(kind, problem).on_file(path.display().to_string()));
        }
        let file = File::open(path).map_err(|e| failure(path, e))?;
        let before = file.metadata().map_err(|e| failure(path, e))?;
        Ok(LocalSource { file, path: path.to_owned(), before, object: None })
    }

    /// Its size when the copy began.
    pub fn size_bytes(&self) -> u64 {
        self.before.len()
    }

    /// Its permission bits.
    pub fn mode(&self) -> u32 {
        self.before.mode() & 0o777
    }

    /// After the copy: whether it was written to meanwhile.
    ///
    /// # Errors
    /// When it has another size, or is gone.
    pub fn check_unchanged(&self) -> Result<bool> {
        let after = self.file.metadata().map_err(|e| failure(&self.path, e))?;
        let changed = |problem: String| Err(Error::new(ErrorKind::SourceChanged, problem).on_file(self.path.display().to_string()));
        if after.len() != self.before.len() {
            return changed(format!("had {} bytes when the copy began, and has {} now: copy it again", self.before.len(), after.len()));
        }
        if after.nlink() == 0 {
            return changed("was removed while it was copied: the copy was not kept".to_owned());
        }
        let time = |m: &Metadata| (m.mtime(), m.mtime_nsec());
        Ok(time(&after) != time(&self.before))
    }
}

/// What `cachestat` tells of a range of a file. Five numbers of pages; only the first is of interest here.
#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached_pages: u64,
    _others: [u64; 4],
}

impl LocalSource {
    /// Asks the kernel to read a range ahead, unless it is in memory already. The connections' threads take a range in
    /// strips, each its own: to the kernel that looks like random reading, for which it reads nothing ahead.
    pub fn read_ahead(&self, offset: u64, length: u64) {
        const CACHESTAT: libc::c_long = 451;
        let range = [offset, length];
        let mut found = CacheStat::default();
        // SAFETY: the kernel reads two numbers and writes five, which is what both pointers point to; both outlive the
        // call. A kernel that does not know the call says so.
        let told = unsafe { libc::syscall(CACHESTAT, self.file.as_raw_fd(), range.as_ptr(), &raw mut found, 0) };
        let page_bytes = rustix::param::page_size() as u64;
        if told == 0 && found.cached_pages >= length / page_bytes {
            return;
        }
        let advice = rustix::fs::Advice::WillNeed;
        // Only a hint. In steps, since each asks for its whole range before it returns.
        for step in (offset..offset + length).step_by(READ_AHEAD_BYTES as usize) {
            let length = std::num::NonZeroU64::new(READ_AHEAD_BYTES.min(offset + length - step));
            let _ = rustix::fs::fadvise(&self.file, step, length, advice);
        }
    }
}

/// What is read ahead in one step.
const READ_AHEAD_BYTES: u64 = 4 << 20;

impl flow::Source for LocalSource {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                let end = offset + buffer.len() as u64;
                let problem = format!("had {} bytes when the copy began, and now ends before byte {end}: copy it again", self.before.len());
                Error::new(ErrorKind::SourceChanged, problem).on_file(self.path.display().to_string())
            }
            _ => failure(&self.path, e),
        })
    }

    fn object(&self) -> Option<ObjectId> {
        self.object
    }
}

/// Memory as a source: at every offset the byte is that of a repeating pattern, so that what arrives can be checked.
pub(super) struct Pattern {
    pub object: Option<ObjectId>,
}

/// The pattern repeats after so many bytes.
const PATTERN_BYTES: usize = 1 << 20;

/// Pseudo-random bytes, so that nothing on the way can compress them.
fn pattern() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let next = |_| {
            // xorshift64*
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            state.wrapping_mul(0x2545_F491_4F6C_DD1D)
        };
        (0..PATTERN_BYTES / 8).map(next).flat_map(u64::to_le_bytes).collect()
    })
}

impl flow::Source for Pattern {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while let Some(bytes) = self.in_memory(offset + done as u64, (buffer.len() - done) as u64) {
            buffer[done..done + bytes.len()].copy_from_slice(bytes);
            done += bytes.len();
        }
        Ok(())
    }

    fn in_memory(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let start = (offset % PATTERN_BYTES as u64) as usize;
        let end = PATTERN_BYTES.min(start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX)));
        (end > start).then(|| &pattern()[start..end])
    }

    fn object(&self) -> Option<ObjectId> {
        self.object
    }
}

/// A file being written, under its `.partial` name until it is whole.
pub(super) struct LocalSink {
    file: File,
    partial: PathBuf,
    path: PathBuf,
    kept: bool,
    turn: Mutex<Option<TrackId>>,
    pub object: Option<ObjectId>,
}

impl LocalSink {
    /// Begins. An existing file stays as it is until [`LocalSink::keep`].
    pub fn create(path: &Path, size_bytes: Option<u64>, mode: u32, force: bool) -> Result<LocalSink> {
        let named = |kind, problem: &str| Err(Error::new(kind, problem).on_file(path.display().to_string()));
        match std::fs::metadata(path) {
            Ok(m) if m.is_dir() => return named(ErrorKind::IsDirectory, "it is a directory: name a file in it"),
            Ok(m) if !m.is_file() => return named(ErrorKind::Invalid, "it is not a regular file"),
            Ok(_) if !force => return named(ErrorKind::Exists, "exists already: use --force to replace it"),
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(failure(path, e)),
        }
        let Some(name) = path.file_name() else { return named(ErrorKind::Invalid, "it does not name a file") };
        let mut partial_name = name.to_owned();
        partial_name.push(".partial");
        let partial = path.with_file_name(partial_name);
        let file = open_partial(&partial, path, mode)?;
        let sink = LocalSink { file, partial, path: path.to_owned(), kept: false, turn: Mutex::default(), object: None };
        if let Some(size) = size_bytes {
            // Holes of the source stay holes.
            sink.file.set_len(size).map_err(|e| failure(&sink.partial, e))?;
        }
        Ok(sink)
    }

    /// Everything is there: gives it its name.
    pub fn keep(&mut self, sync: bool, size_bytes: u64) -> Result<()> {
        if self.file.metadata().map_err(|e| failure(&self.partial, e))?.len() != size_bytes {
            self.file.set_len(size_bytes).map_err(|e| failure(&self.partial, e))?;
        }
        if sync {
            self.file.sync_all().map_err(|e| failure(&self.partial, e))?;
        }
        std::fs::rename(&self.partial, &self.path).map_err(|e| failure(&self.path, e))?;
        self.kept = true;
        if sync {
            let parent = self.path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(parent).and_then(|d| d.sync_all()).map_err(|e| failure(parent, e))?;
        }
        Ok(())
    }
}

/// Opens a `.partial` for one copy at a time: it is locked until its copy ends. One that nobody has locked was left by a
/// copy that was killed, and is begun anew.
fn open_partial(partial: &Path, path: &Path, mode: u32) -> Result<File> {
    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(mode);
    loop {
        let file = options.open(partial).map_err(|e| failure(partial, e))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let problem = format!("another copy to it is under way: {} is locked", partial.display());
                return Err(Error::new(ErrorKind::Busy, problem).on_file(path.display().to_string()));
            }
            // A file system without locks: the name alone has to do.
            Err(_) => {}
        }
        let opened = file.metadata().map_err(|e| failure(partial, e))?;
        match std::fs::metadata(partial) {
            Ok(named) if (named.dev(), named.ino()) == (opened.dev(), opened.ino()) => {
                // Not where it is empty already: ext4 takes any truncation to 0 for the first half of a replacement, and
                // starts writing the whole file back when it is closed.
                if opened.len() > 0 {
                    file.set_len(0).map_err(|e| failure(partial, e))?;
                }
                return Ok(file);
            }
            // Whoever had the lock has renamed or removed it in between.
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(failure(partial, e)),
        }
    }
}

impl Drop for LocalSink {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

impl flow::Sink for LocalSink {
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|e| failure(&self.path, e))
    }

    /// The kernel lets one thread at a time write to a file, and the others spin meanwhile: better that they sleep.
    fn turn(&self) -> Option<&Mutex<Option<TrackId>>> {
        Some(&self.turn)
    }

    fn object(&self) -> Option<ObjectId> {
        self.object
    }
}

/// Nowhere.
pub(super) struct NullSink;

impl flow::Sink for NullSink {
    fn write(&self, _: &[u8], _: u64) -> Result<()> {
        Ok(())
    }
    fn discards(&self) -> bool {
        true
    }
    fn object(&self) -> Option<ObjectId> {
        None
    }
}

/// The bits that new files of this process do not get, as of the first copy: reading them costs as much as a short copy's
/// round trip.
pub(super) fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(read_umask)
}

fn read_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o022)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::Source;

    #[test]
    fn the_pattern_is_the_same_however_it_is_read() {
        let source = Pattern { object: None };
        let mut whole = vec![0; 3 * PATTERN_BYTES];
        source.read(&mut whole, 12_345).unwrap();
        let mut part = vec![0; 100_000];
        source.read(&mut part, 12_345 + 1_000_000).unwrap();
        assert_eq!(part, whole[1_000_000..1_100_000]);
        assert_eq!(source.in_memory(PATTERN_BYTES as u64 - 1, 10).unwrap().len(), 1);
    }

    #[test]
    fn one_copy_at_a_time_writes_to_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(dir.path().join("f.partial"), "left by a copy that was killed").unwrap();
        let mut first = LocalSink::create(&path, None, 0o644, false).unwrap();
        let second = LocalSink::create(&path, None, 0o644, false).err().unwrap();
        assert_eq!(second.kind(), ErrorKind::Busy);
        flow::Sink::write(&first, b"whole", 0).unwrap();
        first.keep(false, 5).unwrap();
        drop(first);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        assert!(LocalSink::create(&path, None, 0o644, true).is_ok());
    }

    #[test]
    fn a_sink_that_is_not_kept_leaves_nothing_and_an_existing_file_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "old").unwrap();
        assert_eq!(LocalSink::create(&path, None, 0o644, false).err().unwrap().kind(), ErrorKind::Exists);
        drop(LocalSink::create(&path, Some(7), 0o644, true).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
