//! Bounds on an owner's reservations, in size and time: as in the credential, or by default such that others find room.
//!
//! All of an owner's current lots count together, on all targets, including those that the store made for the owner. Bounds in the
//! credential are sufficient. Without them, the lots may take half of the store, and no lot may leave less than a quarter of it outside of
//! lots. The store's own credential is not bound.

use super::keeper::Keeper;
use super::rows::Row;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use thalweg_base::numbers::{age, size};
use thalweg_wire::limits;
use thalweg_wire::protocol::lots::{Lot, LotState};
use thalweg_wire::protocol::metadata::LotId;
use thalweg_wire::trust::{Identity, Rights};
use thalweg_wire::{Error, ErrorKind, Result};

/// Checks the lots of an owner when one is created, enlarged, or renewed.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    owner: String,
    /// The bound in the credential, if any.
    of_credential: Option<u64>,
    space_bytes: u64,
    now_ns: i64,
}

impl Bounds {
    /// Refuses a lot of this size (replacing the one with this number) in addition to the others.
    ///
    /// # Errors
    /// [`ErrorKind::Quota`] with the numbers.
    pub(super) fn check(&self, rows: &[Row], (id, size_bytes): (Option<LotId>, u64)) -> Result<()> {
        let lasts =
            |lot: &&Lot| matches!(lot.state, LotState::Creating | LotState::Active) && lot.until_ns > self.now_ns && Some(lot.id) != id;
        let sum = |sum: u64, lot: &Lot| sum.saturating_add(lot.size_bytes);
        let others = || rows.iter().map(|row| &row.lot).filter(lasts);
        let (theirs, all) = (others().filter(|lot| lot.owner == self.owner).fold(0, sum), others().fold(0, sum));
        let half = self.space_bytes / limits::LOTS_OF_OWNER_PART;
        let (most, why) = match self.of_credential {
            Some(most) => (most, "as its credential allows".to_owned()),
            None => (half, format!("half of the store's {}", size(self.space_bytes))),
        };
        let more = "ask for less, or ask the store's operator for a credential with more (`thalweg credential create NAME --lots SIZE`)";
        if theirs.saturating_add(size_bytes) > most {
            let problem = format!(
                "lots of `{}` may have {} together, {why}: {} asked, and their other lots have {}; {more}",
                self.owner,
                size(most),
                size(size_bytes),
                size(theirs),
            );
            return Err(Error::new(ErrorKind::Quota, problem));
        }
        let for_all = self.space_bytes - self.space_bytes / limits::OUTSIDE_LOTS_PART;
        if self.of_credential.is_none() && all.saturating_add(size_bytes) > for_all {
            let problem = format!(
                "all lots have {} of the store's {}, and {} more would leave too little outside of them (a quarter); {more}",
                size(all),
                size(self.space_bytes),
                size(size_bytes),
            );
            return Err(Error::new(ErrorKind::Quota, problem));
        }
        Ok(())
    }
}

/// Refuses a time that is longer than the credential allows.
///
/// # Errors
/// [`ErrorKind::Quota`] with the maximum.
pub(super) fn check_time(who: &Identity, for_ns: u64) -> Result<()> {
    let most = who.lots.longest().unwrap_or(limits::LOT_OF_OWNER);
    // (The maximum of any lot is refused elsewhere, with another message.)
    if who.rights == Rights::Store || for_ns > limits::LOT_NS || u128::from(for_ns) <= most.as_nanos() {
        return Ok(());
    }
    let problem = format!(
        "lots of `{}` last at most {} from now on: ask for less and renew it, or ask the operator for a credential with more (`thalweg \
         credential create NAME --lots-for TIME`)",
        who.owner,
        age(most),
    );
    Err(Error::new(ErrorKind::Quota, problem))
}

/// Returns a number for an owner, by which changes of its lots are serialised.
pub(super) fn number_of(owner: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(owner)
}

impl Keeper {
    /// Returns the bounds on lots of an owner for this client; `None` for the store's own credential.
    pub(super) fn bounds(&self, who: &Identity, owner: &str) -> Option<Bounds> {
        if who.rights == Rights::Store {
            return None;
        }
        let of_credential = who.lots.most_bytes();
        // (With a bound in the credential, no server is queried.)
        let space_bytes = if of_credential.is_some() { 0 } else { self.space_bytes() };
        Some(Bounds { owner: owner.to_owned(), of_credential, space_bytes, now_ns: self.namespace.now_ns() })
    }

    /// Returns the total size of the file systems of those servers that respond.
    fn space_bytes(&self) -> u64 {
        let map = self.namespace.map();
        let targets: Vec<_> = map.targets.iter().map(|entry| (entry.target, 0)).collect();
        let known: BTreeSet<_> = targets.iter().map(|(target, _)| *target).collect();
        let mut sizes: BTreeMap<(String, u64), u64> = BTreeMap::new();
        for server in self.servers_of(&targets) {
            let here = self.servers.space(&server).unwrap_or_default();
            let ours = here.into_iter().filter(|space| known.contains(&space.target));
            sizes.extend(ours.map(|space| ((server.node.clone(), space.file_system), space.total_bytes)));
        }
        sizes.into_values().fold(0, u64::saturating_add)
    }
}
