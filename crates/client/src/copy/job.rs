//! What a copy is asked for, and what it reports.

use super::control::{Control, MOST};
use crate::files::{FAR_DEPTH, NEAR_DEPTH, Store};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use thalweg_wire::protocol::metadata::LayoutChoice;
use thalweg_wire::{Error, ErrorKind, Result};

/// Where the bytes come from.
#[derive(Clone)]
pub enum Source {
    /// A file of this machine.
    Local(PathBuf),
    /// So many bytes of memory: a control run without a source.
    Memory(u64),
    /// Standard input, to its end.
    Stdin,
    /// A file of a store.
    Store(Store, String),
}

/// Where the bytes go.
#[derive(Clone)]
pub enum Sink {
    /// A file of this machine.
    Local(PathBuf),
    /// Nowhere, after they were verified: a control run without a sink.
    Null,
    /// Standard output.
    Stdout,
    /// A file of a store, with the layout it is to have.
    Store(Store, String, LayoutChoice),
}

/// Who fetches and stores bytes: see [`crate::copy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataPath {
    /// Direct, unless requests are specified, or an end is a pipe, or both ends are stores.
    #[default]
    Automatic,
    /// A request's thread, into the request's memory.
    Buffered,
    /// The connections' threads.
    Direct,
}

/// What becomes of holes, as in `cp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sparse {
    /// Holes of the source are holes of the copy.
    #[default]
    Auto,
    /// Blocks of zeros become holes, too.
    Always,
    /// Everything is written out.
    Never,
}

/// Numbers that make a copy fast or slow. `None`: chosen by the copy.
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// Bytes of a request.
    pub request_bytes: Option<u64>,
    /// Requests in flight.
    pub requests: Option<u32>,
    /// Bytes of a flow buffer.
    pub buffer_bytes: Option<u64>,
    /// Flow buffers posted and unanswered on each connection.
    pub depth: Option<u32>,
    /// Connections to each server.
    pub streams: Option<u32>,
    /// Size of sockets' buffers.
    pub socket_buffer_bytes: Option<usize>,
    /// Who fetches and stores bytes.
    pub data_path: DataPath,
}

/// One copy.
#[derive(Clone)]
pub struct CopyJob {
    /// From.
    pub source: Source,
    /// To.
    pub sink: Sink,
    /// How fast.
    pub tuning: Tuning,
    /// Whether everything is to be durable at the end.
    pub sync: bool,
    /// Whether an existing file is replaced.
    pub force: bool,
    /// What becomes of holes.
    pub sparse: Sparse,
    /// Bytes per second of the disk that a local source pretends to be on.
    pub emulated_source: Option<u64>,
    /// Whether to trace it.
    pub recording: Option<Recording>,
    /// Reached by a tuner while the copy runs.
    pub control: Arc<Control>,
}

impl CopyJob {
    /// A copy with nothing special about it.
    pub fn new(source: Source, sink: Sink) -> CopyJob {
        let (tuning, sparse, control) = (Tuning::default(), Sparse::default(), Arc::default());
        CopyJob { source, sink, tuning, sync: false, force: false, sparse, emulated_source: None, recording: None, control }
    }
}

/// A recording to be made.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Where: a directory that does not exist yet, `NAME.thw`.
    pub path: PathBuf,
    /// The command, as it was given.
    pub command: Vec<String>,
    /// The label of this machine.
    pub node: String,
    /// Words of the command that look like secrets are recorded as they are.
    pub keep_command: bool,
}

/// Sees a copy's progress, and can stop it. Called from the thread that called [`crate::copy::run`].
pub trait CopyObserver {
    /// So many bytes have arrived, of so many, if that is known; those of holes are left out as they are found. Called ten times a second, and at the end.
    fn progress(&self, _moved_bytes: u64, _size_bytes: Option<u64>) {}
    /// What has this name, `NAME.partial`, was not made by a copy: it was left alone.
    fn left_alone(&self, _path: &std::path::Path) {}
    /// Whether to stop.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl CopyObserver for Quiet {}

/// What became of a copy.
#[derive(Clone, Debug)]
pub struct CopyOutcome {
    /// Size of the file.
    pub size_bytes: u64,
    /// Bytes of it that are in holes of the copy, and were not moved.
    pub hole_bytes: u64,
    /// From the first open to the last rename.
    pub elapsed: Duration,
    /// The source was written to meanwhile (its size is as it was): the copy may be of no single moment.
    pub source_modified: bool,
    /// What was used, where it was chosen by the copy too; of what was turned meanwhile, the last.
    pub request_bytes: u64,
    /// Requests in flight.
    pub requests: u32,
    /// Bytes of a flow buffer.
    pub buffer_bytes: u64,
    /// Flow buffers in flight on each connection.
    pub depth: u32,
    /// Connections to each server.
    pub streams: u32,
    /// Buffered or direct.
    pub data_path: DataPath,
    /// Servers that have a part of it.
    pub servers: u32,
    /// The recording, finished, if one was asked for.
    pub recording: Option<PathBuf>,
}

/// A copy's numbers, all chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub request_bytes: u64,
    pub requests: u32,
    pub buffer_bytes: u64,
    pub depth: u32,
    pub streams: u32,
    pub socket_buffer_bytes: Option<usize>,
    pub direct: bool,
}

/// Bytes of a request in the buffered way, as `pvfs2-cp` has it.
const REQUEST_BYTES: u64 = 10 << 20;
/// Bytes of a request in the direct way, where a request is only a list of flow buffers.
const DIRECT_REQUEST_BYTES: u64 = 64 << 20;
/// Bytes of a flow buffer: as much as stays in a processor's second-level cache.
const BUFFER_BYTES: u64 = 1 << 20;

impl Chosen {
    /// Checks what was asked for, and chooses the rest. `direct_possible`: exactly one end is a store and the other one
    /// takes bytes at any offset.
    pub(super) fn new(job: &CopyJob, direct_possible: bool) -> Result<Chosen> {
        let store = match (&job.source, &job.sink) {
            (Source::Store(store, _), _) | (_, Sink::Store(store, ..)) => Some(store),
            _ => None,
        };
        let is_near = store.is_some_and(|s| s.data.is_near());
        let t = &job.tuning;
        let positive = |name: &str, value: Option<u64>, most: u64| match value {
            Some(value) if value == 0 || value > most => {
                Err(Error::new(ErrorKind::Invalid, format!("{name} is {value}: expected 1 to {most}")))
            }
            value => Ok(value),
        };
        let many = |name, value: Option<u32>| Ok::<_, Error>(positive(name, value.map(u64::from), u64::from(MOST))?.map(|n| n as u32));
        let direct = match t.data_path {
            DataPath::Direct if !direct_possible => {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "the direct data path needs one end in a store, and the other a file or memory",
                ));
            }
            DataPath::Direct if job.sparse != Sparse::Auto => {
                return Err(Error::new(ErrorKind::Invalid, "the direct data path keeps holes as they are: it needs --sparse=auto"));
            }
            DataPath::Direct => true,
            DataPath::Buffered => false,
            // To find zeros, or to make them where there are none, takes the request's memory.
            DataPath::Automatic => direct_possible && t.request_bytes.is_none() && t.requests.is_none() && job.sparse == Sparse::Auto,
        };
        // A request's memory is allocated whole.
        let most = if direct { i64::MAX as u64 } else { 1 << 32 };
        let request_bytes = positive("request", t.request_bytes, most)?;
        // What was asked for; else what a controller has set before; else what is good on most paths.
        let c = &job.control;
        let set = |of: &AtomicU32| Some(of.load(Ordering::Relaxed)).filter(|value| *value > 0);
        let set_bytes = |of: &AtomicU64| Some(of.load(Ordering::Relaxed)).filter(|value| *value > 0);
        let by_distance = if is_near { NEAR_DEPTH } else { FAR_DEPTH };
        let buffer_bytes = positive("buffer", t.buffer_bytes, thalweg_wire::limits::PAYLOAD_BYTES)?.or_else(|| set_bytes(&c.buffer_bytes));
        let socket_buffer_bytes = positive("socket-buffer", t.socket_buffer_bytes.map(|n| n as u64), 1 << 30)?;
        let chosen = Chosen {
            request_bytes: request_bytes.unwrap_or(if direct { DIRECT_REQUEST_BYTES } else { REQUEST_BYTES }),
            requests: many("requests", t.requests)?.or_else(|| set(&c.requests)).unwrap_or(2),
            buffer_bytes: buffer_bytes.unwrap_or(BUFFER_BYTES),
            depth: many("depth", t.depth)?.or_else(|| set(&c.depth)).unwrap_or(by_distance),
            streams: many("streams", t.streams)?.or_else(|| set(&c.streams)).unwrap_or(1),
            socket_buffer_bytes: socket_buffer_bytes.or_else(|| set_bytes(&c.socket_buffer_bytes)).map(|n| n as usize),
            direct,
        };
        chosen.begin(c, t);
        Ok(chosen)
    }

    /// The copy begins with them. What was not asked for is left as a controller has set it, who may be about to set it again: the files of
    /// a tree share their numbers, and begin one after the other.
    fn begin(&self, control: &Control, asked: &Tuning) {
        let number = |of: &AtomicU32, value: u32, is_asked: bool| {
            let before = if is_asked { of.load(Ordering::Relaxed) } else { 0 };
            let _ = of.compare_exchange(before, value, Ordering::Relaxed, Ordering::Relaxed);
        };
        number(&control.requests, self.requests, asked.requests.is_some());
        number(&control.depth, self.depth, asked.depth.is_some());
        number(&control.streams, self.streams, asked.streams.is_some());
        let bytes = |of: &AtomicU64, value: u64, is_asked: bool| {
            let before = if is_asked { of.load(Ordering::Relaxed) } else { 0 };
            let _ = of.compare_exchange(before, value, Ordering::Relaxed, Ordering::Relaxed);
        };
        bytes(&control.buffer_bytes, self.buffer_bytes, asked.buffer_bytes.is_some());
        bytes(&control.socket_buffer_bytes, self.socket_buffer_bytes.unwrap_or(0) as u64, asked.socket_buffer_bytes.is_some());
        control.request_memory_bytes.store(if self.direct { 0 } else { self.request_bytes }, Ordering::Relaxed);
        control.moved_bytes.store(0, Ordering::Relaxed);
        control.hole_bytes.store(0, Ordering::Relaxed);
    }
}
