//! A local directory as a destination.
//!
//! Each entry is made as a single name in a directory opened beneath the destination's root ([`crate::copy::beneath`]): a link that the
//! tree brings, or that existed before, is never followed. Owners, modes and times are set by descriptor.

use super::batch::{Batch, Entry, EntryKind, KeptAttributes, State, shown};
use super::ends::{TreeSink, TreeSource};
use super::job::Context;
use super::whole;
use super::workers::of_entry;
use crate::copy::beneath::{self, Parents, failure};
use crate::copy::draft::{self, exists};
use crate::copy::local::LocalPlace;
use crate::copy::partial;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use thalweg_base::sync::Mutex;
use thalweg_trace::{SpanFields, SpanId, SpanKind, Tracer};
use thalweg_wire::protocol::metadata::NewNode;
use thalweg_wire::{Error, ErrorKind, Result};

/// The destination directory.
pub(super) struct LocalTarget<'a> {
    context: Context<'a>,
    path: &'a Path,
    root: OnceLock<OwnedFd>,
    /// Directories whose attributes are set once they are filled.
    directories: Mutex<Vec<(Vec<u8>, KeptAttributes)>>,
}

impl<'a> LocalTarget<'a> {
    pub(super) fn new(context: Context<'a>, path: &'a Path) -> LocalTarget<'a> {
        LocalTarget { context, path, root: OnceLock::new(), directories: Mutex::default() }
    }

    fn root(&self) -> BorrowedFd<'_> {
        self.root.get().expect("begun before").as_fd()
    }

    /// Makes a directory that we can write to; its own mode is set once it is filled.
    fn make_directory(&self, parents: &mut Parents<'_>, path: &[u8], kept: KeptAttributes) -> Result<()> {
        let wanted = self.context.mode_of(kept.mode);
        let (above, name) = parents.find(path)?;
        match rustix::fs::mkdirat(above, name, Mode::from_raw_mode((wanted | 0o700) & 0o777)) {
            Ok(()) => {}
            Err(Errno::EXIST) if self.context.job.force => {
                let found = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failure)?;
                if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
                    return Err(Error::new(ErrorKind::NotDirectory, "a file that is not a directory has this name"));
                }
            }
            Err(Errno::EXIST) => return Err(exists()),
            Err(e) => return Err(failure(e)),
        }
        if self.context.job.preserve || wanted & 0o700 != 0o700 {
            self.directories.lock().push((path.to_vec(), kept));
        }
        Ok(())
    }

    /// Writes a small file. With sync, the file keeps its draft name, which is returned: it is closed, so that many files can be synced
    /// together, and carries no mark, so that no other copy takes it for one left behind.
    fn write(&self, parents: &mut Parents<'_>, entry: &Entry, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        let (path, kept) = (&entry.item.path, entry.item.kept);
        let (above, name) = parents.find(path)?;
        let made = draft::make(above, name, self.context.mode_of(kept.mode))?;
        if made.beside {
            self.left_alone(path);
        }
        if let Err(error) = self.fill(&made.file, bytes, entry.data.as_deref(), kept) {
            draft::remove(above, &made.name);
            return Err(error);
        }
        draft::unmark(&made.file);
        if self.context.job.sync {
            return Ok(Some(made.name));
        }
        self.keep(parents, path, &made.name).map(|()| None)
    }

    /// Reports an unrelated `NAME.partial`.
    fn left_alone(&self, path: &[u8]) {
        self.context.observer.left_alone(&partial::path_of(path));
    }

    fn fill(&self, file: &OwnedFd, bytes: &[u8], data: Option<&[Range<u64>]>, kept: KeptAttributes) -> Result<()> {
        if data.is_some() {
            rustix::fs::ftruncate(file, bytes.len() as u64).map_err(failure)?;
        }
        let all = 0..bytes.len() as u64;
        for Range { start, end } in data.unwrap_or(std::slice::from_ref(&all)) {
            let mut at = *start;
            while at < *end {
                match rustix::io::pwrite(file, &bytes[at as usize..*end as usize], at) {
                    Ok(n) => at += n as u64,
                    Err(Errno::INTR) => {}
                    Err(e) => return Err(failure(e)),
                }
            }
        }
        self.set_attributes(file, kept)
    }

    /// Renames a complete file to its final name.
    fn keep(&self, parents: &mut Parents<'_>, path: &[u8], draft: &[u8]) -> Result<()> {
        let (above, name) = parents.find(path)?;
        let published = draft::publish(above, draft, name, self.context.job.force);
        if published.is_err() {
            draft::remove(above, draft);
        }
        published
    }

    fn make_node(&self, parents: &mut Parents<'_>, path: &[u8], node: &NewNode, kept: KeptAttributes) -> Result<()> {
        let mode = Mode::from_raw_mode(self.context.mode_of(kept.mode) & 0o777);
        let (above, name) = parents.find(path)?;
        let make = || match node {
            NewNode::Symlink(target) => rustix::fs::symlinkat(target.as_slice(), above, name),
            NewNode::Fifo => rustix::fs::mknodat(above, name, FileType::Fifo, mode, 0),
            NewNode::Socket => rustix::fs::mknodat(above, name, FileType::Socket, mode, 0),
            NewNode::CharacterDevice(number) => rustix::fs::mknodat(above, name, FileType::CharacterDevice, mode, device(*number)),
            NewNode::BlockDevice(number) => rustix::fs::mknodat(above, name, FileType::BlockDevice, mode, device(*number)),
        };
        let made = match make() {
            // A directory is never removed: only a file may be replaced.
            Err(Errno::EXIST) if self.context.job.force => {
                rustix::fs::unlinkat(above, name, AtFlags::empty()).and_then(|()| make()).map_err(failure)
            }
            Err(Errno::EXIST) => Err(exists()),
            made => made.map_err(failure),
        };
        made?;
        if self.context.job.preserve { set_node_attributes(above, name, kept, node) } else { Ok(()) }
    }

    /// Sets the preserved attributes of a file or directory.
    fn set_attributes(&self, file: &OwnedFd, kept: KeptAttributes) -> Result<()> {
        if !self.context.job.preserve {
            return Ok(());
        }
        let mode = given_away(rustix::fs::fchown(file, owner(kept).0, owner(kept).1), kept.mode)?;
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).and_then(|()| rustix::fs::futimens(file, &times(kept))).map_err(failure)
    }

    /// Sets the attributes of a filled directory.
    fn finish_directory(&self, path: &[u8], kept: KeptAttributes) -> Result<()> {
        let opened = beneath::open(self.root(), path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).map_err(failure)?;
        if self.context.job.preserve {
            return self.set_attributes(&opened, kept);
        }
        rustix::fs::fchmod(&opened, Mode::from_raw_mode(self.context.mode_of(kept.mode))).map_err(failure)
    }

    /// Syncs the destination's file system.
    fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(self.root()).map_err(failure)
    }

    fn large(&self, tracer: &mut Tracer, entry: &mut Entry, source: &dyn TreeSource) -> Result<()> {
        let (above, name) = beneath::split(&entry.item.path);
        let directory = beneath::open(self.root(), above, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).map_err(failure)?;
        let kept = entry.item.kept;
        let target = LocalPlace {
            directory,
            name,
            path: self.path.join(OsStr::from_bytes(&entry.item.path)),
            mode: self.context.mode_of(kept.mode),
            finish: &|file: &File| {
                file.try_clone().map_err(|e| Error::system("", e)).and_then(|file| self.set_attributes(&file.into(), kept))
            },
            left_alone: &|| self.left_alone(&entry.item.path),
        };
        let from = source.large(tracer, &entry.item)?;
        let moved = whole::move_all(self.context, tracer, from, whole::Target::Local(target))?;
        (entry.modified, entry.hole_bytes, entry.damaged) = (moved.modified, moved.hole_bytes, moved.damaged);
        Ok(())
    }
}

/// Sets the preserved attributes of a newly made node through a descriptor of the node itself, so that another entry that takes its name
/// meanwhile is not affected.
fn set_node_attributes(above: BorrowedFd<'_>, name: &[u8], kept: KeptAttributes, node: &NewNode) -> Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(above, name, flags, Mode::empty()).map_err(failure)?;
    let wanted = match node {
        NewNode::Symlink(_) => FileType::Symlink,
        NewNode::Fifo => FileType::Fifo,
        NewNode::Socket => FileType::Socket,
        NewNode::CharacterDevice(_) => FileType::CharacterDevice,
        NewNode::BlockDevice(_) => FileType::BlockDevice,
    };
    if FileType::from_raw_mode(rustix::fs::fstat(&opened).map_err(failure)?.st_mode) != wanted {
        return Err(Error::new(ErrorKind::Busy, "it was replaced during the copy"));
    }
    let (uid, gid) = owner(kept);
    let mode = given_away(rustix::fs::chownat(&opened, "", uid, gid, AtFlags::EMPTY_PATH), kept.mode)?;
    if wanted != FileType::Symlink {
        // fchmod rejects an O_PATH descriptor; this path works. A link's mode is meaningless.
        let itself = format!("/proc/self/fd/{}", opened.as_raw_fd());
        rustix::fs::chmod(itself, Mode::from_raw_mode(mode)).map_err(failure)?;
    }
    rustix::fs::utimensat(&opened, "", &times(kept), AtFlags::EMPTY_PATH).map_err(failure)
}

fn owner(kept: KeptAttributes) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(kept.uid)), Some(Gid::from_raw(kept.gid)))
}

/// Returns the mode to set after a change of owner: if the owner could not be changed, drops the bits that would lend our rights.
fn given_away(changed: rustix::io::Result<()>, mode: u32) -> Result<u32> {
    match changed {
        Ok(()) => Ok(mode),
        Err(Errno::PERM) => Ok(mode & 0o777),
        Err(e) => Err(failure(e)),
    }
}

fn times(kept: KeptAttributes) -> Timestamps {
    let time = |ns: i64| Timespec { tv_sec: ns.div_euclid(1_000_000_000) as _, tv_nsec: ns.rem_euclid(1_000_000_000) as _ };
    Timestamps { last_access: time(kept.accessed_ns), last_modification: time(kept.modified_ns) }
}

/// Converts a device number from the form used in stores.
fn device(number: u32) -> u64 {
    rustix::fs::makedev(number >> 8 & 0xfff, number & 0xff | number >> 12 & !0xff)
}

impl TreeSink for LocalTarget<'_> {
    fn begin(&self, _: &mut Tracer) -> Result<()> {
        let on_it = |e: Errno| failure(e).on_file(self.path.display().to_string());
        // A link the user names is followed; a directory made here is not a link.
        let links = match rustix::fs::mkdir(self.path, Mode::from_raw_mode(0o777)) {
            Ok(()) => OFlags::NOFOLLOW,
            Err(Errno::EXIST) if self.context.job.force && self.path.is_dir() => OFlags::empty(),
            Err(Errno::EXIST) => return Err(exists().on_file(self.path.display().to_string())),
            Err(e) => return Err(on_it(e)),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | links;
        let root = rustix::fs::open(self.path, flags, Mode::empty()).map_err(on_it)?;
        self.root.get_or_init(|| root);
        Ok(())
    }

    fn put(
        &self,
        tracer: &mut Tracer,
        batch: &mut Batch,
        source: &dyn TreeSource,
        span: Option<SpanId>,
        made: &mut dyn FnMut(&mut Batch),
    ) -> Result<()> {
        let writing = tracer.begin();
        let mut parents = Parents::of(self.root());
        for entry in batch.entries.iter_mut().filter(|entry| entry.item.kind == EntryKind::Directory && entry.state == State::Found) {
            entry.state = self.make_directory(&mut parents, &entry.item.path, entry.item.kept).map_or_else(State::Failed, |()| State::Done);
        }
        made(batch);
        let mut unnamed = Vec::new();
        for (number, entry) in batch.entries.iter_mut().enumerate() {
            let done = match (&entry.item.kind, &entry.state) {
                (EntryKind::File(_), State::Loaded(range)) => self
                    .write(&mut parents, entry, &batch.memory[range.clone()])
                    .map(|draft| unnamed.extend(draft.map(|draft| (number, draft)))),
                (EntryKind::Node(node), State::Found) => self.make_node(&mut parents, &entry.item.path, node, entry.item.kept),
                _ => continue,
            };
            entry.state = done.map_or_else(State::Failed, |()| State::Done);
        }
        let about = SpanFields {
            parent: span,
            size_bytes: Some(batch.size_bytes),
            count: Some(batch.entries.len() as u32),
            ..SpanFields::default()
        };
        tracer.end(writing, SpanKind::FileWrite, about);
        let unsynced = if !unnamed.is_empty() {
            let syncing = tracer.begin();
            let synced = self.sync();
            tracer.end(syncing, SpanKind::FileSync, SpanFields { parent: span, ..SpanFields::default() });
            synced.err()
        } else {
            self.context.check().err()
        };
        for (number, draft) in unnamed {
            let entry = &mut batch.entries[number];
            let kept = match &unsynced {
                None => self.keep(&mut parents, &entry.item.path, &draft),
                Some(error) => {
                    if let Ok((above, _)) = parents.find(&entry.item.path) {
                        draft::remove(above, &draft);
                    }
                    Err(error.clone())
                }
            };
            entry.state = kept.map_or_else(State::Failed, |()| State::Done);
        }
        if let Some(error) = unsynced {
            return Err(error.on_file(self.path.display().to_string()));
        }
        for entry in batch.entries.iter_mut().filter(|entry| entry.is_large()) {
            entry.state = match self.large(tracer, entry, source) {
                Ok(()) => State::Done,
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                Err(error) => State::Failed(of_entry(error, &entry.item.path)),
            };
        }
        Ok(())
    }

    fn finish(&self, tracer: &mut Tracer, failed: &mut dyn FnMut(&[u8], &Error)) -> Result<()> {
        // Children first: a parent's final mode may deny access.
        let mut directories = std::mem::take(&mut *self.directories.lock());
        directories.sort_by(|(a, _), (b, _)| b.cmp(a));
        for (path, kept) in directories {
            let done = self.finish_directory(&path, kept);
            if let Err(error) = done {
                failed(&path, &error);
            }
        }
        if self.context.job.sync {
            let syncing = tracer.begin();
            self.sync().map_err(|e| e.on_file(self.path.display().to_string()))?;
            tracer.end(syncing, SpanKind::FileSync, SpanFields::default());
        }
        Ok(())
    }

    fn name(&self) -> String {
        shown(self.path.as_os_str().as_bytes())
    }
}
