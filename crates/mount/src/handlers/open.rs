//! Open, flush (`close`) and release.

use crate::errors::{HandlerResult, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::{abi, reply};
use crate::handles::files::Handle;
use crate::inodes::inode::Inode;
use crate::inodes::revalidation::OpenTarget;
use crate::inodes::shared_file::{OpenAtService, SharedFile};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_client::metadata::OpenFile;
use thalweg_client::wire::protocol::metadata::{Attributes, FilePath};
use thalweg_trace::Tracer;

impl FileSystem {
    /// Opens a file, and truncates it if requested.
    pub(crate) fn open(&self, w: &mut Worker, inode: u64, flags: u32, open_flags: u32) -> HandlerResult<Answer> {
        let inode = self.inode(inode)?;
        let drop_privileges = open_flags & abi::OPEN_KILL_SUIDGID != 0;
        let meant = self.retries.resume(w.thread, inode.id);
        let (handle, open_flags) = self.opened(w, &inode, flags, meant)?;
        if drop_privileges {
            // The file is already open and empty: at worst it keeps the bits until the next write.
            let dropped = self.drop_privileges(&mut w.tracer, &inode);
            dropped.unwrap_or_else(|refusal| self.log_refusal("privileges", &refusal));
        }
        reply::opened(&mut w.out, handle, open_flags);
        Ok(Answer::Out)
    }

    /// Opens a file, given what the program means if that is known; returns the handle and the FOPEN flags.
    pub(crate) fn opened(&self, w: &mut Worker, inode: &Arc<Inode>, flags: u32, meant: Option<OpenTarget>) -> HandlerResult<(u64, u32)> {
        let (writes, truncates) = (flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32, flags & libc::O_TRUNC as u32 != 0);
        self.report_kept_losses(&mut w.tracer, inode)?;
        let (shared, mut attributes) = match inode.shared() {
            Some(shared) => {
                let attributes =
                    self.ask_by_name(w, inode, meant, |tracer, place| self.names.stat(tracer, place), |attributes| attributes.id)?;
                shared.file.heard(&attributes);
                (shared, attributes)
            }
            None => {
                // Nobody may write the file before its truncation, so that its size stays known.
                let open =
                    |tracer: &mut Tracer, place: &FilePath| self.names.open(tracer, place, writes && !truncates).map(OpenAtService::new);
                let opened = self.ask_by_name(w, inode, meant, open, |opened| opened.attributes().id)?;
                let attributes = opened.attributes().clone();
                if attributes.links == 0 {
                    // Another client still has it open, but its name is gone or another file's: the kernel looks it up again.
                    return Err(Refusal::plain(libc::ESTALE));
                }
                (self.share(inode, opened)?, attributes)
            }
        };
        if truncates {
            self.write_back(&mut w.tracer, inode, &shared);
            self.truncate(&mut w.tracer, inode, Some(&shared), 0)?;
        }
        let begun = match writes {
            true => self.begin_writing(w, inode, &shared)?,
            false => None,
        };
        match begun {
            Some(now) => attributes = now,
            None if truncates => {
                attributes = self.names.stat(&mut w.tracer, &FilePath::of(inode.id)).map_err(|e| Refusal::from(e).of_known_file())?;
            }
            None => {}
        }
        let keep = self.revalidate_on_open(&mut w.tracer, inode, &shared, &attributes);
        Ok(self.handle(inode, shared, flags, keep))
    }

    fn begin_writing(&self, w: &mut Worker, inode: &Inode, shared: &SharedFile) -> HandlerResult<Option<Attributes>> {
        shared.begin_writing(|| self.names.open_by_id(&mut w.tracer, inode.id, true)).map_err(|e| Refusal::from(e).of_known_file())
    }

    /// Opens a file that was just created and is already open at the service.
    pub(crate) fn opened_new(&self, w: &mut Worker, inode: &Arc<Inode>, opened: OpenFile, flags: u32) -> HandlerResult<(u64, u32)> {
        inode.state().data_change = Some(opened.attributes.change);
        let shared = self.share(inode, OpenAtService::new(opened))?;
        // Another program may have opened it before.
        self.begin_writing(w, inode, &shared)?;
        Ok(self.handle(inode, shared, flags, true))
    }

    /// Returns the state shared by all open files of an inode; the first of concurrent opens creates it.
    fn share(&self, inode: &Inode, opened: OpenAtService) -> HandlerResult<Arc<SharedFile>> {
        let path = self.table.path(inode.id, &inode.state());
        let fresh = Arc::new(SharedFile::new(&self.data, opened, path, (self.options.strict, self.habit.expects_sync()))?);
        let mut state = inode.state();
        match state.open.upgrade() {
            Some(shared) => {
                // Dropping the second one reports its close to the service: not under the lock.
                drop(state);
                Ok(shared)
            }
            None => {
                state.open = Arc::downgrade(&fresh);
                Ok(fresh)
            }
        }
    }

    fn handle(&self, inode: &Arc<Inode>, shared: Arc<SharedFile>, flags: u32, keep: bool) -> (u64, u32) {
        let mut open_flags = if keep { abi::fopen::KEEP_CACHE } else { 0 };
        if flags & libc::O_ACCMODE as u32 == libc::O_WRONLY as u32 && !shared.may_be_mapped() {
            // Nobody reads or maps through it, and caching its bytes in the kernel would cost more than the rest of a write. (Beside a
            // mapping, the kernel would write back and drop pages on each write.)
            open_flags |= abi::fopen::DIRECT_IO;
        }
        if self.options.strict || flags & libc::O_APPEND as u32 != 0 {
            // The kernel's cached pages would be of another offset or time.
            open_flags = abi::fopen::DIRECT_IO | if self.options.strict { abi::fopen::PARALLEL_DIRECT_WRITES } else { 0 };
        }
        if shared.file.has_lost() {
            // Cached lost bytes are only for those who had the file open when they were lost.
            open_flags |= abi::fopen::DIRECT_IO | abi::fopen::KEEP_CACHE;
        }
        let is_direct = open_flags & abi::fopen::DIRECT_IO != 0;
        (self.handles.add(Handle::new(Arc::clone(inode), shared, is_direct, flags)), open_flags)
    }

    /// Handles the close of a descriptor: written data is at the servers, and a loss is reported, even if reported before. A program that
    /// only read and holds no contended lock need not wait.
    pub(crate) fn flush(&self, w: &mut Worker, handle: u64, owner: u64) -> HandlerResult<Answer> {
        let handle = self.handles.get(handle)?;
        // From here on, another owner may reuse the kernel's owner number: this one may be gone before its locks are released.
        let held = handle.inode.state().lock_owners.close(owner);
        if held.is_some() {
            // Writes of a killed program under its lock must complete before the next lock owner starts.
            self.abandoned.wait();
        }
        if handle.writes || held.is_some() {
            self.write_back(&mut w.tracer, &handle.inode, &handle.shared);
        }
        if let Some(owner) = held {
            self.unlock_owner(w, &handle.inode, owner);
        }
        handle.report_at_close()?;
        Ok(Answer::Done)
    }

    /// Handles the close of an open file's last descriptor and mapping.
    pub(crate) fn release(&self, w: &mut Worker, handle: u64) -> HandlerResult<Answer> {
        if let Some(handle) = self.handles.remove(handle) {
            let through_it = std::mem::take(&mut *handle.lock_owners.lock());
            let owners = handle.inode.state().lock_owners.release(through_it);
            if !owners.is_empty() {
                self.abandoned.wait();
            }
            // A mapping outlives the descriptors: its last pages have arrived since.
            if handle.writes {
                self.write_back(&mut w.tracer, &handle.inode, &handle.shared);
                self.habit.note(handle.shared.written_bytes(), handle.shared.synced.load(Ordering::Relaxed));
            }
            owners.into_iter().for_each(|owner| self.unlock_owner(w, &handle.inode, owner));
            drop(handle);
            self.deferred_releases.note();
        }
        Ok(Answer::Done)
    }
}
