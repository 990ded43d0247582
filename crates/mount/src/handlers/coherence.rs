//! Close-to-open coherence: whether cached data of a file, in the kernel and here, is still valid.
//!
//! On open, the service is asked for the file's change counter: if it equals that of the cached data, the cache is kept, otherwise
//! invalidated. On close, everything is written back and the service is notified, which increments the counter. Bytes are at the servers
//! before they are counted ([`crate::inodes::unreported_writes`]): a client that has the new counter can read them.
//!
//! **The kernel's size of a file** decides where a read ends. A read past it makes the kernel ask again. But if the kernel learns anything
//! about the file before the answer arrives (a program here opens it, or writes to it), it drops the answer and uses its old size: the
//! read ends too early, and an appending program overwrites other clients' data. So before a program that must see other clients' writes
//! may continue, the size is pushed to the kernel ([`crate::fuse::device::Device::grow`]). A size that is too large is harmless: reads
//! find the end.

use crate::errors::{HandlerResult, Refusal};
use crate::filesystem::{FileSystem, Worker};
use crate::inodes::dentries;
use crate::inodes::inode::Inode;
use crate::inodes::revalidation::OpenTarget;
use crate::inodes::shared_file::SharedFile;
use thalweg_client::Unreported;
use thalweg_client::wire::protocol::metadata::{Attributes, FileId, FilePath};
use thalweg_client::wire::{Error, ErrorKind, limits};
use thalweg_trace::Tracer;

impl FileSystem {
    /// Checks that a file is the one the program means (see [`crate::inodes::revalidation`]).
    ///
    /// # Errors
    /// ESTALE, on which the kernel looks the name up again.
    pub(crate) fn check_name(&self, w: &mut Worker, inode: &Inode) -> HandlerResult<()> {
        let meant = self.retries.resume(w.thread, inode.id);
        self.ask_by_name(w, inode, meant, |tracer, place| self.names.stat(tracer, place), |attributes| attributes.id).map(drop)
    }

    /// Makes a call on a file via the names the program may have used.
    pub(crate) fn ask_by_name<T>(
        &self,
        w: &mut Worker,
        inode: &Inode,
        meant: Option<OpenTarget>,
        ask: impl FnOnce(&mut Tracer, &FilePath) -> Result<T, Error>,
        which: impl FnOnce(&T) -> FileId,
    ) -> HandlerResult<T> {
        let mut places = match meant {
            Some(OpenTarget::Name(place)) => vec![place],
            Some(OpenTarget::File) => Vec::new(),
            // Strict mounts look up each name every time.
            None if self.options.strict => Vec::new(),
            None => inode.state().dentries.cached(self.options.lifetime()),
        };
        let Some(last) = places.pop() else {
            return ask(&mut w.tracer, &FilePath::of(inode.id)).map_err(|e| Refusal::from(e).of_known_file());
        };
        let stale = |refusal: Refusal| {
            // Looking the name up again would not help against these errors.
            if matches!(refusal.errno, libc::EIO | libc::EACCES | libc::EPERM) {
                return refusal;
            }
            self.retries.went_stale(w.thread, inode.id);
            // Whatever has the name now, such as a directory, is not the file found there.
            Refusal::plain(libc::ESTALE)
        };
        if places.len() >= dentries::NAMES_CHECKED {
            return Err(stale(Refusal::plain(libc::ESTALE)));
        }
        for place in places {
            match self.names.stat(&mut w.tracer, &place) {
                Ok(attributes) if attributes.id == inode.id => {}
                Ok(_) => return Err(stale(Refusal::plain(libc::ESTALE))),
                Err(error) => return Err(stale(Refusal::from(error).of_known_file())),
            }
        }
        match ask(&mut w.tracer, &last) {
            Ok(found) if which(&found) == inode.id => Ok(found),
            Ok(_) => Err(stale(Refusal::plain(libc::ESTALE))),
            Err(error) => Err(stale(Refusal::from(error).of_known_file())),
        }
    }

    /// Compares a file's change counter with that of the cached data; returns whether the cache is valid, and invalidates it otherwise.
    pub(crate) fn revalidate_on_open(&self, tracer: &mut Tracer, inode: &Inode, shared: &SharedFile, attributes: &Attributes) -> bool {
        let state = inode.state();
        let same = state.data_change == Some(attributes.change);
        let is_known = state.attr_change == Some(attributes.change);
        drop(state);
        if !same {
            self.forget_bytes(tracer, inode, Some(shared), attributes);
        } else if !is_known {
            self.device.forget_cached(self.table.number(inode.id), false);
        }
        same && !self.options.strict
    }

    /// Invalidates all cached data of a file, here and in the kernel. Only afterwards is the counter set to `change`: a concurrent
    /// comparison must not find old bytes under the new counter.
    fn forget_bytes(&self, tracer: &mut Tracer, inode: &Inode, shared: Option<&SharedFile>, attributes: &Attributes) {
        if let Some(shared) = shared {
            shared.file.forget_all();
        }
        let number = self.table.number(inode.id);
        self.device.forget_cached(number, true);
        let size_bytes = match &attributes.settled {
            Some(settled) if settled.is_exact => Ok(settled.size_bytes),
            _ => self.size_of(tracer, attributes, shared).map(|size| size.bytes),
        };
        // If a server is silent, a reader gets its error, and the next caller asks again.
        let is_known = size_bytes.is_ok_and(|size_bytes| {
            self.device.grow(number, size_bytes);
            true
        });
        inode.state().data_change = is_known.then_some(attributes.change);
    }

    /// Invalidates all cached data of a file and checks whether it has changed, for taking a lock.
    pub(crate) fn revalidate(&self, tracer: &mut Tracer, inode: &Inode) -> HandlerResult<()> {
        let attributes = self.names.stat(tracer, &FilePath::of(inode.id)).map_err(|e| Refusal::from(e).of_known_file())?;
        let same = inode.state().data_change == Some(attributes.change);
        if !same {
            self.forget_bytes(tracer, inode, inode.shared().as_deref(), &attributes);
        }
        Ok(())
    }

    /// Writes a file back: everything written here is at the servers and reported to the service. Losses are noted.
    pub(crate) fn write_back(&self, tracer: &mut Tracer, inode: &Inode, shared: &SharedFile) {
        let flush = |tracer: &mut Tracer| {
            if let Err(error) = shared.file.flush(tracer) {
                self.note_loss(inode, shared, &error);
            }
            self.report_losses(tracer, inode, shared);
        };
        let notify = |tracer: &mut Tracer, end| match self.names.written(tracer, inode.id, end) {
            Ok(attributes) => {
                inode.changed_here(&attributes);
                true
            }
            // The file was removed: there is no record to update.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Stale) => true,
            Err(error) => {
                self.log.line(format_args!("the time of a write could not be reported: {error}"));
                false
            }
        };
        shared.unreported.report(tracer, flush, notify);
    }

    /// Records the loss of acknowledged bytes.
    pub(crate) fn note_loss(&self, inode: &Inode, shared: &SharedFile, error: &Error) {
        self.log.line(format_args!("acknowledged writes were lost: {error}"));
        shared.lost(error);
        self.losses.note(inode.id);
    }

    /// Reports to the service what an open file has lost or repaired since the last report.
    pub(crate) fn report_losses(&self, tracer: &mut Tracer, inode: &Inode, shared: &SharedFile) {
        let unreported = shared.file.unreported();
        if unreported.is_empty() {
            return;
        }
        match self.report_loss(tracer, inode.id, &unreported) {
            Ok(answer) => {
                shared.file.reported(&unreported, answer.as_ref());
                if let Some(attributes) = &answer {
                    inode.changed_here(attributes);
                }
            }
            Err(error) => {
                self.log.line(format_args!("a loss could not be reported: {error}"));
                self.losses.keep(inode.id, unreported);
            }
        }
    }

    /// Reports a loss to the service; returns its answer, `None` if the file no longer exists.
    fn report_loss(&self, tracer: &mut Tracer, file: FileId, loss: &Unreported) -> Result<Option<Attributes>, Error> {
        let answer = match self.names.lost(tracer, file, &loss.lost, &loss.mended) {
            Ok(attributes) => Some(attributes),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Stale) => None,
            Err(error) => return Err(error),
        };
        self.losses.reported(file, answer.as_ref().is_none_or(|attributes| attributes.lost.is_none()));
        Ok(answer)
    }

    /// Reports a file's pending losses to the service.
    ///
    /// # Errors
    /// The service's: the file is not opened, since it would be unknown which of its bytes are lost.
    pub(crate) fn report_kept_losses(&self, tracer: &mut Tracer, inode: &Inode) -> HandlerResult<()> {
        if self.losses.unreported(inode.id).is_none() {
            return Ok(());
        }
        if let Some(shared) = inode.shared() {
            self.report_losses(tracer, inode, &shared);
        }
        self.report_kept(tracer, inode.id)
    }

    /// Reports pending losses of a file that is not open.
    fn report_kept(&self, tracer: &mut Tracer, file: FileId) -> HandlerResult<()> {
        if let Some(unreported) = self.losses.unreported(file) {
            self.report_loss(tracer, file, &unreported)?;
        }
        Ok(())
    }

    /// Reports all pending losses, until the service does not answer.
    pub(crate) fn report_all_kept(&self, tracer: &mut Tracer) {
        for file in self.losses.files_unreported() {
            let reported = match self.table.get(self.table.number(file)) {
                Some(inode) => self.report_kept_losses(tracer, &inode),
                None => self.report_kept(tracer, file),
            };
            if reported.is_err() {
                return;
            }
        }
    }

    /// Sets a file's size.
    pub(crate) fn truncate(&self, tracer: &mut Tracer, inode: &Inode, shared: Option<&SharedFile>, size_bytes: u64) -> HandlerResult<()> {
        if size_bytes > limits::FILE_BYTES {
            return Err(Refusal::plain(libc::EFBIG));
        }
        let ask = |tracer: &mut Tracer| self.names.truncate(tracer, &FilePath::of(inode.id), size_bytes);
        let done = match shared {
            Some(shared) => shared.file.truncate(tracer, ask),
            None => ask(tracer),
        };
        done.map_err(|e| Refusal::from(e).of_known_file())?;
        // Truncation clears losses.
        self.losses.reported(inode.id, true);
        Ok(())
    }
}
