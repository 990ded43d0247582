//! A local directory as a source.
//!
//! The walk holds one open directory and the names of those on the way down to it. Each entry is opened by its path beneath the root's
//! descriptor, so renames above the root have no effect. Unless links are to be followed, no component may be a link: a directory replaced
//! by a link during the copy is not entered.

use super::batch::{BATCH_BYTES, Batch, EntryKind, Item, KeptAttributes, SMALL_BYTES, State, shown};
use super::ends::TreeSource;
use super::whole;
use super::workers::of_entry;
use crate::copy::beneath::{self, failure};
use crate::copy::stream::{self, Opened};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use thalweg_base::sparse;
use thalweg_base::sync::Mutex;
use thalweg_bulk::resize;
use thalweg_trace::{SpanFields, SpanId, SpanKind, Tracer};
use thalweg_wire::protocol::metadata::NewNode;
use thalweg_wire::{Error, ErrorKind, Result};

/// Names of one directory read and sorted together.
const NAMES: usize = 1 << 16;

/// A directory with everything below it.
pub(super) struct LocalTree {
    root: OwnedFd,
    path: PathBuf,
    follow: bool,
    walk: Mutex<Vec<Level>>,
}

/// A directory on the way down.
struct Level {
    path: Vec<u8>,
    /// Device and inode; detects a link to a directory above it when following links.
    identity: (u64, u64),
    open: Option<Dir>,
    /// Next names, in reverse order.
    names: Vec<Vec<u8>>,
    /// Subdirectories not visited yet.
    below: Vec<(Item, (u64, u64))>,
}

impl LocalTree {
    /// Opens a local directory.
    pub(super) fn open(path: &Path, follow: bool) -> Result<LocalTree> {
        let on_it = |e: Errno| failure(e).on_file(path.display().to_string());
        let root = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(on_it)?;
        let found = rustix::fs::fstat(&root).map_err(on_it)?;
        let open = Dir::read_from(&root).map_err(on_it)?;
        let level = Level { path: Vec::new(), identity: identity(&found), open: Some(open), names: Vec::new(), below: Vec::new() };
        Ok(LocalTree { root, path: path.to_owned(), follow, walk: Mutex::new(vec![level]) })
    }

    fn look(&self, path: &[u8]) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.root, path, if self.follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW })
    }

    fn open_entry(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        if self.follow {
            return rustix::fs::openat(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty());
        }
        beneath::open(self.root.as_fd(), path, flags, Mode::empty())
    }

    /// O_NONBLOCK: opening a pipe that replaced a file must not wait for a writer.
    fn open_file(&self, path: &[u8]) -> Result<OwnedFd> {
        self.open_entry(path, OFlags::RDONLY | OFlags::NONBLOCK).map_err(|e| match e {
            Errno::NOENT => Error::new(ErrorKind::SourceChanged, "was removed while the tree was copied"),
            Errno::LOOP => Error::new(ErrorKind::SourceChanged, "became a symbolic link while the tree was copied"),
            e => failure(e),
        })
    }

    fn read_link(&self, path: &[u8]) -> rustix::io::Result<Vec<u8>> {
        let (above, name) = beneath::split(path);
        let directory = self.open_entry(if above.is_empty() { b"." } else { above }, OFlags::PATH | OFlags::DIRECTORY)?;
        rustix::fs::readlinkat(directory, name, Vec::new()).map(std::ffi::CString::into_bytes)
    }

    /// Descends into a directory; `None`: unreadable, which is noted in the batch.
    fn enter(&self, item: &Item, identity: (u64, u64), batch: &mut Batch) -> Option<Level> {
        match self.open_entry(&item.path, OFlags::RDONLY | OFlags::DIRECTORY).and_then(Dir::new) {
            Ok(open) => Some(Level { path: item.path.clone(), identity, open: Some(open), names: Vec::new(), below: Vec::new() }),
            Err(e) => {
                batch.unread.push((item.path.clone(), failure(e)));
                None
            }
        }
    }

    /// Handles one name of a directory: adds it to the batch, or queues it as a subdirectory.
    fn found(&self, levels: &mut [Level], path: Vec<u8>, batch: &mut Batch) {
        let found = match self.look(&path) {
            Ok(found) => found,
            // Removed between readdir and stat: as if removed earlier.
            Err(Errno::NOENT) if !self.follow => return,
            Err(e) => {
                let item = Item { path, kind: EntryKind::File(0), kept: KeptAttributes::default(), stored: None };
                return batch.push_failed(item, failure(e));
            }
        };
        let kept = KeptAttributes {
            mode: found.st_mode & 0o7777,
            uid: found.st_uid,
            gid: found.st_gid,
            accessed_ns: nanoseconds(found.st_atime, found.st_atime_nsec as i64),
            modified_ns: nanoseconds(found.st_mtime, found.st_mtime_nsec as i64),
        };
        let kind = match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                let item = Item { path, kind: EntryKind::Directory, kept, stored: None };
                if levels.iter().any(|level| level.identity == identity(&found)) {
                    return batch.push_failed(item, Error::new(ErrorKind::LinkLoop, "a symbolic link to a directory that contains it"));
                }
                let level = levels.last_mut().expect("one is being read");
                return level.below.push((item, identity(&found)));
            }
            FileType::Symlink => EntryKind::Node(NewNode::Symlink(Vec::new())),
            FileType::Fifo => EntryKind::Node(NewNode::Fifo),
            FileType::Socket => EntryKind::Node(NewNode::Socket),
            FileType::CharacterDevice => EntryKind::Node(NewNode::CharacterDevice(device(found.st_rdev))),
            FileType::BlockDevice => EntryKind::Node(NewNode::BlockDevice(device(found.st_rdev))),
            _ => EntryKind::File(found.st_size as u64),
        };
        batch.push(Item { path, kind, kept, stored: None });
    }

    /// Reads a small file into memory one byte larger than its size when found. If it has grown, or its size is false, reads to its end,
    /// at most `spare` bytes.
    fn read(&self, item: &Item, size_bytes: u64, memory: &mut [u8], spare: usize) -> Result<Read> {
        let file = self.open_file(&item.path)?;
        let have = fill(&file, memory)?;
        if have as u64 == size_bytes {
            return Ok(Read::Whole(have));
        }
        if have == memory.len() {
            let mut all = memory.to_vec();
            all.resize(have + spare + 1, 0);
            let have = have + fill(&file, &mut all[have..])?;
            all.truncate(have);
            return Ok(if have as u64 > SMALL_BYTES || have > memory.len() + spare { Read::Large } else { Read::Longer(all) });
        }
        let now = rustix::fs::fstat(&file).map_err(failure)?.st_size as u64;
        if now == size_bytes {
            // The size is unchanged, but is not the number of bytes: a file such as those in /proc.
            return Ok(Read::Whole(have));
        }
        let problem = format!("had {size_bytes} bytes when it was found, and has {now} now: copy it again");
        Err(Error::new(ErrorKind::SourceChanged, problem))
    }
}

/// Result of reading a file that was small when found.
enum Read {
    /// The expected file: number of bytes.
    Whole(usize),
    /// More bytes than expected: all of them.
    Longer(Vec<u8>),
    /// No longer small.
    Large,
}

fn fill(file: &OwnedFd, memory: &mut [u8]) -> Result<usize> {
    let mut have = 0;
    while have < memory.len() {
        match rustix::io::read(file, &mut memory[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(failure(e)),
        }
    }
    Ok(have)
}

fn identity(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// Converts a device number to the FUSE form: 12 bits of the major number between 8 and 12 bits of the minor number.
fn device(number: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12
}

impl Level {
    /// Returns the next name; `None`: none left.
    fn next(&mut self) -> rustix::io::Result<Option<Vec<u8>>> {
        if self.names.is_empty()
            && let Some(open) = &mut self.open
        {
            while self.names.len() < NAMES {
                match open.read() {
                    Some(Ok(entry)) => match entry.file_name().to_bytes() {
                        b"." | b".." => {}
                        name => self.names.push(name.to_vec()),
                    },
                    Some(Err(e)) => {
                        self.open = None;
                        return Err(e);
                    }
                    None => {
                        self.open = None;
                        break;
                    }
                }
            }
            // Adjacent names get adjacent numbers, and are found together later.
            self.names.sort_unstable_by(|a, b| b.cmp(a));
        }
        Ok(self.names.pop())
    }
}

impl TreeSource for LocalTree {
    fn next(&self, _: &mut Tracer, batch: &mut Batch) -> Result<bool> {
        let mut levels = self.walk.lock();
        while !batch.is_full() {
            let Some(level) = levels.last_mut() else { return Ok(false) };
            match level.next() {
                Ok(Some(name)) => {
                    let mut path = Vec::with_capacity(level.path.len() + 1 + name.len());
                    if !level.path.is_empty() {
                        path.extend_from_slice(&level.path);
                        path.push(b'/');
                    }
                    path.extend_from_slice(&name);
                    self.found(&mut levels, path, batch);
                }
                Err(e) => batch.unread.push((level.path.clone(), failure(e))),
                Ok(None) => match level.below.pop() {
                    Some((item, identity)) => {
                        if let Some(below) = self.enter(&item, identity, batch) {
                            levels.push(below);
                        }
                        batch.push(item);
                    }
                    None => drop(levels.pop()),
                },
            }
        }
        Ok(true)
    }

    fn load(&self, tracer: &mut Tracer, batch: &mut Batch, span: Option<SpanId>) -> Result<()> {
        let mut longer = batch.memory_for_small().len();
        let reading = tracer.begin();
        let (mut at, mut files, mut spare) = (0, 0, BATCH_BYTES as usize);
        for entry in batch.entries.iter_mut().filter(|entry| entry.is_open()) {
            match &mut entry.item.kind {
                EntryKind::File(size) if *size <= SMALL_BYTES => {
                    let size = *size;
                    let into = &mut batch.memory[at..at + size as usize + 1];
                    files += 1;
                    let found = self.read(&entry.item, size, into, spare.min(SMALL_BYTES as usize));
                    let (new_size, state) = match found {
                        Ok(Read::Whole(have)) => (have as u64, State::Loaded(at..at + have)),
                        Ok(Read::Longer(bytes)) => {
                            let range = longer..longer + bytes.len();
                            resize(&mut batch.memory, range.end);
                            batch.memory[range.clone()].copy_from_slice(&bytes);
                            (longer, spare) = (range.end, spare.saturating_sub(bytes.len()));
                            (bytes.len() as u64, State::Loaded(range))
                        }
                        // Copied on its own, whatever its size.
                        Ok(Read::Large) => (SMALL_BYTES + 1, State::Found),
                        Err(error) => (size, State::Failed(error)),
                    };
                    batch.size_bytes = batch.size_bytes.saturating_sub(size) + new_size;
                    (entry.item.kind, entry.state) = (EntryKind::File(new_size), state);
                    at += size as usize;
                }
                EntryKind::Node(NewNode::Symlink(target)) => match self.read_link(&entry.item.path) {
                    Ok(found) => *target = found,
                    Err(e) => entry.state = State::Failed(failure(e)),
                },
                _ => {}
            }
        }
        let about = SpanFields { parent: span, size_bytes: Some(at as u64), count: Some(files), ..SpanFields::default() };
        tracer.end(reading, SpanKind::FileRead, about);
        Ok(())
    }

    fn data_map(&self, _: &mut Tracer, item: &Item, size_bytes: u64) -> Result<Vec<Range<u64>>> {
        let file = self.open_file(&item.path)?;
        sparse::data_of(&file, 0..size_bytes, usize::MAX).map(|(data, _)| data).map_err(failure)
    }

    fn large(&self, _: &mut Tracer, item: &Item) -> Result<whole::Source> {
        let path = self.path.join(std::ffi::OsStr::from_bytes(&item.path));
        let file = std::fs::File::from(self.open_file(&item.path)?);
        match stream::of(file, &path, &|| false).map_err(|e| of_entry(e, &item.path))? {
            Opened::Sized(source) => Ok(whole::Source::Local(*source)),
            Opened::Stream(stream) => Ok(whole::Source::Stream(stream)),
        }
    }

    fn name(&self) -> String {
        shown(self.path.as_os_str().as_bytes())
    }
}
