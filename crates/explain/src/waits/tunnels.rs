//! Programs that carry connections (a VPN, a user-space tunnel) and are saturated. Their work on each packet is part of its transit: if
//! they computed for nearly all of the time in which bytes were in flight, no link delayed those.

use super::*;
use crate::limits::waits as limits;

impl View<'_, '_, '_> {
    /// Notes a thread that carries a connection: it ended a wait for it, and its process takes no part in it.
    pub(super) fn note_carrier(&mut self, waker: u32, connection: u32) {
        let is_program = matches!(self.tables.actors[waker as usize].role, Role::Client | Role::Server);
        if !is_program || !self.carries(waker, connection) {
            return;
        }
        let known = self.memory.carried.entry(connection).or_default();
        if !known.contains(&waker) && known.len() < limits::CARRIERS {
            known.push(waker);
        }
    }

    /// The program that carries the connection of bytes in flight since `from`, if it worked for nearly all of that time. One that waits
    /// for another carrier's packets passes the question on.
    pub(super) fn busy_carrier(&mut self, connection: u32, from: i64) -> Answer<Option<u32>> {
        let Some(mut carriers) = self.memory.carried.get(&connection).cloned() else { return Ok(None) };
        // An end of the connection, once met as such, carries nothing.
        carriers.retain(|&carrier| self.carries(carrier, connection));
        if from >= self.at {
            return Ok(None);
        }
        self.ensure(from)?;
        let mut next = 0;
        let mut best: Option<(i64, u32)> = None;
        while let Some(&carrier) = carriers.get(next) {
            next += 1;
            self.settle(carrier);
            let (idle_ns, wakers) = self.idle_within(carrier, from);
            best = best.into_iter().chain([(idle_ns, carrier)]).min();
            for waker in wakers {
                if !carriers.contains(&waker) && carriers.len() < limits::CARRIERS && self.carries(waker, connection) {
                    carriers.push(waker);
                }
            }
        }
        Ok(best.filter(|&(idle_ns, _)| idle_ns * limits::CARRIER_IDLE_PART <= self.at - from).map(|(_, carrier)| carrier))
    }

    /// How long a thread waited from an instant to the walk's, in ns, and who ended those waits.
    fn idle_within(&self, track: u32, from: i64) -> (i64, Vec<u32>) {
        let lane = &self.feed.lanes[track as usize];
        let spans = lane.open.iter().chain(lane.ahead.iter().take_while(|s| s.end > from));
        let waits = spans.filter(|s| s.cpu_ns == 0 && !matches!(s.kind, SpanKind::WaitRunqueue) && s.end > s.start && !s.is_container());
        let (mut idle_ns, mut wakers) = (0, Vec::new());
        for wait in waits {
            idle_ns += wait.end.min(self.at) - wait.start.max(from);
            if wait.waker != NONE && !wakers.contains(&wait.waker) {
                wakers.push(wait.waker);
            }
        }
        (idle_ns.max(0), wakers)
    }
}
