//! A thread's own activity: running, file calls with their devices, queueing for a processor.

use super::rules::grain_ns;
use super::*;
use crate::limits::waits as limits;

impl View<'_, '_, '_> {
    /// Work: running, runnable and blocked in proportion to the span's own totals.
    pub(super) fn work(&mut self, span: &LiveSpan, running: Activity, blocked: Activity) -> Answer<()> {
        let from = self.piece_start(span).max(self.start);
        let ran = span.division().is_some_and(|(_, runqueue, waited)| runqueue + waited == 0);
        let Some(from) = (if ran { self.outside_holes(from) } else { Some(from) }) else { return Ok(()) };
        let Some((cpu, runqueue, waited)) = span.division() else {
            // Merged calls that never blocked ran; of a single call, only its duration is known.
            let ran = span.count > 1 || running == blocked;
            if ran || blocked == Activity::Memory {
                let in_call = if ran { RuleId::Running } else { in_blocked(blocked) };
                self.charge_thread(in_call, running, What::Running(span.kind), span.object, from);
                return Ok(());
            }
            return self.charge_blocked(blocked, span, from);
        };
        if cpu > 0 && waited + runqueue > 0 && self.has_parts(span)? {
            let from = self.piece_start(span).max(self.start);
            self.charge_thread(RuleId::RunningBetweenWaits, running, What::Running(span.kind), span.object, from);
            return Ok(());
        }
        // A kernel lock that another thread held; or a kernel thread did the call's work.
        let of_kernel = |waker: u32| self.tables.actors[waker as usize].role == Role::Kernel;
        if cpu == 0 && self.is_walkable(span.waker) && !of_kernel(span.waker) && !self.circling {
            return self.follow_waker(*span);
        }
        if blocked == Activity::Write && cpu == 0 && span.device != NONE && self.device_read(span.device, span.end) {
            // The data to write had to be read first (from a mapped file, or another file that the call copies from).
            let object = self.device_thing(span.device);
            self.charge_thread(RuleId::FileReadForWrite, Activity::Read, What::Blocked(SpanKind::FileRead), object, from);
            return Ok(());
        }
        let still =
            blocked == Activity::Memory && waited >= limits::STILL_NS && !span.ending_seen() || self.frozen_in_file_call(span, waited)?;
        let (cpu, waited) = if waited <= grain_ns(span) && !span.ending_seen() { (cpu + waited, 0) } else { (cpu, waited) };
        let part = |ns: u64| (i128::from(self.at - from) * i128::from(ns) / i128::from(span.duration_ns().max(1))) as i64;
        let (cpu_part, runqueue_part) = (part(cpu), part(runqueue));
        let blocked_from = if waited == 0 { from } else { self.at - cpu_part - runqueue_part };
        let runqueue_from = if runqueue == 0 { blocked_from } else { self.at - cpu_part };
        self.charge_running(running, span, runqueue_from);
        self.charge_thread(RuleId::RunnableInSpan, Activity::Runqueue, What::Runnable, NONE, blocked_from);
        if still {
            self.charge_still(span.kind, from);
            return Ok(());
        }
        self.charge_blocked(blocked, span, from)
    }

    /// Whether a device's completion at an instant was a read.
    fn device_read(&mut self, device: u32, at: i64) -> bool {
        self.settle(device);
        let lane = &self.feed.lanes[device as usize];
        let near = lane.open.iter().chain(lane.ahead.iter().take(16)).filter(|s| s.end.abs_diff(at) <= limits::COMPLETION_NEAR_NS as u64);
        near.min_by_key(|s| s.end.abs_diff(at)).is_some_and(|s| s.kind == SpanKind::DiskRead)
    }

    /// Whether a call's waits are spans of their own, so that the rest is running.
    pub(super) fn has_parts(&mut self, span: &LiveSpan) -> Answer<bool> {
        if self.memory.parts_of.0 == span.id {
            return Ok(self.memory.parts_of.1);
        }
        let has = self.lane().ahead.iter().take_while(|s| s.end > span.start).any(|s| s.parent == span.id && s.is_activity());
        if !has && self.feed.position >= span.start && !self.cannot_look_further() {
            return self.more();
        }
        self.memory.parts_of = (span.id, has);
        Ok(has)
    }

    /// Whether a read or write was blocked not by its device but with its whole process: for longer than any device takes for one call,
    /// while no thread of the process began or ended anything.
    fn frozen_in_file_call(&mut self, span: &LiveSpan, waited: u64) -> Answer<bool> {
        let (own, process) = (self.track as usize, (self.actor().machine, self.actor().pid));
        let one_call = matches!(span.kind, SpanKind::FileRead | SpanKind::FileWrite) && span.bytes() <= limits::ONE_CALL_BYTES;
        if waited < limits::FROZEN_NS || !one_call || process.1 == 0 || span.ending_seen() {
            return Ok(false);
        }
        self.ensure(span.start)?;
        let within = (span.start + limits::FROZEN_EDGE_NS)..(self.at - limits::FROZEN_EDGE_NS);
        let others = self.tables.actors.iter().zip(&self.feed.lanes).enumerate();
        let others = others.filter(|(track, (actor, _))| *track != own && (actor.machine, actor.pid) == process);
        let mut spans = others.flat_map(|(_, (_, lane))| lane.open.iter().chain(&lane.ahead)).peekable();
        let alive = spans.peek().is_some();
        Ok(alive && !spans.any(|s| within.contains(&s.start) || within.contains(&s.end)))
    }

    /// For a stretch without a wait from `from` on: since when samples found the thread running, up to the walk's instant. `None` if they
    /// did not; the time is then unknown, and charged so.
    pub(super) fn outside_holes(&mut self, from: i64) -> Option<i64> {
        let machine = self.actor().machine;
        let from = self.within_life(from.max(self.start));
        match self.facts.holes.last(self.track, machine, from, self.at) {
            Ok(since) => Some(since),
            Err(since) => {
                let hole = Place::Hole { label: self.labels.label(self.track) };
                self.charge_at_own(RuleId::Unsampled, Cause::Unknown, hole, since);
                None
            }
        }
    }

    /// Charges the time that a container's parts do not cover as running, up to the container's own run time.
    pub(super) fn container(&mut self, span: &LiveSpan) {
        let from = self.piece_start(span).max(self.start);
        let most = span.division().map_or(i64::MAX, |(cpu, _, _)| cpu as i64);
        let stood_still = self.at - from > most.saturating_add(limits::STILL_NS as i64);
        let ran_from = if stood_still { self.at - most } else { from };
        self.charge_thread(RuleId::RunningContainer, Activity::Cpu, What::Running(span.kind), NONE, ran_from);
        if stood_still {
            self.charge_still(span.kind, from);
        }
    }

    /// Runnable, while another thread held the processor. While a recorder thread held one of the machine's processors, that processor was
    /// the missing one.
    pub(super) fn queued(&mut self, span: &LiveSpan) -> Answer<()> {
        let from = self.piece_start(span).max(self.start).max(self.last_received_at());
        let by_recorder = self.tables.actors.get(span.waker as usize).is_some_and(|a| a.role == Role::Recorder);
        let (recording, from) = if by_recorder { (true, from) } else { self.recorder_ran(from) };
        let length = self.at - from;
        if recording {
            self.charge_thread_as(RuleId::RecorderQueue, Cause::Recorder, What::Runnable, NONE, from);
        } else {
            // Held by other threads, or by a control group's quota.
            self.charge_thread(RuleId::Runnable, Activity::Runqueue, What::Runnable, span.object, from);
        }
        if span.waker != NONE {
            self.acts.push(Act::Holder(span.waker, length));
        }
        Ok(())
    }

    /// Whether the recorder ran on this thread's machine just before the walk's instant, and since when (at most since `from`) that has
    /// held.
    fn recorder_ran(&mut self, from: i64) -> (bool, i64) {
        let (machine, mut since, mut ran) = (self.actor().machine, from, false);
        for &recorder in &self.facts.recorders {
            if self.tables.actors[recorder as usize].machine != machine {
                continue;
            }
            self.settle(recorder);
            let lane = &self.feed.lanes[recorder as usize];
            if lane.passed.last_end < self.at && lane.open.is_empty() {
                // Earlier spans of it are not known.
                continue;
            }
            let position = self.feed.position;
            let (running, begun) = match lane.innermost() {
                Some(span) => (span.cpu_ns > 0 && !is_idle_wait(span), span.start),
                None => (lane.previous().is_some(), lane.previous().map_or(position, |p| p.end)),
            };
            since = since.max(begun.max(lane.previous().map_or(position, |p| p.end))).min(self.at - 1);
            ran |= running;
        }
        (ran, since)
    }
}
