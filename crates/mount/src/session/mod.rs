//! The mount as a whole: how it comes to be, the threads that serve it, and its end.

pub(crate) mod in_use;
mod recording;
mod requests;

use crate::errors::{MountError, Result};
use crate::filesystem::{FileSystem, Walkers};
use crate::fuse::device::Device;
use crate::fuse::handshake::shake_hands;
use crate::fuse::mounting::{self, How};
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
use thalweg_client::wire::protocol::metadata::{Attributes, FileId, FileKind, Place};
use thalweg_client::wire::{Connect, Error, ErrorKind};
use thalweg_trace::{TraceHandle, Tracer};

/// Entries of a directory that are asked for ahead of the kernel at first, and at most: it asks for some hundred at a time, and what it
/// is given must not be old.
const WINDOW: (u32, u32) = (512, 2048);
/// The same of those who ask for one file after another.
const WINDOW_SINGLY: (u32, u32) = (64, 256);
/// Files that lost bytes and are asked for at the end, at most.
const LOST_NAMED: usize = 64;
/// How far the kernel may read ahead.
const READAHEAD_BYTES: u64 = 4 << 20;

/// A store that is mounted.
pub struct Mount {
    requests: Arc<Requests>,
    mountpoint: PathBuf,
    watchers: Vec<std::thread::JoinHandle<()>>,
    recording: Option<Recording>,
    data: Arc<DataClient>,
}

/// A store that can be reached, and the directory of it that is to be mounted.
struct Reached {
    names: MetadataClient,
    data: Arc<DataClient>,
    root: Attributes,
}

impl Mount {
    /// Mounts a store; it is there when this returns.
    ///
    /// # Errors
    /// The store is not there; the directory of it is not there, or none; the lot is not there, or another owner's; the place to mount on may not be mounted on.
    pub fn start(mut options: Options) -> Result<Mount> {
        let mountpoint = usable(&options.mountpoint)?;
        may_honour(&options)?;
        let log = Log::new(options.log.as_deref())?;
        let store = reach(&options)?;
        if let Some(lot) = &options.lot {
            options.layout.lot = Some(store.names.lot_named(&mut Tracer::off(), lot).map_err(|e| e.on_file(format!("--lot {lot}")))?);
        }
        let recording = options.record.as_ref().map(|to| Recording::start(to, &options, &store.names, &store.data)).transpose()?;
        let mode = recording.as_ref().map_or(TraceHandle::off(), Recording::mode);
        let data = Arc::clone(&store.data);
        let (device, write_bytes) = mount(&mountpoint, &options).map_err(|e| MountError::at(&mountpoint, e))?;
        let files = file_system(options, store, Arc::clone(&device), log, mode);
        let requests = Arc::new(Requests::new(files, write_bytes));
        let started = spawn(&requests, device).map_err(|e| MountError::at(&mountpoint, e));
        let watchers = watchers(&requests);
        let mount = Mount { requests, mountpoint, watchers, recording, data };
        started.map(|()| mount)
    }

    /// Where it is.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// The connections of its read-ahead and write-behind, for a tuner.
    pub fn data(&self) -> &Arc<DataClient> {
        &self.data
    }

    /// Takes it away; `lazily`: for those who come, while those who are in it go on.
    ///
    /// # Errors
    /// When somebody is in it: who.
    pub fn unmount(&self, lazily: bool) -> Result<()> {
        self.unmounter().unmount(lazily)
    }

    /// For another thread than the one that waits.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter { mountpoint: self.mountpoint.clone() }
    }

    /// Waits until it is taken away, by whomever. Everything that was written is at the servers then.
    ///
    /// # Errors
    /// Something was lost, or the recording could not be written.
    pub fn wait(mut self) -> Result<()> {
        self.requests.wait();
        finish(&self.requests);
        for watcher in self.watchers.drain(..) {
            let _ = watcher.join();
        }
        let written_back = write_back_all(&self.requests.files);
        let recorded = self.recording.take().map_or(Ok(()), |recording| {
            self.data.end_tuning(&recording.mode());
            recording.finish()
        });
        written_back.and(recorded)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // After a wait nothing is mounted any more, and something else may be at its place.
        if !self.watchers.is_empty() {
            let _ = mounting::unmount(&self.mountpoint, true);
            finish(&self.requests);
        }
    }
}

/// Connects to the store, and looks at the directory that is to be mounted.
fn reach(options: &Options) -> Result<Reached> {
    let connect =
        Connect { timeout: options.timeout, node: options.node.clone(), credentials: options.credentials.clone(), ..Connect::default() };
    let off = &mut Tracer::off();
    let names = MetadataClient::connect(off, &options.address, &connect)?;
    let map = names.map();
    let connect = Connect { store: Some(map.store), ..connect };
    let data = Arc::new(DataClient::of_store(map.as_ref().clone(), &connect, Arc::new(names.clone())));
    let root = names.stat(off, &Place::at(&options.directory))?;
    if root.kind != FileKind::Directory {
        return Err(Error::new(ErrorKind::NotDirectory, "it is no directory").on_file(&options.directory).into());
    }
    Ok(Reached { names, data, root })
}

/// Mounts, and agrees with the kernel on what is spoken: how many bytes one write has at most.
fn mount(mountpoint: &Path, options: &Options) -> std::io::Result<(Arc<Device>, usize)> {
    let (source, read_only) = (options.source(), options.read_only);
    let how = How { source, read_only, allow_other: options.allow_other, honours: options.honours };
    let device = Arc::new(Device::new(mounting::mount(mountpoint, &how)?));
    let write_bytes = shake_hands(&device, options.strict).inspect_err(|_| drop(mounting::unmount(mountpoint, true)))?;
    if let Some(mounted) = mounting::mounts().ok().and_then(|all| all.into_iter().rfind(|m| m.at == mountpoint)) {
        mounting::set_readahead(mounted.device, READAHEAD_BYTES);
    }
    Ok((device, write_bytes))
}

fn file_system(options: Options, store: Reached, device: Arc<Device>, log: Log, mode: TraceHandle) -> FileSystem {
    let Reached { names, data, root } = store;
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
        mode,
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

/// Starts the threads that look after a mount beside those that take its requests.
fn watchers(requests: &Arc<Requests>) -> Vec<std::thread::JoinHandle<()>> {
    let start = |name: &str, work: fn(&Requests)| {
        let requests = Arc::clone(requests);
        std::thread::Builder::new().name(name.into()).spawn(move || work(&requests))
    };
    let threads = [
        start("interrupts", |requests| requests.interrupts.watch()),
        start("releases", |requests| {
            let files = &requests.files;
            // What cannot be reported now is reported with the next request.
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

/// The watchers end.
fn finish(requests: &Requests) {
    requests.interrupts.finish();
    requests.files.deferred_releases.finish();
    requests.files.losses.finish();
    requests.files.table.finish();
}

/// At the end: everything that was written is at the servers. What was lost before, and is still, is an error once more.
fn write_back_all(files: &FileSystem) -> Result<()> {
    let tracer = &mut Tracer::off();
    for handle in files.handles.all() {
        files.write_back(tracer, &handle.inode, &handle.shared);
    }
    files.report_all_kept(tracer);
    let is_lost = |file: &FileId| match files.names.stat(tracer, &Place::of(*file)) {
        Ok(attributes) => attributes.lost.is_some(),
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Stale),
    };
    let lost: Vec<FileId> = files.losses.files_lost().into_iter().take(LOST_NAMED).filter(is_lost).collect();
    match lost.first() {
        None => Ok(()),
        Some(first) => {
            let problem = format!("bytes that were written to {} files are lost, this one first", lost.len());
            Err(MountError::from(Error::new(ErrorKind::Io, problem).on_file(first.to_string())))
        }
    }
}

/// Takes a mount away.
#[derive(Clone, Debug)]
pub struct Unmounter {
    mountpoint: PathBuf,
}

impl Unmounter {
    /// As [`Mount::unmount`].
    ///
    /// # Errors
    /// As there.
    pub fn unmount(&self, lazily: bool) -> Result<()> {
        mounting::unmount(&self.mountpoint, lazily).map_err(|e| match e.raw_os_error() {
            Some(libc::EBUSY) => MountError::at(&self.mountpoint, in_use::busy_text(&self.mountpoint, Some(std::process::id()))),
            _ => MountError::at(&self.mountpoint, e),
        })
    }
}

/// Only root has a machine honour what a store has of privileges.
fn may_honour(options: &Options) -> Result<()> {
    if !options.honours.any() || rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(MountError::at(
        &options.mountpoint,
        "--allow-suid and --allow-dev: only root may have this machine honour them; mount without them",
    ))
}

/// The place to mount on, without links in its path.
fn usable(mountpoint: &Path) -> Result<PathBuf> {
    let dead = |e: std::io::Error| match e.raw_os_error() {
        Some(libc::ENOTCONN | libc::ECONNABORTED) => {
            MountError::at(mountpoint, "a mount whose process is gone is there: thalweg umount takes it away")
        }
        _ => MountError::at(mountpoint, e),
    };
    match std::fs::metadata(mountpoint).map_err(dead)?.is_dir() {
        true => mountpoint.canonicalize().map_err(dead),
        false => Err(MountError::at(mountpoint, "it is no directory: a store is mounted on one")),
    }
}
