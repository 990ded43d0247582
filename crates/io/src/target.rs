//! A target: one directory of datafiles.
//!
//! ```text
//! TARGET/
//!   thalweg-target.toml           which store's target this is, and which number
//!   thalweg-epoch.toml            the last start of the metadata service whose file numbers it has served
//!   thalweg-witness               how far the metadata's log had come in that start
//!   thalweg-lots.toml             what is promised to lots
//!   thalweg-scrub.toml            the last scrub
//!   datafiles/xx/FFFFFFFFFFFFFFFF.I   datafile I of the file with that number (hexadecimal; xx: its last two digits)
//!   datafiles/xx/FFFFFFFFFFFFFFFF.I.crc   its checksums, unless they are in an attribute of it
//!   lots/LLLLLLLL/xx/FFFFFFFFFFFFFFFF.I   the same, of a file in the lot with that number (hexadecimal)
//!   lots/ballast                  space that is held for lots
//!   set-aside/FFFFFFFFFFFFFFFF.I  datafiles of starts that the metadata knows nothing of, when that was accepted
//! ```
//!
//! Datafiles are plain sparse files: people can inspect them, and the kernel serves them without our help.
//!
//! Starting a server never creates a target: an empty directory where a target is expected is far more often an unmounted file
//! system than a new target, and serving it would turn every byte of the target into a hole. Only [`Target::initialise`], on
//! request, creates one.

use super::datafile::{Datafile, Make};
use super::epoch::{Epoch, Starts};
use super::home::{Home, SET_ASIDE};
use super::lots::{Lots, More};
use super::name::{DATAFILES, LOTS, each_datafile};
use super::open::OpenDatafiles;
use super::scrubbed::Record;
use super::sums::{self, Counts, Files, Open, Pace, Settled, Table};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_base::durable;
use thalweg_base::private;
use thalweg_base::release;
use thalweg_wire::emulate::{Disk, Emulation};
use thalweg_wire::limits;
use thalweg_wire::protocol::common::{ServiceStart, Witnessed};
use thalweg_wire::protocol::io::{Allocate, Checksums, DataMap, DatafileId, DatafileSize, LotId, Seek, SeekResult, TargetId, TargetSpace};
use thalweg_wire::{Error, ErrorKind, Result};

/// Version of a target's layout on disk, of all files in its directory together.
pub const FORMAT: u32 = 2;
/// The version before datafiles had checksums, whose targets are served without.
const WITHOUT_SUMS: u32 = 1;
const IDENTITY: &str = "thalweg-target.toml";

/// The identity stored in a target's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetIdentity {
    /// Version of the layout on disk.
    pub format: u32,
    /// The store, 16 hexadecimal digits.
    pub store: String,
    /// The target's number in the store.
    pub target: u32,
    /// The release that wrote it, since format 2: an older one names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
}

impl TargetIdentity {
    fn of(store: u64, number: TargetId) -> TargetIdentity {
        TargetIdentity { format: FORMAT, store: format!("{store:016x}"), target: number.0, made_by: Some(release::RELEASE.to_owned()) }
    }

    /// Whether this is the same target, in any format.
    fn is(&self, wanted: &TargetIdentity) -> bool {
        (&self.store, self.target) == (&wanted.store, wanted.target)
    }

    fn is_not(&self, wanted: &TargetIdentity, directory: &Path) -> Error {
        let (is, expected) =
            (format!("target {} of store {}", self.target, self.store), format!("target {} of store {}", wanted.target, wanted.store));
        let problem = format!("{} is {is}: expected {expected}; give another directory", directory.display());
        Error::new(ErrorKind::Invalid, problem)
    }

    /// Raises the format of a target without checksums. The file stays the same one, since it is locked; one byte of it changes.
    fn raise(directory: &Path) -> Result<()> {
        let path = directory.join(IDENTITY);
        let failed = |e: std::io::Error| Error::system(format!("{}: raising its format", path.display()), e);
        let file = File::options().read(true).write(true).open(&path).map_err(failed)?;
        let text = std::io::read_to_string(&file).map_err(failed)?;
        let was = format!("format = {WITHOUT_SUMS}\n");
        if !text.starts_with(&was) {
            return Err(Error::new(ErrorKind::Invalid, format!("{}: expected `{}` at its beginning", path.display(), was.trim_end())));
        }
        file.write_all_at(FORMAT.to_string().as_bytes(), was.len() as u64 - 2).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Reads a directory's identity; `None` if it is not a target or does not exist.
    ///
    /// # Errors
    /// When the identity cannot be read.
    pub fn read(directory: &Path) -> Result<Option<TargetIdentity>> {
        let path = directory.join(IDENTITY);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => return Ok(None),
            Err(e) => return Err(Error::system(path.display(), e)),
        };
        let damaged = |e| Error::new(ErrorKind::Invalid, format!("{}: not a target's identity: {e}", path.display()));
        // Check the version first: a later one may have unknown fields.
        #[derive(Deserialize)]
        struct Version {
            format: u32,
            made_by: Option<toml::Value>,
        }
        let Version { format, made_by } = toml::from_str(&text).map_err(damaged)?;
        if !(WITHOUT_SUMS..=FORMAT).contains(&format) {
            let problem = release::other_format("a target", format, FORMAT, made_by.as_ref().and_then(toml::Value::as_str));
            return Err(Error::new(ErrorKind::Version, format!("{}: {problem}", path.display())));
        }
        toml::from_str(&text).map(Some).map_err(damaged)
    }
}

/// A target being served.
pub struct Target {
    number: TargetId,
    home: Arc<Home>,
    open: OpenDatafiles,
    epoch: Epoch,
    scrubbed: Record,
    /// The emulated disk.
    disk: Option<Disk>,
    /// Locked while the target is served, so that no other process serves it.
    _lock: File,
}

fn absent(directory: &Path, number: TargetId, problem: &str) -> Error {
    let what = "is its file system mounted? --initialise makes a new, empty target: everything on the old one is lost";
    Error::new(ErrorKind::Absent, format!("{} {problem}, but should be target {number}: {what}", directory.display()))
}

fn make_directory(path: &Path) -> Result<()> {
    private::make_directory(path).map_err(|e| Error::system(path.display(), e))
}

/// Whether a name in a target's directory was made by a server.
fn is_of_target(name: &str) -> bool {
    name == DATAFILES || name == LOTS || name == SET_ASIDE || name.trim_start_matches('.').starts_with("thalweg-")
}

impl Target {
    /// Restricts the files of servers in a target's directory to their owner, if an earlier release left them open; returns what
    /// was done, as a sentence.
    pub fn close_to_others(directory: &Path) -> Option<String> {
        private::close(directory, is_of_target)
    }

    /// Opens target `number` of `store` in `directory`.
    ///
    /// # Errors
    /// [`ErrorKind::Absent`] when there is no target, or its datafiles are missing; others when the directory belongs to another
    /// store or number, is already being served, or cannot be used.
    pub fn open(directory: &Path, store: u64, number: TargetId) -> Result<Target> {
        Target::open_there(directory, store, number, false)
    }

    fn open_there(directory: &Path, store: u64, number: TargetId, is_new: bool) -> Result<Target> {
        let wanted = TargetIdentity::of(store, number);
        let found = match TargetIdentity::read(directory)? {
            Some(found) if found.is(&wanted) => found,
            Some(found) => return Err(found.is_not(&wanted, directory)),
            None => return Err(absent(directory, number, &format!("holds no target ({IDENTITY} is not there)"))),
        };
        if !directory.join(DATAFILES).is_dir() {
            return Err(absent(directory, number, &format!("has lost its `{DATAFILES}` directory")));
        }
        let path = directory.join(IDENTITY);
        let lock = File::open(&path).map_err(|e| Error::system(path.display(), e))?;
        let begun = Instant::now();
        while rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            // A process that is just ending, or its child that has not called exec yet.
            if begun.elapsed() < limits::TARGET_LOCK {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
            return Err(Error::new(ErrorKind::Busy, format!("{} is served by another process already", directory.display())));
        }
        let epoch = Epoch::open(directory)?;
        Ok(Target {
            number,
            home: Arc::new(Home::open(directory, number, is_new, found.format > WITHOUT_SUMS)?),
            open: OpenDatafiles::default(),
            epoch,
            scrubbed: Record::read(directory),
            disk: None,
            _lock: lock,
        })
    }

    /// Creates target `number` of `store` in `directory`, unless it exists, and opens it. Existing contents stay.
    ///
    /// # Errors
    /// See [`Target::open`]; [`ErrorKind::Exists`] when there are datafiles without an identity.
    pub fn initialise(directory: &Path, store: u64, number: TargetId) -> Result<Target> {
        let wanted = TargetIdentity::of(store, number);
        let datafiles = directory.join(DATAFILES);
        let mut is_new = false;
        match TargetIdentity::read(directory)? {
            Some(found) if !found.is(&wanted) => return Err(found.is_not(&wanted, directory)),
            Some(_) => make_directory(&datafiles)?,
            None => {
                let is_empty = std::fs::read_dir(&datafiles).map_or(true, |mut entries| entries.next().is_none());
                if !is_empty {
                    let problem = format!("{} has datafiles and no {IDENTITY}: give another directory", directory.display());
                    return Err(Error::new(ErrorKind::Exists, problem));
                }
                make_directory(&datafiles)?;
                Epoch::make(directory)?;
                // The identity is written last: a target that has one is complete.
                let text = toml::to_string(&wanted).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
                let path = directory.join(IDENTITY);
                durable::replace(&text, &path).map_err(|e| Error::system(path.display(), e))?;
                is_new = true;
            }
        }
        Target::open_there(directory, store, number, is_new)
    }

    /// Returns the state of the metadata service known durably; a service behind it has lost files.
    pub fn seen(&self) -> Witnessed {
        self.epoch.seen()
    }

    /// Sets whom to ask whether a later epoch has begun.
    pub(super) fn ask(&self, starts: Arc<dyn Starts>) {
        self.epoch.ask(starts);
    }

    /// Sets whom to ask for unused promise on other targets, and for the removal of expired lots.
    pub(super) fn ask_for_more(&self, more: Arc<dyn More>) {
        self.home.lots.ask(more);
    }

    /// Returns the promises on the target.
    pub(super) fn lots(&self) -> &Lots {
        &self.home.lots
    }

    /// Records durably that the metadata's log has reached this change, in this start of the service.
    pub fn witness(&self, start: ServiceStart, change: u64) -> Result<()> {
        self.epoch.witness(start, change)
    }

    /// Continues from a start of the service older than this target has seen, on an administrator's request. Datafiles with
    /// numbers that will be assigned again are set aside, so that new files do not find them.
    pub(super) fn continue_from(&self, start: ServiceStart) -> Result<()> {
        self.epoch.continue_from(start, || {
            let mut later = Vec::new();
            each_datafile(self.directory(), false, &mut |lot, file, index, path| {
                if file.epoch() > start.epoch {
                    later.push((DatafileId { file, index, target: self.number, lot }, path.to_owned()));
                }
            })?;
            self.home.set_aside(&later, |id, work| self.open.without(id, work))
        })
    }

    /// Whether the epoch was inferred from the datafiles, because an earlier release did not store it.
    pub fn is_adopted(&self) -> bool {
        self.epoch.is_adopted()
    }

    /// Returns its number.
    pub(crate) fn number(&self) -> TargetId {
        self.number
    }

    /// Emulates a slower disk from now on.
    pub fn emulate(&mut self, emulation: &Emulation) {
        let name = format!("emulated disk {}", self.number);
        let disk = emulation.disk_of(self.number.0);
        self.disk = disk.map(|(rate, text)| Disk::new(name, text, rate, emulation.seek_ns));
    }

    /// Returns the emulated disk.
    pub(crate) fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Returns its directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.home.directory
    }

    /// Returns a datafile if it exists.
    pub(crate) fn existing(&self, id: DatafileId) -> Result<Option<Arc<Datafile>>> {
        self.open.get_or_open(id, || Datafile::open(&self.home, id, Make::Not))
    }

    /// Returns a datafile, creating it if necessary.
    pub fn created(&self, id: DatafileId) -> Result<Arc<Datafile>> {
        self.epoch.serves(id.file)?;
        self.open.get_or_open(id, || Datafile::open(&self.home, id, Make::IfMissing)).map(|found| found.expect("created"))
    }

    /// Opens a datafile for one request of a batch, and keeps it open no longer, since it is one of very many. `create`: it is
    /// probably missing, and is created.
    pub(crate) fn briefly(&self, id: DatafileId, create: bool) -> Result<Option<Arc<Datafile>>> {
        if create {
            self.epoch.serves(id.file)?;
        }
        match self.open.get(id) {
            Some(datafile) => Ok(Some(datafile)),
            None => Ok(Datafile::open(&self.home, id, if create { Make::Surely } else { Make::Not })?.map(Arc::new)),
        }
    }

    /// Syncs a datafile to stable storage, and its name if necessary.
    pub(crate) fn sync(&self, id: DatafileId) -> Result<()> {
        self.briefly(id, false)?.map_or(Ok(()), |datafile| datafile.sync())
    }

    /// Syncs everything changed before to stable storage.
    pub(crate) fn sync_all(&self) -> Result<()> {
        self.home.changed.sync(|changed| match changed {
            Some(changed) => changed.iter().try_for_each(|id| self.sync(*id)),
            None => self.home.sync_file_system(),
        })
    }

    /// Gives checksums to its datafiles from now on, if an earlier release made it. They are computed when a datafile is next scrubbed.
    pub(crate) fn add_sums(&self) -> Result<()> {
        if self.has_sums() {
            return Ok(());
        }
        TargetIdentity::raise(self.directory())?;
        self.home.sums.turn_on();
        Ok(())
    }

    /// Counts the space of its lots again, from its datafiles.
    pub(crate) fn recount_lots(&self) -> Result<()> {
        self.home.lots.recount()
    }

    /// Returns the record of its last scrub.
    pub(crate) fn scrubbed(&self) -> &Record {
        &self.scrubbed
    }

    /// Moves datafiles out of the way.
    pub(crate) fn set_aside(&self, datafiles: &[DatafileId]) -> Result<()> {
        let with_paths: Vec<_> = datafiles.iter().map(|id| (*id, self.home.path(*id))).collect();
        self.home.set_aside(&with_paths, |id, work| self.open.without(id, work))
    }

    /// Returns the path of a datafile.
    pub(crate) fn path(&self, id: DatafileId) -> PathBuf {
        self.home.path(id)
    }

    /// Returns the parent of the directories of datafiles.
    pub(crate) fn parts(&self, lot: Option<LotId>) -> PathBuf {
        self.home.parts(lot)
    }

    /// Whether its datafiles have checksums.
    pub fn has_sums(&self) -> bool {
        self.home.sums.is_on()
    }

    /// Returns what its checksums have shown since it was opened.
    pub fn sums(&self) -> &Counts {
        &self.home.sums.counts
    }

    fn checksums(&self) -> Checksums {
        let (sums, (dirty, unverified)) = (self.sums(), self.waiting());
        Checksums { damaged: sums.damaged(), dirty, unverified, recomputed: sums.recomputed(), unsummed: sums.unsummed() }
    }

    /// Returns how many datafiles are dirty, and how many unverified, as far as is known.
    pub fn waiting(&self) -> (u64, u64) {
        self.home.sums.waiting()
    }

    /// Makes datafiles clean that have been dirty for so long, and recomputes the checksums of unverified ones.
    pub fn settle(&self, after: Duration) -> Settled {
        self.settle_until(after, &|| false)
    }

    /// As [`Target::settle`], until `is_over`.
    pub(super) fn settle_until(&self, after: Duration, is_over: &dyn Fn() -> bool) -> Settled {
        sums::settle(self, &Pace { after, bytes_per_second: limits::SUMS_RATE, is_over })
    }

    /// Returns a datafile's size; 0 if it does not exist.
    pub fn glimpse(&self, id: DatafileId) -> Result<DatafileSize> {
        self.home.glimpse(id)
    }

    /// Truncates a datafile, or extends it with a hole.
    pub fn truncate(&self, id: DatafileId, size_bytes: u64) -> Result<()> {
        let datafile = if size_bytes == 0 { self.existing(id)? } else { Some(self.created(id)?) };
        datafile.map_or(Ok(()), |datafile| datafile.truncate(size_bytes))
    }

    /// Allocates or frees a range. Freeing in a missing datafile is a no-op.
    pub(crate) fn allocate(&self, id: DatafileId, offset: u64, length: u64, how: Allocate) -> Result<()> {
        let takes_only = matches!(how, Allocate::PunchHole | Allocate::ZeroRangeKeepSize);
        let datafile = if takes_only { self.existing(id)? } else { Some(self.created(id)?) };
        let Some(datafile) = datafile.filter(|_| length > 0) else { return Ok(()) };
        datafile.allocate(offset, length, how)
    }

    /// Finds the next data or hole.
    pub(crate) fn seek(&self, id: DatafileId, offset: u64, what: Seek) -> Result<SeekResult> {
        match self.existing(id)? {
            Some(datafile) => datafile.seek(offset, what),
            None => Ok(SeekResult { at: (what == Seek::Hole).then_some(offset), size_bytes: 0 }),
        }
    }

    /// Returns the parts of a range that are not holes, at most `most`.
    pub(crate) fn data_map(&self, id: DatafileId, range: Range<u64>, most: usize) -> Result<DataMap> {
        match self.existing(id)? {
            Some(datafile) => datafile.data_map(range, most),
            None => Ok(DataMap { size_bytes: 0, known_to: range.end, data: Vec::new() }),
        }
    }

    /// Removes a datafile. Requests in progress finish on the unlinked file.
    pub fn remove(&self, id: DatafileId) -> Result<()> {
        self.open.without(id, || self.home.remove(id))
    }

    /// Returns the space on the target.
    pub(crate) fn space(&self) -> Result<TargetSpace> {
        let s = rustix::fs::statvfs(self.directory()).map_err(|e| Error::system(self.directory().display(), e))?;
        let directory = std::fs::metadata(self.directory()).map_err(|e| Error::system(self.directory().display(), e))?;
        let (promised_bytes, held_bytes, level) = self.home.lots.space();
        Ok(TargetSpace {
            target: self.number,
            directory: self.directory().display().to_string(),
            total_bytes: s.f_blocks.saturating_mul(s.f_frsize),
            available_bytes: s.f_bavail.saturating_mul(s.f_frsize).saturating_add(held_bytes),
            available_files: s.f_favail,
            file_system: directory.dev(),
            promised_bytes,
            level,
            checksums: self.has_sums().then(|| self.checksums()),
            scrub: self.scrubbed.get(),
        })
    }
}

impl Files for Target {
    fn table(&self) -> &Table {
        &self.home.sums
    }

    fn open(&self, id: DatafileId) -> Result<Option<Arc<dyn Open>>> {
        Ok(self.briefly(id, false)?.map(|datafile| datafile as Arc<dyn Open>))
    }

    fn sync_file_system(&self) -> Result<()> {
        self.home.sync_file_system()
    }
}

#[cfg(test)]
mod tests {
    use super::super::open::OPEN_DATAFILES;
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use thalweg_wire::protocol::io::FileId;

    /// A service in this epoch.
    struct Service(AtomicU64);

    impl Starts for Service {
        fn of(&self, epoch: u64) -> Result<ServiceStart> {
            let now = self.0.load(Ordering::Relaxed);
            if epoch <= now { Ok(ServiceStart { epoch: now, start: 1 }) } else { Err(Error::new(ErrorKind::Invalid, "not begun")) }
        }
    }

    #[test]
    fn datafiles_of_starts_that_are_given_up_are_set_aside_and_the_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let id = |epoch: u64| DatafileId { file: FileId::new(epoch, 1), index: 2, target: TargetId(3), lot: None };
        let target = Target::initialise(dir.path(), 7, TargetId(3)).unwrap();
        target.ask(Arc::new(Service(AtomicU64::new(0xff_ffff))));
        for epoch in [2, 5, 0xff_ffff] {
            target.created(id(epoch)).unwrap().write(b"bytes", 0).unwrap();
        }
        let start = ServiceStart { epoch: 4, start: 9 };
        assert!(target.witness(start, 1).is_err(), "it is older");
        for _ in 0..2 {
            target.continue_from(start).unwrap();
        }
        assert_eq!([2, 5, 0xff_ffff].map(|epoch| target.glimpse(id(epoch)).unwrap().size_bytes), [5, 0, 0]);
        let mut aside: Vec<_> = std::fs::read_dir(dir.path().join("set-aside")).unwrap().map(|e| e.unwrap().file_name()).collect();
        aside.sort();
        assert_eq!(aside, ["0000050000000001.2", "ffffff0000000001.2"]);
        drop(target);
        let target = Target::open(dir.path(), 7, TargetId(3)).unwrap();
        assert_eq!(target.seen().start, start);
        target.witness(start, 1).unwrap();
    }

    #[test]
    fn a_directory_of_another_store_or_number_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(Target::initialise(dir.path(), 7, TargetId(3)).unwrap());
        drop(Target::open(dir.path(), 7, TargetId(3)).unwrap());
        for (store, number) in [(8, 3), (7, 4)] {
            let error = Target::open(dir.path(), store, TargetId(number)).err().unwrap();
            assert!(error.message().contains("target 3 of store 0000000000000007"), "{error}");
        }
    }

    #[test]
    fn a_target_is_served_once() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Target::initialise(dir.path(), 7, TargetId(3)).unwrap();
        assert_eq!(Target::open(dir.path(), 7, TargetId(3)).err().unwrap().kind(), ErrorKind::Busy);
    }

    #[test]
    fn more_datafiles_than_are_kept_open_still_work() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::initialise(dir.path(), 7, TargetId(0)).unwrap();
        let id = |file| DatafileId { file: FileId(file), index: 0, target: TargetId(0), lot: None };
        for file in 0..OPEN_DATAFILES as u64 + 50 {
            target.created(id(file)).unwrap().write(&file.to_le_bytes(), 4096).unwrap();
        }
        for file in 0..OPEN_DATAFILES as u64 + 50 {
            let mut bytes = [0; 8];
            assert_eq!(target.existing(id(file)).unwrap().unwrap().read(&mut bytes, 4096).unwrap(), 8);
            assert_eq!(u64::from_le_bytes(bytes), file);
            assert_eq!(target.glimpse(id(file)).unwrap().size_bytes, 4104);
        }
        target.remove(id(1)).unwrap();
        target.remove(id(1)).unwrap();
        assert_eq!(target.glimpse(id(1)).unwrap(), DatafileSize::default());
    }

    #[test]
    fn starting_never_makes_a_target() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Target::open(dir.path(), 7, TargetId(3));
        assert_eq!(open().err().unwrap().kind(), ErrorKind::Absent);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "and nothing is made");
        drop(Target::initialise(dir.path(), 7, TargetId(3)).unwrap());
        drop(open().unwrap());
        std::fs::remove_dir(dir.path().join(DATAFILES)).unwrap();
        assert_eq!(open().err().unwrap().kind(), ErrorKind::Absent);
        drop(Target::initialise(dir.path(), 7, TargetId(3)).unwrap());
        open().unwrap();
    }

    #[test]
    fn the_highest_epoch_is_remembered_and_found_where_it_was_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let id = |epoch: u64| DatafileId { file: FileId::new(epoch, 1), index: 0, target: TargetId(3), lot: None };
        let target = Target::initialise(dir.path(), 7, TargetId(3)).unwrap();
        assert_eq!(target.seen().start.epoch, 0);
        assert!(target.created(id(1)).is_err(), "nobody has said that it has begun");
        let service = Arc::new(Service(AtomicU64::new(0)));
        target.ask(Arc::clone(&service) as _);
        for epoch in [5, 9, 2] {
            service.0.fetch_max(epoch, Ordering::Relaxed);
            target.created(id(epoch)).unwrap();
            for later in [id(10), id(0xff_ffff)] {
                assert!(target.created(later).is_err() && target.briefly(later, true).is_err() && target.truncate(later, 7).is_err());
            }
        }
        target.remove(id(9)).unwrap();
        drop(target);
        let target = Target::open(dir.path(), 7, TargetId(3)).unwrap();
        assert_eq!((target.seen().start.epoch, target.is_adopted()), (9, false));
        drop(target);
        std::fs::remove_file(dir.path().join("thalweg-epoch.toml")).unwrap();
        let target = Target::open(dir.path(), 7, TargetId(3)).unwrap();
        assert_eq!((target.seen().start.epoch, target.is_adopted()), (5, true), "a target of an earlier release");
        drop(target);
        assert!(!Target::open(dir.path(), 7, TargetId(3)).unwrap().is_adopted(), "once");
        std::fs::write(dir.path().join("thalweg-epoch.toml"), "epoch = ").unwrap();
        assert!(Target::open(dir.path(), 7, TargetId(3)).is_err());
    }
}
