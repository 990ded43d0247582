//! The servers' queues, in which files take turns, and what an engine's threads share.

use super::flow::Work;
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

/// How an engine works.
#[derive(Clone, Debug)]
pub(crate) struct EngineOptions {
    /// What its threads are called, with the server's name.
    pub name: &'static str,
    pub depth: Arc<AtomicU32>,
    /// Connections to each server; may change while the engine works: see [`super::Engine::adjust`].
    pub streams: Arc<AtomicU32>,
    pub socket_buffer_bytes: Option<usize>,
    /// `None`: as the servers' connections are recorded when a thread starts.
    pub mode: Option<TraceHandle>,
    /// Files come and go: see the module's page.
    pub is_shared: bool,
    /// Where the threads' time is counted.
    pub stages: Arc<StageClock>,
}

impl EngineOptions {
    /// How many connections each server is to have now.
    pub(super) fn wanted(&self) -> u32 {
        self.streams.load(Ordering::Relaxed).max(1)
    }
}

/// What an engine's threads know of it.
pub(super) struct Shared {
    pub options: EngineOptions,
    /// The first failure: what is asked for after it fails the same way, at once.
    failed: Mutex<Option<Error>>,
    pub cancelled: AtomicBool,
    /// What a cancel has to interrupt, with the numbers of the workers that use it.
    pub open: Mutex<Vec<(u64, TcpStream)>>,
    pub last_worker: AtomicU64,
}

/// One server's queue.
pub(super) struct Lane {
    pub server: usize,
    pub link: Arc<Link>,
    pub queue: Mutex<Queue>,
    /// There is something to do, or there will be nothing more.
    pub ready: Condvar,
}

/// Tasks by file; files take turns.
#[derive(Default)]
pub(super) struct Queue {
    turns: VecDeque<FileId>,
    by_file: HashMap<FileId, VecDeque<Work>>,
    pub waiting: usize,
    pub closed: bool,
    /// Threads that take work from it; one that is to end is not counted from when it takes no more.
    pub threads: u32,
    /// Threads that were ever started for it.
    pub started: u32,
    pub idle: usize,
    /// Threads that wait for answers, and could take another task before these come.
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
        // It fails where it was written to 2^64 times and never read.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// As if it had not been written to.
    fn reset(&self) {
        // It fails where it was not.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What a thread is to do next.
pub(super) enum Turn {
    Do(Work),
    /// There is nothing to begin now.
    Nothing,
    /// It is one too many, or there will be nothing more: it finishes what it has posted, and ends.
    Leave,
}

impl Turn {
    /// The thread waited for this.
    pub(super) fn record(&self, tracer: &mut Tracer, waiting: OpenSpan) {
        let waker_track = if let Turn::Do(work) = self { work.asked_by } else { None };
        tracer.end(waiting, SpanKind::WaitLock, SpanFields { waker_track, ..SpanFields::default() });
    }
}

impl Queue {
    /// There are more tasks than threads that wait for one: a thread that waits for answers takes one.
    pub(super) fn wake_listener(&mut self) {
        if self.waiting > self.idle
            && let Some(wake) = self.listening.pop()
        {
            wake.wake();
        }
    }

    pub(super) fn push(&mut self, work: Work, to_front: bool) {
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

    fn pop(&mut self) -> Option<Work> {
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

    /// The next task, without waiting, for one of `wanted` threads. Where there is none, `wake` is for the next that comes.
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

    /// Its thread waits no more.
    pub(super) fn listens_no_more(&self, wake: &Arc<Wake>) {
        let mut queue = self.queue.lock();
        match queue.listening.iter().position(|one| Arc::ptr_eq(one, wake)) {
            Some(at) => drop(queue.listening.swap_remove(at)),
            None => wake.reset(),
        }
    }

    /// One thread less takes work. A wake-up that was for work, and met a thread that does not take it, goes on to the next.
    fn leave(&self, queue: &mut Queue) -> Turn {
        queue.threads -= 1;
        if queue.waiting > 0 {
            self.ready.notify_one();
        }
        Turn::Leave
    }

    /// Whether a thread that takes no more work may end: not the last one while work waits. (Then it takes work again.)
    pub(super) fn may_leave(&self) -> bool {
        let mut queue = self.queue.lock();
        let is_needed = queue.threads == 0 && queue.waiting > 0;
        queue.threads += u32::from(is_needed);
        !is_needed
    }

    /// A task once more, before all others.
    pub(super) fn again(&self, work: Work) {
        let mut queue = self.queue.lock();
        queue.push(Work { again: true, ..work }, true);
        // Its thread may be one that takes no more.
        queue.wake_listener();
        drop(queue);
        self.ready.notify_one();
    }

    /// Takes back what a thread that ends could not do, for the others to do; how many they are. As it was, where there is no other.
    pub(super) fn give_back(&self, works: Vec<Work>, takes_work: bool) -> Result<u32, Vec<Work>> {
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

    /// Everything that waits.
    pub(super) fn all(&self) -> Vec<Work> {
        let mut queue = self.queue.lock();
        std::iter::from_fn(|| queue.pop()).collect()
    }

    /// The next task, when there is one. To leave: there will be no more, or there was none for so long that the thread is to end.
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
                // A recording may end while a thread that files share sleeps: what it did by then is to be in it.
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

    /// An error that the connection's end caused because we cancelled it is no error of the server's.
    pub(super) fn explain(&self, error: Error) -> Error {
        if self.cancelled.load(Ordering::SeqCst) { Error::new(ErrorKind::Cancelled, "stopped on request") } else { error }
    }
}
