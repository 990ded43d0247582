//! Moving unused promise to the target that needs it, from those targets that have most, shrinking them first.
//!
//! Space taken from a target is free there, and may be used by others immediately. So no more is taken than the target that needs it has
//! room for, and part of that room is left to other lots unless all of it is needed.

use super::keeper::{Keeper, share_at, used_blocks};
use super::terms::{BLOCK_BYTES, rest_bytes};
use thalweg_base::numbers::size;
use thalweg_base::utc::utc_minute;
use thalweg_wire::limits;
use thalweg_wire::protocol::lots::{Lot, LotReport, LotUse};
use thalweg_wire::protocol::metadata::{LotId, TargetId};
use thalweg_wire::{Error, ErrorKind, Result};

/// Returns how much each target gives of its unused promise to reach `wanted_bytes`, in whole blocks, those with most first.
pub(super) fn donors(unused: &[(TargetId, u64)], wanted_bytes: u64) -> Vec<(TargetId, u64)> {
    let mut order: Vec<(TargetId, u64)> = unused.iter().map(|(target, bytes)| (*target, bytes / BLOCK_BYTES * BLOCK_BYTES)).collect();
    order.sort_by_key(|(target, bytes)| (std::cmp::Reverse(*bytes), *target));
    let mut left = wanted_bytes;
    let mut gifts = Vec::new();
    for (target, bytes) in order {
        let gift = bytes.min(left);
        if gift > 0 {
            gifts.push((target, gift));
            left -= gift;
        }
    }
    gifts
}

impl Keeper {
    /// Moves at least this many bytes of a lot's promise to one of its targets.
    ///
    /// # Errors
    /// [`ErrorKind::Quota`] if the lot is used up or expired; [`ErrorKind::NoSpace`] if the target has no room.
    pub(super) fn move_here(&self, id: LotId, target: TargetId, bytes: u64) -> Result<LotReport> {
        match self.move_now(id, target, bytes) {
            // Files of the lot whose removal is pending make room here or elsewhere.
            Err(refused) if is_full(&refused) && self.intents.finish_removals(Some(id), true)? => {
                let lot = self.standing(id)?;
                let uses = self.uses(&lot);
                let here = uses.iter().find(|used| used.target == target && !used.expired);
                let has_room = here.is_some_and(|used| used.share.share_bytes.saturating_sub(used_blocks(used)) >= bytes.max(1));
                if has_room { Ok(self.report(lot, uses)) } else { self.move_now(id, target, bytes) }
            }
            other => other,
        }
    }

    fn move_now(&self, id: LotId, target: TargetId, bytes: u64) -> Result<LotReport> {
        let _claim = self.claims.claim(id);
        let lot = self.standing(id)?;
        if !lot.shares.iter().any(|(of, _)| *of == target) {
            return Err(Error::new(ErrorKind::Invalid, format!("target {target} is not one of lot `{}`", lot.name)));
        }
        let is_over = |used: &LotUse| used.target == target && used.expired;
        if lot.until_ns <= self.namespace.now_ns() && self.uses(&lot).iter().any(is_over) {
            let problem = format!("lot `{}` has expired: it ended at {}", lot.name, utc_minute(lot.until_ns));
            return Err(Error::new(ErrorKind::Quota, problem));
        }
        let least = bytes.max(1).checked_next_multiple_of(BLOCK_BYTES).ok_or_else(|| used_up(&lot, 0))?;
        let room = self.room_at(target).map_or(u64::MAX, |room| room / limits::LOT_MOVE_PART / BLOCK_BYTES * BLOCK_BYTES);
        let wanted = least.max(limits::LOT_MOVE_BYTES.min(room));
        let rest = rest_bytes(&lot).min(wanted);
        let (moved, got) = if rest >= least { (lot, rest) } else { self.gather(&lot, target, rest, (least, wanted))? };
        let raised = self.raise_by(&moved, target, got, least).inspect_err(|_| self.notify())?;
        if got < least {
            // The donors have used it in the meantime.
            let used = self.uses(&raised).iter().fold(0_u64, |sum, used| sum.saturating_add(used.used_bytes));
            return Err(used_up(&raised, used));
        }
        let uses = self.uses(&raised);
        Ok(self.report(raised, uses))
    }

    /// Enlarges a share by `bytes`, or by as much as fits but at least by `least`. Returns the row.
    pub(super) fn raise_by(&self, lot: &Lot, target: TargetId, bytes: u64, least: u64) -> Result<Lot> {
        let raise = |lot: &Lot, bytes: u64| {
            let to_bytes = share_at(lot, target).checked_add(bytes).ok_or_else(|| used_up(lot, 0))?;
            self.raise(lot, target, to_bytes)
        };
        match raise(lot, bytes) {
            Err(error) if error.kind() == ErrorKind::NoSpace && bytes > least => {
                let now = self.namespace.lot(lot.id)?.lot;
                let fits = self.room_at(target).unwrap_or(0) / BLOCK_BYTES * BLOCK_BYTES;
                raise(&now, fits.clamp(least, bytes).min(rest_bytes(&now)))
            }
            other => other,
        }
    }

    /// Returns the free and unpromised space at a target; `None` if unknown.
    fn room_at(&self, target: TargetId) -> Option<u64> {
        let spaces = self.servers.space(&self.server_of(target).ok()?).ok()?;
        let here = spaces.into_iter().find(|space| space.target == target)?;
        Some(here.available_bytes.saturating_sub(here.promised_bytes))
    }

    /// Takes unused promise from other targets until it reaches, with `rest`, what is wanted. Returns the row and the bytes available to
    /// the target.
    pub(super) fn gather(&self, lot: &Lot, target: TargetId, rest: u64, (least, wanted): (u64, u64)) -> Result<(Lot, u64)> {
        let (mut row, mut got) = (lot.clone(), rest);
        for _ in 0..limits::LOT_GIFTS {
            let uses = self.uses(&row);
            let others = uses.iter().filter(|used| used.target != target);
            let unused: Vec<_> = others.map(|used| (used.target, share_at(&row, used.target).saturating_sub(used_blocks(used)))).collect();
            let all = unused.iter().fold(got, |sum, (_, bytes)| sum.saturating_add(*bytes));
            if all < least && got == rest {
                return Err(used_up(lot, uses.iter().fold(0, |sum, used| sum.saturating_add(used.used_bytes))));
            }
            let before = got;
            for (donor, gift) in donors(&unused, wanted.saturating_sub(got)) {
                let rest = rest_bytes(&row);
                match self.give(&row, donor, gift) {
                    Ok(lowered) => {
                        got = got.saturating_add(rest_bytes(&lowered).saturating_sub(rest));
                        row = lowered;
                    }
                    // Its outcome is unknown; the worker settles it, and other donors are tried.
                    Err(_) => self.notify(),
                }
            }
            if got >= least || got == before {
                break;
            }
        }
        Ok((row, got))
    }

    /// Takes this much from a share, or less if writes in flight at its target may need some of it. Returns the row.
    fn give(&self, row: &Lot, donor: TargetId, gift: u64) -> Result<Lot> {
        let has = share_at(row, donor);
        let mut gift = gift;
        for _ in 0..limits::LOT_GIFTS {
            match self.lower(row, donor, has - gift) {
                Err(error) if error.kind() == ErrorKind::Quota => {}
                other => return other,
            }
            let used = self.all_uses(row)?.get(&donor).map_or(has, used_blocks);
            gift = has.saturating_sub(used).min(gift) / 2 / BLOCK_BYTES * BLOCK_BYTES;
            if gift == 0 {
                break;
            }
        }
        Ok(row.clone())
    }
}

fn is_full(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Quota | ErrorKind::NoSpace)
}

/// Returns the refusal of more than is left.
fn used_up(lot: &Lot, used_bytes: u64) -> Error {
    let (name, until) = (&lot.name, utc_minute(lot.until_ns));
    let problem = format!(
        "lot `{name}` of {} is used up: {} of it are used, and what is left is not enough; it lasts until {until}. Make it larger with \
         `thalweg lot resize {name}`, or remove some of its files",
        size(lot.size_bytes),
        size(used_bytes),
    );
    Error::new(ErrorKind::Quota, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn those_that_have_most_give_first() {
        let unused = |bytes: &[u64]| (0..).map(TargetId).zip(bytes.iter().map(|blocks| blocks * BLOCK_BYTES)).collect::<Vec<_>>();
        let taken = |of: &[u64], wanted| donors(&unused(of), wanted * BLOCK_BYTES);
        assert_eq!(taken(&[1, 9, 4], 3), unused(&[0, 3])[1..]);
        assert_eq!(taken(&[1, 9, 4], 12), [(TargetId(1), 9 * BLOCK_BYTES), (TargetId(2), 3 * BLOCK_BYTES)]);
        assert_eq!(taken(&[0, 0], 5), []);
        assert_eq!(donors(&[(TargetId(0), BLOCK_BYTES - 1)], 1), [], "whole blocks only");
    }

    proptest! {
        #[test]
        fn nobody_gives_more_than_it_has(unused in prop::collection::vec(0..1_u64 << 40, 0..20), wanted in 0..1_u64 << 44) {
            let unused: Vec<_> = (0..).map(TargetId).zip(unused).collect();
            let wanted = wanted / BLOCK_BYTES * BLOCK_BYTES;
            let gifts = donors(&unused, wanted);
            for (target, gift) in &gifts {
                prop_assert!(*gift <= unused[target.0 as usize].1 && gift % BLOCK_BYTES == 0);
            }
            let all: u64 = unused.iter().map(|(_, bytes)| bytes / BLOCK_BYTES * BLOCK_BYTES).sum();
            prop_assert_eq!(gifts.iter().map(|(_, gift)| gift).sum::<u64>(), wanted.min(all));
        }
    }
}
