//! A lot comes into being: its row, a share at each of its targets, and only then the promise.

use super::bounds::Bounds;
use super::fits;
use super::keeper::Keeper;
use super::rows::Row;
use super::terms::{check_name, check_size, new_until_ns, share_bytes};
use thalweg_wire::protocol::lots::{Level, Lot, LotReport, LotState, LotUse};
use thalweg_wire::protocol::metadata::{LotId, TargetId};
use thalweg_wire::{Error, ErrorKind, Result};

/// What is asked for.
pub(super) struct Asked {
    pub name: String,
    pub owner: String,
    pub size_bytes: u64,
    pub for_ns: u64,
    pub elastic: bool,
    pub least: Option<Level>,
    /// None: all.
    pub targets: Vec<TargetId>,
}

impl Keeper {
    /// Reserves.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with what is expected, [`ErrorKind::Exists`]; [`ErrorKind::Quota`] past the `bounds`; [`ErrorKind::NoSpace`] with the numbers, and when it would fit;
    /// the targets'. Nothing is left of it then.
    pub(super) fn create(&self, asked: &Asked, bounds: Option<&Bounds>) -> Result<LotReport> {
        let within = |rows: &[Row]| bounds.map_or(Ok(()), |bounds| bounds.check(rows, (None, asked.size_bytes)));
        let lot = self.namespace.add_lot_within(&self.drawn_up(asked)?, within)?;
        let _claim = self.claims.claim(lot.id);
        match self.keep_everywhere(&lot) {
            Ok(uses) => {
                let active = self.change(lot.id, |row| row.lot.state = LotState::Active)?;
                Ok(self.report(active.lot, uses))
            }
            Err(error) => {
                self.undo(lot.id)?;
                Err(error)
            }
        }
    }

    /// The row that it would have.
    fn drawn_up(&self, asked: &Asked) -> Result<Lot> {
        let now_ns = self.namespace.now_ns();
        check_name("a lot", &asked.name)?;
        check_name("an owner", &asked.owner)?;
        check_size(asked.size_bytes)?;
        let until_ns = new_until_ns(now_ns, asked.for_ns)?;
        let map = self.namespace.map();
        let mut targets = asked.targets.clone();
        if targets.is_empty() {
            targets = map.targets.iter().map(|entry| entry.target).collect();
        }
        targets.sort_unstable();
        targets.dedup();
        if let Some(stranger) = targets.iter().find(|target| map.target(**target).is_none()) {
            let known: Vec<String> = map.targets.iter().map(|entry| entry.target.to_string()).collect();
            let problem = format!("there is no target {stranger}: the store has the targets {}", known.join(", "));
            return Err(Error::new(ErrorKind::Invalid, problem));
        }
        let share = share_bytes(asked.size_bytes, targets.len());
        Ok(Lot {
            id: LotId(0),
            name: asked.name.clone(),
            owner: asked.owner.clone(),
            size_bytes: asked.size_bytes,
            created_ns: now_ns,
            until_ns,
            elastic: asked.elastic,
            least: asked.least,
            state: LotState::Creating,
            shares: targets.into_iter().map(|target| (target, share)).collect(),
        })
    }

    fn keep_everywhere(&self, lot: &Lot) -> Result<Vec<LotUse>> {
        let keep = |(target, bytes): &(TargetId, u64)| self.keep_making_room(lot, *target, *bytes);
        let kept: Result<Vec<LotUse>> = lot.shares.iter().map(keep).collect();
        kept.map_err(|error| self.explained(lot, &lot.shares, error))
    }

    /// A refusal for want of space, with the numbers of all targets and when there would be room. Where those numbers do not say that it does not
    /// fit, the refusal is as its target has worded it, with its own.
    pub(super) fn explained(&self, lot: &Lot, shares: &[(TargetId, u64)], error: Error) -> Error {
        if error.kind() != ErrorKind::NoSpace {
            return error;
        }
        let now_ns = self.namespace.now_ns();
        let shortage = self.grounds(lot, shares).ok().and_then(|grounds| fits::shortage(&lot.name, lot.size_bytes, &grounds, now_ns));
        shortage.map_or(error, |text| Error::new(ErrorKind::NoSpace, text))
    }

    /// Nothing is to be left of a lot that could not be made: now, or when the servers are back that are away.
    fn undo(&self, id: LotId) -> Result<()> {
        self.change(id, |row| row.lot.state = LotState::Removing)?;
        if self.finish(id).is_err() {
            self.look();
        }
        Ok(())
    }
}
