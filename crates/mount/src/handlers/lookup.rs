//! Lookup of names.

use crate::errors::{HandlerResult, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::reply::{self, Attr, Lifetimes};
use crate::inodes::attributes::{Size, attr};
use crate::inodes::local_changes::Changes;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thalweg_client::walk::WalkEntry;
use thalweg_client::wire::protocol::metadata::{Attributes, FileId, FileKind, FilePath};
use thalweg_client::wire::{Error, ErrorKind};

impl FileSystem {
    /// Answers the kernel with a name's file. If the file's servers do not answer, the name is returned anyway, without a cached size.
    pub(crate) fn answer_entry(&self, w: &mut Worker, place: &FilePath, attributes: &Attributes) -> HandlerResult<Answer> {
        self.answer_entry_for(w, place, attributes, self.options.lifetime())
    }

    /// Answers as [`FileSystem::answer_entry`], where the kernel takes over the answer even if it learned more meanwhile: if it already
    /// knew the file, it must ask again.
    pub(crate) fn answer_entry_once(&self, w: &mut Worker, place: &FilePath, attributes: &Attributes) -> HandlerResult<Answer> {
        self.answer_entry_for(w, place, attributes, Duration::ZERO)
    }

    fn answer_entry_for(&self, w: &mut Worker, place: &FilePath, attributes: &Attributes, lifetime: Duration) -> HandlerResult<Answer> {
        let inode = self.table.insert((attributes, w.began), (place.from, &place.path), self.options.lifetime());
        let shared = inode.shared();
        let number = self.table.number(attributes.id);
        match self.full_attr(&mut w.tracer, attributes, shared.as_deref()) {
            Ok(attr) => reply::entry(&mut w.out, number, &attr, Lifetimes { attributes: lifetime, ..self.lifetimes() }),
            Err(refusal) => {
                self.log_refusal("size", &refusal);
                let attr = attr(attributes, Size::default());
                let lifetimes = Lifetimes { entry: self.lifetimes().entry, attributes: Duration::ZERO };
                reply::entry(&mut w.out, number, &attr, lifetimes);
            }
        }
        Ok(Answer::Out)
    }

    /// Answers with a file that has no bytes yet.
    pub(crate) fn answer_new(&self, w: &mut Worker, place: &FilePath, attributes: &Attributes) -> HandlerResult<Answer> {
        self.table.insert((attributes, w.began), (place.from, &place.path), self.options.lifetime());
        let attr = attr(attributes, Size::default());
        reply::entry(&mut w.out, self.table.number(attributes.id), &attr, self.lifetimes());
        Ok(Answer::Out)
    }

    /// Looks up a name.
    pub(crate) fn lookup(&self, w: &mut Worker, directory: u64, name: &[u8]) -> HandlerResult<Answer> {
        let place = self.place(directory, name)?;
        if self.is_absent(w, directory, name) {
            return Err(Refusal::plain(libc::ENOENT));
        }
        if let Some(answer) = self.lookup_walked(w, &place) {
            return answer;
        }
        let found = self.look_up(w, directory, &place);
        match &found {
            Ok(found) => self.retries.looked_up(w.thread, &place, (found.kind == FileKind::File).then_some(found.id)),
            Err(_) => self.retries.abandon(w.thread),
        }
        let mut attributes = found?;
        let known = self.table.get(self.table.number(attributes.id));
        if let Some((inode, shared)) = known.and_then(|inode| inode.shared().map(|shared| (inode, shared)))
            && shared.unreported.any()
        {
            self.write_back(&mut w.tracer, &inode, &shared);
            attributes = self.names.stat(&mut w.tracer, &place)?;
        }
        self.answer_entry(w, &place, &attributes)
    }

    /// Whether a directory is known not to have a name, as of a moment ago.
    fn is_absent(&self, w: &Worker, directory: u64, name: &[u8]) -> bool {
        if self.options.strict || self.retries.is_retrying(w.thread) {
            return false;
        }
        self.table.get(directory).is_some_and(|parent| parent.state().absent_names.as_ref().is_some_and(|names| names.lacks(name)))
    }

    /// Looks a name up at the service and, where needed, checks that no other client has changed names in the directory.
    fn look_up(&self, w: &mut Worker, directory: u64, place: &FilePath) -> Result<Attributes, Error> {
        let parent = self.table.get(directory).filter(|parent| parent.state().absent_names.is_some());
        let Some(parent) = parent else { return self.names.stat(&mut w.tracer, place) };
        let asked = Instant::now();
        let mut found = self.names.stat_many(&mut w.tracer, &[place.clone(), FilePath::of(place.from)], false)?.into_iter();
        let name = found.next();
        let mut state = parent.state();
        let same = match (found.next(), &mut state.absent_names) {
            (Some(Ok(attributes)), Some(names)) => names.seen_again(&attributes, asked),
            _ => false,
        };
        if !same {
            state.absent_names = None;
        }
        name.unwrap_or_else(|| Err(Error::new(ErrorKind::Protocol, "no reply to the lookup")))
    }

    /// Answers a lookup from read-ahead; `None`: the service must be asked.
    fn lookup_walked(&self, w: &mut Worker, place: &FilePath) -> Option<HandlerResult<Answer>> {
        // With a silent server, a walk would wait for it repeatedly.
        if self.options.strict || self.retries.is_retrying(w.thread) || self.breaker.is_tripped() {
            return None;
        }
        let lookups = self.lookup_ahead.of(place.from)?;
        let lifetime = self.options.lifetime();
        let entry = {
            let mut lookups = lookups.lock();
            lookups.find(&mut w.tracer, &self.walkers.singly, place, lifetime)?
        };
        self.breaker.failed_entry(&entry);
        let (attr, lifetimes) = self.walked_attr(&entry, place.from, &self.local_changes.changes())?;
        let attributes = entry.attributes.as_ref()?;
        self.retries.looked_up(w.thread, place, (entry.kind == FileKind::File).then_some(entry.id));
        let inode = self.table.insert((attributes, entry.asked), (place.from, &place.path), lifetime);
        inode.cache_attr(&attr, attributes.change, entry.asked);
        reply::entry(&mut w.out, self.table.number(entry.id), &attr, lifetimes);
        self.lookup_ahead.answered.fetch_add(1, Ordering::Relaxed);
        Some(Ok(Answer::Out))
    }

    /// Returns the attributes of a walk's entry for the kernel, with their lifetimes. `None`: the kernel has to ask.
    pub(crate) fn walked_attr(&self, entry: &WalkEntry, directory: FileId, changes: &Changes) -> Option<(Attr, Lifetimes)> {
        let attributes = entry.attributes.as_ref()?;
        let size = match (&entry.size, entry.kind) {
            (Some(Ok(size)), FileKind::File) => Size::from(*size),
            (_, FileKind::File) => return None,
            _ => Size::default(),
        };
        let left = self.options.lifetime().checked_sub(entry.asked.elapsed()).filter(|left| !left.is_zero())?;
        if !self.local_changes.is_current(changes, entry.asked, (entry.id, attributes.links), (directory, &entry.name)) {
            return None;
        }
        // An open file is asked for separately: writes not yet at the servers count.
        if self.table.get(entry.id.0).is_some_and(|inode| inode.shared().is_some()) {
            return None;
        }
        Some((attr(attributes, size), Lifetimes { entry: left, attributes: left }))
    }
}
