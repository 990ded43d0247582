//! A panel of the picture: lanes on one time axis, from one instant to another. It takes spans in order of descending end and keeps what
//! its pixels can show.

use super::flows::Flows;
use super::lanes::{LaneKind, Plan};
use super::marks::{MARK_CLASSES, MarkClass, mark_class, signal_name};
use super::messages::Messages;
use super::palette::{CLASS_COUNT, CLASSES, Mostly, SpanClass, class_of};
use super::strip::{Strip, StripShape};
use crate::running::Running;
use crate::waits;
use std::collections::HashMap;
use thalweg_base::numbers;
use thalweg_explain::Cause;
use thalweg_explain::document::Explanation;
use thalweg_trace::{ABSENT, Mark, SpanBatch, Stack};

/// Height of the curve of what moved.
pub(super) const CURVE_HEIGHT: f64 = 84.0;

/// The strips of one lane: for threads, requests and RPCs above and their parts below; for connections, one direction each.
#[derive(Clone, Debug)]
pub(crate) struct LaneStrips {
    /// Requests and RPCs; sent by the client.
    pub upper: Strip,
    /// Everything else; sent by the server.
    pub lower: Strip,
    /// Position in pixels, class and text of each mark.
    pub marks: Vec<(f64, MarkClass, String)>,
    /// Whether anything but waiting was recorded.
    pub works: bool,
}

/// The tooltip of a span.
#[derive(Clone, Debug)]
pub(crate) struct Hint {
    /// Its lane.
    pub lane: usize,
    /// Whether it is on the upper strip.
    pub upper: bool,
    /// Its row.
    pub row: usize,
    /// In pixels.
    pub left: f64,
    /// In pixels.
    pub right: f64,
    /// The text.
    pub text: String,
}

/// A panel; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// Start on the reference axis.
    pub start_ns: i64,
    /// End on the reference axis.
    pub end_ns: i64,
    /// Its width in pixels.
    pub width: f64,
    /// The strips of each lane of the plan.
    pub lanes: Vec<LaneStrips>,
    /// The critical path; its classes are the numbers of causes.
    pub path: Strip,
    /// Tooltips.
    pub hints: Vec<Hint>,
    /// Whether each class appears.
    pub classes: [bool; CLASS_COUNT],
    /// Number of spans drawn, and of those among them too narrow for a bar.
    pub drawn: (u64, u64),
    /// Messages from rank to rank.
    pub messages: Messages,
    /// What moved.
    pub flows: Flows,
    /// Number of marks of each class.
    pub marked: [u64; MARK_CLASSES.len()],
    /// The threads of which is known when they ran.
    running: Running,
}

/// Names that spans refer to by number.
pub(crate) struct Names {
    pub objects: HashMap<u64, String>,
    /// Stacks of waits, by number; empty if none were recorded.
    pub stacks: Vec<Stack>,
}

/// Columns of a wait's stack in a tooltip.
const STACK_COLUMNS: usize = 100;
/// Minimum width of a span with a tooltip.
const HINT_WIDTH: f64 = 12.0;
/// Maximum number of tooltips.
const MAX_HINTS: usize = 1_500;
/// Approximate maximum of bars in all lanes.
const BAR_BUDGET: f64 = 40_000.0;
/// Approximate maximum of coverage columns in all lanes.
const COLUMN_BUDGET: f64 = 24_000.0;
/// Maximum number of rows for overlapping requests and RPCs.
const MAX_UPPER_ROWS: usize = 4;
/// Maximum number of rows for other overlapping spans.
const MAX_LOWER_ROWS: usize = 3;

impl Panel {
    /// Returns the height of the curves, with the space around them.
    pub(super) fn curve_height(&self, plan: &Plan) -> f64 {
        if self.flows.series(plan).is_empty() { 0.0 } else { CURVE_HEIGHT + 14.0 }
    }

    /// Returns an empty panel from second `start_s` to `end_s` of the explanation.
    pub(crate) fn new(plan: &Plan, explanation: &Explanation, start_s: f64, end_s: f64, width: f64, running: &Running) -> Panel {
        let lanes = plan.lanes.len().max(1) as f64;
        let narrowest = (lanes * (MAX_UPPER_ROWS + MAX_LOWER_ROWS) as f64 * 0.5 * width / BAR_BUDGET).max(1.5);
        let column = (lanes * width / COLUMN_BUDGET).max(1.0);
        let strips = plan.lanes.iter().map(|lane| {
            let folded = lane.members > 1;
            let shape = |max_rows| StripShape {
                width,
                narrowest: if folded { f64::INFINITY } else { narrowest },
                column,
                classes: CLASS_COUNT,
                max_rows,
                threads: lane.members,
            };
            let (upper, lower) = if lane.kind == LaneKind::Connection { (1, 1) } else { (MAX_UPPER_ROWS, MAX_LOWER_ROWS) };
            LaneStrips { upper: Strip::new(shape(upper)), lower: Strip::new(shape(lower)), marks: Vec::new(), works: false }
        });
        // If segments are narrower than a pixel, wider columns keep the shares smooth.
        let path_column = if explanation.path.len() as f64 > width { 6.0 } else { 1.0 };
        let path =
            Strip::new(StripShape { width, narrowest: 1.0, column: path_column, classes: Cause::ALL.len(), max_rows: 1, threads: 1 });
        let at = |s: f64| explanation.start_ns.saturating_add((s * 1e9) as i64);
        let mut panel = Panel {
            start_ns: at(start_s),
            end_ns: at(end_s).max(at(start_s).saturating_add(1)),
            width,
            lanes: strips.collect(),
            path,
            hints: Vec::new(),
            classes: [false; CLASS_COUNT],
            drawn: (0, 0),
            messages: Messages::default(),
            flows: Flows::default(),
            marked: [0; MARK_CLASSES.len()],
            running: running.clone(),
        };
        panel.flows = Flows::new(panel.start_ns, panel.end_ns, width);
        for segment in explanation.path.iter().rev() {
            let (left, right) = (panel.x(at(segment.start_s)), panel.x(at(segment.end_s)));
            panel.path.add(left, right, segment.cause as usize);
        }
        panel
    }

    /// Returns the position of an instant, in pixels from the panel's left end.
    pub(crate) fn x(&self, ns: i64) -> f64 {
        ns.saturating_sub(self.start_ns) as f64 * self.width / (self.end_ns - self.start_ns) as f64
    }

    /// Adds a batch of spans, which must come in order of descending end.
    pub(crate) fn add(&mut self, plan: &Plan, names: &Names, batch: &SpanBatch) {
        for i in 0..batch.len() {
            let class = class_in(batch, i);
            let lane = plan.of_track.get(&batch.track[i]).copied();
            if let Some(lane) = lane {
                self.running_until_next(lane, batch, i);
            }
            self.flows.add(plan, batch, i);
            if batch.end_ns[i] < self.start_ns || batch.start_ns[i] > self.end_ns {
                continue;
            }
            let (left, right) = (self.x(batch.start_ns[i]), self.x(batch.end_ns[i]));
            self.messages.add(plan, batch, i, (left, right));
            let Some(lane) = lane else { continue };
            let folded = plan.lanes[lane].kind == LaneKind::Folded;
            // In a folded lane, a request and its parts would be counted twice.
            if !folded || class != SpanClass::Enclosing {
                let bar = self.put(lane, class == SpanClass::Enclosing, class, left, right, || hint(batch, i, names));
                self.drawn.0 += 1;
                self.drawn.1 += u64::from(!bar);
            }
            if let Some(signal) = batch.stopped_by(i).filter(|_| left >= 0.0) {
                self.put_mark(lane, left, MarkClass::Signal, format!("stopped by {}", signal_name(signal)));
            }
        }
    }

    /// Adds the time that a row's thread ran from the end of the row's span to its next span, if that is known.
    fn running_until_next(&mut self, lane: usize, batch: &SpanBatch, i: usize) {
        let Some(place) = self.running.place(batch, i) else { return };
        if let Some((from_ns, until_ns)) = self.running.between(place, batch.start_ns[i], batch.end_ns[i]) {
            self.run(lane, from_ns, until_ns);
        }
    }

    fn run(&mut self, lane: usize, from_ns: i64, until_ns: i64) {
        if until_ns > self.start_ns && from_ns < self.end_ns {
            let (left, right) = (self.x(from_ns), self.x(until_ns));
            self.put(lane, false, SpanClass::Compute, left, right, || {
                format!("running, {}", numbers::duration((until_ns - from_ns) as f64 * 1e-9))
            });
        }
    }

    /// Adds the time from each thread's beginning to its first span, once all spans were added.
    pub(crate) fn begin_threads(&mut self, plan: &Plan) {
        for (place, (from_ns, until_ns)) in self.running.first() {
            if let Some(&lane) = plan.of_track.get(&self.running.track(place)) {
                self.run(lane, from_ns, until_ns);
            }
        }
    }

    /// Whether earlier spans cannot change the panel: each thread's time in the panel is known.
    pub(crate) fn is_settled(&self) -> bool {
        self.running.is_settled(self.start_ns)
    }

    /// Adds a span; returns whether it became a bar.
    fn put(&mut self, lane: usize, upper: bool, class: SpanClass, left: f64, right: f64, text: impl FnOnce() -> String) -> bool {
        self.classes[class as usize] = true;
        let strips = &mut self.lanes[lane];
        strips.works |= !CLASSES[class as usize].thin && right > 0.0 && left < self.width;
        let strip = if upper { &mut strips.upper } else { &mut strips.lower };
        match strip.add(left, right, class as usize) {
            Some(row) if right - left >= HINT_WIDTH && self.hints.len() < MAX_HINTS => {
                let (left, right) = (left.max(0.0), right.min(self.width));
                self.hints.push(Hint { lane, upper, row, left, right, text: text() });
            }
            Some(_) => {}
            None => return false,
        }
        true
    }

    /// Adds a mark to its lane.
    pub(crate) fn mark(&mut self, plan: &Plan, mark: &Mark) {
        let x = self.x(mark.at.ns());
        let (Some(&lane), Some(class)) = (plan.of_track.get(&mark.track.number()), mark_class(mark.kind)) else { return };
        // Where many short threads are folded, their ends say nothing.
        let noise = class == MarkClass::Life && plan.lanes[lane].kind == LaneKind::Folded;
        if (0.0..=self.width).contains(&x) && !noise {
            let said = mark.value.filter(|_| class != MarkClass::Life);
            let value = said.map_or_else(String::new, |v| format!(" {v}"));
            self.put_mark(lane, x, class, format!("{}{value}", mark.kind.name()));
        }
    }

    /// Adds a mark, of each class at most one per pixel.
    fn put_mark(&mut self, lane: usize, x: f64, class: MarkClass, text: String) {
        self.marked[class as usize] += 1;
        let marks = &mut self.lanes[lane].marks;
        if !marks.iter().rev().take(64).any(|(at, other, _)| *other == class && (x - at).abs() < 1.0) {
            marks.push((x, class, text));
        }
    }
}

/// Returns the class of a row's span.
fn class_in(batch: &SpanBatch, i: usize) -> SpanClass {
    if batch.stopped_by(i).is_some() { SpanClass::Stopped } else { class_of(batch.kind[i], mostly(batch, i)) }
}

/// Returns the state of the thread for more than half of the span, if known.
pub(crate) fn mostly(batch: &SpanBatch, i: usize) -> Mostly {
    let duration = batch.end_ns[i].saturating_sub(batch.start_ns[i]).max(0) as u64;
    let known = |ns: u64| if ns == ABSENT { None } else { Some(ns.saturating_mul(2)) };
    match (known(batch.runqueue_ns[i]), known(batch.cpu_ns[i])) {
        (Some(twice), _) if twice > duration => Mostly::Runnable,
        (_, Some(twice)) if twice < duration => Mostly::Blocked,
        _ => Mostly::Ran,
    }
}

fn hint(batch: &SpanBatch, i: usize, names: &Names) -> String {
    let mut text = batch.kind[i].name().to_owned();
    if let Some(name) = names.objects.get(&batch.object[i]) {
        text += &format!(" {name}");
    }
    if batch.size_bytes[i] != ABSENT {
        text += &format!(", {}", numbers::size(batch.size_bytes[i]));
    }
    if batch.count[i] > 1 {
        text += &format!(", {} calls", batch.count[i]);
    }
    text += &format!(", {}", numbers::duration(batch.end_ns[i].saturating_sub(batch.start_ns[i]) as f64 * 1e-9));
    if batch.stack[i] != 0
        && let Ok(at) = names.stacks.binary_search_by_key(&batch.stack[i], |stack| stack.stack)
    {
        let (functions, kernel) = thalweg_explain::waited_in(&names.stacks[at].frames);
        text += &format!(", in {}", waits::stack(&functions, &kernel, STACK_COLUMNS));
    }
    text
}
