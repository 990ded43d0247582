//! The threads that move flow buffers: one for each connection, at most `streams` connections to each server.
//!
//! A server's connections share a queue, its lane, in which files take turns: one that asks for much does not keep the
//! others waiting. A connection's thread takes flow buffers from it and has up to `depth` of them posted and unanswered;
//! answers come in order.
//!
//! An engine moves bytes one way only. With both ways on one connection, client and server could each be stuck in
//! sending what the other, sending too, does not receive.
//!
//! A copy has an engine of its own, whose first failure ends everything. All windows of a store's client
//! ([`super::ahead`], [`super::behind`]) share one for each direction: its threads start when there is something to do and end
//! when there is not, and what fails is the flow. Only when a server cannot be reached does everything fail that waits for
//! it, at once, instead of each in its turn.

use super::flow::Work;
use super::link::Link;
use super::worker::Worker;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::protocol::io::FileId;
use crate::sync::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use thalweg_trace::{About, Mode, SpanKind, Tracer};

/// How an engine works.
#[derive(Clone, Debug)]
pub(crate) struct EngineOptions {
    /// What its threads are called, with the server's name.
    pub name: &'static str,
    pub depth: Arc<AtomicU32>,
    pub streams: u32,
    pub socket_buffer_bytes: Option<usize>,
    /// `None`: as the servers' connections are recorded when a thread starts.
    pub mode: Option<Mode>,
    /// Files come and go: see the module's page.
    pub is_shared: bool,
}

/// Threads for the servers of one file, or of all.
pub(crate) struct Engine {
    lanes: HashMap<usize, Arc<Lane>>,
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// What an engine's threads know of it.
pub(super) struct Shared {
    pub options: EngineOptions,
    /// The first failure: what is asked for after it fails the same way, at once.
    failed: Mutex<Option<Error>>,
    pub cancelled: AtomicBool,
    /// What a cancel has to interrupt.
    pub open: Mutex<Vec<TcpStream>>,
}

/// One server's queue.
pub(super) struct Lane {
    pub server: usize,
    pub link: Arc<Link>,
    queue: Mutex<Queue>,
    ready: Condvar,
}

/// Tasks by file; files take turns.
#[derive(Default)]
struct Queue {
    turns: VecDeque<FileId>,
    by_file: HashMap<FileId, VecDeque<Work>>,
    waiting: usize,
    closed: bool,
    threads: u32,
    idle: usize,
}

impl Queue {
    fn push(&mut self, work: Work, to_front: bool) {
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
    /// The next task, without waiting.
    pub(super) fn next(&self) -> Option<Work> {
        self.queue.lock().pop()
    }

    /// A task once more, before all others.
    pub(super) fn again(&self, work: Work) {
        self.queue.lock().push(Work { again: true, ..work }, true);
    }

    /// Everything that waits.
    pub(super) fn all(&self) -> Vec<Work> {
        let mut queue = self.queue.lock();
        std::iter::from_fn(|| queue.pop()).collect()
    }

    /// The next task. `None`: there will be no more, or there was none for so long that the thread is to end.
    pub(super) fn wait(&self, tracer: &mut Tracer, is_shared: bool) -> Option<Work> {
        let waiting = tracer.begin();
        let mut queue = self.queue.lock();
        let mut slept = false;
        let work = loop {
            if let Some(work) = queue.pop() {
                break Some(work);
            }
            if queue.closed {
                break None;
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
                break None;
            }
        };
        if work.is_none() {
            queue.threads -= 1;
        }
        drop(queue);
        if slept {
            let waker_track = work.as_ref().and_then(|w| w.asked_by);
            tracer.end(waiting, SpanKind::WaitLock, About { waker_track, ..About::default() });
        }
        work
    }
}

impl Engine {
    /// An engine for these servers of `links`. Its threads connect when they have something to do.
    pub(crate) fn start(links: &[Arc<Link>], servers: impl IntoIterator<Item = usize>, options: EngineOptions) -> Result<Engine> {
        let shared = Arc::new(Shared { options, failed: Mutex::new(None), cancelled: AtomicBool::new(false), open: Mutex::default() });
        let mut engine = Engine { lanes: HashMap::new(), threads: Vec::new(), shared };
        for server in servers {
            let lane = Lane { server, link: Arc::clone(&links[server]), queue: Mutex::default(), ready: Condvar::new() };
            engine.lanes.entry(server).or_insert(Arc::new(lane));
        }
        if !engine.shared.options.is_shared {
            for lane in engine.lanes.values() {
                for _ in 0..engine.shared.options.streams.max(1) {
                    engine.threads.push(engine.spawn(lane, &mut lane.queue.lock())?);
                }
            }
        }
        Ok(engine)
    }

    fn spawn(&self, lane: &Arc<Lane>, queue: &mut Queue) -> Result<JoinHandle<()>> {
        let (shared, lane) = (Arc::clone(&self.shared), Arc::clone(lane));
        let name = format!("connection {}#{}", lane.link.name(), queue.threads);
        let thread = std::thread::Builder::new().name(format!("{} {}#{}", self.shared.options.name, lane.link.name(), queue.threads));
        let thread = thread.spawn(move || Worker::new(&shared, &lane, &name).run()).map_err(|e| Error::system("starting a thread", e))?;
        queue.threads += 1;
        Ok(thread)
    }

    /// Puts a task into a server's queue.
    pub(crate) fn ask(&self, server: usize, work: Work) {
        let Some(lane) = self.lanes.get(&server) else {
            let error = Error::new(ErrorKind::NotFound, "no thread for this server: a bug");
            return work.flow.done(Err(error), None);
        };
        let mut queue = lane.queue.lock();
        queue.push(work, false);
        let mut failed = None;
        if self.shared.options.is_shared && queue.idle < queue.waiting && queue.threads < self.shared.options.streams.max(1) {
            failed = self.spawn(lane, &mut queue).err().filter(|_| queue.threads == 0);
        }
        drop(queue);
        lane.ready.notify_one();
        if let Some(error) = failed {
            for work in lane.all() {
                work.flow.done(Err(error.clone()), None);
            }
        }
    }

    /// Ends everything as soon as possible: what is under way fails.
    pub(crate) fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::SeqCst);
        self.shared.fail(Error::new(ErrorKind::Cancelled, "stopped on request"));
        for stream in self.shared.open.lock().iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Finishes what was asked for, and ends the threads. (A shared engine's end by themselves: the last to let go of it may
    /// be one of them.)
    pub(crate) fn finish(&mut self) {
        for lane in self.lanes.values() {
            lane.queue.lock().closed = true;
            lane.ready.notify_all();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Shared {
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
