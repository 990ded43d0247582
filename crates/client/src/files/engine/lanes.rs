//! The servers' queues, in which files alternate, and the state shared by an engine's threads.

use super::flow::QueuedTask;
use crate::files::link::Link;
use crate::stages::{Stage, StageClock};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{HashMap, VecDeque};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_trace::{OpenSpan, SpanFields, SpanKind, TraceHandle, Tracer};
use thalweg_wire::limits;
use thalweg_wire::protocol::io::FileId;
use thalweg_wire::{Error, ErrorKind};

/// Options of an engine.
#[derive(Clone, Debug)]
pub(crate) struct EngineOptions {
    /// Prefix of the threads' names, before the server's name.
    pub name: &'static str,
    pub depth: Arc<AtomicU32>,
    /// Connections per server; may change while the engine runs: see [`super::Engine::adjust`].
    pub streams: Arc<AtomicU32>,
    pub socket_buffer_bytes: Option<usize>,
    /// Trace handle; `None`: that of the server's link when a thread starts.
    pub trace: Option<TraceHandle>,
    /// Whether many files share the engine: see the module documentation.
    pub is_shared: bool,
    /// Accumulates the threads' time.
    pub stages: Arc<StageClock>,
}

impl EngineOptions {
    /// Returns the number of connections per server now requested.
    pub(super) fn wanted(&self) -> u32 {
        self.streams.load(Ordering::Relaxed).max(1)
    }
}

/// State shared by an engine's threads.
pub(super) struct Shared {
    pub options: EngineOptions,
    /// First failure; later requests fail with it immediately.
    failed: Mutex<Option<Error>>,
    pub cancelled: AtomicBool,
    /// Sockets that a cancel must shut down, with the numbers of their workers.
    pub open: Mutex<Vec<(u64, TcpStream)>>,
    pub last_worker: AtomicU64,
}

/// The queue of one server.
pub(super) struct Lane {
    pub server: usize,
    pub link: Arc<Link>,
    pub queue: Mutex<Queue>,
    /// Signalled when a task is queued, or the queue is closed.
    pub ready: Condvar,
}

/// Tasks grouped by file; files alternate.
#[derive(Default)]
pub(super) struct Queue {
    turns: VecDeque<FileId>,
    by_file: HashMap<FileId, VecDeque<QueuedTask>>,
    pub waiting: usize,
    pub closed: bool,
    /// Threads that take tasks; a thread that is to end is not counted once it takes no more.
    pub threads: u32,
    /// Threads ever started for the queue.
    pub started: u32,
    pub idle: usize,
    /// Threads that wait for answers, and could take another task meanwhile.
    listening: Vec<Arc<Wake>>,
}

/// Wakes a thread that waits for its socket.
#[derive(Debug)]
pub(super) struct Wake(OwnedFd);

impl Wake {
    pub(super) fn new() -> Result<Wake, Error> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        made.map(Wake).map_err(|e| Error::system("an eventfd", e))
    }

    fn wake(&self) {
        // Only fails at 2^64 unread writes.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Clears a pending wake-up.
    fn reset(&self) {
        // Fails if there is none.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What a thread must do next.
pub(super) enum Turn {
    Do(QueuedTask),
    /// Nothing to begin now.
    Nothing,
    /// The thread is surplus, or the queue is closed: it finishes what it has posted, and ends.
    Leave,
}

impl Turn {
    /// Records the thread's wait for this task.
    pub(super) fn record(&self, tracer: &mut Tracer, waiting: OpenSpan) {
        let waker_track = if let Turn::Do(work) = self { work.asked_by } else { None };
        tracer.end(waiting, SpanKind::WaitLock, SpanFields { waker_track, ..SpanFields::default() });
    }
}

impl Queue {
    /// Wakes a thread that waits for answers, if there are more tasks than threads waiting for one.
    pub(super) fn wake_listener(&mut self) {
        if self.waiting > self.idle
            && let Some(wake) = self.listening.pop()
        {
            wake.wake();
        }
    }

    pub(super) fn push(&mut self, work: QueuedTask, to_front: bool) {
        let file = work.flow.file.id();
        let of_file = self.by_file.entry(file).or_default();
        match (of_file.is_empty(), to_front) {
            (true, true) => self.turns.push_front(file),
            (true, false) => self.turns.push_back(file),
            (false, _) => {}
        }
        if to_front {
            of_file.push_front(work)
        } else {
            of_file.push_back(work)
        }
        self.waiting += 1;
    }

    fn pop(&mut self) -> Option<QueuedTask> {
        let file = self.turns.pop_front()?;
        let of_file = self.by_file.get_mut(&file)?;
        let work = of_file.pop_front();
        if of_file.is_empty() {
            self.by_file.remove(&file);
        } else {
            self.turns.push_back(file);
        }
        self.waiting -= 1;
        work
    }
}

impl Lane {
    pub(super) fn new(server: usize, link: Arc<Link>) -> Lane {
        Lane { server, link, queue: Mutex::default(), ready: Condvar::new() }
    }

    /// Returns the next task for one of `wanted` threads without waiting. If there is none, the next task will fire `wake`.
    pub(super) fn next(&self, wanted: u32, wake: &Arc<Wake>) -> Turn {
        let mut queue = self.queue.lock();
        if queue.threads > wanted {
            return self.leave(&mut queue);
        }
        if let Some(work) = queue.pop() {
            return Turn::Do(work);
        }
        queue.listening.push(Arc::clone(wake));
        Turn::Nothing
    }

    /// Unregisters a thread that no longer waits for answers.
    pub(super) fn listens_no_more(&self, wake: &Arc<Wake>) {
        let mut queue = self.queue.lock();
        match queue.listening.iter().position(|one| Arc::ptr_eq(one, wake)) {
            Some(at) => drop(queue.listening.swap_remove(at)),
            None => wake.reset(),
        }
    }

    /// Counts a thread as leaving, and passes on a wake-up it may have received for a task.
    fn leave(&self, queue: &mut Queue) -> Turn {
        queue.threads -= 1;
        if queue.waiting > 0 {
            self.ready.notify_one();
        }
        Turn::Leave
    }

    /// Whether a thread that takes no more tasks may end: not the last one while tasks wait (it then takes tasks again).
    pub(super) fn may_leave(&self) -> bool {
        let mut queue = self.queue.lock();
        let is_needed = queue.threads == 0 && queue.waiting > 0;
        queue.threads += u32::from(is_needed);
        !is_needed
    }

    /// Queues a task again, before all others.
    pub(super) fn again(&self, work: QueuedTask) {
        let mut queue = self.queue.lock();
        queue.push(QueuedTask { again: true, ..work }, true);
        // The thread that did it may take no more tasks.
        queue.wake_listener();
        drop(queue);
        self.ready.notify_one();
    }

    /// Takes back the tasks of a thread that ends, and returns the number of other threads. `Err` with the tasks if there are none.
    pub(super) fn give_back(&self, works: Vec<QueuedTask>, takes_work: bool) -> Result<u32, Vec<QueuedTask>> {
        let mut queue = self.queue.lock();
        let others = queue.threads - u32::from(takes_work);
        if others == 0 || queue.closed {
            return Err(works);
        }
        queue.threads = others;
        works.into_iter().rev().for_each(|work| queue.push(work, true));
        (0..queue.waiting).for_each(|_| queue.wake_listener());
        drop(queue);
        self.ready.notify_all();
        Ok(others)
    }

    /// Takes all queued tasks.
    pub(super) fn all(&self) -> Vec<QueuedTask> {
        let mut queue = self.queue.lock();
        std::iter::from_fn(|| queue.pop()).collect()
    }

    /// Waits for the next task. [`Turn::Leave`] if the queue is closed, or was empty until the idle timeout.
    pub(super) fn wait(&self, tracer: &mut Tracer, options: &EngineOptions) -> Turn {
        let is_shared = options.is_shared;
        let (waiting, begun) = (tracer.begin(), Instant::now());
        let mut queue = self.queue.lock();
        let mut slept = false;
        let turn = loop {
            if queue.threads > options.wanted() {
                break self.leave(&mut queue);
            }
            if let Some(work) = queue.pop() {
                break Turn::Do(work);
            }
            if queue.closed {
                break self.leave(&mut queue);
            }
            if !slept && is_shared {
                // Flush before sleeping: a recording may end while a shared engine's thread sleeps.
                drop(queue);
                tracer.flush();
                queue = self.queue.lock();
                slept = true;
                continue;
            }
            slept = true;
            queue.idle += 1;
            let mut timed_out = false;
            match is_shared {
                true => timed_out = self.ready.wait_for(&mut queue, limits::IDLE_THREAD).timed_out(),
                false => self.ready.wait(&mut queue),
            }
            queue.idle -= 1;
            if timed_out && queue.waiting == 0 {
                break self.leave(&mut queue);
            }
        };
        drop(queue);
        if slept {
            turn.record(tracer, waiting);
        }
        options.stages.add(Stage::Idle, begun);
        turn
    }
}

impl Shared {
    pub(super) fn new(options: EngineOptions) -> Shared {
        let (failed, cancelled) = (Mutex::new(None), AtomicBool::new(false));
        Shared { options, failed, cancelled, open: Mutex::default(), last_worker: AtomicU64::new(0) }
    }

    pub(super) fn fail(&self, error: Error) {
        if !self.options.is_shared {
            self.failed.lock().get_or_insert(error);
        }
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.failed.lock().clone()
    }

    /// Replaces an error caused by our own cancellation.
    pub(super) fn explain(&self, error: Error) -> Error {
        if self.cancelled.load(Ordering::SeqCst) { Error::new(ErrorKind::Cancelled, "stopped on request") } else { error }
    }
}
