//! Lists, in one place, what each request to each service does besides giving an answer. A new request does not compile until it is listed
//! here.
//!
//! A read-only credential may send only requests that are [`Effect::Reads`]. The server resources such a client uses
//! (connections, open files, pages of a listing, a recording session) are limited per credential, and block no other client. An
//! open file keeps its bytes, as in any POSIX file system: a file removed while it is being read is freed when its readers close
//! it.

use super::common::CommonRequest;
use super::credentials::CredentialOperation;
use super::io::IoRequest;
use super::locks::LockOperation;
use super::lots::LotOperation;
use super::many::Small;
use super::metadata::Operation;
use crate::error::Result;
use crate::trust::Identity;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing and makes no other client wait.
    Reads,
    /// May make other clients wait for the sender.
    Holds,
    /// Changes something in the store.
    Changes,
    /// Internal to the servers of the store, or reads what no owner may: only with the store's own credential.
    Serves,
}

impl Effect {
    /// Refuses identities without the right to do this. (The service checks what an owner may do with a lot and the files in it.)
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Access`].
    pub fn allow(self, who: &Identity) -> Result<()> {
        match self {
            Effect::Reads => Ok(()),
            Effect::Holds | Effect::Changes => who.may_write(),
            Effect::Serves => who.may_serve(),
        }
    }
}

impl Operation {
    /// Returns what the operation does.
    pub fn effect(&self) -> Effect {
        match self {
            Operation::StoreMap
            | Operation::Stat { .. }
            | Operation::List { .. }
            | Operation::Open { write: false, .. }
            | Operation::Sync
            | Operation::Status
            | Operation::ReadSymlink { .. }
            | Operation::GetExtended { .. }
            | Operation::ListExtended { .. }
            | Operation::Drafts { .. } => Effect::Reads,
            Operation::Reopen { files } if files.iter().all(|(_, write)| !write) => Effect::Reads,
            Operation::Many { operations } if operations.iter().all(|one| one.effect() == Effect::Reads) => Effect::Reads,
            Operation::Lock(operation) => operation.effect(),
            Operation::Lot(operation) => operation.effect(),
            Operation::Credential(operation) => operation.effect(),
            Operation::Witness { .. } | Operation::Backup { .. } => Effect::Serves,
            Operation::MakeDirectory { .. }
            | Operation::Create { .. }
            | Operation::Open { write: true, .. }
            | Operation::Reopen { .. }
            | Operation::Rename { .. }
            | Operation::Unlink { .. }
            | Operation::RemoveDirectory { .. }
            | Operation::SetAttributes { .. }
            | Operation::Truncate { .. }
            | Operation::MakeFile { .. }
            | Operation::MakeNode { .. }
            | Operation::Link { .. }
            | Operation::Exchange { .. }
            | Operation::SetExtended { .. }
            | Operation::RemoveExtended { .. }
            | Operation::Relayout { .. }
            | Operation::Written { .. }
            | Operation::Many { .. }
            | Operation::RemoveDraft { .. }
            | Operation::Lost { .. } => Effect::Changes,
        }
    }
}

impl Small {
    /// Returns what the operation does.
    fn effect(&self) -> Effect {
        match self {
            Small::Stat { .. } => Effect::Reads,
            Small::Create(_)
            | Small::MakeFile(_)
            | Small::MakeDirectory { .. }
            | Small::Unlink { .. }
            | Small::RemoveDirectory { .. }
            | Small::Rename { .. }
            | Small::SetAttributes { .. }
            | Small::Written { .. }
            | Small::MakeNode { .. } => Effect::Changes,
        }
    }
}

impl LockOperation {
    /// Returns what the operation does. `Hello` counts as `Holds`: after a restart the service waits for clients that sent it.
    fn effect(&self) -> Effect {
        match self {
            LockOperation::Test { .. } => Effect::Reads,
            LockOperation::Hello { .. }
            | LockOperation::Claim { .. }
            | LockOperation::Grants { .. }
            | LockOperation::Lock { .. }
            | LockOperation::Cancel { .. }
            | LockOperation::Unlock { .. }
            | LockOperation::UnlockAll { .. } => Effect::Holds,
        }
    }
}

impl LotOperation {
    /// Returns what the operation does.
    fn effect(&self) -> Effect {
        match self {
            LotOperation::Show { .. } => Effect::Reads,
            LotOperation::Create { .. }
            | LotOperation::Renew { .. }
            | LotOperation::Resize { .. }
            | LotOperation::Remove { .. }
            | LotOperation::MoveHere { .. }
            | LotOperation::Reclaim { .. } => Effect::Changes,
        }
    }
}

impl CredentialOperation {
    /// Returns what the operation does. (All of them require the store's own credential.)
    fn effect(&self) -> Effect {
        match self {
            CredentialOperation::List => Effect::Reads,
            CredentialOperation::Register(_) | CredentialOperation::Revoke(_) => Effect::Changes,
        }
    }
}

impl IoRequest {
    /// Returns what the request does.
    pub fn effect(&self) -> Effect {
        match self {
            IoRequest::Targets
            | IoRequest::Read { .. }
            | IoRequest::Sync { .. }
            | IoRequest::Glimpse { .. }
            | IoRequest::Statfs
            | IoRequest::Seek { .. }
            | IoRequest::ReadMany { .. }
            | IoRequest::SyncAll
            | IoRequest::DataMap { .. } => Effect::Reads,
            IoRequest::Write { .. }
            | IoRequest::Append { .. }
            | IoRequest::Truncate { .. }
            | IoRequest::Remove { .. }
            | IoRequest::Allocate { .. }
            | IoRequest::WriteMany { .. } => Effect::Changes,
            IoRequest::Share(_) | IoRequest::Scrub(_) => Effect::Serves,
        }
    }
}

impl CommonRequest {
    /// Returns what the request does. A recording session affects its maker only.
    pub(crate) fn effect(&self) -> Effect {
        match self {
            CommonRequest::Hello(_)
            | CommonRequest::Clock
            | CommonRequest::RecordStart { .. }
            | CommonRequest::RecordFetch { .. }
            | CommonRequest::RecordStop { .. } => Effect::Reads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::examples;
    use crate::protocol::io::{DatafileId, FileId, TargetId};
    use crate::trust::{CredentialId, Rights};

    #[test]
    fn whatever_is_sent_to_an_io_server_only_reading_is_open_to_a_reading_credential() {
        let of = |rights| Identity { id: CredentialId([1; 16]), owner: "ana".into(), rights, until_s: None, lots: Default::default() };
        let (mut reads, mut changes, mut serves) = (0, 0, 0);
        let datafile = DatafileId { file: FileId(1), index: 0, target: TargetId(0), lot: None };
        for request in examples::io_requests(datafile) {
            let effect = request.effect();
            let may = |who: &Identity| effect.allow(who).is_ok();
            let counted = match effect {
                Effect::Reads => &mut reads,
                Effect::Changes | Effect::Holds => &mut changes,
                Effect::Serves => &mut serves,
            };
            *counted += 1;
            assert_eq!(may(&of(Rights::Read)), effect == Effect::Reads, "{request:?}");
            assert_eq!(may(&of(Rights::Write)), effect != Effect::Serves, "{request:?}");
            assert!(may(&Identity::store()), "{request:?}");
        }
        assert_eq!((reads, changes, serves), (9, 6, 2));
    }
}
