//! Shares on the targets, and the lot's row.
//!
//! No failure leaves a target with more than the row, or a row with more than the lot: see [`super`].

use super::fits::{FileSystem, Promise};
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

/// Operations on lots.
pub(super) struct Keeper {
    pub namespace: Arc<Namespace>,
    pub servers: Arc<dyn IoServers>,
    pub intents: Arc<Intents>,
    /// One thread at a time works on a lot.
    pub claims: Claims<LotId>,
    /// One request at a time changes an owner's total, by [`super::bounds::number_of`].
    pub owners: Claims<u64>,
    pub notes: Notes,
    pub orders: Orders,
}

/// Returns a share in the form in which a target stores it.
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

/// Returns the used part of a share, in whole blocks.
pub(super) fn used_blocks(used: &LotUse) -> u64 {
    used.used_bytes.saturating_add(BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES
}

/// Returns whether a target's files exceed its share. That occurs only if a lot is renewed after being written to while expired.
pub(super) fn is_beyond(used: &LotUse) -> bool {
    !used.expired && !used.share.elastic && used_blocks(used) > used.share.share_bytes
}

/// Returns a target's share in the lot's row.
pub(super) fn share_at(lot: &Lot, target: TargetId) -> u64 {
    lot.shares.iter().find(|(of, _)| *of == target).map_or(0, |(_, bytes)| *bytes)
}

/// Sets a target's share in the lot's row.
pub(super) fn set_share(lot: &mut Lot, target: TargetId, share_bytes: u64) {
    lot.shares.iter_mut().filter(|(of, _)| *of == target).for_each(|(_, bytes)| *bytes = share_bytes);
}

impl Keeper {
    /// Notifies the worker.
    pub(super) fn notify(&self) {
        self.orders.notify();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.orders.is_stopping()
    }

    pub(super) fn server_of(&self, target: TargetId) -> Result<ServerEntry> {
        let map = self.namespace.map();
        let entry = map.target(target).and_then(|(entry, _)| map.servers.get(entry.server as usize));
        entry.cloned().ok_or_else(|| Error::new(ErrorKind::Invalid, format!("target {target} is not in the store's map")))
    }

    /// Returns the servers of a lot's targets, each once.
    pub(super) fn servers_of(&self, targets: &[(TargetId, u64)]) -> Vec<ServerEntry> {
        let map = self.namespace.map();
        let numbers: BTreeSet<u32> = targets.iter().filter_map(|(target, _)| Some(map.target(*target)?.0.server)).collect();
        numbers.into_iter().filter_map(|number| map.servers.get(number as usize).cloned()).collect()
    }

    /// Sets a target's share of this lot.
    pub(super) fn keep(&self, lot: &Lot, target: TargetId, share_bytes: u64) -> Result<LotUse> {
        let server = self.server_of(target)?;
        let kept = self.servers.keep_share(&server, target, &share_of(lot, share_bytes), lot.least, self.namespace.now_ns());
        kept.map_err(|e| e.at_server(&server.name))
    }

    /// Sets a target's share; if there is no room, expired lots are reclaimed.
    pub(super) fn keep_making_room(&self, lot: &Lot, target: TargetId, share_bytes: u64) -> Result<LotUse> {
        let mut kept = self.keep(lot, target, share_bytes);
        // Pending removals may not suffice; then lots are reclaimed.
        for _ in 0..2 {
            if !kept.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoSpace) {
                break;
            }
            let missing = self.file_systems(lot, &[(target, share_bytes)]).ok();
            let missing =
                missing.and_then(|file_systems| file_systems.first().map(|file_system| file_system.missing_bytes(self.namespace.now_ns())));
            // Reclaims what is needed, or what there is: the target decides whether that suffices.
            let made = self.reclaim(target, missing.unwrap_or(share_bytes).max(1));
            kept = self.keep(lot, target, share_bytes);
            if !made.is_ok_and(|reports| reports.is_empty()) {
                break;
            }
        }
        kept
    }

    /// Removes a target's share.
    pub(super) fn release(&self, lot: LotId, target: TargetId) -> Result<()> {
        let server = self.server_of(target)?;
        self.servers.release_share(&server, target, lot).map_err(|e| e.at_server(&server.name))
    }

    /// Returns the use of a lot's targets, for those that respond.
    pub(super) fn uses(&self, lot: &Lot) -> Vec<LotUse> {
        let listed = self.servers_of(&lot.shares).into_iter().filter_map(|server| self.servers.list_shares(&server).ok());
        let mut uses: Vec<LotUse> = listed.flatten().filter(|used| used.share.lot == lot.id).collect();
        uses.sort_by_key(|used| used.target);
        uses
    }

    /// Returns the use of several lots' targets, in no order.
    pub(super) fn uses_of(&self, lots: &[Lot]) -> Vec<LotUse> {
        let shares: Vec<_> = lots.iter().flat_map(|lot| lot.shares.iter().copied()).collect();
        self.servers_of(&shares).into_iter().filter_map(|server| self.servers.list_shares(&server).ok()).flatten().collect()
    }

    /// Returns the use of all targets of a lot.
    ///
    /// # Errors
    /// A target does not respond.
    pub(super) fn all_uses(&self, lot: &Lot) -> Result<BTreeMap<TargetId, LotUse>> {
        let mut uses = BTreeMap::new();
        for server in self.servers_of(&lot.shares) {
            let listed = self.servers.list_shares(&server).map_err(|e| e.at_server(&server.name))?;
            uses.extend(listed.into_iter().filter(|used| used.share.lot == lot.id).map(|used| (used.target, used)));
        }
        Ok(uses)
    }

    /// Shrinks a share at the target and then in the row, but not below its use. Returns the row.
    pub(super) fn lower(&self, lot: &Lot, target: TargetId, to_bytes: u64) -> Result<Lot> {
        let had = share_at(lot, target);
        let mut now_bytes = to_bytes.min(had);
        let used = used_blocks(&self.keep(lot, target, now_bytes)?).min(had);
        if used > now_bytes {
            // Written to in the meantime.
            self.keep(lot, target, used)?;
            now_bytes = used;
        }
        Ok(self.change(lot.id, |row| set_share(&mut row.lot, target, now_bytes))?.lot)
    }

    /// Enlarges a share in the row and then at the target; returns the row. On failure the share is restored, now or by the worker.
    pub(super) fn raise(&self, lot: &Lot, target: TargetId, to_bytes: u64) -> Result<Lot> {
        let had = share_at(lot, target);
        let raised = self.change(lot.id, |row| set_share(&mut row.lot, target, to_bytes))?.lot;
        match self.keep_making_room(&raised, target, to_bytes) {
            Ok(_) => Ok(raised),
            Err(error) => {
                // The answer may have been lost: the target must confirm its share.
                if self.lower(&raised, target, had).is_err() {
                    self.notify();
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

    /// Returns the row of a lot that is in force or expired.
    pub(super) fn standing(&self, id: LotId) -> Result<Lot> {
        let lot = self.namespace.lot(id)?.lot;
        match lot.state {
            LotState::Active | LotState::Expired => Ok(lot),
            LotState::Creating => Err(Error::new(ErrorKind::Busy, format!("lot `{}` is being created: try again later", lot.name))),
            LotState::Removing => Err(Error::new(ErrorKind::NotFound, format!("lot `{}` is being removed", lot.name))),
        }
    }

    /// Combines a lot with its targets' reports. Expiry is not stored: a lot has expired if the clock says so and no responding target,
    /// each of which counts elapsed time, still promises it. (The clock alone may have been set.)
    pub(super) fn report(&self, lot: Lot, uses: Vec<LotUse>) -> LotReport {
        let is_promised = || uses.iter().any(|used| used.share.lot == lot.id && !used.expired);
        let state = match lot.state {
            LotState::Active if lot.until_ns <= self.namespace.now_ns() && !is_promised() => LotState::Expired,
            state => state,
        };
        LotReport { lot: Lot { state, ..lot }, uses, directories: Vec::new() }
    }

    /// Returns the file systems that are to hold these shares of a lot, and other lots' promises there. (Space that a ballast file or the
    /// kernel reserves for a promise is included in a target's available space.)
    ///
    /// # Errors
    /// A server does not respond.
    pub(super) fn file_systems(&self, lot: &Lot, shares: &[(TargetId, u64)]) -> Result<Vec<FileSystem>> {
        let now_ns = self.namespace.now_ns();
        let mut file_systems = Vec::new();
        for server in self.servers_of(shares) {
            let (spaces, uses) = (self.servers.space(&server)?, self.servers.list_shares(&server)?);
            let mut by_file_system: BTreeMap<u64, (u64, Vec<TargetId>)> = BTreeMap::new();
            for TargetSpace { target, available_bytes, file_system, .. } in spaces {
                let of = by_file_system.entry(file_system).or_insert((available_bytes, Vec::new()));
                of.1.push(target);
            }
            for (available_bytes, here) in by_file_system.into_values() {
                let asked = shares.iter().filter(|(target, _)| here.contains(target));
                let mut file_system = FileSystem { targets: Vec::new(), asked_bytes: 0, free_bytes: available_bytes, promises: Vec::new() };
                for (target, bytes) in asked {
                    file_system.targets.push(*target);
                    file_system.asked_bytes = file_system.asked_bytes.saturating_add(*bytes);
                }
                for used in uses.iter().filter(|used| here.contains(&used.target) && !used.expired && used.share.until_ns > now_ns) {
                    let unused_bytes = used.share.share_bytes.saturating_sub(used.used_bytes);
                    if used.share.lot == lot.id {
                        // Its used space need not be found again.
                        file_system.asked_bytes = file_system.asked_bytes.saturating_sub(used.used_bytes);
                    } else {
                        file_system.promises.push(Promise { until_ns: used.share.until_ns, unused_bytes });
                    }
                }
                if !file_system.targets.is_empty() {
                    file_systems.push(file_system);
                }
            }
        }
        Ok(file_systems)
    }
}
