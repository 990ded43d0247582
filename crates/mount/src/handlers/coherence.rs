//! Close-to-open coherence: when what is kept of a file, by the kernel and here, is still of the file that a program means.
//!
//! When a file is opened, the service is asked for its change counter: if it is the one that what is kept is of, that is kept, else
//! forgotten. When it is closed, everything is written back, and the service is notified, which counts one up. Bytes are at the servers before
//! they are counted ([`crate::inodes::unreported_writes`]): a client that knows the count has them.
//!
//! **The kernel's size of a file** decides where a read ends. A read past it makes the kernel ask once more, but where it is notified of anything
//! about the file before the answer comes (a program here opens it, or writes to it), it drops the answer, and goes by the size it had: the read
//! ends too early, and a program that appends writes over what others have. So before a program may go on that is to see what others wrote,
//! the kernel has the size as well ([`crate::fuse::device::Device::grow`]). A size that is too large does no harm: reads find the end.

use crate::errors::{Answered, Refusal};
use crate::filesystem::{FileSystem, Worker};
use crate::inodes::dentries;
use crate::inodes::inode::Inode;
use crate::inodes::revalidation::OpenTarget;
use crate::inodes::shared_file::SharedFile;
use thalweg_client::Unreported;
use thalweg_client::wire::protocol::metadata::{Attributes, FileId, Place};
use thalweg_client::wire::{Error, ErrorKind, limits};
use thalweg_trace::Tracer;

impl FileSystem {
    /// Checks that a file is what the program means (see [`crate::inodes::revalidation`]).
    ///
    /// # Errors
    /// ESTALE: the kernel looks its name up again.
    pub(crate) fn check_name(&self, w: &mut Worker, inode: &Inode) -> Answered<()> {
        let meant = self.retries.resume(w.thread, inode.id);
        self.ask_by_name(w, inode, meant, |tracer, place| self.names.stat(tracer, place), |attributes| attributes.id).map(drop)
    }

    /// Asks the service something of a file by the names that it may have been meant by.
    pub(crate) fn ask_by_name<T>(
        &self,
        w: &mut Worker,
        inode: &Inode,
        meant: Option<OpenTarget>,
        ask: impl FnOnce(&mut Tracer, &Place) -> Result<T, Error>,
        which: impl FnOnce(&T) -> FileId,
    ) -> Answered<T> {
        let mut places = match meant {
            Some(OpenTarget::Name(place)) => vec![place],
            Some(OpenTarget::File) => Vec::new(),
            // Names of strict mounts are looked up each time.
            None if self.options.strict => Vec::new(),
            None => inode.state().dentries.cached(self.options.lifetime()),
        };
        let Some(last) = places.pop() else {
            return ask(&mut w.tracer, &Place::of(inode.id)).map_err(|e| Refusal::from(e).of_known_file());
        };
        let stale = |refusal: Refusal| {
            // What may not be done to whatever has the name now, looking the name up again does not change.
            if matches!(refusal.errno, libc::EIO | libc::EACCES | libc::EPERM) {
                return refusal;
            }
            self.retries.went_stale(w.thread, inode.id);
            // Whatever else is behind the name now, such as a directory, it is not what was found there.
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

    /// Compares a file's change counter with the one that everything kept is of; whether it may be kept. If not, it is forgotten.
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

    /// Forgets everything that is kept of a file, here and in the kernel. Only then is what will be kept called that of `change`:
    /// a program that compares meanwhile must not find the old bytes under the new name.
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
        // Where a server does not answer, a client that reads gets that error; and the next who looks asks again.
        let is_known = size_bytes.is_ok_and(|size_bytes| {
            self.device.grow(number, size_bytes);
            true
        });
        inode.state().data_change = is_known.then_some(attributes.change);
    }

    /// Forgets everything that is kept of a file, and asks whether it has changed: what taking a lock means.
    pub(crate) fn revalidate(&self, tracer: &mut Tracer, inode: &Inode) -> Answered<()> {
        let attributes = self.names.stat(tracer, &Place::of(inode.id)).map_err(|e| Refusal::from(e).of_known_file())?;
        let same = inode.state().data_change == Some(attributes.change);
        if !same {
            self.forget_bytes(tracer, inode, inode.shared().as_deref(), &attributes);
        }
        Ok(())
    }

    /// Writes a file back: everything that was written to it here is at the servers, and the service knows. What was lost is noted.
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
            // It has no name any more, and nobody to report its times to.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Stale) => true,
            Err(error) => {
                self.log.line(format_args!("the time of a write could not be reported: {error}"));
                false
            }
        };
        shared.unreported.report(tracer, flush, notify);
    }

    /// Bytes that were acknowledged are lost.
    pub(crate) fn note_loss(&self, inode: &Inode, shared: &SharedFile, error: &Error) {
        self.log.line(format_args!("bytes written are lost: {error}"));
        shared.lost(error);
        self.losses.note(inode.id);
    }

    /// Reports to the service what an open file has lost, or got again, since the last report.
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

    /// Reports a loss to the service. Its answer: `None` where there is no such file any more.
    fn report_loss(&self, tracer: &mut Tracer, file: FileId, loss: &Unreported) -> Result<Option<Attributes>, Error> {
        let answer = match self.names.lost(tracer, file, &loss.lost, &loss.mended) {
            Ok(attributes) => Some(attributes),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Stale) => None,
            Err(error) => return Err(error),
        };
        self.losses.reported(file, answer.as_ref().is_none_or(|attributes| attributes.lost.is_none()));
        Ok(answer)
    }

    /// Reports a file's losses to the service, where that was not possible before.
    ///
    /// # Errors
    /// The service's: the file is not opened, since it would not be known which of its bytes are lost.
    pub(crate) fn report_kept_losses(&self, tracer: &mut Tracer, inode: &Inode) -> Answered<()> {
        if self.losses.unreported(inode.id).is_none() {
            return Ok(());
        }
        if let Some(shared) = inode.shared() {
            self.report_losses(tracer, inode, &shared);
        }
        self.report_kept(tracer, inode.id)
    }

    /// The same of a file that nobody has open.
    fn report_kept(&self, tracer: &mut Tracer, file: FileId) -> Answered<()> {
        if let Some(unreported) = self.losses.unreported(file) {
            self.report_loss(tracer, file, &unreported)?;
        }
        Ok(())
    }

    /// The same of all files, until the service does not answer.
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
    pub(crate) fn truncate(&self, tracer: &mut Tracer, inode: &Inode, shared: Option<&SharedFile>, size_bytes: u64) -> Answered<()> {
        if size_bytes > limits::FILE_BYTES {
            return Err(Refusal::plain(libc::EFBIG));
        }
        let ask = |tracer: &mut Tracer| self.names.truncate(tracer, &Place::of(inode.id), size_bytes);
        let done = match shared {
            Some(shared) => shared.file.truncate(tracer, ask),
            None => ask(tracer),
        };
        done.map_err(|e| Refusal::from(e).of_known_file())?;
        // What it had lost is accepted.
        self.losses.reported(inode.id, true);
        Ok(())
    }
}
