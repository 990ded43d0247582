//! The limits of a read-only credential: every operation of the protocol ([`examples`]) is tried.

use super::session::ClientSession;
use super::{MetadataOptions, MetadataService};
use crate::database::in_memory::InMemory;
use crate::database::tests::everything;
use crate::database::{Database, Unwatched};
use crate::lineage::WitnessReports;
use crate::lots::tests::simulated::{Disks, Fuse, OWNER, Servers, map, owner};
use crate::namespace::Namespace;
use std::sync::Arc;
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::effects::Effect;
use thalweg_wire::protocol::examples;
use thalweg_wire::protocol::locks::{LockKind, LockOperation, LockRange, LockRequest, LockSpace};
use thalweg_wire::protocol::metadata::*;
use thalweg_wire::trust::{Identity, Rights};
use thalweg_wire::{ErrorKind, Result};

fn lock(space: LockSpace, file: FileId) -> LockRequest {
    LockRequest { range: LockRange::whole(file, space, 1), kind: LockKind::Exclusive, pid: 1 }
}

#[test]
fn a_reading_credential_neither_changes_nor_holds_up_anything_whatever_it_sends() {
    let database: Arc<dyn Database> = Arc::new(InMemory::default());
    let disks: Arc<Mutex<Disks>> = Arc::default();
    let servers = Arc::new(Servers { disks, fuse: Arc::new(Fuse::endless()) });
    let namespace = Arc::new(Namespace::open(Arc::clone(&database), map(), OWNER, &WitnessReports::default()).unwrap());
    let service = Arc::new(MetadataService::new(namespace, servers, MetadataOptions::of_a_test("one")).unwrap());
    let session = |who: Identity| ClientSession::new(Arc::clone(&service), Arc::new(who));
    let ask = |session: &mut ClientSession, operation: Operation, number: u64| -> Result<MetadataReply> {
        let number = Some(RequestNumber { client: 9, line: 0, number });
        session.request(MetadataRequest { closed: Vec::new(), directory: None, number, operation }, &mut Unwatched)
    };
    let names = service.namespace().for_store();
    let choice = LayoutChoice::default();
    let file = names.create(&mut Unwatched, &FilePath::at("/f"), OWNER, Existing::Refuse, &choice, "n").unwrap().0.id;
    names.make_directory(&mut Unwatched, &FilePath::at("/d"), OWNER, false).unwrap();
    let before = everything(&*database);
    let mut reader = session(Identity { rights: Rights::Read, ..owner("carol") });
    let (mut answered, mut refused) = (0, 0);
    for (number, operation) in (1..).zip(examples::operations(file)) {
        let (effect, shown) = (operation.effect(), format!("{operation:?}"));
        let result = ask(&mut reader, operation, number);
        let is_refused = result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Access);
        match effect {
            Effect::Reads if !shown.starts_with("Credential") => {
                assert!(!is_refused, "{shown}: {result:?}");
                answered += 1;
            }
            _ => {
                assert!(is_refused, "{shown}: {result:?}");
                refused += 1;
            }
        }
        assert_eq!(everything(&*database), before, "{shown}");
        assert_eq!(service.status().unwrap().lock_waits + service.status().unwrap().locks, 0, "{shown}");
    }
    assert!(answered >= 14 && refused >= 40, "{answered} answered, {refused} refused");
    // A writer gets its turn immediately while the reader is connected.
    let mut writer = session(owner("ana"));
    for operation in [
        LockOperation::Hello { client: 8 },
        LockOperation::Lock { request: lock(LockSpace::Append, file), ticket: None },
        LockOperation::Lock { request: lock(LockSpace::Record, file), ticket: None },
    ] {
        ask(&mut writer, Operation::Lock(operation), 1).unwrap();
    }
}
