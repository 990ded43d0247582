//! The mount as a whole: threads that take requests, and its end.
//!
//! A thread takes a request, does what it asks and answers it, and takes the next. There is always one that waits for a
//! request: when the last one has got one it starts another, so that a request that takes long (a silent server, a lock that is
//! held) keeps no other waiting, and an interrupt can always be heard. Threads that are not needed end.

pub mod in_use;
pub mod recording;

use crate::handlers::attributes::kind_bits;
use crate::handlers::io::Handles;
use crate::errors::{Answered, Log, MountError, Refusal, Result};
use crate::filesystem::{Answer, FileSystem, Gives, Walkers, Worker};
use crate::inodes::revalidation::Retries;
use crate::fuse::abi;
use crate::fuse::device::Device;
use crate::fuse::handshake::{Agreed, shake_hands};
use crate::fuse::mounting::{self, How};
use crate::fuse::request::{Header, Operation, decode};
use crate::fuse::interrupts::{Interrupts, Leave};
use crate::options::Options;
use crate::inodes::local_changes::Recent;
use crate::session::recording::{self as record, Recording};
use crate::inodes::table::Table;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use thalweg_store::client::DataClient;
use thalweg_store::client::walk::{Detail, WalkMode, WalkOptions, Walker};
use thalweg_store::metadata::client::MetadataClient;
use thalweg_store::protocol::metadata::{FileKind, Place};
use thalweg_store::{Error, ErrorKind, wire::Connect};
use thalweg_trace::{Mode, Tracer};

/// Threads at most: past it, requests wait for one.
const THREADS: usize = 512;
/// Threads that wait for a request without being needed.
const IDLE: usize = 8;
/// Entries of a directory that are asked for ahead of the kernel at first, and at most: it asks for some hundred at a time, and what it
/// is told must not be old.
const WINDOW: (u32, u32) = (512, 2048);
/// The same of those who ask for one file after another.
const WINDOW_SINGLY: (u32, u32) = (64, 256);
/// How far the kernel may read ahead.
const READAHEAD_BYTES: u64 = 4 << 20;

/// A store that is mounted.
pub struct Mount {
    inner: Arc<Inner>,
    mountpoint: PathBuf,
    watchers: Vec<std::thread::JoinHandle<()>>,
    recording: Option<Recording>,
}

struct Inner {
    files: FileSystem,
    interrupts: Interrupts,
    agreed: Agreed,
    idle: AtomicUsize,
    threads: Mutex<usize>,
    changed: Condvar,
}

impl Mount {
    /// Mounts a store; it is there when this returns.
    ///
    /// # Errors
    /// The store is not there; the directory of it is not there, or none; the place to mount on may not be mounted on.
    pub fn start(options: Options) -> Result<Mount> {
        let mountpoint = usable(&options.mountpoint)?;
        let log = Log::new(options.log.as_deref())?;
        let connect = Connect { timeout: options.timeout, node: options.node.clone(), ..Connect::default() };
        let off = &mut Tracer::off();
        let names = MetadataClient::connect(off, &options.address, &connect)?;
        let map = names.map();
        let data =
            Arc::new(DataClient::of_store(map.as_ref().clone(), &Connect { store: Some(map.store), ..connect }, Arc::new(names.clone())));
        let root = names.stat(off, &Place::at(&options.directory))?;
        if root.kind != FileKind::Directory {
            return Err(Error::new(ErrorKind::NotDirectory, "it is no directory").on_file(&options.directory).into());
        }
        debug_assert_eq!(kind_bits(root.kind), libc::S_IFDIR);
        let recording = options.record.as_ref().map(|to| Recording::start(to, &options, &names, &data)).transpose()?;
        let mode = recording.as_ref().map_or(Mode::off(), Recording::mode);
        let how = How { source: options.source(), read_only: options.read_only, allow_other: options.allow_other };
        let failed = |e: std::io::Error| MountError::at(&mountpoint, e);
        let device = Arc::new(Device::new(mounting::mount(&mountpoint, &how).map_err(failed)?));
        let agreed = shake_hands(&device, options.strict).map_err(|e| {
            let _ = mounting::unmount(&mountpoint, true);
            failed(e)
        })?;
        if let Some(mounted) = mounting::mounts().ok().and_then(|all| all.into_iter().rfind(|m| m.at == mountpoint)) {
            mounting::set_readahead(&mounted.device, READAHEAD_BYTES);
        }
        let files = FileSystem {
            table: Table::new(&root, options.known_most),
            retries: Retries::default(),
            handles: Handles::default(),
            closes: Default::default(),
            directories: Default::default(),
            walkers: walkers(&options, &names, &data),
            following: Default::default(),
            recent: Recent::new(options.lifetime()),
            silence: Default::default(),
            calls: Default::default(),
            asked: Default::default(),
            habit: Default::default(),
            log,
            options,
            locks: names.locks(),
            names,
            data,
            device: Arc::clone(&device),
            mode,
        };
        let inner = Arc::new(Inner {
            files,
            interrupts: Interrupts::default(),
            agreed,
            idle: AtomicUsize::new(0),
            threads: Mutex::new(0),
            changed: Condvar::new(),
        });
        let started = spawn(&inner, device).map_err(failed);
        let watching = Arc::clone(&inner);
        let watcher = std::thread::Builder::new().name("interrupts".into()).spawn(move || watching.interrupts.watch());
        let telling = Arc::clone(&inner);
        let teller = std::thread::Builder::new().name("closes".into()).spawn(move || {
            // What cannot be told now is told with the next request.
            telling.files.closes.watch(|| drop(telling.files.names.tell_closed(&mut Tracer::off())));
        });
        let trimming = Arc::clone(&inner);
        let trimmer = std::thread::Builder::new().name("trimming".into()).spawn(move || {
            let files = &trimming.files;
            files.table.trimming.watch(&files.table, |nodes| files.device.prune(nodes));
        });
        let mount = Mount { inner, mountpoint, watchers: [watcher, teller, trimmer].into_iter().flatten().collect(), recording };
        started.map(|()| mount)
    }

    /// Where it is.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// The store as a file system, for whoever wants to look at what it keeps.
    pub fn files(&self) -> &FileSystem {
        &self.inner.files
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
        let mut threads = self.inner.threads.lock().unwrap_or_else(PoisonError::into_inner);
        while *threads > 0 {
            threads = self.inner.changed.wait(threads).unwrap_or_else(PoisonError::into_inner);
        }
        drop(threads);
        self.end_watchers();
        let settled = self.inner.files.settle_all();
        let recorded = self.recording.take().map_or(Ok(()), Recording::finish);
        settled.and(recorded)
    }

    fn end_watchers(&mut self) {
        self.inner.finish();
        for watcher in self.watchers.drain(..) {
            let _ = watcher.join();
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // After a wait nothing is mounted any more, and something else may be at its place.
        if !self.watchers.is_empty() {
            let _ = mounting::unmount(&self.mountpoint, true);
            self.inner.finish();
        }
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
            Some(libc::EBUSY) => MountError::at(&self.mountpoint, busy_text(&self.mountpoint, Some(std::process::id()))),
            _ => MountError::at(&self.mountpoint, e),
        })
    }
}

/// What is said of a mount that cannot be taken away.
pub fn busy_text(mountpoint: &Path, except: Option<u32>) -> String {
    let users = crate::session::in_use::users(mountpoint, except);
    match users.is_empty() {
        true => "it is in use, by a process that cannot be seen from here".to_owned(),
        false => format!("it is in use: {}", crate::session::in_use::described(&users)),
    }
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

/// Starts a thread that takes requests from `device`.
fn spawn(inner: &Arc<Inner>, device: Arc<Device>) -> std::io::Result<()> {
    let mut threads = inner.threads.lock().unwrap_or_else(PoisonError::into_inner);
    let number = *threads;
    let ours = Arc::clone(inner);
    // It waits for a request from now on, so that whoever started it need not think it must start one more.
    inner.idle.fetch_add(1, Ordering::SeqCst);
    let spawned = std::thread::Builder::new().name(format!("mount {number}")).spawn(move || {
        let ending = Ending(ours);
        ending.0.take_requests(&device, number);
    });
    match spawned {
        Ok(_) => {
            *threads += 1;
            Ok(())
        }
        Err(error) => {
            inner.idle.fetch_sub(1, Ordering::SeqCst);
            Err(error)
        }
    }
}

/// Counts a thread as ended, however it ends.
struct Ending(Arc<Inner>);

impl Drop for Ending {
    fn drop(&mut self) {
        *self.0.threads.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.changed.notify_all();
    }
}

impl Inner {
    /// The watchers end.
    fn finish(&self) {
        self.interrupts.finish();
        self.files.closes.finish();
        self.files.table.trimming.finish();
    }

    fn take_requests(self: &Arc<Inner>, device: &Arc<Device>, number: usize) {
        let tracer = self.files.mode.thread(&format!("mount {number}"));
        let mut worker = Worker::new(tracer);
        let mut memory = vec![0; self.agreed.write_bytes + abi::PAGE_BYTES];
        loop {
            let waiting = record::wait(&mut worker.tracer);
            let received = device.receive(&mut memory);
            record::waited(&mut worker.tracer, waiting);
            let was_last = self.idle.fetch_sub(1, Ordering::SeqCst) == 1;
            let length = match received {
                Ok(Some(length)) => length,
                Ok(None) => return,
                Err(error) => return self.files.log.line(format_args!("requests cannot be read: {error}")),
            };
            if was_last && *self.threads.lock().unwrap_or_else(PoisonError::into_inner) < THREADS {
                let another = device.another().map(Arc::new).unwrap_or_else(|_| Arc::clone(device));
                if let Err(error) = spawn(self, another) {
                    self.files.log.line(format_args!("a thread cannot be started: {error}"));
                }
            }
            match decode(&memory[..length]) {
                Ok((header, operation)) => self.one(&mut worker, device, &header, operation),
                Err(problem) => self.files.log.line(problem),
            }
            if self.idle.fetch_add(1, Ordering::SeqCst) >= IDLE {
                self.idle.fetch_sub(1, Ordering::SeqCst);
                return;
            }
        }
    }

    fn one(&self, worker: &mut Worker, device: &Arc<Device>, header: &Header, operation: Option<Operation<'_>>) {
        let operation = match operation {
            None => return drop(device.answer(header.unique, libc::ENOSYS, &[])),
            Some(Operation::Interrupt { unique }) => return self.interrupts.interrupt(unique),
            Some(Operation::Destroy) => return drop(device.answer(header.unique, 0, &[])),
            Some(operation) => operation,
        };
        let under_way = self.interrupts.begin(header.unique, header.pid, device, leave(&operation));
        let gives = Gives::by(&operation);
        let tracing = record::begin(&mut worker.tracer, &operation);
        let serve = std::panic::AssertUnwindSafe(|| self.files.serve(worker, header, operation, &under_way));
        let answer: Answered<Answer> = std::panic::catch_unwind(serve).unwrap_or_else(|_| {
            self.files.log.line(format_args!("a panic in answering request {} of kind {}: a bug", header.unique, header.opcode));
            Err(Refusal::plain(libc::EIO))
        });
        let (errno, bytes): (i32, &[u8]) = match &answer {
            Ok(Answer::Nothing) => {
                self.interrupts.end(header.unique);
                return;
            }
            Ok(Answer::Done) => (0, &[]),
            Ok(Answer::Out) => (0, &worker.out),
            Ok(Answer::View(view)) => (0, view),
            Err(refusal) => {
                self.files.log_refusal("a request", refusal);
                (refusal.errno, &[])
            }
        };
        let moved_bytes = bytes.len();
        let has_come = under_way.answer(errno, bytes);
        self.interrupts.end(header.unique);
        if !has_come && errno == 0 {
            self.files.take_back(worker, header.node, gives);
        }
        record::end(&self.files, &mut worker.tracer, tracing, header, errno, moved_bytes);
    }
}

/// Whether a program that is ending may be answered before a request has ended.
fn leave(operation: &Operation<'_>) -> Leave {
    use Operation as O;
    match operation {
        O::Flush { .. } => Leave::Always,
        // A lock that comes when its program has gone would be freed by nobody.
        O::Lock(_) => Leave::Never,
        O::Forget { .. } | O::Release { .. } | O::ReleaseDirectory { .. } => Leave::Never,
        O::Interrupt { .. } | O::Init { .. } | O::Destroy => Leave::Never,
        _ => Leave::WhenTold,
    }
}

impl FileSystem {
    /// A refusal whose errno does not say enough goes to the log.
    pub fn log_refusal(&self, what: &str, refusal: &Refusal) {
        if let Some(cause) = &refusal.cause {
            self.log.line(format_args!("{what}: {cause}"));
        }
    }

    /// At the end: everything that was written is at the servers.
    fn settle_all(&self) -> Result<()> {
        let mut all = Ok(());
        for handle in self.handles.all() {
            self.settle(&mut Tracer::off(), &handle.node, &handle.shared);
            if handle.shared.tell_losses(&handle.told).is_err() {
                let lost = Error::new(ErrorKind::Io, "bytes that were written are lost").on_file(handle.node.id.to_string());
                all = all.and(Err(MountError::from(lost)));
            }
        }
        all
    }
}
