//! The callers, and the outcomes of their attempts.

use super::super::{connection, derived, derived_with};
use crate::common::{Servers, scratch};
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::common::{CommonReply, CommonRequest};
use thalweg_wire::protocol::io::{DatafileId, Durability, IoReply, IoRequest};
use thalweg_wire::protocol::lots::LotOperation;
use thalweg_wire::protocol::metadata::{
    Attributes, Existing, FilePath, LayoutChoice, LotId, MetadataReply, MetadataRequest, Operation, Owner, SetAttributes,
};
use thalweg_wire::trust::{Credential, Rights};
use thalweg_wire::{Connection, Kind};
use thalweg_wire::{Error, ErrorKind, Result};

/// The owner of files created here, a user of clients' machines, unless a probe sets another.
pub(super) const USER: Owner = Owner { mode: 0o640, uid: 7, gid: 7 };

/// The kind of credential. There are two read-only ones: the store's, and an owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Store,
    Owner,
    StoreReading,
    OwnerReading,
    Nobody,
}

impl Who {
    pub(super) const ALL: [Who; 5] = [Who::Store, Who::Owner, Who::StoreReading, Who::OwnerReading, Who::Nobody];

    pub(super) fn column(self) -> usize {
        match self {
            Who::Store => 0,
            Who::Owner => 1,
            Who::StoreReading | Who::OwnerReading => 2,
            Who::Nobody => 3,
        }
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// EACCES.
    Refused,
    /// EPERM.
    NotPermitted,
    /// EDQUOT: beyond a bound.
    Past,
    /// An empty answer.
    Empty,
    /// A lock that makes another client wait.
    HoldsUp,
    /// This many, then no more.
    Many(usize),
    /// The new file belongs to this user and group.
    Of(u32),
    /// No connection could be made.
    Outside,
    /// Another error, which no cell allows.
    Failed(ErrorKind),
}

impl From<ErrorKind> for Outcome {
    fn from(kind: ErrorKind) -> Outcome {
        match kind {
            ErrorKind::Access => Outcome::Refused,
            ErrorKind::NotPermitted => Outcome::NotPermitted,
            ErrorKind::Quota => Outcome::Past,
            other => Outcome::Failed(other),
        }
    }
}

/// Labels and outcomes of a row's attempts.
pub(super) type Attempts = Vec<(&'static str, Outcome)>;

/// A store of one I/O server, and credentials of every kind: `ana` is the owner under test, `bob` another owner.
pub(super) struct World {
    pub store: Servers,
    pub ana: PathBuf,
    pub bob: PathBuf,
    anas_reading: PathBuf,
    /// The own credential of another store with the same number.
    foreign: PathBuf,
    pub anas_lot: LotId,
    pub bobs_lot: LotId,
    own: RefCell<Option<Asker>>,
    _here: tempfile::TempDir,
}

/// A file that a probe uses.
pub(super) struct ProbedFile {
    pub path: String,
    pub datafile: DatafileId,
}

impl ProbedFile {
    pub(super) const BYTES: &'static [u8] = b"bytes of somebody";

    pub(super) fn place(&self) -> FilePath {
        FilePath::at(&self.path)
    }

    /// Returns a new name in its directory.
    pub(super) fn beside(&self) -> FilePath {
        let (directory, _) = self.path.rsplit_once('/').expect("a path from the root");
        FilePath::at(format!("{directory}{}", new_name()))
    }

    /// Returns the file by its number.
    pub(super) fn itself(&self) -> FilePath {
        FilePath::of(self.datafile.file)
    }
}

/// Returns an unused name.
pub(super) fn new_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("/{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the directory for files of a lot.
fn directory_of(lot: Option<LotId>) -> String {
    lot.map_or_else(String::new, |lot| format!("/of-lot-{lot}"))
}

impl World {
    pub(super) fn new() -> World {
        let (store, here) = (Servers::start(1), scratch());
        let own = store.credential();
        let at = |name: &str| here.path().join(name);
        let foreign = at("foreign");
        Credential::new_store(Credential::read(&own).unwrap().store).write(&foreign).unwrap();
        let mut world = World {
            ana: derived(&own, "ana", None, at("ana")),
            bob: derived(&own, "bob", None, at("bob")),
            anas_reading: derived_with(&own, ("ana", Rights::Read), None, at("anas_reading")),
            foreign,
            anas_lot: LotId(0),
            bobs_lot: LotId(0),
            store,
            own: RefCell::default(),
            _here: here,
        };
        world.anas_lot = world.lot("ana");
        world.bobs_lot = world.lot("bob");
        world
    }

    /// Creates a lot for this owner, and a directory whose new files are in it.
    fn lot(&self, owner: &str) -> LotId {
        let create = LotOperation::Create {
            name: format!("of-{owner}"),
            owner: Some(owner.into()),
            size_bytes: 4 << 20,
            for_ns: 3_600_000_000_000,
            elastic: false,
            least: None,
            targets: Vec::new(),
        };
        let mut store = self.as_store();
        let Ok(MetadataReply::Lots(reports)) = store.ask(Operation::Lot(create)) else { panic!("there is room for a lot") };
        let lot = reports[0].lot.id;
        let place = || FilePath::at(directory_of(Some(lot)));
        let default_layout = Some(Some(LayoutChoice { lot: Some(lot), ..LayoutChoice::default() }));
        for operation in [
            Operation::MakeDirectory { place: place(), owner: USER, parents: false },
            Operation::SetAttributes { place: place(), set: SetAttributes { default_layout, ..SetAttributes::default() } },
        ] {
            assert_eq!(store.try_to(operation), Outcome::Done);
        }
        lot
    }

    pub(super) fn as_store(&self) -> Asker {
        Asker::new(self, Who::Store)
    }

    /// Runs `work` with the store's own credential, on connections kept for that.
    pub(super) fn with_store<T>(&self, work: impl FnOnce(&mut Asker) -> T) -> T {
        work(self.own.borrow_mut().get_or_insert_with(|| self.as_store()))
    }

    pub(super) fn credential(&self, who: Who) -> PathBuf {
        match who {
            Who::Store => self.store.credential(),
            Who::Owner => self.ana.clone(),
            Who::StoreReading => self.store.read_only(),
            Who::OwnerReading => self.anas_reading.clone(),
            Who::Nobody => self.foreign.clone(),
        }
    }

    /// Connects with the credential in this file to the metadata service (0) or the I/O server (1).
    pub(super) fn connect(&self, number: usize, credential: &std::path::Path) -> Result<Connection> {
        connection(&self.store.store, number, credential)
    }

    /// Creates a file with bytes, in this lot or in none.
    pub(super) fn file(&self, lot: Option<LotId>) -> ProbedFile {
        self.file_at(format!("{}{}", directory_of(lot), new_name()), lot)
    }

    /// Creates a file with bytes under this name.
    pub(super) fn file_at(&self, path: String, lot: Option<LotId>) -> ProbedFile {
        let datafile = self.with_store(|store| {
            let made = store.attributes(make(&path, USER, lot)).expect("the store makes it");
            let target = made.layout.expect("a file has one").targets[0];
            let datafile = DatafileId { file: made.id, index: 0, target, lot };
            let write = IoRequest::Write { datafile, offset: 0, durability: Durability::Returned };
            store.io_with(&write, ProbedFile::BYTES).expect("the store writes it");
            store.ask(Operation::Written { file: made.id, size_bytes: ProbedFile::BYTES.len() as u64 }).expect("it is written");
            datafile
        });
        ProbedFile { path, datafile }
    }

    /// Creates a file in no lot, one in `ana`'s, and one in `bob`'s.
    pub(super) fn three_files(&self) -> [ProbedFile; 3] {
        [None, Some(self.anas_lot), Some(self.bobs_lot)].map(|lot| self.file(lot))
    }
}

/// Returns the request to create a file without opening it.
pub(super) fn make(path: &str, owner: Owner, lot: Option<LotId>) -> Operation {
    let layout = LayoutChoice { lot, ..LayoutChoice::default() };
    Operation::MakeFile { place: FilePath::at(path), owner, existing: Existing::Refuse, layout, node: String::new() }
}

/// A client with one credential.
pub(super) struct Asker {
    metadata: Option<Connection>,
    io: Option<Connection>,
}

impl Asker {
    pub(super) fn new(world: &World, who: Who) -> Asker {
        let credential = world.credential(who);
        let [metadata, io] = [0, 1].map(|number| world.connect(number, &credential));
        if who == Who::Nobody {
            for refused in [metadata, io] {
                let error = refused.err().expect("a credential of another store opens nothing");
                assert_eq!(error.kind(), ErrorKind::Access, "{error}");
            }
            return Asker { metadata: None, io: None };
        }
        Asker { metadata: Some(metadata.unwrap()), io: Some(io.unwrap()) }
    }

    pub(super) fn ask(&mut self, operation: Operation) -> Result<MetadataReply, Outcome> {
        let connection = self.metadata.as_mut().ok_or(Outcome::Outside)?;
        connection.call(&mut Tracer::off(), Kind::Metadata, &MetadataRequest::of(operation)).map_err(kind)
    }

    pub(super) fn io_with(&mut self, request: &IoRequest, payload: &[u8]) -> Result<(IoReply, Vec<u8>), Outcome> {
        let connection = self.io.as_mut().ok_or(Outcome::Outside)?;
        connection.call_with(&mut Tracer::off(), Kind::Io, request, payload).map_err(kind)
    }

    /// Sends a request that every server answers to the I/O server.
    pub(super) fn common(&mut self, request: &CommonRequest) -> Result<CommonReply, Outcome> {
        let connection = self.io.as_mut().ok_or(Outcome::Outside)?;
        connection.call(&mut Tracer::off(), Kind::Common, request).map_err(kind)
    }

    pub(super) fn attributes(&mut self, operation: Operation) -> Result<Attributes, Outcome> {
        match self.ask(operation)? {
            MetadataReply::Attributes(attributes) => Ok(attributes),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn try_to(&mut self, operation: Operation) -> Outcome {
        done(self.ask(operation))
    }

    pub(super) fn try_io(&mut self, request: &IoRequest, payload: &[u8]) -> Outcome {
        done(self.io_with(request, payload))
    }

    /// Returns the start of the metadata service of its connections.
    pub(super) fn service(&self) -> Option<thalweg_wire::protocol::common::ServiceStart> {
        self.metadata.as_ref().map(|connection| connection.hello().service_start)
    }
}

fn kind(error: Error) -> Outcome {
    Outcome::from(error.kind())
}

pub(super) fn done<T>(result: Result<T, Outcome>) -> Outcome {
    result.map_or_else(|outcome| outcome, |_| Outcome::Done)
}
