//! Which owner made a directory: the one whose credential did. It is its maker's, and the store's: who else may change what is in it has no say in
//! where new files of it go.
//!
//! Nothing else is believed here: users and modes are what clients say, and a client may speak the protocol without a kernel that checks them.
//! Directories that the store's own credential made, or an earlier release, are the store's.

use crate::database::{Table, Transaction, View};
use crate::inode::{decode, encode, id_key};
use thalweg_wire::Result;
use thalweg_wire::protocol::metadata::FileId;
use thalweg_wire::trust::{Identity, Rights};

/// Key in [`Table::State`], before a directory's number as u64 BE: the name of the owner whose it is.
const MAKER: &[u8] = b"makers.";

fn key(directory: FileId) -> Vec<u8> {
    [MAKER, &id_key(directory)[..]].concat()
}

/// Whose a directory is; `None`: the store's.
pub(crate) fn maker<V: View + ?Sized>(view: &V, directory: FileId) -> Result<Option<String>> {
    let key = key(directory);
    view.get(Table::State, &key)?.map(|value| decode(Table::State, &key, &value)).transpose()
}

/// Whether a directory is this client's owner's, or this is the store's own.
pub(crate) fn is_of<V: View + ?Sized>(view: &V, directory: FileId, who: &Identity) -> Result<bool> {
    Ok(who.rights == Rights::Store || maker(view, directory)?.as_deref() == Some(&who.owner))
}

/// A directory was made.
pub(super) fn made(t: &mut dyn Transaction, directory: FileId, who: &Identity) {
    if who.rights != Rights::Store {
        t.put(Table::State, &key(directory), encode(&who.owner));
    }
}

/// A directory is gone.
pub(super) fn gone(t: &mut dyn Transaction, directory: FileId) -> Result<()> {
    let key = key(directory);
    if t.get(Table::State, &key)?.is_some() {
        t.delete(Table::State, &key);
    }
    Ok(())
}
