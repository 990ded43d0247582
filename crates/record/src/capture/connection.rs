//! A connection as rows of the trace: two streams, the messages in them, and TCP's behaviour.

use super::call::Call;
use super::calls::{Calls, MessageContext, matched};
use super::emit::About;
use super::frame::{ACK, End, FIN, RST, SYN, Segment, Tcp};
use super::rpc::{Heading, Message, Records};
use super::shared::Shared;
use super::sniff::protocol;
use super::stream::{Piece, Stream, Verdict};
use thalweg_trace::{CounterName, MarkKind, ObjectId, ObjectKind, SpanKind, TrackId};

/// Minimum interval between TCP counters of a direction.
const COUNTERS_NS: i64 = 1_000_000;

/// Silence that ends a burst of non-RPC bytes.
const BURST_NS: i64 = 1_000_000;

/// A packet captured again within this time is a duplicate.
const TWICE_NS: i64 = 10_000_000;

/// Silence after which an open connection has no waiting client: NFS clients send a keepalive after 60 s.
const UNHEARD_NS: i64 = 120_000_000_000;

/// `result` of a refused connection: −ECONNREFUSED.
const REFUSED: i64 = -111;

/// `result` of an unanswered connection request: −ETIMEDOUT.
const UNANSWERED: i64 = -110;

/// Ports that belong to a server, whichever end spoke first.
const WELL_KNOWN: [u16; 4] = [2049, 111, 20048, 4045];

/// A connection's identifiers in the trace.
#[derive(Clone, Copy)]
struct Ids {
    track: TrackId,
    /// The connection's object at each end.
    objects: [ObjectId; 2],
}

/// A burst of bytes on a connection without RPCs.
#[derive(Clone, Copy, Default)]
struct Burst {
    first_ns: i64,
    last_ns: i64,
    offset: u64,
    bytes: u64,
    segments: u32,
    /// Bytes in flight after its last segment, and the window for them.
    in_flight: u64,
    window: Option<u64>,
}

/// Times of the TCP handshake.
#[derive(Clone, Copy, Debug, Default)]
struct Handshake {
    asked_ns: Option<i64>,
    answered_ns: Option<i64>,
    /// When the client acknowledged the answer.
    done_ns: Option<i64>,
    refused_ns: Option<i64>,
}

/// Last values of the counters.
#[derive(Clone, Copy)]
struct Counters {
    at_ns: i64,
    in_flight: u64,
    window: Option<u64>,
    srtt_us: i64,
}

impl Default for Counters {
    fn default() -> Counters {
        // Long enough ago that the first value is recorded, recent enough to subtract.
        Counters { at_ns: i64::MIN / 4, in_flight: u64::MAX, window: None, srtt_us: -1 }
    }
}

impl Handshake {
    /// Notes a segment; `of_client` if known.
    fn see(&mut self, at_ns: i64, of_client: Option<bool>, flags: u8) {
        match (of_client, flags & (SYN | ACK | RST)) {
            (Some(true), SYN) => {
                self.asked_ns.get_or_insert(at_ns);
            }
            (Some(false), both) if both == SYN | ACK => {
                self.answered_ns.get_or_insert(at_ns);
            }
            (Some(true), ACK) if self.answered_ns.is_some() => {
                self.done_ns.get_or_insert(at_ns);
            }
            (Some(false), flags) if flags & RST != 0 && self.answered_ns.is_none() => {
                self.refused_ns.get_or_insert(at_ns);
            }
            _ => {}
        }
    }
}

/// A connection. Direction 0 is what `ends[0]` sends.
pub(super) struct Connection {
    ends: [End; 2],
    /// The client's end, once known.
    client: Option<usize>,
    udp: bool,
    streams: [Stream; 2],
    records: [Records; 2],
    calls: [Calls; 2],
    /// Number of missed messages handled so far, and until when their bytes passed.
    missed: [(u64, Option<i64>); 2],
    /// Whether a call was seen. Before that, what looks like a reply may be anything.
    called: bool,
    /// Number of its packets.
    segments: u64,
    bursts: [Burst; 2],
    last_counters: [Counters; 2],
    last_segment: [(u64, u32, u64, i64); 2],
    handshake: Handshake,
    /// Protocol recognised from its first bytes.
    application: Option<&'static str>,
    ids: Option<Ids>,
    messages: Vec<(usize, Message)>,
    /// Times of its first and last packet.
    first_ns: i64,
    pub last_ns: i64,
}

impl Connection {
    pub(super) fn new(from: End, to: End, udp: bool, ports: &[u16]) -> Connection {
        let serves = |end: End| ports.contains(&end.port);
        let client = match (serves(from), serves(to)) {
            (true, false) => Some(1),
            (false, true) => Some(0),
            _ => None,
        };
        Connection {
            ends: [from, to],
            client,
            udp,
            streams: Default::default(),
            records: [Records::new(false), Records::new(false)],
            calls: Default::default(),
            missed: Default::default(),
            called: false,
            segments: 0,
            bursts: Default::default(),
            last_counters: Default::default(),
            last_segment: Default::default(),
            handshake: Handshake::default(),
            application: None,
            ids: None,
            messages: Vec::new(),
            first_ns: i64::MAX,
            last_ns: 0,
        }
    }

    fn direction(&self, from: End) -> usize {
        usize::from(from != self.ends[0])
    }

    /// Whether this segment begins another connection on the same ports.
    pub(super) fn is_reused_by(&self, segment: &Segment<'_>, tcp: &Tcp) -> bool {
        let stream = &self.streams[self.direction(segment.from)];
        let first = tcp.flags & (SYN | ACK) == SYN;
        first && (self.streams.iter().any(|s| s.finished) || (stream.highest > 0 && tcp.sequence != self.first_sequence(segment.from)))
    }

    /// Whether this segment, after a long silence, continues the connection: its sequence numbers are near the last
    /// ones. Another connection on the same ports, or another capture, begins anywhere.
    pub(super) fn is_continued_by(&self, segment: &Segment<'_>, tcp: &Tcp) -> bool {
        let direction = self.direction(segment.from);
        let (own, other) = (&self.streams[direction], &self.streams[1 - direction]);
        let own = own.is_near(tcp.sequence);
        let other = if tcp.flags & ACK != 0 { other.is_near(tcp.acknowledgement) } else { None };
        own.unwrap_or(true) && other.unwrap_or(true) && (own.is_some() || other.is_some())
    }

    fn first_sequence(&self, from: End) -> u32 {
        self.streams[self.direction(from)].first_sequence()
    }

    /// Handles a segment of this connection.
    pub(super) fn tcp(&mut self, at_ns: i64, segment: &Segment<'_>, tcp: &Tcp, shared: &mut Shared) {
        let direction = self.direction(segment.from);
        self.first_ns = self.first_ns.min(at_ns);
        self.last_ns = at_ns;
        self.segments += 1;
        if self.is_captured_twice(at_ns, direction, segment, tcp) {
            shared.counts.captured_twice += 1;
            return;
        }
        let held_before: usize = self.streams.iter().map(|s| s.held_bytes).sum();
        if tcp.flags & SYN != 0 {
            self.synchronise(direction, tcp);
        }
        self.handshake.see(at_ns, self.client.map(|client| client == direction), tcp.flags);
        if self.application.is_none() && self.streams[direction].highest == 0 {
            self.application = protocol(segment.payload);
        }
        let highest_before = self.streams[direction].highest;
        self.acknowledge(at_ns, direction, tcp, shared);
        let verdict = self.payload(at_ns, direction, segment, tcp, shared.room(held_before));
        self.doubt(at_ns);
        let held: usize = self.streams.iter().map(|s| s.held_bytes).sum();
        shared.held_bytes = (shared.held_bytes + held).saturating_sub(held_before);
        if tcp.flags & RST != 0 {
            self.streams.iter_mut().for_each(|s| s.finished = true);
        } else if tcp.flags & FIN != 0 {
            self.streams[direction].finished = true;
        }
        self.judge(at_ns, direction, verdict, segment.payload_bytes, shared);
        self.burst(at_ns, direction, self.streams[direction].highest.saturating_sub(highest_before), shared);
        self.match_messages(shared);
        self.loose_bytes(false, shared);
        self.counters(at_ns, 0, shared);
        self.counters(at_ns, 1, shared);
        if self.streams.iter().all(|s| s.finished) {
            self.orphan_calls(shared);
        }
    }

    /// Marks calls as doubted when heads sent by their server's end were missed, since replies may have been among
    /// them: when synchronisation is lost, and again when it is regained, for the calls made meanwhile.
    fn doubt(&mut self, at_ns: i64) {
        for sender in 0..2 {
            let records = &self.records[sender];
            let now = (records.missed(), records.loose_ns);
            let before = self.missed[sender];
            let found_again = now.1 != before.1 && !records.is_lost();
            if now.0 != before.0 || found_again {
                self.missed[sender] = now;
                self.calls[1 - sender].doubt(at_ns);
            }
        }
    }

    /// Emits bytes of messages with missing heads, as messages without a call.
    fn loose_bytes(&mut self, all: bool, shared: &mut Shared) {
        if !self.called {
            return;
        }
        for direction in 0..2 {
            for run in self.records[direction].take_loose(all) {
                shared.counts.loose_bytes += run.bytes;
                shared.counts.rpc(run.first_ns, run.last_ns);
                let ids = self.ids(shared);
                let client = self.client_end();
                let kind = if direction == client { SpanKind::NetSend } else { SpanKind::NetReceive };
                let about = About {
                    object: Some(ids.objects[client]),
                    offset_bytes: self.streams[direction].position(run.offset),
                    size_bytes: Some(run.bytes),
                    request: Some(shared.out.request()),
                    ..About::default()
                };
                shared.out.span(ids.track, kind, run.first_ns, run.last_ns, about);
            }
        }
    }

    fn is_captured_twice(&mut self, at_ns: i64, direction: usize, segment: &Segment<'_>, tcp: &Tcp) -> bool {
        let state = u64::from(tcp.flags) << 48 | u64::from(tcp.window) << 32 | u64::from(tcp.acknowledgement);
        let now = (tcp.fingerprint ^ state.rotate_left(17), tcp.sequence, segment.payload_bytes, at_ns);
        let before = std::mem::replace(&mut self.last_segment[direction], now);
        // Without an IP identification and TCP timestamps, two packets cannot be distinguished from a duplicate.
        let is_marked = tcp.fingerprint >> 48 != 0 || tcp.fingerprint as u32 != 0;
        is_marked && before.0 == now.0 && before.1 == now.1 && before.2 == now.2 && (0..TWICE_NS).contains(&(at_ns - before.3))
    }

    fn synchronise(&mut self, direction: usize, tcp: &Tcp) {
        if self.streams[direction].highest == 0 {
            self.records[direction] = Records::new(true);
        }
        self.streams[direction].synchronise(tcp.sequence, tcp.scale);
        self.client = Some(if tcp.flags & ACK == 0 { direction } else { 1 - direction });
    }

    fn acknowledge(&mut self, at_ns: i64, direction: usize, tcp: &Tcp, shared: &mut Shared) {
        if tcp.flags & ACK != 0 {
            let other = 1 - direction;
            let Connection { streams, records, calls, messages, .. } = self;
            let mut deliver = deliverer(&mut records[other], &calls[direction], other, messages);
            streams[other].acknowledge(at_ns, tcp.acknowledgement, &mut deliver);
        }
        if tcp.flags & SYN == 0 {
            // Windows are scaled only if both ends announced their scale in their SYNs.
            let both_seen = self.streams.iter().all(|s| s.from_start);
            if both_seen && self.streams.iter().any(|s| s.scale.is_none()) {
                self.streams.iter_mut().for_each(|s| s.scale = Some(0));
            }
            if self.streams[direction].offer(tcp.window, both_seen, tcp.flags & RST != 0) {
                shared.counts.zero_windows += 1;
                let ids = self.ids(shared);
                // The mark belongs to the sender, which must wait.
                shared.out.mark(ids.track, MarkKind::TcpZeroWindow, at_ns, ids.objects[1 - direction], None);
            }
        }
    }

    fn payload(&mut self, at_ns: i64, direction: usize, segment: &Segment<'_>, tcp: &Tcp, room: usize) -> Verdict {
        let sequence = tcp.sequence.wrapping_add(u32::from(tcp.flags & SYN != 0));
        let Connection { streams, records, calls, messages, .. } = self;
        let mut deliver = deliverer(&mut records[direction], &calls[1 - direction], direction, messages);
        streams[direction].segment(at_ns, sequence, segment.payload, segment.payload_bytes, room, &mut deliver)
    }

    fn judge(&mut self, at_ns: i64, direction: usize, verdict: Verdict, bytes: u64, shared: &mut Shared) {
        match verdict {
            Verdict::New => {}
            Verdict::Keepalive => shared.counts.keepalives += 1,
            Verdict::Reordered => shared.counts.reordered += 1,
            Verdict::Retransmission { timer } => {
                shared.counts.tcp_retransmissions += 1;
                let ids = self.ids(shared);
                let value = Some(bytes as i64);
                shared.out.mark(ids.track, MarkKind::TcpRetransmit, at_ns, ids.objects[direction], value);
                if timer {
                    shared.counts.tcp_timeouts += 1;
                    shared.out.mark(ids.track, MarkKind::TcpTimeout, at_ns, ids.objects[direction], None);
                }
            }
        }
    }

    fn carries_rpc(&self) -> bool {
        self.udp || self.records.iter().any(|r| r.found)
    }

    fn burst(&mut self, at_ns: i64, direction: usize, bytes: u64, shared: &mut Shared) {
        if bytes == 0 {
            return;
        }
        // The other end spoke, so its own burst is over.
        self.end_burst(1 - direction, shared);
        let burst = self.bursts[direction];
        if burst.bytes > 0 && at_ns - burst.last_ns > BURST_NS {
            self.end_burst(direction, shared);
        }
        let end = self.streams[direction].highest;
        let (in_flight, window) = (self.streams[direction].in_flight_bytes(), self.streams[1 - direction].window_bytes);
        let burst = &mut self.bursts[direction];
        (burst.in_flight, burst.window) = (in_flight, window);
        if burst.segments == 0 {
            *burst = Burst { first_ns: at_ns, offset: end.saturating_sub(bytes), ..*burst };
        }
        burst.last_ns = at_ns;
        burst.bytes = end.saturating_sub(burst.offset);
        burst.segments = burst.segments.saturating_add(1);
    }

    fn end_burst(&mut self, direction: usize, shared: &mut Shared) {
        let burst = std::mem::take(&mut self.bursts[direction]);
        if burst.bytes == 0 || self.carries_rpc() {
            return;
        }
        let ids = self.ids(shared);
        let client = self.client_end();
        let kind = if direction == client { SpanKind::NetSend } else { SpanKind::NetReceive };
        let about = About {
            object: Some(ids.objects[client]),
            offset_bytes: self.streams[direction].position(burst.offset),
            size_bytes: Some(burst.bytes),
            count: burst.segments,
            ..About::default()
        };
        shared.out.span(ids.track, kind, burst.first_ns, burst.last_ns, about);
        shared.out.counter(ids.objects[direction], CounterName::TcpInFlightBytes, burst.last_ns, burst.in_flight as i64);
        if let Some(window) = burst.window {
            shared.out.counter(ids.objects[direction], CounterName::TcpReceiveWindowBytes, burst.last_ns, window as i64);
        }
    }

    /// Emits how the connection was established, or that it failed; only for connections without RPCs, which show the
    /// path's round trip no other way.
    fn end_handshake(&mut self, shared: &mut Shared) {
        let Handshake { asked_ns, answered_ns, done_ns, refused_ns } = self.handshake;
        let Some(asked_ns) = asked_ns else { return };
        let ids = self.ids(shared);
        let client = self.client_end();
        let (end_ns, result) = match (answered_ns, refused_ns) {
            (Some(answered_ns), _) => (answered_ns, None),
            (None, Some(refused_ns)) => (refused_ns, Some(REFUSED)),
            (None, None) => (self.last_ns, Some(UNANSWERED)),
        };
        let about = About { object: Some(ids.objects[client]), result, ..About::default() };
        shared.out.span(ids.track, SpanKind::NetConnect, asked_ns, end_ns.max(asked_ns), about);
        // The path beyond the capture point, on the server's and on the client's side.
        let halves = [(client, Some(asked_ns), answered_ns), (1 - client, answered_ns, done_ns)];
        for (end, from_ns, to_ns) in halves {
            if let (Some(from_ns), Some(to_ns)) = (from_ns, to_ns) {
                shared.out.counter(ids.objects[end], CounterName::TcpSrttUs, to_ns, (to_ns - from_ns).max(0) / 1000);
            }
        }
    }

    /// Handles a datagram.
    pub(super) fn udp(&mut self, at_ns: i64, segment: &Segment<'_>, heading: Heading, shared: &mut Shared) {
        self.last_ns = at_ns;
        let message = Message { first_ns: at_ns, last_ns: at_ns, parts: Vec::new(), offset: 0, bytes: segment.payload_bytes, heading };
        self.messages.push((self.direction(segment.from), message));
        self.match_messages(shared);
    }

    fn match_messages(&mut self, shared: &mut Shared) {
        if self.messages.is_empty() {
            return;
        }
        for (direction, message) in std::mem::take(&mut self.messages) {
            if self.client.is_none() {
                let call = matches!(message.heading, Heading::Call { .. });
                self.client = Some(if call { direction } else { 1 - direction });
            }
            let ids = self.ids(shared);
            let client = self.client_end();
            let calls = matches!(message.heading, Heading::Call { .. });
            self.called |= calls;
            let caller = if calls { direction } else { 1 - direction };
            let context = MessageContext {
                track: ids.track,
                connection: ids.objects[client],
                client_ip: self.ends[caller].ip,
                server: self.ends[1 - caller],
                callback: caller != client,
                datagram: self.udp,
                outward: direction == client,
                calls_missed_ns: self.calls_missed_ns(caller, &message),
                offset: if self.udp { None } else { self.streams[direction].position(message.offset) },
            };
            matched(&mut self.calls, direction, &message, context, shared);
        }
    }

    /// Returns until when calls of this end with missing heads passed, as a reply to one of them shows; `None` if
    /// there were none.
    fn calls_missed_ns(&self, caller: usize, reply: &Message) -> Option<i64> {
        let before = |ns: i64| ns.min(reply.first_ns);
        if !self.called {
            return None;
        }
        match self.records[caller].loose_ns {
            Some(ns) => Some(before(ns)),
            // Calls older than the capture: one answered in it was pending when it began.
            None => (!self.udp && !self.streams[caller].from_start).then(|| before(self.first_ns)),
        }
    }

    /// Emits TCP's counters for one end's bytes.
    fn counters(&mut self, at_ns: i64, direction: usize, shared: &mut Shared) {
        let stream = &self.streams[direction];
        let last = self.last_counters[direction];
        if stream.highest == 0 || at_ns.saturating_sub(last.at_ns) < COUNTERS_NS {
            return;
        }
        let now = Counters {
            at_ns,
            in_flight: stream.in_flight_bytes(),
            window: self.streams[1 - direction].window_bytes,
            srtt_us: stream.srtt_ns.map_or(-1, |ns| ns / 1000),
        };
        let object = self.ids(shared).objects[direction];
        if now.in_flight != last.in_flight {
            shared.out.counter(object, CounterName::TcpInFlightBytes, at_ns, now.in_flight as i64);
        }
        if let Some(window) = now.window.filter(|_| now.window != last.window) {
            shared.out.counter(object, CounterName::TcpReceiveWindowBytes, at_ns, window as i64);
        }
        if now.srtt_us >= 0 && now.srtt_us != last.srtt_us {
            shared.out.counter(object, CounterName::TcpSrttUs, at_ns, now.srtt_us);
        }
        self.last_counters[direction] = now;
    }

    fn client_end(&self) -> usize {
        self.client.unwrap_or_else(|| {
            let known = |end: End| WELL_KNOWN.contains(&end.port);
            match (known(self.ends[0]), known(self.ends[1])) {
                (true, false) => 1,
                (false, true) => 0,
                _ => usize::from(self.ends[0].port < self.ends[1].port),
            }
        })
    }

    /// Returns the connection's identifiers, writing its rows on first use.
    fn ids(&mut self, shared: &mut Shared) -> Ids {
        if let Some(ids) = self.ids {
            return ids;
        }
        let client = self.client_end();
        self.client = Some(client);
        let name = format!("{} > {}", self.ends[client], self.ends[1 - client]);
        let protocol = if self.udp { "udp" } else { "tcp" }.to_owned();
        let application = self.application.map(|application| ("application", application.to_owned()));
        let mut object = |end: &str| {
            let attributes = [("end", end.to_owned()), ("protocol", protocol.clone())];
            let attributes: Vec<(&str, String)> = attributes.into_iter().chain(application.clone()).collect();
            shared.out.object(ObjectKind::Connection, name.clone(), &attributes)
        };
        let (of_client, of_server) = (object("client"), object("server"));
        let mut objects = [of_client; 2];
        objects[1 - client] = of_server;
        let ids = Ids { track: shared.out.connection_track(&name), objects };
        shared.counts.connections += 1;
        if !self.udp && !self.streams.iter().all(|s| s.from_start) {
            shared.counts.half_seen += 1;
        }
        self.ids = Some(ids);
        ids
    }

    /// Moves unanswered calls of an ended connection aside: they may be sent again on another.
    fn orphan_calls(&mut self, shared: &mut Shared) {
        // A closed connection gets no more replies; on an open one, a reply may have come.
        let closed = self.streams.iter().any(|s| s.finished);
        let until_ns = if closed { self.last_ns } else { self.last_ns.saturating_add(UNHEARD_NS) };
        for (caller, calls) in self.calls.iter_mut().enumerate() {
            let (client_ip, server) = (self.ends[caller].ip, self.ends[1 - caller]);
            calls
                .drain()
                .for_each(|(xid, call)| shared.keep_orphan(client_ip, server, xid, Call { until_ns: call.until_ns.min(until_ns), ..call }));
        }
    }

    /// Flushes data held beyond gaps, and incomplete messages, at the end of the streams.
    fn end_streams(&mut self, shared: &mut Shared) {
        let at_ns = self.last_ns;
        let Connection { streams, records, calls, messages, .. } = self;
        for direction in 0..2 {
            let mut deliver = deliverer(&mut records[direction], &calls[1 - direction], direction, messages);
            shared.held_bytes = shared.held_bytes.saturating_sub(streams[direction].held_bytes);
            streams[direction].end(at_ns, &mut deliver);
        }
        self.match_messages(shared);
        self.records.iter_mut().for_each(Records::end);
        self.doubt(at_ns);
        self.loose_bytes(true, shared);
    }

    /// Ends the connection, or the capture.
    pub(super) fn finish(&mut self, shared: &mut Shared) {
        self.end_streams(shared);
        for direction in 0..2 {
            self.end_burst(direction, shared);
        }
        if !self.carries_rpc() {
            self.end_handshake(shared);
            shared.counts.other_segments += self.segments;
        }
        self.orphan_calls(shared);
        for stream in &self.streams {
            shared.counts.missing_bytes += stream.missing_bytes;
            let (Some(ids), Some(least_ns)) = (self.ids, stream.least_rtt_ns) else { continue };
            // The connection as the client sees it; the direction with the smaller value is the path beyond the
            // capture point.
            let object = ids.objects[self.client.unwrap_or(0)];
            shared.out.counter(object, CounterName::TcpMinRttUs, self.last_ns, least_ns / 1000);
        }
        for records in &self.records {
            shared.counts.resynchronised += records.resynchronised;
            shared.counts.headless += records.headless;
        }
    }
}

/// Returns a closure that passes pieces of a stream to its records.
fn deliverer<'a>(
    records: &'a mut Records,
    calls: &'a Calls,
    direction: usize,
    messages: &'a mut Vec<(usize, Message)>,
) -> impl FnMut(Piece<'_>) + 'a {
    move |piece| {
        let is_pending = |xid: u32| calls.is_pending(xid);
        let mut emit = |message| messages.push((direction, message));
        records.feed(piece.at_ns, piece.data, piece.missing, piece.at_start, &is_pending, &mut emit);
    }
}
