//! Nothing is charged to a thread outside its life. Before it, the walk goes to the thread that made it; the earlier activity of a thread
//! that existed before it was recorded is unknown.

use super::place::SleptFor;
use super::view::Facts;
use super::*;
use crate::limits::waits as limits;
use crate::observe::lives::Life;
use crate::observe::tables::Tables;

impl Facts {
    /// The instant to charge a thread from, no earlier than its life. The command's own thread exists from the start.
    pub(crate) fn within_life(&self, tables: &Tables, track: u32, from: i64) -> i64 {
        let floor = if track == tables.main { i64::MIN } else { self.lives.get(track as usize).map_or(i64::MIN, Life::floor) };
        from.max(floor)
    }
}

impl View<'_, '_, '_> {
    /// Whether the walk's instant precedes all that is known of a thread. The command's own thread exists from the start.
    pub(super) fn is_before_its_life(&self, track: u32) -> bool {
        track != self.tables.main && self.facts.lives.get(track as usize).is_some_and(|life| life.is_before(self.at))
    }

    /// Whether nothing can be charged to a thread at the walk's instant: it did not exist, or was not recorded.
    pub(super) fn is_outside_its_life(&self, track: u32) -> bool {
        track != self.tables.main
            && self.facts.lives.get(track as usize).is_some_and(|life| life.is_before(self.at) || life.is_over(self.at))
    }

    /// Whether this thread's creation is recorded, so that it existed before its first recorded action.
    pub(super) fn was_made(&self) -> bool {
        self.facts.lives[self.track as usize].made().is_some()
    }

    /// The instant to charge this thread from, no earlier than its life.
    pub(super) fn within_life(&self, from: i64) -> i64 {
        self.facts.within_life(self.tables, self.track, from)
    }

    /// Before what is known of this thread: to its maker; else (also past its end) to the thread that waits for it, whose wait until now is
    /// unknown.
    pub(super) fn outside_life(&mut self) -> Answer<()> {
        if let Some((_, by)) = self.facts.lives[self.track as usize].made()
            && self.tables.actors.get(by as usize).is_some_and(|a| a.thread)
            && self.is_before_its_life(self.track)
            && !self.circling
        {
            self.jump(by);
            return Ok(());
        }
        let unseen = self.track;
        let waiter = self.starter();
        self.ensure(self.at)?;
        let waits = self.innermost_of(waiter).filter(|s| is_idle_wait(s) && s.end >= self.at);
        // If another thread ended the wait, its own end shows it.
        let waits = waits.filter(|s| s.waker == unseen || s.waker == waiter || !self.is_walkable(s.waker)).map(|s| s.start);
        let from = if self.circling { Some(self.feed.position) } else { waits };
        if let Some(from) = from {
            self.charge_unseen(unseen, from)?;
        }
        self.jump(waiter);
        Ok(())
    }

    /// Charges the activity of a thread before it was recorded. If it took as long as each later sleep of its process, it slept.
    fn charge_unseen(&mut self, unseen: u32, from: i64) -> Answer<()> {
        let length = self.at.saturating_sub(from);
        let slept = self.tables.process(unseen).and_then(|process| self.memory.slept.get(&process)).copied();
        let alike = slept.is_some_and(|(count, least, most)| {
            let part = least / limits::SLEPT_ALIKE_PART;
            count > 1 && most - least <= part && (length - most).abs() <= part
        });
        if !alike || self.circling || from < self.start {
            self.charge_at_own(RuleId::Unseen, self.unknown_of(unseen), Place::Unseen { track: unseen }, from);
            return Ok(());
        }
        let deed = self.next_deed()?;
        self.infer(from);
        let place = self.labels.thread_place(unseen, What::Blocked(SpanKind::WaitTimer), NONE);
        self.charge_at_own(RuleId::UnseenAsleep, Activity::Think.at(self.tables.actors[unseen as usize].end), place, from);
        self.acts.extend([Act::Slept(SleptFor::Answer, length), Act::Paused(deed)]);
        Ok(())
    }

    /// Notes the length of a process's sleep.
    pub(super) fn note_sleep(&mut self, span: &LiveSpan) {
        let (Some(process), ns) = (self.tables.process(self.track), span.end - span.start) else { return };
        let (count, least, most) = self.memory.slept.get(&process).copied().unwrap_or((0, i64::MAX, 0));
        self.memory.slept.insert(process, (count + 1, least.min(ns), most.max(ns)));
    }

    /// The cause of an unrecorded thread's activity.
    pub(super) fn unknown_of(&self, unseen: u32) -> Cause {
        let serves = self.tables.actors.get(unseen as usize).is_some_and(|a| a.end == End::Server);
        if serves { Cause::ServerUnknown } else { Cause::Unknown }
    }
}
