//! Which room answers which request.

use crate::handles::deferred_release::Closes;
use crate::handlers::io::Handles;
use crate::handlers::readdir::Directories;
use crate::errors::{Answered, Log, Refusal};
use crate::inodes::lookup_ahead::Following;
use crate::inodes::revalidation::Retries;
use crate::fuse::device::Device;
use crate::fuse::reply::{self, Lifetimes};
use crate::fuse::request::{Header, Operation};
use crate::fuse::interrupts::UnderWay;
use crate::inodes::shared_file::SyncHabit;
use crate::options::Options;
use crate::inodes::local_changes::{Recent, Touched};
use crate::circuit_breaker::{Calls, Silence};
use crate::inodes::table::{Node, Table};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use thalweg_store::client::walk::Walker;
use thalweg_store::client::{DataClient, View};
use thalweg_store::metadata::client::MetadataClient;
use thalweg_store::metadata::locks::client::LockClient;
use thalweg_store::protocol::metadata::Place;
use thalweg_store::wire::Operation as OneOperation;
use thalweg_trace::{Mode, Tracer};

/// A store as a file system.
pub struct FileSystem {
    /// How it is mounted.
    pub options: Options,
    /// Calls on names.
    pub names: MetadataClient,
    /// Locks and turns of programs here.
    pub locks: LockClient,
    /// Calls on bytes.
    pub data: Arc<DataClient>,
    /// What the kernel knows.
    pub table: Table,
    /// Threads that are on their way to look a name up again.
    pub retries: Retries,
    /// Open files.
    pub handles: Handles,
    /// What was closed and is not told yet.
    pub closes: Closes,
    /// Open directories.
    pub directories: Directories,
    /// What reads them.
    pub walkers: Walkers,
    /// Directories whose names are looked up in order.
    pub following: Following,
    /// What was changed here lately.
    pub recent: Recent,
    /// Servers that did not answer lately.
    pub silence: Silence,
    /// Programs' calls that have waited for them.
    pub calls: Calls,
    /// What the kernel has asked.
    pub asked: Asked,
    /// Whether programs here sync what they write.
    pub habit: SyncHabit,
    /// For telling the kernel to forget.
    pub device: Arc<Device>,
    /// For what an errno does not say.
    pub log: Log,
    /// How threads record; off unless the mount records itself.
    pub mode: Mode,
}

/// What reads directories.
pub struct Walkers {
    /// Names only.
    pub names: Walker,
    /// Names, attributes and sizes.
    pub whole: Walker,
    /// The same, less far ahead: for who asks for one file after another, and does something with each.
    pub singly: Walker,
}

/// How often the kernel has asked each kind of thing.
pub struct Asked([AtomicU64; 64]);

impl Default for Asked {
    fn default() -> Asked {
        Asked(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Asked {
    /// How often this: one of [`crate::fuse::abi::opcode`].
    pub fn count(&self, opcode: u32) -> u64 {
        self.0.get(opcode as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// How often in all, but for what needs no answer.
    pub fn all(&self) -> u64 {
        let unanswered = [crate::fuse::abi::opcode::FORGET, crate::fuse::abi::opcode::BATCH_FORGET];
        (0..self.0.len() as u32).filter(|opcode| !unanswered.contains(opcode)).map(|opcode| self.count(opcode)).sum()
    }

    fn one(&self, opcode: u32) {
        if let Some(count) = self.0.get(opcode as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What a thread that answers requests has for itself.
pub struct Worker {
    /// Its tracer.
    pub tracer: Tracer,
    /// Answers are put together here.
    pub out: Vec<u8>,
    /// The program's thread that asks now; 0 where it is not seen from here.
    pub thread: u32,
    /// When it did: what is asked of servers for it is asked later.
    pub began: Instant,
}

impl Worker {
    /// One without anything yet.
    pub fn new(tracer: Tracer) -> Worker {
        Worker { tracer, out: Vec::new(), thread: 0, began: Instant::now() }
    }
}

/// An answer.
pub enum Answer {
    /// None is expected.
    Nothing,
    /// It is done.
    Done,
    /// The worker's `out`.
    Out,
    /// Bytes of a file, where they are.
    View(View),
}

/// What an answer gives to the kernel, which gives it back one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Nothing, or (a page of a directory) what is not worth the trouble.
    Nothing,
    /// A file that it knows from then on.
    Entry,
    /// An open file.
    Open,
    /// Both.
    EntryAndOpen,
    /// An open directory.
    OpenDirectory,
}

impl Gives {
    /// What the answer to this gives.
    pub fn by(operation: &Operation<'_>) -> Gives {
        use Operation as O;
        match operation {
            O::Lookup { .. } | O::MakeNode { .. } | O::MakeDirectory { .. } | O::Symlink { .. } | O::Link { .. } => Gives::Entry,
            O::Create { .. } => Gives::EntryAndOpen,
            O::Open { .. } => Gives::Open,
            O::OpenDirectory => Gives::OpenDirectory,
            _ => Gives::Nothing,
        }
    }
}

impl FileSystem {
    /// An answer, which is in the worker's `out`, has not come: what it gives is as if it had been given back.
    pub fn take_back(&self, w: &mut Worker, node: u64, gives: Gives) {
        let number = |at: usize| w.out.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
        let (entry, handle) = match gives {
            Gives::Nothing => (None, None),
            Gives::Entry => (Some(number(0)), None),
            Gives::Open | Gives::OpenDirectory => (None, Some(number(0))),
            Gives::EntryAndOpen => (Some(number(0)), Some(number(reply::ENTRY_BYTES))),
        };
        match handle {
            Some(handle) if gives == Gives::OpenDirectory => drop(self.release_directory(node, handle)),
            Some(handle) => drop(self.release(w, handle, None)),
            None => {}
        }
        if let Some(entry) = entry.filter(|entry| *entry != 0) {
            self.table.forget_all(vec![(entry, 1)]);
        }
    }

    /// How long the kernel may rely on what it is told.
    pub fn lifetimes(&self) -> Lifetimes {
        let lifetime = self.options.lifetime();
        Lifetimes { entry: lifetime, attributes: lifetime }
    }

    /// What the kernel calls `node`.
    pub fn node(&self, node: u64) -> Answered<Arc<Node>> {
        self.table.get(node).ok_or(Refusal::plain(libc::ESTALE))
    }

    /// A name in a directory.
    pub fn place(&self, directory: u64, name: &[u8]) -> Answered<Place> {
        if name.len() > thalweg_store::limits::NAME_BYTES {
            return Err(Refusal::plain(libc::ENAMETOOLONG));
        }
        Ok(Place { from: self.table.id(directory), path: name.to_vec() })
    }

    /// The file or directory that the kernel calls `node`.
    pub fn place_of(&self, node: u64) -> Place {
        Place::of(self.table.id(node))
    }

    /// Answers a request. One that is not offered is refused before it comes here.
    pub fn serve(&self, w: &mut Worker, header: &Header, asked: Operation<'_>, under_way: &UnderWay) -> Answered<Answer> {
        self.asked.one(header.opcode);
        let began = self.calls.begin(header.pid);
        let operation = OneOperation::begin(began, under_way.is_left());
        let touched = Touched::by(header, &asked);
        if matches!(asked, Operation::Release { .. }) {
            // Its program has gone on: whoever looks meanwhile must not be told of the time before it was written.
            self.recent.note(&touched, |node| self.table.id(node));
        }
        let answer = self.answer(w, header, asked, under_way);
        if operation.gave_up() {
            self.calls.gave_up(header.pid, began);
        }
        if !touched.is_empty() {
            // Also where it failed: a part may have been done.
            self.recent.note(&touched, |node| self.table.id(node));
        }
        answer
    }

    fn answer(&self, w: &mut Worker, header: &Header, operation: Operation<'_>, under_way: &UnderWay) -> Answered<Answer> {
        use Operation as O;
        w.out.clear();
        w.thread = header.pid;
        w.began = Instant::now();
        let node = header.node;
        match operation {
            O::Lookup { name } => self.lookup(w, node, name),
            O::Forget { nodes } => {
                self.table.forget_all(nodes);
                Ok(Answer::Nothing)
            }
            O::GetAttributes { handle } => self.get_attributes(w, node, handle),
            O::SetAttributes(set) => self.set_attributes(w, header, &set),
            O::ReadLink => self.read_link(w, node),
            O::Symlink { name, target } => self.make_symlink(w, header, name, target),
            O::MakeNode { name, mode, device } => self.make_node(w, header, name, mode, device),
            O::MakeDirectory { name, mode } => self.make_directory(w, header, name, mode),
            O::Unlink { name } => self.unlink(w, node, name),
            O::RemoveDirectory { name } => self.remove_directory(w, node, name),
            O::Rename { name, to, to_name, flags } => self.rename(w, (node, name), (to, to_name), flags),
            O::Link { file, name } => self.link(w, file, node, name),
            O::Open { flags, open_flags } => self.open(w, node, flags, open_flags),
            O::Create { name, flags, mode } => self.create(w, header, name, flags, mode),
            O::Read { handle, offset, length, flags: _ } => self.read(w, handle, offset, length),
            O::Write { handle, offset, bytes, write_flags, flags } => self.write(w, handle, bytes, offset, (write_flags, flags)),
            O::Flush { handle, owner } => self.flush(w, handle, owner),
            O::Release { handle, owner } => self.release(w, handle, owner),
            O::Sync { handle, data_only } => self.sync(w, handle, data_only),
            O::Allocate { handle, offset, length, mode } => self.allocate(w, handle, offset, length, mode),
            O::Seek { handle, offset, whence } => self.seek(w, handle, offset, whence),
            O::OpenDirectory => self.open_directory(w, node),
            O::ReadDirectory { handle, offset, length, plus } => self.read_directory(w, node, handle, offset, (length as usize, plus)),
            O::ReleaseDirectory { handle } => self.release_directory(node, handle),
            O::SyncDirectory => self.sync_names(w),
            O::SyncFileSystem => self.sync_all(w),
            O::Statfs => self.statfs(w),
            O::SetExtended { name, value, flags } => self.set_extended(w, node, name, value, flags),
            O::GetExtended { name, room } => self.get_extended(w, node, name, room),
            O::ListExtended { room } => self.list_extended(w, node, room),
            O::RemoveExtended { name } => self.remove_extended(w, node, name),
            O::TestLock(asked) => self.test_lock(w, node, &asked),
            O::Lock(asked) => self.lock(w, node, &asked, under_way),
            O::Interrupt { .. } | O::Init { .. } | O::Destroy => Ok(Answer::Nothing),
        }
    }

    fn statfs(&self, w: &mut Worker) -> Answered<Answer> {
        const BLOCK_BYTES: u64 = 4096;
        let (targets, silent) = self.data.space(&mut w.tracer);
        if targets.is_empty()
            && let Some(error) = silent.into_iter().next()
        {
            return Err(error.into());
        }
        // Targets on one file system share its space.
        let mut seen: Vec<(u64, &str)> = Vec::new();
        let (mut total, mut free, mut files) = (0_u64, 0_u64, 0_u64);
        let map = self.names.map();
        for space in &targets {
            let node = map.target(space.target).map_or("", |(_, server)| server.node.as_str());
            if seen.contains(&(space.file_system, node)) {
                continue;
            }
            seen.push((space.file_system, node));
            total = total.saturating_add(space.total_bytes);
            free = free.saturating_add(space.available_bytes);
            files = files.saturating_add(space.available_files);
        }
        let blocks = |bytes: u64| bytes / BLOCK_BYTES;
        let space = reply::Space {
            block_bytes: BLOCK_BYTES as u32,
            blocks: blocks(total),
            free: blocks(free),
            available: blocks(free),
            files,
            files_free: files,
            name_bytes: thalweg_store::limits::NAME_BYTES as u32,
        };
        reply::space(&mut w.out, &space);
        Ok(Answer::Out)
    }
}
