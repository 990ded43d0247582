//! A target's lots: the shares promised, and each lot's use.
//!
//! A share is promised in memory first, so that its room is not taken meanwhile, then held according to its level, then stored; a
//! failure restores the previous state. Release happens in reverse order.

use super::account::Blocks;
use super::ballast::Ballast;
use super::deadline::{Clock, Deadline, Machine};
use super::level;
use super::lot::{Held, Lot, OfLot, Standing};
use super::more::More;
use super::neighbours;
use super::share_file::{ShareFile, StoredShare};
use super::volume::{Member, Volume};
use super::walk::{self, each_used, write_back};
use crate::name::{LOTS, Name, clear_directory, lot_directory, lots_in};
use rustix::fs::AtFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use thalweg_base::numbers;
use thalweg_base::sync::{Mutex, RwLock};
use thalweg_wire::limits;
use thalweg_wire::protocol::io::{DatafileId, LotId, TargetId};
use thalweg_wire::protocol::lots::{Level, LotShare, LotUse};
use thalweg_wire::trust::{Identity, Rights, STORE_OWNER};
use thalweg_wire::{Error, ErrorKind, Result};

/// The lots of a target.
pub(crate) struct Lots {
    directory: PathBuf,
    /// The directory, open for looking up names.
    root: OwnedFd,
    target: TargetId,
    volume: Arc<Volume>,
    lots: RwLock<BTreeMap<LotId, Arc<Lot>>>,
    /// Held while shares change.
    turn: Mutex<()>,
    ballast: Ballast,
    clock: Arc<dyn Clock>,
    more: OnceLock<Arc<dyn More>>,
}

impl Lots {
    /// Opens a target's lots: reads the promises and counts the use.
    ///
    /// # Errors
    /// When the share file is damaged or of a later release, or the datafiles cannot be counted.
    pub(crate) fn open(directory: &Path, target: TargetId) -> Result<Arc<Lots>> {
        Lots::open_at(directory, target, Arc::new(Machine::new()))
    }

    pub(super) fn open_at(directory: &Path, target: TargetId, clock: Arc<dyn Clock>) -> Result<Arc<Lots>> {
        let kept = ShareFile::read(directory)?;
        let failed = |e: std::io::Error| Error::system(directory.display(), e);
        let device = std::fs::metadata(directory).map_err(failed)?.dev();
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, rustix::fs::Mode::empty()).map_err(|e| failed(e.into()))?;
        let mut lots = BTreeMap::new();
        write_back(directory);
        each_used(directory, |lot, key, bytes| lots.entry(lot).or_insert_with(|| Lot::new(lot)).counted(key, bytes))?;
        let lots: BTreeMap<_, _> = lots.into_iter().map(|(number, lot)| (number, Arc::new(lot))).collect();
        let lots = Arc::new(Lots {
            directory: directory.to_owned(),
            root,
            target,
            volume: Volume::of(directory, device),
            lots: RwLock::new(lots),
            turn: Mutex::new(()),
            ballast: Ballast::open(&directory.join(LOTS))?,
            clock,
            more: OnceLock::new(),
        });
        if let Some(before) = kept.reserved_blocks_before {
            lots.volume.reserve.resume(directory, device, before);
        }
        let now = lots.clock.now();
        for kept in kept.shares {
            let deadline = kept.deadline.clone().again(&*lots.clock);
            let expired = deadline.is_over(&now);
            // The first round checks the level: other targets of this process are not open yet.
            let held = Held { share: kept.share(), least: kept.least, deadline, level: kept.level, expired };
            lots.make(held.share.lot).hold(Some(held));
        }
        // Earlier releases, and killed servers, left directories of lots behind.
        let has_share = |lot: LotId| lots.find(lot).is_some_and(|lot| lot.standing() != Standing::Nothing);
        lots_in(directory)?.into_iter().filter(|lot| !has_share(*lot)).for_each(|lot| clear_directory(directory, lot));
        lots.volume.join(Arc::downgrade(&lots) as _);
        lots.volume.change_live(lots.promised_shares());
        Ok(lots)
    }

    /// Returns the target's directory, open for looking up names.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    pub(super) fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    pub(super) fn target(&self) -> TargetId {
        self.target
    }

    pub(super) fn more(&self) -> Option<&Arc<dyn More>> {
        self.more.get()
    }

    /// Sets whom to ask for other targets' unused promise.
    pub(crate) fn ask(&self, more: Arc<dyn More>) {
        let _ = self.more.set(more);
    }

    /// Returns a lot with datafiles or a share here.
    pub(crate) fn find(&self, lot: LotId) -> Option<Arc<Lot>> {
        self.lots.read().get(&lot).cloned()
    }

    /// Returns a lot, adding it at its first datafile.
    pub(crate) fn make(&self, lot: LotId) -> Arc<Lot> {
        self.find(lot).unwrap_or_else(|| Arc::clone(self.lots.write().entry(lot).or_insert_with(|| Arc::new(Lot::new(lot)))))
    }

    fn all(&self) -> Vec<Arc<Lot>> {
        self.lots.read().values().cloned().collect()
    }

    fn promised_shares(&self) -> isize {
        self.all().iter().filter(|lot| lot.standing() == Standing::Promised).count() as isize
    }

    /// Returns the lot and account of an open datafile; `is_new`: just created.
    pub(crate) fn of(&self, lot: Arc<Lot>, id: DatafileId, file: &File, is_new: bool) -> OfLot {
        let key = (id.file, id.index);
        // If it cannot be looked at, it counts as empty: the next look corrects that.
        let found = || if is_new { Blocks::NONE } else { Blocks::of(file).unwrap_or(Blocks::NONE) };
        let account = lot.accounts.of(key, found, |key, account| {
            let id = DatafileId { file: key.0, index: key.1, ..id };
            lot.count(account, || self.blocks_at(id));
        });
        OfLot { lot, key, account }
    }

    /// Reads the blocks of a closed datafile.
    fn blocks_at(&self, id: DatafileId) -> Option<Blocks> {
        let found = rustix::fs::statat(&self.root, Name::of(id).as_c_str(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(Blocks { bytes: (found.st_blocks as u64).saturating_mul(512), has_name: true })
    }

    /// Looks at all datafiles of a lot with pending bytes.
    pub(super) fn look_at_pending(&self, lot: &Lot) {
        lot.look_at_pending(|(file, index)| self.blocks_at(DatafileId { file, index, target: self.target, lot: Some(lot.id) }));
    }

    /// Counts all lots again: each datafile, and then their sum by a walk, since datafiles without an account are in the sum only.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn recount(&self) -> Result<()> {
        let all = self.all();
        let known = all.iter().map(|lot| {
            lot.look_at_all(|(file, index)| {
                let name = Name::of(DatafileId { file, index, target: self.target, lot: Some(lot.id) });
                match rustix::fs::statat(&self.root, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => Some(Blocks { bytes: (found.st_blocks as u64).saturating_mul(512), has_name: true }),
                    Err(rustix::io::Errno::NOENT) => Some(Blocks { bytes: 0, has_name: false }),
                    Err(_) => None,
                }
            });
            lot.used()
        });
        let known: Vec<u64> = known.collect();
        let found = walk::used(&self.directory)?;
        for (lot, known) in all.iter().zip(known) {
            lot.correct(known, found.get(&lot.id).copied().unwrap_or(0));
        }
        Ok(())
    }

    /// Returns the bytes a lot's datafiles take.
    pub(super) fn used_of(&self, lot: &Lot) -> u64 {
        self.look_at_pending(lot);
        lot.used()
    }

    /// Returns the promised and unused bytes of a lot.
    fn promised_of(&self, lot: &Lot) -> u64 {
        if lot.standing() == Standing::Promised {
            self.look_at_pending(lot);
        }
        lot.promised()
    }

    /// Removes a datafile from its lot: its blocks are freed with its name, even while it is open.
    pub(crate) fn leave<E>(&self, id: DatafileId, work: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let Some(lot) = id.lot.and_then(|lot| self.find(lot)) else { return work() };
        // A missing datafile has nothing to free.
        let key = (id.file, id.index);
        let account = lot.accounts.of(key, || self.blocks_at(id).unwrap_or(Blocks::NONE), |_, _| ());
        let done = lot.give_all(&account, work);
        lot.accounts.forget(key, &account);
        // The bytes of a lot's files may go after its share.
        if lot.standing() == Standing::Nothing && lot.used() == 0 {
            clear_directory(&self.directory, lot.id);
        }
        done
    }

    /// Returns the directory of a lot's datafiles, kept open while the lot is promised: two names fewer to look up for each.
    /// `None`: missing, or not kept open.
    pub(crate) fn directory_of(&self, lot: &Lot) -> Option<Arc<OwnedFd>> {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&self.root, lot_directory(lot.id), flags, rustix::fs::Mode::empty()).ok();
        lot.directory(|| open().filter(|_| self.promised_shares() <= limits::LOTS_OPEN))
    }

    /// Refuses everyone but the lot's owner and the store, also after the share was released.
    ///
    /// # Errors
    /// [`ErrorKind::Access`]; [`ErrorKind::Busy`] if the owner is not known here yet.
    pub(crate) fn access(&self, lot: Option<LotId>, who: &Identity, changes: bool) -> Result<()> {
        let Some(lot) = lot else { return Ok(()) };
        if who.rights == Rights::Store || (!changes && who.owner == STORE_OWNER) {
            return Ok(());
        }
        let lots = self.lots.read();
        let Some((name, owner)) = lots.get(&lot).and_then(|found| found.whose()) else {
            // An older share file was restored, and the service has not corrected it yet.
            let problem = format!("the owner of lot {lot} is not known on this target yet: try again");
            return Err(Error::new(ErrorKind::Busy, problem));
        };
        if who.acts_for(owner) {
            return Ok(());
        }
        let problem = format!("lot `{name}` (number {lot}) belongs to `{owner}`, but the credential is `{}`'s: use the owner's", who.owner);
        Err(Error::new(ErrorKind::Access, problem))
    }

    /// [`Lots::keep_as_of`] the machine's own clock.
    #[cfg(test)]
    pub(crate) fn keep(&self, share: &LotShare, least: Option<Level>) -> Result<LotUse> {
        self.keep_as_of(share, least, self.clock.now().wall_ns)
    }

    /// Accepts a share; see [`thalweg_wire::protocol::lots::ShareRequest::Keep`].
    pub(crate) fn keep_as_of(&self, share: &LotShare, least: Option<Level>, service_ns: i64) -> Result<LotUse> {
        check(share)?;
        let _turn = self.turn.lock();
        let lot = self.make(share.lot);
        self.look_at_pending(&lot);
        let before = lot.held();
        if before.is_none() && self.all().iter().filter(|lot| lot.standing() != Standing::Nothing).count() >= limits::SHARES {
            return Err(Error::new(ErrorKind::TooMany, format!("a target has shares of at most {} lots", limits::SHARES)));
        }
        let (level, least) = self.level_for(least, before.as_ref().and_then(|before| before.least))?;
        let given = Deadline::new(share.until_ns, service_ns, &*self.clock);
        let deadline = match &before {
            Some(before) if before.share.until_ns == share.until_ns => before.deadline.or_later(given),
            _ => given,
        };
        let expired = deadline.is_over(&self.clock.now());
        let held = Held { share: share.clone(), least, deadline, level, expired };
        let is_same = before.as_deref().is_some_and(|before| before.says(&held));
        if !is_same {
            self.promise(&lot, before.as_deref(), held)?;
        }
        self.look_at_pending(&lot);
        Ok(lot.report(self.target).expect("it is held"))
    }

    /// Replaces the share `before` by `held`, if there is room, and stores it.
    fn promise(&self, lot: &Arc<Lot>, before: Option<&Held>, held: Held) -> Result<()> {
        let share_bytes = held.share.share_bytes;
        let promised_before = before.filter(|before| !before.expired).map_or(0, |before| before.share.share_bytes);
        let grows = !held.expired && share_bytes > promised_before;
        let elsewhere = if grows { self.promised_elsewhere(share_bytes - promised_before)? } else { 0 };
        let gate = self.volume.gate();
        if held.expired || share_bytes <= promised_before {
            // A smaller share is always accepted, unless more is used, which could not be given to others.
            let is_used = share_bytes < promised_before && !held.share.elastic && !held.expired && !self.shrink(lot, share_bytes);
            if is_used {
                return Err(smaller_than_used(lot, &held.share));
            }
        } else {
            let space = self.volume.space()?;
            let others = space.promised.saturating_sub(lot.promised()).saturating_add(elsewhere);
            let wanted = share_bytes.saturating_sub(lot.used());
            if wanted > space.left().saturating_sub(elsewhere).saturating_add(lot.promised()) {
                return Err(no_room(self, wanted, space.free, others));
            }
        }
        self.exchange(lot, Some(held));
        drop(gate);
        let kept = self.hold_all(true).and_then(|()| self.write());
        if kept.is_err() {
            self.exchange(lot, before.cloned());
            let _ = self.hold_all(true);
        }
        kept
    }

    /// Shrinks a share, if what is taken fits.
    fn shrink(&self, lot: &Lot, to_bytes: u64) -> bool {
        lot.shrink(to_bytes) || {
            self.look_at_pending(lot);
            lot.shrink(to_bytes)
        }
    }

    /// Returns the promises of other processes' targets on this file system; their use is determined only if it matters for
    /// `more` bytes.
    fn promised_elsewhere(&self, more: u64) -> Result<u64> {
        let members = self.volume.members();
        let directories: Vec<&Path> = members.iter().map(|member| member.directory()).collect();
        let neighbours = neighbours::of(&directories, self.volume.device());
        let promised = |exactly| {
            let each = neighbours.iter().map(|neighbour| neighbour.promised(&*self.clock, exactly));
            each.fold(0, u64::saturating_add)
        };
        let most = promised(false);
        let fits = most.saturating_add(more) <= self.volume.space()?.left();
        Ok(if most == 0 || fits { most } else { promised(true) })
    }

    /// Replaces a lot's share, and updates the count of live shares.
    fn exchange(&self, lot: &Lot, held: Option<Held>) {
        let is_promised = |lot: &Lot| isize::from(lot.standing() == Standing::Promised);
        let before = is_promised(lot);
        // Counted from before it is promised until after it no longer is.
        self.volume.change_live(1);
        lot.hold(held);
        self.volume.change_live(is_promised(lot) - before - 1);
    }

    /// Returns the level for a share that requires at least `least`, and the requirement to store.
    fn level_for(&self, least: Option<Level>, kept: Option<Level>) -> Result<(Level, Option<Level>)> {
        let least = least.or(kept);
        let level = self.volume.level();
        let Some(wanted) = least.filter(|wanted| level != Level::Own && *wanted > level) else { return Ok((level, least)) };
        if wanted == Level::Kernel {
            self.volume.reserve.prepare(&self.directory, self.volume.device())?;
            return Ok((Level::Kernel, least));
        }
        let why = match wanted {
            Level::Own => "other files are on its file system",
            _ => "its file system does not keep preallocated space",
        };
        let (target, directory) = (self.target, self.directory.display());
        let problem = format!("no level {wanted:?} at target {target} ({directory}): {why}; it provides {level:?}");
        Err(Error::new(ErrorKind::Unsupported, problem))
    }

    /// Adjusts ballast and reserve to the promises at their levels.
    fn hold_all(&self, at_once: bool) -> Result<()> {
        let members = self.volume.members();
        let reserved = members.iter().map(|member| member.promised_at(Level::Kernel)).sum();
        self.volume.reserve.fit(&self.directory, self.volume.device(), reserved, at_once)?;
        let ballast = self.promised_at(Level::Ballast);
        if ballast > 0 {
            self.make_directory()?;
        }
        self.ballast.fit(ballast)
    }

    fn make_directory(&self) -> Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        let lots = self.directory.join(LOTS);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&lots).map_err(|e| Error::system(lots.display(), e))
    }

    /// Stores all shares.
    fn write(&self) -> Result<()> {
        let held: Vec<_> = self.all().iter().filter_map(|lot| lot.held()).collect();
        let has_reserve = held.iter().any(|held| held.level == Level::Kernel);
        let shares = held.iter().map(|held| StoredShare::new(&held.share, held.least, held.level, held.deadline.clone())).collect();
        ShareFile::new(shares, self.volume.reserve.before().filter(|_| has_reserve)).write(&self.directory)
    }

    /// Forgets a share durably; see [`thalweg_wire::protocol::lots::ShareRequest::Release`].
    pub(crate) fn release(&self, lot: LotId) -> Result<()> {
        let _turn = self.turn.lock();
        let Some(lot) = self.find(lot) else { return Ok(()) };
        let Some(before) = lot.held() else { return Ok(()) };
        self.exchange(&lot, None);
        // The reserve is restored while the file still has its previous size.
        let released = self.hold_all(true).and_then(|()| self.write());
        if released.is_err() {
            self.exchange(&lot, Some((*before).clone()));
        }
        if released.is_ok() {
            clear_directory(&self.directory, lot.id);
        }
        released
    }

    /// Lists all shares here.
    pub(crate) fn list(&self) -> Vec<LotUse> {
        let report = |lot: &Arc<Lot>| {
            self.look_at_pending(lot);
            lot.report(self.target)
        };
        self.all().iter().filter_map(report).collect()
    }

    /// Returns the promised and unused bytes on its file system, the bytes held for them (and hence not free), and the level of a
    /// new share.
    pub(crate) fn space(&self) -> (u64, u64, Level) {
        let held: u64 = self.volume.members().iter().map(|member| member.ballast()).sum();
        let promised = self.volume.members().iter().map(|member| member.promised()).sum();
        (promised, held + self.volume.reserve.bytes(), self.volume.level())
    }

    pub(super) fn ballast_ahead_of(&self, bytes: u64) {
        self.ballast.ahead_of(bytes);
    }

    pub(super) fn give_up_ballast(&self, bytes: u64) -> bool {
        self.ballast.give_up(bytes.max(limits::BALLAST_STEP_BYTES))
    }
}

impl Member for Lots {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn promised(&self) -> u64 {
        self.all().iter().map(|lot| self.promised_of(lot)).sum()
    }

    fn ballast(&self) -> u64 {
        self.ballast.bytes()
    }

    fn promised_at(&self, level: Level) -> u64 {
        self.all().iter().filter(|lot| lot.held().is_some_and(|held| held.level == level)).map(|lot| self.promised_of(lot)).sum()
    }

    fn reclaimable(&self) -> u64 {
        self.all().iter().filter(|lot| lot.standing() == Standing::Expired).map(|lot| self.used_of(lot)).sum()
    }

    fn reclaim(&self, bytes: u64) -> Result<()> {
        let more = self.more.get().ok_or_else(|| Error::new(ErrorKind::NoSpace, "there is no metadata service that could be asked"))?;
        more.reclaim(self.target, bytes)
    }

    fn round(&self, level: Option<Level>) {
        // A share being accepted or released is checked in the next round.
        let Some(_turn) = self.turn.try_lock() else { return };
        let (now, mut changed) = (self.clock.now(), false);
        for lot in self.all() {
            let Some(held) = lot.held().filter(|held| !held.expired) else { continue };
            let expired = held.deadline.is_over(&now);
            let level = level.filter(|_| held.level != Level::Kernel || level == Some(Level::Own)).unwrap_or(held.level);
            if expired || level != held.level {
                let deadline = if expired { held.deadline.clone().over() } else { held.deadline.clone() };
                self.exchange(&lot, Some(Held { expired, level, deadline, ..(*held).clone() }));
                changed |= expired;
            }
        }
        if changed {
            // Stored so that the clock of a rebooted machine does not promise it again.
            let _ = self.write();
        }
        // Retried in the next round.
        let _ = self.hold_all(false);
    }
}

fn check(share: &LotShare) -> Result<()> {
    let invalid = |problem: String| Err(Error::new(ErrorKind::Invalid, problem));
    if share.size_bytes > limits::FILE_BYTES || share.share_bytes > share.size_bytes.next_multiple_of(1 << 12) {
        return invalid(format!(
            "a share of {} bytes of a lot of {}: expected at most the lot's size, which is at most 2^63 - 1",
            share.share_bytes, share.size_bytes
        ));
    }
    if share.lot.0 == 0 || share.name.len() > limits::NAME_BYTES || share.owner.len() > limits::NAME_BYTES {
        return invalid("a lot's number starts at 1, and its name and owner have at most 255 bytes".to_owned());
    }
    Ok(())
}

fn smaller_than_used(lot: &Lot, share: &LotShare) -> Error {
    let [wanted, taken] = [share.share_bytes, lot.taken()].map(numbers::size);
    Error::new(
        ErrorKind::Quota,
        format!("lot `{}` (number {}) uses {taken} here: its share cannot shrink to {wanted}", share.name, share.lot),
    )
}

fn no_room(lots: &Lots, wanted: u64, free: u64, others: u64) -> Error {
    let [wanted, free, others] = [wanted, free, others].map(numbers::size);
    let mount = level::mount_of(&lots.directory, lots.volume.device());
    let on = mount.map_or(String::new(), |mount| format!(" ({} on {})", mount.kind, mount.source));
    let problem = format!(
        "{wanted} more are needed: of {free} free on the file system of {}{on}, {others} are promised to others",
        lots.directory.display()
    );
    Error::new(ErrorKind::NoSpace, problem)
}
