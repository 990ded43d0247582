//! Who may use a lot, and what may be moved between lots.
//!
//! Only the credentials of a lot's owner and the store's own can read and write its files. Their names and attributes are visible to all.
//!
//! A directory can have a lot for new files in it. It applies to the lot's owner and the store only: files of others are in no lot, and are
//! not restricted. The directory's maker ([`makers`]) and the store can set and remove it; the lot's owner can remove it too, or replace it
//! by another of their lots.

use super::rows::row;
use crate::database::View;
use crate::inode::Inode;
use crate::namespace::makers;
use thalweg_wire::protocol::lots::{Lot, LotState};
use thalweg_wire::protocol::metadata::{FileId, FileKind, LotId};
use thalweg_wire::trust::{Identity, Rights, STORE_OWNER};
use thalweg_wire::{Error, ErrorKind, Result};

/// Returns whether this client may read a lot's files and see its use: its owner, and the store's credentials, including the read-only one.
pub(crate) fn sees(who: &Identity, lot: &Lot) -> bool {
    who.acts_for(&lot.owner) || who.owner == STORE_OWNER
}

/// Returns the refusal of a client that is neither.
pub(crate) fn refused(who: &Identity, lot: &Lot) -> Error {
    let (name, owner) = (&lot.name, &lot.owner);
    let problem = format!("lot `{name}` is `{owner}`'s, and this credential is `{}`'s: give one of `{owner}` with --credential", who.owner);
    Error::new(ErrorKind::Access, problem)
}

/// Refuses a change in a lot that `who` does not own.
///
/// # Errors
/// [`ErrorKind::Access`] that names the lot and its owner.
pub(crate) fn may_use<V: View + ?Sized>(view: &V, who: &Identity, lot: Option<LotId>) -> Result<()> {
    let Some(id) = lot.filter(|_| who.rights != Rights::Store) else { return Ok(()) };
    match row(view, id)? {
        Some(row) if !who.acts_for(&row.lot.owner) => Err(refused(who, &row.lot)),
        _ => Ok(()),
    }
}

/// Refuses to open a file in a lot that `who` may not read or write, or that is being removed.
///
/// # Errors
/// [`ErrorKind::Access`]; [`ErrorKind::Busy`].
pub(crate) fn may_open<V: View + ?Sized>(view: &V, who: &Identity, lot: Option<LotId>, write: bool) -> Result<()> {
    let Some(row) = lot.map(|id| row(view, id)).transpose()?.flatten() else { return Ok(()) };
    let may = if write { who.acts_for(&row.lot.owner) } else { sees(who, &row.lot) };
    if !may {
        return Err(refused(who, &row.lot));
    }
    is_there(&row.lot)
}

fn is_there(lot: &Lot) -> Result<()> {
    match lot.state {
        LotState::Active | LotState::Expired => Ok(()),
        LotState::Creating => Err(Error::new(ErrorKind::Busy, format!("lot `{}` is being created: try again later", lot.name))),
        LotState::Removing => Err(Error::new(ErrorKind::Busy, format!("lot `{}` is being removed, and its files with it", lot.name))),
    }
}

/// Returns the requested lot, which must exist and be usable by `who`.
///
/// # Errors
/// [`ErrorKind::NotFound`], [`ErrorKind::Access`], [`ErrorKind::Busy`].
pub(crate) fn asked<V: View + ?Sized>(view: &V, who: &Identity, id: LotId) -> Result<Lot> {
    let row = row(view, id)?;
    usable(who, row.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no lot {id}: it was removed")))?.lot)
}

fn usable(who: &Identity, lot: Lot) -> Result<Lot> {
    if !who.acts_for(&lot.owner) {
        return Err(refused(who, &lot));
    }
    is_there(&lot)?;
    Ok(lot)
}

/// Returns the lot of new files of `who` in this directory. Other owners' lots do not apply, nor removed ones, which a directory may
/// outlive.
///
/// # Errors
/// [`ErrorKind::Busy`].
pub(crate) fn inherited<V: View + ?Sized>(view: &V, who: &Identity, directory: &Inode) -> Result<Option<Lot>> {
    let lot = effective(view, who, directory)?;
    lot.iter().try_for_each(is_there)?;
    Ok(lot)
}

/// Returns the lot that a file is in, or that applies to new files of `who` in a directory.
fn effective<V: View + ?Sized>(view: &V, who: &Identity, of: &Inode) -> Result<Option<Lot>> {
    let is_file = of.kind() == FileKind::File;
    Ok(standing(view, of)?.filter(|lot| is_file || who.acts_for(&lot.owner)))
}

/// Checks that `who` may set this directory's lot, or remove it; returns the requested lot.
///
/// # Errors
/// [`ErrorKind::Access`] that names the owners; those of [`asked`].
pub(crate) fn may_put<V: View + ?Sized>(
    view: &V,
    who: &Identity,
    (id, directory): (FileId, &Inode),
    lot: Option<LotId>,
) -> Result<Option<Lot>> {
    let old = standing(view, directory)?;
    if lot == directory.lot() {
        return Ok(old);
    }
    let new = lot.map(|lot| asked(view, who, lot)).transpose()?;
    let may = match (&old, &new) {
        (Some(old), _) if who.acts_for(&old.owner) => true,
        (None, None) => true,
        _ => makers::is_of(view, id, who)?,
    };
    if may {
        return Ok(new);
    }
    let maker = makers::maker(view, id)?.map_or_else(|| "the store's own credential".to_owned(), |maker| format!("`{maker}`"));
    let problem = match &old {
        Some(old) => format!(
            "the directory was made with {maker}, and has lot `{}` of `{}`: only these can remove the lot, which does not apply to files that `{}` creates there",
            old.name, old.owner, who.owner
        ),
        None => {
            format!("the directory was made with {maker}, and only that can set its lot: create your own directory, or write with --lot")
        }
    };
    Err(Error::new(ErrorKind::Access, problem))
}

/// Returns the lot of a file or directory, if it exists and is not being removed.
fn standing<V: View + ?Sized>(view: &V, of: &Inode) -> Result<Option<Lot>> {
    let found = of.lot().map(|id| row(view, id)).transpose()?.flatten();
    Ok(found.map(|row| row.lot))
}

/// Returns whether a new directory of `who` in this one inherits its lot.
pub(crate) fn is_inherited<V: View + ?Sized>(view: &V, who: &Identity, directory: &Inode) -> Result<bool> {
    Ok(effective(view, who, directory)?.is_some_and(|lot| lot.state != LotState::Removing))
}

/// Refuses to name a file or directory in a directory of another lot, unless it comes from a directory of that lot: a rename does not move
/// a file's space, so moving a file into a lot requires a copy.
///
/// # Errors
/// [`ErrorKind::CrossLot`] that names both.
pub(crate) fn may_cross<V: View + ?Sized>(view: &V, who: &Identity, moved: &Inode, from: Option<&Inode>, to: &Inode) -> Result<()> {
    if !matches!(moved.kind(), FileKind::File | FileKind::Directory) {
        return Ok(());
    }
    // Equal numbers, as for nearly every name, need no look-up.
    if moved.lot() == to.lot() || from.is_some_and(|from| from.lot() == to.lot()) {
        return Ok(());
    }
    let (own, there) = (effective(view, who, moved)?, effective(view, who, to)?);
    let id = |lot: &Option<Lot>| lot.as_ref().map(|lot| lot.id);
    if id(&own) == id(&there) {
        return Ok(());
    }
    if let Some(from) = from
        && id(&effective(view, who, from)?) == id(&there)
    {
        return Ok(());
    }
    let named = |lot: &Option<Lot>| lot.as_ref().map_or_else(|| "no lot".to_owned(), |lot| format!("lot `{}`", lot.name));
    let problem = format!("it is in {}, and its new directory is in {}: copy it there, and remove it here", named(&own), named(&there));
    Err(Error::new(ErrorKind::CrossLot, problem))
}
