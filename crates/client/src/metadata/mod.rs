//! The metadata client: calls on names, over a few connections that are reconnected when they break.
//!
//! While the service is away, calls fail within [`thalweg_wire::limits::REFUSED`], or wait for a standby to take over, if there is one.
//! When it is back, calls succeed again and open files are reported to it, even without calls ([`keeping`]). A call that changes names or
//! attributes is numbered: if the connection breaks after sending, the call is sent again, and from the number the service knows whether
//! it was already done. The few other changing calls are never sent twice and fail instead. Read-only calls are retried once.

mod connections;
mod credentials;
mod keeping;
mod lots;
mod many;
mod paths;
mod unusual;

use crate::locks::LockClient;
pub use connections::CONNECTIONS;
pub use connections::nothing_more;
use connections::{Inner, OpenEntry, Slot};
pub use many::SmallDone;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_base::sync::Mutex;
use thalweg_layout::Layout;
use thalweg_trace::Tracer;
use thalweg_wire::emulate::Emulation;
use thalweg_wire::protocol::common::BootVerifier;
use thalweg_wire::protocol::metadata::{
    After, Attributes, Detail, DirectoryEntry, End, Existing, FileId, FilePath, LayoutChoice, MetadataReply, Operation, Owner,
    SetAttributes, Status, StoreMap, TargetId,
};
use thalweg_wire::{Connect, Connection, unexpected};
use thalweg_wire::{Error, ErrorKind, Result};

/// Names per page of [`MetadataClient::entries`].
const PAGE_NAMES: u32 = 1024;
/// Places per request of [`MetadataClient::stat_many`].
const STAT_PLACES: usize = 512;

/// Calls on the names of one store. Cheap to clone; may be used from any thread.
#[derive(Clone)]
pub struct MetadataClient {
    inner: Arc<Inner>,
    beside: Option<Arc<Beside>>,
}

/// A directory whose attributes are returned with answers to changes.
struct Beside {
    directory: FileId,
    after: Mutex<Option<Attributes>>,
}

/// An open file: its bytes stay while this exists, even if its name is removed.
pub struct OpenFile {
    /// Attributes when it was opened.
    pub attributes: Attributes,
    /// Layout of its bytes.
    pub layout: Layout,
    /// Target of each datafile.
    pub targets: Vec<TargetId>,
    inner: Arc<Inner>,
    slot: usize,
    write: bool,
    /// End reported when dropped; `None`: dropping does not close the file.
    end: Option<End>,
}

impl OpenFile {
    /// Returns the file's number.
    pub fn id(&self) -> FileId {
        self.attributes.id
    }

    /// Whether it was opened for writing.
    pub fn is_for_writing(&self) -> bool {
        self.write
    }

    /// Closes the file and reports how its use ended: a written size counts as known only if everything is at the I/O servers and nothing
    /// is in flight. The report goes with the next request, or with [`MetadataClient::report_closed`]. A file opened for writing and
    /// dropped without this has an unknown end.
    pub fn ended(mut self, end: End) {
        self.end = Some(end);
    }

    fn kept(&self) -> OpenEntry {
        OpenEntry { id: self.attributes.id, slot: self.slot, write: self.write }
    }
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile").field("attributes", &self.attributes).finish_non_exhaustive()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Some(end) = self.end {
            self.inner.close(self.kept(), end);
        }
    }
}

impl MetadataClient {
    /// Connects to the metadata service at `HOST:PORT` and fetches the store map.
    ///
    /// # Errors
    /// When the service is unreachable, or serves another store than `options.store`.
    pub fn connect(tracer: &mut Tracer, address: &str, options: &Connect) -> Result<MetadataClient> {
        let first = Connection::connect(address, options)?;
        let names = MetadataClient { inner: Arc::new(Inner::new(address, first, options)), beside: None };
        names.refresh_map(tracer)?;
        Ok(names)
    }

    /// Returns the service's address.
    pub fn address(&self) -> &str {
        &self.inner.address
    }

    /// Returns the address of the service that was active when this client last connected, of several.
    pub(crate) fn active_address(&self) -> String {
        self.inner.active.lock().clone()
    }

    /// Returns the store's emulated devices, as of the first connection.
    pub fn emulated(&self) -> Option<Emulation> {
        self.inner.emulated
    }

    /// Returns the store map, as of connecting or the last [`MetadataClient::refresh_map`].
    pub fn map(&self) -> Arc<StoreMap> {
        Arc::clone(&self.inner.map.lock())
    }

    /// Fetches the store map again: an I/O server may have moved to another address.
    ///
    /// # Errors
    /// The connection's.
    pub fn refresh_map(&self, tracer: &mut Tracer) -> Result<Arc<StoreMap>> {
        match self.ask(tracer, Operation::StoreMap)? {
            MetadataReply::Map(map) => {
                map.check().map_err(|e| e.at_server(&self.inner.address))?;
                let map = Arc::new(map);
                *self.inner.map.lock() = Arc::clone(&map);
                Ok(map)
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns the attributes of one place.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], ...
    pub fn stat(&self, tracer: &mut Tracer, place: &FilePath) -> Result<Attributes> {
        let mut found = self.stat_many(tracer, std::slice::from_ref(place), false)?;
        found.pop().unwrap_or_else(|| Err(Error::new(ErrorKind::Protocol, "an empty answer")))
    }

    /// Returns the attributes of many places, in batches; with `sizes`, also the sizes that the service can prove.
    ///
    /// # Errors
    /// The connection's; an error of a single place is in that place's result.
    pub fn stat_many(&self, tracer: &mut Tracer, places: &[FilePath], sizes: bool) -> Result<Vec<Result<Attributes>>> {
        let mut found = Vec::with_capacity(places.len());
        while found.len() < places.len() {
            let some = places[found.len()..].iter().take(STAT_PLACES).cloned().collect();
            let MetadataReply::Many(many) = self.ask(tracer, Operation::Stat { places: some, sizes })? else {
                return Err(Error::new(ErrorKind::Protocol, "the reply does not match the request"));
            };
            if many.is_empty() || found.len() + many.len() > places.len() {
                let problem = format!("{} answers to {} questions", many.len(), places.len() - found.len());
                return Err(Error::new(ErrorKind::Protocol, problem).at_server(&self.inner.address));
            }
            found.extend(many.into_iter().map(|one| one.map_err(|r| Error::new(ErrorKind::from_errno(r.errno), r.message))));
        }
        Ok(found)
    }

    /// Returns one page of a directory: the entries after the name `after`, and whether there are more.
    ///
    /// # Errors
    /// As [`MetadataClient::stat`].
    pub fn list(
        &self,
        tracer: &mut Tracer,
        place: &FilePath,
        after: Option<&[u8]>,
        most: u32,
        detail: Detail,
    ) -> Result<(Vec<DirectoryEntry>, bool)> {
        let operation = Operation::List { place: place.clone(), after: After::name(after), most, detail, walk: 0 };
        match self.ask(tracer, operation)? {
            MetadataReply::Page { entries, more } => {
                // Ensures that paging terminates.
                let last = after.into_iter().chain(entries.iter().map(|entry| entry.name.as_bytes()));
                if entries.len() > most as usize || !last.is_sorted_by(|one, next| one < next) {
                    let problem = "the reply's names are not in order, or more than were asked for";
                    return Err(Error::new(ErrorKind::Protocol, problem).at_server(&self.inner.address));
                }
                Ok((entries, more))
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns all entries of a directory, fetched page by page.
    ///
    /// # Errors
    /// As [`MetadataClient::stat`].
    pub fn entries(&self, tracer: &mut Tracer, place: &FilePath, attributes: bool) -> Result<Vec<DirectoryEntry>> {
        let detail = if attributes { Detail::Attributes } else { Detail::Names };
        let mut all: Vec<DirectoryEntry> = Vec::new();
        loop {
            let after = all.last().map(|e| e.name.to_vec());
            let (page, more) = self.list(tracer, place, after.as_deref(), PAGE_NAMES, detail)?;
            let ended = page.is_empty() || !more;
            all.extend(page);
            if ended {
                return Ok(all);
            }
        }
    }

    /// Makes a directory; with `parents`, also those above it, and an existing one is not an error.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::NotFound`], ...
    pub fn make_directory(&self, tracer: &mut Tracer, place: &FilePath, owner: Owner, parents: bool) -> Result<Attributes> {
        self.attributes(tracer, Operation::MakeDirectory { place: place.clone(), owner, parents })
    }

    /// Creates an empty file and opens it for writing.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::IsDirectory`]; [`ErrorKind::Invalid`] for an impossible layout.
    pub fn create(
        &self,
        tracer: &mut Tracer,
        place: &FilePath,
        owner: Owner,
        existing: Existing,
        layout: &LayoutChoice,
    ) -> Result<OpenFile> {
        let node = self.inner.node.clone();
        let operation = Operation::Create { place: place.clone(), owner, existing, layout: layout.clone(), node };
        self.open_with(tracer, operation, true, false)
    }

    /// Creates an empty file without opening it.
    ///
    /// # Errors
    /// As [`MetadataClient::create`].
    pub fn make_file(
        &self,
        tracer: &mut Tracer,
        place: &FilePath,
        owner: Owner,
        existing: Existing,
        layout: &LayoutChoice,
    ) -> Result<Attributes> {
        let node = self.inner.node.clone();
        self.attributes(tracer, Operation::MakeFile { place: place.clone(), owner, existing, layout: layout.clone(), node })
    }

    /// Opens a file by its number; a file without names only if it is already open somewhere.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] and [`ErrorKind::NotFound`] when it was removed, [`ErrorKind::IsDirectory`], ...
    pub fn open_by_id(&self, tracer: &mut Tracer, id: FileId, write: bool) -> Result<OpenFile> {
        self.open(tracer, &FilePath::of(id), write)
    }

    /// Opens a file; with `write`, its bytes may be changed until [`OpenFile::ended`], and until then the service reports no size of it to
    /// other clients.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::IsDirectory`]; [`ErrorKind::Unsupported`] for a symbolic link or special file, ...
    pub fn open(&self, tracer: &mut Tracer, place: &FilePath, write: bool) -> Result<OpenFile> {
        self.open_with(tracer, Operation::Open { place: place.clone(), write }, write, true)
    }

    /// Renames a file or directory and changes its attributes, atomically.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] unless `replace`, [`ErrorKind::IsDirectory`], [`ErrorKind::NotEmpty`], ...
    pub fn rename(&self, tracer: &mut Tracer, from: &FilePath, to: &FilePath, replace: bool, set: &SetAttributes) -> Result<Attributes> {
        self.attributes(tracer, Operation::Rename { from: from.clone(), only: None, to: to.clone(), replace, set: set.clone() })
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::IsDirectory`].
    pub fn unlink(&self, tracer: &mut Tracer, place: &FilePath) -> Result<()> {
        self.done(tracer, Operation::Unlink { place: place.clone(), only: None })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`], [`ErrorKind::NotDirectory`], [`ErrorKind::NotFound`].
    pub fn remove_directory(&self, tracer: &mut Tracer, place: &FilePath) -> Result<()> {
        self.done(tracer, Operation::RemoveDirectory { place: place.clone() })
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// As [`MetadataClient::stat`].
    pub fn set_attributes(&self, tracer: &mut Tracer, place: &FilePath, set: &SetAttributes) -> Result<Attributes> {
        self.attributes(tracer, Operation::SetAttributes { place: place.clone(), set: set.clone() })
    }

    /// Sets a file's size; durable at every I/O server on return.
    ///
    /// # Errors
    /// When an I/O server is unreachable: the size is set once it is back.
    pub fn truncate(&self, tracer: &mut Tracer, place: &FilePath, size_bytes: u64) -> Result<()> {
        self.done(tracer, Operation::Truncate { place: place.clone(), size_bytes })
    }

    /// Reports files closed here immediately rather than with the next request. For a caller that closed a file without names and has no
    /// other calls to make: its bytes are deleted once the service knows.
    ///
    /// # Errors
    /// The connection's.
    pub fn report_closed(&self, tracer: &mut Tracer) -> Result<()> {
        self.inner.report_closed(tracer)
    }

    /// Returns a separate client for locks and turns at this service. Dropping its last clone releases its locks.
    pub fn locks(&self) -> LockClient {
        LockClient::new(&self.inner.address, &self.inner.options.lock())
    }

    /// Puts all names and attributes changed so far on stable storage.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] when the service's machine was restarted since one of our changes, which may be lost.
    pub fn sync(&self, tracer: &mut Tracer) -> Result<BootVerifier> {
        let before = self.inner.unsynced.lock().clone();
        let mut slot = self.inner.free_slot().1;
        let reply = self.inner.call_on(&mut slot, tracer, Operation::Sync, true)?;
        let MetadataReply::Synced(verifier) = reply else { return Err(self.unexpected(&reply)) };
        let boot_id = slot.connection.as_ref().map(|c| c.hello().boot_id.clone());
        drop(slot);
        *self.inner.unsynced.lock() = None;
        if before.is_some() && before != boot_id {
            return Err(Error::new(
                ErrorKind::Restarted,
                "the metadata service's machine was restarted: names changed since the last sync may be lost; check them",
            ));
        }
        Ok(verifier)
    }

    /// Returns the service's status.
    ///
    /// # Errors
    /// The connection's.
    pub fn status(&self, tracer: &mut Tracer) -> Result<Status> {
        match self.ask(tracer, Operation::Status)? {
            MetadataReply::Status(status) => Ok(status),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns the connection options and the recording that calls are part of, if any, for a caller that connects by itself.
    pub(crate) fn connect_options(&self) -> (Connect, Option<(thalweg_trace::TraceHandle, u32)>) {
        let is_recorded = self.inner.one_connection.load(Ordering::Acquire);
        let recording = is_recorded.then(|| self.inner.slots[0].lock().connection.as_ref().and_then(Connection::recording)).flatten();
        (self.inner.options.lock().clone(), recording)
    }

    /// Lends the connection used for all calls from now on: for a recording, in which both ends must refer to the same connection.
    ///
    /// # Errors
    /// `work`'s, or the connection's.
    pub fn with_connection(&self, work: &mut dyn FnMut(&mut Connection) -> Result<()>) -> Result<()> {
        self.inner.one_connection.store(true, Ordering::Release);
        let mut slot = self.inner.slots[0].lock();
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
        self.inner.changing(&mut slot, tracer, operation, self.directory()).map(|reply| self.note_directory(reply))
    }

    /// Returns a client whose changes of names also return this directory's attributes: [`MetadataClient::take_directory`].
    #[must_use]
    pub fn beside(&self, directory: FileId) -> MetadataClient {
        MetadataClient { beside: Some(Arc::new(Beside { directory, after: Mutex::default() })), ..self.clone() }
    }

    /// Takes the directory's attributes after the last change ([`MetadataClient::beside`]).
    pub fn take_directory(&self) -> Option<Attributes> {
        self.beside.as_ref()?.after.lock().take()
    }

    fn directory(&self) -> Option<FileId> {
        self.beside.as_ref().map(|beside| beside.directory)
    }

    fn note_directory(&self, reply: MetadataReply) -> MetadataReply {
        let MetadataReply::Changed { made, directory } = reply else { return reply };
        if let Some(beside) = self.beside.as_ref().filter(|beside| beside.directory == directory.id) {
            *beside.after.lock() = Some(directory);
        }
        made.map_or(MetadataReply::Done, MetadataReply::Attributes)
    }

    fn attributes(&self, tracer: &mut Tracer, operation: Operation) -> Result<Attributes> {
        match self.change(tracer, operation)? {
            MetadataReply::Attributes(attributes) => Ok(attributes),
            other => Err(self.unexpected(&other)),
        }
    }

    fn done(&self, tracer: &mut Tracer, operation: Operation) -> Result<()> {
        match self.change(tracer, operation)? {
            MetadataReply::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn open_with(&self, tracer: &mut Tracer, operation: Operation, write: bool, only_asks: bool) -> Result<OpenFile> {
        let (number, mut slot) = self.inner.free_slot();
        let reply = if only_asks {
            self.inner.call_on(&mut slot, tracer, operation, true)?
        } else {
            self.note_directory(self.inner.changing(&mut slot, tracer, operation, self.directory())?)
        };
        let MetadataReply::Attributes(attributes) = reply else { return Err(self.unexpected(&reply)) };
        self.opened(attributes, &mut slot, number, write)
    }

    /// Wraps a file that the service has opened on a connection.
    fn opened(&self, attributes: Attributes, slot: &mut Slot, number: usize, write: bool) -> Result<OpenFile> {
        let id = attributes.id;
        let layout = attributes.layout.as_ref().ok_or_else(|| Error::new(ErrorKind::Protocol, "a file without a layout"));
        let laid_out = layout.and_then(|l| {
            let count = u32::try_from(l.targets.len()).unwrap_or(u32::MAX);
            let layout = Layout::new(&l.spec, Some(count), count).map_err(|e| Error::new(ErrorKind::Protocol, e.to_string()))?;
            Ok((layout, l.targets.clone()))
        });
        slot.opened(id, write);
        self.inner.keep();
        let kept = OpenEntry { id, slot: number, write };
        match laid_out {
            Ok((layout, targets)) => {
                Ok(OpenFile { attributes, layout, targets, inner: Arc::clone(&self.inner), slot: number, write, end: Some(kept.end()) })
            }
            Err(error) => {
                slot.close(kept, End::Read);
                Err(error.at_server(&self.inner.address))
            }
        }
    }

    fn unexpected(&self, reply: &MetadataReply) -> Error {
        unexpected(reply).at_server(&self.inner.address)
    }
}
