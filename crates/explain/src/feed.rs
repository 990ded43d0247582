//! Spans as the walk needs them: backward in time, held only while the walk may still want them.
//!
//! A span that covers an instant ends at or after it. The recording gives spans by descending end, so
//! once it has been read past an instant, everything that covers the instant has been seen; and because
//! the walk only goes backward, a span that began at or after its cursor can be let go. What is held is
//! therefore what overlaps the cursor, and the part of the last batch that ends before it.

use crate::ExplainError;
use crate::cast::Cast;
use crate::channels::PAYLOAD_BYTES;
use crate::index::NONE;
use std::collections::VecDeque;
use thalweg_trace::source::ABSENT;
use thalweg_trace::{Source, SourceError, SpanBatch, SpanKind};

/// A span with dense identifiers. Absent identifiers are [`NONE`] or 0; absent numbers [`ABSENT`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct LiveSpan {
    pub start: i64,
    pub end: i64,
    pub id: u64,
    pub parent: u64,
    pub request: u64,
    pub cpu_ns: u64,
    pub runqueue_ns: u64,
    pub offset_bytes: u64,
    pub size_bytes: u64,
    pub track: u32,
    pub object: u32,
    pub connection: u32,
    pub waker: u32,
    pub count: u32,
    pub kind: SpanKind,
}

impl LiveSpan {
    /// Its length, ≥ 0.
    pub fn duration_ns(&self) -> u64 {
        u64::try_from(self.end.saturating_sub(self.start)).unwrap_or(0)
    }

    /// Whether the thread itself was in it. Spans that were only observed (an RPC under way beside other
    /// work, a request held in a queue) say nothing of what the thread did.
    pub fn is_activity(&self) -> bool {
        match self.kind {
            SpanKind::RpcCall => self.cpu_ns != ABSENT,
            SpanKind::RpcQueue => false,
            _ => true,
        }
    }

    /// Whether it is made of other spans: its own time is what they leave over.
    pub fn is_container(&self) -> bool {
        matches!(self.kind, SpanKind::AppRequest | SpanKind::RpcServe | SpanKind::RpcCall)
    }

    /// How much of it the thread ran, was runnable, and was blocked; `None` where that is not known.
    pub fn division(&self) -> Option<(u64, u64, u64)> {
        if self.cpu_ns == ABSENT {
            return None;
        }
        let all = self.duration_ns();
        let cpu = self.cpu_ns.min(all);
        let runqueue = if self.runqueue_ns == ABSENT { 0 } else { self.runqueue_ns.min(all - cpu) };
        Some((cpu, runqueue, all - cpu - runqueue))
    }

    /// Whether it carries payload, and how many bytes.
    pub fn bytes(&self) -> u64 {
        if self.size_bytes == ABSENT { 0 } else { self.size_bytes }
    }
}

/// The spans of one track that the walk may still want.
#[derive(Debug, Default)]
pub struct Lane {
    /// Covering the cursor, in no particular order.
    pub open: Vec<LiveSpan>,
    /// Not yet reached by the cursor, by descending end.
    pub ahead: VecDeque<LiveSpan>,
}

impl Lane {
    /// Brings the lane to an instant: afterwards `open` is what covers it, `ahead` what ended before.
    pub fn settle(&mut self, at: i64) {
        while let Some(front) = self.ahead.front() {
            if front.end < at {
                break;
            }
            let span = self.ahead.pop_front().expect("there is a front");
            if span.start < at {
                self.open.push(span);
            }
        }
        self.open.retain(|s| s.start < at);
    }

    /// What the thread was in at the instant the lane is settled to: the innermost span, the one that began last.
    pub fn innermost(&self) -> Option<&LiveSpan> {
        self.open.iter().filter(|s| s.is_activity()).max_by_key(|s| (s.start, s.id))
    }

    /// The latest thing the thread did that ended before the instant the lane is settled to.
    pub fn previous(&self) -> Option<&LiveSpan> {
        self.ahead.iter().find(|s| s.is_activity())
    }

    /// A reply with payload says that its RPC moves data, where the RPC's own span gives no size: it ended
    /// just after the reply, so it is among the last that came.
    fn note_payload(&mut self, reply: &LiveSpan) {
        if reply.request == 0 || reply.bytes() < PAYLOAD_BYTES {
            return;
        }
        let serving = |s: &&mut LiveSpan| s.kind == SpanKind::RpcServe && s.request == reply.request;
        let serve = self.ahead.iter_mut().rev().take(8).find(serving);
        if let Some(serve) = serve.or_else(|| self.open.iter_mut().find(serving))
            && serve.bytes() == 0
        {
            serve.size_bytes = reply.size_bytes;
        }
    }

    /// The latest span ahead of the cursor that is wanted, and that ended after `since` or not long before.
    pub fn latest_since(&self, since: i64, wanted: impl Fn(&&LiveSpan) -> bool) -> Option<&LiveSpan> {
        const NOT_LONG_SPANS: usize = 32;
        let after = self.ahead.partition_point(|s| s.end >= since);
        self.ahead.iter().take(after + NOT_LONG_SPANS).find(wanted)
    }
}

/// Who is told of every span once, as it is read.
pub trait Observer {
    /// A span, in order of descending end.
    fn span(&mut self, cast: &Cast, span: &LiveSpan);
}

/// How many spans may be held while looking for something that may not come.
pub const LOOK_AHEAD_SPANS: usize = 1 << 20;

/// The spans of a recording, backward.
pub struct Feed<'a> {
    batches: Box<dyn Iterator<Item = Result<SpanBatch, SourceError>> + 'a>,
    /// One per actor.
    pub lanes: Vec<Lane>,
    /// Every span that ends after this has been read; `i64::MIN` when all have.
    pub position: i64,
    held: usize,
    /// Which tracks took part in a connection, last seen first: `[connection][end]`.
    pub parties: Vec<[Vec<u32>; 2]>,
    /// Spans read so far.
    pub spans: u64,
}

impl<'a> Feed<'a> {
    /// At the end of the recording.
    pub fn new(source: &'a dyn Source, cast: &Cast) -> Feed<'a> {
        Feed {
            batches: source.spans_backward(),
            lanes: cast.actors.iter().map(|_| Lane::default()).collect(),
            position: i64::MAX,
            held: 0,
            parties: cast.connections.iter().map(|_| [Vec::new(), Vec::new()]).collect(),
            spans: 0,
        }
    }

    /// Whether all has been read.
    pub fn exhausted(&self) -> bool {
        self.position == i64::MIN
    }

    /// Whether so much is held that looking ahead must stop.
    pub fn full(&self) -> bool {
        self.held >= LOOK_AHEAD_SPANS
    }

    /// Reads one more batch, for a walk that stands at `cursor`.
    pub fn read(&mut self, cast: &mut Cast, cursor: i64, observer: &mut dyn Observer) -> Result<(), ExplainError> {
        let Some(batch) = self.batches.next().transpose()? else {
            self.position = i64::MIN;
            return Ok(());
        };
        let Some(&last_end) = batch.end_ns.last() else { return Ok(()) };
        self.position = last_end;
        self.spans += batch.len() as u64;
        self.prune(cursor);
        for row in 0..batch.len() {
            let Some(span) = live(cast, &batch, row) else { continue };
            observer.span(cast, &span);
            if span.start < cursor && cast.actors[span.track as usize].thread {
                self.note_party(cast, &span);
                let lane = &mut self.lanes[span.track as usize];
                if span.kind == SpanKind::NetSend {
                    lane.note_payload(&span);
                }
                lane.ahead.push_back(span);
                self.held += 1;
            }
        }
        Ok(())
    }

    /// Reads until everything that covers `instant` is held.
    pub fn ensure(&mut self, cast: &mut Cast, instant: i64, cursor: i64, observer: &mut dyn Observer) -> Result<(), ExplainError> {
        while self.position >= instant && !self.exhausted() {
            self.read(cast, cursor, observer)?;
        }
        Ok(())
    }

    fn prune(&mut self, cursor: i64) {
        for lane in &mut self.lanes {
            lane.settle(cursor);
        }
        self.held = self.lanes.iter().map(|l| l.open.len() + l.ahead.len()).sum();
    }

    #[inline]
    fn note_party(&mut self, cast: &Cast, span: &LiveSpan) {
        if span.connection == NONE || !matches!(span.kind, SpanKind::NetSend | SpanKind::NetReceive) {
            return;
        }
        let end = cast.actors[span.track as usize].end as usize;
        let parties = &mut self.parties[span.connection as usize][end];
        if parties.first() != Some(&span.track) {
            parties.retain(|&t| t != span.track);
            parties.insert(0, span.track);
            parties.truncate(8);
        }
    }
}

#[inline]
fn live(cast: &mut Cast, batch: &SpanBatch, row: usize) -> Option<LiveSpan> {
    let track = cast.tracks.get(batch.track[row]);
    if track == NONE {
        return None;
    }
    let object = cast.objects.get(batch.object[row]);
    // A task is the waker where the context is not known; in interrupt context the interrupted thread is not.
    let by_task = batch.waker_context[row] == thalweg_trace::WakerContext::Task as u8 || batch.waker_context[row] == u8::MAX;
    Some(LiveSpan {
        start: batch.start_ns[row].min(batch.end_ns[row]),
        end: batch.end_ns[row],
        id: batch.span[row],
        parent: batch.parent[row],
        request: batch.request[row],
        cpu_ns: batch.cpu_ns[row],
        runqueue_ns: batch.runqueue_ns[row],
        offset_bytes: batch.offset_bytes[row],
        size_bytes: batch.size_bytes[row],
        track,
        object,
        connection: if object == NONE { NONE } else { cast.things[object as usize].connection },
        waker: if by_task { cast.tracks.get(batch.waker_track[row]) } else { NONE },
        count: batch.count[row],
        kind: batch.kind[row],
    })
}
