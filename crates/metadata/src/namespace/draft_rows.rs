//! The rows of drafts ([`crate::service::drafts`]), written with the files and deleted with their names.

use crate::database::{Table, Transaction, View};
use crate::inode::{Entry, decode, encode, id_key, id_of};
use serde::{Deserialize, Serialize};
use thalweg_wire::protocol::metadata::FileId;
use thalweg_wire::protocol::names::shown;
use thalweg_wire::{Error, ErrorKind, Result};

/// A draft's row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub parent: FileId,
    pub name: Vec<u8>,
    /// Since when it has no writer; `None` if it has one, or had one when the service stopped.
    pub abandoned_ns: Option<i64>,
}

/// Records, in a transaction, that this file was created as a draft.
pub(crate) fn put(t: &mut dyn Transaction, id: FileId, parent: FileId, name: &[u8]) {
    t.put(Table::Drafts, &id_key(id), encode(&Row { parent, name: name.to_vec(), abandoned_ns: None }));
}

/// Records, in a transaction, that this file is not a draft.
pub(crate) fn forget(t: &mut dyn Transaction, id: FileId) -> Result<()> {
    let key = id_key(id);
    if t.get(Table::Drafts, &key)?.is_some() {
        t.delete(Table::Drafts, &key);
    }
    Ok(())
}

/// Checks that a file may be replaced by a draft of its name: only another draft may.
pub(crate) fn gives_way(t: &dyn Transaction, found: Entry, name: &[u8]) -> Result<()> {
    if t.get(Table::Drafts, &id_key(found.id))?.is_some() {
        return Ok(());
    }
    let name = shown(name);
    let problem = format!("`{name}` exists and was not made by a copy: rename or remove it, then copy again");
    Err(Error::new(ErrorKind::Exists, problem))
}

pub(crate) fn row<V: View + ?Sized>(view: &V, id: FileId) -> Result<Option<Row>> {
    let key = id_key(id);
    view.get(Table::Drafts, &key)?.map(|value| decode(Table::Drafts, &key, &value)).transpose()
}

pub(crate) fn each_row(view: &dyn View, after: Option<FileId>, each: &mut dyn FnMut(FileId, Row) -> bool) -> Result<()> {
    let (after, mut failed) = (after.map(id_key), None);
    view.scan(Table::Drafts, &[], after.as_ref().map(|key| &key[..]), &mut |key, value| match (
        id_of(key),
        decode(Table::Drafts, key, value),
    ) {
        (Some(id), Ok(row)) => each(id, row),
        (_, Err(error)) => {
            failed = Some(error);
            false
        }
        (None, _) => true,
    })?;
    failed.map_or(Ok(()), Err)
}
