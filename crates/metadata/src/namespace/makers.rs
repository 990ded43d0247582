//! The maker of a directory: the owner whose credential created it. The directory belongs to its maker and the store; others who may change
//! its contents cannot decide which lot its new files are in.
//!
//! Users and modes are not considered: they are claims of clients, which may use the protocol without a kernel that checks them.
//! Directories made with the store's own credential, or by an earlier release, belong to the store.

use crate::database::{Table, Transaction, View};
use crate::inode::{decode, encode, id_key};
use thalweg_wire::Result;
use thalweg_wire::protocol::metadata::FileId;
use thalweg_wire::trust::{Identity, Rights};

/// Key in [`Table::State`], followed by a directory's number as u64 BE: the name of its maker.
const MAKER: &[u8] = b"makers.";

fn key(directory: FileId) -> Vec<u8> {
    [MAKER, &id_key(directory)[..]].concat()
}

/// Returns a directory's maker; `None` for the store.
pub(crate) fn maker<V: View + ?Sized>(view: &V, directory: FileId) -> Result<Option<String>> {
    let key = key(directory);
    view.get(Table::State, &key)?.map(|value| decode(Table::State, &key, &value)).transpose()
}

/// Returns whether this client's owner made the directory, or the client has the store's own credential.
pub(crate) fn is_of<V: View + ?Sized>(view: &V, directory: FileId, who: &Identity) -> Result<bool> {
    Ok(who.rights == Rights::Store || maker(view, directory)?.as_deref() == Some(&who.owner))
}

/// Records the maker of a new directory.
pub(super) fn made(t: &mut dyn Transaction, directory: FileId, who: &Identity) {
    if who.rights != Rights::Store {
        t.put(Table::State, &key(directory), encode(&who.owner));
    }
}

/// Deletes a removed directory's maker.
pub(super) fn gone(t: &mut dyn Transaction, directory: FileId) -> Result<()> {
    let key = key(directory);
    if t.get(Table::State, &key)?.is_some() {
        t.delete(Table::State, &key);
    }
    Ok(())
}
