//! The servers' queues, in which files take turns, and what an engine's threads share.

use super::flow::Work;
use crate::client::link::Link;
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::protocol::io::FileId;
use crate::sync::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use thalweg_trace::{SpanFields, SpanKind, TraceHandle, Tracer};

/// How an engine works.
#[derive(Clone, Debug)]
pub(crate) struct EngineOptions {
    /// What its threads are called, with the server's name.
    pub name: &'static str,
    pub depth: Arc<AtomicU32>,
    pub streams: u32,
    pub socket_buffer_bytes: Option<usize>,
    /// `None`: as the servers' connections are recorded when a thread starts.
    pub mode: Option<TraceHandle>,
    /// Files come and go: see the module's page.
    pub is_shared: bool,
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
    pub threads: u32,
    pub idle: usize,
}

impl Queue {
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
            tracer.end(waiting, SpanKind::WaitLock, SpanFields { waker_track, ..SpanFields::default() });
        }
        work
    }
}

impl Shared {
    pub(super) fn new(options: EngineOptions) -> Shared {
        Shared { options, failed: Mutex::new(None), cancelled: AtomicBool::new(false), open: Mutex::default() }
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
