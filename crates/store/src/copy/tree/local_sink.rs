//! A tree of this machine as a target.
//!
//! Everything is made from the target's own descriptor, by the path below it, and nothing through a symbolic link: a link that the tree itself
//! brings, or that was there, is never followed.

use super::batch::{Batch, Entry, Kept, State, What, partial, shown};
use super::workers::of_entry;
use super::{Context, TreeSink, TreeSource, whole};
use crate::copy::local::LocalSink;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::metadata::NewNode;
use crate::sync::locked;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use thalweg_trace::{About, SpanId, SpanKind, Tracer};

/// A directory to be made, and filled.
pub(super) struct LocalTarget<'a> {
    context: Context<'a>,
    path: &'a Path,
    root: OnceLock<OwnedFd>,
    /// Directories that get their attributes when they are full.
    directories: Mutex<Vec<(Vec<u8>, Kept)>>,
}

fn failure(error: Errno) -> Error {
    let problem = Error::system("", error);
    Error::new(problem.kind(), problem.message().trim_start_matches(": ").to_owned())
}

fn exists() -> Error {
    Error::new(ErrorKind::Exists, "exists already: use --force to replace it")
}

impl<'a> LocalTarget<'a> {
    pub fn new(context: Context<'a>, path: &'a Path) -> LocalTarget<'a> {
        LocalTarget { context, path, root: OnceLock::new(), directories: Mutex::default() }
    }

    fn root(&self) -> BorrowedFd<'_> {
        self.root.get().expect("begun before").as_fd()
    }

    /// Makes a directory that we can fill; it gets its own mode when it is full.
    fn make_directory(&self, path: &[u8], kept: Kept) -> Result<()> {
        let wanted = self.context.mode_of(kept.mode);
        match rustix::fs::mkdirat(self.root(), path, Mode::from_raw_mode((wanted | 0o700) & 0o777)) {
            Ok(()) => {}
            Err(Errno::EXIST) if self.context.job.force => {
                let found = rustix::fs::statat(self.root(), path, AtFlags::SYMLINK_NOFOLLOW).map_err(failure)?;
                if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
                    return Err(Error::new(ErrorKind::NotDirectory, "something else has the name of this directory"));
                }
            }
            Err(Errno::EXIST) => return Err(exists()),
            Err(e) => return Err(failure(e)),
        }
        if self.context.job.preserve || wanted & 0o700 != 0o700 {
            locked(&self.directories).push((path.to_vec(), kept));
        }
        Ok(())
    }

    /// Makes a small file under its `.partial` name. `false`: it has its own already.
    fn write(&self, entry: &Entry, bytes: &[u8]) -> Result<bool> {
        let (path, kept) = (&entry.item.path, entry.item.kept);
        let partial = partial(path);
        let mode = self.context.mode_of(kept.mode);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = match rustix::fs::openat(self.root(), partial.as_slice(), flags, Mode::from_raw_mode(mode & 0o777)) {
            Ok(file) => file,
            // Left by a copy that was killed, or of one that is under way: who looks at its lock.
            Err(Errno::EXIST) => return self.write_slowly(entry, bytes).map(|()| false),
            Err(e) => return Err(failure(e)),
        };
        let written = self.fill(&file, bytes, kept);
        if written.is_err() {
            let _ = rustix::fs::unlinkat(self.root(), partial.as_slice(), AtFlags::empty());
        }
        written.map(|()| true)
    }

    fn fill(&self, file: &OwnedFd, bytes: &[u8], kept: Kept) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::write(file, rest) {
                Ok(n) => rest = &rest[n..],
                Err(Errno::INTR) => {}
                Err(e) => return Err(failure(e)),
            }
        }
        if self.context.job.preserve {
            let mode = given_away(rustix::fs::fchown(file, owner(kept).0, owner(kept).1), kept.mode)?;
            rustix::fs::fchmod(file, Mode::from_raw_mode(mode)).and_then(|()| rustix::fs::futimens(file, &times(kept))).map_err(failure)?;
        }
        Ok(())
    }

    /// The same beside what is there under the `.partial` name, and under its own name when it returns.
    fn write_slowly(&self, entry: &Entry, bytes: &[u8]) -> Result<()> {
        use crate::client::flow::Sink;
        let path = self.path.join(OsStr::from_bytes(&entry.item.path));
        let mode = self.context.mode_of(entry.item.kept.mode);
        let written = LocalSink::create(&path, Some(bytes.len() as u64), mode, self.context.job.force).and_then(|mut sink| {
            sink.write(bytes, 0)?;
            sink.keep(self.context.job.sync, bytes.len() as u64)
        });
        written.map_err(|e| of_entry(e, &entry.item.path))?;
        self.set_attributes(&entry.item.path, entry.item.kept, false)
    }

    /// Gives a whole file its name.
    fn keep(&self, path: &[u8]) -> Result<()> {
        let partial = partial(path);
        let done = match self.context.job.force {
            true => rustix::fs::renameat(self.root(), partial.as_slice(), self.root(), path),
            false => match rustix::fs::renameat_with(self.root(), partial.as_slice(), self.root(), path, RenameFlags::NOREPLACE) {
                // Not every file system can.
                Err(Errno::INVAL) => match rustix::fs::statat(self.root(), path, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => rustix::fs::renameat(self.root(), partial.as_slice(), self.root(), path),
                    Err(e) => Err(e),
                    Ok(_) => Err(Errno::EXIST),
                },
                done => done,
            },
        };
        let error = match done {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => exists(),
            Err(e) => failure(e),
        };
        let _ = rustix::fs::unlinkat(self.root(), partial.as_slice(), AtFlags::empty());
        Err(error)
    }

    fn make_node(&self, path: &[u8], node: &NewNode, kept: Kept) -> Result<()> {
        let mode = Mode::from_raw_mode(self.context.mode_of(kept.mode) & 0o777);
        let make = || match node {
            NewNode::Symlink(target) => rustix::fs::symlinkat(target.as_slice(), self.root(), path),
            NewNode::Fifo => rustix::fs::mknodat(self.root(), path, FileType::Fifo, mode, 0),
            NewNode::Socket => rustix::fs::mknodat(self.root(), path, FileType::Socket, mode, 0),
            NewNode::CharacterDevice(number) => rustix::fs::mknodat(self.root(), path, FileType::CharacterDevice, mode, device(*number)),
            NewNode::BlockDevice(number) => rustix::fs::mknodat(self.root(), path, FileType::BlockDevice, mode, device(*number)),
        };
        let made = match make() {
            // A directory stays: removing a file is all that may be done to make room.
            Err(Errno::EXIST) if self.context.job.force => {
                rustix::fs::unlinkat(self.root(), path, AtFlags::empty()).and_then(|()| make()).map_err(failure)
            }
            Err(Errno::EXIST) => Err(exists()),
            made => made.map_err(failure),
        };
        made?;
        if self.context.job.preserve { self.set_attributes(path, kept, matches!(node, NewNode::Symlink(_))) } else { Ok(()) }
    }

    /// Sets what is to be kept, by name.
    fn set_attributes(&self, path: &[u8], kept: Kept, is_link: bool) -> Result<()> {
        if !self.context.job.preserve {
            return Ok(());
        }
        // The tree's own directory has no name below itself.
        let path = if path.is_empty() { b"." } else { path };
        let (uid, gid) = owner(kept);
        let changed = rustix::fs::chownat(self.root(), path, uid, gid, AtFlags::SYMLINK_NOFOLLOW);
        let mode = given_away(changed, kept.mode)?;
        if !is_link {
            rustix::fs::chmodat(self.root(), path, Mode::from_raw_mode(mode), AtFlags::empty()).map_err(failure)?;
        }
        rustix::fs::utimensat(self.root(), path, &times(kept), AtFlags::SYMLINK_NOFOLLOW).map_err(failure)
    }

    /// Puts everything on media that was written to this file system.
    fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(self.root()).map_err(failure)
    }

    fn large(&self, tracer: &mut Tracer, entry: &mut Entry, source: &dyn TreeSource) -> Result<()> {
        let path = self.path.join(OsStr::from_bytes(&entry.item.path));
        let target = whole::Target::Local(&path, self.context.mode_of(entry.item.kept.mode));
        let from = source.large(tracer, &entry.item)?;
        entry.modified = whole::move_all(self.context, tracer, from, target)?;
        self.set_attributes(&entry.item.path, entry.item.kept, false)
    }
}

fn owner(kept: Kept) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(kept.uid)), Some(Gid::from_raw(kept.gid)))
}

/// The mode to set after the owner was to be changed: who may not give a file away keeps it, without the bits that would lend its owner's rights.
fn given_away(changed: rustix::io::Result<()>, mode: u32) -> Result<u32> {
    match changed {
        Ok(()) => Ok(mode),
        Err(Errno::PERM) => Ok(mode & 0o777),
        Err(e) => Err(failure(e)),
    }
}

fn times(kept: Kept) -> Timestamps {
    let time = |ns: i64| Timespec { tv_sec: ns.div_euclid(1_000_000_000) as _, tv_nsec: ns.rem_euclid(1_000_000_000) as _ };
    Timestamps { last_access: time(kept.accessed_ns), last_modification: time(kept.modified_ns) }
}

/// A device's number from the form that stores keep.
fn device(number: u32) -> u64 {
    rustix::fs::makedev(number >> 8 & 0xfff, number & 0xff | number >> 12 & !0xff)
}

impl TreeSink for LocalTarget<'_> {
    fn begin(&self, _: &mut Tracer) -> Result<()> {
        let on_it = |e: Errno| failure(e).on_file(self.path.display().to_string());
        match rustix::fs::mkdir(self.path, Mode::from_raw_mode(0o777)) {
            Ok(()) => {}
            Err(Errno::EXIST) if self.context.job.force && self.path.is_dir() => {}
            Err(Errno::EXIST) => return Err(exists().on_file(self.path.display().to_string())),
            Err(e) => return Err(on_it(e)),
        }
        let root = rustix::fs::open(self.path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(on_it)?;
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
        for entry in batch.entries.iter_mut().filter(|entry| entry.item.what == What::Directory && entry.state == State::Found) {
            entry.state = self.make_directory(&entry.item.path, entry.item.kept).map_or_else(State::Failed, |()| State::Done);
        }
        made(batch);
        let mut unnamed = Vec::new();
        for (number, entry) in batch.entries.iter_mut().enumerate() {
            let done = match (&entry.item.what, &entry.state) {
                (What::File(_), State::Loaded(range)) => self.write(entry, &batch.memory[range.clone()]).map(|is_partial| {
                    if is_partial {
                        unnamed.push(number);
                    }
                }),
                (What::Node(node), State::Found) => self.make_node(&entry.item.path, node, entry.item.kept),
                _ => continue,
            };
            entry.state = done.map_or_else(State::Failed, |()| State::Done);
        }
        let about = About { parent: span, size_bytes: Some(batch.size_bytes), count: Some(batch.entries.len() as u32), ..About::default() };
        tracer.end(writing, SpanKind::FileWrite, about);
        let unsynced = if self.context.job.sync && !unnamed.is_empty() {
            let syncing = tracer.begin();
            let synced = self.sync();
            tracer.end(syncing, SpanKind::FileSync, About { parent: span, ..About::default() });
            synced.err()
        } else {
            self.context.check().err()
        };
        for number in unnamed {
            let entry = &mut batch.entries[number];
            let kept = match &unsynced {
                None => self.keep(&entry.item.path),
                Some(error) => {
                    let _ = rustix::fs::unlinkat(self.root(), partial(&entry.item.path).as_slice(), AtFlags::empty());
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
        // What is below comes first: its parent may not let us in any more.
        let mut directories = std::mem::take(&mut *locked(&self.directories));
        directories.sort_by(|(a, _), (b, _)| b.cmp(a));
        for (path, kept) in directories {
            let done = if self.context.job.preserve {
                self.set_attributes(&path, kept, false)
            } else {
                let mode = Mode::from_raw_mode(self.context.mode_of(kept.mode));
                rustix::fs::chmodat(self.root(), path.as_slice(), mode, AtFlags::empty()).map_err(failure)
            };
            if let Err(error) = done {
                failed(&path, &error);
            }
        }
        if self.context.job.sync {
            let syncing = tracer.begin();
            self.sync().map_err(|e| e.on_file(self.path.display().to_string()))?;
            tracer.end(syncing, SpanKind::FileSync, About::default());
        }
        Ok(())
    }

    fn name(&self) -> String {
        shown(self.path.as_os_str().as_bytes())
    }
}
