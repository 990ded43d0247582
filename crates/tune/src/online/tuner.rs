//! The rules, as a state machine: it is given the time, the bytes that have moved and the counters, and returns what to change.
//!
//! It **begins** with what the copy began with, drops a window (TCP's slow start), and measures one. Then, over and over: it tries one change of
//! what belongs to the stage that limits, drops a window, measures one, and keeps the change or takes it back. What gained is tried further
//! at once; what failed is left alone for twice as long each time, and a second time only when failed probes have cost less than
//! one percent of the time so far. So where nothing is to be gained, looking for it costs next to nothing.
//!
//! **Goodput that falls by itself** is a sign that the best moved: what was raised is halved first (a server that throttles above some number
//! of connections gets better by having fewer), then everything is open again. Where it stays below what the start gave, the start is tried.
//!
//! **What cannot be compared** is not judged: windows of a mount whose programs rest, windows without a byte, the end of a copy.

use super::probe::{Leg, Probe, Purpose, Turn, Verdict, gain};
use super::rules::{
    CHANGED, COLLAPSE, COST, EARLY, LAST_WINDOWS, LONGEST_WINDOWS, RECOVERS, REFUSED_WAIT, RESTING, WINDOW, WINDOW_BUFFERS,
    WINDOW_ROUND_TRIPS, WINDOWS_WITHOUT_WORK, ceiling,
};
use super::seen::{Change, Options, Seen, Step};
use super::stage::{Stage, resting};
use super::way::Way;
use super::window::{Sample, Window};
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_client::Stages;

/// What it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing has moved yet.
    Waiting,
    /// A window that is dropped, until then.
    Dropping(Duration),
    Measuring,
    /// The copy is about to end.
    Ended,
}

/// See the module's page.
pub struct Tuner {
    options: Options,
    phase: Phase,
    begun: Duration,
    values: BTreeMap<&'static str, u64>,
    start: BTreeMap<&'static str, u64>,
    start_rate: Option<f64>,
    ways: BTreeMap<&'static str, Way>,
    probe: Option<Probe>,
    window: Window,
    /// Counters where the window began.
    before: Stages,
    /// Goodput with the values as they are.
    base: Option<Sample>,
    /// How much one window differs from the next with nothing changed, smoothed.
    drift: f64,
    /// Windows in a row that differed from the base by themselves.
    differing: u32,
    /// What was raised is to be lowered, since goodput fell.
    falling: Option<Purpose>,
    below_start: u32,
    /// What failed probes cost, in seconds at full goodput.
    lost_s: f64,
    lost_connections: u64,
    /// Goodput collapsed with a change that was taken back: whether it comes back is known by then.
    recovers_by: Option<Duration>,
    /// Connections for each of `streams` (one to each server), as it was seen while nothing was changed; 0: not seen yet.
    connections_each: f64,
    chance: u64,
    steps: Vec<Step>,
}

impl Tuner {
    /// Before the first byte.
    pub fn new(options: Options) -> Tuner {
        let chance = options.seed.max(1);
        Tuner {
            options,
            phase: Phase::Waiting,
            begun: Duration::ZERO,
            values: BTreeMap::new(),
            start: BTreeMap::new(),
            start_rate: None,
            ways: BTreeMap::new(),
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

    /// What was decided so far, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The values as they are, of what may be turned.
    pub fn values(&self) -> &BTreeMap<&'static str, u64> {
        &self.values
    }

    /// What is worth remembering: values that gained against the start, and still do. Empty where the start was as good; `None`: too little was
    /// seen to say.
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

    /// Looks; what to change.
    pub fn look(&mut self, seen: &Seen<'_>) -> Vec<Change> {
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

    /// What is tuned has ended: a change that was being tried was not judged.
    pub fn finish(&mut self, now: Duration) {
        if let Some(probe) = self.probe.take() {
            self.note(now, &probe, false, "it ended first: not judged");
            self.apply(&probe, false);
        }
    }

    /// The first byte has moved.
    fn begin(&mut self, seen: &Seen<'_>) {
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

    fn window_length(&self, seen: &Seen<'_>) -> Duration {
        WINDOW.max(seen.stages.round_trip * WINDOW_ROUND_TRIPS)
    }

    fn restart(&mut self, seen: &Seen<'_>) {
        self.window.restart(seen.now, seen.moved_bytes);
        self.before = seen.stages;
    }

    /// What moves in the next window is no property of the values from here on.
    fn drop_window(&mut self, seen: &Seen<'_>) {
        self.phase = Phase::Dropping(seen.now + self.window_length(seen));
        self.restart(seen);
    }

    /// Whether connections that are too many are still there: they finish what they have posted, and until then a server that throttles goes
    /// on with it. Waited for, but not for ever.
    fn is_draining(&self, seen: &Seen<'_>, until: Duration) -> bool {
        let wanted = self.values.get("streams").map_or(0.0, |streams| *streams as f64 * self.connections_each);
        let is_above = wanted > 0.0 && f64::from(seen.stages.connections) > wanted + 0.5;
        is_above && !seen.may_rest && seen.now < until + self.window_length(seen) * LONGEST_WINDOWS
    }

    fn is_full(&self, seen: &Seen<'_>) -> bool {
        let (length, least) = (self.window.length(), self.window_length(seen));
        length >= least && (self.window.bytes() >= WINDOW_BUFFERS * seen.buffer_bytes() || length >= least * LONGEST_WINDOWS)
    }

    fn is_near_end(&self, seen: &Seen<'_>) -> bool {
        let (Some(left), Some(base)) = (seen.left_bytes, self.base) else { return false };
        let last = self.window_length(seen) * LAST_WINDOWS;
        left == 0 || (left as f64) < base.rate * last.as_secs_f64()
    }

    /// Nothing is begun any more; what was not judged is taken back.
    fn end(&mut self, seen: &Seen<'_>) -> Vec<Change> {
        let changes = self.probe.take().map_or_else(Vec::new, |probe| self.take_back(seen, &probe, "the copy is about to end: not judged"));
        self.phase = Phase::Ended;
        changes
    }

    /// A window was dropped. After a collapse it is not enough that the change was taken back: a server that throttles takes its time, and one
    /// that has only now begun to goes on.
    fn dropped(&mut self, seen: &Seen<'_>) -> Vec<Change> {
        let half = self.window_length(seen) / 2;
        if let (Some(by), Some(base), Some(rate)) = (self.recovers_by, self.base, self.window.last(half))
            && rate < base.rate * COLLAPSE
        {
            if seen.now < by {
                return Vec::new();
            }
            self.recovers_by = None;
            // Not the change was why. Where nothing moves at all, nothing is: neither more nor less of anything can be judged.
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

    /// In a window that is dropped, or not yet full: a probe after which hardly anything arrives need not be measured.
    fn early(&mut self, seen: &Seen<'_>) -> Vec<Change> {
        let half = self.window_length(seen) / 2;
        let Some(probe) = self.probe.take_if(|probe| probe.leg == Leg::With) else { return Vec::new() };
        let (after, asked) = if probe.purpose == Purpose::Fall { (half * 3, RECOVERS) } else { (half + half / 2, EARLY) };
        // Of a few flow buffers, two that are late are no collapse.
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

    /// Half was no better than the whole: half of that, down to what it was at the start.
    fn fall_further(&mut self, seen: &Seen<'_>, mut probe: Probe) -> Vec<Change> {
        let start = |turn: &Turn| self.start.get(turn.parameter).copied().unwrap_or(1);
        if probe.turns.iter().all(|turn| turn.to <= start(turn)) {
            return self.take_back(seen, &probe, "no better");
        }
        self.note(seen.now, &probe, false, "no better, so less still");
        for turn in &mut probe.turns {
            turn.to = (turn.to / 2).max(self.start.get(turn.parameter).copied().unwrap_or(1));
        }
        self.begin_probe(seen, Probe { after: None, begun: seen.now, ..probe })
    }

    /// A window is full.
    fn measured(&mut self, seen: &Seen<'_>) -> Vec<Change> {
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

    /// Nothing in the window can be compared with anything.
    fn rested(&mut self, seen: &Seen<'_>) -> Vec<Change> {
        self.restart(seen);
        let Some(mut probe) = self.probe.take() else { return Vec::new() };
        probe.idle_windows += 1;
        if probe.idle_windows >= WINDOWS_WITHOUT_WORK {
            return self.take_back(seen, &probe, "nothing to compare has moved since");
        }
        self.probe = Some(probe);
        Vec::new()
    }

    /// A window with nothing changed.
    fn held(&mut self, seen: &Seen<'_>, sample: Sample) -> Vec<Change> {
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

    /// Whether the path has changed by itself.
    fn compare(&mut self, seen: &Seen<'_>, base: Sample, sample: Sample) {
        let by = gain(base.rate, sample.rate);
        let is_collapse = sample.rate < base.rate * COLLAPSE;
        let differs = by.abs() > CHANGED.max(3.0 * sample.noise).max(2.0 * self.drift);
        self.differing = if differs { self.differing + 1 } else { 0 };
        if is_collapse || self.differing >= 2 {
            // It may have collapsed in the middle of the window.
            let half = self.window.last(self.window_length(seen) / 2).filter(|_| is_collapse);
            let rate = half.unwrap_or(sample.rate).min(sample.rate);
            let falling = (by < 0.0).then_some(if is_collapse { Purpose::Fall } else { Purpose::Down });
            return self.has_changed(seen, Sample { rate, ..sample }, falling);
        }
        self.drift = self.drift * 0.7 + by.abs() * 0.3;
        let rate = base.rate * 0.6 + sample.rate * 0.4;
        self.base = Some(Sample { rate, noise: base.noise * 0.6 + sample.noise * 0.4 });
    }

    /// What failed may not now.
    fn reopen(&mut self, seen: &Seen<'_>) {
        for way in self.ways.values_mut() {
            way.reopen(seen.now);
            way.fails = 0;
        }
    }

    /// Goodput has become another by itself: what was tried before may be right now.
    fn has_changed(&mut self, seen: &Seen<'_>, now: Sample, falling: Option<Purpose>) {
        self.reopen(seen);
        (self.falling, self.base, self.differing) = (falling, Some(now), 0);
    }

    /// What is worth trying now.
    fn next_probe(&mut self, seen: &Seen<'_>, before: Sample) -> Option<Probe> {
        let history = std::mem::take(&mut self.options.history);
        if !history.is_empty() {
            let turns = self.turns_to(seen, &history.iter().map(|(name, value)| (name.as_str(), *value)).collect::<Vec<_>>());
            if !turns.is_empty() {
                return Some(probe(turns, Purpose::History, before, seen, "found here before".to_owned()));
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

    /// Changes from the values as they are to others.
    fn turns_to(&self, seen: &Seen<'_>, wanted: &[(&str, u64)]) -> Vec<Turn> {
        let turn = |(name, to): &(&str, u64)| {
            let (parameter, from) = self.values.iter().find(|(known, _)| *known == name)?;
            let known = seen.parameters.iter().find(|p| p.name == *parameter)?;
            let to = (*to).clamp(known.least, known.most.min(ceiling(parameter)).max(*from));
            let fits = to <= *from || (seen.memory_bytes)(parameter, to) <= self.options.memory_bytes;
            (to != *from && fits).then_some(Turn { parameter, from: *from, to })
        };
        wanted.iter().filter_map(turn).collect()
    }

    /// The parameter that was raised most, at half.
    fn less(&self) -> Option<Turn> {
        let raised = self.values.iter().filter_map(|(name, value)| {
            let start = *self.start.get(name)?;
            (*value > start).then(|| (*value / start.max(1), Turn { parameter: name, from: *value, to: (*value / 2).max(start) }))
        });
        raised.max_by_key(|(times, _)| *times).map(|(_, turn)| turn)
    }

    /// A parameter's next value up, if it may be tried.
    fn more(&self, seen: &Seen<'_>, name: &str) -> Option<Turn> {
        let (parameter, from) = self.values.iter().find(|(known, _)| **known == name)?;
        let known = seen.parameters.iter().find(|p| p.name == *parameter)?;
        let way = self.ways.get(parameter).cloned().unwrap_or_default();
        let elapsed_s = seen.now.saturating_sub(self.begun).as_secs_f64();
        let is_paid = way.fails == 0 || self.lost_s <= COST * elapsed_s;
        let to = way.above(*from).min(known.most).min(ceiling(parameter));
        let fits = (seen.memory_bytes)(parameter, to) <= self.options.memory_bytes;
        (way.is_open(seen.now) && is_paid && to > *from && fits).then_some(Turn { parameter, from: *from, to })
    }

    fn begin_probe(&mut self, seen: &Seen<'_>, probe: Probe) -> Vec<Change> {
        let changes = self.apply(&probe, true);
        let falls = probe.purpose == Purpose::Fall;
        self.probe = Some(probe);
        self.drop_window(seen);
        if falls {
            // A server that throttles takes a while to notice, and connections that are too many to end.
            self.phase = Phase::Dropping(seen.now + self.window_length(seen) * 2);
        }
        changes
    }

    /// The window with the change.
    fn tried(&mut self, seen: &Seen<'_>, after: Sample, mut probe: Probe) -> Vec<Change> {
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

    /// The second window without it.
    fn without_again(&mut self, seen: &Seen<'_>, again: Sample, probe: Probe) -> Vec<Change> {
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

    fn keep(&mut self, seen: &Seen<'_>, probe: &Probe, after: Sample) {
        let by = 100.0 * gain(probe.before.rate, after.rate);
        self.note(seen.now, probe, true, &format!("{by:+.0} %"));
        self.base = Some(after);
        (self.lost_s, self.differing) = (0.0, 0);
        for turn in &probe.turns {
            self.ways.entry(turn.parameter).or_default().gained(seen.now);
        }
        // What goodput fell with is not tried again at once; still less may be better still.
        if matches!(probe.purpose, Purpose::Down | Purpose::Fall) {
            self.falling = Some(Purpose::Down);
            let chance = self.chance();
            probe.turns.iter().for_each(|turn| self.ways.entry(turn.parameter).or_default().failed(seen.now, chance));
        }
    }

    fn take_back(&mut self, seen: &Seen<'_>, probe: &Probe, came_to: &str) -> Vec<Change> {
        self.note(seen.now, probe, false, came_to);
        let changes = self.apply(probe, false);
        self.drop_window(seen);
        changes
    }

    /// Accounts for a probe that failed. One for less says nothing about more.
    fn failed(&mut self, seen: &Seen<'_>, probe: &Probe) {
        if matches!(probe.purpose, Purpose::Down | Purpose::Start) {
            // What the start gave once it does not give today.
            self.start_rate = probe.after.filter(|_| probe.purpose == Purpose::Start).map(|after| after.rate).or(self.start_rate);
            return;
        }
        let took = seen.now.saturating_sub(probe.begun).as_secs_f64();
        let less = probe.after.map_or(0.0, |after| -gain(probe.before.rate, after.rate)).max(0.0);
        self.lost_s += less * took;
        let chance = self.chance();
        for turn in &probe.turns {
            self.ways.entry(turn.parameter).or_default().failed(seen.now, chance);
        }
    }

    /// Connections could not be made, or were lost: the copy has gone on with fewer, and so do we.
    fn refused(&mut self, seen: &Seen<'_>) -> Vec<Change> {
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
            self.ways.entry("streams").or_default().close_until(seen.now + REFUSED_WAIT);
        }
        self.drop_window(seen);
        changes
    }

    /// The values with a probe's change, or without it.
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

    /// The next number in 0..1 (xorshift64*).
    fn chance(&mut self) -> f64 {
        self.chance ^= self.chance >> 12;
        self.chance ^= self.chance << 25;
        self.chance ^= self.chance >> 27;
        (self.chance.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40) as f64 / (1_u64 << 24) as f64
    }
}

fn probe(turns: Vec<Turn>, purpose: Purpose, before: Sample, seen: &Seen<'_>, why: String) -> Probe {
    Probe { turns, purpose, leg: Leg::With, before, after: None, begun: seen.now, why, idle_windows: 0 }
}
