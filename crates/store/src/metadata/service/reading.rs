//! What a credential for reading can do, whatever it sends: every operation of the protocol, one after the other.

use super::session::ClientSession;
use super::{MetadataOptions, MetadataService};
use crate::error::{ErrorKind, Result};
use crate::metadata::database::in_memory::InMemory;
use crate::metadata::database::tests::everything;
use crate::metadata::database::{Database, Unwatched};
use crate::metadata::lineage::Seen;
use crate::metadata::lots::tests::made_up::{Disks, Fuse, OWNER, Servers, map, owner};
use crate::metadata::namespace::Namespace;
use crate::protocol::common::Witnessed;
use crate::protocol::credentials::CredentialOperation;
use crate::protocol::effects::Effect;
use crate::protocol::locks::{LockKind, LockOperation, LockRange, LockRequest, LockSpace};
use crate::protocol::lost::Lost;
use crate::protocol::lots::LotOperation;
use crate::protocol::metadata::*;
use crate::sync::Mutex;
use crate::trust::{Identity, Rights};
use std::sync::Arc;

/// Examples of each kind, where `$examples` are; a kind that is added does not compile until it has one.
macro_rules! each {
    ($kind:ty: $($pattern:pat => $example:expr),+ $(,)?) => {{
        let stands_here = |operation: &$kind| match operation { $($pattern => {}),+ };
        let all: Vec<$kind> = vec![$($example),+];
        all.iter().for_each(stands_here);
        all
    }};
}

fn lock(space: LockSpace, file: FileId) -> LockRequest {
    LockRequest { range: LockRange::whole(file, space, 1), kind: LockKind::Exclusive, pid: 1 }
}

fn lock_operations(file: FileId) -> Vec<LockOperation> {
    let request = lock(LockSpace::Append, file);
    each! { LockOperation:
        LockOperation::Test { .. } => LockOperation::Test { request },
        LockOperation::Hello { .. } => LockOperation::Hello { client: 7 },
        LockOperation::Claim { .. } => LockOperation::Claim { locks: vec![request], last: true },
        LockOperation::Grants { .. } => LockOperation::Grants { client: 7, wait_ms: 0 },
        LockOperation::Lock { .. } => LockOperation::Lock { request, ticket: Some(1) },
        LockOperation::Cancel { .. } => LockOperation::Cancel { ticket: 1, request },
        LockOperation::Unlock { .. } => LockOperation::Unlock { range: request.range },
        LockOperation::UnlockAll { .. } => LockOperation::UnlockAll { file, owner: 1 },
    }
}

fn lot_operations() -> Vec<LotOperation> {
    let name = || "run".to_owned();
    let (size_bytes, for_ns, target) = (1 << 20, 1 << 40, TargetId(0));
    each! { LotOperation:
        LotOperation::Show { .. } => LotOperation::Show { name: None },
        LotOperation::Create { .. } => LotOperation::Create {
            name: name(), owner: None, size_bytes, for_ns, elastic: false, least: None, targets: Vec::new(),
        },
        LotOperation::Renew { .. } => LotOperation::Renew { name: name(), for_ns },
        LotOperation::Resize { .. } => LotOperation::Resize { name: name(), size_bytes },
        LotOperation::Remove { .. } => LotOperation::Remove { name: name(), files: true },
        LotOperation::MoveHere { .. } => LotOperation::MoveHere { lot: LotId(1), target, bytes: 1 },
        LotOperation::Reclaim { .. } => LotOperation::Reclaim { target, bytes: 1 },
    }
}

fn small_operations(file: FileId) -> Vec<Small> {
    let place = || Place::at("/small");
    let new = || NewFile { place: place(), owner: OWNER, existing: Existing::Refuse, layout: LayoutChoice::default(), node: "n".into() };
    each! { Small:
        Small::Stat { .. } => Small::Stat { place: Place::at("/f"), sizes: true },
        Small::Create(_) => Small::Create(new()),
        Small::MakeFile(_) => Small::MakeFile(new()),
        Small::MakeDirectory { .. } => Small::MakeDirectory { place: place(), owner: OWNER, parents: false },
        Small::Unlink { .. } => Small::Unlink { place: Place::at("/f"), only: None },
        Small::RemoveDirectory { .. } => Small::RemoveDirectory { place: Place::at("/d") },
        Small::Rename { .. } => Small::Rename { from: Place::at("/f"), only: None, to: place(), replace: true, set: SetAttributes::default() },
        Small::SetAttributes { .. } => Small::SetAttributes { place: Place::at("/f"), set: SetAttributes::default() },
        Small::Written { .. } => Small::Written { file, size_bytes: 1 },
        Small::MakeNode { .. } => Small::MakeNode { place: place(), node: NewNode::Fifo, owner: OWNER },
    }
}

/// Every operation, on a store with the file `/f` and the empty directory `/d`.
fn operations(file: FileId) -> Vec<Operation> {
    let (at, new, node, name) = (|path: &str| Place::at(path), Place::at("/new"), || "n".to_owned(), b"user.x".to_vec());
    let (layout, set, only) = (LayoutChoice::default(), SetAttributes::default(), None);
    let seen = Witnessed::default();
    let mut all = each! { Operation:
        Operation::StoreMap => Operation::StoreMap,
        Operation::Stat { .. } => Operation::Stat { places: vec![at("/f")], sizes: true },
        Operation::List { .. } => Operation::List { place: at("/"), after: After::Nothing, most: 9, detail: Detail::Sizes, walk: 1 },
        Operation::MakeDirectory { .. } => Operation::MakeDirectory { place: new.clone(), owner: OWNER, parents: true },
        Operation::Create { .. } => Operation::Create {
            place: new.clone(), owner: OWNER, existing: Existing::Replace, layout: layout.clone(), node: node(),
        },
        Operation::Open { .. } => Operation::Open { place: at("/f"), write: true },
        Operation::Reopen { .. } => Operation::Reopen { files: vec![(file, true)] },
        Operation::Rename { .. } => Operation::Rename { from: at("/f"), only, to: new.clone(), replace: true, set: set.clone() },
        Operation::Unlink { .. } => Operation::Unlink { place: at("/f"), only },
        Operation::RemoveDirectory { .. } => Operation::RemoveDirectory { place: at("/d") },
        Operation::SetAttributes { .. } => Operation::SetAttributes { place: at("/f"), set },
        Operation::Truncate { .. } => Operation::Truncate { place: at("/f"), size_bytes: 0 },
        Operation::Sync => Operation::Sync,
        Operation::Status => Operation::Status,
        Operation::MakeFile { .. } => Operation::MakeFile {
            place: new.clone(), owner: OWNER, existing: Existing::Refuse, layout: layout.clone(), node: node(),
        },
        Operation::MakeNode { .. } => Operation::MakeNode { place: new.clone(), node: NewNode::Fifo, owner: OWNER },
        Operation::ReadSymlink { .. } => Operation::ReadSymlink { place: at("/f") },
        Operation::Link { .. } => Operation::Link { file: at("/f"), to: new.clone() },
        Operation::Exchange { .. } => Operation::Exchange { one: at("/f"), other: at("/d") },
        Operation::GetExtended { .. } => Operation::GetExtended { place: at("/f"), name: name.clone() },
        Operation::ListExtended { .. } => Operation::ListExtended { place: at("/f") },
        Operation::SetExtended { .. } => Operation::SetExtended { place: at("/f"), name: name.clone(), value: Vec::new(), how: SetExtended::Either },
        Operation::RemoveExtended { .. } => Operation::RemoveExtended { place: at("/f"), name },
        Operation::Relayout { .. } => Operation::Relayout { place: at("/f"), layout, node: node() },
        Operation::Written { .. } => Operation::Written { file, size_bytes: 1 },
        Operation::Lock(_) => Operation::Lock(LockOperation::Test { request: lock(LockSpace::Flock, file) }),
        Operation::Many { .. } => Operation::Many { operations: small_operations(file) },
        Operation::Drafts { .. } => Operation::Drafts { after: None },
        Operation::RemoveDraft { .. } => Operation::RemoveDraft { file, abandoned_for_ns: 0 },
        Operation::Witness { .. } => Operation::Witness { server: "io0".into(), seen, revision: 0 },
        Operation::Lost { .. } => Operation::Lost { file, lost: Lost::default(), mended: Lost::default() },
        Operation::Lot(_) => Operation::Lot(LotOperation::Show { name: None }),
        Operation::Credential(_) => Operation::Credential(CredentialOperation::List),
    };
    all.extend(lock_operations(file).into_iter().map(Operation::Lock));
    all.extend(lot_operations().into_iter().map(Operation::Lot));
    all.extend(small_operations(file).into_iter().map(|one| Operation::Many { operations: vec![one] }));
    all.extend([
        Operation::Open { place: at("/f"), write: false },
        Operation::Reopen { files: vec![(file, false)] },
        Operation::Credential(CredentialOperation::Register(owner("eve"))),
        Operation::Credential(CredentialOperation::Revoke(vec![owner("ana").id])),
    ]);
    all
}

#[test]
fn a_reading_credential_neither_changes_nor_holds_up_anything_whatever_it_sends() {
    let database: Arc<dyn Database> = Arc::new(InMemory::default());
    let disks: Arc<Mutex<Disks>> = Arc::default();
    let servers = Arc::new(Servers { disks, fuse: Arc::new(Fuse::endless()) });
    let namespace = Arc::new(Namespace::open(Arc::clone(&database), map(), OWNER, &Seen::default()).unwrap());
    let service = Arc::new(MetadataService::new(namespace, servers, MetadataOptions::of_a_test("one")).unwrap());
    let session = |who: Identity| ClientSession::new(Arc::clone(&service), Arc::new(who));
    let ask = |session: &mut ClientSession, operation: Operation, number: u64| -> Result<MetadataReply> {
        let number = Some(RequestNumber { client: 9, line: 0, number });
        session.request(MetadataRequest { closed: Vec::new(), directory: None, number, operation }, &mut Unwatched)
    };
    let names = service.namespace().for_store();
    let choice = LayoutChoice::default();
    let file = names.create(&mut Unwatched, &Place::at("/f"), OWNER, Existing::Refuse, &choice, "n").unwrap().0.id;
    names.make_directory(&mut Unwatched, &Place::at("/d"), OWNER, false).unwrap();
    let before = everything(&*database);
    let mut reader = session(Identity { rights: Rights::Read, ..owner("carol") });
    let (mut answered, mut refused) = (0, 0);
    for (number, operation) in (1..).zip(operations(file)) {
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
    // A writer has its turn at once, while the reader is there.
    let mut writer = session(owner("ana"));
    for operation in [
        LockOperation::Hello { client: 8 },
        LockOperation::Lock { request: lock(LockSpace::Append, file), ticket: None },
        LockOperation::Lock { request: lock(LockSpace::Record, file), ticket: None },
    ] {
        ask(&mut writer, Operation::Lock(operation), 1).unwrap();
    }
}
