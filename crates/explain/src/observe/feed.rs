//! Spans for the walk: backward in time, held only while the walk may still need them.
//!
//! A span that covers an instant ends at or after it. The recording gives spans by descending end, so once it has been read past an
//! instant, everything that covers the instant has been seen; and because the walk only goes backward, a span that began at or after its
//! cursor can be dropped. What is held is therefore what overlaps the cursor, and the part of the last batch that ends before it.

use crate::ExplainError;
use crate::cause::End;
use crate::limits::observe as limits;
use crate::observe::index::NONE;
use crate::observe::ranks::Ranks;
use crate::observe::span::{LiveSpan, Observer};
use crate::observe::tables::Tables;
use std::collections::VecDeque;
use thalweg_trace::ABSENT;
use thalweg_trace::ABSENT_CONTEXT;
use thalweg_trace::{Source, SourceError, SpanBatch, SpanKind, WakerContext};

/// The spans of one track that the walk may still need.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Covering the cursor, in no particular order.
    pub open: Vec<LiveSpan>,
    /// Not yet reached by the cursor, by descending end.
    pub ahead: VecDeque<LiveSpan>,
    /// The actions that the cursor has passed.
    pub passed: NextActions,
    /// The thread's next looks (calls of no length), fruitless or not, nearest first.
    pub looks: VecDeque<LiveSpan>,
    /// The thread's traits over all its spans.
    pub traits: ThreadTraits,
}

/// Traits of a thread, from all of its spans read so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadTraits {
    /// It moves bytes of files or connections.
    pub moves_data: bool,
    /// Another thread ended one of its waits: it is given work, or locks.
    pub is_woken: bool,
    /// It slept while another waited for it.
    pub sleeps_holding: bool,
    /// Its requests are traced individually: time outside them is not its own work.
    pub traces_requests: bool,
    /// It communicates by pipes, sockets or connections.
    pub deals_with_others: bool,
    /// The client it serves.
    pub serves: Serves,
}

/// The client that a thread serves, as far as its actions show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Serves {
    /// None.
    #[default]
    Nobody,
    /// The caller on this connection.
    Connection(u32),
    /// The thread of another program that asks it at a socket of this machine.
    Thread(u32),
    /// More than one.
    Several,
}

impl ThreadTraits {
    /// Whether the thread's activity while it holds a lock serves no waiter. A thread that moves data works for the transfer, and so does
    /// one that is given work and computes.
    pub(crate) fn is_private_work(&self, asleep: bool) -> bool {
        !self.moves_data && (asleep || self.sleeps_holding || !self.is_woken)
    }

    #[inline]
    fn note(&mut self, span: &LiveSpan, tables: &Tables) {
        if span.object != NONE && !self.deals_with_others {
            use thalweg_trace::ObjectKind as Kind;
            let kind = tables.objects.get(span.object as usize).map(|object| object.kind);
            self.deals_with_others = matches!(kind, Some(Kind::Pipe | Kind::Socket | Kind::Connection));
        }
        self.note_served(span, tables);
        match span.kind {
            // A fault that reads a page of the program from its file moves nothing.
            SpanKind::FileRead | SpanKind::FileWrite | SpanKind::NetSend | SpanKind::NetReceive => self.moves_data |= span.bytes() > 0,
            SpanKind::FileSync => self.moves_data = true,
            SpanKind::WaitLock => self.is_woken |= span.waker != NONE && span.waker != span.track,
            SpanKind::RpcServe => self.traces_requests = true,
            _ => {}
        }
    }

    #[inline]
    fn note_served(&mut self, span: &LiveSpan, tables: &Tables) {
        let served = match span.kind {
            SpanKind::NetSend | SpanKind::NetReceive | SpanKind::WaitNetwork if span.connection != NONE && span.side == End::Server => {
                Serves::Connection(span.connection)
            }
            SpanKind::WaitLock if tables.is_asked_at(span.track, span.object, span.waker) => Serves::Thread(span.waker),
            _ => return,
        };
        let process = |serves: Serves| if let Serves::Thread(track) = serves { tables.process(track) } else { None };
        let is_known = self.serves == served || process(served).is_some() && process(self.serves) == process(served);
        self.serves = if self.serves == Serves::Nobody || is_known { served } else { Serves::Several };
    }
}

/// A thread's next actions, seen from the cursor: of everything that began at or after it, the first of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextActions {
    /// Its next receive: time, connection, and offset of the first byte.
    pub receive: (i64, u32, u64),
    /// Bytes it received before its next send.
    pub took_bytes: u64,
    /// Its next send: time and connection.
    pub send: (i64, u32),
    /// Its next non-fruitless wait: time, connection, and the thread that ended it.
    pub wait: (i64, u32, u32),
    /// Whether that was a voluntary pause.
    pub pause: bool,
    /// Time it next blocked at all.
    pub next_wait: i64,
    /// Length of that wait, and whether its own timeout ended it.
    pub next_waited: (i64, bool),
    /// Time it next slept by the clock, or waited for any event until its timeout.
    pub next_pause: i64,
    /// Time of its next file or connection call.
    pub acted: i64,
    /// Time of its next action for its program.
    pub deed: i64,
    /// End of its last action of all.
    pub last_end: i64,
}

impl Default for NextActions {
    fn default() -> NextActions {
        NextActions {
            receive: (i64::MAX, NONE, ABSENT),
            took_bytes: 0,
            send: (i64::MAX, NONE),
            wait: (i64::MAX, NONE, NONE),
            pause: false,
            next_wait: i64::MAX,
            next_waited: (0, false),
            next_pause: i64::MAX,
            acted: i64::MAX,
            deed: i64::MAX,
            last_end: i64::MIN,
        }
    }
}

impl NextActions {
    #[inline]
    fn note(&mut self, span: &LiveSpan) {
        let carried = span.connection != NONE && !span.is_fruitless() && (span.cpu_ns != 0 || span.bytes() > 0);
        match span.kind {
            SpanKind::NetReceive if carried && span.start <= self.receive.0 => {
                let later = if self.send.0 >= self.receive.0 { self.took_bytes } else { 0 };
                self.took_bytes = later + span.bytes();
                self.receive = (span.start, span.connection, span.offset_bytes);
            }
            SpanKind::NetSend if carried && span.start <= self.send.0 => self.send = (span.start, span.connection),
            _ => {}
        }
        if span.is_deed() {
            self.deed = self.deed.min(span.start);
        }
        let waited = span.cpu_ns == 0 && (span.end > span.start || span.waker != NONE) && span.kind != SpanKind::WaitRunqueue;
        if !waited && span.cpu_ns != 0 && !span.is_container() {
            self.acted = self.acted.min(span.start);
        }
        if !waited {
            return;
        }
        // A fruitless poll does not answer what the previous wait waited for.
        let timed_out = span.may_be_in_vain();
        if !(timed_out && self.looks_again(span)) && span.start <= self.wait.0 {
            self.wait = (span.start, span.connection, span.waker);
            self.pause = timed_out;
        }
        if span.start < self.next_wait {
            (self.next_wait, self.next_waited) = (span.start, (span.end - span.start, timed_out));
        }
        if timed_out || span.kind == SpanKind::WaitTimer {
            self.next_pause = self.next_pause.min(span.start);
        }
    }

    /// Whether a thread whose wait timed out only waited again afterwards: it polled, and both are one wait. A thread that did
    /// something, or computed for an eighth of the wait, had paused voluntarily.
    pub(crate) fn looks_again(&self, span: &LiveSpan) -> bool {
        let ran_ns = self.next_wait.saturating_sub(span.end);
        self.next_wait != i64::MAX && self.acted >= self.next_wait && ran_ns <= (span.end - span.start) / limits::POLL_WORK_PART
    }
}

impl Lane {
    /// Brings the lane to an instant: afterwards `open` covers it, and `ahead` ended before.
    pub(crate) fn settle(&mut self, at: i64) {
        while let Some(front) = self.ahead.front() {
            if front.end < at {
                break;
            }
            let span = self.ahead.pop_front().expect("there is a front");
            if span.start < at {
                self.open.push(span);
            } else {
                self.pass(&span);
            }
        }
        if self.open.iter().any(|s| s.start >= at) {
            let passed = &mut self.passed;
            self.open.retain(|s| {
                let keep = s.start < at;
                if !keep {
                    passed.note(s);
                }
                keep
            });
        }
    }

    /// Notes a span that the cursor has passed.
    fn pass(&mut self, span: &LiveSpan) {
        self.passed.note(span);
        if span.start == span.end && span.object != NONE && span.result <= 0 && span.kind != SpanKind::NetReceive {
            self.looks.push_front(*span);
            self.looks.truncate(limits::NEXT_LOOKS);
        }
    }

    /// The innermost span at the lane's instant: the one that began last.
    pub(crate) fn innermost(&self) -> Option<&LiveSpan> {
        self.open.iter().filter(|s| s.is_activity()).max_by_key(|s| (s.start, s.id))
    }

    /// The thread's latest span that ended before the lane's instant.
    pub(crate) fn previous(&self) -> Option<&LiveSpan> {
        self.ahead.iter().find(|s| s.is_activity())
    }

    /// The thread's spans within an interval before the lane's instant, latest end first.
    pub(crate) fn within(&self, from: i64, until: i64) -> impl Iterator<Item = &LiveSpan> {
        self.ahead.iter().take_while(move |s| s.end >= from).filter(move |s| s.start >= from && s.end <= until)
    }

    /// Notes a reply with payload: its RPC moves data, if the RPC's own span has no size. The RPC ended just after the reply, so it is
    /// among the last spans read.
    fn note_payload(&mut self, reply: &LiveSpan) {
        if reply.request == 0 || reply.bytes() < limits::PAYLOAD_BYTES {
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
}

/// Bytes that a thread handed to a connection, or took or waited for from it.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct Carried {
    pub start: i64,
    pub end: i64,
    pub request: u64,
    pub offset_bytes: u64,
    pub size_bytes: u64,
    pub track: u32,
}

impl Carried {
    /// Whether these bytes include the byte at this offset of the stream.
    fn covers(&self, position: u64) -> bool {
        self.offset_bytes != ABSENT && position >= self.offset_bytes && position - self.offset_bytes < self.size_bytes
    }
}

/// The sends and receives of one end of a connection, latest end first, as far as the walk may still need them.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    /// By [`SpanKind::NetSend`].
    pub sends: VecDeque<Carried>,
    /// By [`SpanKind::NetReceive`].
    pub receives: VecDeque<Carried>,
    /// Start of the last send of all; `i64::MIN` before any was read.
    pub last_send: i64,
    /// End of the last non-empty receive of all.
    pub last_receive: i64,
}

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic { sends: VecDeque::new(), receives: VecDeque::new(), last_send: i64::MIN, last_receive: i64::MIN }
    }
}

impl Traffic {
    fn prune(&mut self, cursor: i64) {
        for list in [&mut self.sends, &mut self.receives] {
            let passed = list.iter().take_while(|c| c.start >= cursor).count();
            list.drain(..passed.saturating_sub(limits::LATE_STAMPS));
            // A long send must not keep everything it overlaps.
            if list.len() > limits::MANY_SENDS && passed <= limits::LATE_STAMPS {
                list.retain(|c| c.start < cursor);
            }
        }
    }

    /// The send with this byte, whenever it was stamped.
    pub(crate) fn send_of(&self, position: u64) -> Option<&Carried> {
        self.sends.iter().find(|c| c.covers(position))
    }

    /// Whether all sends before the known ones carried earlier bytes only.
    pub(crate) fn is_known_from(&self, position: u64) -> bool {
        self.sends.back().is_some_and(|c| c.offset_bytes != ABSENT && c.offset_bytes <= position)
    }

    /// The latest send that began before `at`, of this request if both ends record it, and that ended after `since` or not long before.
    pub(crate) fn latest_send(&self, at: i64, since: i64, request: u64) -> Option<&Carried> {
        let mut earlier = 0;
        let near = self.sends.iter().take_while(|c| {
            earlier += usize::from(c.end < since);
            earlier <= limits::NOT_LONG_SPANS
        });
        near.filter(|c| c.start < at && (c.request == request || c.request == 0 || request == 0)).max_by_key(|c| c.end)
    }

    /// The latest receive of any bytes that began before `at`.
    pub(crate) fn latest_receive(&self, at: i64) -> Option<&Carried> {
        self.receives.iter().filter(|taken| taken.start < at && taken.size_bytes > 0).max_by_key(|taken| taken.end)
    }

    /// The thread that last received before `at`; else the one that last sent.
    pub(crate) fn party(&self, at: i64) -> Option<u32> {
        let latest = |list: &VecDeque<Carried>| list.iter().find(|c| c.start < at).map(|c| c.track);
        latest(&self.receives).or_else(|| latest(&self.sends))
    }
}

/// The spans of a recording, backward.
pub(crate) struct Feed<'a> {
    batches: Box<dyn Iterator<Item = Result<SpanBatch, SourceError>> + 'a>,
    /// One per actor.
    pub lanes: Vec<Lane>,
    /// Every span that ends after this has been read; `i64::MIN` when all have.
    pub position: i64,
    held: usize,
    /// The tracks at each side of a connection, most recently seen first: `[connection][side]`.
    pub parties: Vec<[Vec<u32>; 2]>,
    /// The traffic of a connection: `[connection][side]`.
    pub traffic: Vec<[Traffic; 2]>,
    /// The parts of MPI messages and collectives.
    pub ranks: Ranks,
    /// Waits with stacks, in the order in which they were read.
    pub stacked: Vec<StackedWait>,
}

/// A wait whose thread's stack was taken.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct StackedWait {
    pub start: i64,
    pub end: i64,
    pub track: u32,
    /// Row of `stacks`.
    pub stack: u32,
}

impl<'a> Feed<'a> {
    /// Starts at the end of the recording.
    pub(crate) fn new(source: &'a dyn Source, tables: &Tables) -> Feed<'a> {
        Feed::of(source.spans_backward(), tables)
    }

    /// A feed that reads nothing itself: it is given another's spans ([`Feed::begin`], [`Feed::take`]).
    pub(crate) fn handed(tables: &Tables) -> Feed<'a> {
        Feed::of(Box::new(std::iter::empty()), tables)
    }

    fn of(batches: Box<dyn Iterator<Item = Result<SpanBatch, SourceError>> + 'a>, tables: &Tables) -> Feed<'a> {
        Feed {
            batches,
            lanes: tables.actors.iter().map(|_| Lane::default()).collect(),
            position: i64::MAX,
            held: 0,
            parties: tables.connections.iter().map(|_| [Vec::new(), Vec::new()]).collect(),
            traffic: tables.connections.iter().map(|_| Default::default()).collect(),
            ranks: Ranks::new(tables),
            stacked: Vec::new(),
        }
    }

    /// Whether all has been read.
    pub(crate) fn exhausted(&self) -> bool {
        self.position == i64::MIN
    }

    /// Whether the limit of spans held is reached, so reading ahead must stop.
    pub(crate) fn full(&self) -> bool {
        self.held >= limits::LOOK_AHEAD_SPANS
    }

    /// Reads one more batch, for a walk at `cursor`.
    pub(crate) fn read<O: Observer>(&mut self, tables: &mut Tables, cursor: i64, observer: &mut O) -> Result<(), ExplainError> {
        let Some(batch) = self.batches.next().transpose()? else {
            self.position = i64::MIN;
            observer.begins(i64::MIN);
            observer.ends(tables);
            return Ok(());
        };
        let Some(&last_end) = batch.end_ns.last() else { return Ok(()) };
        self.begin(last_end, cursor);
        observer.begins(last_end);
        for row in 0..batch.len() {
            let Some(span) = live(tables, &batch, row) else { continue };
            observer.span(tables, &span);
            if batch.stack[row] != 0 && self.stacked.len() < limits::MOST_STACKED {
                self.stacked.push(StackedWait { start: span.start, end: span.end, track: span.track, stack: batch.stack[row] });
            }
            self.take(tables, &span, cursor);
        }
        observer.ends(tables);
        Ok(())
    }

    /// Announces more spans: afterwards, every span that ends after `position` has come.
    pub(crate) fn begin(&mut self, position: i64, cursor: i64) {
        self.position = position;
        if position != i64::MIN {
            self.prune(cursor);
        }
    }

    /// Adds a span, for a walk at `cursor`.
    #[inline]
    pub(crate) fn take(&mut self, tables: &Tables, span: &LiveSpan, cursor: i64) {
        if !tables.actors[span.track as usize].thread {
            if span.start < cursor && matches!(span.kind, SpanKind::DiskRead | SpanKind::DiskWrite | SpanKind::DiskFlush) {
                self.lanes[span.track as usize].ahead.push_back(*span);
                self.held += 1;
            } else {
                self.lanes[span.track as usize].passed.note(span);
            }
            return;
        }
        if span.connection != NONE {
            self.note_traffic(span);
        }
        self.ranks.note(span);
        let lane = &mut self.lanes[span.track as usize];
        lane.passed.last_end = lane.passed.last_end.max(span.end);
        lane.traits.note(span, tables);
        if span.start >= cursor {
            lane.pass(span);
            return;
        }
        if span.kind == SpanKind::NetSend {
            lane.note_payload(span);
        }
        lane.ahead.push_back(*span);
        self.held += 1;
    }

    /// A thread's side of a connection, by its sends and receives over it.
    pub(crate) fn side_of(&self, tables: &Tables, track: u32, connection: u32) -> End {
        let own = tables.actors.get(track as usize).map_or(End::Client, |a| a.end);
        let Some(parties) = self.parties.get(connection as usize) else { return own };
        let takes_part = |side: End| parties[side as usize].contains(&track);
        if takes_part(own) || !takes_part(own.other()) { own } else { own.other() }
    }

    /// Reads until everything that covers `instant` is held.
    pub(crate) fn ensure<O: Observer>(
        &mut self,
        tables: &mut Tables,
        instant: i64,
        cursor: i64,
        observer: &mut O,
    ) -> Result<(), ExplainError> {
        while self.position >= instant && !self.exhausted() {
            self.read(tables, cursor, observer)?;
        }
        Ok(())
    }

    fn prune(&mut self, cursor: i64) {
        for lane in &mut self.lanes {
            lane.settle(cursor);
        }
        self.traffic.iter_mut().flatten().for_each(|t| t.prune(cursor));
        self.ranks.prune(cursor);
        self.held = self.lanes.iter().map(|l| l.open.len() + l.ahead.len()).sum();
    }

    fn note_traffic(&mut self, span: &LiveSpan) {
        if !matches!(span.kind, SpanKind::NetSend | SpanKind::NetReceive) {
            return;
        }
        let end = span.side as usize;
        let traffic = &mut self.traffic[span.connection as usize][end];
        match span.kind {
            SpanKind::NetSend => traffic.last_send = traffic.last_send.max(span.start),
            _ if span.bytes() > 0 => traffic.last_receive = traffic.last_receive.max(span.end),
            _ => {}
        }
        let list = if span.kind == SpanKind::NetSend { &mut traffic.sends } else { &mut traffic.receives };
        list.push_back(Carried {
            start: span.start,
            end: span.end,
            request: span.request,
            offset_bytes: span.offset_bytes,
            size_bytes: span.bytes(),
            track: span.track,
        });
        let parties = &mut self.parties[span.connection as usize][end];
        if parties.first() != Some(&span.track) {
            parties.retain(|&t| t != span.track);
            parties.insert(0, span.track);
            parties.truncate(8);
        }
    }
}

/// A row with dense identifiers; `None` if its track is not known.
#[inline]
pub(crate) fn live(tables: &mut Tables, batch: &SpanBatch, row: usize) -> Option<LiveSpan> {
    let track = tables.tracks.get(batch.track[row]);
    if track == NONE {
        return None;
    }
    let object = tables.object_rows.get(batch.object[row]);
    let on = tables.objects.get(object as usize);
    let side = on.and_then(|on| on.connection_end).unwrap_or(tables.actors[track as usize].end);
    let connection = on.map_or(NONE, |on| on.connection);
    let (context, kind) = (batch.waker_context[row], batch.kind[row]);
    let waker = if batch.waker_track[row] == 0 { NONE } else { tables.tracks.get(batch.waker_track[row]) };
    let (mut thread, mut device) = (NONE, NONE);
    match tables.actors.get(waker as usize).map(|a| a.thread) {
        // A task is the waker if the context is not known; in interrupt context the interrupted thread is not.
        Some(true) if matches!(context, TASK | ABSENT_CONTEXT) || kind == SpanKind::WaitRunqueue => thread = waker,
        Some(false) => device = waker,
        _ => {}
    }
    if device != NONE && object != NONE {
        tables.note_device(object, device);
    }
    let result = batch.result[row];
    // A thread that queues for the processor of the thread it takes turns with waits for that thread.
    let handed_over = tables.hand_overs.get(&(track, thread)).copied().filter(|_| kind == SpanKind::WaitRunqueue);
    let (kind, object, context) = handed_over.map_or((kind, object, context), |at| (SpanKind::WaitLock, at, TASK));
    let runqueue_ns = if handed_over.is_some() { 0 } else { batch.runqueue_ns[row] };
    Some(LiveSpan {
        start: batch.start_ns[row].min(batch.end_ns[row]),
        end: batch.end_ns[row],
        id: batch.span[row],
        parent: batch.parent[row],
        request: batch.request[row],
        cpu_ns: batch.cpu_ns[row],
        runqueue_ns,
        offset_bytes: batch.offset_bytes[row],
        // A size beyond any file's is invalid, and must not enter a sum.
        size_bytes: if batch.size_bytes[row] < 1 << 56 { batch.size_bytes[row] } else { ABSENT },
        track,
        object,
        connection,
        side,
        waker: thread,
        device,
        result: i32::try_from(result).unwrap_or(0),
        count: batch.count[row],
        kind,
        context,
    })
}

/// The context in which a thread ends waits.
const TASK: u8 = WakerContext::Task as u8;
