//! The rules as a state machine: takes the time, bytes moved and counters, and returns changes to make.
//!
//! It **begins** with the copy's initial values, drops a window (TCP's slow start), and measures one. Then it repeats: try one change of
//! the limiting stage's parameters, drop a window, measure one, and keep or revert the change. A change that gained is continued
//! immediately. One that failed is not retried for twice as long each time, and retried only when failed probes have cost less than one
//! percent of the time so far. So where nothing can be gained, searching costs almost nothing.
//!
//! **Goodput that falls by itself** indicates that the optimum moved: the raised parameter is halved first (a server that throttles above
//! some number of connections improves with fewer), then all parameters may be tried again. If goodput stays below that of the initial
//! values, those are tried.
//!
//! **Incomparable windows** are not judged: windows of a mount whose programs are idle, windows without a byte, the end of a copy.

use super::observation::{Change, Observation, Options, Step};
use super::probe::{Leg, Probe, Purpose, Turn, Verdict, gain};
use super::retry::Retry;
use super::rules::{
    CHANGED, COLLAPSE, COST, EARLY, LAST_WINDOWS, LONGEST_WINDOWS, RECOVERS, REFUSED_WAIT, RESTING, WINDOW, WINDOW_BUFFERS,
    WINDOW_ROUND_TRIPS, WINDOWS_WITHOUT_WORK, ceiling,
};
use super::stage::{Stage, resting};
use super::window::{Sample, Window};
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_client::Stages;

/// Current activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waiting for the first byte.
    Waiting,
    /// Dropping a window, until this time.
    Dropping(Duration),
    Measuring,
    /// The copy is about to end.
    Ended,
}

/// The online tuner; see the module documentation.
pub struct Tuner {
    options: Options,
    phase: Phase,
    begun: Duration,
    values: BTreeMap<&'static str, u64>,
    start: BTreeMap<&'static str, u64>,
    start_rate: Option<f64>,
    retries: BTreeMap<&'static str, Retry>,
    probe: Option<Probe>,
    window: Window,
    /// Counters at the start of the window.
    before: Stages,
    /// Goodput with the current values.
    base: Option<Sample>,
    /// Difference between consecutive windows without a change, smoothed.
    drift: f64,
    /// Consecutive windows that differed from the base without a change.
    differing: u32,
    /// Set when the raised parameter must be lowered because goodput fell.
    falling: Option<Purpose>,
    below_start: u32,
    /// Cost of failed probes, in seconds at full goodput.
    lost_s: f64,
    lost_connections: u64,
    /// Set after a collapse whose change was reverted: time by which goodput must have recovered.
    recovers_by: Option<Duration>,
    /// Connections per unit of `streams` (one to each server), observed while nothing was changed; 0: not observed yet.
    connections_each: f64,
    chance: u64,
    steps: Vec<Step>,
}

impl Tuner {
    /// Creates a tuner, before the first byte.
    pub fn new(options: Options) -> Tuner {
        let chance = options.seed.max(1);
        Tuner {
            options,
            phase: Phase::Waiting,
            begun: Duration::ZERO,
            values: BTreeMap::new(),
            start: BTreeMap::new(),
            start_rate: None,
            retries: BTreeMap::new(),
            probe: None,
            window: Window::default(),
            before: Stages::default(),
            base: None,
            drift: 0.0,
            differing: 0,
            falling: None,
            below_start: 0,
            lost_s: 0.0,
            lost_connections: 0,
            recovers_by: None,
            connections_each: 0.0,
            chance,
            steps: Vec::new(),
        }
    }

    /// Returns the steps so far, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the current values of the parameters that may be changed.
    pub fn values(&self) -> &BTreeMap<&'static str, u64> {
        &self.values
    }

    /// Returns values worth remembering: those that gained over the initial values, and still do. Empty if the initial values were as
    /// good; `None`: too few observations.
    pub fn found(&self) -> Option<BTreeMap<&'static str, u64>> {
        let (start_rate, base) = (self.start_rate?, self.base?);
        if self.steps.is_empty() {
            return None;
        }
        let differs = |name: &&'static str| self.start.get(name) != self.values.get(name);
        let is_better = gain(start_rate, base.rate) >= super::rules::GAIN;
        let better = || self.values.iter().filter(|(name, _)| differs(name)).map(|(name, value)| (*name, *value)).collect();
        Some(if is_better { better() } else { BTreeMap::new() })
    }

    /// Takes an observation; returns changes to make.
    pub fn look(&mut self, seen: &Observation<'_>) -> Vec<Change> {
        if self.phase == Phase::Waiting {
            self.begin(seen);
            return Vec::new();
        }
        if self.phase == Phase::Ended {
            return Vec::new();
        }
        self.window.look(seen.now, seen.moved_bytes);
        if seen.stages.lost_connections > self.lost_connections {
            return self.refused(seen);
        }
        if self.is_near_end(seen) {
            return self.end(seen);
        }
        match self.phase {
            Phase::Dropping(until) if seen.now < until || self.is_draining(seen, until) => self.early(seen),
            Phase::Dropping(_) => self.dropped(seen),
            _ if self.is_full(seen) => self.measured(seen),
            _ => self.early(seen),
        }
    }

    /// Ends tuning: a change being tried is recorded as not judged.
    pub fn finish(&mut self, now: Duration) {
        if let Some(probe) = self.probe.take() {
            self.note(now, &probe, false, "it ended first: not judged");
            self.apply(&probe, false);
        }
    }

    /// Handles the first byte.
    fn begin(&mut self, seen: &Observation<'_>) {
        let live = seen.parameters.iter().filter(|p| p.live && !self.options.fixed.contains(p.name));
        self.values = live.filter_map(|p| Some((p.name, p.value?))).collect();
        if seen.moved_bytes == 0 || self.values.is_empty() {
            return;
        }
        self.start = self.values.clone();
        self.begun = seen.now;
        self.lost_connections = seen.stages.lost_connections;
        self.drop_window(seen);
    }

    fn window_length(&self, seen: &Observation<'_>) -> Duration {
        WINDOW.max(seen.stages.round_trip * WINDOW_ROUND_TRIPS)
    }

    fn restart(&mut self, seen: &Observation<'_>) {
        self.window.restart(seen.now, seen.moved_bytes);
        self.before = seen.stages;
    }

    /// Drops the next window, which does not reflect the values.
    fn drop_window(&mut self, seen: &Observation<'_>) {
        self.phase = Phase::Dropping(seen.now + self.window_length(seen));
        self.restart(seen);
    }

    /// Whether surplus connections still exist: they finish what they have posted, and until then a throttling server continues to
    /// throttle. Bounded by `until`.
    fn is_draining(&self, seen: &Observation<'_>, until: Duration) -> bool {
        let wanted = self.values.get("streams").map_or(0.0, |streams| *streams as f64 * self.connections_each);
        let is_above = wanted > 0.0 && f64::from(seen.stages.connections) > wanted + 0.5;
        is_above && !seen.may_rest && seen.now < until + self.window_length(seen) * LONGEST_WINDOWS
    }

    fn is_full(&self, seen: &Observation<'_>) -> bool {
        let (length, least) = (self.window.length(), self.window_length(seen));
        length >= least && (self.window.bytes() >= WINDOW_BUFFERS * seen.buffer_bytes() || length >= least * LONGEST_WINDOWS)
    }

    fn is_near_end(&self, seen: &Observation<'_>) -> bool {
        let (Some(left), Some(base)) = (seen.left_bytes, self.base) else { return false };
        let last = self.window_length(seen) * LAST_WINDOWS;
        left == 0 || (left as f64) < base.rate * last.as_secs_f64()
    }

    /// Ends probing before the copy ends; reverts an unjudged change.
    fn end(&mut self, seen: &Observation<'_>) -> Vec<Change> {
        let changes = self.probe.take().map_or_else(Vec::new, |probe| self.take_back(seen, &probe, "the copy is about to end: not judged"));
        self.phase = Phase::Ended;
        changes
    }

    /// Handles the end of a dropped window. After a collapse, reverting the change is not enough: a throttling server takes a while to
    /// recover, and one that began throttling independently does not.
    fn dropped(&mut self, seen: &Observation<'_>) -> Vec<Change> {
        let half = self.window_length(seen) / 2;
        if let (Some(by), Some(base), Some(rate)) = (self.recovers_by, self.base, self.window.last(half))
            && rate < base.rate * COLLAPSE
        {
            if seen.now < by {
                return Vec::new();
            }
            self.recovers_by = None;
            // The change was not the cause. If nothing moves at all, neither was anything else, and no value can be judged.
            self.reopen(seen);
            let collapsed = Sample { rate, noise: base.noise };
            if rate > 0.0 {
                self.has_changed(seen, collapsed, Some(Purpose::Fall));
                if let Some(probe) = self.next_probe(seen, collapsed) {
                    return self.begin_probe(seen, probe);
                }
            }
        }
        self.recovers_by = None;
        self.phase = Phase::Measuring;
        self.restart(seen);
        Vec::new()
    }

    /// Checks early, in a dropped or incomplete window: a probe after which hardly anything arrives need not be measured.
    fn early(&mut self, seen: &Observation<'_>) -> Vec<Change> {
        let half = self.window_length(seen) / 2;
        let Some(probe) = self.probe.take_if(|probe| probe.leg == Leg::With) else { return Vec::new() };
        let (after, asked) = if probe.purpose == Purpose::Fall { (half * 3, RECOVERS) } else { (half + half / 2, EARLY) };
        // With few flow buffers, two late ones are not a collapse.
        let has_many = probe.before.rate * half.as_secs_f64() >= (seen.buffer_bytes() * WINDOW_BUFFERS) as f64 / 3.0;
        let is_late = seen.now.saturating_sub(probe.begun) >= after && !self.is_draining(seen, probe.begun);
        let is_late = is_late && !seen.may_rest && (has_many || probe.purpose == Purpose::Fall);
        let Some(rate) = self.window.last(half).filter(|rate| is_late && *rate < probe.before.rate * asked) else {
            self.probe = Some(probe);
            return Vec::new();
        };
        let probe = Probe { after: Some(Sample { rate, noise: 0.0 }), ..probe };
        if probe.purpose == Purpose::Fall {
            return self.fall_further(seen, probe);
        }
        self.failed(seen, &probe);
        self.recovers_by = Some(seen.now + half * 4);
        self.take_back(seen, &probe, "goodput collapsed")
    }

    /// Halves the value again, since the previous half was no better, down to the initial value.
    fn fall_further(&mut self, seen: &Observation<'_>, mut probe: Probe) -> Vec<Change> {
        let start = |turn: &Turn| self.start.get(turn.parameter).copied().unwrap_or(1);
        if probe.turns.iter().all(|turn| turn.to <= start(turn)) {
            return self.take_back(seen, &probe, "no better");
        }
        self.note(seen.now, &probe, false, "no better: lowered further");
        for turn in &mut probe.turns {
            turn.to = (turn.to / 2).max(self.start.get(turn.parameter).copied().unwrap_or(1));
        }
        self.begin_probe(seen, Probe { after: None, begun: seen.now, ..probe })
    }

    /// Handles a complete window.
    fn measured(&mut self, seen: &Observation<'_>) -> Vec<Change> {
        let sample = self.window.sample();
        let rests = self.window.bytes() == 0 || (seen.may_rest && resting(&self.before, &seen.stages) > RESTING);
        if rests {
            return self.rested(seen);
        }
        let changes = match self.probe.take() {
            None => self.held(seen, sample),
            Some(probe) if probe.leg == Leg::With => self.tried(seen, sample, probe),
            Some(probe) => self.without_again(seen, sample, probe),
        };
        if self.phase == Phase::Measuring {
            self.restart(seen);
        }
        changes
    }

    /// Handles a window without comparable data.
    fn rested(&mut self, seen: &Observation<'_>) -> Vec<Change> {
        self.restart(seen);
        let Some(mut probe) = self.probe.take() else { return Vec::new() };
        probe.idle_windows += 1;
        if probe.idle_windows >= WINDOWS_WITHOUT_WORK {
            return self.take_back(seen, &probe, "no comparable data has moved since");
        }
        self.probe = Some(probe);
        Vec::new()
    }

    /// Handles a window without a change.
    fn held(&mut self, seen: &Observation<'_>, sample: Sample) -> Vec<Change> {
        self.start_rate.get_or_insert(sample.rate);
        if let Some(streams) = self.values.get("streams") {
            self.connections_each = f64::from(seen.stages.connections) / *streams as f64;
        }
        if let Some(base) = self.base {
            self.compare(seen, base, sample);
        } else {
            self.base = Some(sample);
        }
        let is_below = self.values != self.start && self.start_rate.is_some_and(|start| gain(start, sample.rate) < -super::rules::GAIN);
        self.below_start = if is_below { self.below_start + 1 } else { 0 };
        let before = if self.falling == Some(Purpose::Fall) { self.base.unwrap_or(sample) } else { sample };
        let Some(probe) = self.next_probe(seen, before) else { return Vec::new() };
        self.begin_probe(seen, probe)
    }

    /// Checks whether the path has changed by itself.
    fn compare(&mut self, seen: &Observation<'_>, base: Sample, sample: Sample) {
        let by = gain(base.rate, sample.rate);
        let is_collapse = sample.rate < base.rate * COLLAPSE;
        let differs = by.abs() > CHANGED.max(3.0 * sample.noise).max(2.0 * self.drift);
        self.differing = if differs { self.differing + 1 } else { 0 };
        if is_collapse || self.differing >= 2 {
            // The collapse may have happened in the middle of the window.
            let half = self.window.last(self.window_length(seen) / 2).filter(|_| is_collapse);
            let rate = half.unwrap_or(sample.rate).min(sample.rate);
            let falling = (by < 0.0).then_some(if is_collapse { Purpose::Fall } else { Purpose::Down });
            return self.has_changed(seen, Sample { rate, ..sample }, falling);
        }
        self.drift = self.drift * 0.7 + by.abs() * 0.3;
        let rate = base.rate * 0.6 + sample.rate * 0.4;
        self.base = Some(Sample { rate, noise: base.noise * 0.6 + sample.noise * 0.4 });
    }

    /// Allows failed changes to be tried again.
    fn reopen(&mut self, seen: &Observation<'_>) {
        for retry in self.retries.values_mut() {
            retry.reopen(seen.now);
            retry.fails = 0;
        }
    }

    /// Handles goodput that changed by itself: failed changes may now succeed.
    fn has_changed(&mut self, seen: &Observation<'_>, now: Sample, falling: Option<Purpose>) {
        self.reopen(seen);
        (self.falling, self.base, self.differing) = (falling, Some(now), 0);
    }

    /// Returns the next probe, if any is worthwhile.
    fn next_probe(&mut self, seen: &Observation<'_>, before: Sample) -> Option<Probe> {
        let history = std::mem::take(&mut self.options.history);
        if !history.is_empty() {
            let turns = self.turns_to(seen, &history.iter().map(|(name, value)| (name.as_str(), *value)).collect::<Vec<_>>());
            if !turns.is_empty() {
                return Some(probe(turns, Purpose::History, before, seen, "remembered from an earlier run".to_owned()));
            }
        }
        if let Some(purpose) = self.falling.take()
            && let Some(turn) = self.less()
        {
            return Some(probe(vec![turn], purpose, before, seen, "goodput fell by itself".to_owned()));
        }
        if self.below_start >= 2 {
            self.below_start = 0;
            let start: Vec<(&str, u64)> = self.start.iter().map(|(name, value)| (*name, *value)).collect();
            let turns = self.turns_to(seen, &start);
            return (!turns.is_empty()).then(|| probe(turns, Purpose::Start, before, seen, "less than at the start".to_owned()));
        }
        let stage = Stage::of(&self.before, &seen.stages)?;
        let turn = stage.parameters().iter().find_map(|name| self.more(seen, name))?;
        Some(probe(vec![turn], Purpose::Up, before, seen, format!("limited by {}", stage.words())))
    }

    /// Returns the changes from the current values to `wanted`.
    fn turns_to(&self, seen: &Observation<'_>, wanted: &[(&str, u64)]) -> Vec<Turn> {
        let turn = |(name, to): &(&str, u64)| {
            let (parameter, from) = self.values.iter().find(|(known, _)| *known == name)?;
            let known = seen.parameters.iter().find(|p| p.name == *parameter)?;
            let to = (*to).clamp(known.least, known.most.min(ceiling(parameter)).max(*from));
            let fits = to <= *from || (seen.memory_bytes)(parameter, to) <= self.options.memory_bytes;
            (to != *from && fits).then_some(Turn { parameter, from: *from, to })
        };
        wanted.iter().filter_map(turn).collect()
    }

    /// Returns the most-raised parameter at half its value.
    fn less(&self) -> Option<Turn> {
        let raised = self.values.iter().filter_map(|(name, value)| {
            let start = *self.start.get(name)?;
            (*value > start).then(|| (*value / start.max(1), Turn { parameter: name, from: *value, to: (*value / 2).max(start) }))
        });
        raised.max_by_key(|(times, _)| *times).map(|(_, turn)| turn)
    }

    /// Returns a parameter's next higher value, if it may be tried.
    fn more(&self, seen: &Observation<'_>, name: &str) -> Option<Turn> {
        let (parameter, from) = self.values.iter().find(|(known, _)| **known == name)?;
        let known = seen.parameters.iter().find(|p| p.name == *parameter)?;
        let retry = self.retries.get(parameter).cloned().unwrap_or_default();
        let elapsed_s = seen.now.saturating_sub(self.begun).as_secs_f64();
        let is_paid = retry.fails == 0 || self.lost_s <= COST * elapsed_s;
        let to = retry.above(*from).min(known.most).min(ceiling(parameter));
        let fits = (seen.memory_bytes)(parameter, to) <= self.options.memory_bytes;
        (retry.is_open(seen.now) && is_paid && to > *from && fits).then_some(Turn { parameter, from: *from, to })
    }

    fn begin_probe(&mut self, seen: &Observation<'_>, probe: Probe) -> Vec<Change> {
        let changes = self.apply(&probe, true);
        let falls = probe.purpose == Purpose::Fall;
        self.probe = Some(probe);
        self.drop_window(seen);
        if falls {
            // A throttling server takes a while to react, and surplus connections to end.
            self.phase = Phase::Dropping(seen.now + self.window_length(seen) * 2);
        }
        changes
    }

    /// Judges the window with the change.
    fn tried(&mut self, seen: &Observation<'_>, after: Sample, mut probe: Probe) -> Vec<Change> {
        probe.after = Some(after);
        match probe.judge(after, self.drift) {
            Verdict::Keep => {
                self.keep(seen, &probe, after);
                // A step that gained is the base of the next, without a window in between.
                match self.next_probe(seen, after) {
                    Some(next) => self.begin_probe(seen, next),
                    None => Vec::new(),
                }
            }
            Verdict::TakeBack => {
                self.failed(seen, &probe);
                let by = 100.0 * gain(probe.before.rate, after.rate);
                self.take_back(seen, &probe, &format!("{by:+.0} %, {:.0} % asked", 100.0 * probe.needed()))
            }
            Verdict::Repeat => {
                probe.leg = Leg::WithoutAgain;
                let changes = self.apply(&probe, false);
                self.probe = Some(probe);
                self.drop_window(seen);
                changes
            }
        }
    }

    /// Judges the second window without the change.
    fn without_again(&mut self, seen: &Observation<'_>, again: Sample, probe: Probe) -> Vec<Change> {
        if probe.judge_again(again) == Verdict::Keep {
            let changes = self.apply(&probe, true);
            let after = probe.after.unwrap_or(again);
            self.keep(seen, &probe, after);
            self.drop_window(seen);
            return changes;
        }
        self.failed(seen, &probe);
        self.take_back(seen, &probe, "no more than the noise")
    }

    fn keep(&mut self, seen: &Observation<'_>, probe: &Probe, after: Sample) {
        let by = 100.0 * gain(probe.before.rate, after.rate);
        self.note(seen.now, probe, true, &format!("{by:+.0} %"));
        self.base = Some(after);
        (self.lost_s, self.differing) = (0.0, 0);
        for turn in &probe.turns {
            self.retries.entry(turn.parameter).or_default().gained(seen.now);
        }
        // The value with which goodput fell is not retried immediately; an even lower one may be better.
        if matches!(probe.purpose, Purpose::Down | Purpose::Fall) {
            self.falling = Some(Purpose::Down);
            let chance = self.chance();
            probe.turns.iter().for_each(|turn| self.retries.entry(turn.parameter).or_default().failed(seen.now, chance));
        }
    }

    fn take_back(&mut self, seen: &Observation<'_>, probe: &Probe, came_to: &str) -> Vec<Change> {
        self.note(seen.now, probe, false, came_to);
        let changes = self.apply(probe, false);
        self.drop_window(seen);
        changes
    }

    /// Accounts for a failed probe. A probe for less says nothing about more.
    fn failed(&mut self, seen: &Observation<'_>, probe: &Probe) {
        if matches!(probe.purpose, Purpose::Down | Purpose::Start) {
            // The initial values do not reach their former goodput any more.
            self.start_rate = probe.after.filter(|_| probe.purpose == Purpose::Start).map(|after| after.rate).or(self.start_rate);
            return;
        }
        let took = seen.now.saturating_sub(probe.begun).as_secs_f64();
        let less = probe.after.map_or(0.0, |after| -gain(probe.before.rate, after.rate)).max(0.0);
        self.lost_s += less * took;
        let chance = self.chance();
        for turn in &probe.turns {
            self.retries.entry(turn.parameter).or_default().failed(seen.now, chance);
        }
    }

    /// Handles refused or lost connections: the copy continued with fewer, and so does the tuner.
    fn refused(&mut self, seen: &Observation<'_>) -> Vec<Change> {
        self.lost_connections = seen.stages.lost_connections;
        let mut changes = Vec::new();
        if let Some(probe) = self.probe.take() {
            changes = self.take_back(seen, &probe, "a connection was refused or lost");
        }
        let now = seen.parameters.iter().find(|p| p.name == "streams").and_then(|p| p.value);
        if let (Some(now), Some(ours)) = (now, self.values.get_mut("streams")) {
            *ours = now.min(*ours);
            let value = *ours;
            changes.retain(|change| change.parameter != "streams");
            changes.push(Change { parameter: "streams", value });
            self.retries.entry("streams").or_default().close_until(seen.now + REFUSED_WAIT);
        }
        self.drop_window(seen);
        changes
    }

    /// Applies or reverts a probe's change.
    fn apply(&mut self, probe: &Probe, with: bool) -> Vec<Change> {
        let value = |turn: &Turn| Change { parameter: turn.parameter, value: if with { turn.to } else { turn.from } };
        let changes: Vec<Change> = probe.turns.iter().map(value).collect();
        self.values.extend(changes.iter().map(|change| (change.parameter, change.value)));
        changes
    }

    fn note(&mut self, now: Duration, probe: &Probe, kept: bool, came_to: &str) {
        let at_s = now.saturating_sub(self.begun).as_secs_f64();
        self.steps.extend(probe.turns.iter().map(|turn| Step {
            at_s,
            parameter: turn.parameter,
            from: turn.from,
            to: turn.to,
            before_bytes_per_s: Some(probe.before.rate),
            after_bytes_per_s: probe.after.map(|after| after.rate),
            kept,
            why: format!("{}: {came_to}", probe.why),
        }));
    }

    /// Returns the next pseudo-random number in 0..1 (xorshift64*).
    fn chance(&mut self) -> f64 {
        self.chance ^= self.chance >> 12;
        self.chance ^= self.chance << 25;
        self.chance ^= self.chance >> 27;
        (self.chance.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40) as f64 / (1_u64 << 24) as f64
    }
}

fn probe(turns: Vec<Turn>, purpose: Purpose, before: Sample, seen: &Observation<'_>, why: String) -> Probe {
    Probe { turns, purpose, leg: Leg::With, before, after: None, begun: seen.now, why, idle_windows: 0 }
}
