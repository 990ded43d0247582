//! A flow: one request's bytes, moving between the client and the servers in flow buffers.

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

/// Where a flow's bytes come from when a connection's thread fetches them itself. Any offset, from any thread.
pub(crate) trait Source: Send + Sync {
    /// Fills `buffer` from `offset` on. Not having so many bytes (any more) is an error.
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()>;
    /// The same bytes, if they are in memory and never change: a prefix of the range, not empty.
    fn in_memory(&self, _offset: u64, _length: u64) -> Option<&[u8]> {
        None
    }
    /// Its row in the recording.
    fn object(&self) -> Option<ObjectId>;
}

/// Where a flow's bytes go when a connection's thread stores them itself. Any offset, from any thread.
pub(crate) trait Sink: Send + Sync {
    /// Stores all of `bytes` at `offset`.
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Who is writing now, if only one thread at a time should: held for a flow buffer's pieces. It holds the track of
    /// the thread that had it last.
    fn turn(&self) -> Option<&Mutex<Option<TrackId>>> {
        None
    }
    /// Whether there is nothing to do in [`Sink::write`].
    fn discards(&self) -> bool {
        false
    }
    /// Its row in the recording.
    fn object(&self) -> Option<ObjectId>;
}

/// The client's endpoint of a flow, and so its direction.
pub(crate) enum Endpoint {
    /// Into the store, out of a request's memory, which begins at logical offset `base`.
    FromMemory(Arc<RequestMemory>, u64),
    /// Into the store, fetched by the connections' threads.
    FromSource(Arc<dyn Source>),
    /// Out of the store, into a request's memory.
    ToMemory(Arc<RequestMemory>, u64),
    /// Out of the store, stored by the connections' threads.
    ToSink(Arc<dyn Sink>),
}

/// What a connection's thread is asked to do.
pub(crate) enum Task {
    /// Move a flow buffer.
    Move(FlowBuffer),
    /// Make datafiles durable.
    Sync(Vec<DatafileId>),
}

/// A task in a lane's queue.
pub(crate) struct Work {
    pub flow: Arc<Flow>,
    pub task: Task,
    /// Failed once already because a checksum did not match.
    pub again: bool,
    /// Who asked for it.
    pub asked_by: Option<TrackId>,
}

/// What is reported when a flow has ended: how, and which track did its last task.
pub(crate) type Ended = Box<dyn FnOnce(Result<()>, Option<TrackId>) + Send>;

/// What is moved.
pub(crate) struct Moving {
    pub file: Arc<FileHandle>,
    pub endpoint: Endpoint,
    /// What is asked of the servers for each flow buffer written.
    pub durability: Durability,
    /// The starts of the servers that take it.
    pub verifiers: Arc<Verifiers>,
    /// The `app.request` it is a part of.
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
    /// A flow of `tasks` tasks, at least one.
    pub(crate) fn new(moving: Moving, tasks: usize) -> Arc<Flow> {
        Flow::with_end(moving, tasks, None)
    }

    /// The same; `then` is called by the thread that does the last task.
    pub(crate) fn with_end(moving: Moving, tasks: usize, then: Option<Ended>) -> Arc<Flow> {
        let state = Mutex::new(State { left: tasks, error: None, last: None, then });
        Arc::new(Flow { moving, state, ended: Condvar::new(), short: AtomicBool::new(false) })
    }

    /// One task is done; `by` did it.
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

    /// Whether a task of it has failed: the rest is of no use.
    pub(crate) fn error(&self) -> Option<Error> {
        self.state.lock().error.clone()
    }

    /// It is of no more use: what is not under way is not begun.
    pub(crate) fn cancel(&self) {
        self.state.lock().error.get_or_insert_with(|| Error::new(ErrorKind::Cancelled, "of no more use"));
    }

    /// Whether every task is done.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().left == 0
    }

    /// A datafile had fewer bytes than were asked for.
    pub(crate) fn came_short(&self) {
        self.short.store(true, Ordering::Release);
    }

    /// Whether a datafile had fewer bytes than were asked for. They are 0 in memory.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Acquire)
    }

    /// Waits until every task is done. From here on its memory is the request's again.
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
