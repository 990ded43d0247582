//! A connection to a store, whose errors name the path.

use crate::failure::Failure;
use crate::names;
use crate::operand::{StoreFlags, StorePath};
use parking_lot::Mutex;
use std::sync::Arc;
use thalweg_client::copy::{TreeStore, umask};
use thalweg_client::metadata::MetadataClient;
use thalweg_client::walk::{WalkOptions, Walker};
use thalweg_client::{DataClient, FileHandle, Store};
use thalweg_store::config::StoreAddress;
use thalweg_trace::Tracer;
use thalweg_wire::address::{is_plain, without_pin};
use thalweg_wire::emulate::Emulation;
use thalweg_wire::protocol::metadata::{
    Attributes, Detail, FileId, FileLayout, FilePath, LayoutChoice, LotId, Owner, SetAttributes, Small, StoreMap,
};
use thalweg_wire::{Connect, Error, ErrorKind};

/// A warning that traffic is not encrypted.
pub(crate) const IN_CLEAR: &str =
    "traffic beyond loopback is not encrypted (--plain): anyone on the network path can read and change names and data";

/// A connection to a store.
pub(crate) struct Session {
    names: MetadataClient,
    data: Arc<DataClient>,
}

/// The stores that one command works on, each connected to once.
pub(crate) struct Sessions<'a> {
    flags: &'a StoreFlags,
    open: Mutex<Vec<(StoreAddress, Arc<Session>)>>,
}

impl<'a> Sessions<'a> {
    /// Creates an empty set.
    pub(crate) fn new(flags: &'a StoreFlags) -> Sessions<'a> {
        Sessions { flags, open: Mutex::default() }
    }

    /// Returns the session with this store, connecting if needed.
    pub(crate) fn of(&self, store: &StoreAddress) -> Result<Arc<Session>, Failure> {
        let mut open = self.open.lock();
        if let Some((_, session)) = open.iter().find(|(address, _)| address == store) {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(Session::connect(store, self.flags)?);
        open.push((store.clone(), Arc::clone(&session)));
        Ok(session)
    }
}

impl Sessions<'_> {
    /// Returns the sessions in the order of connecting.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.open.lock().iter().map(|(_, session)| Arc::clone(session)).collect()
    }
}

impl Session {
    /// Connects to the metadata service and fetches the store's map. I/O servers are connected to on first use.
    pub(crate) fn connect(store: &StoreAddress, flags: &StoreFlags) -> Result<Session, Failure> {
        Session::open(store, flags).map_err(Failure::failed)
    }

    /// Does what [`Session::connect`] does, for a caller that needs the kind of an error.
    pub(crate) fn open(store: &StoreAddress, flags: &StoreFlags) -> Result<Session, Error> {
        let credentials = flags.credentials(store)?;
        let options = Connect { timeout: flags.timeout, node: flags.node(), credentials, ..Connect::default() };
        let address = store.service()?;
        let names = MetadataClient::connect(&mut Tracer::off(), &address, &options).map_err(|e| away(&e, &address))?;
        let map = names.map();
        let data =
            Arc::new(DataClient::of_store(map.as_ref().clone(), &Connect { store: Some(map.store), ..options }, Arc::new(names.clone())));
        Ok(Session { names, data })
    }

    /// Returns the metadata client.
    pub(crate) fn names(&self) -> &MetadataClient {
        &self.names
    }

    /// Returns the data client.
    pub(crate) fn data(&self) -> &DataClient {
        &self.data
    }

    /// Returns the store, for copies of files.
    pub(crate) fn store(&self) -> Store {
        Store { names: Arc::new(self.names.clone()), data: Arc::clone(&self.data) }
    }

    /// Returns the store, for copies of trees.
    pub(crate) fn tree_store(&self) -> TreeStore {
        TreeStore { names: self.names.clone(), data: Arc::clone(&self.data) }
    }

    /// Returns the store's map of servers and targets.
    pub(crate) fn map(&self) -> Arc<StoreMap> {
        self.names.map()
    }

    /// Returns the store's emulated devices.
    pub(crate) fn emulated(&self) -> Option<Emulation> {
        self.names.emulated()
    }

    /// Whether traffic to a server beyond loopback is not encrypted.
    pub(crate) fn is_in_clear(&self) -> bool {
        self.map().servers.iter().any(|server| is_plain(&server.address))
    }

    /// Sets the lot of files created in a directory from now on; its default layout stays. Returns whether it already has entries.
    pub(crate) fn set_lot(&self, place: &FilePath, lot: LotId) -> Result<bool, Error> {
        let tracer = &mut Tracer::off();
        let known = self.names.stat(tracer, place)?;
        let choice = LayoutChoice { lot: Some(lot), ..known.default_layout.unwrap_or_default() };
        let set = SetAttributes { default_layout: Some(Some(choice)), ..SetAttributes::default() };
        self.names.set_attributes(tracer, place, &set)?;
        Ok(!self.names.list(tracer, place, None, 1, Detail::Names)?.0.is_empty())
    }

    /// Returns the attributes of a path.
    pub(crate) fn stat(&self, path: impl AsRef<[u8]>) -> Result<Attributes, Failure> {
        self.stat_raw(path.as_ref()).map_err(|e| named(e, path))
    }

    /// Returns the attributes of a path; `None` if it does not exist.
    pub(crate) fn stat_if_there(&self, path: impl AsRef<[u8]>) -> Result<Option<Attributes>, Failure> {
        match self.stat_raw(path.as_ref()) {
            Ok(attributes) => Ok(Some(attributes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(named(error, path)),
        }
    }

    fn stat_raw(&self, path: &[u8]) -> Result<Attributes, Error> {
        self.names.stat(&mut Tracer::off(), &FilePath::at(path))
    }

    /// Returns a walker over the store.
    pub(crate) fn walker(&self, options: WalkOptions) -> Walker {
        Walker::new(self.names.clone(), Arc::clone(&self.data), options)
    }

    /// Returns the attributes of a place; the request is recorded by `tracer`.
    pub(crate) fn stat_at(&self, tracer: &mut Tracer, place: &FilePath) -> Result<Attributes, Failure> {
        self.names.stat(tracer, place).map_err(|e| named(e, &place.path))
    }

    /// Returns the attributes of many places.
    pub(crate) fn stat_many(&self, tracer: &mut Tracer, places: &[FilePath]) -> Result<Vec<Result<Attributes, Error>>, Failure> {
        self.names.stat_many(tracer, places, false).map_err(Failure::failed)
    }

    /// Returns what a symbolic link leads to; `None` if that does not exist or is outside the store.
    pub(crate) fn follow_at(&self, tracer: &mut Tracer, path: &[u8]) -> Result<Option<(FilePath, Attributes)>, Failure> {
        match self.names.follow(tracer, path) {
            Ok(found) => Ok(Some(found)),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Unsupported | ErrorKind::LinkLoop) => Ok(None),
            Err(e) => Err(named(e, path)),
        }
    }

    /// Whether a directory has any entry.
    pub(crate) fn has_names(&self, tracer: &mut Tracer, directory: FileId) -> Result<bool, Failure> {
        let (names, more) = self.names.list(tracer, &FilePath::of(directory), None, 1, Detail::Names).map_err(Failure::failed)?;
        Ok(more || !names.is_empty())
    }

    /// Makes directories in this order; returns the result of each.
    pub(crate) fn make_directories(&self, many: &[FilePath], parents: bool) -> Vec<Result<(), Error>> {
        let owner = owner(0o777);
        let operations: Vec<Small> = many.iter().map(|place| Small::MakeDirectory { place: place.clone(), owner, parents }).collect();
        self.names.many(&mut Tracer::off(), &operations, Vec::new()).into_iter().map(|outcome| outcome.map(drop)).collect()
    }

    /// Returns a file's size in bytes.
    pub(crate) fn size(&self, path: impl AsRef<[u8]>, attributes: &Attributes) -> Result<u64, Failure> {
        let handle = FileHandle::from_attributes(names::text(path.as_ref()), attributes).map_err(Failure::failed)?;
        self.data.size(&mut Tracer::off(), &handle).map_err(Failure::failed)
    }

    /// Returns a file's layout.
    pub(crate) fn file_layout(&self, path: &StorePath) -> Result<FileLayout, Failure> {
        let attributes = self.stat(&path.path)?;
        attributes
            .layout
            .map(|layout| (*layout).clone())
            .ok_or_else(|| Failure::failed(format!("{path}: not a file; only files have a layout")))
    }

    /// Returns the size of each datafile of a file in bytes.
    pub(crate) fn datafile_sizes(&self, path: &StorePath) -> Result<Vec<u64>, Failure> {
        let attributes = self.stat(&path.path)?;
        let handle = FileHandle::from_attributes(&path.path, &attributes).map_err(Failure::failed)?;
        let sizes = self.data.glimpse(&mut Tracer::off(), &handle).map_err(Failure::failed)?;
        Ok(sizes.iter().map(|s| s.size_bytes).collect())
    }

    /// Returns a symbolic link's target.
    pub(crate) fn read_symlink(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Failure> {
        self.names.read_symlink(&mut Tracer::off(), &FilePath::at(path.as_ref())).map_err(|e| named(e, path))
    }

    /// Renames a file or directory.
    pub(crate) fn rename(&self, from: &[u8], to: &[u8], replace: bool) -> Result<(), Failure> {
        let renamed = self.names.rename(&mut Tracer::off(), &FilePath::at(from), &FilePath::at(to), replace, &SetAttributes::default());
        renamed.map(drop).map_err(|e| named(e, from))
    }
}

/// Returns the owner and mode of new files and directories, with the process's umask applied.
fn owner(mode: u32) -> Owner {
    Owner { mode: mode & !umask(), uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}

/// The metadata service could not be reached, or the address is not one.
fn away(error: &Error, address: &str) -> Error {
    Error::new(error.kind(), format!("metadata service at {}: {}", without_pin(address), error.message()))
}

/// Adds the path to an error, unless it names the path already.
fn named(error: Error, path: impl AsRef<[u8]>) -> Failure {
    let path = names::text(path.as_ref());
    if error.message().contains(&path) || error.file().is_some() { Failure::failed(error) } else { Failure::failed(error.on_file(path)) }
}
