//! Doubts about recordings without wakers, made without privilege. What such a recording does not show stays unknown, or counts as
//! inferred, so that no cause is named with confidence that may be another.

use super::*;
use crate::limits::waits as limits;

impl View<'_, '_, '_> {
    /// Whether the network cannot have taken from `from` until now, by TCP's figures and the connection's addresses: a machine's own
    /// connections delay nothing for long.
    pub(super) fn cannot_be_networks(&self, cause: Cause, (connection, peer): (u32, u32), from: i64) -> bool {
        if !self.tables.wakers_inferred || connection == NONE || !cause.is_network() {
            return false;
        }
        let round_trips_ns = self.facts.wire.longest_ns(Cause::NetworkLatency, connection, (from, self.at));
        // A program that does not read acknowledges late and lengthens round trips; the shortest one reveals it.
        let is_short = self.facts.wire.is_no_path(connection).unwrap_or(round_trips_ns.is_none_or(|ns| ns < limits::PATH_NS));
        let no_path = self.tables.is_within_machine(connection) && is_short;
        let nothing_under_way = self.tables.sampled && self.facts.wire.has_under_way(connection, (from, self.at)) == Some(false);
        let longest_ns = match self.facts.wire.longest_ns(cause, connection, (from, self.at)) {
            _ if cause == Cause::NetworkLoss => i64::MAX,
            _ if no_path && nothing_under_way => 0,
            Some(ns) if no_path => ns.min(limits::WITHIN_MACHINE_NS),
            None if no_path => 0,
            Some(ns) => ns,
            None => i64::MAX,
        };
        let grain_ns = if self.tables.sampled { limits::SAMPLED_WIRE_NS } else { limits::STAMPED_WIRE_NS };
        let may_hold_back = cause == Cause::NetworkLatency && peer != NONE && !nothing_under_way;
        // An acknowledgement is delayed for 40 ms, not for less.
        let may_hold_back = may_hold_back && !(self.tables.switches && no_path && self.at - from < limits::LEAST_HELD_BACK_NS);
        let held_back_ns = if may_hold_back && (no_path || !self.tables.sampled) { limits::HELD_BACK_NS } else { grain_ns };
        self.at - from > longest_ns.saturating_add(held_back_ns)
    }

    /// Whether what TCP records at one end of a connection alone may be the other end's doing: a machine's own bytes are lost if the
    /// receiver had no room.
    pub(super) fn may_be_other_ends(&self, cause: Cause, connection: u32, from: i64) -> bool {
        let own = self.tables.wakers_inferred && connection != NONE && self.tables.is_within_machine(connection);
        let lost = cause == Cause::NetworkLoss && own && self.facts.wire.is_no_path(connection) == Some(true);
        lost || self.cannot_be_networks(cause, (connection, NONE), from)
    }

    /// Charges what cannot have been the network's as unknown; returns `false` if it can have been.
    pub(super) fn charge_doubted_wire(&mut self, cause: Cause, ends: (u32, u32), sending: bool, from: i64) -> bool {
        let from = from.max(self.start).min(self.at);
        if !self.cannot_be_networks(cause, ends, from) {
            return false;
        }
        let kind = if sending { SpanKind::NetSend } else { SpanKind::NetReceive };
        let place = self.labels.thread_place(self.track, What::Blocked(kind), NONE);
        self.charge_at_own(RuleId::NotTheNetwork, Cause::Unknown, place, from);
        true
    }

    /// Blocked in a file call. Calls on files served by another program or machine are unknown; calls without a busy device may have waited
    /// for a lock.
    pub(super) fn charge_blocked(&mut self, activity: Activity, span: &LiveSpan, from: i64) -> Answer<()> {
        let what = What::Blocked(span.kind);
        let mut rule = in_blocked(activity);
        if self.tables.wakers_inferred && from < self.at {
            let file = self.tables.objects.get(span.object as usize);
            if file.is_some_and(|file| file.served_by().is_some()) {
                self.charge_thread_as(RuleId::FileElsewhere, Cause::Unknown, what, span.object, from);
                return Ok(());
            }
            if activity == Activity::Write
                && file.is_none_or(|file| file.attribute("direct").is_none())
                && let Some(device) = self.device_that_read(from)?
            {
                let thing = self.device_thing(device);
                self.charge_thread(RuleId::FileReadForWrite, Activity::Read, What::Blocked(SpanKind::FileRead), thing, from);
                return Ok(());
            }
            let file = self.tables.objects.get(span.object as usize);
            let certain = match activity {
                Activity::Read => self.device_worked(span.object, from)?,
                // Through the page cache it may have waited for pages to write from, or because too many are dirty.
                Activity::Write => file.is_some_and(|file| file.attribute("direct").is_some()) && self.device_worked(span.object, from)?,
                Activity::Metadata => span.object != NONE,
                _ => true,
            };
            if !certain {
                rule = RuleId::FileNoDevice;
                self.infer(from);
            }
        }
        // For calls on names, the device may be known, but not the file.
        let mut device = if span.device == NONE { self.device_of_helper(span) } else { span.device };
        let named = self.tables.objects.get(span.object as usize).filter(|file| file.attribute("filesystem") != Some("overlay"));
        if self.tables.wakers_inferred && named.is_none() && device == NONE {
            device = self.device_at_work(activity, from)?;
        }
        let on_device = self.device_thing(device);
        let object = if named.is_none() && on_device != NONE { on_device } else { span.object };
        self.charge_thread(rule, activity, what, object, from);
        Ok(())
    }

    /// The device that worked for most of the time from an instant until now, at what a call may have waited for; [`NONE`] if none did.
    fn device_at_work(&mut self, activity: Activity, from: i64) -> Answer<u32> {
        self.ensure(from)?;
        let fits = |kind: SpanKind| match activity {
            Activity::Read => kind == SpanKind::DiskRead,
            Activity::Write | Activity::Sync => matches!(kind, SpanKind::DiskWrite | SpanKind::DiskFlush),
            _ => true,
        };
        let devices: Vec<u32> = self.tables.device_objects.keys().copied().collect();
        let mut best = (0, NONE);
        for device in devices {
            self.settle(device);
            let lane = &self.feed.lanes[device as usize];
            let within = lane.open.iter().chain(lane.ahead.iter().take_while(|span| span.end > from)).filter(|span| fits(span.kind));
            let worked_ns: i64 = within.map(|span| (span.end.min(self.at) - span.start.max(from)).max(0)).sum();
            best = best.max((worked_ns, device));
        }
        let most = best.0 > 0 && best.0 >= (self.at - from) / 2;
        Ok(if most { best.1 } else { NONE })
    }

    /// The device that a kernel thread waited for which then ended a call's wait.
    fn device_of_helper(&mut self, span: &LiveSpan) -> u32 {
        let helps = self.tables.actors.get(span.waker as usize).is_some_and(|actor| actor.thread && actor.role == Role::Kernel);
        if !helps {
            return NONE;
        }
        self.settle(span.waker);
        let lane = &self.feed.lanes[span.waker as usize];
        let within = lane.open.iter().chain(lane.ahead.iter().take_while(|s| s.end > span.start));
        within.filter(|s| s.device != NONE).max_by_key(|s| s.end).map_or(NONE, |s| s.device)
    }

    /// Running in a file call. For a sampled thread, a call on names and attributes follows from being in the kernel and moving nothing.
    pub(super) fn charge_running(&mut self, activity: Activity, span: &LiveSpan, from: i64) {
        if self.tables.sampled && activity == Activity::Metadata && span.object == NONE && from < self.at {
            self.infer(from);
        }
        let what = if span.kind == SpanKind::CpuRun { What::OwnWork } else { What::Running(span.kind) };
        self.charge_thread(RuleId::Running, activity, what, span.object, from);
    }

    /// Whether a file's device worked from an instant until now, or shortly after, when it was sampled. If the file's device was not
    /// sampled (a file system over several), any of them.
    fn device_worked(&mut self, object: u32, from: i64) -> Answer<bool> {
        let file = self.tables.objects.get(object as usize);
        let (named, filesystem) = (file.and_then(|file| file.attribute("device")), file.and_then(|file| file.attribute("filesystem")));
        let is_named = |object: u32| self.tables.objects.get(object as usize).is_some_and(|object| Some(object.name.as_str()) == named);
        let own = self.tables.device_objects.iter().find(|(_, object)| is_named(**object)).map(|(&track, _)| track);
        let in_memory = own.is_none() && matches!(filesystem, Some("tmpfs" | "ramfs" | "proc" | "sysfs" | "devtmpfs"));
        // Or the file's file system is unknown.
        if in_memory || object != NONE && named.is_none() && filesystem.is_none() {
            return Ok(false);
        }
        let devices: Vec<u32> = own.map_or_else(|| self.tables.device_objects.keys().copied().collect(), |device| vec![device]);
        self.ensure(from)?;
        for device in devices {
            self.settle(device);
            let lane = &self.feed.lanes[device as usize];
            let within = lane.open.iter().chain(&lane.ahead).any(|span| span.end >= from);
            if within || lane.passed.acted.saturating_sub(self.at) <= limits::DEVICE_SAMPLES_NS {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The device that read from an instant until now, if devices hardly wrote then: what is written through the page cache waits for
    /// nothing but what it is copied from, until the cache is written back.
    fn device_that_read(&mut self, from: i64) -> Answer<Option<u32>> {
        self.ensure(from)?;
        let devices: Vec<u32> = self.tables.device_objects.keys().copied().collect();
        let (mut most, mut written) = (None, 0);
        for device in devices {
            self.settle(device);
            let lane = &self.feed.lanes[device as usize];
            let within = || lane.open.iter().chain(lane.ahead.iter().take_while(|span| span.end >= from));
            let bytes = |kind: SpanKind| within().filter(|span| span.kind == kind).map(LiveSpan::bytes).sum::<u64>();
            most = most.max(Some((bytes(SpanKind::DiskRead), device)));
            written += bytes(SpanKind::DiskWrite);
        }
        Ok(most.filter(|&(read, _)| read > 0 && read >= written * limits::READ_FOR_WRITE).map(|(_, device)| device))
    }

    /// A wait for no other thread: a sleep, or memory.
    pub(super) fn charge_wait(&mut self, span: &LiveSpan, activity: Activity) {
        let from = self.piece_start(span);
        let for_bytes = activity == Activity::Think && self.looks_for_bytes(span);
        if for_bytes {
            self.infer(from);
        }
        let rule = match activity {
            _ if for_bytes => RuleId::AsleepForBytes,
            Activity::Memory => RuleId::Memory,
            _ => RuleId::Asleep,
        };
        self.charge_thread(rule, activity, What::Blocked(span.kind), span.object, from);
    }

    /// Whether a sampled thread slept while it waited for bytes: it next took some from an existing connection that had no unread bytes.
    /// The sleep may be how the thread polls for them.
    pub(super) fn looks_for_bytes(&self, span: &LiveSpan) -> bool {
        let (receive, send) = (self.lane().passed.receive, self.lane().passed.send);
        if !self.tables.sampled || receive.1 == NONE || send.0 < receive.0 {
            return false;
        }
        let side = self.feed.side_of(self.tables, self.track, receive.1);
        self.facts.wire.had_unread(receive.1, side, (span.start, self.at)) == Some(false)
    }

    /// Whether a thread is in a wait that ended so soon after now that it may have ended before: ends of waits are known only to within the
    /// samples, or the time to end one.
    pub(super) fn ended_about_now(&self, track: u32) -> bool {
        let grain_ns = if self.tables.sampled { limits::SAMPLED_WAIT_NS } else { limits::STAMPED_WAIT_NS };
        let theirs = self.feed.lanes[track as usize].innermost().filter(|span| self.tables.wakers_inferred && is_idle_wait(span));
        theirs.is_some_and(|span| span.end > self.at && span.end - self.at <= grain_ns)
    }

    /// End of a thread, if before now and since an instant: its end may have ended the wait of a thread followed to it.
    pub(super) fn end_of_life(&self, track: u32, since: i64) -> Option<i64> {
        let until = self.facts.lives.get(track as usize).and_then(|life| life.until);
        until.filter(|&until| self.tables.wakers_inferred && until > since && until < self.at)
    }

    /// Two threads that wait for each other at one pipe or socket, each taken for the other's waker: one of them is not, and which one is
    /// unknown.
    pub(super) fn wait_for_each_other(&mut self, span: &LiveSpan, waker: u32) -> bool {
        if !self.tables.wakers_inferred || span.object == NONE {
            return false;
        }
        let theirs = self.feed.lanes[waker as usize].innermost().copied();
        let Some(theirs) = theirs.filter(|t| t.waker == self.track && t.object == span.object && is_idle_wait(t)) else { return false };
        let from = self.piece_start(span).max(theirs.start).max(self.start).min(self.at - 1);
        self.charge_thread_as(RuleId::EachOther, Cause::Unknown, What::Blocked(span.kind), span.object, from);
        // A thread that began to wait later did something before.
        if theirs.start > span.start {
            self.jump(waker);
        }
        true
    }

    /// Whether nothing shows that this thread ran from an instant until now: it made no call, in a recording with runs as spans and without
    /// switches.
    pub(super) fn is_unrecorded(&self, from: i64) -> bool {
        self.tables.wakers_inferred && !self.tables.sampled && !self.tables.switches && self.at - from >= limits::UNCOUNTED_RUN_NS
    }
}
