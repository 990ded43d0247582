//! The walker: its walks, and requests for single files that join them.
//!
//! There is no background thread. A reader that finds no entry does I/O on the connections until there is one; meanwhile the servers work
//! on requests in flight, and while the reader processes entries, answers wait in the sockets. If several threads read, one does the I/O
//! for all, and the others sleep; it leaves as soon as it has its result, and another takes over. So a listing by one thread costs no
//! thread switches in this process.

use super::core::{Core, STALE_NS, Taken, WalkId};
use super::state::State;
use super::wires::{Waker, Wires};
use super::{FileInfo, WalkCounters, WalkEntry, WalkOptions};
use crate::files::DataClient;
use crate::metadata::MetadataClient;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};
use thalweg_trace::{ObjectId, ObjectKind, OpenSpan, SpanFields, SpanId, SpanKind, TraceHandle, Tracer};
use thalweg_wire::protocol::metadata::{FileId, FilePath};
use thalweg_wire::{ErrorKind, Result};

/// Entries that [`Walk::next`] takes together.
const TAKEN_AT_ONCE: usize = 64;

/// Walks directories of one store. Cheap to clone; may be used from any thread.
#[derive(Clone)]
pub struct Walker {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    data: Arc<DataClient>,
    /// Address of the metadata service, for messages.
    address: String,
    options: WalkOptions,
    since: Instant,
    pub(super) state: Mutex<State>,
    /// Signalled when results have arrived, or no thread does the I/O.
    changed: Condvar,
    /// Locked only by the thread that does the I/O.
    wires: Mutex<Wires>,
    /// The error if none could be made: out of descriptors.
    waker: Result<Waker>,
}

/// A walk through one directory. Dropping it discards what it has prefetched.
pub struct Walk {
    shared: Arc<Shared>,
    id: WalkId,
    label: String,
    /// Entries taken and not read.
    here: VecDeque<WalkEntry>,
    taken: Instant,
    /// Last name read.
    last: Vec<u8>,
    object: Option<ObjectId>,
}

impl Walker {
    /// Creates a walker with these clients.
    pub fn new(names: MetadataClient, data: Arc<DataClient>, options: WalkOptions) -> Walker {
        let since = Instant::now();
        let core = Core::new(data.map(), options.clone(), since);
        let address = names.address().to_owned();
        let wires = Wires::new(names, Arc::clone(&data), options.timeout);
        let shared = Shared {
            data,
            address,
            options,
            since,
            state: Mutex::new(State { core, driver: None, waiting: 0 }),
            changed: Condvar::new(),
            wires: Mutex::new(wires),
            waker: Waker::new(),
        };
        Walker { shared: Arc::new(shared) }
    }

    /// Returns the options.
    pub fn options(&self) -> &WalkOptions {
        &self.shared.options
    }

    /// Walks a directory. Nothing is requested before the first [`Walk::next`].
    pub fn directory(&self, place: &FilePath) -> Walk {
        self.directory_after(place, None)
    }

    /// Walks a directory, beginning after a name.
    pub fn directory_after(&self, place: &FilePath, after: Option<&[u8]>) -> Walk {
        let mut state = self.shared.state.lock();
        let (group, depth) = (state.core.new_group(), state.core.read_depth());
        let id = state.core.open(place.clone(), after.map(<[u8]>::to_vec), group, depth);
        drop(state);
        let label = if place.from == FileId::ROOT { String::from_utf8_lossy(&place.path).into_owned() } else { place.from.to_string() };
        self.walk(id, label)
    }

    /// Wraps a walk begun by the core; recordings name its directory `label`.
    pub(super) fn walk(&self, id: WalkId, label: String) -> Walk {
        let shared = Arc::clone(&self.shared);
        Walk { shared, id, label, here: VecDeque::new(), taken: Instant::now(), last: Vec::new(), object: None }
    }

    /// Returns one file or directory; joins a request in flight for it in any walk of this walker.
    ///
    /// # Errors
    /// The service's, or that of an I/O server asked for its size.
    pub fn stat(&self, tracer: &mut Tracer, id: FileId) -> Result<FileInfo> {
        let ticket = self.shared.state.lock().core.stat(id, self.shared.now_ns());
        let outcome = self.shared.drive(tracer, None, |core, _| core.stat_outcome(ticket));
        outcome.unwrap_or_else(|error| {
            self.shared.state.lock().core.stat_dropped(ticket);
            Err(error)
        })
    }

    /// Returns the counters.
    pub fn counters(&self) -> WalkCounters {
        self.shared.state.lock().core.counters()
    }
}

impl Shared {
    pub(super) fn now_ns(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }

    /// Returns the trace handle of the recording that requests are part of.
    fn trace(&self) -> TraceHandle {
        self.data.links().first().map_or_else(TraceHandle::off, |link| link.trace())
    }

    /// Does I/O on the connections, or waits for the thread that does, until `ready` returns a value. `parent`: the enclosing span.
    fn drive<T>(&self, tracer: &mut Tracer, parent: Option<SpanId>, mut ready: impl FnMut(&mut Core, u64) -> Option<T>) -> Result<T> {
        let waker = self.waker.as_ref().map_err(Clone::clone)?;
        let mut state = self.state.lock();
        loop {
            let found = ready(&mut state.core, self.now_ns());
            if state.driver.is_some() {
                if state.core.has_requests() {
                    waker.wake();
                }
                if let Some(found) = found {
                    return Ok(found);
                }
                let waiting = tracer.begin();
                state.waiting += 1;
                self.changed.wait(&mut state);
                state.waiting -= 1;
                let waker_track = state.driver.flatten();
                tracer.end(waiting, SpanKind::WaitLock, SpanFields { parent, waker_track, ..SpanFields::default() });
                continue;
            }
            if found.is_none() || state.core.has_requests() {
                state.driver = Some(tracer.track());
                drop(state);
                let driving = Driving(self);
                let may_wait = found.is_none().then_some(waker);
                self.wires.lock().turn(&self.state, tracer, self.since, may_wait, parent);
                if let Some(found) = found {
                    return Ok(found);
                }
                state = driving.turned();
                continue;
            }
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }
}

/// Role of the thread that does the I/O. When dropped, another thread takes over.
struct Driving<'a>(&'a Shared);

impl<'a> Driving<'a> {
    /// Ends a round of I/O: wakes threads whose results have arrived, and continues unless another thread has taken over.
    fn turned(self) -> MutexGuard<'a, State> {
        let shared = self.0;
        drop(self);
        shared.state.lock()
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.driver = None;
        if state.waiting > 0 {
            self.0.changed.notify_all();
        }
    }
}

impl Walk {
    /// Returns the next entry, in the service's order of names; `None` at the end. An error of the directory ends the walk.
    pub fn next(&mut self, tracer: &mut Tracer) -> Option<Result<WalkEntry>> {
        self.leave_what_is_stale();
        if self.here.is_empty()
            && let Err(error) = self.fill(tracer, TAKEN_AT_ONCE)
        {
            return Some(Err(error));
        }
        let entry = self.here.pop_front()?;
        self.last.clone_from(&entry.name);
        Some(Ok(entry))
    }

    /// Returns the entries available, up to `most`, waiting for at least one; empty at the end.
    ///
    /// # Errors
    /// As [`Walk::next`].
    pub fn next_batch(&mut self, tracer: &mut Tracer, most: usize) -> Result<Vec<WalkEntry>> {
        self.leave_what_is_stale();
        if self.here.is_empty() {
            self.fill(tracer, most.max(1))?;
        }
        let many = most.max(1).min(self.here.len());
        let batch: Vec<WalkEntry> = self.here.drain(..many).collect();
        if let Some(last) = batch.last() {
            self.last.clone_from(&last.name);
        }
        Ok(batch)
    }

    /// Returns the walk's number.
    pub(super) fn id(&self) -> WalkId {
        self.id
    }

    /// Whether the next entry is not taken yet, so that it may have to be waited for.
    pub(super) fn is_empty_here(&self) -> bool {
        self.here.is_empty()
    }

    /// Takes available entries, or waits for one.
    fn fill(&mut self, tracer: &mut Tracer, most: usize) -> Result<()> {
        let asking = tracer.begin();
        let (id, here) = (self.id, &mut self.here);
        let taken = self.shared.drive(tracer, asking.id(), |core, now_ns| match core.take(id, most, here, now_ns) {
            Taken::Wait => None,
            other => Some(other),
        })?;
        self.taken = Instant::now();
        if tracer.is_on() {
            self.asked(tracer, asking);
        }
        match taken {
            // A protocol violation is the service's fault, wherever it was noticed.
            Taken::Failed(error) if error.kind() == ErrorKind::Protocol => Err(error.at_server(&self.shared.address)),
            Taken::Failed(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Records the reader's request and its result. Finding the end is not recorded as a request.
    fn asked(&mut self, tracer: &mut Tracer, asking: OpenSpan) {
        let name = || self.shared.trace().object(ObjectKind::File, &self.label, &[("kind", "directory".to_owned())]);
        let object = self.object.or_else(name);
        let is_first = self.object.is_none();
        self.object = object;
        let count = u32::try_from(self.here.len()).ok().filter(|count| *count > 0);
        let kind = if count.is_some() || is_first { SpanKind::AppRequest } else { SpanKind::AppOther };
        tracer.end(asking, kind, SpanFields { object, count, ..SpanFields::default() });
    }

    /// Discards stale entries when the reader returns after a pause.
    fn leave_what_is_stale(&mut self) {
        if self.here.is_empty() || self.taken.elapsed() < Duration::from_nanos(STALE_NS) || self.last.is_empty() {
            return;
        }
        let unread = self.here.len() as u64;
        self.here.clear();
        self.shared.state.lock().core.go_back(self.id, self.last.clone(), unread);
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.core.unread(self.here.len() as u64);
        state.core.close(self.id);
    }
}
