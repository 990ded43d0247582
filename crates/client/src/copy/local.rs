//! Files of this machine as sources and sinks, memory as a source, and nothing as a sink.
//!
//! A source is read with `pread`, never mapped: a file that is cut off while it is mapped kills its reader.

use super::{draft, partial};
use crate::files::engine::flow;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use thalweg_base::sparse;
use thalweg_base::sync::Mutex;
use thalweg_trace::{ObjectId, SpanKind, Time, TraceHandle, TrackId};
use thalweg_wire::emulate::{Disk, Work};
use thalweg_wire::limits;
use thalweg_wire::{Error, ErrorKind, Result};

/// A file being read.
pub(super) struct LocalSource {
    file: File,
    path: PathBuf,
    /// As it was when the copy began.
    before: Metadata,
    pub object: Option<ObjectId>,
    /// The disk that it pretends to be on, and where that is recorded.
    pub disk: Option<(Disk, TraceHandle)>,
}

pub(super) fn failure(path: &Path, error: std::io::Error) -> Error {
    let problem = Error::system("", error);
    Error::new(problem.kind(), problem.message().trim_start_matches(": ").to_owned()).on_file(path.display().to_string())
}

impl LocalSource {
    /// A regular file that is open already, called so in messages.
    pub(super) fn of(file: File, path: &Path) -> Result<LocalSource> {
        let before = file.metadata().map_err(|e| failure(path, e))?;
        if !before.is_file() {
            return Err(Error::new(ErrorKind::SourceChanged, "is no regular file any more").on_file(path.display().to_string()));
        }
        Ok(LocalSource { file, path: path.to_owned(), before, object: None, disk: None })
    }

    /// Its size when the copy began.
    pub(super) fn size_bytes(&self) -> u64 {
        self.before.len()
    }

    /// Its permission bits.
    pub(super) fn mode(&self) -> u32 {
        self.before.mode() & 0o777
    }

    /// After the copy: whether it was written to meanwhile. What was put behind the end that it had is not in the copy.
    ///
    /// # Errors
    /// When it is shorter, or gone.
    pub(super) fn check_unchanged(&self) -> Result<bool> {
        let after = self.file.metadata().map_err(|e| failure(&self.path, e))?;
        let changed = |problem: String| Err(Error::new(ErrorKind::SourceChanged, problem).on_file(self.path.display().to_string()));
        if after.len() < self.before.len() {
            return changed(format!("had {} bytes when the copy began, and has {} now: copy it again", self.before.len(), after.len()));
        }
        if after.nlink() == 0 {
            return changed("was removed while it was copied: the copy was not kept".to_owned());
        }
        let time = |m: &Metadata| (m.mtime(), m.mtime_nsec());
        Ok(after.len() != self.before.len() || time(&after) != time(&self.before))
    }
}

impl LocalSource {
    /// The parts of a range that are not holes, and up to where they are known.
    pub(super) fn data_map(&self, range: Range<u64>) -> Result<(Vec<Range<u64>>, u64)> {
        sparse::data_of(&self.file, range, limits::MAP_RANGES).map_err(|e| failure(&self.path, e.into()))
    }
}

/// What `cachestat` returns for a range of a file. Five numbers of pages; only the first is of interest here.
#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached_pages: u64,
    _others: [u64; 4],
}

impl LocalSource {
    /// Asks the kernel to read a range ahead, unless it is in memory already. The connections' threads take a range in
    /// strips, each its own: to the kernel that looks like random reading, for which it reads nothing ahead.
    pub(super) fn read_ahead(&self, offset: u64, length: u64) {
        const CACHESTAT: libc::c_long = 451;
        let range = [offset, length];
        let mut found = CacheStat::default();
        // SAFETY: the kernel reads two numbers and writes five, which is what both pointers point to; both outlive the
        // call. A kernel that does not know the call says so.
        let status = unsafe { libc::syscall(CACHESTAT, self.file.as_raw_fd(), range.as_ptr(), &raw mut found, 0) };
        let page_bytes = rustix::param::page_size() as u64;
        if status == 0 && found.cached_pages >= length / page_bytes {
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
        let asked = self.disk.as_ref().map(|_| Time::now());
        let read = self.file.read_exact_at(buffer, offset).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                let end = offset + buffer.len() as u64;
                let problem = format!("had {} bytes when the copy began, and now ends before byte {end}: copy it again", self.before.len());
                Error::new(ErrorKind::SourceChanged, problem).on_file(self.path.display().to_string())
            }
            _ => failure(&self.path, e),
        });
        if let Some(((disk, mode), asked)) = self.disk.as_ref().zip(asked) {
            let work = Work { kind: SpanKind::DiskRead, file: 0, offset, bytes: buffer.len() as u64, asked };
            disk.work(&work, Some((mode, 0, None)));
        }
        read
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

/// A file being written, under its `.partial` name until it is whole ([`super::draft`]).
pub(super) struct LocalSink {
    file: File,
    directory: OwnedFd,
    /// Its name now, and when it is whole.
    draft: Vec<u8>,
    name: Vec<u8>,
    /// As messages name it.
    path: PathBuf,
    replace: bool,
    kept: bool,
    /// What had the name `NAME.partial`, and was left alone.
    pub left_alone: Option<PathBuf>,
    turn: Mutex<Option<TrackId>>,
    pub object: Option<ObjectId>,
}

/// Gives a whole file its attributes, before it has its name.
pub(super) type Finish<'a> = &'a dyn Fn(&File) -> Result<()>;

/// A single name in a directory that is open, for one file of a tree.
pub(super) struct LocalPlace<'a> {
    pub directory: OwnedFd,
    pub name: &'a [u8],
    /// As messages name it.
    pub path: PathBuf,
    /// The bits to make it with.
    pub mode: u32,
    pub finish: Finish<'a>,
    /// Is notified that what has the name `NAME.partial` was left alone.
    pub left_alone: &'a dyn Fn(),
}

impl LocalSink {
    /// Begins a copy to a name that a person gave, whose links are his: they are followed, and the file at their end is
    /// replaced. An existing file stays as it is until [`LocalSink::keep`].
    pub(super) fn create(path: &Path, size_bytes: Option<u64>, mode: u32, force: bool) -> Result<LocalSink> {
        let named = |kind, problem: &str| Err(Error::new(kind, problem).on_file(path.display().to_string()));
        let is_there = match std::fs::metadata(path) {
            Ok(m) if m.is_dir() => return named(ErrorKind::IsDirectory, "it is a directory: name a file in it"),
            Ok(m) if !m.is_file() => return named(ErrorKind::Invalid, "it is not a regular file"),
            Ok(_) if !force => return Err(draft::exists().on_file(path.display().to_string())),
            Ok(_) => true,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => false,
            Err(e) => return Err(failure(path, e)),
        };
        let is_link = std::fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink());
        if is_link && !is_there {
            return named(ErrorKind::Exists, "it is a symbolic link that leads nowhere: remove it, or name what it is to lead to");
        }
        let target = if is_link { std::fs::canonicalize(path).map_err(|e| failure(path, e))? } else { path.to_owned() };
        let Some(name) = target.file_name() else { return named(ErrorKind::Invalid, "it does not name a file") };
        let above = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(above, flags, Mode::empty()).map_err(|e| failure(path, e.into()))?;
        LocalSink::create_in(directory, name.as_bytes(), path, size_bytes, (mode, force))
    }

    /// Begins a copy to a single name in a directory. Nothing that has this name is followed: a link is replaced like a file.
    pub(super) fn create_in(
        directory: OwnedFd,
        name: &[u8],
        path: &Path,
        size_bytes: Option<u64>,
        (mode, replace): (u32, bool),
    ) -> Result<LocalSink> {
        let on_it = |e: Error| e.on_file(path.display().to_string());
        match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => return Err(on_it(Error::new(ErrorKind::IsDirectory, "it is a directory: name a file in it"))),
                _ if !replace => return Err(on_it(draft::exists())),
                FileType::RegularFile | FileType::Symlink => {}
                _ => return Err(on_it(Error::new(ErrorKind::Invalid, "it is not a regular file"))),
            },
            Err(Errno::NOENT) => {}
            Err(e) => return Err(failure(path, e.into())),
        }
        let made = draft::make(directory.as_fd(), name, mode).map_err(on_it)?;
        let left_alone = made.beside.then(|| path.with_file_name(OsStr::from_bytes(&partial::name_of(name))));
        let sink = LocalSink {
            file: File::from(made.file),
            directory,
            draft: made.name,
            name: name.to_vec(),
            path: path.to_owned(),
            replace,
            kept: false,
            left_alone,
            turn: Mutex::default(),
            object: None,
        };
        if let Some(size) = size_bytes {
            // Holes of the source stay holes.
            sink.file.set_len(size).map_err(|e| failure(path, e))?;
        }
        Ok(sink)
    }

    /// The file, to be given its attributes before it has its name.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Everything is there: gives it its name.
    pub(super) fn keep(&mut self, sync: bool, size_bytes: u64) -> Result<()> {
        let on_it = |e| failure(&self.path, e);
        if self.file.metadata().map_err(on_it)?.len() != size_bytes {
            self.file.set_len(size_bytes).map_err(on_it)?;
        }
        draft::unmark(&self.file);
        if sync {
            self.file.sync_all().map_err(on_it)?;
        }
        let published = draft::publish(self.directory.as_fd(), &self.draft, &self.name, self.replace);
        published.map_err(|e| e.on_file(self.path.display().to_string()))?;
        self.kept = true;
        if sync {
            // The descriptor that names are found from is not one that can be synced.
            let readable = rustix::fs::openat(&self.directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            readable.and_then(rustix::fs::fsync).map_err(|e| failure(&self.path, e.into()))?;
        }
        Ok(())
    }
}

impl Drop for LocalSink {
    fn drop(&mut self) {
        if !self.kept {
            draft::remove(self.directory.as_fd(), &self.draft);
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
    fn one_copy_at_a_time_writes_to_a_name_and_takes_over_what_a_killed_one_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        if rustix::fs::setxattr(dir.path(), "user.t", b"1", rustix::fs::XattrFlags::empty()).is_err() {
            println!("SKIPPED: this file system has no extended attributes");
            return;
        }
        let mut killed = LocalSink::create(&path, None, 0o644, false).unwrap();
        flow::Sink::write(&killed, b"left by a copy that was killed", 0).unwrap();
        killed.kept = true;
        drop(killed);
        assert!(dir.path().join("f.partial").exists());
        let mut first = LocalSink::create(&path, None, 0o644, false).unwrap();
        assert_eq!(first.left_alone, None);
        let second = LocalSink::create(&path, None, 0o644, false).err().unwrap();
        assert_eq!(second.kind(), ErrorKind::Busy);
        flow::Sink::write(&first, b"whole", 0).unwrap();
        first.keep(false, 5).unwrap();
        drop(first);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        assert!(rustix::fs::getxattr(&path, "user.thalweg.partial", &mut [0_u8; 8][..]).is_err(), "a whole file carries no mark");
        assert!(LocalSink::create(&path, None, 0o644, true).is_ok());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_partial_that_is_not_ours_is_neither_written_to_nor_through_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, partial, other) = (dir.path().join("f"), dir.path().join("f.partial"), dir.path().join("other"));
        std::fs::write(&other, "somebody's").unwrap();
        let link = |to: &Path, at: &Path| std::os::unix::fs::symlink(to, at).unwrap();
        let ways: [&dyn Fn(); 4] = [
            &|| link(&other, &partial),
            &|| link(&dir.path().join("nowhere"), &partial),
            &|| std::fs::write(&partial, "somebody's").unwrap(),
            &|| std::fs::hard_link(&other, &partial).unwrap(),
        ];
        for (number, there) in ways.iter().enumerate() {
            there();
            let before = std::fs::symlink_metadata(&partial).unwrap();
            for sync in [false, true] {
                let mut sink = LocalSink::create(&path, Some(5), 0o644, true).unwrap();
                flow::Sink::write(&sink, b"whole", 0).unwrap();
                assert_eq!(sink.left_alone.as_ref(), Some(&partial));
                sink.keep(sync, 5).unwrap();
                drop(LocalSink::create(&path, Some(5), 0o644, true).unwrap());
            }
            let after = std::fs::symlink_metadata(&partial).unwrap();
            assert_eq!((before.ino(), before.len(), before.mtime_nsec()), (after.ino(), after.len(), after.mtime_nsec()), "way {number}");
            assert_eq!(std::fs::read_to_string(&other).unwrap(), "somebody's");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
            assert!(!dir.path().join("nowhere").exists());
            std::fs::remove_file(&partial).unwrap();
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
        }
    }

    #[test]
    fn a_link_that_a_person_names_is_followed_and_the_file_at_its_end_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (elsewhere, link) = (dir.path().join("elsewhere"), dir.path().join("link"));
        std::fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink("elsewhere/f", &link).unwrap();
        assert_eq!(LocalSink::create(&link, None, 0o644, true).err().unwrap().kind(), ErrorKind::Exists, "it leads nowhere");
        std::fs::write(elsewhere.join("f"), "old").unwrap();
        assert_eq!(LocalSink::create(&link, None, 0o644, false).err().unwrap().kind(), ErrorKind::Exists);
        let mut sink = LocalSink::create(&link, None, 0o644, true).unwrap();
        flow::Sink::write(&sink, b"new", 0).unwrap();
        sink.keep(true, 3).unwrap();
        assert_eq!(std::fs::read_to_string(elsewhere.join("f")).unwrap(), "new");
        assert!(link.is_symlink());
    }

    #[test]
    fn a_name_that_is_taken_meanwhile_is_not_replaced_without_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut sink = LocalSink::create(&path, None, 0o644, false).unwrap();
        std::fs::write(&path, "mine").unwrap();
        assert_eq!(sink.keep(false, 0).unwrap_err().kind(), ErrorKind::Exists);
        drop(sink);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_name_as_long_as_names_can_be_is_copied_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n".repeat(255));
        let mut sink = LocalSink::create(&path, None, 0o644, false).unwrap();
        assert_eq!(sink.left_alone, None);
        sink.keep(false, 0).unwrap();
        assert!(path.exists());
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
