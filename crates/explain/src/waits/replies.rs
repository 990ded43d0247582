//! The network's part of a wait for an end that was not recorded: what this end alone shows of it. A reply takes at least one round trip
//! from its request; one that takes no longer was in transit all the time.

use super::*;
use crate::limits::waits as limits;
use crate::observe::feed::Carried;

impl View<'_, '_, '_> {
    /// Since when, in a wait from `from` until now, the request or its reply were in transit: for one round trip before the reply came; since
    /// the request, if the reply came a round trip after it. `None` if the wait is not for a reply, or the path is not known.
    pub(super) fn in_transit_since(&self, blocked: &Blocked, from: i64) -> Answer<Option<i64>> {
        let Blocked { span, for_room } = *blocked;
        let Some(round_trip_ns) = self.facts.wire.least_round_trip_ns(span.connection, span.side).filter(|_| !for_room) else {
            return Ok(None);
        };
        let longest_ns = round_trip_ns + round_trip_ns / limits::ON_TIME_PART + limits::ON_TIME_NS;
        self.ensure(from - longest_ns)?;
        let Some(traffic) = self.feed.traffic.get(span.connection as usize).map(|both| &both[span.side as usize]) else {
            return Ok(None);
        };
        // A wait in pieces ends when the thread takes the bytes.
        let takes_itself = span.kind == SpanKind::NetReceive && span.bytes() > 0;
        let taken = traffic.receives.iter().filter(|taken| has_bytes(taken) && taken.end > self.at).map(|taken| taken.start.max(self.at));
        let came = if takes_itself { Some(self.at) } else { taken.min() };
        let Some(came) = came.or((!span.timed_out()).then_some(self.at)) else { return Ok(None) };
        let took = traffic.latest_receive(from).map_or(i64::MIN, |taken| taken.end);
        let Some(sent) = traffic.sends.iter().filter(|sent| sent.start < came && has_bytes(sent)).map(|sent| sent.end).max() else {
            return Ok(None);
        };
        // What comes sooner answers an earlier request: of several under way, it is not known which.
        let can_be_answered = came - sent >= round_trip_ns / 10 * limits::ANSWERED_TENTHS;
        let on_time = came - sent <= longest_ns;
        // Bytes that come while nothing is asked are those of a stream.
        if !can_be_answered || !on_time && sent < took {
            return Ok(None);
        }
        let since = if on_time { sent } else { came - round_trip_ns };
        Ok(Some(since.max(from)).filter(|&since| since < self.at))
    }

    /// Charges the network with what the end that was not recorded had given to TCP, and with a segment that was missing while later ones
    /// had arrived. Returns whether nothing is left of the wait.
    pub(super) fn charge_under_way(&mut self, blocked: &Blocked, from: i64) -> Answer<bool> {
        let Blocked { span, for_room } = *blocked;
        if for_room || from >= self.at {
            return Ok(from >= self.at);
        }
        let (connection, within) = (span.connection, (from, self.at));
        let given = self.facts.wire.given_to_tcp(connection, span.side.other(), within);
        let missing = || self.facts.wire.missing_since(connection, span.side, within).map(|since| (since, Cause::NetworkLoss, true));
        let rule = if given.is_some() { RuleId::FarEndGiven } else { RuleId::FarEndMissing };
        let Some((since, cause, is_certain)) = given.or_else(missing).filter(|found| !self.may_be_other_ends(found.1, connection, from))
        else {
            return Ok(false);
        };
        if !is_certain {
            self.infer(since);
        }
        self.charge_wire(rule, cause, (connection, NONE), false, since);
        Ok(self.at <= from)
    }
}

fn has_bytes(carried: &Carried) -> bool {
    carried.size_bytes > 0
}
