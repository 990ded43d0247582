//! The threads that move flow buffers: one per connection, up to `streams` connections per server.
//!
//! A server's connections share a queue, its lane, in which files alternate, so that one busy file does not starve the others. A
//! connection's thread takes flow buffers from the queue and keeps up to `depth` of them posted and unanswered; answers come in order. A
//! thread that waits for an answer and could post more is woken when a task is queued.
//!
//! An engine moves bytes in one direction only. With both on one connection, client and server could deadlock, each sending what the other
//! does not receive.
//!
//! A copy has its own engine, whose first failure ends the copy. All windows of a store's client ([`crate::files::buffered`]) share one
//! engine per direction: threads start on demand and end when idle, and a failure ends only its flow. If a server is unreachable,
//! everything that waits for it fails together rather than after one timeout each.
//!
//! **The number of connections** may change while an engine runs. A surplus thread takes no more flow buffers, finishes those posted, and
//! ends: nothing is sent twice or interrupted. A connection added later is *spare*: if it cannot be made, or is lost, the others take over
//! its flow buffers, and no more are tried. (Every request to an I/O server is idempotent, and each byte of a copy has one place.) So
//! additional connections never make a copy fail.

pub(crate) mod flow;
mod lanes;
pub(in crate::files) mod memory;
mod worker;

pub(crate) use lanes::EngineOptions;

use crate::files::link::Link;
use flow::QueuedTask;
use lanes::{Lane, Queue, Shared, Wake};
use std::collections::HashMap;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use thalweg_base::sync::Mutex;
use thalweg_wire::{Error, ErrorKind, Result};
use worker::Worker;

/// The threads for the servers of one file, or of all files.
pub(crate) struct Engine {
    lanes: HashMap<usize, Arc<Lane>>,
    /// A copy's threads; those of a shared engine end on their own.
    threads: Mutex<Vec<JoinHandle<()>>>,
    shared: Arc<Shared>,
}

impl Engine {
    /// Starts an engine for these servers of `links`. Its threads connect when the first task arrives.
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

    /// Adds missing connections and wakes surplus ones. Call periodically if `streams` of the options may have changed.
    pub(crate) fn adjust(&self) {
        let options = &self.shared.options;
        for lane in self.lanes.values() {
            let mut queue = lane.queue.lock();
            let wanted = options.wanted();
            while !options.is_shared && queue.threads < wanted && !queue.closed && !self.shared.cancelled.load(Ordering::SeqCst) {
                let Ok(thread) = self.spawn(lane, &mut queue, true) else {
                    // Out of threads: the copy continues with those it has.
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

    /// Queues a task for a server.
    pub(crate) fn ask(&self, server: usize, work: QueuedTask) {
        let Some(lane) = self.lanes.get(&server) else {
            let error = Error::new(ErrorKind::NotFound, "no queue for this server: a bug");
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

    /// Ends the engine immediately: tasks in progress fail.
    pub(crate) fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::SeqCst);
        self.shared.fail(Error::new(ErrorKind::Cancelled, "stopped on request"));
        for (_, stream) in self.shared.open.lock().iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Finishes the queued tasks and ends the threads. (A shared engine's threads end on their own: the engine's last owner may be one of
    /// them.)
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

/// The connections' threads under a model checker: without connections, taking tasks by hand.
#[cfg(all(test, feature = "shuttle"))]
impl Engine {
    /// Registers `threads` threads without starting any.
    pub(in crate::files) fn by_hand(&self, threads: u32) {
        self.shared.options.streams.store(threads, Ordering::Relaxed);
        self.lanes.values().for_each(|lane| lane.queue.lock().threads = threads);
    }

    /// Waits for this server's next task; `None`: the queue is closed.
    pub(in crate::files) fn next(&self, server: usize) -> Option<QueuedTask> {
        match self.lanes[&server].wait(&mut thalweg_trace::Tracer::off(), &self.shared.options) {
            lanes::Turn::Do(work) => Some(work),
            _ => None,
        }
    }

    /// Closes all queues.
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
