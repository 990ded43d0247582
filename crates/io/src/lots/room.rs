//! Admission of a change to a datafile before it is made, and accounting after it.
//!
//! Space for a lot comes from its share; when that is used up, from the unused promise of other targets; then, for an elastic
//! lot, from unpromised space, as for datafiles outside lots and in expired lots. No resource needed by other requests is held
//! meanwhile.

use super::account::Blocks;
use super::extents;
use super::lot::{Charge, Lot, OfLot, Standing};
use super::shares::Lots;
use super::volume::Underway;
use std::fs::File;
use thalweg_base::numbers;
use thalweg_base::utc::utc_minute;
use thalweg_wire::limits;
use thalweg_wire::protocol::io::LotId;
use thalweg_wire::{Error, ErrorKind, Result};

/// Permission to add to a datafile, until dropped.
pub(crate) struct Room<'a> {
    charge: Option<Charge<'a>>,
    of: Option<(&'a OfLot, &'a File)>,
    _outside: Option<Underway<'a>>,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if let (Some((of, file)), Some(charge)) = (self.of, self.charge.take()) {
            of.lot.written((of.key, &of.account), charge, || Blocks::of(file));
        }
    }
}

impl Lots {
    /// Admits a change of a range of a datafile, in a lot or not.
    ///
    /// # Errors
    /// [`ErrorKind::Quota`] when its lot is used up, [`ErrorKind::NoSpace`] when the rest is promised to others.
    pub(crate) fn room<'a>(&'a self, of: Option<&'a OfLot>, file: &'a File, offset: u64, length: u64) -> Result<Room<'a>> {
        let missing = || extents::missing(file, offset, length);
        let Some(of) = of else {
            return Ok(Room { charge: None, of: None, _outside: self.volume().admit(length, &missing)? });
        };
        let range = extents::blocks(offset, length);
        let bytes = range.end - range.start;
        let in_lot = |charge| Ok(Room { charge: Some(charge), of: Some((of, file)), _outside: None });
        if of.lot.standing() == Standing::Promised {
            if let Some(charge) = of.lot.take(bytes) {
                self.ballast_ahead_of(bytes);
                return in_lot(charge);
            }
            let needed = missing();
            let refused = match self.within_promise(&of.lot, needed) {
                Ok(charge) => return in_lot(charge),
                Err(refused) => refused,
            };
            // The lot may have expired meanwhile.
            if of.lot.held().is_some_and(|held| !held.expired && !held.share.elastic) {
                return Err(refused);
            }
        }
        let outside = self.volume().admit(bytes, &missing)?;
        let charge = of.lot.take_beyond(bytes);
        Ok(Room { charge: Some(charge), of: Some((of, file)), _outside: outside })
    }

    /// Takes exactly what a write adds, from the share and from other targets' unused promise.
    fn within_promise<'a>(&self, lot: &'a Lot, needed: u64) -> Result<Charge<'a>> {
        let mut refused = None;
        for _ in 0..limits::LOT_TRIES {
            let answers = lot.more.answers();
            if let Some(charge) = lot.take_exactly(needed, || self.look_at_pending(lot)) {
                self.ballast_ahead_of(needed);
                return Ok(charge);
            }
            let Some(more) = self.more() else { break };
            if let Err(error) = lot.more.ask_after(answers, || more.move_here(lot.id, self.target(), needed)) {
                refused = Some(error);
                break;
            }
        }
        // If other servers are away, part of the promise may still have moved here.
        let charge = refused.is_some().then(|| lot.take_exactly(needed, || self.look_at_pending(lot))).flatten();
        charge.inspect(|_| self.ballast_ahead_of(needed)).ok_or_else(|| used_up(lot, needed, refused.as_ref()))
    }

    /// Makes room after a write or a name met a full file system: from the ballast if its lot is promised, from removals in
    /// progress, and from expired lots. Returns whether a retry is worthwhile.
    pub(crate) fn make_room(&self, lot: Option<LotId>, bytes: u64) -> bool {
        (lot.and_then(|lot| self.find(lot)).is_some_and(|lot| is_promised(&lot)) && self.give_up_ballast(bytes))
            || self.volume().reclaim(bytes).is_ok()
    }

    /// Admits a datafile's name: a block, unless a promise covers it.
    ///
    /// # Errors
    /// See [`Lots::room`].
    pub(crate) fn room_for_name(&self, lot: Option<&Lot>) -> Result<Option<Underway<'_>>> {
        if lot.is_some_and(is_promised) {
            return Ok(None);
        }
        self.volume().admit(extents::BLOCK_BYTES, &|| extents::BLOCK_BYTES)
    }
}

fn is_promised(lot: &Lot) -> bool {
    lot.standing() == Standing::Promised
}

/// Explains a full file system to a writer who was promised room.
pub(crate) fn taken_by_others(error: &Error, lot: &Lot) -> Error {
    let Some(held) = lot.held().filter(|held| !held.expired) else { return error.clone() };
    let problem = format!(
        "{}: another program has taken what lot `{}` (number {}) was promised, which level {:?} cannot prevent; free space on this target",
        error.message(),
        held.share.name,
        lot.id,
        held.level
    );
    Error::new(error.kind(), problem)
}

/// Makes the refusal for a used-up share; `refused`: why other targets give no more.
fn used_up(lot: &Lot, needed: u64, refused: Option<&Error>) -> Error {
    let Some(held) = lot.held() else { return Error::new(ErrorKind::Quota, format!("lot {} is no longer on this target", lot.id)) };
    let share = &held.share;
    let [needed, size, here, used] = [needed, share.size_bytes, share.share_bytes, lot.used()].map(numbers::size);
    let until = utc_minute(share.until_ns);
    let others = match refused {
        Some(error) if error.kind() != ErrorKind::Quota => {
            format!("unused space of other targets cannot be moved here: {}", error.message())
        }
        _ => "no other target has more left".to_owned(),
    };
    let problem = format!(
        "lot `{}` (number {}) is used up: {needed} more are needed, {used} of its {here} on this target are used, and {others}; its size \
         is {size}, until {until}; resize it, or remove files from it",
        share.name, lot.id
    );
    Error::new(ErrorKind::Quota, problem)
}
