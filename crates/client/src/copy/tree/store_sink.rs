//! A store directory as a destination.
//!
//! Three messages per batch: make, write, name. Names are given relative to a directory's number, so that the service looks up one name
//! rather than a path. A file is open for writing from the first message to the last, which also reports that all its writes have arrived:
//! from then on the metadata service knows its size.

use super::batch::{Batch, Entry, EntryKind, KeptAttributes, State, parent, shown};
use super::ends::{TreeSink, TreeSource};
use super::job::{Context, TreeStore};
use super::requests::{Loaded, Parts, Servers};
use super::whole;
use super::workers::of_entry;
use crate::copy::partial;
use crate::files::{FileHandle, Store};
use crate::metadata::{OpenFile, SmallDone};
use std::collections::HashMap;
use thalweg_base::sync::Mutex;
use thalweg_trace::{SpanId, Tracer};
use thalweg_wire::protocol::io::{Durability, IoReply, IoRequest};
use thalweg_wire::protocol::metadata::{End, Existing, FileId, FileKind, FilePath, Owner, SetAttributes, SetTime, Small};
use thalweg_wire::unexpected;
use thalweg_wire::{Error, ErrorKind, Result};

/// The destination directory.
pub(super) struct StoreTarget<'a> {
    context: Context<'a>,
    store: &'a TreeStore,
    whole: Store,
    path: &'a [u8],
    servers: Servers<'a>,
    /// Whether the store accepts any owner.
    keeps_owners: bool,
    /// Existing directories, by path below the tree.
    directories: Mutex<HashMap<Vec<u8>, FileId>>,
    /// Directories whose attributes are set once they are filled.
    unfinished: Mutex<Vec<(Vec<u8>, FileId, KeptAttributes)>>,
}

/// A file created under its `.partial` name.
struct CreatedFile {
    number: usize,
    open: OpenFile,
    handle: FileHandle,
}

fn exists() -> Error {
    Error::new(ErrorKind::Exists, "exists already: use --force to replace it")
}

impl<'a> StoreTarget<'a> {
    pub(super) fn new(context: Context<'a>, store: &'a TreeStore, path: &'a [u8]) -> StoreTarget<'a> {
        let (servers, whole) = (Servers::new(&store.data), store.store());
        // Without a credential the copy fails, with an error, when the root directory is made.
        let keeps_owners = store.names.stores_privileges().unwrap_or(false);
        StoreTarget { keeps_owners, context, store, whole, path, servers, directories: Mutex::default(), unfinished: Mutex::default() }
    }

    /// Returns the place of a path, relative to its nearest known ancestor.
    fn place(&self, path: &[u8]) -> FilePath {
        let directories = self.directories.lock();
        let mut above = parent(path);
        loop {
            if let Some(id) = directories.get(above) {
                let rest = if above.is_empty() { path } else { &path[above.len() + 1..] };
                return FilePath { from: *id, path: rest.to_vec() };
            }
            above = parent(above);
        }
    }

    fn owner(&self, mode: u32) -> Owner {
        Owner { mode, uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    fn kept(&self, kept: KeptAttributes) -> SetAttributes {
        if !self.context.job.preserve {
            return SetAttributes::default();
        }
        // An entry that cannot be given away belongs to its creator; root's group is not one of the creator's own.
        let (uid, gid) = match self.keeps_owners {
            true => (Some(kept.uid), Some(kept.gid)),
            false => (None, Some(kept.gid).filter(|gid| *gid != 0 && kept.uid == rustix::process::geteuid().as_raw())),
        };
        SetAttributes {
            mode: Some(kept.mode),
            uid,
            gid,
            accessed: Some(SetTime::At(kept.accessed_ns)),
            modified: Some(SetTime::At(kept.modified_ns)),
            default_layout: None,
        }
    }

    /// Returns the operation that makes an entry; `None`: the entry has already failed.
    fn making(&self, entry: &Entry) -> Option<Small> {
        if !entry.is_open() {
            return None;
        }
        let mode = self.context.mode_of(entry.item.kept.mode);
        match entry.item.kind {
            EntryKind::Directory => {
                let place = self.place(&entry.item.path);
                Some(Small::MakeDirectory { place, owner: self.owner(mode | 0o700), parents: self.context.job.force })
            }
            EntryKind::File(_) => {
                let place = self.place(&partial::path_of(&entry.item.path));
                // A draft left by a killed copy is replaced; any other file is kept.
                let new = self.store.names.new_file(place, self.owner(mode), Existing::Draft, &self.context.job.layout);
                Some(Small::Create(new))
            }
            EntryKind::Node(ref node) => {
                Some(Small::MakeNode { place: self.place(&entry.item.path), node: node.clone(), owner: self.owner(mode) })
            }
        }
    }

    /// Makes directories, and files under their `.partial` names.
    fn make(&self, tracer: &mut Tracer, batch: &mut Batch) -> Result<Vec<CreatedFile>> {
        let (numbers, operations): (Vec<usize>, Vec<Small>) =
            batch.entries.iter().enumerate().filter_map(|(number, entry)| Some((number, self.making(entry)?))).unzip();
        let mut files = Vec::with_capacity(numbers.len());
        if operations.is_empty() {
            return Ok(files);
        }
        let (mut fatal, mut in_the_way) = (None, Vec::new());
        for (number, done) in numbers.into_iter().zip(self.store.names.many(tracer, &operations, Vec::new())) {
            let entry = &mut batch.entries[number];
            match done {
                Ok(SmallDone::Attributes(made)) if made.kind == FileKind::Directory => {
                    self.directories.lock().insert(entry.item.path.clone(), made.id);
                    let wanted = self.context.mode_of(entry.item.kept.mode);
                    if self.context.job.preserve || wanted & 0o700 != 0o700 {
                        self.unfinished.lock().push((entry.item.path.clone(), made.id, entry.item.kept));
                    }
                    entry.state = State::Done;
                }
                Ok(SmallDone::Attributes(made)) if made.kind != FileKind::File => {
                    if self.context.job.preserve {
                        self.unfinished.lock().push((entry.item.path.clone(), made.id, entry.item.kept));
                    }
                    entry.state = State::Done;
                }
                Ok(SmallDone::Opened(open)) => match FileHandle::from_attributes(shown(&entry.item.path), &open.attributes) {
                    Ok(handle) => files.push(CreatedFile { number, open, handle }),
                    Err(error) => entry.state = State::Failed(error),
                },
                Ok(other) => fatal = Some(unexpected(&other)),
                Err(error) if error.breaks_connection() => fatal = Some(error),
                Err(error) if error.kind() == ErrorKind::Exists => match (&entry.item.kind, self.context.job.force) {
                    (EntryKind::Node(_), true) => in_the_way.push(number),
                    // Without the `.partial` name.
                    (EntryKind::File(_), _) => entry.state = State::Failed(of_entry(error, &entry.item.path)),
                    _ => entry.state = State::Failed(exists()),
                },
                Err(error) => entry.state = State::Failed(of_entry(error, &entry.item.path)),
            }
        }
        if fatal.is_none() {
            fatal = self.make_room(tracer, batch, &in_the_way).err();
        }
        match fatal {
            Some(error) => {
                self.discard(tracer, batch, files);
                Err(error)
            }
            None => Ok(files),
        }
    }

    /// Sets the size of small files with holes, before their data is written.
    fn make_holes(&self, tracer: &mut Tracer, batch: &mut Batch, files: &[CreatedFile]) {
        for made in files {
            let entry = &mut batch.entries[made.number];
            let (State::Loaded(range), Some(_)) = (&entry.state, &entry.data) else { continue };
            let data = &self.store.data;
            let done = data.truncate(tracer, &made.handle, range.len() as u64);
            // Writes are durable as they are made; a file without writes is synced here.
            let done = done.and_then(|()| if self.context.job.sync { data.sync(tracer, &made.handle).map(drop) } else { Ok(()) });
            if let Err(error) = done {
                entry.state = State::Failed(of_entry(error, &entry.item.path));
            }
        }
    }

    /// Writes the bytes of all small files.
    fn write(&self, tracer: &mut Tracer, batch: &mut Batch, files: &[CreatedFile], span: Option<SpanId>) -> Result<()> {
        let loaded = files.iter().filter_map(|made| match &batch.entries[made.number].state {
            State::Loaded(range) => {
                let data = batch.entries[made.number].data.as_deref();
                Some(Loaded { number: made.number, handle: &made.handle, range: range.clone(), data })
            }
            _ => None,
        });
        let mut parts = Parts::of(&self.store.data, loaded);
        let requests = parts.requests();
        let durability = if self.context.job.sync { Durability::Synced } else { Durability::Returned };
        let asked = requests.iter().map(|request| {
            let writes = IoRequest::WriteMany { writes: request.parts.clone(), durability };
            (request.server, writes, request.gather(&batch.memory))
        });
        let asked = asked.collect();
        let replies = self.servers.exchange(tracer, span, asked);
        let mut failed = parts.failed;
        for (request, reply) in requests.iter().zip(replies) {
            match reply {
                Ok((IoReply::WrittenMany { each, .. }, _)) if each.len() == request.parts.len() => {
                    for (owner, done) in request.owners.iter().zip(each) {
                        if let Err(refusal) = done {
                            let error = Error::new(ErrorKind::from_errno(refusal.errno), refusal.message);
                            failed.push((*owner, error.at_server(self.store.data.links()[request.server].name())));
                        }
                    }
                }
                Ok((other, _)) => return Err(unexpected(&other)),
                Err(error) => failed.extend(request.owners.iter().map(|owner| (*owner, error.clone()))),
            }
        }
        for (owner, error) in failed {
            let entry = &mut batch.entries[owner];
            if entry.is_open() {
                entry.state = State::Failed(of_entry(error, &entry.item.path));
            }
        }
        Ok(())
    }

    /// Renames and closes complete files; removes the others.
    fn keep(&self, tracer: &mut Tracer, batch: &mut Batch, files: Vec<CreatedFile>) -> Result<()> {
        let (mut operations, mut numbers, mut ended) = (Vec::with_capacity(files.len()), Vec::new(), Vec::with_capacity(files.len()));
        for made in files {
            let entry = &batch.entries[made.number];
            let path = &entry.item.path;
            let from = self.place(&partial::path_of(path));
            let only = Some(made.open.id());
            match (&entry.state, &entry.item.kind) {
                (State::Done, EntryKind::File(size)) => {
                    let (to, replace, set) = (self.place(path), self.context.job.force, self.kept(entry.item.kept));
                    operations.push(Small::Rename { from, only, to, replace, set });
                    ended.push((made.open, End::whole(*size, self.context.job.sync)));
                }
                _ => {
                    operations.push(Small::Unlink { place: from, only });
                    ended.push((made.open, End::Unknown));
                }
            }
            numbers.push(made.number);
        }
        if operations.is_empty() {
            return Ok(());
        }
        let done = self.store.names.many(tracer, &operations, ended);
        let (mut fatal, mut unnamed) = (None, Vec::new());
        for ((number, operation), done) in numbers.into_iter().zip(operations).zip(done) {
            let entry = &mut batch.entries[number];
            let (Err(error), Small::Rename { from, only, .. }) = (done, operation) else { continue };
            if error.breaks_connection() {
                fatal = Some(error.clone());
            }
            entry.state = State::Failed(match error.kind() {
                ErrorKind::Exists => exists(),
                ErrorKind::Busy => Error::new(
                    ErrorKind::Busy,
                    "another copy to the same name has begun since then, so this copy was \
                    discarded",
                ),
                _ => of_entry(error, &entry.item.path),
            });
            unnamed.push(Small::Unlink { place: from, only });
        }
        if let Some(error) = fatal {
            return Err(error);
        }
        if !unnamed.is_empty() {
            // Errors are ignored: a remaining `.partial` is not mistaken for a complete file.
            drop(self.store.names.many(tracer, &unnamed, Vec::new()));
        }
        Ok(())
    }

    /// Removes the files made: the copy stops.
    fn discard(&self, tracer: &mut Tracer, batch: &Batch, files: Vec<CreatedFile>) {
        let place = |made: &CreatedFile| self.place(&partial::path_of(&batch.entries[made.number].item.path));
        let operations: Vec<Small> = files.iter().map(|made| Small::Unlink { place: place(made), only: Some(made.open.id()) }).collect();
        let ended = files.into_iter().map(|made| (made.open, End::Unknown)).collect();
        drop(self.store.names.many(tracer, &operations, ended));
    }

    /// Moves the bytes of the batch's files, all of which were created.
    fn fill(
        &self,
        tracer: &mut Tracer,
        batch: &mut Batch,
        files: &[CreatedFile],
        source: &dyn TreeSource,
        span: Option<SpanId>,
    ) -> Result<()> {
        self.context.check()?;
        self.make_holes(tracer, batch, files);
        self.write(tracer, batch, files, span)?;
        for made in files {
            let entry = &mut batch.entries[made.number];
            if entry.is_large() {
                let moved = source.large(tracer, &entry.item).and_then(|from| {
                    let to = whole::Target::Store(&self.whole, Box::new(made.handle.clone()));
                    whole::move_all(self.context, tracer, from, to)
                });
                match moved {
                    Ok(moved) => {
                        (entry.modified, entry.hole_bytes, entry.item.kind) =
                            (moved.modified, moved.hole_bytes, EntryKind::File(moved.size_bytes));
                        entry.damaged = moved.damaged;
                    }
                    Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                    Err(error) => entry.state = State::Failed(of_entry(error, &entry.item.path)),
                }
            }
            if entry.is_open() {
                entry.state = State::Done;
            }
        }
        self.context.check()
    }

    /// Replaces existing names for links and special files: a file or link is removed, a directory is kept.
    fn make_room(&self, tracer: &mut Tracer, batch: &mut Batch, numbers: &[usize]) -> Result<()> {
        let remove = |number: &usize| Small::Unlink { place: self.place(&batch.entries[*number].item.path), only: None };
        let make = |number: &usize| self.making(&batch.entries[*number]);
        let operations: Vec<Small> = numbers.iter().flat_map(|n| [Some(remove(n)), make(n)]).flatten().collect();
        if operations.is_empty() {
            return Ok(());
        }
        let mut done = self.store.names.many(tracer, &operations, Vec::new()).into_iter();
        for number in numbers {
            let entry = &mut batch.entries[*number];
            entry.state = match (done.next(), done.next()) {
                (_, Some(Ok(SmallDone::Attributes(made)))) => {
                    if self.context.job.preserve {
                        self.unfinished.lock().push((entry.item.path.clone(), made.id, entry.item.kept));
                    }
                    State::Done
                }
                (Some(Err(error)), _) if error.breaks_connection() => return Err(error),
                (Some(Err(error)), _) | (_, Some(Err(error))) => State::Failed(of_entry(error, &entry.item.path)),
                _ => return Err(Error::new(ErrorKind::Protocol, "the reply does not match the request")),
            };
        }
        Ok(())
    }
}

impl TreeSink for StoreTarget<'_> {
    fn keeps_owners(&self) -> bool {
        self.keeps_owners
    }

    fn begin(&self, tracer: &mut Tracer) -> Result<()> {
        let place = FilePath::at(self.path);
        let on_it = |e: Error| e.on_file_instead(shown(self.path));
        let made = match self.store.names.make_directory(tracer, &place, self.owner(self.context.mode_of(0o777)), false) {
            Err(error) if error.kind() == ErrorKind::Exists && self.context.job.force => {
                let found = self.store.names.stat(tracer, &place).map_err(on_it)?;
                if found.kind != FileKind::Directory {
                    return Err(on_it(Error::new(ErrorKind::NotDirectory, "exists already, and is not a directory")));
                }
                found
            }
            made => made.map_err(on_it)?,
        };
        self.directories.lock().insert(Vec::new(), made.id);
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
        let files = self.make(tracer, batch)?;
        made(batch);
        if let Err(error) = self.fill(tracer, batch, &files, source, span) {
            self.discard(tracer, batch, files);
            return Err(error);
        }
        self.keep(tracer, batch, files)
    }

    fn finish(&self, tracer: &mut Tracer, failed: &mut dyn FnMut(&[u8], &Error)) -> Result<()> {
        let directories = std::mem::take(&mut *self.unfinished.lock());
        let set = |(_, id, kept): &(Vec<u8>, FileId, KeptAttributes)| {
            let mut set = self.kept(*kept);
            set.mode = Some(self.context.mode_of(kept.mode));
            Small::SetAttributes { place: FilePath::of(*id), set }
        };
        let operations: Vec<Small> = directories.iter().map(set).collect();
        if !operations.is_empty() {
            for ((path, ..), done) in directories.iter().zip(self.store.names.many(tracer, &operations, Vec::new())) {
                if let Err(error) = done {
                    failed(path, &error);
                }
            }
        }
        if self.context.job.sync {
            self.store.names.sync(tracer).map_err(|e| e.on_file(shown(self.path)))?;
        } else {
            // Reported now, so that the next listing of the tree knows the sizes.
            self.store.names.report_closed(tracer)?;
        }
        Ok(())
    }

    fn name(&self) -> String {
        format!("thal:{}", shown(self.path))
    }
}
