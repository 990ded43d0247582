//! The worker: ends removals, and brings rows and targets together after a crash, or when a server is back that was away.
//!
//! A target has what the row says, or less: then it gets it, or, where there is no room any more, the row says less. What no target has of a
//! lot is given to those that have least. A share of a lot that there is no row of is released: its lot was never promised.
//!
//! It looks whenever an I/O server comes back: that may have an older list of shares than it had, or none, as when a disk was replaced by a copy.
//! Where more is used by then than the row says, what others have not used of the lot moves there. So it does when a lot is renewed that was
//! written to while its time was over: all that its files took then was nobody's promise.

use super::keeper::{Keeper, is_beyond, set_share, share_at, share_of, used_blocks};
use super::terms::{BLOCK_BYTES, rest_bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thalweg_wire::protocol::lots::{Lot, LotState, LotUse};
use thalweg_wire::protocol::metadata::{LotId, TargetId};
use thalweg_wire::{ErrorKind, Result};

/// How long what could not be done is left alone.
const PAUSE: Duration = Duration::from_millis(500);

impl Keeper {
    pub(super) fn run(&self) {
        // What went wrong here is tried again; a broken database is reported to those who use it.
        self.orders.work(PAUSE, (Duration::ZERO, Duration::ZERO), || self.round().unwrap_or(true));
    }

    /// Looks at every lot once. Whether something is left that only time can mend.
    fn round(&self) -> Result<bool> {
        let mut left = false;
        for row in self.namespace.lots()? {
            if row.lot.state != LotState::Removing || self.is_stopping() {
                continue;
            }
            let Some(_claim) = self.claims.try_claim(row.lot.id) else {
                // Who works on it may be the one that has asked for this round.
                left = true;
                continue;
            };
            // It may have gone meanwhile.
            match self.finish(row.lot.id) {
                Err(e) if !matches!(e.kind(), ErrorKind::NotEmpty | ErrorKind::NotFound) => left = true,
                _ => {}
            }
        }
        if !self.namespace.has_had_lots()? {
            return Ok(left);
        }
        let (held, all_answered) = self.held();
        left |= !all_answered;
        // Read after the targets were asked: a lot of which a target has a share is among them, or is none.
        let rows = self.namespace.lots()?;
        left |= !self.release_strangers(&held, &rows.iter().map(|row| row.lot.id).collect())?;
        for row in rows {
            if row.lot.state != LotState::Active || self.is_stopping() || is_settled(&row.lot, &held, self.namespace.now_ns()) {
                continue;
            }
            let Some(_claim) = self.claims.try_claim(row.lot.id) else {
                left = true;
                continue;
            };
            left |= !self.settle(row.lot.id).unwrap_or(false);
        }
        Ok(left)
    }

    /// What all targets have, and whether all have said.
    fn held(&self) -> (Vec<LotUse>, bool) {
        let (mut held, mut all) = (Vec::new(), true);
        for server in &self.namespace.map().servers {
            match self.servers.list_shares(server) {
                Ok(uses) => held.extend(uses),
                // One that knows no lots has none.
                Err(e) if e.kind() == ErrorKind::Unsupported => {}
                Err(_) => all = false,
            }
        }
        (held, all)
    }

    /// Has targets forget lots that there are no rows of. Whether all have.
    fn release_strangers(&self, held: &[LotUse], known: &BTreeSet<LotId>) -> Result<bool> {
        let mut all = true;
        for used in held.iter().filter(|used| !known.contains(&used.share.lot)) {
            self.namespace.pass_over_lot(used.share.lot)?;
            all &= self.release(used.share.lot, used.target).is_ok();
        }
        Ok(all)
    }

    /// Brings a lot's row and its targets together. Whether all of them have answered.
    fn settle(&self, id: LotId) -> Result<bool> {
        let mut lot = self.namespace.lot(id)?.lot;
        if lot.state != LotState::Active {
            return Ok(true);
        }
        let held: BTreeMap<TargetId, u64> = self.uses(&lot).into_iter().map(|used| (used.target, used.share.share_bytes)).collect();
        let mut all = true;
        let targets: Vec<TargetId> = lot.shares.iter().map(|(target, _)| *target).collect();
        for target in targets {
            // (What it gave to another just now is its no more.)
            let bytes = share_at(&lot, target);
            match self.keep_making_room(&lot, target, bytes) {
                // Its files took more while nothing was promised.
                Ok(used) if is_beyond(&used) => lot = self.catch_up(&lot, target, used_blocks(&used))?,
                Ok(_) => {}
                // Its room was given to others while it was not kept.
                Err(e) if e.kind() == ErrorKind::NoSpace => {
                    let has = held.get(&target).copied().unwrap_or(0).min(bytes);
                    lot = self.lower(&lot, target, has)?;
                }
                // It was written to while it had more.
                Err(e) if e.kind() == ErrorKind::Quota => {
                    let covered = self.cover(&lot, target)?;
                    lot = covered.0;
                    all &= covered.1;
                }
                Err(_) => all = false,
            }
        }
        let mut rest = rest_bytes(&lot);
        let mut order = lot.shares.clone();
        order.sort_by_key(|(target, bytes)| (*bytes, *target));
        for (target, _) in order {
            if rest == 0 || !all {
                break;
            }
            match self.raise_by(&lot, target, rest, BLOCK_BYTES.min(rest)) {
                Ok(raised) => {
                    rest = rest_bytes(&raised);
                    lot = raised;
                }
                // There is no room here: perhaps elsewhere.
                Err(e) if e.kind() == ErrorKind::NoSpace => lot = self.namespace.lot(id)?.lot,
                Err(_) => all = false,
            }
        }
        Ok(all)
    }
}

impl Keeper {
    /// A target uses more of a lot than its row says: what it has must not grow, and others give up what they have not used, as far as
    /// they have as much. The row, and whether it says all that is used now.
    fn cover(&self, lot: &Lot, target: TargetId) -> Result<(Lot, bool)> {
        let has = share_at(lot, target);
        let used = self.all_uses(lot)?.get(&target).map_or(0, used_blocks);
        // (Refused where still more is used by now: then in the next round.)
        self.keep(lot, target, used)?;
        let missing = used.saturating_sub(has);
        let rest = rest_bytes(lot).min(missing);
        let (row, got) = self.gather(lot, target, rest, (0, missing))?;
        let covered = has.saturating_add(got.min(missing));
        Ok((self.change(row.id, |row| set_share(&mut row.lot, target, covered))?.lot, covered >= used))
    }

    /// A target has used more than its share: it gets what others have not used, as far as they have as much. Where they have not, the lot is
    /// used up: what is there stays. The row.
    fn catch_up(&self, lot: &Lot, target: TargetId, used: u64) -> Result<Lot> {
        let has = share_at(lot, target);
        let missing = used.saturating_sub(has);
        let rest = rest_bytes(lot).min(missing);
        let (row, got) = self.gather(lot, target, rest, (0, missing))?;
        let got = got.min(missing);
        if got == 0 { Ok(row) } else { self.raise(&row, target, has.saturating_add(got)) }
    }
}

/// Whether the targets have just what the row says, and none takes a lot for over that is not; and none has used more than it has while others
/// have something left.
fn is_settled(lot: &Lot, held: &[LotUse], now_ns: i64) -> bool {
    let has = |target: TargetId, bytes: u64| {
        let mut here = held.iter().filter(|used| used.target == target && used.share.lot == lot.id);
        here.any(|used| used.share == share_of(lot, bytes) && (!used.expired || lot.until_ns <= now_ns))
    };
    let of_lot = || held.iter().filter(|used| used.share.lot == lot.id);
    let is_left = || of_lot().any(|used| used.share.share_bytes.saturating_sub(used_blocks(used)) >= BLOCK_BYTES);
    let is_covered = !of_lot().any(is_beyond) || !is_left();
    rest_bytes(lot) == 0 && is_covered && lot.shares.iter().all(|(target, bytes)| has(*target, *bytes))
}
