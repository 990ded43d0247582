//! Changing a lot's time or size: on all of its targets, or not at all.

use super::keeper::{Keeper, is_beyond, share_at, used_blocks};
use super::terms::{check_size, resized, until_ns};
use thalweg_wire::protocol::lots::{Lot, LotReport, LotUse};
use thalweg_wire::protocol::metadata::{LotId, TargetId};
use thalweg_wire::{Error, Result};

impl Keeper {
    /// Sets a lot's remaining time; 0 ends it now.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::Invalid`]; [`thalweg_wire::ErrorKind::NoSpace`] if it had expired and its space has been promised to
    /// others.
    pub(super) fn renew(&self, id: LotId, for_ns: u64) -> Result<LotReport> {
        let _claim = self.claims.claim(id);
        let old = self.standing(id)?;
        let new = Lot { until_ns: until_ns(self.namespace.now_ns(), for_ns)?, ..old.clone() };
        let kept = self.keep_all(&old, &new, &new.shares);
        let uses = kept.map_err(|(error, _)| self.explained(&new, &new.shares, error))?;
        let renewed = self.change(id, |row| row.lot.until_ns = new.until_ns)?;
        if uses.iter().any(is_beyond) {
            self.notify();
        }
        Ok(self.report(renewed.lot, uses))
    }

    /// Sets these targets' shares as of `new`. If one refuses, those that may have done so get their shares as of `old`; the error comes
    /// with whether they certainly have.
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
                        self.notify();
                    }
                    return Err((error, is_back));
                }
            }
        }
        Ok(kept)
    }

    /// Sets a lot's size, not below its use.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::Invalid`], [`thalweg_wire::ErrorKind::NoSpace`] with the numbers; or a server is unreachable, whose use
    /// is then unknown.
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
            // Removed files of the lot may still take space.
            Err(_) if self.intents.finish_removals(Some(id), true)? => shares()?,
            other => other?,
        };
        let new = Lot { size_bytes, shares, ..old.clone() };
        // Shrinks at the targets, then changes all shares in the row, then grows at the targets.
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
                // A target may have more than before: the row keeps that until the worker has had an answer.
                let problem = format!("{}; lot `{}` gets its new size when that server is back", error.message(), old.name);
                return Err(Error::new(error.kind(), problem));
            }
            // (The enlarged shares are restored; the shrunk ones are below the restored row.)
            let back = self.change(id, |row| {
                row.lot.size_bytes = old.size_bytes;
                row.lot.shares.clone_from(&old.shares);
            })?;
            if smaller.iter().any(|(target, _)| self.keep(&back.lot, *target, had(*target)).is_err()) {
                self.notify();
            }
            return Err(error);
        }
        let uses = self.uses(&resized.lot);
        Ok(self.report(resized.lot, uses))
    }

    /// Shrinks shares at their targets, not below their use. If one cannot be shrunk, all are restored.
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
                self.notify();
            }
            return Err(problem);
        }
        Ok(())
    }
}
