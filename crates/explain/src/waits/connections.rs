//! Waits for bytes, and for room to send: to the thread at the other end, across the wire.

use super::*;
use crate::limits::waits as limits;
use crate::observe::feed::Carried;
use crate::observe::lives::Beginning;
use crate::observe::stalls::Stall;
use crate::observe::wire::{Near, Transit};
use thalweg_trace::ABSENT;

/// More bytes than can be in flight: a thread was blocked because its bytes did not fit.
const MANY_BYTES: u64 = u64::MAX;

impl View<'_, '_, '_> {
    /// Blocked until bytes arrive: to the send that brought them, if recorded.
    pub(super) fn follow_sender(&mut self, span: LiveSpan) -> Answer<()> {
        let blocked = Blocked { span, for_room: false };
        let Some(send) = self.find_send(&blocked.span)? else { return self.follow_connection(blocked) };
        let sender = send.track;
        if blocked.span.timed_out() && send.end < blocked.span.start {
            // Earlier bytes had been taken: the thread polls for later ones.
            return self.follow_connection(blocked);
        }
        if send.end >= self.at || self.circling {
            return self.meet(blocked, sender);
        }
        let since = self.asks_since(&blocked.span, send.end)?;
        if blocked.span.is_fruitless() && send.end < since && (blocked.span.is_made_up() || self.had_come(&blocked.span, &send)?) {
            // The request it waits on was sent after it had lost its processor.
            return self.meet(blocked, sender);
        }
        if send.end >= since {
            self.note_call(&blocked.span);
        }
        // Sent before the wait began: the bytes were in flight, or unread, for all of it.
        let from = send.end.max(since).max(self.start);
        let bytes = if self.waits_for_room(sender, blocked.span.connection) {
            MANY_BYTES
        } else {
            under_way(send.size_bytes, blocked.span.bytes())
        };
        let (connection, by) = (blocked.span.connection, blocked.span.side.other());
        if self.tables.sampled && self.cannot_be_networks(Cause::NetworkLatency, (connection, sender), from) {
            // Sent between two polls; the second poll may have found the bytes.
            return self.meet(blocked, sender);
        }
        let way = Transit { connection, sender: by, start: from, end: self.at, bytes, sent: Some(send.end) };
        if self.at - from > self.longest_transit_ns(&blocked, &way, sender) {
            // The bytes arrived long before: something else ended the wait.
            return self.follow_connection(blocked);
        }
        // Before anything recorded of a thread: its greeting to the sender may have been lost, or the sender's answer.
        let is_first = blocked.span.is_made_up() && self.lane().previous().is_none();
        let lost = self.facts.wire.connecting(connection, (from, self.at)).filter(|(stall, _)| is_first && *stall == Stall::LostRequest);
        if let Some((_, by)) = lost {
            self.charge_wire(RuleId::ConnectLost, Cause::NetworkLoss, (connection, sender), by == blocked.span.side, from);
        } else if self.stood_still(&blocked, sender, &way) {
            self.charge_still(blocked.span.kind, from);
        } else {
            self.charge_transit(&way, sender, false)?;
        }
        let edge = Edge::Bytes { sent: send, connection, by };
        if send.end >= since {
            self.go(edge)
        } else {
            self.acts.push(Act::Along(edge))
        }
        Ok(())
    }

    /// Start of a wait, examined back to `instant`. In a wait at full speed, the stretches between losses of the processor are one wait.
    fn asks_since(&self, span: &LiveSpan, instant: i64) -> Answer<i64> {
        let mut since = span.start;
        if !span.is_fruitless() || span.is_made_up() || instant >= since {
            return Ok(since);
        }
        self.ensure(instant)?;
        for before in self.lane().ahead.iter().filter(|before| before.is_activity()) {
            let goes_on = before.kind == SpanKind::WaitRunqueue || before.is_fruitless() && before.connection == span.connection;
            if !goes_on || before.end < since - limits::BETWEEN_STRETCHES_NS || since <= instant {
                break;
            }
            since = since.min(before.start);
        }
        Ok(since)
    }

    /// Whether the walk's thread already had the sent bytes before a wait on the same connection began. True if offsets are not known.
    fn had_come(&self, span: &LiveSpan, send: &Carried) -> Answer<bool> {
        self.ensure(send.end)?;
        let receives =
            |before: &&LiveSpan| before.kind == SpanKind::NetReceive && before.connection == span.connection && before.bytes() > 0;
        let before = self.lane().ahead.iter().find(receives);
        Ok(before.is_some_and(|before| {
            let positions_known = before.offset_bytes != ABSENT && send.offset_bytes != ABSENT;
            if positions_known { send.offset_bytes < before.offset_bytes + before.bytes() } else { before.end >= send.end }
        }))
    }

    /// Whether a thread has more to send at the walk's instant, and waits for room.
    fn waits_for_room(&mut self, track: u32, connection: u32) -> bool {
        self.settle(track);
        let lane = &self.feed.lanes[track as usize];
        lane.innermost().is_some_and(|s| {
            let may_poll = s.kind == SpanKind::WaitNetwork || s.kind == SpanKind::WaitLock && !self.is_walkable(s.waker);
            let polls = may_poll && threads::waited_for_room(&lane.passed, connection);
            s.ending_seen() && (s.kind == SpanKind::NetSend && s.connection == connection || polls)
        })
    }

    /// Whether a message waited for a stopped receiver. If wakers were recorded, so are stops.
    fn stood_still(&mut self, blocked: &Blocked, peer: u32, way: &Transit) -> bool {
        let same_machine = self.tables.actors[peer as usize].machine == self.actor().machine;
        let object = self.tables.objects.get(blocked.span.object as usize);
        let emulated = object.is_some_and(|object| object.attribute("emulated").is_some());
        let near = match same_machine {
            true if self.tables.is_within_machine(way.connection) && !emulated => Near::Loopback,
            true => Near::Machine,
            false => Near::No,
        };
        !blocked.span.ending_seen() && self.facts.wire.is_stall(way, near, &mut self.memory.usual_lags)
    }

    /// The send from the other end of the span's connection that ended the wait: if both ends record offsets, the send with the awaited
    /// byte; else the latest that began before the walk's instant, of the same request if both ends record it, and recent enough to matter.
    pub(super) fn find_send(&mut self, receive: &LiveSpan) -> Answer<Option<Carried>> {
        if receive.connection == NONE {
            return Ok(None);
        }
        let other = receive.side.other() as usize;
        let awaited = (receive.offset_bytes != ABSENT).then(|| receive.offset_bytes.saturating_add(receive.bytes().max(1) - 1));
        let traffic = &self.feed.traffic[receive.connection as usize][other];
        if let Some(send) = awaited.and_then(|position| traffic.send_of(position)) {
            return Ok(Some(*send));
        }
        let latest = traffic.latest_send(self.at, receive.start, receive.request).copied();
        let waits_for_offset = awaited.is_some_and(|p| !traffic.sends.is_empty() && !traffic.is_known_from(p));
        let enough = latest.is_some_and(|s| !waits_for_offset || s.offset_bytes == ABSENT);
        if enough || self.feed.position < receive.start || self.cannot_look_further() {
            return Ok(latest);
        }
        self.more()
    }

    /// Connecting is a round trip, unless the request was lost; or its listener had no room: then to the thread that should accept it.
    pub(super) fn connect(&mut self, span: &LiveSpan) -> Answer<()> {
        if self.goes_to_acceptor(span)? {
            return Ok(());
        }
        let from = self.piece_start(span).max(self.start);
        let (stall, sender) = self.facts.wire.connecting(span.connection, (span.start, span.end)).unzip();
        let lost = stall.is_none() && self.facts.wire.lost_on_the_way(span.connection, (span.start, span.end));
        let stall = stall.or(lost.then_some(Stall::LostRequest)).map(|stall| self.within_machine(stall, span.connection));
        if stall == Some(Stall::AcceptQueue)
            && !self.circling
            && let Some(accepts) = self.living_party(span.connection, span.side.other())
        {
            self.jump(accepts);
            return Ok(());
        }
        let (cause, rule) = match stall {
            Some(Stall::LostRequest) => (Cause::NetworkLoss, RuleId::ConnectLost),
            Some(Stall::AcceptQueue) => (Cause::ServerUnknown, RuleId::ConnectAcceptQueue),
            _ => (Cause::NetworkLatency, RuleId::ConnectRoundTrip),
        };
        // The thread that will serve it does nothing yet; if it is known, the path is the one to it.
        let known = self.parties(span.connection, span.side.other()).first().copied().filter(|_| cause.is_network());
        let peer = known.unwrap_or(NONE);
        let sending = sender.is_none_or(|sender| sender == span.side);
        self.charge_wire(rule, cause, (span.connection, peer), sending, from);
        Ok(())
    }

    /// Blocked on a connection: to the thread at its other end, whatever that does now.
    pub(super) fn follow_connection(&mut self, blocked: Blocked) -> Answer<()> {
        if self.goes_to_acceptor(&blocked.span)? {
            return Ok(());
        }
        let (connection, other) = (blocked.span.connection, blocked.span.side.other());
        let traffic = self.feed.traffic.get(connection as usize).map(|t| &t[other as usize]);
        let last = traffic.and_then(|t| t.party(self.at)).filter(|&peer| !self.is_outside_its_life(peer));
        let peer = last.or_else(|| self.living_party(connection, other)).or_else(|| self.parties(connection, other).first().copied());
        let Some(peer) = peer else {
            if connection != NONE && self.feed.position >= blocked.span.start && !self.cannot_look_further() {
                return self.more();
            }
            return self.far_end_unknown(&blocked);
        };
        self.meet(blocked, peer)
    }

    /// This thread is blocked on a connection, and `peer` is at its other end: if the peer is blocked on the connection too, the bytes are
    /// on the wire; else the peer's activity is what is waited for.
    fn meet(&mut self, blocked: Blocked, peer: u32) -> Answer<()> {
        let connection = blocked.span.connection;
        let Some(mut theirs) = self.innermost_of(peer) else {
            // A receive that finds nothing polls.
            let span = &blocked.span;
            let connects = matches!(span.kind, SpanKind::WaitNetwork | SpanKind::NetConnect) || span.is_fruitless();
            let asked_again = self.facts.wire.stalls.connecting(connection, blocked.span.start, blocked.span.end);
            let dropped = asked_again == Some(Stall::AcceptQueue);
            let was_there = matches!(self.facts.lives[peer as usize].from, Some((_, Beginning::Seen)));
            if connects && !dropped && (!was_there || asked_again.is_some()) && blocked.span.side == End::Client && !self.has_begun(peer)? {
                // No thread serves the connection yet: it is being established.
                let from = self.piece_start(&blocked.span).max(self.start);
                let way = Transit { connection, sender: End::Client, start: from, end: self.at, bytes: 0, sent: None };
                if self.at - from > self.longest_transit_ns(&blocked, &way, peer) {
                    return self.far_end_unknown(&blocked);
                }
                self.charge_transit(&way, peer, true)?;
                return Ok(());
            }
            return self.meet_elsewhere(blocked, peer, self.at);
        };
        let passed = self.feed.lanes[peer as usize].passed;
        // A wait that ended by its own timer was not for what came next.
        if theirs.kind == SpanKind::WaitNetwork && theirs.connection == NONE && !theirs.timed_out() {
            // An ordinary user's recording has no connection of a poll: it was for what the thread took next.
            let took = self.tables.wakers_inferred && passed.receive.1 != NONE && passed.receive.0 <= passed.wait.0;
            theirs = self.on_connection(theirs, if took { passed.receive.1 } else { passed.wait.1 });
        }
        let on_connection = theirs.connection == connection && matches!(rule(theirs.kind), Rule::Send | Rule::Receive);
        if !on_connection {
            // A thread that polls at full speed has no answer yet when it loses its processor.
            let acted_at = if blocked.span.is_fruitless() { self.at } else { self.last_act(peer, &blocked.span) };
            return self.meet_elsewhere(blocked, peer, acted_at);
        }
        let (blocked_until, _) = wait_parts(&theirs);
        if self.at > blocked_until && !self.circling {
            self.go(peer_of(&blocked, peer));
            return Ok(());
        }
        let from = theirs.start.max(blocked.span.start).max(self.start).min(self.at - 1);
        let (own_side, peer_side) = (blocked.span.side, blocked.span.side.other());
        let they_send = rule(theirs.kind) == Rule::Send;
        // Of two threads that wait for bytes, the later one has sent something before.
        let sending = blocked.for_room || !they_send && theirs.start <= blocked.span.start;
        let bytes = under_way(theirs.bytes(), blocked.span.bytes());
        let bytes = if bytes == 0 && (blocked.for_room || they_send) { MANY_BYTES } else { bytes };
        let sender = if sending { own_side } else { peer_side };
        let way = Transit { connection, sender, start: from, end: self.at, bytes, sent: None };
        if self.stood_still(&blocked, peer, &way) {
            if own_side == End::Client {
                self.jump(peer);
            }
            self.charge_still(theirs.kind, from);
        } else if self.at - from > self.longest_transit_ns(&blocked, &way, peer) {
            return self.meet_idle(blocked, peer, from);
        } else {
            self.charge_transit(&way, peer, blocked.for_room)?;
        }
        // The thread that came to the connection later was the one waited for.
        let track = if theirs.start > blocked.span.start { peer } else { blocked.span.track };
        if track == self.track {
            self.acts.push(Act::Along(peer_of(&blocked, peer)));
        } else {
            self.go(peer_of(&blocked, track));
        }
        Ok(())
    }

    /// Charges the wire with the bytes' transit, by what TCP recorded of it.
    fn charge_transit(&mut self, way: &Transit, peer: u32, sending: bool) -> Answer<()> {
        let (cause, rule) = self.facts.wire.decided(way);
        if let Some(carrier) = self.busy_carrier(way.connection, way.start)? {
            let cause = Activity::Cpu.at(self.tables.actors[carrier as usize].end);
            let place = self.labels.thread_place(carrier, What::Carrying, NONE);
            self.charge_at(RuleId::RunningTunnel, (cause, place), false, way.start);
            return Ok(());
        }
        self.charge_wire(rule, cause, (way.connection, peer), sending, way.start);
        Ok(())
    }

    /// Both threads wait for each other's bytes for longer than bytes can be in flight: another thread of the peer's process took what was
    /// sent and works on it; if none does, who should act is unknown.
    fn meet_idle(&mut self, blocked: Blocked, peer: u32, from: i64) -> Answer<()> {
        let works = if self.circling { None } else { self.running_sibling(peer, NONE) };
        if let Some(works) = works {
            self.infer(from);
            self.jump(works);
            return Ok(());
        }
        let side = blocked.span.side.other();
        let place = match side {
            End::Server => Place::FarEnd { seen_by: self.labels.label(self.track), connection: blocked.span.connection, side },
            End::Client => self.labels.thread_place(peer, What::Blocked(blocked.span.kind), NONE),
        };
        let cause = if side == End::Server { Cause::ServerUnknown } else { Cause::Unknown };
        self.charge_at_own(RuleId::NotTheNetwork, cause, place, from);
        Ok(())
    }

    /// Longest time, in ns, that bytes can have been in flight between two recorded ends, by TCP's figures.
    fn longest_transit_ns(&self, blocked: &Blocked, way: &Transit, peer: u32) -> i64 {
        let (cause, _) = self.facts.wire.decided(way);
        let same_machine = self.tables.actors[peer as usize].machine == self.actor().machine;
        let no_path = same_machine && self.facts.wire.is_no_path(way.connection).unwrap_or(self.tables.is_within_machine(way.connection));
        // Recorded switches give the end of a wait, even if its waker is unknown.
        let is_exact = if self.tables.wakers_inferred { self.tables.switches } else { blocked.span.ending_seen() };
        if !is_exact || !no_path || cause != Cause::NetworkLatency {
            return i64::MAX;
        }
        let held_back = self.facts.wire.stalls.held_back(way.connection) || limits::DELAYED_ACK_NS.contains(&way.length_ns());
        let grain_ns = if held_back { limits::HELD_BACK_NS } else { limits::IN_KERNEL_NS };
        let measured_ns = self.facts.wire.longest_ns(cause, way.connection, (way.start, way.end)).unwrap_or(0);
        // Replies that carry the acknowledgement of their request lengthen the round trips measured; the least one is the path's.
        let least_ns = self.facts.wire.within_kernel_ns(way.connection).filter(|_| self.tables.wakers_inferred);
        least_ns.map_or(measured_ns, |least_ns| least_ns.min(measured_ns)).saturating_add(grain_ns)
    }

    /// The span, attributed to this connection.
    pub(super) fn on_connection(&self, span: LiveSpan, connection: u32) -> LiveSpan {
        LiveSpan { connection, side: self.feed.side_of(self.tables, span.track, connection), ..span }
    }

    /// A request is lost within a machine where the queue of those to be accepted is full; filters on loopback are for tests, and only the
    /// kernel recorder tells them apart.
    fn within_machine(&self, stall: Stall, connection: u32) -> Stall {
        let queued = stall == Stall::LostRequest && self.tables.wakers_inferred && self.tables.is_within_machine(connection);
        if queued { Stall::AcceptQueue } else { stall }
    }

    fn meet_elsewhere(&mut self, blocked: Blocked, peer: u32, acted_at: i64) -> Answer<()> {
        if self.circling {
            let from = self.piece_start(&blocked.span);
            let sender = if blocked.for_room { blocked.span.side } else { blocked.span.side.other() };
            let (connection, bytes) = (blocked.span.connection, blocked.span.bytes());
            let way = Transit { connection, sender, start: from, end: self.at, bytes, sent: None };
            self.charge_transit(&way, peer, blocked.for_room)?;
            return Ok(());
        }
        if acted_at < self.at {
            self.charge_wire(RuleId::Transit, Cause::NetworkLatency, (blocked.span.connection, peer), blocked.for_room, acted_at);
        }
        self.go(peer_of(&blocked, peer));
        Ok(())
    }

    /// The other end was not recorded. What TCP at this end attributes to the network is the network's; the rest is the other end's: the
    /// server's unknown, or the client's, which did not send.
    pub(super) fn far_end_unknown(&mut self, blocked: &Blocked) -> Answer<()> {
        let span = &blocked.span;
        if self.was_answered_for(span) {
            return self.follow_waker(*span);
        }
        let from = self.piece_start(span).max(self.start);
        let connection = span.connection;
        self.acts.push(Act::Along(Edge::Far { connection, side: span.side.other() }));
        if let Some((client, since)) = self.handing.filter(|_| connection != NONE) {
            // It waits for the client that holds the lock.
            self.acts.push(Act::HandedOn);
            let (waiter, what) = (client, What::Blocked(span.kind));
            let place = Place::HeldElsewhere { waiter, holder: NONE, connection, what, object: NONE, by_session: false };
            let from = self.within_life(from.max(since));
            self.charge_at_own(RuleId::LockHandedUnrecorded, Activity::Lock.at(End::Client), place, from);
            return Ok(());
        }
        let came_about = !self.parties(connection, span.side.other()).is_empty();
        let asked_again = self.facts.wire.stalls.connecting(connection, span.start, span.end) == Some(Stall::LostRequest);
        let may_be_lost = !self.tables.is_within_machine(connection);
        if asked_again && came_about || may_be_lost && self.facts.wire.lost_on_the_way(connection, (span.start, span.end)) {
            self.charge_wire(RuleId::ConnectLost, Cause::NetworkLoss, (connection, NONE), true, from);
            return Ok(());
        }
        let bytes = if blocked.for_room { MANY_BYTES } else { span.bytes() };
        let way = Transit { connection, sender: span.side, start: from, end: self.at, bytes, sent: None };
        let own = self.feed.traffic.get(connection as usize).map(|both| &both[span.side as usize]);
        let sent = own.and_then(|own| own.latest_send(self.at, from, 0));
        let took = own.and_then(|own| own.latest_receive(from)).map_or(i64::MIN, |taken| taken.end);
        // A thread that sent just before it began to wait, or has taken nothing since, made a request.
        let asked = sent.is_some_and(|sent| sent.end >= (span.start - limits::JUST_SENT_NS).min(took));
        let seen = self.facts.wire.seen_from_one_end(&way, blocked.for_room, asked);
        if let Some(cause) = seen.filter(|&cause| !self.may_be_other_ends(cause, connection, from)) {
            self.charge_wire(RuleId::FarEndTcp, cause, (connection, NONE), blocked.for_room, from);
            return Ok(());
        }
        if let Some(since) = self.in_transit_since(blocked, from)? {
            self.charge_wire(RuleId::FarEndRoundTrip, Cause::NetworkLatency, (connection, NONE), false, since);
            if self.at <= from {
                return Ok(());
            }
        }
        if self.charge_under_way(blocked, from)? {
            return Ok(());
        }
        if self.stopped_in_vain(blocked, from) {
            return Ok(());
        }
        let cause = match span.side {
            End::Client => Cause::ServerUnknown,
            End::Server if connection != NONE => Cause::ClientThink,
            End::Server => Cause::Unknown,
        };
        if cause == Cause::ClientThink && self.tables.wakers_inferred {
            // Its activity is as unknown as a server's.
            self.infer(from);
        }
        self.acts.push(Act::Unrecorded(span.side, connection));
        let place = Place::FarEnd { seen_by: self.labels.label(self.track), connection, side: span.side.other() };
        let deed = self.next_deed()?;
        self.charge_at_own(RuleId::FarEnd, cause, place, self.within_life(from));
        self.acts.push(Act::Paused(deed));
        Ok(())
    }
}

/// The thread at the other end of the connection that a thread is blocked on.
fn peer_of(blocked: &Blocked, track: u32) -> Edge {
    Edge::Peer { track, connection: blocked.span.connection, side: blocked.span.side.other(), for_room: blocked.for_room }
}

/// Number of bytes waited for: of a large send and the small receive of its header, the header's.
fn under_way(one: u64, other: u64) -> u64 {
    [one, other].into_iter().filter(|&b| b > 0).min().unwrap_or(0)
}
