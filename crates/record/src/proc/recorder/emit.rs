//! Records threads' waits as they end, and the summary.

use super::SLOW_PART;
use super::sampler::{EndedWait, LONGEST_PAUSE, Sampler, Thread};
use crate::Finished;
use crate::proc::disks::whole_disk;
use crate::proc::divide::{Division, ThreadSample};
use crate::proc::waits::{Ender, Reason};
use crate::proc::wakers::ended_by;
use crate::worker::thread_cpu;
use thalweg_trace::{Event, Span, SpanId, SpanKind, Time, TrackId, WakerContext};

/// Minimum wait in an interval that is recorded.
const WORTH_RECORDING_NS: u64 = 20_000;

impl Sampler {
    /// The summary of the recording.
    pub(super) fn finished(&self, now: Time) -> Finished {
        if self.strangers.is_some() && !self.sampled_somebody {
            let cost = vec![("recorder.cpu_ns".to_owned(), thread_cpu().as_nanos().to_string())];
            return Finished { attributes: cost, ..Finished::default() };
        }
        let resolution_ns = now.since(self.first).checked_div(self.samples).unwrap_or(0);
        let ms = resolution_ns as f64 / 1e6;
        let mut notes = Vec::new();
        if !self.hidden.is_empty() {
            let names = self.hidden.iter().cloned().collect::<Vec<_>>().join(", ");
            notes.push(format!(
                "The waits of {names} have no reason, because their system calls cannot be read: record as root or as their user."
            ));
        }
        let disk = |number: &str| {
            let (major, minor) = number.split_once(':')?;
            whole_disk((major.parse().ok()?, minor.parse().ok()?)).map(|disk| disk.name)
        };
        let limits = self.groups.attributes(disk);
        if let Some(exact) = &self.exact {
            let mut finished = exact.finished();
            finished.attributes.extend(limits);
            return Finished { notes, ..finished };
        }
        let not_seen = format!(
            "Threads were sampled every {ms:.1} ms: the durations of waits are exact, their reasons are those seen in samples, and \
             wakers are recorded only if they are certain. Single device requests, and processes shorter than {} ms, were not seen.",
            SLOW_PART.as_millis()
        );
        let mut attributes = vec![
            ("not_seen".to_owned(), not_seen),
            ("wakers".to_owned(), "inferred".to_owned()),
            ("resolution_ns".to_owned(), resolution_ns.to_string()),
            ("recorder.cpu_ns".to_owned(), thread_cpu().as_nanos().to_string()),
        ];
        attributes.extend(limits);
        Finished { dropped_events: 0, attributes, notes }
    }

    /// Records what a thread did from the window's start to this sample.
    pub(super) fn divided(&mut self, pid: u32, tid: u32, thread: &mut Thread, to: ThreadSample) {
        let division = thread.window.divide(&to);
        let from = thread.window.from;
        let Division { first_ns, ended, unseen_ns, runqueue_ns, last_ns } = division;
        let mut at = from.at.plus_ns(first_ns as i64);
        if let Some(reason) = from.reason {
            let (reason, since) = thread.open.take().unwrap_or((reason, from.at));
            match ended {
                true => self.wait_ended(pid, tid, thread.track, (reason, since, at)),
                false => thread.open = Some((reason, since)),
            }
        }
        self.slept_besides(thread, &to, at, &division);
        let quota = self.quotas.took(pid, thread.track, from.at, runqueue_ns);
        let (group, took_ns) = quota.map_or((None, 0), |(group, ns)| (Some(group), ns));
        let queued = Reason::of(SpanKind::WaitRunqueue);
        let waits =
            [(Reason::of(SpanKind::WaitOther), unseen_ns), (Reason { object: group, ..queued }, took_ns), (queued, runqueue_ns - took_ns)];
        for (reason, ns) in waits.into_iter().filter(|(_, ns)| *ns > 0) {
            self.wait_ended(pid, tid, thread.track, (reason, at, at.plus_ns(ns as i64)));
            at = at.plus_ns(ns as i64);
        }
        let ran_ns = to.at.since(at).saturating_sub(last_ns);
        self.worked_on_names(thread, at, (ran_ns as f64 * thread.kernel.on_names) as u64);
        if let Some(reason) = to.reason.filter(|_| thread.open.is_none()) {
            thread.open = Some((reason, to.at.plus_ns(-(last_ns as i64))));
        }
        thread.window = thread.window.next(to, &division);
    }

    /// Records zero-length waits of a thread that slept at both samples and went to sleep more often than these
    /// sleeps explain: it waited in between, too briefly to be seen.
    fn slept_besides(&mut self, thread: &Thread, to: &ThreadSample, at: Time, division: &Division) {
        let from = &thread.window.from;
        let asleep = |seen: &ThreadSample| seen.reason.is_some_and(|reason| reason.kind == SpanKind::WaitTimer);
        let times = from.sleeps.zip(to.sleeps).map_or(0, |(before, after)| after.saturating_sub(before));
        let Some(pauses) = to.at.since(from.at).checked_div(thread.sleep_ns).map(|whole| whole + 1) else { return };
        if times <= pauses || division.unseen_ns > 0 || !asleep(from) || !asleep(to) {
            return;
        }
        let Some(id) = SpanId::new(self.trace.fresh()) else { return };
        let count = u32::try_from(times - pauses).unwrap_or(u32::MAX);
        self.batch.push(Event::Span(Span { count, cpu_ns: Some(0), ..Span::bare(id, thread.track, SpanKind::WaitOther, at, 0) }));
    }

    /// Records the part of a thread's running that was system time with no other explanation: most likely work on
    /// names and attributes.
    fn worked_on_names(&mut self, thread: &Thread, from: Time, ns: u64) {
        if ns < WORTH_RECORDING_NS {
            return;
        }
        let Some(id) = SpanId::new(self.trace.fresh()) else { return };
        self.batch.push(Event::Span(Span {
            cpu_ns: Some(ns),
            runqueue_ns: Some(0),
            ..Span::bare(id, thread.track, SpanKind::FileOther, from, ns)
        }));
    }

    pub(super) fn wait_ended(&mut self, pid: u32, tid: u32, track: TrackId, (reason, since, until): (Reason, Time, Time)) {
        let length_ns = until.since(since);
        if length_ns < WORTH_RECORDING_NS {
            return;
        }
        let Some(id) = SpanId::new(self.trace.fresh()) else { return };
        let queued = reason.kind == SpanKind::WaitRunqueue;
        let span = Span {
            object: reason.object,
            waker_context: reason.context,
            result: reason.result,
            cpu_ns: Some(0),
            runqueue_ns: Some(if queued { length_ns } else { 0 }),
            ..Span::bare(id, track, reason.kind, since, length_ns)
        };
        self.ended.push(EndedWait { pid, tid, ender: reason.ender, span, again: false });
    }

    /// Emits the waits that have ended, with their wakers. A child whose end was not seen yet may be found at the
    /// next sample.
    pub(super) fn emit_ended(&mut self) {
        let mut all = std::mem::take(&mut self.ended);
        for ended in &mut all {
            let EndedWait { pid, tid, ender, .. } = *ended;
            // A process sampled earlier may have ended it since.
            let waker = ended_by(ender, pid, tid, &self.acted).or_else(|| ended_by(ender, pid, tid, &self.acted_before));
            ended.span.waker_track = waker;
            ended.span.waker_context = ended.span.waker_context.or(waker.map(|_| WakerContext::Task));
        }
        let by: Vec<(TrackId, Time)> = all.iter().filter_map(|ended| Some((ended.span.waker_track?, ended.span.end()))).collect();
        for mut ended in all {
            let is_late = matches!(ended.ender, Ender::Child(_) | Ender::Thread(_)) && ended.span.waker_track.is_none();
            if is_late && !ended.again {
                self.ended.push(EndedWait { again: true, ..ended });
                continue;
            }
            // Both ended between two samples; the one that ended the other's wait did so after its own wait ended.
            let (start, end) = (ended.span.start, ended.span.end());
            let woke = by.iter().filter(|(track, at)| *track == ended.span.track && *at > start && *at < end).map(|(_, at)| *at).min();
            if let Some(at) = woke.filter(|at| end.since(*at) < LONGEST_PAUSE.as_nanos() as u64) {
                ended.span.duration_ns = at.since(start);
            }
            self.batch.push(Event::Span(ended.span));
        }
    }
}
