//! The thread that samples the counters of all recorded connections of this process, and the connections' own readings.
//!
//! Samples every millisecond while anything moves, and progressively less often while nothing does; a thread that starts sending
//! or receiving wakes the sampler. The interval doubles after every [`ROUNDS`] samples, so that the stored data grows with the
//! logarithm of the recording's length, while pauses stay as sharp as the connections' own readings make them. The thread ends
//! with the last connection.

use super::sampled::Sampled;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_trace::{ObjectId, Time, TraceHandle, Tracer};

/// Sampling interval while bytes move.
const GRAIN_NS: u64 = 1_000_000;
/// Active rounds after which the interval doubles: 16 s, 33 s, 66 s...
const ROUNDS: u64 = 1 << 14;
/// The longest interval, and the longest sleep.
const COARSEST_NS: u64 = 64_000_000;

/// The process's sampler.
struct Sampler {
    inner: Mutex<Inner>,
    wake: Condvar,
    /// The current interval.
    grain_ns: AtomicU64,
    /// Whether it sleeps for longer than the interval.
    dozes: AtomicBool,
}

struct Inner {
    connections: Vec<Arc<Sampled>>,
    /// Whether the thread is running.
    runs: bool,
}

static SAMPLER: Sampler = Sampler {
    inner: Mutex::new(Inner { connections: Vec::new(), runs: false }),
    wake: Condvar::new(),
    grain_ns: AtomicU64::new(GRAIN_NS),
    dozes: AtomicBool::new(false),
};

/// Flushes all connections: recordings are complete up to now.
pub fn flush() {
    let connections = SAMPLER.inner.lock().connections.clone();
    connections.iter().for_each(|connection| connection.flush());
}

/// A connection whose counters are recorded while this exists.
pub(in crate::transport) struct Counted(Arc<Sampled>);

impl Counted {
    /// Starts recording the counters of the connection with this object. `begun`: when connecting began, if all of it is
    /// recorded; `None`: there is no object.
    pub(in crate::transport) fn new(
        trace: &TraceHandle,
        object: Option<ObjectId>,
        socket: &Arc<TcpStream>,
        begun: Option<Time>,
    ) -> Option<Counted> {
        let counted = Counted(Arc::new(Sampled::new(trace, object?, socket, begun)));
        let mut inner = SAMPLER.inner.lock();
        inner.connections.push(Arc::clone(&counted.0));
        if !inner.runs {
            SAMPLER.grain_ns.store(GRAIN_NS, Ordering::Relaxed);
            // Without the thread, the connections' own readings remain.
            inner.runs = std::thread::Builder::new().name("tcp-counters".to_owned()).spawn(run).is_ok();
        }
        drop(inner);
        counted.read();
        Some(counted)
    }

    /// Reads the counters before a thread hands bytes to the socket.
    pub(in crate::transport) fn sending(&self, tracer: &Tracer) {
        self.0.used_by(tracer.track());
        self.read();
    }

    /// Reads the counters after awaited bytes arrived.
    pub(in crate::transport) fn arrived(&self) {
        self.read();
    }

    fn read(&self) {
        self.0.sample(SAMPLER.grain_ns.load(Ordering::Relaxed));
        if SAMPLER.dozes.load(Ordering::Relaxed) {
            // Under the lock, so that a thread about to sleep sees the change.
            let _inner = SAMPLER.inner.lock();
            SAMPLER.dozes.store(false, Ordering::Relaxed);
            SAMPLER.wake.notify_one();
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.read();
        self.0.flush();
        let mut inner = SAMPLER.inner.lock();
        inner.connections.retain(|other| !Arc::ptr_eq(other, &self.0));
        if inner.connections.is_empty() {
            SAMPLER.wake.notify_one();
        }
    }
}

fn run() {
    let (mut rounds, mut quiet) = (0_u64, 0_u32);
    let mut inner = SAMPLER.inner.lock();
    while !inner.connections.is_empty() {
        let grain_ns = (GRAIN_NS << (rounds / ROUNDS).min(63)).min(COARSEST_NS);
        SAMPLER.grain_ns.store(grain_ns, Ordering::Relaxed);
        // `count` rather than `any`: every connection must be sampled.
        let moves = inner.connections.iter().filter(|connection| connection.sample(grain_ns)).count() > 0;
        rounds += u64::from(moves);
        quiet = if moves { 0 } else { (quiet + 1).min(16) };
        let sleep_ns = (grain_ns << quiet.saturating_sub(2)).min(COARSEST_NS);
        SAMPLER.dozes.store(sleep_ns > grain_ns, Ordering::Relaxed);
        if !SAMPLER.wake.wait_for(&mut inner, Duration::from_nanos(sleep_ns)).timed_out() {
            quiet = 0;
        }
        SAMPLER.dozes.store(false, Ordering::Relaxed);
    }
    inner.runs = false;
}
