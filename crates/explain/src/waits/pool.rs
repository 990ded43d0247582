//! A mount that recorded itself: pool threads that take requests of unrecorded programs.
//!
//! The walk has no command thread to begin on. While its thread waits for a request, it continues with a thread that works on one; while no
//! thread does, there were no requests, and it continues with the last thread that answered.

use super::*;

impl View<'_, '_, '_> {
    /// In a wait for the next request (all of it a pause, as far as known): returns whether it was handled.
    pub(super) fn idle_in_pool(&mut self, span: &LiveSpan) -> Answer<bool> {
        let (tables, own) = (self.tables, self.track);
        let is_mount = |track: u32| tables.actors.get(track as usize).is_some_and(|actor| actor.mount);
        if span.waker != NONE || !is_mount(own) || !is_mount(tables.main) || self.circling {
            return Ok(false);
        }
        let of_pool = |&track: &u32| track != own && is_mount(track) && tables.process(track) == tables.process(own);
        // A thread's earlier activity is known once one of its earlier spans, or all of the wait, was read.
        self.ensure(span.start)?;
        let mut working = None;
        let mut answered = None;
        for track in tables.workers().filter(of_pool) {
            self.settle(track);
            let lane = &self.feed.lanes[track as usize];
            match lane.innermost() {
                Some(inner) if inner.kind != SpanKind::WaitTimer => working = working.max(Some((inner.start, track))),
                _ => answered = answered.max(lane.previous().map(|p| (p.end, track))),
            }
        }
        if let Some((_, track)) = working {
            self.jump(track);
            return Ok(true);
        }
        let answered = answered.filter(|&(end, _)| end > span.start && end < self.at);
        let from = answered.map_or(self.piece_start(span), |(end, _)| end);
        self.charge_thread(RuleId::MountIdle, Activity::Think, What::Blocked(span.kind), NONE, from);
        if let Some((_, track)) = answered {
            self.jump(track);
        }
        Ok(true)
    }
}
