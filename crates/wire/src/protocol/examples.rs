//! An example of each request, for tests that send them all: what each credential may do, and what a hostile client can do. A new
//! request does not compile until it has an example here.

use super::common::{CommonRequest, Witnessed};
use super::credentials::CredentialOperation;
use super::io::{Allocate, DatafileId, Durability, IoRequest, Seek};
use super::locks::{LockKind, LockOperation, LockRange, LockRequest, LockSpace};
use super::lost::Lost;
use super::lots::{LotOperation, ShareRequest};
use super::metadata::*;
use super::scrub::{ScrubCursor, ScrubRequest};
use crate::trust::{CredentialId, Identity, LotBounds, Rights};
use thalweg_trace::{HostId, IdSpace};

const OWNER: Owner = Owner { mode: 0o644, uid: 7, gid: 7 };

/// Lists examples of an enum's variants; fails to compile if a variant has none.
macro_rules! each {
    ($kind:ty: $($pattern:pat => $example:expr),+ $(,)?) => {{
        let stands_here = |operation: &$kind| match operation { $($pattern => {}),+ };
        let all: Vec<$kind> = vec![$($example),+];
        all.iter().for_each(stands_here);
        all
    }};
}

fn lock_request(file: FileId, space: LockSpace) -> LockRequest {
    LockRequest { range: LockRange::whole(file, space, 1), kind: LockKind::Exclusive, pid: 1 }
}

fn identity(owner: &str) -> Identity {
    Identity { id: CredentialId([1; 16]), owner: owner.into(), rights: Rights::Write, until_s: None, lots: LotBounds::default() }
}

fn lock_operations(file: FileId) -> Vec<LockOperation> {
    let request = lock_request(file, LockSpace::Append);
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
    let place = || FilePath::at("/small");
    let new = || NewFile { place: place(), owner: OWNER, existing: Existing::Refuse, layout: LayoutChoice::default(), node: "n".into() };
    each! { Small:
        Small::Stat { .. } => Small::Stat { place: FilePath::at("/f"), sizes: true },
        Small::Create(_) => Small::Create(new()),
        Small::MakeFile(_) => Small::MakeFile(new()),
        Small::MakeDirectory { .. } => Small::MakeDirectory { place: place(), owner: OWNER, parents: false },
        Small::Unlink { .. } => Small::Unlink { place: FilePath::at("/f"), only: None },
        Small::RemoveDirectory { .. } => Small::RemoveDirectory { place: FilePath::at("/d") },
        Small::Rename { .. } => Small::Rename { from: FilePath::at("/f"), only: None, to: place(), replace: true, set: SetAttributes::default() },
        Small::SetAttributes { .. } => Small::SetAttributes { place: FilePath::at("/f"), set: SetAttributes::default() },
        Small::Written { .. } => Small::Written { file, size_bytes: 1 },
        Small::MakeNode { .. } => Small::MakeNode { place: place(), node: NewNode::Fifo, owner: OWNER },
    }
}

/// Returns every request to the metadata service, for a store with the file `/f` and the empty directory `/d`.
pub fn operations(file: FileId) -> Vec<Operation> {
    let (at, new, node, name) = (|path: &str| FilePath::at(path), FilePath::at("/new"), || "n".to_owned(), b"user.x".to_vec());
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
        Operation::Lock(_) => Operation::Lock(LockOperation::Test { request: lock_request(file, LockSpace::Flock) }),
        Operation::Many { .. } => Operation::Many { operations: small_operations(file) },
        Operation::Drafts { .. } => Operation::Drafts { after: None },
        Operation::RemoveDraft { .. } => Operation::RemoveDraft { file, abandoned_for_ns: 0 },
        Operation::Witness { .. } => Operation::Witness { server: "io0".into(), seen, revision: 0 },
        Operation::Lost { .. } => Operation::Lost { file, lost: Lost::default(), mended: Lost::default() },
        Operation::Lot(_) => Operation::Lot(LotOperation::Show { name: None }),
        Operation::Credential(_) => Operation::Credential(CredentialOperation::List),
        Operation::Backup { .. } => Operation::Backup { part: 0 },
    };
    all.extend(lock_operations(file).into_iter().map(Operation::Lock));
    all.extend(lot_operations().into_iter().map(Operation::Lot));
    all.extend(small_operations(file).into_iter().map(|one| Operation::Many { operations: vec![one] }));
    all.extend([
        Operation::Open { place: at("/f"), write: false },
        Operation::Reopen { files: vec![(file, false)] },
        Operation::Credential(CredentialOperation::Register(identity("eve"))),
        Operation::Credential(CredentialOperation::Revoke(vec![identity("ana").id])),
    ]);
    all
}

/// Returns every request to an I/O server, for this datafile.
pub fn io_requests(datafile: DatafileId) -> Vec<IoRequest> {
    let (datafiles, durability) = (vec![datafile], Durability::Returned);
    each! { IoRequest:
        IoRequest::Targets => IoRequest::Targets,
        IoRequest::Write { .. } => IoRequest::Write { datafile, offset: 0, durability },
        IoRequest::Read { .. } => IoRequest::Read { datafile, offset: 0, length: 1 },
        IoRequest::Sync { .. } => IoRequest::Sync { datafiles: datafiles.clone() },
        IoRequest::Glimpse { .. } => IoRequest::Glimpse { datafiles: datafiles.clone() },
        IoRequest::Truncate { .. } => IoRequest::Truncate { datafiles: vec![(datafile, 0)] },
        IoRequest::Remove { .. } => IoRequest::Remove { datafiles },
        IoRequest::Statfs => IoRequest::Statfs,
        IoRequest::Allocate { .. } => IoRequest::Allocate { datafiles: vec![(datafile, 0, 1)], how: Allocate::Extend },
        IoRequest::Seek { .. } => IoRequest::Seek { datafiles: vec![(datafile, 0)], what: Seek::Data },
        IoRequest::WriteMany { .. } => IoRequest::WriteMany { writes: vec![(datafile, 0, 1)], durability },
        IoRequest::ReadMany { .. } => IoRequest::ReadMany { reads: vec![(datafile, 0, 1)] },
        IoRequest::SyncAll => IoRequest::SyncAll,
        IoRequest::DataMap { .. } => IoRequest::DataMap { datafiles: vec![(datafile, 0, 1)] },
        IoRequest::Share(_) => IoRequest::Share(ShareRequest::List),
        IoRequest::Append { .. } => IoRequest::Append { datafile, offset: 0, durability },
        IoRequest::Scrub(_) => {
            IoRequest::Scrub(ScrubRequest::Page { target: datafile.target, from: ScrubCursor::default(), most_bytes: 1 })
        },
    }
}

/// Returns every request common to all servers, except `Hello`.
pub fn common_requests() -> Vec<CommonRequest> {
    let session = 1;
    each! { CommonRequest:
        CommonRequest::Clock | CommonRequest::Hello(_) => CommonRequest::Clock,
        CommonRequest::RecordStart { .. } => CommonRequest::RecordStart { host: HostId(1), space: IdSpace(1) },
        CommonRequest::RecordFetch { .. } => CommonRequest::RecordFetch { session },
        CommonRequest::RecordStop { .. } => CommonRequest::RecordStop { session },
    }
}
