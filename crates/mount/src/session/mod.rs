//! The mount as a whole: mounting, the threads that serve it, and unmounting.

pub(crate) mod in_use;
mod recording;
mod requests;

use crate::errors::{MountError, Result};
use crate::filesystem::{FileSystem, Walkers};
use crate::fuse::device::Device;
use crate::fuse::handshake::shake_hands;
use crate::fuse::mounting::{self, MountSpec};
use crate::inodes::local_changes::LocalChanges;
use crate::inodes::table::InodeTable;
use crate::log::Log;
use crate::options::Options;
use recording::Recording;
use requests::{Requests, spawn};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_client::DataClient;
use thalweg_client::metadata::MetadataClient;
use thalweg_client::walk::{Detail, WalkMode, WalkOptions, Walker};
use thalweg_client::wire::protocol::metadata::{Attributes, FileId, FileKind, FilePath};
use thalweg_client::wire::{Connect, Error, ErrorKind};
use thalweg_trace::{TraceHandle, Tracer};

/// Initial and maximum window of a directory walk, in entries: the kernel asks for some hundred at a time, and entries must not be old
/// when returned.
const WINDOW: (u32, u32) = (512, 2048);
/// Initial and maximum window of a walk for programs that ask for one file after another.
const WINDOW_SINGLY: (u32, u32) = (64, 256);
/// Bound: files with lost bytes that are named at the end.
const LOST_NAMED: usize = 64;
/// Kernel read-ahead of the mount.
const READAHEAD_BYTES: u64 = 4 << 20;

/// A mounted store.
pub struct Mount {
    requests: Arc<Requests>,
    mountpoint: PathBuf,
    watchers: Vec<std::thread::JoinHandle<()>>,
    recording: Option<Recording>,
    data: Arc<DataClient>,
}

/// A store that was reached, and its directory to mount.
struct StoreRoot {
    names: MetadataClient,
    data: Arc<DataClient>,
    root: Attributes,
}

impl Mount {
    /// Mounts a store; it is mounted on return.
    ///
    /// # Errors
    /// The store is unreachable; its directory does not exist or is not a directory; the lot does not exist or is another owner's; the
    /// mount point cannot be mounted on.
    pub fn start(mut options: Options) -> Result<Mount> {
        let mountpoint = usable(&options.mountpoint)?;
        may_honour(&options)?;
        let log = Log::new(options.log.as_deref())?;
        let store = reach(&options)?;
        if let Some(lot) = &options.lot {
            options.layout.lot = Some(store.names.lot_named(&mut Tracer::off(), lot).map_err(|e| e.on_file(format!("--lot {lot}")))?);
        }
        let recording = options.record.as_ref().map(|to| Recording::start(to, &options, &store.names, &store.data)).transpose()?;
        let trace = recording.as_ref().map_or(TraceHandle::off(), Recording::trace);
        let data = Arc::clone(&store.data);
        let (device, write_bytes) = mount(&mountpoint, &options).map_err(|e| MountError::at(&mountpoint, e))?;
        let files = file_system(options, store, Arc::clone(&device), log, trace);
        let requests = Arc::new(Requests::new(files, write_bytes));
        let started = spawn(&requests, device).map_err(|e| MountError::at(&mountpoint, e));
        let watchers = watchers(&requests);
        let mount = Mount { requests, mountpoint, watchers, recording, data };
        started.map(|()| mount)
    }

    /// Returns the mount point.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Returns the data client, for a tuner.
    pub fn data(&self) -> &Arc<DataClient> {
        &self.data
    }

    /// Unmounts; with `lazily`, detaches immediately while current users continue.
    ///
    /// # Errors
    /// When it is in use, with the processes that use it.
    pub fn unmount(&self, lazily: bool) -> Result<()> {
        self.unmounter().unmount(lazily)
    }

    /// Returns an unmounter, for use while another thread waits.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter { mountpoint: self.mountpoint.clone() }
    }

    /// Waits until it is unmounted, by any process. Everything written is at the servers then.
    ///
    /// # Errors
    /// Bytes were lost, or the recording could not be written.
    pub fn wait(mut self) -> Result<()> {
        self.requests.wait();
        finish(&self.requests);
        for watcher in self.watchers.drain(..) {
            let _ = watcher.join();
        }
        let written_back = write_back_all(&self.requests.files);
        let recorded = self.recording.take().map_or(Ok(()), |recording| {
            self.data.end_tuning(&recording.trace());
            recording.finish()
        });
        written_back.and(recorded)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // After a wait it is already unmounted, and another mount may be in its place.
        if !self.watchers.is_empty() {
            let _ = mounting::unmount(&self.mountpoint, true);
            finish(&self.requests);
        }
    }
}

/// Connects to the store, and checks the directory to mount.
fn reach(options: &Options) -> Result<StoreRoot> {
    let connect =
        Connect { timeout: options.timeout, node: options.node.clone(), credentials: options.credentials.clone(), ..Connect::default() };
    let off = &mut Tracer::off();
    let names = MetadataClient::connect(off, &options.address, &connect)?;
    let map = names.map();
    let connect = Connect { store: Some(map.store), ..connect };
    let data = Arc::new(DataClient::of_store(map.as_ref().clone(), &connect, Arc::new(names.clone())));
    let root = names.stat(off, &FilePath::at(&options.directory))?;
    if root.kind != FileKind::Directory {
        return Err(Error::new(ErrorKind::NotDirectory, "it is not a directory").on_file(&options.directory).into());
    }
    Ok(StoreRoot { names, data, root })
}

/// Mounts and negotiates with the kernel; returns the device and the maximum bytes of one write.
fn mount(mountpoint: &Path, options: &Options) -> std::io::Result<(Arc<Device>, usize)> {
    let (source, read_only) = (options.source(), options.read_only);
    let how = MountSpec { source, read_only, allow_other: options.allow_other, honours: options.honours };
    let device = Arc::new(Device::new(mounting::mount(mountpoint, &how)?));
    let write_bytes = shake_hands(&device, options.strict).inspect_err(|_| drop(mounting::unmount(mountpoint, true)))?;
    if let Some(mounted) = mounting::mounts().ok().and_then(|all| all.into_iter().rfind(|m| m.at == mountpoint)) {
        mounting::set_readahead(mounted.device, READAHEAD_BYTES);
    }
    Ok((device, write_bytes))
}

fn file_system(options: Options, store: StoreRoot, device: Arc<Device>, log: Log, trace: TraceHandle) -> FileSystem {
    let StoreRoot { names, data, root } = store;
    FileSystem {
        table: InodeTable::new(&root, options.inode_limit),
        retries: Default::default(),
        handles: Default::default(),
        deferred_releases: Default::default(),
        losses: Default::default(),
        directories: Default::default(),
        walkers: walkers(&options, &names, &data),
        lookup_ahead: Default::default(),
        local_changes: LocalChanges::new(options.lifetime()),
        breaker: Default::default(),
        timed_out_calls: Default::default(),
        requests: Default::default(),
        habit: Default::default(),
        abandoned: Default::default(),
        log,
        options,
        spaces: Default::default(),
        locks: names.locks(),
        lock_owners: Default::default(),
        names,
        data,
        device,
        trace,
    }
}

fn walkers(options: &Options, names: &MetadataClient, data: &Arc<DataClient>) -> Walkers {
    let mode = if options.estimate_space { WalkMode::SizesFromMetadata } else { WalkMode::GlimpseAhead };
    let walker = |detail, (window_start, window_most): (u32, u32)| {
        let timeout = Some(options.timeout);
        Walker::new(
            names.clone(),
            Arc::clone(data),
            WalkOptions { mode, detail, window_start, window_most, timeout, ..WalkOptions::default() },
        )
    };
    Walkers { names: walker(Detail::Names, WINDOW), whole: walker(Detail::Sizes, WINDOW), singly: walker(Detail::Sizes, WINDOW_SINGLY) }
}

/// Starts the background threads of a mount.
fn watchers(requests: &Arc<Requests>) -> Vec<std::thread::JoinHandle<()>> {
    let start = |name: &str, work: fn(&Requests)| {
        let requests = Arc::clone(requests);
        std::thread::Builder::new().name(name.into()).spawn(move || work(&requests))
    };
    let threads = [
        start("interrupts", |requests| requests.interrupts.watch()),
        start("releases", |requests| {
            let files = &requests.files;
            // On failure, the next request reports them.
            files.deferred_releases.run(|| drop(files.names.report_closed(&mut Tracer::off())));
        }),
        start("losses", |requests| {
            let files = &requests.files;
            files.losses.run(|| files.report_all_kept(&mut Tracer::off()));
        }),
        start("shrinker", |requests| {
            let files = &requests.files;
            files.table.shrink(|numbers| files.device.prune(numbers));
        }),
    ];
    threads.into_iter().flatten().collect()
}

/// Ends the background threads.
fn finish(requests: &Requests) {
    requests.interrupts.finish();
    requests.files.deferred_releases.finish();
    requests.files.losses.finish();
    requests.files.table.finish();
}

/// Writes everything back at the end. Earlier losses that were not repaired are an error once more.
fn write_back_all(files: &FileSystem) -> Result<()> {
    let tracer = &mut Tracer::off();
    for handle in files.handles.all() {
        files.write_back(tracer, &handle.inode, &handle.shared);
    }
    files.report_all_kept(tracer);
    let is_lost = |file: &FileId| match files.names.stat(tracer, &FilePath::of(*file)) {
        Ok(attributes) => attributes.lost.is_some(),
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Stale),
    };
    let lost: Vec<FileId> = files.losses.files_lost().into_iter().take(LOST_NAMED).filter(is_lost).collect();
    match lost.first() {
        None => Ok(()),
        Some(first) => {
            let problem = format!("acknowledged writes to {} files were lost; the first file is named here", lost.len());
            Err(MountError::from(Error::new(ErrorKind::Io, problem).on_file(first.to_string())))
        }
    }
}

/// Unmounts a mount.
#[derive(Clone, Debug)]
pub struct Unmounter {
    mountpoint: PathBuf,
}

impl Unmounter {
    /// Unmounts as [`Mount::unmount`].
    ///
    /// # Errors
    /// As [`Mount::unmount`].
    pub fn unmount(&self, lazily: bool) -> Result<()> {
        mounting::unmount(&self.mountpoint, lazily).map_err(|e| match e.raw_os_error() {
            Some(libc::EBUSY) => MountError::at(&self.mountpoint, in_use::busy_text(&self.mountpoint, Some(std::process::id()))),
            _ => MountError::at(&self.mountpoint, e),
        })
    }
}

/// Checks that only root honours privileges of a store.
fn may_honour(options: &Options) -> Result<()> {
    if !options.honours.any() || rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(MountError::at(&options.mountpoint, "--allow-suid and --allow-dev are only permitted for root: mount without them"))
}

/// Returns the mount point as a path without symbolic links.
fn usable(mountpoint: &Path) -> Result<PathBuf> {
    let dead = |e: std::io::Error| match e.raw_os_error() {
        Some(libc::ENOTCONN | libc::ECONNABORTED) => {
            MountError::at(mountpoint, "a mount whose process has ended is still there: remove it with thalweg umount")
        }
        _ => MountError::at(mountpoint, e),
    };
    match std::fs::metadata(mountpoint).map_err(dead)?.is_dir() {
        true => mountpoint.canonicalize().map_err(dead),
        false => Err(MountError::at(mountpoint, "it is not a directory: name a directory to mount on")),
    }
}
