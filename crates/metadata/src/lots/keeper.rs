//! Shares at the targets, and the row beside them.
//!
//! Whatever fails in between, no target has more than the row says, and the row never says more than the lot is: see [`super`].

use super::fits::{Ground, Promise};
use super::notes::Notes;
use super::terms::BLOCK_BYTES;
use crate::background::intents::Intents;
use crate::background::orders::Orders;
use crate::claims::Claims;
use crate::io_servers::IoServers;
use crate::lots::rows::Row;
use crate::namespace::Namespace;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thalweg_wire::protocol::io::TargetSpace;
use thalweg_wire::protocol::lots::{Lot, LotReport, LotShare, LotState, LotUse};
use thalweg_wire::protocol::metadata::{LotId, ServerEntry, TargetId};
use thalweg_wire::{Error, ErrorKind, Result};

/// What works on lots.
pub(super) struct Keeper {
    pub namespace: Arc<Namespace>,
    pub servers: Arc<dyn IoServers>,
    pub intents: Arc<Intents>,
    /// One thread works on a lot at a time.
    pub claims: Claims<LotId>,
    /// One request at a time changes how much an owner has, by [`super::bounds::number_of`].
    pub owners: Claims<u64>,
    pub notes: Notes,
    pub orders: Orders,
}

/// A share as a target keeps it.
pub(super) fn share_of(lot: &Lot, share_bytes: u64) -> LotShare {
    LotShare {
        lot: lot.id,
        name: lot.name.clone(),
        owner: lot.owner.clone(),
        share_bytes,
        size_bytes: lot.size_bytes,
        until_ns: lot.until_ns,
        elastic: lot.elastic,
    }
}

/// What a use of a lot takes of a share, in whole blocks.
pub(super) fn used_blocks(used: &LotUse) -> u64 {
    used.used_bytes.saturating_add(BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES
}

/// Whether a target's files have more than its share, though only what is promised may be written. That is so of a lot that was written to
/// while nothing was promised of it, and is renewed.
pub(super) fn is_beyond(used: &LotUse) -> bool {
    !used.expired && !used.share.elastic && used_blocks(used) > used.share.share_bytes
}

/// What a lot's row says of a target.
pub(super) fn share_at(lot: &Lot, target: TargetId) -> u64 {
    lot.shares.iter().find(|(of, _)| *of == target).map_or(0, |(_, bytes)| *bytes)
}

/// Puts a share in a lot's row.
pub(super) fn set_share(lot: &mut Lot, target: TargetId, share_bytes: u64) {
    lot.shares.iter_mut().filter(|(of, _)| *of == target).for_each(|(_, bytes)| *bytes = share_bytes);
}

impl Keeper {
    /// Says that the worker has something to do.
    pub(super) fn look(&self) {
        self.orders.look();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.orders.is_stopping()
    }

    pub(super) fn server_of(&self, target: TargetId) -> Result<ServerEntry> {
        let map = self.namespace.map();
        let entry = map.target(target).and_then(|(entry, _)| map.servers.get(entry.server as usize));
        entry.cloned().ok_or_else(|| Error::new(ErrorKind::Invalid, format!("target {target} is not in the store's map")))
    }

    /// The servers of a lot's targets, each once.
    pub(super) fn servers_of(&self, targets: &[(TargetId, u64)]) -> Vec<ServerEntry> {
        let map = self.namespace.map();
        let numbers: BTreeSet<u32> = targets.iter().filter_map(|(target, _)| Some(map.target(*target)?.0.server)).collect();
        numbers.into_iter().filter_map(|number| map.servers.get(number as usize).cloned()).collect()
    }

    /// Has a target keep a share of this lot as it is now.
    pub(super) fn keep(&self, lot: &Lot, target: TargetId, share_bytes: u64) -> Result<LotUse> {
        let server = self.server_of(target)?;
        let kept = self.servers.keep_share(&server, target, &share_of(lot, share_bytes), lot.least, self.namespace.now_ns());
        kept.map_err(|e| e.at_server(&server.name))
    }

    /// The same; where there is no room, lots whose time is over make some.
    pub(super) fn keep_making_room(&self, lot: &Lot, target: TargetId, share_bytes: u64) -> Result<LotUse> {
        let mut kept = self.keep(lot, target, share_bytes);
        // Removals that were under way may not suffice: then lots are removed.
        for _ in 0..2 {
            if !kept.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoSpace) {
                break;
            }
            let missing = self.grounds(lot, &[(target, share_bytes)]).ok();
            let missing = missing.and_then(|grounds| grounds.first().map(|ground| ground.missing_bytes(self.namespace.now_ns())));
            // As much as it takes, or what there is: the target says whether that was enough.
            let made = self.reclaim(target, missing.unwrap_or(share_bytes).max(1));
            kept = self.keep(lot, target, share_bytes);
            if !made.is_ok_and(|reports| reports.is_empty()) {
                break;
            }
        }
        kept
    }

    /// Has a target forget its share.
    pub(super) fn release(&self, lot: LotId, target: TargetId) -> Result<()> {
        let server = self.server_of(target)?;
        self.servers.release_share(&server, target, lot).map_err(|e| e.at_server(&server.name))
    }

    /// What those of a lot's targets have of it that answer.
    pub(super) fn uses(&self, lot: &Lot) -> Vec<LotUse> {
        let listed = self.servers_of(&lot.shares).into_iter().filter_map(|server| self.servers.list_shares(&server).ok());
        let mut uses: Vec<LotUse> = listed.flatten().filter(|used| used.share.lot == lot.id).collect();
        uses.sort_by_key(|used| used.target);
        uses
    }

    /// The same of several lots, in no order.
    pub(super) fn uses_of(&self, lots: &[Lot]) -> Vec<LotUse> {
        let shares: Vec<_> = lots.iter().flat_map(|lot| lot.shares.iter().copied()).collect();
        self.servers_of(&shares).into_iter().filter_map(|server| self.servers.list_shares(&server).ok()).flatten().collect()
    }

    /// What all targets of a lot have of it.
    ///
    /// # Errors
    /// When one does not answer.
    pub(super) fn all_uses(&self, lot: &Lot) -> Result<BTreeMap<TargetId, LotUse>> {
        let mut uses = BTreeMap::new();
        for server in self.servers_of(&lot.shares) {
            let listed = self.servers.list_shares(&server).map_err(|e| e.at_server(&server.name))?;
            uses.extend(listed.into_iter().filter(|used| used.share.lot == lot.id).map(|used| (used.target, used)));
        }
        Ok(uses)
    }

    /// Makes a share smaller, at the target and then in the row; but not smaller than what is used there. The row.
    pub(super) fn lower(&self, lot: &Lot, target: TargetId, to_bytes: u64) -> Result<Lot> {
        let had = share_at(lot, target);
        let mut now_bytes = to_bytes.min(had);
        let used = used_blocks(&self.keep(lot, target, now_bytes)?).min(had);
        if used > now_bytes {
            // It was written to meanwhile.
            self.keep(lot, target, used)?;
            now_bytes = used;
        }
        Ok(self.change(lot.id, |row| set_share(&mut row.lot, target, now_bytes))?.lot)
    }

    /// Makes a share larger, in the row and then at the target. The row; where it fails, things are as they were, or the worker makes them so.
    pub(super) fn raise(&self, lot: &Lot, target: TargetId, to_bytes: u64) -> Result<Lot> {
        let had = share_at(lot, target);
        let raised = self.change(lot.id, |row| set_share(&mut row.lot, target, to_bytes))?.lot;
        match self.keep_making_room(&raised, target, to_bytes) {
            Ok(_) => Ok(raised),
            Err(error) => {
                // Its answer may be lost: only what the target says now is certain.
                if self.lower(&raised, target, had).is_err() {
                    self.look();
                }
                Err(error)
            }
        }
    }

    /// Changes a lot's row, durably.
    pub(super) fn change(&self, id: LotId, change: impl Fn(&mut Row)) -> Result<Row> {
        self.namespace.change_lot(id, |row| {
            change(row);
            Ok(())
        })
    }

    /// The row of a lot that is promised, or was until its time was over.
    pub(super) fn standing(&self, id: LotId) -> Result<Lot> {
        let lot = self.namespace.lot(id)?.lot;
        match lot.state {
            LotState::Active | LotState::Expired => Ok(lot),
            LotState::Creating => Err(Error::new(ErrorKind::Busy, format!("lot `{}` is being made: try again then", lot.name))),
            LotState::Removing => Err(Error::new(ErrorKind::NotFound, format!("lot `{}` is being removed", lot.name))),
        }
    }

    /// A lot and what its targets say. That its time is over is never written down: the clock says it, and none of the targets that
    /// answered promises it still, which count how much time has passed. (The clock alone may have been set.)
    pub(super) fn report(&self, lot: Lot, uses: Vec<LotUse>) -> LotReport {
        let is_promised = || uses.iter().any(|used| used.share.lot == lot.id && !used.expired);
        let state = match lot.state {
            LotState::Active if lot.until_ns <= self.namespace.now_ns() && !is_promised() => LotState::Expired,
            state => state,
        };
        LotReport { lot: Lot { state, ..lot }, uses, directories: Vec::new() }
    }

    /// The file systems that are to hold these shares of a lot, and what is promised there to others. (What a ballast or the kernel keeps for a
    /// promise is among what a target calls available.)
    ///
    /// # Errors
    /// When a server does not answer.
    pub(super) fn grounds(&self, lot: &Lot, shares: &[(TargetId, u64)]) -> Result<Vec<Ground>> {
        let now_ns = self.namespace.now_ns();
        let mut grounds = Vec::new();
        for server in self.servers_of(shares) {
            let (spaces, uses) = (self.servers.space(&server)?, self.servers.list_shares(&server)?);
            let mut by_file_system: BTreeMap<u64, (u64, Vec<TargetId>)> = BTreeMap::new();
            for TargetSpace { target, available_bytes, file_system, .. } in spaces {
                let of = by_file_system.entry(file_system).or_insert((available_bytes, Vec::new()));
                of.1.push(target);
            }
            for (available_bytes, here) in by_file_system.into_values() {
                let asked = shares.iter().filter(|(target, _)| here.contains(target));
                let mut ground = Ground { targets: Vec::new(), asked_bytes: 0, free_bytes: available_bytes, promises: Vec::new() };
                for (target, bytes) in asked {
                    ground.targets.push(*target);
                    ground.asked_bytes = ground.asked_bytes.saturating_add(*bytes);
                }
                for used in uses.iter().filter(|used| here.contains(&used.target) && !used.expired && used.share.until_ns > now_ns) {
                    let unused_bytes = used.share.share_bytes.saturating_sub(used.used_bytes);
                    if used.share.lot == lot.id {
                        // What it has there already it need not find.
                        ground.asked_bytes = ground.asked_bytes.saturating_sub(used.used_bytes);
                    } else {
                        ground.promises.push(Promise { until_ns: used.share.until_ns, unused_bytes });
                    }
                }
                if !ground.targets.is_empty() {
                    grounds.push(ground);
                }
            }
        }
        Ok(grounds)
    }
}
