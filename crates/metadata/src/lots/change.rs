//! A lot gets another time, or another size: at all of its targets, or as it was.

use super::keeper::{Keeper, is_beyond, share_at, used_blocks};
use super::terms::{check_size, resized, until_ns};
use thalweg_wire::protocol::lots::{Lot, LotReport, LotUse};
use thalweg_wire::protocol::metadata::{LotId, TargetId};
use thalweg_wire::{Error, Result};

impl Keeper {
    /// A lot ends so long from now on; 0: now.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::Invalid`]; [`thalweg_wire::ErrorKind::NoSpace`] when its time was over, and its room is promised to others by now.
    pub(super) fn renew(&self, id: LotId, for_ns: u64) -> Result<LotReport> {
        let _claim = self.claims.claim(id);
        let old = self.standing(id)?;
        let new = Lot { until_ns: until_ns(self.namespace.now_ns(), for_ns)?, ..old.clone() };
        let kept = self.keep_all(&old, &new, &new.shares);
        let uses = kept.map_err(|(error, _)| self.explained(&new, &new.shares, error))?;
        let renewed = self.change(id, |row| row.lot.until_ns = new.until_ns)?;
        if uses.iter().any(is_beyond) {
            self.look();
        }
        Ok(self.report(renewed.lot, uses))
    }

    /// Has these targets keep their shares as of `new`; if one refuses, all that may have done it keep what they had as of `old`, and whether
    /// they certainly do is said with the error.
    fn keep_all(&self, old: &Lot, new: &Lot, shares: &[(TargetId, u64)]) -> Result<Vec<LotUse>, (Error, bool)> {
        let mut kept = Vec::with_capacity(shares.len());
        for (target, bytes) in shares {
            match self.keep_making_room(new, *target, *bytes) {
                Ok(used) => kept.push(used),
                Err(error) => {
                    let had = |target: TargetId| share_at(old, target);
                    let asked = &shares[..=kept.len()];
                    let back: Vec<_> = asked.iter().map(|(target, bytes)| self.keep(old, *target, had(*target).min(*bytes))).collect();
                    let is_back = back.iter().all(Result::is_ok);
                    if !is_back {
                        self.look();
                    }
                    return Err((error, is_back));
                }
            }
        }
        Ok(kept)
    }

    /// A lot gets another size, not below what is used of it.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::Invalid`], [`thalweg_wire::ErrorKind::NoSpace`] with the numbers; when a server is away: how much is used there is not
    /// known then.
    pub(super) fn resize(&self, id: LotId, size_bytes: u64) -> Result<LotReport> {
        check_size(size_bytes)?;
        let _claim = self.claims.claim(id);
        let old = self.standing(id)?;
        let shares = || {
            let uses = self.all_uses(&old)?;
            let used: Vec<_> = old.shares.iter().map(|(target, _)| (*target, uses.get(target).map_or(0, used_blocks))).collect();
            resized(&used, size_bytes).map_err(|e| Error::new(e.kind(), format!("lot `{}`: {}", old.name, e.message())))
        };
        let shares = match shares() {
            // What was removed of it may not be gone yet.
            Err(_) if self.intents.finish_removals(Some(id), true)? => shares()?,
            other => other?,
        };
        let new = Lot { size_bytes, shares, ..old.clone() };
        // Smaller at the targets, then all in the row, then larger at the targets.
        let had = |target: TargetId| share_at(&old, target);
        let (smaller, larger): (Vec<_>, Vec<_>) = new.shares.iter().partition::<Vec<_>, _>(|(target, bytes)| *bytes < had(*target));
        self.keep_all_smaller(&old, &new, &smaller)?;
        let resized = self.change(id, |row| {
            row.lot.size_bytes = new.size_bytes;
            row.lot.shares.clone_from(&new.shares);
        })?;
        if let Err((error, is_back)) = self.keep_all(&old, &new, &larger) {
            let error = self.explained(&new, &larger, error);
            if !is_back {
                // A target may have more than it had: the row says so until the worker has heard from it.
                let problem = format!("{}; lot `{}` gets its new size when that server is back", error.message(), old.name);
                return Err(Error::new(error.kind(), problem));
            }
            // (The larger ones are back; the smaller ones are smaller than the row that they get back.)
            let back = self.change(id, |row| {
                row.lot.size_bytes = old.size_bytes;
                row.lot.shares.clone_from(&old.shares);
            })?;
            if smaller.iter().any(|(target, _)| self.keep(&back.lot, *target, had(*target)).is_err()) {
                self.look();
            }
            return Err(error);
        }
        let uses = self.uses(&resized.lot);
        Ok(self.report(resized.lot, uses))
    }

    /// Makes shares smaller at their targets; what is used stays. If one cannot be, they are as they were.
    fn keep_all_smaller(&self, old: &Lot, new: &Lot, smaller: &[(TargetId, u64)]) -> Result<()> {
        for (done, (target, bytes)) in smaller.iter().enumerate() {
            let problem = match self.keep(new, *target, *bytes) {
                Ok(used) if used_blocks(&used) <= *bytes => continue,
                Ok(used) => {
                    let problem =
                        format!("lot `{}` is being written to: {} bytes are used at target {target} by now", old.name, used.used_bytes);
                    Error::new(thalweg_wire::ErrorKind::Busy, problem)
                }
                Err(error) => error,
            };
            let had = |target: TargetId| share_at(old, target);
            if smaller[..=done].iter().any(|(target, _)| self.keep(old, *target, had(*target)).is_err()) {
                self.look();
            }
            return Err(problem);
        }
        Ok(())
    }
}
