//! Flows: the bytes of one request, moved between the client and the servers in flow buffers.

use super::memory::RequestMemory;
use crate::files::handle::FileHandle;
use crate::files::verifiers::Verifiers;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_layout::FlowBuffer;
use thalweg_trace::{ObjectId, SpanFields, SpanId, SpanKind, Tracer, TrackId};
use thalweg_wire::patience;
use thalweg_wire::protocol::io::{DatafileId, Durability};
use thalweg_wire::{Error, ErrorKind, Result};

/// A source read by the connections' threads, at any offset and from any thread.
pub(crate) trait Source: Send + Sync {
    /// Fills `buffer` from `offset`. Fewer bytes are an error.
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()>;
    /// Returns the bytes in memory, if they never change: a non-empty prefix of the range.
    fn in_memory(&self, _offset: u64, _length: u64) -> Option<&[u8]> {
        None
    }
    /// Returns the source's object in the recording.
    fn object(&self) -> Option<ObjectId>;
}

/// A sink written by the connections' threads, at any offset and from any thread.
pub(crate) trait Sink: Send + Sync {
    /// Writes all of `bytes` at `offset`.
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Returns the mutex to hold while writing a flow buffer's pieces, if one thread at a time should write. The mutex holds the track of
    /// its last holder.
    fn turn(&self) -> Option<&Mutex<Option<TrackId>>> {
        None
    }
    /// Whether [`Sink::write`] does nothing.
    fn discards(&self) -> bool {
        false
    }
    /// Returns the sink's object in the recording.
    fn object(&self) -> Option<ObjectId>;
}

/// The client's endpoint of a flow, which also gives the direction.
pub(crate) enum Endpoint {
    /// Into the store from a request's memory, which begins at logical offset `base`.
    FromMemory(Arc<RequestMemory>, u64),
    /// Into the store, read by the connections' threads.
    FromSource(Arc<dyn Source>),
    /// Out of the store into a request's memory.
    ToMemory(Arc<RequestMemory>, u64),
    /// Out of the store, written by the connections' threads.
    ToSink(Arc<dyn Sink>),
}

/// A task for a connection's thread.
pub(crate) enum Task {
    /// Move a flow buffer.
    Move(FlowBuffer),
    /// Make datafiles durable.
    Sync(Vec<DatafileId>),
}

/// A task in a lane's queue.
pub(crate) struct QueuedTask {
    pub flow: Arc<Flow>,
    pub task: Task,
    /// Whether it already failed once with a checksum mismatch.
    pub again: bool,
    /// Track that queued the task.
    pub asked_by: Option<TrackId>,
}

/// Called when a flow has ended, with its result and the track that did the last task.
pub(crate) type Ended = Box<dyn FnOnce(Result<()>, Option<TrackId>) + Send>;

/// Parameters of a flow.
pub(crate) struct Moving {
    pub file: Arc<FileHandle>,
    pub endpoint: Endpoint,
    /// Durability requested for each flow buffer written.
    pub durability: Durability,
    /// Boot verifiers of the servers that take the bytes.
    pub verifiers: Arc<Verifiers>,
    /// The `app.request` span the flow belongs to.
    pub request: Option<SpanId>,
    /// Bytes of the whole copy that have arrived.
    pub moved_bytes: Arc<AtomicU64>,
}

/// One flow.
pub(crate) struct Flow {
    moving: Moving,
    state: Mutex<State>,
    ended: Condvar,
    short: AtomicBool,
}

struct State {
    left: usize,
    error: Option<Error>,
    last: Option<TrackId>,
    then: Option<Ended>,
}

impl Deref for Flow {
    type Target = Moving;
    fn deref(&self) -> &Moving {
        &self.moving
    }
}

impl Flow {
    /// Creates a flow of `tasks` tasks, at least one.
    pub(crate) fn new(moving: Moving, tasks: usize) -> Arc<Flow> {
        Flow::with_end(moving, tasks, None)
    }

    /// Creates a flow; the thread that does the last task calls `then`.
    pub(crate) fn with_end(moving: Moving, tasks: usize, then: Option<Ended>) -> Arc<Flow> {
        let state = Mutex::new(State { left: tasks, error: None, last: None, then });
        Arc::new(Flow { moving, state, ended: Condvar::new(), short: AtomicBool::new(false) })
    }

    /// Records the result of one task, done by track `by`.
    pub(crate) fn done(&self, result: Result<u64>, by: Option<TrackId>) {
        let mut state = self.state.lock();
        match result {
            Ok(bytes) => {
                self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            Err(error) => {
                state.error.get_or_insert_with(|| error.on_file(self.file.path()));
            }
        }
        state.left -= 1;
        state.last = by;
        if state.left > 0 {
            return;
        }
        self.ended.notify_all();
        let then = state.then.take();
        let how = state.error.clone().map_or(Ok(()), Err);
        drop(state);
        if let Some(then) = then {
            then(how, by);
        }
    }

    /// Returns the first error, if a task has failed; the remaining tasks need not be done.
    pub(crate) fn error(&self) -> Option<Error> {
        self.state.lock().error.clone()
    }

    /// Cancels the flow: tasks not yet begun are skipped.
    pub(crate) fn cancel(&self) {
        self.state.lock().error.get_or_insert_with(|| Error::new(ErrorKind::Cancelled, "cancelled"));
    }

    /// Whether every task is done.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().left == 0
    }

    /// Records that a datafile had fewer bytes than requested.
    pub(crate) fn came_short(&self) {
        self.short.store(true, Ordering::Release);
    }

    /// Whether a datafile had fewer bytes than requested. The missing bytes are 0 in memory.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Acquire)
    }

    /// Waits until every task is done. Afterwards the request owns its memory again.
    pub(crate) fn wait(&self, tracer: &mut Tracer) -> Result<()> {
        let mut state = self.state.lock();
        if state.left > 0 {
            let waiting = tracer.begin();
            while state.left > 0 {
                self.ended.wait(&mut state);
            }
            let about = SpanFields { parent: self.request, waker_track: state.last, ..SpanFields::default() };
            tracer.end(waiting, SpanKind::WaitLock, about);
        }
        let error = state.error.clone();
        error.as_ref().inspect(|error| patience::met(error));
        error.map_or(Ok(()), Err)
    }
}
