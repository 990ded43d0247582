//! A mount that recorded itself: threads of a pool that take requests of programs of which nothing is recorded.
//!
//! There is no command whose thread the walk could begin on. Whatever thread it stands on, while that one waits for a request it goes on
//! with one that works on a request; while none does, nobody asked for anything, and it goes on with who answered last.

use super::*;

impl View<'_, '_, '_> {
    /// Stands in a wait for the next request (all of it a pause as far as is known): whether it was dealt with.
    pub(super) fn idle_in_pool(&mut self, span: &LiveSpan) -> Answer<bool> {
        let (tables, own) = (self.tables, self.track);
        let is_mount = |track: u32| tables.actors.get(track as usize).is_some_and(|actor| actor.mount);
        if span.waker != NONE || !is_mount(own) || !is_mount(tables.main) || self.circling {
            return Ok(false);
        }
        let of_pool = |&track: &u32| track != own && is_mount(track) && tables.process(track) == tables.process(own);
        // What a thread did before is known once one of its earlier spans was read, or all of the wait.
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
