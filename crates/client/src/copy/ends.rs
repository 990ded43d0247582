//! The two ends of a copy, opened.

use super::control::Control;
use super::draft::umask;
use super::job::{Chosen, CopyJob, Sink, Source};
use super::local::{LocalSink, LocalSource, NullSink, Pattern};
use super::output::{self, Output};
use super::partial;
use super::stream::{self, Opened, Stream};
use crate::files::engine::flow::{Endpoint, Flow, Moving, Task, Work};
use crate::files::engine::{Engine, EngineOptions};
use crate::files::verifiers::Verifiers;
use crate::files::{FileHandle, Store};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_base::machine::device_of;
use thalweg_base::numbers;
use thalweg_base::sync::Mutex;
use thalweg_layout::FlowBuffer;
use thalweg_trace::{ObjectId, ObjectKind, SpanId, TraceHandle, Tracer};
use thalweg_wire::emulate::Disk;
use thalweg_wire::protocol::io::Durability;
use thalweg_wire::protocol::metadata::{self, Existing, FileKind, LayoutChoice};
use thalweg_wire::{Error, ErrorKind, Result};

/// Where bytes come from.
pub(super) enum From {
    Local(Arc<LocalSource>),
    Memory(Arc<Pattern>),
    Stream(Stream),
    Store(StoreEnd),
}

/// Where bytes go.
pub(super) enum To {
    /// The lock is the sink's until the copy has ended; requests use the shared reference.
    Local(Arc<LocalSink>),
    Null(Arc<NullSink>),
    Output(Output),
    Store(StoreEnd),
}

/// A source, opened.
pub(super) struct OpenSource {
    pub end: From,
    pub size_bytes: Option<u64>,
    pub mode: u32,
    pub object: Option<ObjectId>,
}

/// A file of a store, with the threads that move its bytes.
pub(super) struct StoreEnd {
    pub store: Store,
    pub handle: Arc<FileHandle>,
    /// The name it is to have; until then it has [`StoreEnd::partial`].
    pub path: String,
    partial: Option<String>,
    kept: bool,
    /// What is asked of the servers for each flow buffer written.
    durability: Durability,
    verifiers: Arc<Verifiers>,
    /// None: a short copy, on the caller's thread.
    pub engine: Mutex<Option<Engine>>,
}

/// What the disk that a source pretends to be on is called in recordings.
const EMULATED_SOURCE: &str = "emulated source disk";

/// A source's name in a recording.
pub(super) fn source_name(source: &Source) -> String {
    match source {
        Source::Local(path) => path.display().to_string(),
        Source::Memory(_) => "memory".to_owned(),
        Source::Stdin => "-".to_owned(),
        Source::Store(_, path) => format!("thal:{path}"),
    }
}

/// A sink's name in a recording.
pub(super) fn sink_name(sink: &Sink) -> String {
    match sink {
        Sink::Local(path) => path.display().to_string(),
        Sink::Null => "null".to_owned(),
        Sink::Stdout => "-".to_owned(),
        Sink::Store(_, path, _) => format!("thal:{path}"),
    }
}

/// Opens the source, and names it in the recording. `stopping`: whether a source that is waited for is still wanted.
pub(super) fn open_source(job: &CopyJob, mode: &TraceHandle, tracer: &mut Tracer, stopping: &dyn Fn() -> bool) -> Result<OpenSource> {
    let name = source_name(&job.source);
    let named = |size: Option<u64>| {
        let mut attributes = vec![("to", sink_name(&job.sink))];
        attributes.extend(size.map(|size| ("size_bytes", size.to_string())));
        if let Source::Local(path) = &job.source {
            let emulated = job.emulated_source.map(|_| ("device", EMULATED_SOURCE.to_owned()));
            attributes.extend(emulated.or_else(|| on_device(mode, path)));
        }
        mode.object(ObjectKind::File, &name, &attributes)
    };
    let plain = 0o666;
    Ok(match &job.source {
        Source::Local(path) => {
            let mut source = match stream::open(path, stopping)? {
                Opened::Sized(source) => *source,
                Opened::Stream(_) if job.emulated_source.is_some() => {
                    let problem = "--emulate: it has no size, and is on no disk: expected a file on a disk";
                    return Err(Error::new(ErrorKind::Invalid, problem).on_file(&name));
                }
                Opened::Stream(stream) => {
                    let mode = stream.mode;
                    return Ok(OpenSource { end: From::Stream(stream), size_bytes: None, mode, object: named(None) });
                }
            };
            source.object = named(Some(source.size_bytes()));
            source.disk = job
                .emulated_source
                .map(|rate| (Disk::new(EMULATED_SOURCE, format!("disk {}", numbers::byte_rate(rate as f64)), rate, 0), mode.clone()));
            let (size, mode, object) = (source.size_bytes(), source.mode(), source.object);
            OpenSource { end: From::Local(Arc::new(source)), size_bytes: Some(size), mode, object }
        }
        Source::Memory(size) => {
            let object = named(Some(*size));
            OpenSource { end: From::Memory(Arc::new(Pattern { object })), size_bytes: Some(*size), mode: plain, object }
        }
        Source::Stdin => OpenSource { end: From::Stream(Stream::stdin()?), size_bytes: None, mode: plain, object: named(None) },
        Source::Store(store, path) => {
            let attributes = store.names.open(tracer, path, false)?;
            if attributes.kind == FileKind::Directory {
                return Err(Error::new(ErrorKind::IsDirectory, "it is a directory: copy it with -r").on_file(path));
            }
            let handle = Arc::new(FileHandle::from_attributes(path, &attributes)?);
            store.data.check_readable(&handle)?;
            let size = store.data.size(tracer, &handle)?;
            let end = StoreEnd {
                store: store.clone(),
                handle,
                path: path.clone(),
                partial: None,
                kept: true,
                durability: Durability::Returned,
                verifiers: Arc::default(),
                engine: Mutex::new(None),
            };
            OpenSource { end: From::Store(end), size_bytes: Some(size), mode: attributes.mode & 0o777, object: named(Some(size)) }
        }
    })
}

/// The device that a local file is on, for its row; nothing is asked where nothing is recorded.
fn on_device(mode: &TraceHandle, path: &Path) -> Option<(&'static str, String)> {
    Some(("device", mode.is_on().then(|| device_of(path))??))
}

/// Opens the sink under its `.partial` name. `look_first`: what has its name already is looked for before anything is moved; `stopping`: whether
/// an output that is waited for is still wanted.
pub(super) fn open_sink(
    job: &CopyJob,
    source: &OpenSource,
    (mode, tracer): (&TraceHandle, &mut Tracer),
    look_first: bool,
    stopping: &dyn Fn() -> bool,
) -> Result<To> {
    Ok(match &job.sink {
        Sink::Local(path) if output::is_one(path) => To::Output(Output::open(path, stopping)?),
        Sink::Local(path) => {
            let mut sink = LocalSink::create(path, source.size_bytes, source.mode, job.force)?;
            let attributes: Vec<_> = on_device(mode, path).into_iter().collect();
            sink.object = mode.object(ObjectKind::File, &path.display().to_string(), &attributes);
            To::Local(Arc::new(sink))
        }
        Sink::Null => To::Null(Arc::new(NullSink)),
        Sink::Stdout => To::Output(Output::standard()?),
        Sink::Store(store, path, layout) => {
            let mode = source.mode & !umask();
            let mut end = StoreEnd::create(store, path, layout, mode, job.force, tracer, look_first)?;
            if job.sync {
                end.durability = Durability::Underway;
            }
            To::Store(end)
        }
    })
}

impl StoreEnd {
    fn create(
        store: &Store,
        path: &str,
        layout: &LayoutChoice,
        mode: u32,
        force: bool,
        tracer: &mut Tracer,
        look_first: bool,
    ) -> Result<StoreEnd> {
        // The rename at the end decides; looking first saves moving the bytes in vain.
        if look_first {
            match store.names.stat(tracer, path) {
                Ok(found) if found.kind == FileKind::Directory => {
                    return Err(Error::new(ErrorKind::IsDirectory, "it is a directory: name a file in it").on_file(path));
                }
                Ok(_) if !force => {
                    return Err(Error::new(ErrorKind::Exists, "exists already: use --force to replace it").on_file(path));
                }
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        let partial = partial::text_of(path);
        let attributes = store.names.create(tracer, &partial, mode, Existing::Draft, layout).map_err(|e| e.on_file_instead(path))?;
        let handle = Arc::new(FileHandle::from_attributes(path, &attributes)?);
        let (store, path, partial) = (store.clone(), path.to_owned(), Some(partial));
        let (durability, verifiers, engine) = (Durability::Returned, Arc::default(), Mutex::new(None));
        Ok(StoreEnd { store, handle, path, partial, kept: false, durability, verifiers, engine })
    }

    /// A file that somebody else has opened, names and closes.
    pub(super) fn of(store: &Store, handle: FileHandle, to_be_synced: bool) -> StoreEnd {
        StoreEnd {
            store: store.clone(),
            path: handle.path().to_owned(),
            handle: Arc::new(handle),
            partial: None,
            kept: true,
            durability: if to_be_synced { Durability::Underway } else { Durability::Returned },
            verifiers: Arc::default(),
            engine: Mutex::new(None),
        }
    }

    /// Servers that have a part of it.
    pub(super) fn servers(&self) -> Result<BTreeMap<usize, Vec<u32>>> {
        let mut servers: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for id in self.handle.datafiles() {
            servers.entry(self.store.data.server_of(id.target)?).or_default().push(id.index);
        }
        Ok(servers)
    }

    /// Starts the threads.
    pub(super) fn start(&self, chosen: &Chosen, control: &Control, mode: &TraceHandle) -> Result<()> {
        let options = EngineOptions {
            name: "connection",
            depth: Arc::clone(&control.depth),
            streams: Arc::clone(&control.streams),
            socket_buffer_bytes: chosen.socket_buffer_bytes,
            mode: Some(mode.clone()),
            is_shared: false,
            stages: Arc::clone(&control.stages),
        };
        let servers = self.servers()?;
        control.servers.fetch_max(servers.len() as u32, Ordering::Relaxed);
        let engine = Engine::start(self.store.data.links(), servers.into_keys(), options)?;
        *self.engine.lock() = Some(engine);
        Ok(())
    }

    /// Makes as many connections as are wanted by now.
    pub(super) fn adjust(&self) {
        self.with_engine(Engine::adjust);
    }

    fn with_engine<T>(&self, work: impl FnOnce(&Engine) -> T) -> Option<T> {
        self.engine.lock().as_ref().map(work)
    }

    /// Ends the threads, after what they were asked for, or at once.
    pub(super) fn stop(&self, at_once: bool) {
        if at_once {
            self.with_engine(Engine::cancel);
        }
        let engine = self.engine.lock().take();
        drop(engine);
    }

    /// Interrupts the threads; what they are doing fails.
    pub(super) fn cancel(&self) {
        self.with_engine(Engine::cancel);
    }

    /// Moves ranges in flow buffers of at most `buffer_bytes`: all servers get their first before any gets its second.
    pub(super) fn flow(
        &self,
        endpoint: Endpoint,
        ranges: &[Range<u64>],
        buffer_bytes: u64,
        request: Option<SpanId>,
        moved_bytes: &Arc<AtomicU64>,
        tracer: &Tracer,
    ) -> Result<Arc<Flow>> {
        let layout = self.handle.layout();
        let mut parts: Vec<(usize, VecDeque<FlowBuffer>)> = Vec::new();
        for id in self.handle.datafiles() {
            let of_range = |range: &Range<u64>| layout.flow_buffers(id.index, range.start, range.end - range.start, buffer_bytes);
            let buffers: VecDeque<FlowBuffer> = ranges.iter().flat_map(of_range).collect();
            if !buffers.is_empty() {
                parts.push((self.store.data.server_of(id.target)?, buffers));
            }
        }
        let tasks = parts.iter().map(|(_, buffers)| buffers.len()).sum();
        let flow = Flow::new(self.moving(endpoint, request, Arc::clone(moved_bytes)), tasks);
        let asked_by = tracer.track();
        self.with_engine(|engine| {
            while !parts.is_empty() {
                parts.retain_mut(|(server, buffers)| match buffers.pop_front() {
                    Some(buffer) => {
                        engine.ask(*server, Work { flow: Arc::clone(&flow), task: Task::Move(buffer), again: false, asked_by });
                        true
                    }
                    None => false,
                });
            }
        })
        .ok_or_else(|| Error::new(ErrorKind::Cancelled, "stopped on request"))?;
        Ok(flow)
    }

    fn moving(&self, endpoint: Endpoint, request: Option<SpanId>, moved_bytes: Arc<AtomicU64>) -> Moving {
        let (file, verifiers) = (Arc::clone(&self.handle), Arc::clone(&self.verifiers));
        Moving { file, endpoint, durability: self.durability, verifiers, request, moved_bytes }
    }

    /// Puts the file on stable storage, on all its servers at a time, and then its name.
    pub(super) fn sync(&self, tracer: &mut Tracer) -> Result<()> {
        let servers = self.servers()?;
        // Direction does not matter: there is nothing to move.
        let endpoint = Endpoint::FromMemory(Arc::new(crate::files::RequestMemory::new(0)), 0);
        let flow = Flow::new(self.moving(endpoint, None, Arc::default()), servers.len());
        let asked_by = tracer.track();
        let asked = self.with_engine(|engine| {
            for (server, indexes) in servers {
                let datafiles = indexes.into_iter().map(|index| self.handle.datafile(index)).collect();
                engine.ask(server, Work { flow: Arc::clone(&flow), task: Task::Sync(datafiles), again: false, asked_by });
            }
        });
        match asked {
            Some(()) => flow.wait(tracer),
            None => Err(Error::new(ErrorKind::Cancelled, "stopped on request")),
        }
    }

    /// Everything is there, `size_bytes` and nothing in flight: gives the file its name, and closes it in the same message.
    pub(super) fn keep(&mut self, tracer: &mut Tracer, force: bool, sync: bool, size_bytes: u64) -> Result<()> {
        let Some(partial) = &self.partial else { return Ok(()) };
        let whole = Some(metadata::End::whole(size_bytes, sync));
        let renamed = self.store.names.rename(tracer, self.handle.id(), partial, &self.path, force, whole);
        renamed.map_err(|e| match e.kind() {
            ErrorKind::Exists => Error::new(ErrorKind::Exists, "exists already: use --force to replace it").on_file(&self.path),
            ErrorKind::Busy => {
                let problem = "another copy to the same name began meanwhile and has taken its place: this one was not kept";
                Error::new(ErrorKind::Busy, problem).on_file(&self.path)
            }
            _ => e.on_file_instead(&self.path),
        })?;
        self.kept = true;
        if sync {
            self.store.names.sync(tracer).map_err(|e| e.on_file(&self.path))?;
        }
        Ok(())
    }

    /// Takes away what is not whole.
    pub(super) fn discard(&mut self) {
        if let (false, Some(partial)) = (self.kept, &self.partial) {
            // Nothing more can be done: the `.partial` stays, and is not taken for a file.
            let _ = self.store.names.unlink(&mut Tracer::off(), self.handle.id(), partial);
        }
        self.kept = true;
    }
}

impl Drop for StoreEnd {
    fn drop(&mut self) {
        self.stop(false);
        self.discard();
        // What was kept is closed already; what was not has an end that nobody needs to know.
        self.store.names.close(self.handle.id(), metadata::End::Unknown);
    }
}
