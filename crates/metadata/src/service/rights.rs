//! Requests allowed to connections of different credentials.

use super::session::ClientSession;
use super::{MetadataOptions, MetadataService};
use crate::database::Unwatched;
use crate::database::in_memory::InMemory;
use crate::lineage::WitnessReports;
use crate::lots::tests::simulated::{Disks, Fuse, HOUR_NS, MI, OWNER, Servers, map, owner};
use crate::namespace::Namespace;
use std::sync::Arc;
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::lots::{LotOperation, LotReport};
use thalweg_wire::protocol::metadata::*;
use thalweg_wire::trust::{Identity, Rights};
use thalweg_wire::{ErrorKind, Result};

pub(super) struct World {
    pub(super) service: Arc<MetadataService>,
    disks: Arc<Mutex<Disks>>,
}

impl World {
    pub(super) fn new() -> World {
        let disks: Arc<Mutex<Disks>> = Arc::default();
        let servers = Arc::new(Servers { disks: Arc::clone(&disks), fuse: Arc::new(Fuse::endless()) });
        let namespace = Arc::new(Namespace::open(Arc::new(InMemory::default()), map(), OWNER, &WitnessReports::default()).unwrap());
        let options = MetadataOptions::of_a_test("one");
        World { service: Arc::new(MetadataService::new(namespace, servers, options).unwrap()), disks }
    }

    pub(super) fn session(&self, who: Identity) -> ClientSession {
        ClientSession::new(Arc::clone(&self.service), Arc::new(who))
    }
}

pub(super) fn ask(session: &mut ClientSession, operation: Operation) -> Result<MetadataReply> {
    session.request(MetadataRequest::of(operation), &mut Unwatched)
}

pub(super) fn attributes(session: &mut ClientSession, operation: Operation) -> Attributes {
    match ask(session, operation).unwrap() {
        MetadataReply::Attributes(attributes) => attributes,
        other => panic!("{other:?}"),
    }
}

fn lots(session: &mut ClientSession, operation: LotOperation) -> Result<Vec<LotReport>> {
    match ask(session, Operation::Lot(operation))? {
        MetadataReply::Lots(reports) => Ok(reports),
        other => panic!("{other:?}"),
    }
}

pub(super) fn make(path: &str, lot: Option<LotId>) -> Operation {
    let layout = LayoutChoice { lot, ..LayoutChoice::default() };
    Operation::MakeFile { place: FilePath::at(path), owner: OWNER, existing: Existing::Refuse, layout, node: "n".into() }
}

fn new_lot(name: &str, for_ns: u64) -> LotOperation {
    let (name, size_bytes, targets) = (name.to_owned(), 64 * MI, Vec::new());
    LotOperation::Create { name, owner: None, size_bytes, for_ns, elastic: false, least: None, targets }
}

pub(super) fn open(path: &str, write: bool) -> Operation {
    Operation::Open { place: FilePath::at(path), write }
}

#[test]
fn a_connection_for_reading_is_refused_whatever_changes_something() {
    let world = World::new();
    attributes(&mut world.session(Identity::store()), make("/f", None));
    let mut reader = world.session(Identity { rights: Rights::Read, ..owner("carol") });
    let small = Small::Unlink { place: FilePath::at("/f"), only: None };
    for operation in [
        make("/g", None),
        open("/f", true),
        Operation::Truncate { place: FilePath::at("/f"), size_bytes: 0 },
        Operation::Unlink { place: FilePath::at("/f"), only: None },
        Operation::Many { operations: vec![small] },
        Operation::Lot(new_lot("x", HOUR_NS)),
    ] {
        let error = ask(&mut reader, operation).unwrap_err();
        assert!(error.kind() == ErrorKind::Access && error.to_string().contains("`carol` is for reading only"), "{error}");
    }
    attributes(&mut reader, open("/f", false));
    assert_eq!(lots(&mut reader, LotOperation::Show { name: None }).unwrap(), []);
}

#[test]
fn a_lots_files_are_opened_by_its_owner_and_are_not_reclaimed_while_they_are_open() {
    let world = World::new();
    let (mut alice, mut bob, mut store) = (world.session(owner("alice")), world.session(owner("bob")), world.session(Identity::store()));
    let lot = lots(&mut alice, new_lot("run", HOUR_NS)).unwrap()[0].lot.id;
    let made = attributes(&mut alice, make("/f", Some(lot)));
    let layout = made.layout.clone().unwrap();
    let datafiles = (0..).zip(&layout.targets);
    let datafiles =
        datafiles.map(|(index, target)| thalweg_wire::protocol::io::DatafileId { file: made.id, index, target: *target, lot: Some(lot) });
    world.disks.lock().datafiles.extend(datafiles.map(|id| (id, MI)));
    for write in [false, true] {
        let error = ask(&mut bob, open("/f", write)).unwrap_err();
        assert!(error.kind() == ErrorKind::Access && error.to_string().contains("lot `run` is `alice`'s"), "{error}");
    }
    let truncate = Operation::Truncate { place: FilePath::at("/f"), size_bytes: 0 };
    assert_eq!(ask(&mut bob, truncate).unwrap_err().kind(), ErrorKind::Access);
    // Bob falsely claims to have had it open.
    let MetadataReply::Opened(opened) = ask(&mut bob, Operation::Reopen { files: vec![(made.id, true)] }).unwrap() else { panic!() };
    assert_eq!(opened, []);
    let opened = attributes(&mut alice, open("/f", true));
    lots(&mut alice, LotOperation::Renew { name: "run".into(), for_ns: 0 }).unwrap();
    let reclaim = LotOperation::Reclaim { target: TargetId(0), bytes: MI };
    assert_eq!(lots(&mut alice, reclaim.clone()).unwrap_err().kind(), ErrorKind::Access);
    assert_eq!(lots(&mut store, reclaim.clone()).unwrap_err().kind(), ErrorKind::NoSpace);
    let closed = vec![Closed { file: opened.id, write: true, end: End::Unknown }];
    alice.request(MetadataRequest { closed, directory: None, number: None, operation: Operation::StoreMap }, &mut Unwatched).unwrap();
    assert_eq!(lots(&mut store, reclaim).unwrap().len(), 1);
    assert_eq!(ask(&mut alice, open("/f", false)).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(world.disks.lock().datafiles.is_empty());
}
