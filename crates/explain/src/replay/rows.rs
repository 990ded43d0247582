//! The graph's input, read from the recording: waits, bytes through connections, and devices' busy times. Spans that only describe a
//! running thread are left out: a thread runs wherever nothing else is recorded.

use crate::limits::replay as limits;
use crate::observe::index::{DenseIndex, NONE};
use std::collections::HashMap;
use thalweg_trace::{ABSENT, ABSENT_RESULT, Source, SpanBatch, SpanKind, TrackKind, WakerContext};

/// The result of a receive that found nothing.
const EAGAIN: i64 = -11;

/// A relevant span.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct Row {
    pub start: i64,
    /// Until when its thread did not run: its end, or the end less its running time.
    pub off_until: i64,
    pub end: i64,
    pub id: u64,
    pub runqueue_ns: u64,
    /// Offset in the stream at its start, or [`ABSENT`].
    pub offset: u64,
    pub bytes: u64,
    /// Dense number of the track; also of the waker (a thread or a device), or [`NONE`].
    pub track: u32,
    pub waker: u32,
    /// Dense number of the object, or [`NONE`].
    pub object: u32,
    pub kind: SpanKind,
    pub by_timer: bool,
    /// The awaited rank, if it is one rank's wait for another.
    pub rank: Option<u32>,
    /// A fruitless receive.
    pub fruitless: bool,
}

impl Row {
    /// Whether the thread was off the processor for a part of the row.
    pub(crate) fn waits(&self) -> bool {
        self.off_until > self.start
    }

    /// Whether the row moved bytes of a connection.
    pub(crate) fn moves(&self) -> bool {
        matches!(self.kind, SpanKind::NetSend | SpanKind::NetReceive) && self.bytes > 0
    }
}

/// One request of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Time it was issued.
    pub start: i64,
    /// Time it completed.
    pub end: i64,
    /// The device's track.
    pub track: u32,
    /// Whether the request reads.
    pub reads: bool,
}

/// Requests of copies and their messages, by instants, as recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedRequests {
    pub asked: foldhash::HashMap<u64, (u32, i64, i64)>,
    /// Track, start, end, parent span, and request number.
    pub calls: Vec<(u32, i64, i64, u64, u64)>,
    /// By track and request: when the last of it had been handed over.
    pub sent: foldhash::HashMap<(u32, u64), i64>,
}

impl RecordedRequests {
    /// Adds a span, if it is one of these.
    pub(crate) fn note(&mut self, batch: &SpanBatch, row: usize, track: u32) {
        let (start, end, request) = (batch.start_ns[row], batch.end_ns[row], batch.request[row]);
        match batch.kind[row] {
            SpanKind::AppRequest => {
                self.asked.insert(batch.span[row], (track, start, end));
            }
            SpanKind::RpcCall if batch.parent[row] != 0 => self.calls.push((track, start, end, batch.parent[row], request)),
            SpanKind::NetSend if request != 0 => {
                let latest = self.sent.entry((track, request)).or_insert(end);
                *latest = end.max(*latest);
            }
            _ => {}
        }
    }
}

/// The rows read.
#[derive(Debug)]
pub(crate) struct Rows {
    /// The rows, by descending end.
    pub rows: Vec<Row>,
    /// Devices' requests, by descending end.
    pub requests: Vec<Request>,
    /// Whether any thread listed names.
    pub lists: bool,
    /// Requests of copies, and their messages.
    pub copies: RecordedRequests,
    /// Spans that have parts.
    pub parents: foldhash::HashSet<u64>,
    /// Start of the complete part; the interval's start, unless there was too much.
    pub from: i64,
}

impl Rows {
    /// Replaces queueing for the processor of a thread that it takes turns with by a wait for that thread, at the given object.
    pub(crate) fn hand_over(&mut self, hand_overs: &HashMap<(u32, u32), u32>) {
        for row in self.rows.iter_mut().filter(|row| row.kind == SpanKind::WaitRunqueue) {
            if let Some(&object) = hand_overs.get(&(row.track, row.waker)) {
                *row = Row { kind: SpanKind::WaitLock, object, runqueue_ns: 0, ..*row };
            }
        }
    }
}

/// Gathers the graph's input for an interval, from its end.
#[derive(Debug)]
pub(crate) struct Reading {
    rows: Rows,
    tracks: DenseIndex,
    objects: DenseIndex,
    /// By track: whether it is a device's.
    device: Vec<bool>,
    start: i64,
    end: i64,
    most: usize,
}

impl Reading {
    /// Starts for an interval, with at most this many rows.
    pub(crate) fn new(source: &dyn Source, (start, end): (i64, i64), most: usize) -> Reading {
        Reading {
            tracks: DenseIndex::new(source.tracks().iter().map(|t| t.track.number())),
            objects: DenseIndex::new(source.objects().iter().map(|o| o.object.number())),
            device: source.tracks().iter().map(|t| t.kind == TrackKind::Device).collect(),
            rows: Rows {
                rows: Vec::new(),
                requests: Vec::new(),
                lists: false,
                copies: RecordedRequests::default(),
                parents: Default::default(),
                from: start,
            },
            start,
            end,
            most,
        }
    }

    /// Whether the limit is reached and no more are gathered.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.rows.len() >= self.most
    }

    /// Adds spans.
    pub(crate) fn note(&mut self, batch: &SpanBatch) {
        for row in 0..batch.len() {
            if self.is_full() {
                return;
            }
            let track = self.tracks.get(batch.track[row]);
            if track == NONE || batch.start_ns[row] >= self.end {
                continue;
            }
            self.note_row(batch, row, track);
        }
    }

    fn note_row(&mut self, batch: &SpanBatch, row: usize, track: u32) {
        let read = &mut self.rows;
        if self.device[track as usize] {
            let reads = batch.kind[row] == SpanKind::DiskRead;
            if read.requests.len() < self.most {
                read.requests.push(Request { start: batch.start_ns[row], end: batch.end_ns[row], track, reads });
            }
            return;
        }
        read.copies.note(batch, row, track);
        read.lists |= batch.kind[row] == SpanKind::FileList;
        let Some(kept) = row_of(batch, row, track, &mut self.tracks, &mut self.objects) else { return };
        if batch.parent[row] != 0 && kept.waits() {
            read.parents.insert(batch.parent[row]);
        }
        read.rows.push(kept);
        if read.rows.len() >= self.most {
            read.from = kept.end.max(self.start);
        }
    }

    /// The gathered rows.
    pub(crate) fn rows(self) -> Rows {
        self.rows
    }
}

fn row_of(batch: &SpanBatch, row: usize, track: u32, tracks: &mut DenseIndex, objects: &mut DenseIndex) -> Option<Row> {
    use SpanKind as K;
    let kind = batch.kind[row];
    let observed =
        matches!(kind, K::AppRequest | K::RpcServe | K::RpcCall | K::RpcQueue | K::DiskRead | K::DiskWrite | K::DiskFlush | K::CpuRun);
    if observed || crate::observe::span::is_mpi(kind) {
        return None;
    }
    let (start, end) = (batch.start_ns[row].min(batch.end_ns[row]), batch.end_ns[row]);
    let fruitless = batch.result[row] == EAGAIN;
    let size = if batch.size_bytes[row] == ABSENT { 0 } else { batch.size_bytes[row] };
    let bytes = if batch.result[row] < 0 && batch.result[row] != ABSENT_RESULT { 0 } else { size };
    let cpu_ns = match batch.cpu_ns[row] {
        // A run of calls that never blocked ran; a single call without details waited.
        ABSENT if batch.count[row] > 1 || matches!(kind, K::AppOther | K::AppChecksum) => end - start,
        ABSENT => 0,
        known => (known as i64).min(end - start),
    };
    let grain_ns = if kind.name().starts_with("wait.") { 0 } else { limits::GRAIN_NS };
    let mut off_until = end - cpu_ns;
    if off_until - start <= grain_ns {
        off_until = start;
    }
    let row = Row {
        start,
        off_until,
        end,
        id: batch.span[row],
        runqueue_ns: if batch.runqueue_ns[row] == ABSENT { 0 } else { batch.runqueue_ns[row] },
        offset: batch.offset_bytes[row],
        bytes,
        track,
        waker: tracks.get(batch.waker_track[row]),
        object: objects.get(batch.object[row]),
        kind,
        by_timer: batch.waker_context[row] == WakerContext::Timer as u8,
        rank: None,
        fruitless: fruitless && kind == K::NetReceive && end - start >= limits::SPIN_NS,
    };
    (row.waits() || row.moves() || row.fruitless && end > start).then_some(row)
}
