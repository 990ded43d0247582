//! Reclaiming expired lots when space is needed: whole lots without open files, in order of expiry, and no more than necessary. The target
//! must confirm the expiry by the time it has counted, since the service's clock may have jumped.

use super::keeper::Keeper;
use std::time::Instant;
use thalweg_base::numbers::size;
use thalweg_base::utc::utc_minute;
use thalweg_wire::limits;
use thalweg_wire::protocol::lots::{Lot, LotReport, LotState, LotUse};
use thalweg_wire::protocol::metadata::{FileId, TargetId};
use thalweg_wire::{Error, ErrorKind, Result};

/// Returns the expired lots, in the order in which they are reclaimed.
pub(super) fn in_turn(lots: impl IntoIterator<Item = Lot>, now_ns: i64) -> Vec<Lot> {
    let is_over = |lot: &Lot| lot.state == LotState::Active && lot.until_ns <= now_ns;
    let mut over: Vec<Lot> = lots.into_iter().filter(is_over).collect();
    over.sort_by_key(|lot| (lot.until_ns, lot.id));
    over
}

impl Keeper {
    /// Frees this many bytes at a target and waits until they are free; returns the reclaimed lots. Returns none if pending removals have
    /// made room, which may be less.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] if there is less to free, in which case that is freed; or the target does not respond.
    pub(super) fn reclaim(&self, target: TargetId, bytes: u64) -> Result<Vec<LotReport>> {
        let deadline = Instant::now() + limits::LOT_RECLAIM;
        // Pending removals first: they may suffice.
        if self.intents.finish_removals(None, false)? {
            return Ok(Vec::new());
        }
        let server = self.server_of(target)?;
        let uses = self.servers.list_shares(&server).map_err(|e| e.at_server(&server.name))?;
        let used = |lot: &Lot| uses.iter().find(|used: &&LotUse| used.target == target && used.share.lot == lot.id);
        let (mut freed, mut reports, mut files) = (0_u64, Vec::new(), Vec::new());
        let over = in_turn(self.namespace.lots()?.into_iter().map(|row| row.lot), self.namespace.now_ns());
        let mut over: Vec<(Lot, LotUse)> = over.into_iter().filter_map(|lot| Some((lot.clone(), used(&lot)?.clone()))).collect();
        // A lot without use at this target is skipped: removing it would free nothing.
        over.retain(|(_, used)| used.expired && used.used_bytes > 0);
        if !over.is_empty() && !self.intents.recovery().wait(deadline) {
            let problem = "expired lots are kept until clients of an earlier start have reported their open files: try again";
            return Err(Error::new(ErrorKind::NoSpace, problem));
        }
        for (lot, used) in over {
            if freed >= bytes {
                break;
            }
            let Some(of_lot) = self.take(&lot, target, bytes)? else { continue };
            freed = freed.saturating_add(used.used_bytes);
            files.extend(of_lot);
            let mut report = self.report(lot, vec![used]);
            report.lot.state = LotState::Removing;
            reports.push(report);
        }
        // (Does not wait longer for other targets of these lots, whose servers may be unreachable.)
        let done = self.intents.wait_done(files, deadline, limits::LOT_RECLAIM)?.is_empty();
        if freed >= bytes && done && !reports.is_empty() {
            return Ok(reports);
        }
        if reports.is_empty() && self.intents.finish_removals(None, true)? {
            return Ok(reports);
        }
        let problem = match done {
            true => format!("{} are needed at target {target}, but expired lots had {} there", size(bytes), size(freed)),
            false => format!("{} at target {target} are still being freed: try again", size(freed)),
        };
        Err(Error::new(ErrorKind::NoSpace, problem))
    }

    /// Removes an expired lot if none of its files is open and no other thread works on it; returns its files.
    fn take(&self, lot: &Lot, target: TargetId, bytes: u64) -> Result<Option<Vec<FileId>>> {
        let Some(_claim) = self.claims.try_claim(lot.id) else { return Ok(None) };
        let is_over = |lot: Lot| in_turn([lot], self.namespace.now_ns()).pop();
        // It may have been renewed or removed.
        match self.namespace.lot(lot.id) {
            Ok(row) if is_over(row.lot.clone()).is_some() => {}
            Ok(_) => return Ok(None),
            Err(e) if e.is_gone() => return Ok(None),
            Err(e) => return Err(e),
        }
        // From now on its files cannot be opened; a crash here leaves the lot as it was.
        self.change(lot.id, |row| (row.lot.state, row.takes_files) = (LotState::Removing, false))?;
        let files = self.files_of(lot.id)?;
        if files.iter().any(|(id, _)| self.intents.is_open(*id)) {
            self.change(lot.id, |row| row.lot.state = LotState::Active)?;
            return Ok(None);
        }
        self.notes.add(format!(
            "lot `{}` of `{}`, {}, ended at {}, is removed with its {} files: {} are needed at target {target}",
            lot.name,
            lot.owner,
            size(lot.size_bytes),
            utc_minute(lot.until_ns),
            files.len(),
            size(bytes),
        ));
        self.change(lot.id, |row| row.takes_files = true)?;
        if self.finish(lot.id).is_err() {
            self.notify();
        }
        Ok(Some(files.into_iter().map(|(id, _)| id).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::protocol::metadata::LotId;

    #[test]
    fn the_lot_that_ended_first_goes_first_and_one_that_lasts_stays() {
        let lot = |id, until_ns, state| Lot {
            id: LotId(id),
            name: String::new(),
            owner: String::new(),
            size_bytes: 1,
            created_ns: 0,
            until_ns,
            elastic: false,
            least: None,
            state,
            shares: Vec::new(),
        };
        let lots = [
            lot(1, 50, LotState::Active),
            lot(2, 101, LotState::Active),
            lot(3, 20, LotState::Active),
            lot(4, 10, LotState::Removing),
            lot(5, 100, LotState::Active),
            lot(6, 5, LotState::Creating),
        ];
        let order: Vec<u32> = in_turn(lots, 100).iter().map(|lot| lot.id.0).collect();
        assert_eq!(order, [3, 1, 5]);
    }
}
