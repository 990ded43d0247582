//! Who may use a lot, and what may be moved between two.
//!
//! A lot's files are for its owner's credentials and the store's own. Their names and attributes are for all to see.
//!
//! A directory may have a lot for what is made in it. That has an effect for the lot's owner and the store alone: what others make there is in no
//! lot, and they are kept from nothing. It is put on a directory, and taken off, by whose the directory is ([`makers`]) and by the store; the lot's
//! owner may take it off, too, and put another of theirs in its place.

use super::rows::row;
use crate::database::View;
use crate::inode::Inode;
use crate::namespace::makers;
use thalweg_wire::protocol::lots::{Lot, LotState};
use thalweg_wire::protocol::metadata::{FileId, FileKind, LotId};
use thalweg_wire::trust::{Identity, Rights, STORE_OWNER};
use thalweg_wire::{Error, ErrorKind, Result};

/// Whether this may read a lot's files and see what is used of it: its owner, and the store's own credentials, also that for reading.
pub(crate) fn sees(who: &Identity, lot: &Lot) -> bool {
    who.acts_for(&lot.owner) || who.owner == STORE_OWNER
}

/// The refusal of who is neither.
pub(crate) fn refused(who: &Identity, lot: &Lot) -> Error {
    let (name, owner) = (&lot.name, &lot.owner);
    let problem = format!("lot `{name}` is `{owner}`'s, and this credential is `{}`'s: give one of `{owner}` with --credential", who.owner);
    Error::new(ErrorKind::Access, problem)
}

/// Refuses a change of what is in a lot of which `who` is not the owner.
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

/// Refuses the opening of a file in a lot that `who` may not read, or write; or that is being removed.
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
        LotState::Creating => Err(Error::new(ErrorKind::Busy, format!("lot `{}` is being made: try again when that has ended", lot.name))),
        LotState::Removing => Err(Error::new(ErrorKind::Busy, format!("lot `{}` is being removed, and its files with it", lot.name))),
    }
}

/// The lot that somebody has asked for: there, and theirs.
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

/// The lot of what `who` makes in this directory: that of somebody else is none, and so is one that is gone, since a directory may outlive it.
///
/// # Errors
/// [`ErrorKind::Busy`].
pub(crate) fn inherited<V: View + ?Sized>(view: &V, who: &Identity, directory: &Inode) -> Result<Option<Lot>> {
    let lot = effective(view, who, directory)?;
    lot.iter().try_for_each(is_there)?;
    Ok(lot)
}

/// The lot that a file is in; or that a directory has for what `who` makes in it.
fn effective<V: View + ?Sized>(view: &V, who: &Identity, of: &Inode) -> Result<Option<Lot>> {
    let is_file = of.kind() == FileKind::File;
    Ok(standing(view, of)?.filter(|lot| is_file || who.acts_for(&lot.owner)))
}

/// Whether `who` may give this directory, which has a lot or none, this lot or none. The lot that is asked for.
///
/// # Errors
/// [`ErrorKind::Access`] that says whose what is; as [`asked`].
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
            "the directory was made with {maker}, and lot `{}` of `{}` is on it: they take it off, and it has no effect on what `{}` makes there",
            old.name, old.owner, who.owner
        ),
        None => format!(
            "the directory was made with {maker}, and only that puts a lot on it: make a directory of your own, or give --lot to what writes"
        ),
    };
    Err(Error::new(ErrorKind::Access, problem))
}

/// A lot that is still there and stays, of a file or directory.
fn standing<V: View + ?Sized>(view: &V, of: &Inode) -> Result<Option<Lot>> {
    let found = of.lot().map(|id| row(view, id)).transpose()?.flatten();
    Ok(found.map(|row| row.lot))
}

/// Whether the lot of this directory is one that a new directory of `who` in it takes over.
pub(crate) fn is_inherited<V: View + ?Sized>(view: &V, who: &Identity, directory: &Inode) -> Result<bool> {
    Ok(effective(view, who, directory)?.is_some_and(|lot| lot.state != LotState::Removing))
}

/// Refuses to give a file or directory a name in a directory of another lot than its own, unless it comes from one of that same lot:
/// what is where it is stays what it is, and what a person moves into a lot is to be in it, which only a copy is.
///
/// # Errors
/// [`ErrorKind::CrossLot`] that names both.
pub(crate) fn may_cross<V: View + ?Sized>(view: &V, who: &Identity, moved: &Inode, from: Option<&Inode>, to: &Inode) -> Result<()> {
    if !matches!(moved.kind(), FileKind::File | FileKind::Directory) {
        return Ok(());
    }
    // What each number stands for need not be looked up where they are the same: so it is with nearly every name.
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
