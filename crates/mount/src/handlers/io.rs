//! Read, write, flush, sync, allocate.
//!
//! **Close to open.** When a file is opened, the service is asked for its change counter: if it is the one that what is kept (by
//! the kernel, and here) is of, that is kept, else forgotten. When it is closed, everything is written, and the service is told,
//! which counts one up.

use crate::errors::{Answered, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::inodes::revalidation::{self as found, Meant};
use crate::fuse::{abi, reply};
use crate::inodes::shared_file::{Handle, Shared, Unused};
use crate::inodes::table::Node;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use thalweg_store::metadata::client::OpenFile;
use thalweg_store::protocol::io::{Allocate, Seek};
use thalweg_store::protocol::metadata::{Attributes, FileId, Place, SetAttributes};
use thalweg_store::{Error, ErrorKind, limits};
use thalweg_trace::Tracer;

/// All open files.
#[derive(Default)]
pub struct Handles {
    open: RwLock<HashMap<u64, Arc<Handle>>>,
    next: AtomicU64,
}

impl Handles {
    fn add(&self, handle: Handle) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(handle));
        number
    }

    /// The open file of this number.
    ///
    /// # Errors
    /// EBADF: there is none.
    pub fn get(&self, number: u64) -> Answered<Arc<Handle>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned().ok_or(Refusal::plain(libc::EBADF))
    }

    fn remove(&self, number: u64) -> Option<Arc<Handle>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Handle>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

impl FileSystem {
    /// Opens a file, and empties it if it is asked to.
    pub fn open(&self, w: &mut Worker, node: u64, flags: u32, open_flags: u32) -> Answered<Answer> {
        let node = self.node(node)?;
        let drop_privileges = open_flags & abi::OPEN_KILL_SUIDGID != 0;
        let meant = self.retries.comes(w.thread, node.id);
        let (handle, open_flags) = self.opened(w, &node, flags, meant)?;
        if drop_privileges {
            // The file is open and empty already: at worst it keeps the bits until somebody writes.
            let dropped = self.drop_privileges(&mut w.tracer, &node);
            dropped.unwrap_or_else(|refusal| self.log_refusal("privileges", &refusal));
        }
        reply::opened(&mut w.out, handle, open_flags);
        Ok(Answer::Out)
    }

    /// The same, where it may be known what is meant: its handle, and how it behaves.
    pub fn opened(&self, w: &mut Worker, node: &Arc<Node>, flags: u32, meant: Option<Meant>) -> Answered<(u64, u32)> {
        let (writes, truncates) = (flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32, flags & libc::O_TRUNC as u32 != 0);
        let (shared, mut attributes) = match node.shared() {
            Some(shared) => {
                let attributes =
                    self.as_meant(w, node, meant, |tracer, place| self.names.stat(tracer, place), |attributes| attributes.id)?;
                (shared, attributes)
            }
            None => {
                // One that is emptied first is not to be written meanwhile: so its size is known all the time.
                let open = |tracer: &mut Tracer, place: &Place| self.names.open(tracer, place, writes && !truncates).map(Unused::new);
                let opened = self.as_meant(w, node, meant, open, |opened| opened.attributes().id)?;
                let attributes = opened.attributes().clone();
                if attributes.links == 0 {
                    // Somebody else has it open still; its name is another file's, or nobody's: the kernel looks it up again.
                    return Err(Refusal::plain(libc::ESTALE));
                }
                (self.share(node, opened)?, attributes)
            }
        };
        if truncates {
            self.settle(&mut w.tracer, node, &shared);
            self.truncate(&mut w.tracer, node, Some(&shared), 0)?;
        }
        let begun = match writes {
            true => self.begin_writing(w, node, &shared)?,
            false => None,
        };
        match begun {
            Some(now) => attributes = now,
            None if truncates => {
                attributes = self.names.stat(&mut w.tracer, &Place::of(node.id)).map_err(|e| Refusal::from(e).of_known_file())?;
            }
            None => {}
        }
        let keep = self.look_at_change(node, &shared, &attributes);
        Ok(self.handle(node, shared, flags, keep))
    }

    fn begin_writing(&self, w: &mut Worker, node: &Node, shared: &Shared) -> Answered<Option<Attributes>> {
        shared.begin_writing(|| self.names.open_by_id(&mut w.tracer, node.id, true)).map_err(|e| Refusal::from(e).of_known_file())
    }

    /// Checks that a file is what the program means (see [`crate::inodes::revalidation`]).
    ///
    /// # Errors
    /// ESTALE: the kernel looks its name up again.
    pub fn check_found(&self, w: &mut Worker, node: &Node) -> Answered<()> {
        let meant = self.retries.comes(w.thread, node.id);
        self.as_meant(w, node, meant, |tracer, place| self.names.stat(tracer, place), |attributes| attributes.id).map(drop)
    }

    /// Asks the service something of a file by the names that it may have been meant by.
    fn as_meant<T>(
        &self,
        w: &mut Worker,
        node: &Node,
        meant: Option<Meant>,
        ask: impl FnOnce(&mut Tracer, &Place) -> Result<T, Error>,
        which: impl FnOnce(&T) -> FileId,
    ) -> Answered<T> {
        let mut places = match meant {
            Some(Meant::Name(place)) => vec![place],
            Some(Meant::File) => Vec::new(),
            // Names of strict mounts are looked up each time.
            None if self.options.strict => Vec::new(),
            None => node.state().names.believed(self.options.lifetime()),
        };
        let Some(last) = places.pop() else {
            return ask(&mut w.tracer, &Place::of(node.id)).map_err(|e| Refusal::from(e).of_known_file());
        };
        let stale = |told: Refusal| {
            if told.errno == libc::EIO {
                return told;
            }
            self.retries.refused(w.thread, node.id);
            // Whatever else is behind the name now, such as a directory, it is not what was found there.
            Refusal::plain(libc::ESTALE)
        };
        if places.len() >= found::NAMES_ASKED {
            return Err(stale(Refusal::plain(libc::ESTALE)));
        }
        for place in places {
            match self.names.stat(&mut w.tracer, &place) {
                Ok(attributes) if attributes.id == node.id => {}
                Ok(_) => return Err(stale(Refusal::plain(libc::ESTALE))),
                Err(error) => return Err(stale(error.into())),
            }
        }
        match ask(&mut w.tracer, &last) {
            Ok(told) if which(&told) == node.id => Ok(told),
            Ok(_) => Err(stale(Refusal::plain(libc::ESTALE))),
            Err(error) => Err(stale(Refusal::from(error).of_known_file())),
        }
    }

    /// A file that was just made, and is open at the service already.
    pub fn opened_new(&self, w: &mut Worker, node: &Arc<Node>, opened: OpenFile, flags: u32) -> Answered<(u64, u32)> {
        node.state().cached_change = Some(opened.attributes.change);
        let shared = self.share(node, Unused::new(opened))?;
        // Another program may have opened it before.
        self.begin_writing(w, node, &shared)?;
        Ok(self.handle(node, shared, flags, true))
    }

    /// What all here share of a file; of two who open it at a time, one is first.
    fn share(&self, node: &Node, opened: Unused) -> Answered<Arc<Shared>> {
        let path = self.table.path(node.id, &node.state());
        let fresh = Arc::new(Shared::new(&self.data, opened, path, (self.options.strict, self.habit.expects_sync()))?);
        let mut state = node.state();
        match state.open.upgrade() {
            Some(shared) => {
                // The second says to the service that it is closed again: not under the lock.
                drop(state);
                Ok(shared)
            }
            None => {
                state.open = Arc::downgrade(&fresh);
                Ok(fresh)
            }
        }
    }

    fn handle(&self, node: &Arc<Node>, shared: Arc<Shared>, flags: u32, keep: bool) -> (u64, u32) {
        let mut open_flags = if keep { abi::fopen::KEEP_CACHE } else { 0 };
        if self.options.strict || flags & libc::O_APPEND as u32 != 0 {
            // The kernel's copies of pages would be of another place than the bytes go to, or of another time.
            open_flags = abi::fopen::DIRECT_IO | if self.options.strict { abi::fopen::PARALLEL_DIRECT_WRITES } else { 0 };
        }
        let is_direct = open_flags & abi::fopen::DIRECT_IO != 0;
        let writes = flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32;
        (self.handles.add(Handle::new(Arc::clone(node), shared, is_direct, writes)), open_flags)
    }

    /// Compares a file's change counter with the one that everything kept is of; whether it may be kept. If not, it is forgotten.
    fn look_at_change(&self, node: &Node, shared: &Shared, attributes: &Attributes) -> bool {
        let state = node.state();
        let same = state.cached_change == Some(attributes.change);
        let told = state.told_change == Some(attributes.change);
        drop(state);
        if !same {
            self.forget_bytes(node, Some(shared), attributes.change);
        } else if !told {
            self.device.forget_cached(self.table.number(node.id), false);
        }
        same && !self.options.strict
    }

    /// Forgets everything that is kept of a file, here and in the kernel. Only then is what will be kept called that of `change`:
    /// whoever compares meanwhile must not find the old bytes under the new name.
    fn forget_bytes(&self, node: &Node, shared: Option<&Shared>, change: u64) {
        if let Some(shared) = shared {
            shared.file.forget_all();
        }
        self.device.forget_cached(self.table.number(node.id), true);
        node.state().cached_change = Some(change);
    }

    /// Forgets everything that is kept of a file, and asks whether it has changed: what taking a lock means.
    pub fn revalidate(&self, tracer: &mut Tracer, node: &Node) -> Answered<()> {
        let attributes = self.names.stat(tracer, &Place::of(node.id)).map_err(|e| Refusal::from(e).of_known_file())?;
        let same = node.state().cached_change == Some(attributes.change);
        if !same {
            self.forget_bytes(node, node.shared().as_deref(), attributes.change);
        }
        Ok(())
    }

    /// Everything that was written to a file here is at the servers, and the service knows. What was lost is noted.
    pub fn settle(&self, tracer: &mut Tracer, node: &Node, shared: &Shared) {
        let _settling = shared.settling();
        if let Err(error) = shared.file.flush(tracer) {
            self.log.line(format_args!("bytes written are lost: {error}"));
            shared.lost(&error);
        }
        let Some(end) = shared.take_untold() else { return };
        match self.names.written(tracer, node.id, end) {
            Ok(attributes) => node.changed_here(&attributes),
            // It has no name any more, and nobody to be told of its times.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Stale) => {}
            Err(error) => {
                self.log.line(format_args!("the time of a write could not be told: {error}"));
                shared.give_back_untold(end);
            }
        }
    }

    /// Reads.
    pub fn read(&self, w: &mut Worker, handle: u64, offset: u64, length: u32) -> Answered<Answer> {
        let handle = self.handles.get(handle)?;
        self.check_locks(&handle.node)?;
        Ok(Answer::View(handle.shared.read(&mut w.tracer, offset, length as usize)?))
    }

    /// Writes.
    pub fn write(&self, w: &mut Worker, handle: u64, bytes: &[u8], offset: u64, (write_flags, flags): (u32, u32)) -> Answered<Answer> {
        let handle = self.handles.get(handle)?;
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > limits::FILE_BYTES) {
            return Err(Refusal::plain(libc::EFBIG));
        }
        self.check_locks(&handle.node)?;
        if write_flags & abi::WRITE_KILL_SUIDGID != 0 {
            self.drop_privileges(&mut w.tracer, &handle.node)?;
        }
        // What the kernel writes back for a map has its own place, however the file was opened.
        let append = flags & libc::O_APPEND as u32 != 0 && write_flags & abi::WRITE_CACHE == 0;
        if append {
            self.append(w, &handle, bytes)?;
        } else {
            handle.shared.write(&mut w.tracer, bytes, offset)?;
        }
        if handle.is_direct && flags & libc::O_DSYNC as u32 != 0 {
            // The kernel sees to it only for what goes through its cache.
            self.sync_handle(&mut w.tracer, &handle, flags & libc::O_SYNC as u32 != libc::O_SYNC as u32)?;
        }
        reply::count(&mut w.out, bytes.len() as u32);
        Ok(Answer::Out)
    }

    fn append(&self, w: &mut Worker, handle: &Handle, bytes: &[u8]) -> Answered<()> {
        let shared = &handle.shared;
        self.settle(&mut w.tracer, &handle.node, shared);
        Ok(self.locks.append(&mut w.tracer, handle.node.id, |tracer| shared.append(tracer, bytes))?)
    }

    /// Set-user and set-group bits go when somebody writes who may not keep them.
    fn drop_privileges(&self, tracer: &mut Tracer, node: &Node) -> Answered<()> {
        let place = Place::of(node.id);
        let before = node.state().mode;
        if crate::handlers::attributes::without_privileges(before) == before {
            return Ok(());
        }
        let before = self.names.stat(tracer, &place)?.mode;
        let after = crate::handlers::attributes::without_privileges(before);
        if after != before {
            let set = SetAttributes { mode: Some(after), ..SetAttributes::default() };
            node.changed_here(&self.names.set_attributes(tracer, &place, &set)?);
            self.device.forget_cached(self.table.number(node.id), false);
        }
        Ok(())
    }

    /// A descriptor was closed: what was written is at the servers, and what went wrong is told. Who only read, and held no lock
    /// that others wait for, has nothing to wait for.
    pub fn flush(&self, w: &mut Worker, handle: u64, owner: u64) -> Answered<Answer> {
        let handle = self.handles.get(handle)?;
        let held = handle.node.state().lock_owners.contains(&owner);
        if handle.writes || held {
            self.settle(&mut w.tracer, &handle.node, &handle.shared);
        }
        if held {
            self.unlock_owner(w, &handle.node, owner);
        }
        if handle.writes {
            handle.shared.tell_losses(&handle.told)?;
        }
        Ok(Answer::Done)
    }

    /// The last descriptor of an open file was closed, and its last map has gone.
    pub fn release(&self, w: &mut Worker, handle: u64, flock_owner: Option<u64>) -> Answered<Answer> {
        if let Some(handle) = self.handles.remove(handle) {
            // A map outlives the descriptors: its last pages have come since they were closed.
            if handle.writes {
                self.settle(&mut w.tracer, &handle.node, &handle.shared);
                self.habit.note(handle.shared.written_bytes(), handle.shared.synced.load(Ordering::Relaxed));
            }
            let owners = std::mem::take(&mut *handle.lock_owners.lock().unwrap_or_else(PoisonError::into_inner));
            flock_owner.into_iter().chain(owners).for_each(|owner| self.unlock_owner(w, &handle.node, owner));
            drop(handle);
            self.closes.closed();
        }
        Ok(Answer::Done)
    }

    /// Puts a file's bytes on media, and its name and attributes.
    pub fn sync(&self, w: &mut Worker, handle: u64, data_only: bool) -> Answered<Answer> {
        self.sync_handle(&mut w.tracer, &*self.handles.get(handle)?, data_only)?;
        Ok(Answer::Done)
    }

    fn sync_handle(&self, tracer: &mut Tracer, handle: &Handle, data_only: bool) -> Answered<()> {
        let shared = &handle.shared;
        shared.synced.store(true, Ordering::Relaxed);
        self.settle(tracer, &handle.node, shared);
        if let Err(error) = shared.file.sync(tracer) {
            self.log.line(format_args!("sync: {error}"));
            shared.lost(&error);
        }
        shared.tell_losses(&handle.told)?;
        if !(data_only && shared.name_synced.load(Ordering::Relaxed)) {
            self.names.sync(tracer)?;
            shared.name_synced.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Puts names on media.
    pub fn sync_names(&self, w: &mut Worker) -> Answered<Answer> {
        self.names.sync(&mut w.tracer)?;
        Ok(Answer::Done)
    }

    /// Puts everything that was written here on media.
    pub fn sync_all(&self, w: &mut Worker) -> Answered<Answer> {
        let mut all = Ok(());
        for handle in self.handles.all() {
            self.settle(&mut w.tracer, &handle.node, &handle.shared);
            if let Err(error) = handle.shared.file.sync(&mut w.tracer) {
                handle.shared.lost(&error);
                all = all.and(Err(Refusal::from(error)));
            }
        }
        self.names.sync(&mut w.tracer)?;
        all.map(|()| Answer::Done)
    }

    /// Gives a range space, takes it away, or clears it.
    pub fn allocate(&self, w: &mut Worker, handle: u64, offset: u64, length: u64, mode: u32) -> Answered<Answer> {
        const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
        const ZERO_KEEP: i32 = libc::FALLOC_FL_ZERO_RANGE | KEEP;
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
        let how = match mode as i32 {
            0 => Allocate::Extend,
            KEEP => Allocate::KeepSize,
            PUNCH => Allocate::PunchHole,
            libc::FALLOC_FL_ZERO_RANGE => Allocate::ZeroRange,
            ZERO_KEEP => Allocate::ZeroRangeKeepSize,
            _ => return Err(Refusal::plain(libc::EOPNOTSUPP)),
        };
        let handle = self.handles.get(handle)?;
        let shared = &handle.shared;
        self.settle(&mut w.tracer, &handle.node, shared);
        let done = shared.file.allocate(&mut w.tracer, offset, length, how);
        shared.was_written(offset.saturating_add(length));
        done?;
        Ok(Answer::Done)
    }

    /// The next data, or the next hole.
    pub fn seek(&self, w: &mut Worker, handle: u64, offset: u64, whence: u32) -> Answered<Answer> {
        let what = match whence as i32 {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return Err(Refusal::plain(libc::EINVAL)),
        };
        let handle = self.handles.get(handle)?;
        self.settle(&mut w.tracer, &handle.node, &handle.shared);
        match handle.shared.file.seek(&mut w.tracer, offset, what)? {
            Some(found) => {
                reply::offset(&mut w.out, found);
                Ok(Answer::Out)
            }
            None => Err(Refusal::plain(libc::ENXIO)),
        }
    }
}
