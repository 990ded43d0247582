//! The namespace as one client may use it. Every operation that changes a name or a file is a method of [`Caller`], so that each has an
//! identity.

use super::Namespace;
use super::makers;
use super::tree::{find, inode, on};
use crate::database::{View, read};
use crate::inode::{Inode, Node};
use crate::lots::rules;
use std::cell::Cell;
use std::ops::Deref;
use std::sync::LazyLock;
use thalweg_wire::protocol::metadata::{FileId, FilePath, LotId, RequestNumber};
use thalweg_wire::trust::{Identity, Rights};
use thalweg_wire::{ErrorKind, Result};

/// The store's own identity, for the service's own operations.
static STORE: LazyLock<Identity> = LazyLock::new(Identity::store);

/// The namespace with the identity of a client.
pub(crate) struct Caller<'a> {
    pub(super) namespace: &'a Namespace,
    pub(crate) who: &'a Identity,
    pub(super) request: Option<RequestNumber>,
    pub(super) was_done: Cell<bool>,
}

impl Deref for Caller<'_> {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        self.namespace
    }
}

impl Namespace {
    /// Returns the namespace as this client may use it.
    pub(crate) fn called_by<'a>(&'a self, who: &'a Identity) -> Caller<'a> {
        Caller { namespace: self, who, request: None, was_done: Cell::new(false) }
    }

    /// Returns the namespace as the store itself may use it.
    pub(crate) fn for_store(&self) -> Caller<'_> {
        self.called_by(&STORE)
    }
}

impl Caller<'_> {
    /// Refuses a change in a lot that the caller does not own.
    pub(super) fn may_use<V: View + ?Sized>(&self, view: &V, lot: Option<LotId>) -> Result<()> {
        rules::may_use(view, self.who, lot)
    }

    /// Refuses a change of a file or directory in a lot that the caller does not own.
    pub(super) fn may_change<V: View + ?Sized>(&self, view: &V, id: FileId) -> Result<()> {
        // The store may change everything, so nothing is read.
        if self.who.rights == Rights::Store { Ok(()) } else { self.may_alter(view, (id, &inode(view, id)?)) }
    }

    /// Refuses a change of an inode already read. A directory belongs to its maker, whatever its lot; its contents do not.
    pub(super) fn may_alter<V: View + ?Sized>(&self, view: &V, (id, of): (FileId, &Inode)) -> Result<()> {
        match self.may_use(view, of.lot()) {
            Err(refused) if refused.kind() == ErrorKind::Access && matches!(of.node, Node::Directory { .. }) => {
                if makers::is_of(view, id, self.who)? { Ok(()) } else { Err(refused) }
            }
            other => other,
        }
    }

    /// Refuses to open a file in a lot that the caller may not read or write, or that is being removed. Returns the file's number.
    ///
    /// # Errors
    /// [`ErrorKind::Access`] that names the lot and its owner, [`ErrorKind::Busy`], and those of [`Namespace::stat`].
    pub(crate) fn may_open(&self, place: &FilePath, write: bool) -> Result<FileId> {
        on(
            place,
            read(&**self.database(), |view| {
                let id = find(view, place)?;
                rules::may_open(view, self.who, inode(view, id)?.lot(), write)?;
                Ok(id)
            }),
        )
    }

    /// Returns whether the caller may have had this file open as it reports: its lot is the caller's. The file may be being removed, alone
    /// or with its lot.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn may_have_open(&self, id: FileId, write: bool) -> Result<bool> {
        match self.may_open(&FilePath::of(id), write) {
            Err(e) if e.kind() == ErrorKind::Access => Ok(false),
            Err(e) if matches!(e.kind(), ErrorKind::Busy | ErrorKind::Stale) => Ok(true),
            other => other.map(|_| true),
        }
    }
}
