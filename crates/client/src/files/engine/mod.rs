//! The threads that move flow buffers: one for each connection, at most `streams` connections to each server.
//!
//! A server's connections share a queue, its lane, in which files take turns: one that asks for much does not keep the
//! others waiting. A connection's thread takes flow buffers from it and has up to `depth` of them posted and unanswered;
//! answers come in order. A thread that waits for one, and could post more, is woken when there is more.
//!
//! An engine moves bytes one way only. With both ways on one connection, client and server could each be stuck in
//! sending what the other, sending too, does not receive.
//!
//! A copy has an engine of its own, whose first failure ends everything. All windows of a store's client
//! ([`crate::files::buffered`]) share one for each direction: its threads start when there is something to do and end when there is
//! not, and what fails is the flow. Only when a server cannot be reached does everything fail that waits for
//! it, at once, instead of each in its turn.
//!
//! **How many connections** there are may change while an engine works. One that is too many takes no more flow buffers, finishes those it
//! has posted, and ends: nothing is asked for twice, and nothing is interrupted. One that came later is *spare*: where it cannot be
//! made, or is lost, what it had posted is done by the others, and no more are tried. (Every request to an I/O server may be made twice,
//! and each byte of a copy has one place.) So more connections can never be why a copy fails.

pub(crate) mod flow;
mod lanes;
pub(in crate::files) mod memory;
mod worker;

pub(crate) use lanes::EngineOptions;

use crate::files::link::Link;
use flow::Work;
use lanes::{Lane, Queue, Shared, Wake};
use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use thalweg_base::sync::Mutex;
use thalweg_wire::{Error, ErrorKind, Result};
use worker::Worker;

/// Threads for the servers of one file, or of all.
pub(crate) struct Engine {
    lanes: HashMap<usize, Arc<Lane>>,
    /// A copy's; those of a shared engine end by themselves.
    threads: Mutex<Vec<JoinHandle<()>>>,
    shared: Arc<Shared>,
}

impl Engine {
    /// An engine for these servers of `links`. Its threads connect when they have something to do.
    pub(crate) fn start(links: &[Arc<Link>], servers: impl IntoIterator<Item = usize>, options: EngineOptions) -> Result<Engine> {
        let shared = Arc::new(Shared::new(options));
        let mut engine = Engine { lanes: HashMap::new(), threads: Mutex::default(), shared };
        for server in servers {
            let lane = Lane::new(server, Arc::clone(&links[server]));
            engine.lanes.entry(server).or_insert(Arc::new(lane));
        }
        if !engine.shared.options.is_shared {
            for lane in engine.lanes.values() {
                for _ in 0..engine.shared.options.wanted() {
                    let thread = engine.spawn(lane, &mut lane.queue.lock(), false)?;
                    engine.threads.lock().push(thread);
                }
            }
        }
        Ok(engine)
    }

    fn spawn(&self, lane: &Arc<Lane>, queue: &mut Queue, is_spare: bool) -> Result<JoinHandle<()>> {
        let (shared, lane, wake) = (Arc::clone(&self.shared), Arc::clone(lane), Wake::new()?);
        let number = if shared.options.is_shared { queue.threads } else { queue.started };
        let name = format!("connection {}#{number}", lane.link.name());
        let thread = std::thread::Builder::new().name(format!("{} {}#{number}", self.shared.options.name, lane.link.name()));
        let work = move || Worker::new(&shared, &lane, &name, wake, is_spare).run();
        let thread = thread.spawn(work).map_err(|e| Error::system("starting a thread", e))?;
        queue.threads += 1;
        queue.started += 1;
        Ok(thread)
    }

    /// Makes connections that are wanted and missing, and wakes those that are too many. To be called now and then, where `streams` of the
    /// options may have changed.
    pub(crate) fn adjust(&self) {
        let options = &self.shared.options;
        for lane in self.lanes.values() {
            let mut queue = lane.queue.lock();
            let wanted = options.wanted();
            while !options.is_shared && queue.threads < wanted && !queue.closed && !self.shared.cancelled.load(Ordering::SeqCst) {
                let Ok(thread) = self.spawn(lane, &mut queue, true) else {
                    // No more threads on this machine: the copy goes on with what it has.
                    options.stages.lost();
                    options.streams.fetch_min(queue.threads.max(1), Ordering::Relaxed);
                    break;
                };
                let mut threads = self.threads.lock();
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
            }
            if queue.threads > wanted {
                lane.ready.notify_all();
            }
        }
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
        if self.shared.options.is_shared && queue.idle < queue.waiting && queue.threads < self.shared.options.wanted() {
            failed = self.spawn(lane, &mut queue, false).err().filter(|_| queue.threads == 0);
        } else {
            queue.wake_listener();
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
        for (_, stream) in self.shared.open.lock().iter() {
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
        for thread in std::mem::take(&mut *self.threads.lock()) {
            let _ = thread.join();
        }
    }
}

/// What connections' threads do, done by threads of a model checker: they have no connection, and take what they are asked for by hand.
#[cfg(all(test, feature = "shuttle"))]
impl Engine {
    /// So many threads take work, and none is started.
    pub(in crate::files) fn by_hand(&self, threads: u32) {
        self.shared.options.streams.store(threads, Ordering::Relaxed);
        self.lanes.values().for_each(|lane| lane.queue.lock().threads = threads);
    }

    /// The next task for this server, when there is one; `None`: there will be no more.
    pub(in crate::files) fn next(&self, server: usize) -> Option<Work> {
        match self.lanes[&server].wait(&mut thalweg_trace::Tracer::off(), &self.shared.options) {
            lanes::Turn::Do(work) => Some(work),
            _ => None,
        }
    }

    /// There will be no more.
    pub(in crate::files) fn close(&self) {
        for lane in self.lanes.values() {
            lane.queue.lock().closed = true;
            lane.ready.notify_all();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.finish();
    }
}
