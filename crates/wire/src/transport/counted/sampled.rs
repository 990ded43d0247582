//! One connection whose counters are recorded: read by the thread that uses it, and by the sampler.

use super::series::Series;
use crate::transport::socket;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_base::sync::{Mutex, MutexGuard};
use thalweg_trace::{Event, ObjectId, Time, TraceHandle, TrackId};

/// Events buffered before they go to the sink.
const BATCH: usize = 256;
/// A reading that took longer than this was interrupted, and its time is unknown.
const INTERRUPTED_NS: u64 = 200_000;

/// A connection while it is recorded.
pub(super) struct Sampled {
    socket: Arc<TcpStream>,
    trace: TraceHandle,
    /// The track of the thread that used it last.
    track: AtomicU64,
    buffer: Mutex<SeriesBuffer>,
}

struct SeriesBuffer {
    series: Series,
    events: Vec<Event>,
}

impl Sampled {
    pub(super) fn new(trace: &TraceHandle, object: ObjectId, socket: &Arc<TcpStream>, begun: Option<Time>) -> Sampled {
        let buffer = SeriesBuffer { series: Series::new(object, begun), events: Vec::with_capacity(BATCH) };
        Sampled { socket: Arc::clone(socket), trace: trace.clone(), track: AtomicU64::new(0), buffer: Mutex::new(buffer) }
    }

    /// Notes the thread that uses the connection.
    pub(super) fn used_by(&self, track: Option<TrackId>) {
        self.track.store(track.map_or(0, TrackId::number), Ordering::Relaxed);
    }

    /// Reads the counters and buffers changes; returns whether anything moves. If another thread is reading, returns immediately:
    /// the data path never waits for its recording.
    pub(super) fn sample(&self, grain_ns: u64) -> bool {
        let Some(mut buffer) = self.buffer.try_lock() else { return true };
        let mut begun = Time::now();
        let Some(mut info) = socket::tcp_info(&self.socket) else { return false };
        let mut at = Time::now();
        if at.since(begun) > INTERRUPTED_NS {
            begun = at;
            info = socket::tcp_info(&self.socket).unwrap_or(info);
            at = Time::now();
        }
        debug_assert!(at >= begun);
        let SeriesBuffer { series, events } = &mut *buffer;
        let by = TrackId::new(self.track.load(Ordering::Relaxed));
        let moves = series.note((at, &info), by, grain_ns, || socket::send_buffer_bytes(&self.socket), events);
        if events.len() >= BATCH {
            self.hand_over(buffer);
        }
        moves
    }

    /// Passes all buffered events to the sink.
    pub(super) fn flush(&self) {
        let mut buffer = self.buffer.lock();
        let SeriesBuffer { series, events } = &mut *buffer;
        series.rest(events);
        self.hand_over(buffer);
    }

    fn hand_over(&self, mut buffer: MutexGuard<'_, SeriesBuffer>) {
        let mut events = std::mem::take(&mut buffer.events);
        drop(buffer);
        self.trace.events(&mut events);
    }
}
