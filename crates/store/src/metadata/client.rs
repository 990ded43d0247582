//! The client's side: calls on names, over a few connections that are made again when they break.
//!
//! While the service is away, calls fail within [`crate::limits::REFUSED`]; when it is back, they work
//! again, and the files that are open here are said to be open. A call that changes something is never
//! sent twice: a connection that the service has closed is noticed before it is used, and what breaks
//! after sending is an error, since whether it was done is not known. Calls that only ask are asked again once.

use crate::client::Names;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::common::BootVerifier;
use crate::protocol::metadata::{
    Attributes, DirectoryEntry, Existing, FileId, LayoutChoice, MetadataReply, MetadataRequest, Operation, Owner, Place, SetAttributes,
    Status, StoreMap, TargetId,
};
use crate::sync::locked;
use crate::wire::{Connect, Connection, Kind, unexpected};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_layout::Layout;
use thalweg_trace::Tracer;

/// Connections to the service; calls beyond them wait for one.
pub const CONNECTIONS: usize = 4;
/// MetadataClient in a page of [`MetadataClient::entries`].
const PAGE_NAMES: u32 = 1024;
/// Places in one request of [`MetadataClient::stat_many`].
const STAT_PLACES: usize = 512;
/// Files that stay open because they were opened by path.
const KEPT_OPEN: usize = 1024;
/// Closed files are told with the next request, or at once when there are this many.
const CLOSED_AT_ONCE: usize = 256;

/// Calls on the names of one store. Cheap to clone; may be used from any thread.
#[derive(Clone)]
pub struct MetadataClient {
    inner: Arc<Inner>,
}

struct Inner {
    address: String,
    slots: Vec<Mutex<Slot>>,
    next: AtomicUsize,
    map: Mutex<Arc<StoreMap>>,
    options: Mutex<Connect>,
    node: String,
    /// The machine start under which something was changed and not synced since.
    unsynced: Mutex<Option<String>>,
    /// All calls go over the first connection.
    one_connection: AtomicBool,
    /// Files opened by path ([`Names`]) and on which connection, oldest first.
    kept: Mutex<VecDeque<(FileId, usize)>>,
}

/// One connection, and what is open on it.
#[derive(Default)]
struct Slot {
    connection: Option<Connection>,
    open: HashMap<FileId, u32>,
    closed: Vec<FileId>,
}

/// A file that is open: as long as this lives, its bytes stay, even when its name goes.
pub struct OpenFile {
    /// Its attributes when it was opened.
    pub attributes: Attributes,
    /// Where its bytes are.
    pub layout: Layout,
    /// The target of each datafile.
    pub targets: Vec<TargetId>,
    inner: Arc<Inner>,
    slot: usize,
    kept: bool,
}

impl OpenFile {
    /// Its number.
    pub fn id(&self) -> FileId {
        self.attributes.id
    }
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile").field("attributes", &self.attributes).finish_non_exhaustive()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if !self.kept {
            self.inner.close(self.attributes.id, self.slot);
        }
    }
}

impl MetadataClient {
    /// Connects to the metadata service at `HOST:PORT`, and learns who is who.
    ///
    /// # Errors
    /// When it is not there, or is another store's than `options.store`.
    pub fn connect(tracer: &mut Tracer, address: &str, options: &Connect) -> Result<MetadataClient> {
        let connection = Connection::connect(address, options)?;
        let store = connection.hello().store;
        let first = Slot { connection: Some(connection), ..Slot::default() };
        let mut slots = vec![Mutex::new(first)];
        slots.extend((1..CONNECTIONS).map(|_| Mutex::default()));
        let inner = Inner {
            address: address.to_owned(),
            slots,
            next: AtomicUsize::new(0),
            map: Mutex::new(Arc::new(StoreMap { store, servers: Vec::new(), targets: Vec::new() })),
            node: options.node.clone(),
            options: Mutex::new(Connect { store: Some(store), ..options.clone() }),
            unsynced: Mutex::new(None),
            one_connection: AtomicBool::new(false),
            kept: Mutex::default(),
        };
        let names = MetadataClient { inner: Arc::new(inner) };
        names.refresh_map(tracer)?;
        Ok(names)
    }

    /// The service's address.
    pub fn address(&self) -> &str {
        &self.inner.address
    }

    /// Who is who, as of the connecting or the last [`MetadataClient::refresh_map`].
    pub fn map(&self) -> Arc<StoreMap> {
        Arc::clone(&locked(&self.inner.map))
    }

    /// Asks who is who again: an I/O server may have come back at another address.
    ///
    /// # Errors
    /// The connection's.
    pub fn refresh_map(&self, tracer: &mut Tracer) -> Result<Arc<StoreMap>> {
        match self.ask(tracer, Operation::StoreMap)? {
            MetadataReply::Map(map) => {
                let map = Arc::new(map);
                *locked(&self.inner.map) = Arc::clone(&map);
                Ok(map)
            }
            other => Err(self.strange(&other)),
        }
    }

    /// Attributes of one place.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], ...
    pub fn stat(&self, tracer: &mut Tracer, place: &Place) -> Result<Attributes> {
        let mut found = self.stat_many(tracer, std::slice::from_ref(place))?;
        found.pop().unwrap_or_else(|| Err(Error::new(ErrorKind::Protocol, "an empty answer")))
    }

    /// Attributes of many places, in batches.
    ///
    /// # Errors
    /// The connection's; those of single places are in their places.
    pub fn stat_many(&self, tracer: &mut Tracer, places: &[Place]) -> Result<Vec<Result<Attributes>>> {
        let mut found = Vec::with_capacity(places.len());
        while found.len() < places.len() {
            let some = places[found.len()..].iter().take(STAT_PLACES).cloned().collect();
            let MetadataReply::Many(many) = self.ask(tracer, Operation::Stat { places: some })? else {
                return Err(Error::new(ErrorKind::Protocol, "an answer that does not belong to the question"));
            };
            if many.is_empty() {
                return Err(Error::new(ErrorKind::Protocol, "an empty answer"));
            }
            found.extend(many.into_iter().map(|one| one.map_err(|r| Error::new(ErrorKind::from_errno(r.errno), r.message))));
        }
        Ok(found)
    }

    /// One page of a directory: the entries after the name `after`, and whether there are more.
    ///
    /// # Errors
    /// As [`MetadataClient::stat`].
    pub fn list(
        &self,
        tracer: &mut Tracer,
        place: &Place,
        after: Option<&[u8]>,
        most: u32,
        attributes: bool,
    ) -> Result<(Vec<DirectoryEntry>, bool)> {
        let operation = Operation::List { place: place.clone(), after: after.map(<[u8]>::to_vec), most, attributes };
        match self.ask(tracer, operation)? {
            MetadataReply::Page { entries, more } => Ok((entries, more)),
            other => Err(self.strange(&other)),
        }
    }

    /// All of a directory, page by page.
    ///
    /// # Errors
    /// As [`MetadataClient::stat`].
    pub fn entries(&self, tracer: &mut Tracer, place: &Place, attributes: bool) -> Result<Vec<DirectoryEntry>> {
        let mut all: Vec<DirectoryEntry> = Vec::new();
        loop {
            let after = all.last().map(|e| e.name.clone());
            let (page, more) = self.list(tracer, place, after.as_deref(), PAGE_NAMES, attributes)?;
            let ended = page.is_empty() || !more;
            all.extend(page);
            if ended {
                return Ok(all);
            }
        }
    }

    /// Makes a directory; with `parents`, those above it too, and one that is there is no error.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::NotFound`], ...
    pub fn make_directory(&self, tracer: &mut Tracer, place: &Place, owner: Owner, parents: bool) -> Result<Attributes> {
        self.attributes(tracer, Operation::MakeDirectory { place: place.clone(), owner, parents })
    }

    /// Makes an empty file and opens it.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::IsDirectory`]; [`ErrorKind::Invalid`] for a layout that cannot be.
    pub fn create(&self, tracer: &mut Tracer, place: &Place, owner: Owner, existing: Existing, layout: &LayoutChoice) -> Result<OpenFile> {
        let node = self.inner.node.clone();
        let operation = Operation::Create { place: place.clone(), owner, existing, layout: layout.clone(), node };
        self.open_with(tracer, operation, false)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::IsDirectory`], ...
    pub fn open(&self, tracer: &mut Tracer, place: &Place) -> Result<OpenFile> {
        self.open_with(tracer, Operation::Open { place: place.clone() }, true)
    }

    /// Gives a file or directory another name and, in the same step, other attributes.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] unless `replace`, [`ErrorKind::IsDirectory`], [`ErrorKind::NotEmpty`], ...
    pub fn rename(&self, tracer: &mut Tracer, from: &Place, to: &Place, replace: bool, set: &SetAttributes) -> Result<Attributes> {
        self.attributes(tracer, Operation::Rename { from: from.clone(), only: None, to: to.clone(), replace, set: set.clone() })
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::IsDirectory`].
    pub fn unlink(&self, tracer: &mut Tracer, place: &Place) -> Result<()> {
        self.done(tracer, Operation::Unlink { place: place.clone(), only: None })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`], [`ErrorKind::NotDirectory`], [`ErrorKind::NotFound`].
    pub fn remove_directory(&self, tracer: &mut Tracer, place: &Place) -> Result<()> {
        self.done(tracer, Operation::RemoveDirectory { place: place.clone() })
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// As [`MetadataClient::stat`].
    pub fn set_attributes(&self, tracer: &mut Tracer, place: &Place, set: &SetAttributes) -> Result<Attributes> {
        self.attributes(tracer, Operation::SetAttributes { place: place.clone(), set: set.clone() })
    }

    /// Sets a file's size. On media at every I/O server when it returns.
    ///
    /// # Errors
    /// When an I/O server is away: the size is set when it is back.
    pub fn truncate(&self, tracer: &mut Tracer, place: &Place, size_bytes: u64) -> Result<()> {
        self.done(tracer, Operation::Truncate { place: place.clone(), size_bytes })
    }

    /// Puts all names and attributes that were changed so far on media.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] when the service's machine was restarted since a change of ours: it may be lost.
    pub fn sync(&self, tracer: &mut Tracer) -> Result<BootVerifier> {
        let before = locked(&self.inner.unsynced).clone();
        let mut slot = self.inner.free_slot().1;
        let reply = self.inner.call_on(&mut slot, tracer, Operation::Sync, true)?;
        let MetadataReply::Synced(verifier) = reply else { return Err(self.strange(&reply)) };
        let boot_id = slot.connection.as_ref().map(|c| c.hello().boot_id.clone());
        drop(slot);
        *locked(&self.inner.unsynced) = None;
        if before.is_some() && before != boot_id {
            return Err(Error::new(
                ErrorKind::Stale,
                "the metadata service's machine was restarted: names changed since the last sync may be lost, look at them",
            ));
        }
        Ok(verifier)
    }

    /// How the service is.
    ///
    /// # Errors
    /// The connection's.
    pub fn status(&self, tracer: &mut Tracer) -> Result<Status> {
        match self.ask(tracer, Operation::Status)? {
            MetadataReply::Status(status) => Ok(status),
            other => Err(self.strange(&other)),
        }
    }

    /// Lends the connection over which all calls go from now on: for recording, where both ends must speak of
    /// the same one.
    ///
    /// # Errors
    /// `work`'s, or the connection's.
    pub fn with_connection(&self, work: &mut dyn FnMut(&mut Connection) -> Result<()>) -> Result<()> {
        self.inner.one_connection.store(true, Ordering::Release);
        let mut slot = locked(&self.inner.slots[0]);
        self.inner.ready(&mut slot)?;
        match slot.connection.as_mut() {
            Some(connection) => work(connection),
            None => Err(Error::new(ErrorKind::Reset, "not connected")),
        }
    }

    fn ask(&self, tracer: &mut Tracer, operation: Operation) -> Result<MetadataReply> {
        let mut slot = self.inner.free_slot().1;
        self.inner.call_on(&mut slot, tracer, operation, true)
    }

    fn change(&self, tracer: &mut Tracer, operation: Operation) -> Result<MetadataReply> {
        let mut slot = self.inner.free_slot().1;
        self.inner.changing(&mut slot, tracer, operation)
    }

    fn attributes(&self, tracer: &mut Tracer, operation: Operation) -> Result<Attributes> {
        match self.change(tracer, operation)? {
            MetadataReply::Attributes(attributes) => Ok(attributes),
            other => Err(self.strange(&other)),
        }
    }

    fn done(&self, tracer: &mut Tracer, operation: Operation) -> Result<()> {
        match self.change(tracer, operation)? {
            MetadataReply::Done => Ok(()),
            other => Err(self.strange(&other)),
        }
    }

    fn open_with(&self, tracer: &mut Tracer, operation: Operation, only_asks: bool) -> Result<OpenFile> {
        let (number, mut slot) = self.inner.free_slot();
        let reply = if only_asks {
            self.inner.call_on(&mut slot, tracer, operation, true)?
        } else {
            self.inner.changing(&mut slot, tracer, operation)?
        };
        let MetadataReply::Attributes(attributes) = reply else { return Err(self.strange(&reply)) };
        let id = attributes.id;
        let layout = attributes.layout.as_ref().ok_or_else(|| Error::new(ErrorKind::Protocol, "a file without a layout"));
        let laid_out = layout.and_then(|l| {
            let count = u32::try_from(l.targets.len()).unwrap_or(u32::MAX);
            let layout = Layout::new(&l.spec, Some(count), count).map_err(|e| Error::new(ErrorKind::Protocol, e.to_string()))?;
            Ok((layout, l.targets.clone()))
        });
        match laid_out {
            Ok((layout, targets)) => {
                *slot.open.entry(id).or_insert(0) += 1;
                drop(slot);
                Ok(OpenFile { attributes, layout, targets, inner: Arc::clone(&self.inner), slot: number, kept: false })
            }
            Err(error) => {
                slot.closed.push(id);
                Err(error.at_server(&self.inner.address))
            }
        }
    }

    fn strange(&self, reply: &MetadataReply) -> Error {
        unexpected(reply).at_server(&self.inner.address)
    }
}

/// Names by path, for the data path. A file opened or made this way stays open until it is closed, [`KEPT_OPEN`] others
/// have been opened, or this client removes it or ends.
impl Names for MetadataClient {
    fn create(&self, tracer: &mut Tracer, path: &str, mode: u32, existing: Existing, layout: &LayoutChoice) -> Result<Attributes> {
        let owner = Owner { mode, uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
        let made = MetadataClient::create(self, tracer, &Place::at(path), owner, existing, layout)?;
        Ok(self.keep(made))
    }

    fn stat(&self, tracer: &mut Tracer, path: &str) -> Result<Attributes> {
        MetadataClient::stat(self, tracer, &Place::at(path))
    }

    fn open(&self, tracer: &mut Tracer, path: &str) -> Result<Attributes> {
        let opened = MetadataClient::open(self, tracer, &Place::at(path))?;
        Ok(self.keep(opened))
    }

    fn rename(&self, tracer: &mut Tracer, file: FileId, from: &str, to: &str, replace: bool) -> Result<()> {
        let (from, to, set) = (Place::at(from), Place::at(to), SetAttributes::default());
        self.attributes(tracer, Operation::Rename { from, only: Some(file), to, replace, set }).map(drop)
    }

    fn unlink(&self, tracer: &mut Tracer, file: FileId, path: &str) -> Result<()> {
        // What was opened under this name and is removed by the same client is of no more use to it.
        self.let_go(file);
        self.done(tracer, Operation::Unlink { place: Place::at(path), only: Some(file) })
    }

    fn sync(&self, tracer: &mut Tracer) -> Result<()> {
        MetadataClient::sync(self, tracer).map(drop)
    }

    fn close(&self, file: FileId) {
        let mut kept = locked(&self.inner.kept);
        let place = kept.iter().position(|(id, _)| *id == file);
        let closed = place.and_then(|place| kept.remove(place));
        drop(kept);
        if let Some((id, slot)) = closed {
            self.inner.close(id, slot);
        }
    }

    fn with_connection(&self, work: &mut dyn FnMut(&mut Connection) -> Result<()>) -> Result<()> {
        MetadataClient::with_connection(self, work)
    }
}

impl MetadataClient {
    fn keep(&self, mut file: OpenFile) -> Attributes {
        file.kept = true;
        let mut kept = locked(&self.inner.kept);
        kept.push_back((file.id(), file.slot));
        let oldest = if kept.len() > KEPT_OPEN { kept.pop_front() } else { None };
        // Closing may speak to the service.
        drop(kept);
        if let Some((id, slot)) = oldest {
            self.inner.close(id, slot);
        }
        file.attributes.clone()
    }

    fn let_go(&self, id: FileId) {
        let mut kept = locked(&self.inner.kept);
        let (gone, stay): (VecDeque<_>, VecDeque<_>) = kept.iter().copied().partition(|(file, _)| *file == id);
        *kept = stay;
        drop(kept);
        gone.into_iter().for_each(|(id, slot)| self.inner.close(id, slot));
    }
}

impl Inner {
    /// A connection that nobody uses, or the one whose turn it is to be waited for.
    fn free_slot(&self) -> (usize, MutexGuard<'_, Slot>) {
        if self.one_connection.load(Ordering::Acquire) {
            return (0, locked(&self.slots[0]));
        }
        for (number, slot) in self.slots.iter().enumerate() {
            match slot.try_lock() {
                Ok(slot) => return (number, slot),
                Err(std::sync::TryLockError::Poisoned(slot)) => return (number, slot.into_inner()),
                Err(std::sync::TryLockError::WouldBlock) => {}
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        (number, locked(&self.slots[number]))
    }

    /// Notes that a file is closed; the service is told with the next request on its connection.
    fn close(&self, id: FileId, slot: usize) {
        let mut slot = locked(&self.slots[slot]);
        if let Some(count) = slot.open.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                slot.open.remove(&id);
            }
        }
        slot.closed.push(id);
        if slot.closed.len() >= CLOSED_AT_ONCE {
            // Nothing depends on it: an error here is told to the next caller.
            let _ = self.call_on(&mut slot, &mut Tracer::off(), Operation::StoreMap, true);
        }
    }

    /// Makes the connection, unless it is there, and says what is open.
    fn ready(&self, slot: &mut Slot) -> Result<()> {
        // Nothing is awaited on an idle connection: what can be read is its end.
        if slot.connection.as_ref().is_some_and(|c| c.is_broken() || c.is_readable()) {
            slot.connection = None;
        }
        if slot.connection.is_some() {
            return Ok(());
        }
        slot.closed.clear();
        let options = locked(&self.options).clone();
        let mut connection = Connection::connect(&self.address, &options)?;
        let open: Vec<FileId> = slot.open.iter().flat_map(|(id, count)| std::iter::repeat_n(*id, *count as usize)).collect();
        for files in open.chunks(4096) {
            let request = MetadataRequest { closed: Vec::new(), operation: Operation::Reopen { files: files.to_vec() } };
            let _: MetadataReply = connection.call(&mut Tracer::off(), Kind::Metadata, &request)?;
        }
        slot.connection = Some(connection);
        Ok(())
    }

    fn changing(&self, slot: &mut Slot, tracer: &mut Tracer, operation: Operation) -> Result<MetadataReply> {
        let reply = self.call_on(slot, tracer, operation, false)?;
        let mut unsynced = locked(&self.unsynced);
        if unsynced.is_none() {
            *unsynced = slot.connection.as_ref().map(|c| c.hello().boot_id.clone());
        }
        Ok(reply)
    }

    /// One call; one that only asks is asked again on a new connection when the old one turns out to be dead.
    fn call_on(&self, slot: &mut Slot, tracer: &mut Tracer, operation: Operation, only_asks: bool) -> Result<MetadataReply> {
        self.ready(slot)?;
        let mut request = MetadataRequest { closed: std::mem::take(&mut slot.closed), operation };
        let Some(connection) = slot.connection.as_mut() else { return Err(Error::new(ErrorKind::Reset, "not connected")) };
        match connection.call(tracer, Kind::Metadata, &request) {
            Err(error) if error.kind() == ErrorKind::Reset && only_asks => {
                slot.connection = None;
                self.ready(slot)?;
                // The new connection knows only of what is still open.
                request.closed.clear();
                let Some(connection) = slot.connection.as_mut() else { return Err(error) };
                connection.call(tracer, Kind::Metadata, &request)
            }
            other => other,
        }
    }
}
