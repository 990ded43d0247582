//! The rows of lots: what is written down of each, in [`Table::Lots`].
//!
//! Lots are few ([`limits::LOTS`]): a name is looked for among all of them. A number is never given twice, nor one that a target has a share
//! of: the counter is on stable storage before a target hears of the number.

use crate::database::{Table, Transaction, Unwatched, View, read, write};
use crate::inode::{decode, encode, number_at};
use crate::namespace::Namespace;
use serde::{Deserialize, Serialize};
use thalweg_wire::limits;
use thalweg_wire::protocol::lots::{Lot, LotState};
use thalweg_wire::protocol::metadata::LotId;
use thalweg_wire::{Error, ErrorKind, Result};

/// In [`Table::State`]: the last number that was given, u32 LE.
const COUNTER: &[u8] = b"lots.counter";

/// A lot as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub lot: Lot,
    /// While it is being removed: its files go with it. Otherwise it stays if it turns out to have some.
    pub takes_files: bool,
}

fn key(id: LotId) -> [u8; 4] {
    id.0.to_be_bytes()
}

/// A lot's row, if there is such a lot.
pub(crate) fn row<V: View + ?Sized>(view: &V, id: LotId) -> Result<Option<Row>> {
    view.get(Table::Lots, &key(id))?.map(|value| decode(Table::Lots, &key(id), &value)).transpose()
}

/// The rows of all lots, in order of number.
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

/// The last number that was given.
fn counter<V: View + ?Sized>(view: &V) -> Result<u32> {
    Ok(number_at(view, COUNTER)?.map_or(0, u32::from_le_bytes))
}

fn gone(id: LotId) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no lot {id} any more: it was removed"))
}

impl Namespace {
    /// All lots.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn lots(&self) -> Result<Vec<Row>> {
        read(&*self.database, |view| rows(view))
    }

    /// Whether there was ever a lot.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn has_had_lots(&self) -> Result<bool> {
        read(&*self.database, |view| Ok(view.get(Table::State, COUNTER)?.is_some()))
    }

    /// One lot.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and the database's.
    pub(crate) fn lot(&self, id: LotId) -> Result<Row> {
        read(&*self.database, |view| row(view, id)?.ok_or_else(|| gone(id)))
    }

    /// The lot of this name. One that is being removed has none any more.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and the database's.
    pub(crate) fn lot_named(&self, name: &str) -> Result<Row> {
        let found = self.lots()?.into_iter().find(|row| row.lot.name == name && row.lot.state != LotState::Removing);
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no lot `{name}`: `thalweg lot ls` names those that there are"))
        })
    }

    /// Writes a new lot down, durably, with a number of its own: its targets are not asked yet.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::TooMany`], what is said of it beside the others (`within`), and the database's.
    pub(crate) fn add_lot_within(&self, lot: &Lot, within: impl Fn(&[Row]) -> Result<()>) -> Result<Lot> {
        let added = write(&*self.database, &mut Unwatched, |t| {
            let all = rows(t)?;
            if all.iter().any(|row| row.lot.name == lot.name && row.lot.state != LotState::Removing) {
                return Err(Error::new(ErrorKind::Exists, format!("there is a lot `{}` already: choose another name", lot.name)));
            }
            if all.len() >= limits::LOTS {
                return Err(Error::new(
                    ErrorKind::TooMany,
                    format!("the store has {} lots, the most that it keeps: remove some", all.len()),
                ));
            }
            within(&all)?;
            let number = counter(t)?;
            let number = number.checked_add(1).ok_or_else(|| Error::new(ErrorKind::TooMany, "the store has given all numbers of lots"))?;
            t.put(Table::State, COUNTER, number.to_le_bytes().to_vec());
            let lot = Lot { id: LotId(number), state: LotState::Creating, ..lot.clone() };
            put(t, &Row { lot: lot.clone(), takes_files: false });
            Ok(lot)
        })?;
        self.database.sync(&mut Unwatched)?;
        Ok(added)
    }

    /// The same, whatever others there are.
    #[cfg(test)]
    pub(crate) fn add_lot(&self, lot: &Lot) -> Result<Lot> {
        self.add_lot_within(lot, |_| Ok(()))
    }

    /// Changes a lot's row, durably.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], `change`'s, and the database's.
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

    /// A lot is gone, durably.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn forget_lot(&self, id: LotId) -> Result<()> {
        write(&*self.database, &mut Unwatched, |t| {
            t.delete(Table::Lots, &key(id));
            Ok::<_, Error>(())
        })?;
        Ok(self.database.sync(&mut Unwatched)?)
    }

    /// A target knows a lot of this number: it is not given again, even if what gave it was lost with the power.
    ///
    /// # Errors
    /// The database's.
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
