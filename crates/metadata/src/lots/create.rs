//! Creating a lot: its row, a share on each of its targets, and finally the promise.

use super::bounds::Bounds;
use super::fits;
use super::keeper::Keeper;
use super::rows::Row;
use super::terms::{check_name, check_size, new_until_ns, share_bytes};
use thalweg_wire::protocol::lots::{Level, Lot, LotReport, LotState, LotUse};
use thalweg_wire::protocol::metadata::{LotId, TargetId};
use thalweg_wire::{Error, ErrorKind, Result};

/// A requested lot.
pub(super) struct LotRequest {
    pub name: String,
    pub owner: String,
    pub size_bytes: u64,
    pub for_ns: u64,
    pub elastic: bool,
    pub least: Option<Level>,
    /// Empty: all.
    pub targets: Vec<TargetId>,
}

impl Keeper {
    /// Creates a lot.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with what is expected, [`ErrorKind::Exists`]; [`ErrorKind::Quota`] beyond the `bounds`;
    /// [`ErrorKind::NoSpace`] with the numbers and when it would fit; those of the targets. Nothing of the lot remains then.
    pub(super) fn create(&self, request: &LotRequest, bounds: Option<&Bounds>) -> Result<LotReport> {
        let within = |rows: &[Row]| bounds.map_or(Ok(()), |bounds| bounds.check(rows, (None, request.size_bytes)));
        let lot = self.namespace.add_lot_within(&self.row_of(request)?, within)?;
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

    /// Returns the row of the requested lot.
    fn row_of(&self, request: &LotRequest) -> Result<Lot> {
        let now_ns = self.namespace.now_ns();
        check_name("a lot", &request.name)?;
        check_name("an owner", &request.owner)?;
        check_size(request.size_bytes)?;
        let until_ns = new_until_ns(now_ns, request.for_ns)?;
        let map = self.namespace.map();
        let mut targets = request.targets.clone();
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
        let share = share_bytes(request.size_bytes, targets.len());
        Ok(Lot {
            id: LotId(0),
            name: request.name.clone(),
            owner: request.owner.clone(),
            size_bytes: request.size_bytes,
            created_ns: now_ns,
            until_ns,
            elastic: request.elastic,
            least: request.least,
            state: LotState::Creating,
            shares: targets.into_iter().map(|target| (target, share)).collect(),
        })
    }

    fn keep_everywhere(&self, lot: &Lot) -> Result<Vec<LotUse>> {
        let keep = |(target, bytes): &(TargetId, u64)| self.keep_making_room(lot, *target, *bytes);
        let kept: Result<Vec<LotUse>> = lot.shares.iter().map(keep).collect();
        kept.map_err(|error| self.explained(lot, &lot.shares, error))
    }

    /// Returns a refusal for want of space, with the numbers of all targets and when there would be room. If those numbers do not show a
    /// shortage, returns the target's own refusal.
    pub(super) fn explained(&self, lot: &Lot, shares: &[(TargetId, u64)], error: Error) -> Error {
        if error.kind() != ErrorKind::NoSpace {
            return error;
        }
        let now_ns = self.namespace.now_ns();
        let shortage =
            self.file_systems(lot, shares).ok().and_then(|file_systems| fits::shortage(&lot.name, lot.size_bytes, &file_systems, now_ns));
        shortage.map_or(error, |text| Error::new(ErrorKind::NoSpace, text))
    }

    /// Removes a lot that could not be created: now, or once unreachable servers are back.
    fn undo(&self, id: LotId) -> Result<()> {
        self.change(id, |row| row.lot.state = LotState::Removing)?;
        if self.finish(id).is_err() {
            self.notify();
        }
        Ok(())
    }
}
