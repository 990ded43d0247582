//! Who may use a lot, and what may be moved between two.
//!
//! A lot's files, and the directories whose new files are in it, are for its owner's credentials and the store's own. Their names and
//! attributes are for all to see.

use super::rows::row;
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::database::View;
use crate::metadata::inode::Inode;
use crate::protocol::lots::{Lot, LotState};
use crate::protocol::metadata::LotId;
use crate::trust::{Identity, Rights, STORE_OWNER};

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

/// The lot of what is made in this directory. One that is gone is none: a directory may outlive it.
///
/// # Errors
/// As [`asked`].
pub(crate) fn inherited<V: View + ?Sized>(view: &V, who: &Identity, directory: &Inode) -> Result<Option<Lot>> {
    let Some(id) = directory.lot() else { return Ok(None) };
    row(view, id)?.map(|row| usable(who, row.lot)).transpose()
}

/// A lot that is still there and stays, of a file or directory.
fn standing<V: View + ?Sized>(view: &V, of: &Inode) -> Result<Option<Lot>> {
    let found = of.lot().map(|id| row(view, id)).transpose()?.flatten();
    Ok(found.map(|row| row.lot))
}

/// Whether the lot of this directory is one that a new directory in it takes over.
pub(crate) fn is_inherited<V: View + ?Sized>(view: &V, directory: &Inode) -> Result<bool> {
    Ok(standing(view, directory)?.is_some_and(|lot| lot.state != LotState::Removing))
}

/// Refuses to give a file or directory a name in a directory of another lot than its own, unless it comes from one of that same lot:
/// what is where it is stays what it is, and what a person moves into a lot is to be in it, which only a copy is.
///
/// # Errors
/// [`ErrorKind::CrossLot`] that names both.
pub(crate) fn may_cross<V: View + ?Sized>(view: &V, moved: &Inode, from: Option<&Inode>, to: &Inode) -> Result<()> {
    let kind = moved.kind();
    if !matches!(kind, crate::protocol::metadata::FileKind::File | crate::protocol::metadata::FileKind::Directory) {
        return Ok(());
    }
    // What each number stands for need not be looked up where they are the same: so it is with nearly every name.
    if moved.lot() == to.lot() || from.is_some_and(|from| from.lot() == to.lot()) {
        return Ok(());
    }
    let (own, there) = (standing(view, moved)?, standing(view, to)?);
    let id = |lot: &Option<Lot>| lot.as_ref().map(|lot| lot.id);
    if id(&own) == id(&there) {
        return Ok(());
    }
    if let Some(from) = from
        && id(&standing(view, from)?) == id(&there)
    {
        return Ok(());
    }
    let named = |lot: &Option<Lot>| lot.as_ref().map_or_else(|| "no lot".to_owned(), |lot| format!("lot `{}`", lot.name));
    let problem = format!("it is in {}, and its new directory is in {}: copy it there, and remove it here", named(&own), named(&there));
    Err(Error::new(ErrorKind::CrossLot, problem))
}
