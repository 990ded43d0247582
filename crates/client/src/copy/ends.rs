//! The two opened ends of a copy.

use super::control::Control;
use super::draft::umask;
use super::job::{Chosen, CopyJob, Sink, Source};
use super::local::{LocalSink, LocalSource, NullSink, Pattern};
use super::output::{self, Output};
use super::partial;
use super::stream::{self, Opened, Stream};
use crate::files::engine::flow::{Endpoint, Flow, Moving, QueuedTask, Task};
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
    /// Exclusively owned until the copy has ended; requests share the reference.
    Local(Arc<LocalSink>),
    Null(Arc<NullSink>),
    Output(Output),
    Store(StoreEnd),
}

/// An opened source.
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
    /// Final name; until then the file has the name [`StoreEnd::partial`].
    pub path: String,
    partial: Option<String>,
    kept: bool,
    /// Durability requested for each flow buffer written.
    durability: Durability,
    verifiers: Arc<Verifiers>,
    /// `None`: a short copy, made on the caller's thread.
    pub engine: Mutex<Option<Engine>>,
}

/// Name, in recordings, of the disk that `--emulate` simulates.
const EMULATED_SOURCE: &str = "emulated source disk";

/// Returns a source's name for recordings.
pub(super) fn source_name(source: &Source) -> String {
    match source {
        Source::Local(path) => path.display().to_string(),
        Source::Memory(_) => "memory".to_owned(),
        Source::Stdin => "-".to_owned(),
        Source::Store(_, path) => format!("thal:{path}"),
    }
}

/// Returns a sink's name for recordings.
pub(super) fn sink_name(sink: &Sink) -> String {
    match sink {
        Sink::Local(path) => path.display().to_string(),
        Sink::Null => "null".to_owned(),
        Sink::Stdout => "-".to_owned(),
        Sink::Store(_, path, _) => format!("thal:{path}"),
    }
}

/// Opens the source and records its name. `stopping` says whether to give up waiting for the source.
pub(super) fn open_source(job: &CopyJob, trace: &TraceHandle, tracer: &mut Tracer, stopping: &dyn Fn() -> bool) -> Result<OpenSource> {
    let name = source_name(&job.source);
    let named = |size: Option<u64>| {
        let mut attributes = vec![("to", sink_name(&job.sink))];
        attributes.extend(size.map(|size| ("size_bytes", size.to_string())));
        if let Source::Local(path) = &job.source {
            let emulated = job.emulated_source.map(|_| ("device", EMULATED_SOURCE.to_owned()));
            attributes.extend(emulated.or_else(|| on_device(trace, path)));
        }
        trace.object(ObjectKind::File, &name, &attributes)
    };
    let plain = 0o666;
    Ok(match &job.source {
        Source::Local(path) => {
            let mut source = match stream::open(path, stopping)? {
                Opened::Sized(source) => *source,
                Opened::Stream(_) if job.emulated_source.is_some() => {
                    let problem = "--emulate needs a file on a disk; this source has no size and is on no disk";
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
                .map(|rate| (Disk::new(EMULATED_SOURCE, format!("disk {}", numbers::byte_rate(rate as f64)), rate, 0), trace.clone()));
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

/// Returns the device of a local file, for its object row; `None` when not recording.
fn on_device(trace: &TraceHandle, path: &Path) -> Option<(&'static str, String)> {
    Some(("device", trace.is_on().then(|| device_of(path))??))
}

/// Opens the sink under its `.partial` name. With `look_first`, checks the final name before any byte is moved. `stopping` says whether to
/// give up waiting for an output.
pub(super) fn open_sink(
    job: &CopyJob,
    source: &OpenSource,
    (trace, tracer): (&TraceHandle, &mut Tracer),
    look_first: bool,
    stopping: &dyn Fn() -> bool,
) -> Result<To> {
    Ok(match &job.sink {
        Sink::Local(path) if output::is_stream_output(path) => To::Output(Output::open(path, stopping)?),
        Sink::Local(path) => {
            let mut sink = LocalSink::create(path, source.size_bytes, source.mode, job.force)?;
            let attributes: Vec<_> = on_device(trace, path).into_iter().collect();
            sink.object = trace.object(ObjectKind::File, &path.display().to_string(), &attributes);
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
    pub(super) fn create(
        store: &Store,
        path: &str,
        layout: &LayoutChoice,
        mode: u32,
        force: bool,
        tracer: &mut Tracer,
        look_first: bool,
    ) -> Result<StoreEnd> {
        // The rename at the end decides; checking first avoids moving the bytes in vain.
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

    /// Wraps a file that the caller opens, names and closes.
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

    /// Returns the servers that hold part of the file, with the datafiles on each.
    pub(super) fn servers(&self) -> Result<BTreeMap<usize, Vec<u32>>> {
        let mut servers: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for id in self.handle.datafiles() {
            servers.entry(self.store.data.server_of(id.target)?).or_default().push(id.index);
        }
        Ok(servers)
    }

    /// Starts the threads.
    pub(super) fn start(&self, chosen: &Chosen, control: &Control, trace: &TraceHandle) -> Result<()> {
        let options = EngineOptions {
            name: "connection",
            depth: Arc::clone(&control.depth),
            streams: Arc::clone(&control.streams),
            socket_buffer_bytes: chosen.socket_buffer_bytes,
            trace: Some(trace.clone()),
            is_shared: false,
            stages: Arc::clone(&control.stages),
        };
        let servers = self.servers()?;
        control.servers.fetch_max(servers.len() as u32, Ordering::Relaxed);
        let engine = Engine::start(self.store.data.links(), servers.into_keys(), options)?;
        *self.engine.lock() = Some(engine);
        Ok(())
    }

    /// Opens connections up to the number now requested.
    pub(super) fn adjust(&self) {
        self.with_engine(Engine::adjust);
    }

    fn with_engine<T>(&self, work: impl FnOnce(&Engine) -> T) -> Option<T> {
        self.engine.lock().as_ref().map(work)
    }

    /// Ends the threads: after their current work, or immediately with `at_once`.
    pub(super) fn stop(&self, at_once: bool) {
        if at_once {
            self.with_engine(Engine::cancel);
        }
        let engine = self.engine.lock().take();
        drop(engine);
    }

    /// Interrupts the threads; their current work fails.
    pub(super) fn cancel(&self) {
        self.with_engine(Engine::cancel);
    }

    /// Moves ranges in flow buffers of at most `buffer_bytes`; every server gets its first buffer before any gets its second.
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
                        engine.ask(*server, QueuedTask { flow: Arc::clone(&flow), task: Task::Move(buffer), again: false, asked_by });
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

    /// Puts the file on stable storage on all its servers in parallel, and then its name.
    pub(super) fn sync(&self, tracer: &mut Tracer) -> Result<()> {
        let servers = self.servers()?;
        // Direction is irrelevant: there are no bytes to move.
        let endpoint = Endpoint::FromMemory(Arc::new(crate::files::RequestMemory::new(0)), 0);
        let flow = Flow::new(self.moving(endpoint, None, Arc::default()), servers.len());
        let asked_by = tracer.track();
        let asked = self.with_engine(|engine| {
            for (server, indexes) in servers {
                let datafiles = indexes.into_iter().map(|index| self.handle.datafile(index)).collect();
                engine.ask(server, QueuedTask { flow: Arc::clone(&flow), task: Task::Sync(datafiles), again: false, asked_by });
            }
        });
        match asked {
            Some(()) => flow.wait(tracer),
            None => Err(Error::new(ErrorKind::Cancelled, "stopped on request")),
        }
    }

    /// Publishes the file: all `size_bytes` are written and nothing is in flight. Renames it to its final name and closes it in the same
    /// message.
    pub(super) fn keep(&mut self, tracer: &mut Tracer, force: bool, sync: bool, size_bytes: u64) -> Result<()> {
        let Some(partial) = &self.partial else { return Ok(()) };
        let whole = Some(metadata::End::whole(size_bytes, sync));
        let renamed = self.store.names.rename(tracer, self.handle.id(), partial, &self.path, force, whole);
        renamed.map_err(|e| match e.kind() {
            ErrorKind::Exists => Error::new(ErrorKind::Exists, "exists already: use --force to replace it").on_file(&self.path),
            ErrorKind::Busy => {
                let problem = "another copy to the same name has begun since then and replaced it, so this copy was discarded";
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

    /// Removes an incomplete file.
    pub(super) fn discard(&mut self) {
        if let (false, Some(partial)) = (self.kept, &self.partial) {
            // Ignored: the `.partial` stays, and its name shows that it is not complete.
            let _ = self.store.names.unlink(&mut Tracer::off(), self.handle.id(), partial);
        }
        self.kept = true;
    }
}

impl Drop for StoreEnd {
    fn drop(&mut self) {
        self.stop(false);
        self.discard();
        // A published file is already closed; the end of an unpublished one is of no interest.
        self.store.names.close(self.handle.id(), metadata::End::Unknown);
    }
}
