//! The rows of lots, in [`Table::Lots`].
//!
//! There are few lots ([`limits::LOTS`]), so a name is found by a scan. Numbers are never reused, nor given to a new lot if a target has a
//! share of that number: the counter is on stable storage before a target gets the number.

use crate::database::{Table, Transaction, Unwatched, View, read, write};
use crate::inode::{decode, encode, number_at};
use crate::namespace::Namespace;
use serde::{Deserialize, Serialize};
use thalweg_wire::limits;
use thalweg_wire::protocol::lots::{Lot, LotState};
use thalweg_wire::protocol::metadata::LotId;
use thalweg_wire::{Error, ErrorKind, Result};

/// In [`Table::State`]: the last number given, u32 LE.
pub(crate) const COUNTER: &[u8] = b"lots.counter";

/// A lot's row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub lot: Lot,
    /// During removal: its files are removed too. Otherwise the lot is restored if it has files.
    pub takes_files: bool,
}

fn key(id: LotId) -> [u8; 4] {
    id.0.to_be_bytes()
}

/// Reads a lot's row, if it exists.
pub(crate) fn row<V: View + ?Sized>(view: &V, id: LotId) -> Result<Option<Row>> {
    view.get(Table::Lots, &key(id))?.map(|value| decode(Table::Lots, &key(id), &value)).transpose()
}

/// Reads the rows of all lots, in order of number.
pub(crate) fn rows<V: View + ?Sized>(view: &V) -> Result<Vec<Row>> {
    let (mut all, mut failed) = (Vec::new(), None);
    view.scan(Table::Lots, &[], None, &mut |key, value| {
        match decode(Table::Lots, key, value) {
            Ok(row) => all.push(row),
            Err(error) => failed = Some(error),
        }
        failed.is_none()
    })?;
    failed.map_or(Ok(all), Err)
}

fn put(t: &mut dyn Transaction, row: &Row) {
    t.put(Table::Lots, &key(row.lot.id), encode(row));
}

/// Reads the last number given.
fn counter<V: View + ?Sized>(view: &V) -> Result<u32> {
    Ok(number_at(view, COUNTER)?.map_or(0, u32::from_le_bytes))
}

fn gone(id: LotId) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no lot {id}: it was removed"))
}

impl Namespace {
    /// Returns all lots.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn lots(&self) -> Result<Vec<Row>> {
        read(&*self.database, |view| rows(view))
    }

    /// Returns whether there was ever a lot.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn has_had_lots(&self) -> Result<bool> {
        read(&*self.database, |view| Ok(view.get(Table::State, COUNTER)?.is_some()))
    }

    /// Returns a lot.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], or an error of the database.
    pub(crate) fn lot(&self, id: LotId) -> Result<Row> {
        read(&*self.database, |view| row(view, id)?.ok_or_else(|| gone(id)))
    }

    /// Returns the lot of this name, unless it is being removed.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], or an error of the database.
    pub(crate) fn lot_named(&self, name: &str) -> Result<Row> {
        let found = self.lots()?.into_iter().find(|row| row.lot.name == name && row.lot.state != LotState::Removing);
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no lot `{name}`: `thalweg lot ls` lists the lots")))
    }

    /// Creates the row of a new lot, durably, with a new number, before its targets get a request.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::TooMany`], the error of `within`, which checks it beside the others, or an error of the
    /// database.
    pub(crate) fn add_lot_within(&self, lot: &Lot, within: impl Fn(&[Row]) -> Result<()>) -> Result<Lot> {
        let added = write(&*self.database, &mut Unwatched, |t| {
            let all = rows(t)?;
            if all.iter().any(|row| row.lot.name == lot.name && row.lot.state != LotState::Removing) {
                return Err(Error::new(ErrorKind::Exists, format!("lot `{}` exists already: choose another name", lot.name)));
            }
            if all.len() >= limits::LOTS {
                return Err(Error::new(ErrorKind::TooMany, format!("the store has {} lots, which is the maximum: remove some", all.len())));
            }
            within(&all)?;
            let number = counter(t)?;
            let number = number.checked_add(1).ok_or_else(|| Error::new(ErrorKind::TooMany, "the store has used up all lot numbers"))?;
            t.put(Table::State, COUNTER, number.to_le_bytes().to_vec());
            let lot = Lot { id: LotId(number), state: LotState::Creating, ..lot.clone() };
            put(t, &Row { lot: lot.clone(), takes_files: false });
            Ok(lot)
        })?;
        self.database.sync(&mut Unwatched)?;
        Ok(added)
    }

    /// Creates a row without a check beside the others.
    #[cfg(test)]
    pub(crate) fn add_lot(&self, lot: &Lot) -> Result<Lot> {
        self.add_lot_within(lot, |_| Ok(()))
    }

    /// Changes a lot's row, durably.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], the error of `change`, or an error of the database.
    pub(crate) fn change_lot(&self, id: LotId, change: impl Fn(&mut Row) -> Result<()>) -> Result<Row> {
        let changed = write(&*self.database, &mut Unwatched, |t| {
            let mut row = row(t, id)?.ok_or_else(|| gone(id))?;
            change(&mut row)?;
            put(t, &row);
            Ok::<_, Error>(row)
        })?;
        self.database.sync(&mut Unwatched)?;
        Ok(changed)
    }

    /// Deletes a lot's row, durably.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn forget_lot(&self, id: LotId) -> Result<()> {
        write(&*self.database, &mut Unwatched, |t| {
            t.delete(Table::Lots, &key(id));
            Ok::<_, Error>(())
        })?;
        Ok(self.database.sync(&mut Unwatched)?)
    }

    /// Prevents a new lot from getting this number, which a target knows although the row may have been lost to a power failure.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn pass_over_lot(&self, id: LotId) -> Result<()> {
        write(&*self.database, &mut Unwatched, |t| {
            let number = counter(t)?;
            if number < id.0 {
                t.put(Table::State, COUNTER, id.0.to_le_bytes().to_vec());
            }
            Ok::<_, Error>(())
        })?;
        Ok(self.database.sync(&mut Unwatched)?)
    }
}
