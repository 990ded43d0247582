//! Lots over real servers: promises, owners, and the effects of full disks, unreachable servers and `kill -9`.

mod away;
mod full;
mod killed;
mod life;
mod owners;
mod processes;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_client::metadata::MetadataClient;
use thalweg_client::{DataClient, Store, StoreFile};
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::protocol::lots::{LotOperation, LotReport, LotUse};
use thalweg_wire::protocol::metadata::{Existing, FilePath, LayoutChoice, LotId, Owner, SetAttributes};
use thalweg_wire::trust::{Credential, Credentials, Rights};
use thalweg_wire::{Error, ErrorKind, Result};

const MIB: u64 = 1 << 20;
const SERVERS: usize = 4;
const HOUR_NS: u64 = 3_600_000_000_000;
const OWNER: Owner = Owner { mode: 0o755, uid: 1, gid: 2 };

/// Waits until a condition holds; fails after three minutes.
fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    wait_while(what, || (!so()).then(String::new));
}

/// Waits while `otherwise` returns a deviation; shows the last one after three minutes.
fn wait_while(what: &str, mut otherwise: impl FnMut() -> Option<String>) {
    let began = Instant::now();
    while let Some(otherwise) = otherwise() {
        assert!(began.elapsed() < Duration::from_secs(180), "waited three minutes for: {what}\n{otherwise}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A client of a store.
#[derive(Clone)]
struct Client {
    names: MetadataClient,
    store: Store,
}

impl Client {
    fn connect(address: &str, credential: &Credential) -> Result<Client> {
        let (credentials, timeout) = (Credentials::given(credential.clone()), Duration::from_secs(20));
        let options = Connect { credentials, timeout, ..Connect::default() };
        let names = MetadataClient::connect(&mut Tracer::off(), address, &options)?;
        let data = Arc::new(DataClient::new(names.map().as_ref().clone(), &options));
        Ok(Client { store: Store { names: Arc::new(names.clone()), data }, names })
    }

    fn ask(&self, operation: LotOperation) -> Result<LotReport> {
        self.names.lots(&mut Tracer::off(), operation).map(|mut reports| reports.remove(0))
    }

    fn create(&self, name: &str, size_bytes: u64, for_ns: u64) -> Result<LotReport> {
        let (name, targets) = (name.to_owned(), Vec::new());
        self.ask(LotOperation::Create { name, owner: None, size_bytes, for_ns, elastic: false, least: None, targets })
    }

    fn resize(&self, name: &str, size_bytes: u64) -> Result<LotReport> {
        self.ask(LotOperation::Resize { name: name.into(), size_bytes })
    }

    fn renew(&self, name: &str, for_ns: u64) -> Result<LotReport> {
        self.ask(LotOperation::Renew { name: name.into(), for_ns })
    }

    fn remove(&self, name: &str, files: bool) -> Result<LotReport> {
        self.ask(LotOperation::Remove { name: name.into(), files })
    }

    fn show(&self, name: &str) -> Result<LotReport> {
        self.ask(LotOperation::Show { name: Some(name.into()) })
    }

    fn shown(&self) -> Result<Vec<LotReport>> {
        self.names.lots(&mut Tracer::off(), LotOperation::Show { name: None })
    }

    /// Creates a directory whose new files are in a lot.
    fn directory(&self, path: &str, lot: LotId) -> Result<()> {
        let place = FilePath::at(path);
        match self.names.make_directory(&mut Tracer::off(), &place, OWNER, false) {
            Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
            _ => {}
        }
        let choice = LayoutChoice { lot: Some(lot), ..LayoutChoice::default() };
        let set = SetAttributes { default_layout: Some(Some(choice)), ..SetAttributes::default() };
        self.names.set_attributes(&mut Tracer::off(), &place, &set).map(drop)
    }

    fn file(&self, path: &str) -> Result<StoreFile> {
        self.laid_out(path, LayoutChoice::default())
    }

    fn laid_out(&self, path: &str, layout: LayoutChoice) -> Result<StoreFile> {
        self.store.create(path, 0o644, Existing::Refuse, &layout)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.names.rename(&mut Tracer::off(), &FilePath::at(from), &FilePath::at(to), true, &SetAttributes::default()).map(drop)
    }

    fn unlink(&self, path: &str) -> Result<()> {
        self.names.unlink(&mut Tracer::off(), &FilePath::at(path))
    }

    fn truncate(&self, path: &str, size_bytes: u64) -> Result<()> {
        self.names.truncate(&mut Tracer::off(), &FilePath::at(path), size_bytes)
    }
}

/// A store in this process.
struct World {
    store: RunningStore,
    directory: PathBuf,
    client: Client,
}

impl World {
    fn up(directory: &Path) -> World {
        let store = up(&UpOptions { servers: Some(SERVERS), ..UpOptions::new([directory]) }).unwrap();
        let client = Client::connect(&store.address().service().unwrap(), store.credential()).unwrap();
        World { store, directory: directory.to_owned(), client }
    }

    /// Returns another owner's client.
    fn of(&self, owner: &str) -> Client {
        let credential = self.store.credential().derive(owner, Rights::Write, None).unwrap();
        Client::connect(&self.store.address().service().unwrap(), &credential).unwrap()
    }

    /// Checks the targets' reported use of a lot against the disk.
    fn check(&self, client: &Client, name: &str) -> u64 {
        let report = client.show(name).unwrap();
        check(&self.directory, &report);
        used(&report)
    }
}

/// Maximum size of a file system's index for these tests' datafiles.
const INDEX_BYTES: u64 = 8 * 4096;

fn used(report: &LotReport) -> u64 {
    report.uses.iter().map(|used| used.used_bytes).sum()
}

/// Returns the blocks of a lot's datafiles on a target, in bytes. Checksums are in no lot.
fn walked(directory: &Path, target: u32, lot: LotId) -> u64 {
    let root = directory.join(format!("io{target}/lots/{:08x}", lot.0));
    let parts = std::fs::read_dir(root).into_iter().flatten().flatten().map(|part| part.path());
    let files = parts.flat_map(|part| std::fs::read_dir(part).into_iter().flatten().flatten());
    let datafiles = files.filter(|file| !file.path().to_string_lossy().ends_with(".crc"));
    datafiles.filter_map(|file| file.metadata().ok()).map(|found| found.blocks() * 512).sum()
}

/// Checks that the reported use is the sum of allocations, within the shares, and that shares do not exceed the lot.
fn check(directory: &Path, report: &LotReport) {
    check_sums(directory, report);
    assert!(report.uses.iter().all(is_within), "{report:?}");
}

/// Returns whether a target's files are within its share.
fn is_within(used: &LotUse) -> bool {
    // A file system adds blocks of its own to a datafile with many extents, unpredictably.
    used.used_bytes <= used.share.share_bytes + INDEX_BYTES || used.expired
}

/// Checks that the reported use is the sum of allocations, and that shares do not exceed the lot.
fn check_sums(directory: &Path, report: &LotReport) {
    let lot = &report.lot;
    assert_eq!(report.uses.len(), lot.shares.len(), "all targets answer: {report:?}");
    for used in &report.uses {
        let there = walked(directory, used.target.0, lot.id);
        assert_eq!(used.used_bytes, there, "lot `{}` at target {}", lot.name, used.target);
    }
    let promised: u64 = report.uses.iter().map(|used| used.share.share_bytes).sum();
    // Each share is rounded up to a block.
    let whole = lot.size_bytes + 4096 * (lot.shares.len() as u64 + 1);
    assert!(promised <= whole, "lot `{}` of {} is promised {promised}", lot.name, lot.size_bytes);
}

/// Returns a layout on this target only.
fn on_target(target: u32) -> LayoutChoice {
    use thalweg_wire::protocol::metadata::{Placement, TargetId};
    LayoutChoice { datafiles: Some(1), placement: Some(Placement::Targets(vec![TargetId(target)])), ..LayoutChoice::default() }
}

fn kind<T>(done: Result<T>) -> ErrorKind {
    done.err().expect("a refusal").kind()
}

/// Writes pieces from an offset on until a refusal; returns the bytes written, and the refusal.
fn fill(file: &StoreFile, piece: usize, most: u64) -> (u64, Option<Error>) {
    let bytes = vec![7; piece];
    let mut at = 0;
    while at < most {
        match file.write_at(&bytes, at) {
            Ok(()) => at += piece as u64,
            Err(error) => return (at, Some(error)),
        }
    }
    (at, None)
}
