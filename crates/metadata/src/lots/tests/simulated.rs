//! Simulated I/O servers with one target each, a database, and a fuse: after a number of steps nothing works any more, as after a kill.

use crate::background::intents::Intents;
use crate::database::in_memory::InMemory;
use crate::database::{Database, DatabaseError, Moment, Ordered, Transaction, Unwatched, Verdict, View, Watch};
use crate::io_servers::IoServers;
use crate::lineage::WitnessReports;
use crate::lots::Lots;
use crate::lots::keeper::share_of;
use crate::lots::terms::{rest_bytes, whole_bytes};
use crate::namespace::Namespace;
use crate::recovery::Recovery;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::io::{DatafileId, TargetSpace};
use thalweg_wire::protocol::lots::{Level, LotOperation, LotReport, LotShare, LotState, LotUse};
use thalweg_wire::protocol::metadata::*;
use thalweg_wire::trust::{CredentialId, Identity, LotBounds, Rights};
use thalweg_wire::{Error, ErrorKind, Result};

pub(crate) const TARGETS: u32 = 4;
pub(crate) const MI: u64 = 1 << 20;
pub(crate) const GI: u64 = 1 << 30;
/// The capacity of each target.
pub(crate) const CAPACITY: u64 = 10 * GI;
pub(crate) const HOUR_NS: u64 = 3_600_000_000_000;
pub(crate) const OWNER: Owner = Owner { mode: 0o644, uid: 1, gid: 2 };

pub(crate) fn owner(name: &str) -> Identity {
    Identity { id: CredentialId([1; 16]), owner: name.to_owned(), rights: Rights::Write, until_s: None, lots: LotBounds::MOST }
}

/// Counts down with each step; at 0 further steps have no effect.
pub(crate) struct Fuse(AtomicI64);

impl Fuse {
    pub(crate) fn endless() -> Fuse {
        Fuse(AtomicI64::new(i64::MAX / 2))
    }

    pub(crate) fn light(&self, steps: i64) {
        self.0.store(steps, Ordering::SeqCst);
    }

    pub(crate) fn is_burnt(&self) -> bool {
        self.0.load(Ordering::SeqCst) <= 0
    }

    fn step(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The state of the targets.
#[derive(Default)]
pub(crate) struct Disks {
    pub shares: BTreeMap<(TargetId, LotId), LotShare>,
    pub datafiles: BTreeMap<DatafileId, u64>,
    /// Bytes of writes in progress in lots.
    pub in_flight: BTreeMap<TargetId, u64>,
    /// Bytes outside lots.
    pub outside: BTreeMap<TargetId, u64>,
    pub away: BTreeSet<TargetId>,
    /// The service's clock has jumped: by the targets' elapsed time no lot has expired.
    pub nothing_is_over: bool,
    /// A preallocated file holds promised space.
    pub has_ballast: bool,
}

fn now_ns() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

impl Disks {
    fn level(&self) -> Level {
        if self.has_ballast { Level::Ballast } else { Level::Admission }
    }

    pub(crate) fn used(&self, target: TargetId, lot: Option<LotId>) -> u64 {
        self.datafiles.iter().filter(|(id, _)| id.target == target && id.lot == lot).map(|(_, bytes)| bytes).sum()
    }

    fn free(&self, target: TargetId) -> u64 {
        let used: u64 = self.datafiles.iter().filter(|(id, _)| id.target == target).map(|(_, bytes)| bytes).sum();
        CAPACITY - used - self.outside.get(&target).copied().unwrap_or(0)
    }

    /// Returns the unused bytes promised here to lots other than this one.
    fn promised(&self, target: TargetId, but: LotId) -> u64 {
        let lasting = self.shares.iter().filter(|((of, lot), share)| *of == target && *lot != but && share.until_ns > now_ns());
        lasting.map(|((_, lot), share)| share.share_bytes.saturating_sub(self.used(target, Some(*lot)))).sum()
    }

    fn of(&self, target: TargetId, share: &LotShare) -> LotUse {
        LotUse {
            share: share.clone(),
            target,
            used_bytes: self.used(target, Some(share.lot)),
            level: self.level(),
            expired: share.until_ns <= now_ns() && !self.nothing_is_over,
        }
    }

    /// Checks that no lot is promised more than its size, and nothing is promised twice.
    pub(crate) fn check(&self) {
        let lots: BTreeSet<LotId> = self.shares.keys().map(|(_, lot)| *lot).collect();
        for lot in lots {
            let of_lot: Vec<&LotShare> = self.shares.iter().filter(|((_, of), _)| *of == lot).map(|(_, share)| share).collect();
            let kept: u64 = of_lot.iter().map(|share| share.share_bytes).sum();
            let size = of_lot.iter().map(|share| share.size_bytes).max().unwrap();
            assert!(kept <= whole_bytes(size, TARGETS as usize), "lot {lot} of {size} is promised {kept}");
        }
        for target in (0..TARGETS).map(TargetId) {
            assert!(self.promised(target, LotId(0)) <= self.free(target), "target {target} has promised more than it has");
        }
    }
}

pub(crate) struct Servers {
    pub disks: Arc<Mutex<Disks>>,
    pub fuse: Arc<Fuse>,
}

impl Servers {
    fn target(&self, server: &ServerEntry) -> Result<TargetId> {
        let target = TargetId(server.name[2..].parse().unwrap());
        if self.fuse.is_burnt() || self.disks.lock().away.contains(&target) {
            return Err(Error::new(ErrorKind::Reset, "away").at_server(&server.name));
        }
        Ok(target)
    }

    /// The step took effect; its answer may still be lost.
    fn done<T>(&self, answer: T) -> Result<T> {
        self.fuse.step();
        if self.fuse.is_burnt() { Err(Error::new(ErrorKind::Reset, "killed")) } else { Ok(answer) }
    }
}

impl IoServers for Servers {
    fn remove(&self, server: &ServerEntry, datafiles: &[DatafileId]) -> Result<()> {
        self.target(server)?;
        let mut disks = self.disks.lock();
        datafiles.iter().for_each(|id| _ = disks.datafiles.remove(id));
        Ok(())
    }

    fn truncate(&self, _: &ServerEntry, _: &[(DatafileId, u64)]) -> Result<()> {
        Ok(())
    }

    fn sizes(&self, _: &ServerEntry, datafiles: &[DatafileId]) -> Result<Vec<u64>> {
        Ok(vec![0; datafiles.len()])
    }

    fn sync_all(&self, _: &ServerEntry) -> Result<()> {
        Ok(())
    }

    fn keep_share(&self, server: &ServerEntry, target: TargetId, share: &LotShare, least: Option<Level>, _: i64) -> Result<LotUse> {
        assert_eq!(self.target(server)?, target);
        if least > Some(Level::Admission) {
            return Err(Error::new(ErrorKind::Unsupported, "only admission can be had here").at_server(&server.name));
        }
        let mut disks = self.disks.lock();
        let used = disks.used(target, Some(share.lot));
        let had = disks.shares.get(&(target, share.lot)).filter(|had| had.until_ns > now_ns()).map_or(0, |had| had.share_bytes);
        let room = disks.free(target).saturating_sub(disks.promised(target, share.lot));
        if share.until_ns > now_ns() && share.share_bytes > had && share.share_bytes.saturating_sub(used) > room {
            return Err(Error::new(ErrorKind::NoSpace, format!("{room} bytes are free")).at_server(&server.name));
        }
        let taken = used + disks.in_flight.get(&target).copied().unwrap_or(0);
        if share.until_ns > now_ns() && share.share_bytes < had && share.share_bytes < taken {
            return Err(Error::new(ErrorKind::Quota, format!("{taken} bytes are taken")).at_server(&server.name));
        }
        disks.shares.insert((target, share.lot), share.clone());
        disks.check();
        let kept = disks.of(target, share);
        drop(disks);
        self.done(kept)
    }

    fn release_share(&self, server: &ServerEntry, target: TargetId, lot: LotId) -> Result<()> {
        assert_eq!(self.target(server)?, target);
        self.disks.lock().shares.remove(&(target, lot));
        self.done(())
    }

    fn list_shares(&self, server: &ServerEntry) -> Result<Vec<LotUse>> {
        let target = self.target(server)?;
        let disks = self.disks.lock();
        Ok(disks.shares.iter().filter(|((of, _), _)| *of == target).map(|(_, share)| disks.of(target, share)).collect())
    }

    fn space(&self, server: &ServerEntry) -> Result<Vec<TargetSpace>> {
        let target = self.target(server)?;
        let (available_bytes, promised_bytes, level) = {
            let disks = self.disks.lock();
            (disks.free(target), disks.promised(target, LotId(0)), disks.level())
        };
        let (directory, file_system) = (String::new(), target.0.into());
        Ok(vec![TargetSpace {
            target,
            directory,
            total_bytes: CAPACITY,
            available_bytes,
            available_files: 1000,
            file_system,
            promised_bytes,
            level,
            checksums: None,
            scrub: None,
        }])
    }

    fn boots(&self, servers: &[ServerEntry]) -> Vec<Option<String>> {
        servers.iter().map(|server| Some(server.name.clone())).collect()
    }
}

/// A database whose writes and syncs are steps.
struct Fused(Arc<InMemory>, Arc<Fuse>);

impl Fused {
    fn lives(&self) -> Result<(), DatabaseError> {
        if self.1.is_burnt() { Err(DatabaseError::new(Path::new("memory"), "killed")) } else { Ok(()) }
    }
}

impl Database for Fused {
    fn read(&self, work: &mut dyn FnMut(&dyn View) -> Result<(), DatabaseError>) -> Result<(), DatabaseError> {
        self.lives()?;
        self.0.read(work)
    }

    fn order(&self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<Verdict, DatabaseError>) -> Result<Ordered, DatabaseError> {
        self.lives()?;
        self.0.order(work)
    }

    fn settle(&self, ordered: &Ordered, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        self.0.settle(ordered, watch)?;
        self.1.step();
        self.lives()
    }

    fn sync(&self, watch: &mut dyn Watch) -> Result<(), DatabaseError> {
        self.lives()?;
        self.0.sync(watch)?;
        self.1.step();
        self.lives()
    }

    fn moment(&self) -> Result<Moment, DatabaseError> {
        self.lives()?;
        self.0.moment()
    }
}

/// A store's lots across starts.
pub(crate) struct World {
    database: Arc<InMemory>,
    pub disks: Arc<Mutex<Disks>>,
    pub fuse: Arc<Fuse>,
    pub namespace: Arc<Namespace>,
    pub intents: Arc<Intents>,
    pub lots: Option<Lots>,
}

pub(crate) fn map() -> StoreMap {
    let server = |n: u32| ServerEntry { name: format!("io{n}"), node: "n".into(), address: String::new() };
    let target = |n: u32| TargetEntry { target: TargetId(n), server: n, directory: String::new() };
    StoreMap { store: 1, servers: (0..TARGETS).map(server).collect(), targets: (0..TARGETS).map(target).collect() }
}

impl World {
    pub(crate) fn new() -> World {
        World::over(Arc::new(InMemory::on_a_machine()), Arc::default(), Duration::ZERO)
    }

    fn over(database: Arc<InMemory>, disks: Arc<Mutex<Disks>>, recovery: Duration) -> World {
        let fuse = Arc::new(Fuse::endless());
        let servers = Arc::new(Servers { disks: Arc::clone(&disks), fuse: Arc::clone(&fuse) });
        let fused = Arc::new(Fused(Arc::clone(&database), Arc::clone(&fuse)));
        let namespace = Arc::new(Namespace::open(fused, map(), OWNER, &WitnessReports::default()).unwrap());
        let intents =
            Arc::new(Intents::start(Arc::clone(&namespace), Arc::clone(&servers) as _, Arc::new(Recovery::begin(recovery))).unwrap());
        let lots = Some(Lots::start(Arc::clone(&namespace), servers, Arc::clone(&intents)).unwrap());
        let world = World { database, disks, fuse, namespace, intents, lots };
        world.lots().settled();
        world
    }

    pub(crate) fn lots(&self) -> &Lots {
        self.lots.as_ref().unwrap()
    }

    /// Kills everything, with or without a power loss, and starts again.
    pub(crate) fn killed(self, power: bool) -> World {
        self.killed_and_awaits(power, Duration::ZERO)
    }

    /// Kills and restarts; clients have this long to report open files.
    pub(crate) fn killed_and_awaits(self, power: bool, recovery: Duration) -> World {
        self.fuse.light(0);
        let (database, disks) = (Arc::clone(&self.database), Arc::clone(&self.disks));
        drop(self);
        if power {
            database.lose_all_unsynced();
        }
        World::over(Arc::new(database.start_again()), disks, recovery)
    }

    pub(crate) fn ask(&self, who: &Identity, operation: LotOperation) -> Result<Vec<LotReport>> {
        self.lots().answer(who, operation)
    }

    pub(crate) fn create(&self, name: &str, size_bytes: u64, for_ns: u64) -> Result<LotReport> {
        let name = name.to_owned();
        let operation = LotOperation::Create { name, owner: None, size_bytes, for_ns, elastic: false, least: None, targets: Vec::new() };
        self.ask(&owner("alice"), operation).map(|mut reports| reports.pop().unwrap())
    }

    /// Creates a file of a lot with this many bytes on each target.
    pub(crate) fn file(&self, path: &str, lot: LotId, bytes: u64) -> FileId {
        let choice = LayoutChoice { lot: Some(lot), ..LayoutChoice::default() };
        let alice = owner("alice");
        let names = self.namespace.called_by(&alice);
        let made = names.create(&mut Unwatched, &FilePath::at(path), OWNER, Existing::Refuse, &choice, "n").unwrap().0;
        self.write(&made, bytes);
        made.id
    }

    pub(crate) fn write(&self, made: &Attributes, bytes: u64) {
        let layout = made.layout.as_ref().unwrap();
        let datafiles =
            (0..).zip(&layout.targets).map(|(index, target)| DatafileId { file: made.id, index, target: *target, lot: layout.lot });
        self.disks.lock().datafiles.extend(datafiles.map(|id| (id, bytes)));
    }

    /// Creates a datafile of a lot, for a file whose name does not matter.
    pub(crate) fn datafile(&self, lot: LotId, target: u32, bytes: u64) {
        let id = DatafileId { file: FileId(1 << 40), index: target, target: TargetId(target), lot: Some(lot) };
        self.disks.lock().datafiles.insert(id, bytes);
    }

    /// Returns the shares in a lot's row.
    pub(crate) fn shares(&self, lot: LotId) -> Vec<u64> {
        self.namespace.lot(lot).unwrap().lot.shares.iter().map(|(_, bytes)| *bytes).collect()
    }

    /// Checks that rows and targets agree, and that each lot is promised in full.
    pub(crate) fn check(&self) {
        let disks = self.disks.lock();
        disks.check();
        let rows = self.namespace.lots().unwrap();
        for row in &rows {
            assert_eq!(row.lot.state, LotState::Active, "{row:?}");
            for (target, bytes) in &row.lot.shares {
                assert_eq!(disks.shares.get(&(*target, row.lot.id)), Some(&share_of(&row.lot, *bytes)), "target {target}, {row:?}");
            }
            assert_eq!(rest_bytes(&row.lot), 0, "all of it is promised: {row:?}");
        }
        let known: BTreeSet<LotId> = rows.iter().map(|row| row.lot.id).collect();
        assert!(disks.shares.keys().all(|(_, lot)| known.contains(lot)), "{:?} beside {known:?}", disks.shares.keys());
    }
}
