//! A flow: one request's bytes, moving between the client and the servers in flow buffers.

use super::file::FileHandle;
use super::memory::RequestMemory;
use crate::error::{Error, Result};
use crate::protocol::io::{DatafileId, Durability};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use thalweg_layout::FlowBuffer;
use thalweg_trace::{About, ObjectId, SpanId, SpanKind, Tracer, TrackId};

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
    /// whoever had it last.
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

/// The client's end of a flow, and so its direction.
pub(crate) enum End {
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
    /// Put datafiles on media.
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

/// One flow.
pub(crate) struct Flow {
    pub file: Arc<FileHandle>,
    pub end: End,
    /// What is asked of the servers for each flow buffer written.
    pub durability: Durability,
    /// The `app.request` it is a part of.
    pub request: Option<SpanId>,
    /// Bytes of the whole copy that have arrived.
    pub moved_bytes: Arc<AtomicU64>,
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    left: usize,
    error: Option<Error>,
    last: Option<TrackId>,
}

impl Flow {
    /// A flow of `tasks` tasks.
    pub fn new(
        file: Arc<FileHandle>,
        end: End,
        durability: Durability,
        request: Option<SpanId>,
        moved_bytes: Arc<AtomicU64>,
        tasks: usize,
    ) -> Arc<Flow> {
        let state = Mutex::new(State { left: tasks, error: None, last: None });
        Arc::new(Flow { file, end, durability, request, moved_bytes, state, ended: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One task is done; `by` did it.
    pub fn done(&self, result: Result<u64>, by: Option<TrackId>) {
        let mut state = self.state();
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
        if state.left == 0 {
            self.ended.notify_all();
        }
    }

    /// Whether a task of it has failed: the rest is of no use.
    pub fn error(&self) -> Option<Error> {
        self.state().error.clone()
    }

    /// Waits until every task is done. From here on its memory is the request's again.
    pub fn wait(&self, tracer: &mut Tracer) -> Result<()> {
        let waiting = tracer.begin();
        let mut state = self.state();
        while state.left > 0 {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (waker_track, error) = (state.last, state.error.take());
        drop(state);
        tracer.end(waiting, SpanKind::WaitLock, About { parent: self.request, waker_track, ..About::default() });
        error.map_or(Ok(()), Err)
    }
}
