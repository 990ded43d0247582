//! Requests on lots and their authorisation: the lot's owner and the store may see and change a lot; requests of servers require the
//! store's own credential.

use super::bounds::{check_time, number_of};
use super::create::LotRequest;
use super::keeper::Keeper;
use super::notes::Notes;
use super::rules::{refused, sees};
use crate::background::intents::Intents;
use crate::background::orders::Orders;
use crate::claims::Claims;
use crate::io_servers::IoServers;
use crate::namespace::Namespace;
use std::sync::Arc;
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::lots::{Lot, LotOperation, LotReport, LotState};
use thalweg_wire::trust::{Identity, Rights};
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: bytes of reports in a reply, well below a message's body.
const REPLY_BYTES: usize = 512 << 10;

/// The lots of a store.
pub(crate) struct Lots {
    pub(super) keeper: Arc<Keeper>,
    worker: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Lots {
    /// Starts, abandoning lots that were being created at the last stop.
    ///
    /// # Errors
    /// The thread cannot be started, or an error of the database.
    pub(crate) fn start(namespace: Arc<Namespace>, servers: Arc<dyn IoServers>, intents: Arc<Intents>) -> Result<Lots> {
        for row in namespace.lots()? {
            if row.lot.state == LotState::Creating {
                namespace.change_lot(row.lot.id, |row| {
                    row.lot.state = LotState::Removing;
                    Ok(())
                })?;
            }
        }
        let keeper = Arc::new(Keeper {
            namespace,
            servers,
            intents,
            claims: Claims::default(),
            owners: Claims::default(),
            notes: Notes::default(),
            orders: Orders::new(),
        });
        let theirs = Arc::clone(&keeper);
        let worker = std::thread::Builder::new().name("metadata lots".into()).spawn(move || theirs.run());
        let worker = worker.map_err(|e| Error::system("starting a thread", e))?;
        Ok(Lots { keeper, worker: Mutex::new(Some(worker)) })
    }

    /// Checks a server's shares against the rows when it has connected.
    pub(crate) fn met(&self) {
        self.keeper.notify();
    }

    /// Returns once everything left over has been tried.
    #[cfg(test)]
    pub(super) fn settled(&self) {
        self.keeper.orders.have_round();
    }

    /// Returns the log of reclaimed lots.
    #[cfg(test)]
    pub(super) fn notes(&self) -> Vec<String> {
        self.keeper.notes.all()
    }

    /// Executes a request.
    ///
    /// # Errors
    /// [`ErrorKind::Access`] that names the lot's owner; those of each operation ([`LotOperation`]).
    pub(crate) fn answer(&self, who: &Identity, operation: LotOperation) -> Result<Vec<LotReport>> {
        let keeper = &self.keeper;
        match operation {
            LotOperation::Create { name, owner, size_bytes, for_ns, elastic, least, targets } => {
                let owner = owner.unwrap_or_else(|| who.owner.clone());
                if !who.acts_for(&owner) {
                    let problem = format!("this credential is `{}`'s: only the store's own can create a lot for `{owner}`", who.owner);
                    return Err(Error::new(ErrorKind::Access, problem));
                }
                check_time(who, for_ns)?;
                let _owner = keeper.owners.claim(number_of(&owner));
                let bounds = keeper.bounds(who, &owner);
                keeper.create(&LotRequest { name, owner, size_bytes, for_ns, elastic, least, targets }, bounds.as_ref()).map(one)
            }
            LotOperation::Show { name } => self.show(who, name.as_deref()),
            LotOperation::Renew { name, for_ns } => {
                let lot = self.owned(who, &name)?;
                check_time(who, for_ns)?;
                let _owner = keeper.owners.claim(number_of(&lot.owner));
                // A lot in force already counts.
                if for_ns > 0 && lot.until_ns <= keeper.namespace.now_ns() {
                    self.check_bounds(who, &lot, lot.size_bytes)?;
                }
                keeper.renew(lot.id, for_ns).map(one)
            }
            LotOperation::Resize { name, size_bytes } => {
                let lot = self.owned(who, &name)?;
                let _owner = keeper.owners.claim(number_of(&lot.owner));
                if size_bytes > lot.size_bytes && lot.until_ns > keeper.namespace.now_ns() {
                    self.check_bounds(who, &lot, size_bytes)?;
                }
                keeper.resize(lot.id, size_bytes).map(one)
            }
            LotOperation::Remove { name, files } => keeper.remove(self.owned(who, &name)?.id, files).map(one),
            LotOperation::MoveHere { lot, target, bytes } => {
                is_store(who)?;
                keeper.move_here(lot, target, bytes).map(one)
            }
            LotOperation::Reclaim { target, bytes } => {
                is_store(who)?;
                keeper.reclaim(target, bytes)
            }
        }
    }

    /// Returns the lot of this name if `who` may change it.
    fn owned(&self, who: &Identity, name: &str) -> Result<Lot> {
        let lot = self.keeper.namespace.lot_named(name)?.lot;
        if who.acts_for(&lot.owner) { Ok(lot) } else { Err(refused(who, &lot)) }
    }

    /// Refuses an increase for a lot's owner beyond this credential's bounds.
    fn check_bounds(&self, who: &Identity, lot: &Lot, size_bytes: u64) -> Result<()> {
        let Some(bounds) = self.keeper.bounds(who, &lot.owner) else { return Ok(()) };
        bounds.check(&self.keeper.namespace.lots()?, (Some(lot.id), size_bytes))
    }

    fn show(&self, who: &Identity, name: Option<&str>) -> Result<Vec<LotReport>> {
        let keeper = &self.keeper;
        let lots: Vec<Lot> = match name {
            Some(name) => {
                let lot = keeper.namespace.lot_named(name)?.lot;
                if !sees(who, &lot) {
                    return Err(refused(who, &lot));
                }
                vec![lot]
            }
            None => keeper.namespace.lots()?.into_iter().map(|row| row.lot).filter(|lot| sees(who, lot)).collect(),
        };
        // Directories are found by scanning all inodes, so they are only reported for a single lot.
        let mut directories = match name {
            Some(_) => keeper.directories_of(&lots.iter().map(|lot| lot.id).collect::<Vec<_>>())?,
            None => std::collections::HashMap::new(),
        };
        let uses = keeper.uses_of(&lots);
        let mut reports: Vec<LotReport> = Vec::with_capacity(lots.len());
        for lot in lots {
            let of_lot = uses.iter().filter(|used| used.share.lot == lot.id).cloned().collect();
            let mut report = keeper.report(lot, of_lot);
            report.directories = directories.remove(&report.lot.id).unwrap_or_default();
            reports.push(report);
        }
        fit(&mut reports)?;
        Ok(reports)
    }
}

impl Drop for Lots {
    fn drop(&mut self) {
        self.keeper.orders.stop();
        if let Some(worker) = self.worker.lock().take() {
            let _ = worker.join();
        }
    }
}

fn one(report: LotReport) -> Vec<LotReport> {
    vec![report]
}

/// Requires the store's own credential, for requests of servers.
fn is_store(who: &Identity) -> Result<()> {
    match who.rights {
        Rights::Store => Ok(()),
        Rights::Read | Rights::Write => {
            let problem = format!("only the store's own servers may request this, but this credential is `{}`'s", who.owner);
            Err(Error::new(ErrorKind::Access, problem))
        }
    }
}

/// Omits targets' reports, of the last lots first, until the reports fit in a message.
fn fit(reports: &mut [LotReport]) -> Result<()> {
    let mut bytes = 0;
    for report in reports {
        let names = report.lot.name.len() + report.lot.owner.len();
        bytes += 64 + names + 15 * report.lot.shares.len() + report.directories.iter().map(|path| path.len() + 5).sum::<usize>();
        let uses = report.uses.len() * (names + 64);
        if bytes + uses > REPLY_BYTES {
            report.uses.clear();
        } else {
            bytes += uses;
        }
        if bytes > REPLY_BYTES {
            return Err(Error::new(ErrorKind::TooMany, "there are more lots than fit in a reply: request one by name"));
        }
    }
    Ok(())
}
