//! Nothing is charged to a thread outside of its life. Before it, the walk goes to who made the thread; of one that was there before it was
//! recorded, what it did earlier is not known.

use super::place::SleptFor;
use super::view::Facts;
use super::*;
use crate::limits::waits as limits;
use crate::observe::lives::Life;
use crate::observe::tables::Tables;

impl Facts {
    /// An instant to charge a thread from, no earlier than its life. The command's own is there from the start.
    pub(crate) fn within_life(&self, tables: &Tables, track: u32, from: i64) -> i64 {
        let floor = if track == tables.main { i64::MIN } else { self.lives.get(track as usize).map_or(i64::MIN, Life::floor) };
        from.max(floor)
    }
}

impl View<'_, '_, '_> {
    /// Whether an instant of the walk's lies before all that is known of a thread. The command's own is there from the start.
    pub(super) fn is_before_its_life(&self, track: u32) -> bool {
        track != self.tables.main && self.facts.lives.get(track as usize).is_some_and(|life| life.is_before(self.at))
    }

    /// Whether nothing of a thread can be charged at the walk's instant, since it was not there, or nothing was recorded of it.
    pub(super) fn is_outside_its_life(&self, track: u32) -> bool {
        track != self.tables.main
            && self.facts.lives.get(track as usize).is_some_and(|life| life.is_before(self.at) || life.is_over(self.at))
    }

    /// Whether it is known that this thread was made, and so was there within its life before it did anything that was recorded.
    pub(super) fn was_made(&self) -> bool {
        self.facts.lives[self.track as usize].made().is_some()
    }

    /// An instant to charge this thread from, no earlier than its life.
    pub(super) fn within_life(&self, from: i64) -> i64 {
        self.facts.within_life(self.tables, self.track, from)
    }

    /// At the beginning of what is known of this thread: to who made it; else (also past its end) to who waits for it, whose wait until now is
    /// not known.
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
        // Of a wait that somebody else ended its own end shows it.
        let waits = waits.filter(|s| s.waker == unseen || s.waker == waiter || !self.is_walkable(s.waker)).map(|s| s.start);
        let from = if self.circling { Some(self.feed.position) } else { waits };
        if let Some(from) = from {
            self.charge_unseen(unseen, from)?;
        }
        self.jump(waiter);
        Ok(())
    }

    /// Charges what a thread did before anything was recorded of it. Where it took as long as its process slept each time afterwards, it slept.
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

    /// Remembers how long a process slept.
    pub(super) fn note_sleep(&mut self, span: &LiveSpan) {
        let (Some(process), ns) = (self.tables.process(self.track), span.end - span.start) else { return };
        let (count, least, most) = self.memory.slept.get(&process).copied().unwrap_or((0, i64::MAX, 0));
        self.memory.slept.insert(process, (count + 1, least.min(ns), most.max(ns)));
    }

    /// The cause of what a thread did that was not recorded then.
    pub(super) fn unknown_of(&self, unseen: u32) -> Cause {
        let serves = self.tables.actors.get(unseen as usize).is_some_and(|a| a.end == End::Server);
        if serves { Cause::ServerUnknown } else { Cause::Unknown }
    }
}
