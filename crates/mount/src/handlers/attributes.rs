//! Attributes and sizes. Attributes come from the metadata service, sizes from the I/O servers even if the service could prove them: only
//! the I/O servers know the allocated space, which `du` and `cp` ask for.

use crate::errors::{HandlerResult, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::reply::{self, Attr};
use crate::fuse::request::{AttributesSet, Header, TimeSet};
use crate::inodes::attributes::{Size, attr, without_privileges};
use crate::inodes::inode::Inode;
use crate::inodes::shared_file::SharedFile;
use std::sync::Arc;
use std::time::Duration;
use thalweg_client::FileHandle;
use thalweg_client::wire::protocol::metadata::{Attributes, FileKind, FilePath, SetAttributes, SetTime, TargetId};
use thalweg_client::wire::{Error, ErrorKind};
use thalweg_layout::Distribution;
use thalweg_trace::Tracer;

fn time(set: TimeSet) -> SetTime {
    match set {
        TimeSet::Now => SetTime::Now,
        TimeSet::At(ns) => SetTime::At(ns),
    }
}

impl FileSystem {
    /// Returns a file's size as programs here see it, including written bytes not yet at the servers.
    pub(crate) fn size_of(&self, tracer: &mut Tracer, attributes: &Attributes, shared: Option<&SharedFile>) -> HandlerResult<Size> {
        if attributes.kind != FileKind::File {
            return Ok(Size::default());
        }
        // Data in flight may arrive before or after the servers are asked: it is counted here or there.
        let own_end = shared.and_then(|shared| shared.file.dirty_end()).unwrap_or(0);
        // Lost data too: a write fails before it is no longer in flight.
        let own_end = own_end.max(shared.map_or(0, |shared| shared.file.file().handle().lost_end()));
        let handle = FileHandle::from_attributes(attributes.id.to_string(), attributes)?;
        self.check_breaker(handle.targets())?;
        let sizes = match (self.data.sizes(tracer, &handle), &attributes.settled) {
            // Use the expected size, so that a truncated datafile does not make the file look shorter and reading its end still fails.
            (Err(error), Some(settled)) if error.kind() == ErrorKind::Lost => {
                return Ok(Size { bytes: settled.size_bytes, allocated_bytes: settled.size_bytes });
            }
            (sizes, _) => sizes.inspect_err(|error| self.breaker.failed(error))?,
        };
        let ends: Vec<u64> = sizes.iter().map(|size| size.size_bytes).collect();
        let bytes = handle.layout().logical_file_size(&ends);
        let bytes = bytes.map_err(|e| Error::new(ErrorKind::Io, e.to_string()).on_file(handle.path()))?;
        Ok(Size { bytes: bytes.max(own_end).max(handle.lost_end()), allocated_bytes: sizes.iter().map(|size| size.allocated_bytes).sum() })
    }

    fn check_breaker(&self, targets: &[TargetId]) -> Result<(), Error> {
        let map = self.names.map();
        let servers = targets.iter().filter_map(|target| map.target(*target).map(|(_, server)| server.name.as_str()));
        self.breaker.check(servers)
    }

    /// Returns attributes with size.
    pub(crate) fn full_attr(&self, tracer: &mut Tracer, attributes: &Attributes, shared: Option<&SharedFile>) -> HandlerResult<Attr> {
        Ok(attr(attributes, self.size_of(tracer, attributes, shared)?))
    }

    /// Fetches attributes and answers the kernel.
    pub(crate) fn get_attributes(&self, w: &mut Worker, inode: u64, _handle: Option<u64>) -> HandlerResult<Answer> {
        let known = self.inode(inode)?;
        if let Some(shared) = known.shared().filter(|shared| shared.unreported.any()) {
            // A time returned here must not change on close: `git` and `make` compare them.
            self.write_back(&mut w.tracer, &known, &shared);
        }
        if let Some(answer) = self.cached_attributes(w, &known).or_else(|| self.batched_attributes(w, &known)) {
            return answer;
        }
        match self.names.stat(&mut w.tracer, &FilePath::of(known.id)).map_err(|e| Refusal::from(e).of_known_file()) {
            Ok(attributes) => self.answer_attributes(w, &known, &attributes, self.options.lifetime()),
            Err(refusal) => {
                let state = known.state();
                let is_open = refusal.errno == libc::ESTALE && state.open_directories > 0;
                let Some(attributes) = state.directory.clone().filter(|_| is_open) else { return Err(refusal) };
                reply::attributes(&mut w.out, &attr(&Attributes { links: 0, ..*attributes }, Size::default()), Duration::ZERO);
                Ok(Answer::Out)
            }
        }
    }

    /// Returns attributes the kernel had recently and dropped after a read: access times are not kept.
    fn cached_attributes(&self, w: &mut Worker, inode: &Inode) -> Option<HandlerResult<Answer>> {
        let lifetime = self.options.lifetime();
        if inode.kind == FileKind::Directory {
            return self.own_directory_attributes(w, inode, lifetime);
        }
        let (attr, asked) = {
            let state = inode.state();
            let known =
                state.cached_attr.as_ref().filter(|known| state.data_change == Some(known.change) && known.asked.elapsed() < lifetime)?;
            (known.attr, known.asked)
        };
        let is_written = inode.shared().is_some_and(|shared| shared.written_bytes() > 0);
        if is_written || !self.local_changes.is_current_file(asked, (inode.id, attr.links)) {
            return None;
        }
        reply::attributes(&mut w.out, &attr, lifetime.checked_sub(asked.elapsed())?);
        Some(Ok(Answer::Out))
    }

    /// Returns a directory's attributes from the reply to a name change made here: the kernel asks for them before the next name.
    fn own_directory_attributes(&self, w: &mut Worker, inode: &Inode, lifetime: Duration) -> Option<HandlerResult<Answer>> {
        let state = inode.state();
        let (attributes, noted) = &**state.own_directory.as_ref()?;
        let left = lifetime.checked_sub(noted.elapsed())?;
        // Changes in another directory do not affect this one's link count.
        if !self.local_changes.is_current_file(*noted, (inode.id, 1)) {
            return None;
        }
        reply::attributes(&mut w.out, &attr(attributes, Size::default()), left);
        Some(Ok(Answer::Out))
    }

    /// Returns attributes from a walk in flight, or joins the request to it. `None` if that will not do: the file is open here, or changed
    /// here since the request, or there was an error that a separate request describes better.
    fn batched_attributes(&self, w: &mut Worker, inode: &Arc<Inode>) -> Option<HandlerResult<Answer>> {
        if self.options.strict || inode.kind != FileKind::File || inode.shared().is_some() || self.breaker.is_tripped() {
            return None;
        }
        let known = self.walkers.whole.stat(&mut w.tracer, inode.id).inspect_err(|error| self.breaker.failed(error)).ok()?;
        let left = self.options.lifetime().checked_sub(known.asked.elapsed())?;
        let is_current = self.local_changes.is_current_file(known.asked, (inode.id, known.attributes.links)) && inode.shared().is_none();
        let attr = attr(&known.attributes, known.size.filter(|_| is_current)?.into());
        inode.update(&known.attributes, known.asked);
        inode.cache_attr(&attr, known.attributes.change, known.asked);
        reply::attributes(&mut w.out, &attr, left);
        Some(Ok(Answer::Out))
    }

    fn answer_attributes(&self, w: &mut Worker, inode: &Arc<Inode>, attributes: &Attributes, lifetime: Duration) -> HandlerResult<Answer> {
        let shared = inode.shared();
        let attr = self.full_attr(&mut w.tracer, attributes, shared.as_deref())?;
        inode.update(attributes, w.began);
        inode.cache_attr(&attr, attributes.change, w.began);
        reply::attributes(&mut w.out, &attr, lifetime);
        Ok(Answer::Out)
    }

    /// Changes attributes, including the size.
    pub(crate) fn set_attributes(&self, w: &mut Worker, header: &Header, set: &AttributesSet) -> HandlerResult<Answer> {
        let inode = self.inode(header.node)?;
        let place = FilePath::of(inode.id);
        let shared = inode.shared();
        if let Some(shared) = &shared {
            // An explicit time or size takes effect after all earlier writes.
            if set.size_bytes.is_some() || set.modified.is_some() || set.accessed.is_some() {
                self.write_back(&mut w.tracer, &inode, shared);
            }
        }
        if let Some(size_bytes) = set.size_bytes {
            if set.handle.is_none() {
                self.check_name(w, &inode)?;
            }
            self.truncate(&mut w.tracer, &inode, shared.as_deref(), size_bytes)?;
        }
        let mut change = SetAttributes {
            mode: set.mode,
            uid: set.uid,
            gid: set.gid,
            accessed: set.accessed.map(time),
            modified: set.modified.map(time),
            ..SetAttributes::default()
        };
        let owner_changes = (set.uid.is_some() || set.gid.is_some()) && inode.kind != FileKind::Directory;
        if (owner_changes || set.drop_privileges) && change.mode.is_none() {
            let before = self.names.stat(&mut w.tracer, &place).map_err(|e| Refusal::from(e).of_known_file())?.mode;
            let after = without_privileges(before);
            change.mode = (after != before).then_some(after);
        }
        let attributes = if change == SetAttributes::default() {
            self.names.stat(&mut w.tracer, &place)
        } else {
            self.names.set_attributes(&mut w.tracer, &place, &change)
        };
        let attributes = attributes.map_err(|e| Refusal::from(e).of_known_file())?;
        if change != SetAttributes::default() {
            inode.changed_here(&attributes);
        }
        // The kernel takes over the size in this answer, even if it learned another of an open file meanwhile: make it ask again.
        let lifetime = if shared.is_some() { Duration::ZERO } else { self.options.lifetime() };
        self.answer_attributes(w, &inode, &attributes, lifetime)
    }

    /// Drops set-user and set-group bits when an unprivileged user writes.
    pub(crate) fn drop_privileges(&self, tracer: &mut Tracer, inode: &Inode) -> HandlerResult<()> {
        let place = FilePath::of(inode.id);
        let before = inode.state().mode;
        if without_privileges(before) == before {
            return Ok(());
        }
        let before = self.names.stat(tracer, &place)?.mode;
        let after = without_privileges(before);
        if after != before {
            let set = SetAttributes { mode: Some(after), ..SetAttributes::default() };
            inode.changed_here(&self.names.set_attributes(tracer, &place, &set)?);
            self.device.forget_cached(self.table.number(inode.id), false);
        }
        Ok(())
    }
}
