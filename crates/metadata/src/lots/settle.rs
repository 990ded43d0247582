//! The worker: completes removals, and reconciles rows and targets after a crash or a server's absence.
//!
//! A target has at most what the row says. If it has less, it gets the rest; if there is no room, the row is lowered. Promise that no
//! target holds is given to those that have least. A share without a row is released: its lot was never promised.
//!
//! It runs whenever an I/O server reconnects, whose list of shares may be older, or missing if its disk was replaced by a copy. If more is
//! used there by then than the row says, unused promise of other targets moves there; likewise when a lot is renewed that was written to
//! while expired, since its files' space was not promised.

use super::keeper::{Keeper, is_beyond, set_share, share_at, share_of, used_blocks};
use super::terms::{BLOCK_BYTES, rest_bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thalweg_wire::protocol::lots::{Lot, LotState, LotUse};
use thalweg_wire::protocol::metadata::{LotId, TargetId};
use thalweg_wire::{ErrorKind, Result};

/// Back-off after a failure.
const PAUSE: Duration = Duration::from_millis(500);

impl Keeper {
    pub(super) fn run(&self) {
        // Failures are retried; a broken database is reported to its users.
        self.orders.work(PAUSE, (Duration::ZERO, Duration::ZERO), || self.round().unwrap_or(true));
    }

    /// Checks every lot once. Returns whether any must be retried later.
    fn round(&self) -> Result<bool> {
        let mut left = false;
        for row in self.namespace.lots()? {
            if row.lot.state != LotState::Removing || self.is_stopping() {
                continue;
            }
            let Some(_claim) = self.claims.try_claim(row.lot.id) else {
                // The thread that works on it may be the one that requested this round.
                left = true;
                continue;
            };
            // Removed in the meantime.
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
        // Read after the targets were queried, so that a share without a row has no lot.
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

    /// Returns the shares of all targets, and whether all have responded.
    fn held(&self) -> (Vec<LotUse>, bool) {
        let (mut held, mut all) = (Vec::new(), true);
        for server in &self.namespace.map().servers {
            match self.servers.list_shares(server) {
                Ok(uses) => held.extend(uses),
                // A server without support for lots has no shares.
                Err(e) if e.kind() == ErrorKind::Unsupported => {}
                Err(_) => all = false,
            }
        }
        (held, all)
    }

    /// Releases shares without a row. Returns whether all are released.
    fn release_strangers(&self, held: &[LotUse], known: &BTreeSet<LotId>) -> Result<bool> {
        let mut all = true;
        for used in held.iter().filter(|used| !known.contains(&used.share.lot)) {
            self.namespace.pass_over_lot(used.share.lot)?;
            all &= self.release(used.share.lot, used.target).is_ok();
        }
        Ok(all)
    }

    /// Reconciles a lot's row and its targets. Returns whether all have responded.
    fn settle(&self, id: LotId) -> Result<bool> {
        let mut lot = self.namespace.lot(id)?.lot;
        if lot.state != LotState::Active {
            return Ok(true);
        }
        let held: BTreeMap<TargetId, u64> = self.uses(&lot).into_iter().map(|used| (used.target, used.share.share_bytes)).collect();
        let mut all = true;
        let targets: Vec<TargetId> = lot.shares.iter().map(|(target, _)| *target).collect();
        for target in targets {
            // (An earlier target of this loop may have taken some of it.)
            let bytes = share_at(&lot, target);
            match self.keep_making_room(&lot, target, bytes) {
                // Its files grew while nothing was promised.
                Ok(used) if is_beyond(&used) => lot = self.catch_up(&lot, target, used_blocks(&used))?,
                Ok(_) => {}
                // Its room was given to others while the share was missing.
                Err(e) if e.kind() == ErrorKind::NoSpace => {
                    let has = held.get(&target).copied().unwrap_or(0).min(bytes);
                    lot = self.lower(&lot, target, has)?;
                }
                // It was written to while its share was larger.
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
                // There is no room here; there may be elsewhere.
                Err(e) if e.kind() == ErrorKind::NoSpace => lot = self.namespace.lot(id)?.lot,
                Err(_) => all = false,
            }
        }
        Ok(all)
    }
}

impl Keeper {
    /// Covers a target's use beyond its row: stops its growth, and takes unused promise from other targets as available. Returns the row,
    /// and whether it covers the current use.
    fn cover(&self, lot: &Lot, target: TargetId) -> Result<(Lot, bool)> {
        let has = share_at(lot, target);
        let used = self.all_uses(lot)?.get(&target).map_or(0, used_blocks);
        // (Refused if the use has grown further: then the next round retries.)
        self.keep(lot, target, used)?;
        let missing = used.saturating_sub(has);
        let rest = rest_bytes(lot).min(missing);
        let (row, got) = self.gather(lot, target, rest, (0, missing))?;
        let covered = has.saturating_add(got.min(missing));
        Ok((self.change(row.id, |row| set_share(&mut row.lot, target, covered))?.lot, covered >= used))
    }

    /// Covers a target's use beyond its share with unused promise of other targets. If there is not enough, the lot is used up, and its
    /// files stay. Returns the row.
    fn catch_up(&self, lot: &Lot, target: TargetId, used: u64) -> Result<Lot> {
        let has = share_at(lot, target);
        let missing = used.saturating_sub(has);
        let rest = rest_bytes(lot).min(missing);
        let (row, got) = self.gather(lot, target, rest, (0, missing))?;
        let got = got.min(missing);
        if got == 0 { Ok(row) } else { self.raise(&row, target, has.saturating_add(got)) }
    }
}

/// Returns whether the targets' shares equal the row's, none considers the lot expired while it is not, and none uses more than its share
/// while others have unused promise.
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
