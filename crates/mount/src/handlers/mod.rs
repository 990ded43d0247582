//! Dispatches requests to handlers.
//!
//! Each file implements some operations on [`FileSystem`].

mod attributes;
mod coherence;
mod copy_range;
mod extended_attributes;
mod io;
mod locks;
mod lookup;
mod lots;
mod names;
mod open;
mod readdir;
mod statfs;

use crate::errors::HandlerResult;
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::interrupts::InFlight;
use crate::fuse::reply;
use crate::fuse::request::{Header, Operation};
use crate::inodes::local_changes::Touched;
use std::time::Instant;
use thalweg_client::wire::Operation as OneOperation;

/// Resources that an answer grants to the kernel, which later returns them (FORGET, RELEASE, RELEASEDIR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grants {
    /// Nothing, or (a page of a directory) not worth tracking.
    Nothing,
    /// A lookup of a file.
    Entry,
    /// An open file.
    Open,
    /// A lookup and an open file.
    EntryAndOpen,
    /// An open directory.
    OpenDirectory,
}

impl Grants {
    /// Returns what the answer to this operation grants.
    pub(crate) fn by(operation: &Operation<'_>) -> Grants {
        use Operation as O;
        match operation {
            O::Lookup { .. } | O::MakeNode { .. } | O::MakeDirectory { .. } | O::Symlink { .. } | O::Link { .. } => Grants::Entry,
            O::Create { .. } => Grants::EntryAndOpen,
            O::Open { .. } => Grants::Open,
            O::OpenDirectory => Grants::OpenDirectory,
            _ => Grants::Nothing,
        }
    }
}

/// Whether the operation is on a name in a directory: in a removed directory, no name exists.
fn is_of_name(operation: &Operation<'_>) -> bool {
    use Operation as O;
    match operation {
        O::Lookup { .. }
        | O::Symlink { .. }
        | O::MakeNode { .. }
        | O::MakeDirectory { .. }
        | O::Unlink { .. }
        | O::RemoveDirectory { .. }
        | O::Rename { .. }
        | O::Link { .. }
        | O::Create { .. }
        | O::ReadDirectory { .. } => true,
        O::Forget { .. }
        | O::GetAttributes { .. }
        | O::SetAttributes(_)
        | O::ReadLink
        | O::Open { .. }
        | O::Read { .. }
        | O::Write { .. }
        | O::Flush { .. }
        | O::Release { .. }
        | O::Sync { .. }
        | O::Allocate { .. }
        | O::Seek { .. }
        | O::CopyRange(_)
        | O::OpenDirectory
        | O::ReleaseDirectory { .. }
        | O::SyncDirectory
        | O::SyncFileSystem
        | O::Statfs
        | O::SetExtended { .. }
        | O::GetExtended { .. }
        | O::ListExtended { .. }
        | O::RemoveExtended { .. }
        | O::TestLock(_)
        | O::Lock(_)
        | O::Interrupt { .. }
        | O::Init { .. }
        | O::Destroy => false,
    }
}

impl FileSystem {
    /// Takes back what an answer grants (encoded in the worker's `out`) because the kernel did not accept it.
    pub(crate) fn take_back(&self, w: &mut Worker, inode: u64, grants: Grants) {
        let number = |at: usize| w.out.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes);
        let (entry, handle) = match grants {
            Grants::Nothing => (None, None),
            Grants::Entry => (Some(number(0)), None),
            Grants::Open | Grants::OpenDirectory => (None, Some(number(0))),
            Grants::EntryAndOpen => (Some(number(0)), Some(number(reply::ENTRY_BYTES))),
        };
        match handle {
            Some(handle) if grants == Grants::OpenDirectory => drop(self.release_directory(inode, handle)),
            Some(handle) => drop(self.release(w, handle)),
            None => {}
        }
        if let Some(entry) = entry.filter(|entry| *entry != 0) {
            self.table.forget_all(vec![(entry, 1)]);
        }
    }

    /// Serves a request. Unsupported operations were refused before.
    pub(crate) fn serve(&self, w: &mut Worker, header: &Header, asked: Operation<'_>, under_way: &InFlight) -> HandlerResult<Answer> {
        self.requests.add(header.opcode);
        let began = self.timed_out_calls.begin(header.pid);
        let operation = OneOperation::begin(began, under_way.is_abandoned());
        let touched = Touched::by(header, &asked);
        if matches!(asked, Operation::Release { .. }) {
            // The program no longer waits: another program that checks meanwhile must not get the time before the write.
            self.local_changes.note(&touched, |inode| self.table.id(inode));
        }
        let of_name = is_of_name(&asked);
        let answer = self.answer(w, header, asked, under_way);
        let answer = answer.map_err(|refusal| if of_name { refusal.of_name() } else { refusal });
        if operation.gave_up() {
            self.timed_out_calls.gave_up(header.pid, began);
        }
        if !touched.is_empty() {
            // Also on failure: a part may have been done.
            self.local_changes.note(&touched, |inode| self.table.id(inode));
        }
        self.note_directories(w, &touched);
        answer
    }

    /// Records the state of directories whose names were changed, once the changes are noted. (The kernel serialises changes of names in a
    /// directory.)
    fn note_directories(&self, w: &mut Worker, touched: &Touched<'_>) {
        let after = w.directory.take();
        for number in touched.directories() {
            let Some(inode) = self.table.get(number) else { continue };
            match &after {
                Some(after) if after.directory == inode.id => {
                    inode.directory_changed_here(after.attributes.clone(), after.name.as_deref(), w.began);
                }
                _ => inode.directory_changed_here(None, None, w.began),
            }
        }
    }

    fn answer(&self, w: &mut Worker, header: &Header, operation: Operation<'_>, under_way: &InFlight) -> HandlerResult<Answer> {
        use Operation as O;
        w.out.clear();
        w.thread = header.pid;
        w.began = Instant::now();
        w.directory = None;
        let inode = header.node;
        match operation {
            O::Lookup { name } => self.lookup(w, inode, name),
            O::Forget { nodes } => {
                self.table.forget_all(nodes);
                Ok(Answer::Nothing)
            }
            O::GetAttributes { handle } => self.get_attributes(w, inode, handle),
            O::SetAttributes(set) => self.set_attributes(w, header, &set),
            O::ReadLink => self.read_link(w, inode),
            O::Symlink { name, target } => self.make_symlink(w, header, name, target),
            O::MakeNode { name, mode, device } => self.make_node(w, header, name, mode, device),
            O::MakeDirectory { name, mode } => self.make_directory(w, header, name, mode),
            O::Unlink { name } => self.unlink(w, inode, name),
            O::RemoveDirectory { name } => self.remove_directory(w, inode, name),
            O::Rename { name, to, to_name, flags } => self.rename(w, (inode, name), (to, to_name), flags),
            O::Link { file, name } => self.link(w, file, inode, name),
            O::Open { flags, open_flags } => self.open(w, inode, flags, open_flags),
            O::Create { name, flags, mode } => self.create(w, header, name, flags, mode),
            O::Read { handle, offset, length } => self.read(w, handle, offset, length),
            O::Write { handle, offset, bytes, write_flags, flags } => self.write(w, handle, bytes, offset, (write_flags, flags)),
            O::Flush { handle, owner } => self.flush(w, handle, owner),
            O::Release { handle } => self.release(w, handle),
            O::Sync { handle, data_only } => self.sync(w, handle, data_only),
            O::Allocate { handle, offset, length, mode } => self.allocate(w, handle, offset, length, mode),
            O::Seek { handle, offset, whence } => self.seek(w, handle, offset, whence),
            O::CopyRange(asked) => self.copy_range(w, &asked),
            O::OpenDirectory => self.open_directory(w, inode),
            O::ReadDirectory { handle, offset, length, plus } => self.read_directory(w, inode, handle, offset, (length as usize, plus)),
            O::ReleaseDirectory { handle } => self.release_directory(inode, handle),
            O::SyncDirectory => self.sync_names(w),
            O::SyncFileSystem => self.sync_all(w),
            O::Statfs => self.statfs(w, inode),
            O::SetExtended { name, value, flags } => self.set_extended(w, inode, name, value, flags),
            O::GetExtended { name, room } => self.get_extended(w, inode, name, room),
            O::ListExtended { room } => self.list_extended(w, inode, room),
            O::RemoveExtended { name } => self.remove_extended(w, inode, name),
            O::TestLock(asked) => self.test_lock(w, inode, &asked),
            O::Lock(asked) => self.lock(w, inode, &asked, under_way),
            O::Interrupt { .. } | O::Init { .. } | O::Destroy => Ok(Answer::Nothing),
        }
    }
}
