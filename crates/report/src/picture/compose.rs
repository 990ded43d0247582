//! Composes the picture from top to bottom: title, legends, panels, notes.

use super::axis::{label, ticks};
use super::canvas::{Canvas, FAINT, Lettering, Path, RULE, fitted, text_width};
use super::lanes::{Lane, LaneKind, Plan};
use super::palette::{CLASSES, cause_style, is_hatched, is_light};
use super::panel::{LaneStrips, Panel};
use super::strip::Fill;
use crate::words::cause_name;
use std::collections::{BTreeMap, HashMap};
use thalweg_base::numbers::{self, BIT_RATES, TIMES};
use thalweg_base::text::wrap;
use thalweg_explain::Cause;
use thalweg_explain::document::{Channel, Explanation, MAX_SEGMENTS, PhaseName, Throughput};

/// Width of the labels at the left.
const LABELS: f64 = 230.0;
/// Margin around the picture.
const MARGIN: f64 = 20.0;
/// Left edge of the panels.
const LEFT: f64 = MARGIN + LABELS;
/// Height of the critical path.
const PATH_HEIGHT: f64 = 26.0;
/// Height of the throughput curve.
const CURVE_HEIGHT: f64 = 84.0;
/// Height of a row of requests or RPCs.
const UPPER_ROW: f64 = 5.0;
/// Height of a row of other spans.
const LOWER_ROW: f64 = 13.0;
/// Height of one direction of a connection.
const DIRECTION_ROW: f64 = 8.0;
/// Gap between lanes.
const LANE_GAP: f64 = 5.0;
/// Height of the line with the lengths of gaps.
const GAP_LABELS: f64 = 14.0;
/// With more lanes than this, connections are left out of the enlarged panel: the sending threads show the same.
const MANY_LANES: usize = 24;
/// Height of the time axis with its numbers.
const AXIS_HEIGHT: f64 = 24.0;
/// Opacity of a gap's shade.
const SHADE: f64 = 0.16;

const TITLE: Lettering = Lettering::of(20.0).bold();
const SMALL: Lettering = Lettering::of(11.0);
const NOTE: Lettering = Lettering::of(11.5).in_colour(FAINT);

/// Draws from top to bottom, keeping the current position.
pub(crate) struct Composer<'a> {
    canvas: Canvas,
    explanation: &'a Explanation,
    width: f64,
    y: f64,
    /// Number of messages, if they were too many to draw.
    thicket: Option<usize>,
}

impl<'a> Composer<'a> {
    /// Starts a picture of this width.
    pub(crate) fn new(width: f64, explanation: &'a Explanation) -> Composer<'a> {
        Composer { canvas: Canvas::default(), explanation, width, y: MARGIN, thicket: None }
    }

    /// Returns the width of the panels.
    pub(crate) fn plot_width(&self) -> f64 {
        self.width - LABELS - 2.0 * MARGIN
    }

    /// Returns the finished picture.
    pub(crate) fn finish(self) -> String {
        self.canvas.finish(self.width, self.y + MARGIN, &self.explanation.verdict.sentence)
    }

    fn paragraph(&mut self, text: &str, lettering: Lettering, line_height: f64) {
        let columns = ((self.width - 2.0 * MARGIN) / text_width("x", lettering.size)) as usize;
        for line in wrap(&thalweg_base::text::clean(text), columns) {
            self.y += line_height;
            self.canvas.text(MARGIN, self.y, &line, lettering);
        }
    }

    /// Draws the title, the command and figures, and the legends.
    pub(crate) fn head(&mut self, panels: &[Panel]) {
        let e = self.explanation;
        let sentence = &e.verdict.sentence;
        let long = sentence.chars().count() > 170;
        let (size, line_height) = if long { (17.0, 22.0) } else { (20.0, 25.0) };
        self.paragraph(sentence, Lettering { size, ..TITLE }, line_height);
        self.y += 4.0;
        let mut said = vec![thalweg_base::text::cut(&e.command.join(" "), 110)];
        said.push(e.summary.about.clone());
        said.push(format!("recorder: {}", e.recorder));
        if e.dropped_events > 0 {
            said.push(format!("{} events lost", numbers::count(e.dropped_events)));
        }
        said.retain(|s| !s.is_empty());
        self.paragraph(&said.join("  ·  "), NOTE.in_colour(FAINT), 19.0);
        self.y += 14.0;
        self.legend_of_causes();
        self.legend_of_spans(panels);
        self.y += 4.0;
    }

    fn legend_of_causes(&mut self) {
        let mut shares: BTreeMap<Cause, f64> = BTreeMap::new();
        for charge in &self.explanation.critical_path {
            *shares.entry(charge.cause).or_default() += charge.share;
        }
        let mut shares: Vec<(Cause, f64)> = shares.into_iter().filter(|(_, share)| *share >= 0.0005).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        let chips: Vec<Chip> = shares
            .into_iter()
            .map(|(cause, share)| {
                let name = cause_name(self.explanation, cause);
                Chip { fill: cause_fill(cause), text: format!("{name} {}", numbers::percent(share)) }
            })
            .collect();
        self.chips("Critical path", &chips);
    }

    fn legend_of_spans(&mut self, panels: &[Panel]) {
        let seen = |i: usize| panels.iter().any(|p| p.classes[i]);
        let mut chips: Vec<Chip> =
            (0..CLASSES.len()).filter(|&i| seen(i)).map(|i| Chip { fill: class_fill(i), text: CLASSES[i].name.to_owned() }).collect();
        if main_channel(self.explanation).is_some_and(|c| !c.gaps.longest.is_empty()) {
            let fill = Fill { colour: "#E4E4E4", hatched: false, thin: false };
            chips.push(Chip { fill, text: "shaded: gap, in the colour of its cause".into() });
        }
        self.chips("Lanes", &chips);
    }

    fn chips(&mut self, name: &str, chips: &[Chip]) {
        if chips.is_empty() {
            return;
        }
        let begin = MARGIN + 100.0;
        self.y += 14.0;
        self.canvas.text(MARGIN, self.y, name, SMALL.bold());
        let mut x = begin;
        for chip in chips {
            let wide = 17.0 + text_width(&chip.text, 11.0) + 12.0;
            if x + wide > self.width - MARGIN && x > begin {
                x = begin;
                self.y += 17.0;
            }
            let mut path = Path::default();
            let (top, high) = if chip.fill.thin { (4.5, 2.5) } else { (0.0, 11.0) };
            path.rectangle(0.0, top, 12.0, high);
            self.canvas.path(x, self.y - 9.5, &path, chip.fill.colour);
            if chip.fill.hatched {
                self.canvas.path(x, self.y - 9.5, &path, "url(#server)");
            }
            self.canvas.text(x + 17.0, self.y, &chip.text, SMALL);
            x += wide;
        }
        self.y += 5.0;
    }

    /// Draws the panel of the whole time: critical path, throughput, lanes, axis.
    pub(crate) fn whole(&mut self, plan: &Plan, panel: &Panel, enlarged: Option<(f64, f64)>) {
        self.phases(panel);
        let top = self.y;
        let shown = shown_lanes(plan, panel);
        let height = PATH_HEIGHT + 8.0 + self.curve_height() + lanes_height(plan, &shown, panel);
        self.grid(panel, top, height);
        self.gaps(panel, top, height, None);
        self.path(panel);
        self.curve(panel);
        self.lanes(plan, panel, &shown);
        self.axis(panel);
        if let Some((start_s, end_s)) = enlarged {
            let x = |s: f64| LEFT + s / self.explanation.wall_s * panel.width;
            let (left, right) = (x(start_s), x(end_s).max(x(start_s) + 4.0));
            self.canvas.rectangle(left, top - 4.0, right - left, 3.0, "#1B2430", 1.0);
            self.canvas.rectangle(left, self.y - AXIS_HEIGHT - 1.5, right - left, 3.0, "#1B2430", 1.0);
        }
    }

    /// Draws the panel of a few requests. Lanes that are empty in the whole panel are left out here too.
    pub(crate) fn enlarged(&mut self, plan: &Plan, whole: &Panel, panel: &Panel, start_s: f64, end_s: f64) {
        let heading =
            format!("Enlarged: {} from {} on (marked black above)", numbers::duration(end_s - start_s), numbers::duration(start_s),);
        self.close_up(plan, panel, shown_lanes(plan, whole), &heading);
    }

    /// Draws the panel of a time window without a whole panel above it. Lanes empty in the window are left out.
    pub(crate) fn part(&mut self, plan: &Plan, panel: &Panel, (start_s, end_s): (f64, f64)) {
        let [from, to, all] = [start_s, end_s, self.explanation.wall_s].map(numbers::duration);
        self.close_up(plan, panel, shown_lanes(plan, panel), &format!("From {from} to {to}, of {all}"));
    }

    fn close_up(&mut self, plan: &Plan, panel: &Panel, mut shown: Vec<usize>, heading: &str) {
        self.y += 22.0;
        self.canvas.text(MARGIN, self.y, heading, Lettering::of(13.0).bold());
        self.y += 10.0;
        let top = self.y;
        if shown.len() > MANY_LANES {
            shown.retain(|&lane| plan.lanes[lane].kind != LaneKind::Connection);
        }
        // If segments stand for their neighbours, enlarging one would suggest more precision than there is.
        let exact = is_exact(self.explanation);
        let path_height = if exact { PATH_HEIGHT + 8.0 } else { 0.0 };
        let height = path_height + GAP_LABELS + lanes_height(plan, &shown, panel);
        self.grid(panel, top, height);
        self.gaps(panel, top, height, Some(path_height + GAP_LABELS - 4.0));
        if exact {
            self.path(panel);
        }
        self.y += GAP_LABELS;
        self.lanes(plan, panel, &shown);
        self.axis(panel);
    }

    /// Draws the notes on how to read the picture.
    pub(crate) fn foot(&mut self, plan: &Plan, whole: &Panel) {
        self.y += 8.0;
        let mut notes = Vec::new();
        let (drawn, narrow) = whole.drawn;
        if narrow > 0 {
            let (all, narrow) = (numbers::count(drawn), numbers::count(narrow.min(drawn)));
            notes.push(format!(
                "{narrow} of {all} spans are too narrow to be drawn one by one: there, colours are stacked, each as high as its part of the time; waiting is blank."
            ));
        }
        notes.extend(plan.folded.clone());
        if let Some(messages) = self.thicket {
            notes.push(format!("Messages from rank to rank are arrows where they are few; here are {}.", numbers::count(messages as u64)));
        }
        if plan.lanes.iter().any(|l| l.kind == LaneKind::Connection) {
            notes.push("On connections, what the client sent is above, what the server sent below.".into());
        }
        if let Some(channel) = main_channel(self.explanation) {
            let longest = channel.gaps.longest.len() as u64;
            if channel.gaps.count > longest && longest > 0 {
                let (longest, all) = (numbers::count(longest), numbers::count(channel.gaps.count));
                notes.push(format!("Shaded are the {longest} longest of {all} gaps of “{}”.", channel.name));
            } else if longest > 0 {
                let gaps = if longest == 1 { "is the one gap".to_owned() } else { format!("are the {longest} gaps") };
                notes.push(format!("Shaded {gaps} of “{}”.", channel.name));
            }
        }
        if !is_exact(self.explanation) {
            notes.push("The critical path is drawn in steps: its parts are right over many of them.".into());
        }
        if self.explanation.critical_path.iter().any(|c| is_hatched(c.cause)) {
            notes.push("Hatched on the critical path: at the server.".into());
        }
        notes.extend(self.explanation.notes.iter().cloned());
        if !notes.is_empty() {
            self.paragraph(&notes.join(" "), NOTE, 16.0);
        }
    }

    fn label(&mut self, y: f64, text: &str, lettering: Lettering) {
        let text = fitted(text, lettering.size, LABELS - 12.0);
        self.canvas.text(LEFT - 10.0, y, &text, lettering.held("end"));
    }

    /// Draws the names of the phases over the panel, where there is room.
    fn phases(&mut self, panel: &Panel) {
        self.y += 18.0;
        if self.explanation.phases.len() > 1 {
            for phase in &self.explanation.phases {
                let name = match phase.name {
                    PhaseName::SetUp => "set-up",
                    PhaseName::Ramp => "ramp",
                    PhaseName::Steady => "steady",
                    PhaseName::Drain => "drain",
                    PhaseName::TearDown => "tear-down",
                };
                let x = |s: f64| LEFT + (s / self.explanation.wall_s * panel.width).clamp(0.0, panel.width);
                let (left, right) = (x(phase.start_s), x(phase.end_s));
                if right - left < text_width(name, 10.5) + 8.0 {
                    continue;
                }
                self.canvas.line((left + 1.0, self.y - 4.0), (right - 1.0, self.y - 4.0), "#9AA3AE", "");
                let middle = f64::midpoint(left, right);
                let wide = text_width(name, 10.5) + 6.0;
                self.canvas.rectangle(middle - wide / 2.0, self.y - 12.0, wide, 12.0, "#fff", 1.0);
                self.canvas.text(middle, self.y, name, Lettering::of(10.5).in_colour(FAINT).held("middle"));
            }
        }
        self.y += 7.0;
    }

    fn grid(&mut self, panel: &Panel, top: f64, height: f64) {
        let (start_s, end_s) = self.seconds(panel);
        for at in ticks(start_s, end_s, tick_count(panel.width)).at {
            let x = LEFT + (at - start_s) / (end_s - start_s) * panel.width;
            self.canvas.line((x, top), (x, top + height + 4.0), "#EDEFF2", "");
        }
    }

    fn seconds(&self, panel: &Panel) -> (f64, f64) {
        let second = |ns: i64| ns.saturating_sub(self.explanation.start_ns) as f64 * 1e-9;
        (second(panel.start_ns), second(panel.end_ns))
    }

    /// Shades the gaps, and writes their lengths `labels_at` below the top, where there is room.
    fn gaps(&mut self, panel: &Panel, top: f64, height: f64, labels_at: Option<f64>) {
        let explanation = self.explanation;
        let Some(channel) = main_channel(explanation) else { return };
        let (start_s, end_s) = self.seconds(panel);
        let scale = panel.width / (end_s - start_s);
        for gap in &channel.gaps.longest {
            let left = (gap.start_s.max(start_s) - start_s) * scale;
            let right = (gap.end_s.min(end_s) - start_s) * scale;
            if right <= left {
                continue;
            }
            let style = cause_style(gap.cause);
            self.canvas.rectangle(LEFT + left, top, (right - left).max(0.6), height, style.colour, SHADE);
            let said = format!("gap {}", numbers::duration(gap.end_s - gap.start_s));
            if let Some(labels_at) = labels_at
                && right - left > text_width(&said, 10.5) + 6.0
            {
                let middle = LEFT + f64::midpoint(left, right);
                let lettering = Lettering::of(10.5).in_colour(FAINT).held("middle");
                self.canvas.text(middle, top + labels_at, &said, lettering);
            }
        }
    }

    fn path(&mut self, panel: &Panel) {
        self.label(self.y + 17.0, "critical path", Lettering::of(12.0).bold());
        let fill = |class: usize| cause_fill(Cause::ALL[class]);
        panel.path.draw(&mut self.canvas, LEFT, self.y, PATH_HEIGHT + 1.0, &fill);
        for (left, right, class) in panel.path.wide_bars(60.0) {
            let style = cause_style(Cause::ALL[class]);
            let wide = text_width(style.name, 10.5);
            if wide + 6.0 > right - left {
                continue;
            }
            let middle = LEFT + f64::midpoint(left, right);
            let light = is_light(style.colour);
            if is_hatched(Cause::ALL[class]) {
                self.canvas.rectangle(middle - wide / 2.0 - 2.0, self.y + 6.0, wide + 4.0, 14.0, style.colour, 1.0);
            }
            let colour = if light { "#1B2430" } else { "#fff" };
            self.canvas.text(middle, self.y + 17.0, style.name, Lettering::of(10.5).in_colour(colour).held("middle"));
        }
        self.y += PATH_HEIGHT + 8.0;
    }

    fn curve_height(&self) -> f64 {
        if self.explanation.throughput.is_some() { CURVE_HEIGHT + 14.0 } else { 0.0 }
    }

    /// Draws payload over time, with its own axis at the left.
    fn curve(&mut self, panel: &Panel) {
        let explanation = self.explanation;
        let Some(throughput) = &explanation.throughput else { return };
        self.y += 4.0;
        let (top, bottom) = (self.y, self.y + CURVE_HEIGHT);
        let highest = throughput.bytes_per_s.iter().copied().fold(0.0, f64::max);
        let unit = BIT_RATES.suiting(highest);
        let highest = highest / unit.size;
        let scale = ticks(0.0, highest.max(1e-9), 4);
        let full = scale.at.last().map_or(scale.step, |last| if *last < highest * 0.999 { last + scale.step } else { *last });
        let y = |value: f64| bottom - (value / full).min(1.0) * CURVE_HEIGHT;
        for value in scale.at.iter().copied().chain([full]) {
            self.canvas.line((LEFT, y(value)), (LEFT + panel.width, y(value)), "#E6E9ED", "");
            let text = label(value, scale.step);
            self.canvas.text(LEFT - 6.0, y(value) + 3.5, &text, Lettering::of(10.0).in_colour(FAINT).held("end"));
        }
        self.canvas.path(LEFT, bottom, &curve_area(throughput, explanation.wall_s, panel.width, full * unit.size), "#009E73");
        let name = Lettering::of(12.0).bold().held("end");
        self.canvas.text(LEFT - 36.0, top + 14.0, "throughput", name);
        self.canvas.text(
            LEFT - 36.0,
            top + 29.0,
            &format!("payload sent, {}", unit.name),
            Lettering::of(10.5).in_colour(FAINT).held("end"),
        );
        if let Some(rate) = explanation.rate_bytes_per_s {
            let at = y(rate / unit.size);
            self.canvas.line((LEFT, at), (LEFT + panel.width, at), "#1B2430", "5 4");
            let said = format!("mean {} (dashed)", numbers::bit_rate(rate));
            self.canvas.text(LEFT - 36.0, top + 44.0, &said, Lettering::of(10.5).in_colour(FAINT).held("end"));
        }
        self.canvas.line((LEFT, bottom), (LEFT + panel.width, bottom), "#9AA3AE", "");
        self.y = bottom + 10.0;
    }

    fn lanes(&mut self, plan: &Plan, panel: &Panel, shown: &[usize]) {
        let mut group = None;
        let mut middles = HashMap::new();
        for &index in shown {
            let lane = &plan.lanes[index];
            if group != Some(lane.group) {
                group = Some(lane.group);
                self.y += GROUP_HEIGHT;
                self.canvas.line((MARGIN, self.y - 17.0), (LEFT + panel.width, self.y - 17.0), RULE, "");
                self.canvas.text(MARGIN, self.y - 4.0, &plan.groups[lane.group], Lettering::of(12.0).bold());
            }
            let top = self.y;
            self.lane(lane, index, panel);
            middles.insert(index, f64::midpoint(top, self.y - LANE_GAP));
        }
        self.thicket = panel.messages.draw(&mut self.canvas, LEFT, &middles).or(self.thicket);
        self.y += 4.0;
    }

    fn lane(&mut self, lane: &Lane, index: usize, panel: &Panel) {
        let strips = &panel.lanes[index];
        let (upper_height, lower_height) = heights(lane, strips);
        let height = upper_height + lower_height;
        let lettering = if lane.kind == LaneKind::Track { SMALL } else { SMALL.in_colour(FAINT) };
        let lettering = if lane.kind == LaneKind::Connection { Lettering { size: 10.0, ..lettering } } else { lettering };
        self.label(self.y + (height + lettering.size) / 2.0 - 1.5, &lane.label, lettering);
        let (upper_row, lower_row) = rows(lane);
        let fill = |class: usize| class_fill(class);
        strips.upper.draw(&mut self.canvas, LEFT, self.y, upper_row, &fill);
        strips.lower.draw(&mut self.canvas, LEFT, self.y + upper_height, lower_row, &fill);
        for (x, what) in &strips.marks {
            let mut path = Path::default();
            path.steps(&[(-2.5, 2.5, 0.0, 4.0), (-0.5, 0.5, 4.0, height)]);
            self.canvas.path(LEFT + x, self.y, &path, "#C1121F");
            self.canvas.hint(LEFT + x - 2.5, self.y, 5.0, height, what);
        }
        for hint in panel.hints.iter().filter(|h| h.lane == index) {
            let (top, row) = if hint.upper { (self.y, upper_row) } else { (self.y + upper_height, lower_row) };
            self.canvas.hint(LEFT + hint.left, top + hint.row as f64 * row, hint.right - hint.left, row, &hint.text);
        }
        let below = self.y + height + LANE_GAP / 2.0;
        self.canvas.line((LEFT, below), (LEFT + panel.width, below), "#F0F2F4", "");
        self.y += height + LANE_GAP;
    }

    fn axis(&mut self, panel: &Panel) {
        let (start_s, end_s) = self.seconds(panel);
        let unit = TIMES.suiting(end_s);
        let marks = ticks(start_s, end_s, tick_count(panel.width));
        self.canvas.line((LEFT, self.y), (LEFT + panel.width, self.y), "#5A6573", "");
        for at in &marks.at {
            let x = LEFT + (at - start_s) / (end_s - start_s) * panel.width;
            self.canvas.line((x, self.y), (x, self.y + 4.0), "#5A6573", "");
            let text = label(at / unit.size, marks.step / unit.size);
            self.canvas.text(x, self.y + 16.0, &text, SMALL.in_colour(FAINT).held("middle"));
        }
        self.canvas.text(LEFT - 26.0, self.y + 16.0, &format!("time, {}", unit.name), SMALL.in_colour(FAINT).held("end"));
        self.y += AXIS_HEIGHT;
    }
}

struct Chip {
    fill: Fill,
    text: String,
}

/// Height of a group's heading.
const GROUP_HEIGHT: f64 = 24.0;

fn cause_fill(cause: Cause) -> Fill {
    Fill { colour: cause_style(cause).colour, hatched: is_hatched(cause), thin: false }
}

fn class_fill(class: usize) -> Fill {
    Fill { colour: CLASSES[class].colour, hatched: false, thin: CLASSES[class].thin }
}

fn tick_count(width: f64) -> usize {
    (width / 90.0) as usize
}

/// Returns the lanes that are not empty.
fn shown_lanes(plan: &Plan, panel: &Panel) -> Vec<usize> {
    let empty = |s: &LaneStrips| s.upper.is_empty() && s.lower.is_empty() && s.marks.is_empty();
    (0..plan.lanes.len()).filter(|&i| !empty(&panel.lanes[i])).collect()
}

/// Returns the row heights of the upper and the lower strip.
fn rows(lane: &Lane) -> (f64, f64) {
    if lane.kind == LaneKind::Connection { (DIRECTION_ROW, DIRECTION_ROW) } else { (UPPER_ROW, LOWER_ROW) }
}

/// Returns the heights of the upper and the lower strip.
fn heights(lane: &Lane, strips: &LaneStrips) -> (f64, f64) {
    let (upper, lower) = rows(lane);
    let upper_rows = if lane.kind == LaneKind::Track && strips.upper.is_empty() { 0 } else { strips.upper.rows() };
    let upper_rows = if lane.kind == LaneKind::Folded { 0 } else { upper_rows };
    (upper * upper_rows as f64, lower * strips.lower.rows() as f64)
}

fn lanes_height(plan: &Plan, shown: &[usize], panel: &Panel) -> f64 {
    let mut height = 4.0;
    let mut group = None;
    for &index in shown {
        let lane = &plan.lanes[index];
        if group != Some(lane.group) {
            group = Some(lane.group);
            height += GROUP_HEIGHT;
        }
        let (upper, lower) = heights(lane, &panel.lanes[index]);
        height += upper + lower + LANE_GAP;
    }
    height
}

/// Returns the channel whose gaps are drawn: the sum over the direction that carried most, or else the first connection.
pub(super) fn main_channel(explanation: &Explanation) -> Option<&Channel> {
    let sums = explanation.channels.iter().filter(|c| c.aggregate);
    sums.max_by_key(|c| c.size_bytes).or_else(|| explanation.channels.first())
}

/// Whether the path's segments are exact charges and do not stand for their neighbours. A path too long to keep is cut into steps of equal
/// length; an exact one has shorter segments.
fn is_exact(explanation: &Explanation) -> bool {
    let step_s = explanation.wall_s / MAX_SEGMENTS as f64;
    let short = explanation.path.iter().filter(|s| s.end_s - s.start_s < 0.9 * step_s).count();
    explanation.path.len() < MAX_SEGMENTS / 4 || short > 1
}

/// Returns the area under the curve, in pixels, with its origin at the left end of the base line.
fn curve_area(throughput: &Throughput, wall_s: f64, width: f64, full_bytes_per_s: f64) -> Path {
    let mut steps: Vec<(f64, f64, f64, f64)> = Vec::with_capacity(throughput.bytes_per_s.len());
    let x = |s: f64| (s / wall_s * width).clamp(0.0, width);
    for (i, rate) in throughput.bytes_per_s.iter().enumerate() {
        let (left, right) = (x(i as f64 * throughput.bin_s), x((i + 1) as f64 * throughput.bin_s));
        if right > left {
            steps.push((left, right, -(rate / full_bytes_per_s).clamp(0.0, 1.0) * CURVE_HEIGHT, 0.0));
        }
    }
    let mut path = Path::default();
    path.steps(&steps);
    path
}
