//! A file system with targets of this process: the promises of its space, and the admission of other writes.
//!
//! Without promises, nothing happens here. Otherwise, writes outside lots must leave promised and unused space free. Asking the
//! file system for each write would be slow, so it is asked once for many: free space beyond the promises gives a *credit* of at
//! most [`limits::CREDIT_BYTES`] and an eighth of that space, on which writes draw with one atomic operation. Writes in flight
//! are tracked too ([`Underway`]): the file system does not count them yet, and concurrent writes would each find the same space
//! free.

use super::level;
use super::more::Question;
use super::reserve::Reserve;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, Weak};
use thalweg_base::numbers;
use thalweg_base::sync::{Mutex, MutexGuard};
use thalweg_wire::limits;
use thalweg_wire::protocol::lots::Level;
use thalweg_wire::{Error, ErrorKind, Result};

/// The lots of a target, as seen by its file system.
pub(super) trait Member: Send + Sync {
    /// Returns its directory.
    fn directory(&self) -> &Path;
    /// Returns the promised and unused bytes.
    fn promised(&self) -> u64;
    /// Returns the bytes of its ballast, which are not free.
    fn ballast(&self) -> u64;
    /// Returns the promised and unused bytes at a level.
    fn promised_at(&self, level: Level) -> u64;
    /// Returns the bytes used by expired lots, which could be reclaimed.
    fn reclaimable(&self) -> u64;
    /// Asks for `bytes` to be reclaimed.
    fn reclaim(&self, bytes: u64) -> Result<()>;
    /// Checks for expired shares, and adjusts what holds the promises.
    fn round(&self, level: Option<Level>);
}

/// A file system with targets of this process.
pub(crate) struct Volume {
    device: u64,
    /// A directory on it.
    directory: PathBuf,
    members: Mutex<Vec<Weak<dyn Member>>>,
    /// Number of promised shares.
    live: AtomicUsize,
    credit: AtomicI64,
    underway: AtomicU64,
    /// Held while free space is compared with the promises.
    gate: Mutex<()>,
    reclaim: Question,
    has_thread: Mutex<bool>,
    pub(super) reserve: Reserve,
}

static VOLUMES: LazyLock<Mutex<HashMap<u64, Weak<Volume>>>> = LazyLock::new(Mutex::default);

/// A write outside lots, from its admission until it is done.
pub(crate) struct Underway<'a> {
    volume: &'a Volume,
    bytes: u64,
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.volume.underway.fetch_sub(self.bytes, SeqCst);
    }
}

/// Space of a file system, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    /// Free, including what is held for promises.
    pub free: u64,
    /// Promised and unused.
    pub promised: u64,
    /// Writes outside lots in flight.
    underway: u64,
}

impl Space {
    /// Returns what may still be promised.
    pub(super) fn left(self) -> u64 {
        self.free.saturating_sub(self.promised).saturating_sub(self.underway)
    }

    /// Returns what further writes outside lots may take.
    fn outside(self) -> u64 {
        self.left().saturating_sub(limits::HEADROOM_BYTES + self.promised / limits::HEADROOM_PART)
    }
}

impl Volume {
    /// Returns the volume for a directory; the whole process shares one volume per directory.
    pub(super) fn of(directory: &Path, device: u64) -> Arc<Volume> {
        let mut volumes = VOLUMES.lock();
        if let Some(known) = volumes.get(&device).and_then(Weak::upgrade) {
            return known;
        }
        let volume = Arc::new(Volume {
            device,
            directory: directory.to_owned(),
            members: Mutex::default(),
            live: 0.into(),
            credit: 0.into(),
            underway: 0.into(),
            gate: Mutex::new(()),
            reclaim: Question::default(),
            has_thread: Mutex::new(false),
            reserve: Reserve::default(),
        });
        volumes.retain(|_, volume| volume.strong_count() > 0);
        volumes.insert(device, Arc::downgrade(&volume));
        volume
    }

    pub(super) fn device(&self) -> u64 {
        self.device
    }

    pub(super) fn join(&self, member: Weak<dyn Member>) {
        let mut members = self.members.lock();
        members.retain(|member| member.strong_count() > 0);
        members.push(member);
    }

    /// Returns the targets on it.
    pub(super) fn members(&self) -> Vec<Arc<dyn Member>> {
        self.members.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Adds to the number of promised shares.
    pub(super) fn change_live(self: &Arc<Volume>, more: isize) {
        self.live.fetch_add(more as usize, SeqCst);
        if more > 0 {
            self.start_thread();
        }
    }

    /// Locks against other comparisons of free space with promises, and voids the credit.
    pub(super) fn gate(&self) -> MutexGuard<'_, ()> {
        let held = self.gate.lock();
        self.credit.store(0, SeqCst);
        held
    }

    /// Returns the present space. The order matters: a concurrent write into a lot then counts twice rather than not at all.
    pub(super) fn space(&self) -> Result<Space> {
        let members = self.members();
        let promised = members.iter().map(|member| member.promised()).sum();
        let ballast: u64 = members.iter().map(|member| member.ballast()).sum();
        let found = self.look(&members)?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        let free = free.saturating_add(ballast).saturating_add(self.reserve.bytes());
        Ok(Space { free, promised, underway: self.underway.load(SeqCst) })
    }

    /// Queries the file system. The first target may be gone, with its directory.
    fn look(&self, members: &[Arc<dyn Member>]) -> Result<rustix::fs::StatVfs> {
        let directories = members.iter().map(|member| member.directory()).chain([&*self.directory]);
        let mut failed = None;
        for directory in directories {
            match rustix::fs::statvfs(directory) {
                Ok(found) => return Ok(found),
                Err(e) => failed = failed.or_else(|| Some(Error::system(directory.display(), e))),
            }
        }
        Err(failed.expect("there is a directory"))
    }

    /// Admits a write of `bytes` outside lots; `missing` computes what it really adds, and is called when space is short. `None`:
    /// nothing is promised.
    pub(super) fn admit(&self, bytes: u64, missing: &dyn Fn() -> u64) -> Result<Option<Underway<'_>>> {
        if self.live.load(SeqCst) == 0 {
            return Ok(None);
        }
        // No disk is this large, and sums of such numbers would overflow.
        const MOST: u64 = 1 << 52;
        if bytes > MOST {
            return Err(refused(bytes, self.space()?));
        }
        self.underway.fetch_add(bytes, SeqCst);
        let underway = Underway { volume: self, bytes };
        let needed = bytes as i64;
        if self.credit.fetch_sub(needed, SeqCst) >= needed {
            return Ok(Some(underway));
        }
        self.admit_slowly(underway, missing).map(Some)
    }

    fn admit_slowly<'a>(&'a self, mut underway: Underway<'a>, missing: &dyn Fn() -> u64) -> Result<Underway<'a>> {
        let (mut is_exact, mut is_last) = (false, false);
        for _ in 0..limits::LOT_TRIES {
            let gate = self.gate();
            let mut space = self.space()?;
            space.underway = space.underway.saturating_sub(underway.bytes);
            if let Some(rest) = space.outside().checked_sub(underway.bytes) {
                let credit = (rest / limits::CREDIT_PART).min(limits::CREDIT_BYTES);
                self.credit.store(credit as i64, SeqCst);
                return Ok(underway);
            }
            drop(gate);
            if !is_exact {
                is_exact = true;
                let less = underway.bytes.saturating_sub(missing());
                self.underway.fetch_sub(less, SeqCst);
                underway.bytes -= less;
                continue;
            }
            if is_last {
                return Err(refused(underway.bytes, space));
            }
            // Part of the space may have been freed nevertheless.
            is_last = self.reclaim(underway.bytes).is_err();
        }
        Err(Error::new(ErrorKind::NoSpace, "no space outside lots: other writers take the space that is freed"))
    }

    /// Waits for removals in progress, and has expired lots removed, until `bytes` are free.
    pub(super) fn reclaim(&self, bytes: u64) -> Result<()> {
        let members = self.members();
        let most = members.iter().max_by_key(|member| member.reclaimable());
        let most = most.ok_or_else(|| Error::new(ErrorKind::NoSpace, "there is nothing to remove here"))?;
        self.reclaim.ask(|| most.reclaim(bytes))
    }

    /// Starts the thread that runs the periodic rounds while the volume exists.
    fn start_thread(self: &Arc<Volume>) {
        let mut has_thread = self.has_thread.lock();
        if *has_thread {
            return;
        }
        let volume = Arc::downgrade(self);
        let work = move || {
            for round in 0.. {
                std::thread::sleep(limits::LOT_ROUND);
                let Some(volume) = volume.upgrade() else { return };
                volume.round(round % limits::LEVEL_ROUNDS == 0);
            }
        };
        *has_thread = std::thread::Builder::new().name("lots".to_owned()).spawn(work).is_ok();
    }

    fn round(&self, looks: bool) {
        let members = self.members();
        let level = looks.then(|| self.level());
        members.iter().for_each(|member| member.round(level));
    }

    /// Returns the highest level available here without a request.
    pub(super) fn level(&self) -> Level {
        let members = self.members();
        let directories: Vec<&Path> = members.iter().map(|member| member.directory()).collect();
        level::of(directories.first().copied().unwrap_or(&self.directory), self.device, &directories)
    }
}

fn refused(bytes: u64, space: Space) -> Error {
    let [wanted, free, promised] = [bytes, space.free, space.promised].map(numbers::size);
    let problem = format!(
        "no space for {wanted} outside lots: {free} are free, and {promised} of that are promised to lots; free space, or write into a lot"
    );
    Error::new(ErrorKind::NoSpace, problem)
}
