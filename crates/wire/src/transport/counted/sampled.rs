//! One connection whose counters are recorded: read by the thread that uses it, and by the sampler.

use super::series::Series;
use crate::transport::socket;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_base::sync::{Mutex, MutexGuard};
use thalweg_trace::{Event, ObjectId, Time, TraceHandle, TrackId};

/// Events kept before they are handed to the sink.
const BATCH: usize = 256;
/// A reading that took longer than this was interrupted: when it was taken is not known.
const INTERRUPTED_NS: u64 = 200_000;

/// One connection, for as long as it is recorded.
pub(super) struct Sampled {
    socket: Arc<TcpStream>,
    trace: TraceHandle,
    /// The thread that used it last.
    track: AtomicU64,
    kept: Mutex<Kept>,
}

struct Kept {
    series: Series,
    events: Vec<Event>,
}

impl Sampled {
    pub(super) fn new(trace: &TraceHandle, object: ObjectId, socket: &Arc<TcpStream>, begun: Option<Time>) -> Sampled {
        let kept = Kept { series: Series::new(object, begun), events: Vec::with_capacity(BATCH) };
        Sampled { socket: Arc::clone(socket), trace: trace.clone(), track: AtomicU64::new(0), kept: Mutex::new(kept) }
    }

    /// From now on this thread uses it.
    pub(super) fn used_by(&self, track: Option<TrackId>) {
        self.track.store(track.map_or(0, TrackId::number), Ordering::Relaxed);
    }

    /// Reads the counters, and keeps what changed; whether anything moves. Who finds another thread at it leaves it to that: the data path never
    /// waits for its recording.
    pub(super) fn sample(&self, grain_ns: u64) -> bool {
        let Some(mut kept) = self.kept.try_lock() else { return true };
        let mut begun = Time::now();
        let Some(mut info) = socket::tcp_info(&self.socket) else { return false };
        let mut at = Time::now();
        if at.since(begun) > INTERRUPTED_NS {
            begun = at;
            info = socket::tcp_info(&self.socket).unwrap_or(info);
            at = Time::now();
        }
        debug_assert!(at >= begun);
        let Kept { series, events } = &mut *kept;
        let by = TrackId::new(self.track.load(Ordering::Relaxed));
        let moves = series.note((at, &info), by, grain_ns, || socket::send_buffer_bytes(&self.socket), events);
        if events.len() >= BATCH {
            self.hand_over(kept);
        }
        moves
    }

    /// Hands on all that is kept.
    pub(super) fn flush(&self) {
        let mut kept = self.kept.lock();
        let Kept { series, events } = &mut *kept;
        series.rest(events);
        self.hand_over(kept);
    }

    fn hand_over(&self, mut kept: MutexGuard<'_, Kept>) {
        let mut events = std::mem::take(&mut kept.events);
        drop(kept);
        self.trace.events(&mut events);
    }
}
