//! The namespace as one client may use it. Whatever changes a name or a file is an operation of a [`Caller`], so that none can be
//! called without saying for whom.

use super::Namespace;
use super::makers;
use super::tree::{find, inode, on};
use crate::database::{View, read};
use crate::inode::{Inode, Node};
use crate::lots::rules;
use std::cell::Cell;
use std::ops::Deref;
use std::sync::LazyLock;
use thalweg_wire::protocol::metadata::{FileId, LotId, Place, RequestNumber};
use thalweg_wire::trust::{Identity, Rights};
use thalweg_wire::{ErrorKind, Result};

/// The store's own identity: what the service does by itself.
static STORE: LazyLock<Identity> = LazyLock::new(Identity::store);

/// See the module.
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
    /// As this client may use it.
    pub(crate) fn called_by<'a>(&'a self, who: &'a Identity) -> Caller<'a> {
        Caller { namespace: self, who, request: None, was_done: Cell::new(false) }
    }

    /// As the store itself uses it.
    pub(crate) fn for_store(&self) -> Caller<'_> {
        self.called_by(&STORE)
    }
}

impl Caller<'_> {
    /// Refuses a change of what is in a lot of which the caller is not the owner.
    pub(super) fn may_use<V: View + ?Sized>(&self, view: &V, lot: Option<LotId>) -> Result<()> {
        rules::may_use(view, self.who, lot)
    }

    /// The same, of a file or directory.
    pub(super) fn may_change<V: View + ?Sized>(&self, view: &V, id: FileId) -> Result<()> {
        // Nothing is refused to the store, and nothing is read for that.
        if self.who.rights == Rights::Store { Ok(()) } else { self.may_alter(view, (id, &inode(view, id)?)) }
    }

    /// The same, of one that has been read. A directory is its maker's, whatever lot is on it; what is in it is not a part of it.
    pub(super) fn may_alter<V: View + ?Sized>(&self, view: &V, (id, of): (FileId, &Inode)) -> Result<()> {
        match self.may_use(view, of.lot()) {
            Err(refused) if refused.kind() == ErrorKind::Access && matches!(of.node, Node::Directory { .. }) => {
                if makers::is_of(view, id, self.who)? { Ok(()) } else { Err(refused) }
            }
            other => other,
        }
    }

    /// Refuses the opening of a file in a lot that the caller may not read, or write; or that is being removed. The file's number.
    ///
    /// # Errors
    /// [`ErrorKind::Access`] that names the lot and its owner, [`ErrorKind::Busy`], and as [`Namespace::stat`].
    pub(crate) fn may_open(&self, place: &Place, write: bool) -> Result<FileId> {
        on(
            place,
            read(&**self.database(), |view| {
                let id = find(view, place)?;
                rules::may_open(view, self.who, inode(view, id)?.lot(), write)?;
                Ok(id)
            }),
        )
    }

    /// Whether the caller may have had a file open that it says it has: its lot is the caller's. It may be going, with its lot or alone.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn may_have_open(&self, id: FileId, write: bool) -> Result<bool> {
        match self.may_open(&Place::of(id), write) {
            Err(e) if e.kind() == ErrorKind::Access => Ok(false),
            Err(e) if matches!(e.kind(), ErrorKind::Busy | ErrorKind::Stale) => Ok(true),
            other => other.map(|_| true),
        }
    }
}
