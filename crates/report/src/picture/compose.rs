//! Composes the picture from top to bottom: title, legends, panels, notes.

use super::axis::{label, ticks};
use super::canvas::{AXIS, Canvas, FAINT, GRID, HAIR, INK, Lettering, PAPER, RULE, fitted, text_width};
use super::close_up::CloseUp;
use super::drawn::{is_exact, main_channel, title};
use super::lanes::{Lane, LaneKind, Plan};
use super::palette::{CLASSES, ON_DARK, ON_LIGHT, SpanClass, cause_style, is_hatched, is_light};
use super::panel::{LaneStrips, Panel};
use super::strip::{cause_fill, class_fill};
use crate::words::cause_name;
use std::collections::{HashMap, HashSet};
use thalweg_base::numbers::{self, TIMES};
use thalweg_base::text::wrap;
use thalweg_explain::Cause;
use thalweg_explain::document::{Explanation, PhaseName};

/// Width of the labels at the left.
const LABELS: f64 = 230.0;
/// Margin around the picture.
pub(super) const MARGIN: f64 = 20.0;
/// Left edge of the panels.
pub(super) const LEFT: f64 = MARGIN + LABELS;
/// Height of the critical path.
const PATH_HEIGHT: f64 = 26.0;
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

pub(super) const TITLE: Lettering = Lettering::of(20.0).bold();
pub(super) const SMALL: Lettering = Lettering::of(11.0);
pub(super) const NOTE: Lettering = Lettering::of(11.5).in_colour(FAINT);

/// Draws from top to bottom, keeping the current position.
pub(crate) struct Composer<'a> {
    pub(super) canvas: Canvas,
    pub(super) explanation: &'a Explanation,
    pub(super) width: f64,
    pub(super) y: f64,
    /// Number of messages, if they were too many to draw.
    thicket: Option<usize>,
    /// The gaps to shade, with their causes.
    gaps: Vec<(Cause, (f64, f64))>,
}

impl<'a> Composer<'a> {
    /// Starts a picture of this width.
    pub(crate) fn new(width: f64, explanation: &'a Explanation) -> Composer<'a> {
        Composer { canvas: Canvas::default(), explanation, width, y: MARGIN, thicket: None, gaps: Vec::new() }
    }

    /// Returns the width of the panels.
    pub(crate) fn plot_width(&self) -> f64 {
        self.width - LABELS - 2.0 * MARGIN
    }

    /// Returns the finished picture.
    pub(crate) fn finish(self) -> String {
        self.canvas.finish_for_both(self.width, self.y + MARGIN, &title(self.explanation))
    }

    pub(super) fn paragraph(&mut self, text: &str, lettering: Lettering, line_height: f64) {
        let columns = ((self.width - 2.0 * MARGIN) / text_width("x", lettering.size)) as usize;
        for line in wrap(&thalweg_base::text::clean(text), columns) {
            self.y += line_height;
            self.canvas.text(MARGIN, self.y, &line, lettering);
        }
    }

    /// Draws the panel of the whole time: critical path, throughput, lanes, axis.
    pub(crate) fn whole(&mut self, plan: &Plan, panel: &Panel, enlarged: Option<(f64, f64)>) {
        self.phases(panel);
        let top = self.y;
        let shown = shown_lanes(plan, panel);
        let height = PATH_HEIGHT + 8.0 + panel.curve_height(plan) + lanes_height(plan, &shown, panel);
        self.grid(panel, top, height);
        self.know_gaps(panel);
        self.gaps(panel, top, height, None);
        self.path(panel);
        self.curve(plan, panel);
        self.lanes(plan, panel, &shown);
        self.axis(panel);
        if let Some((start_s, end_s)) = enlarged {
            let x = |s: f64| LEFT + s / self.explanation.wall_s * panel.width;
            let (left, right) = (x(start_s), x(end_s).max(x(start_s) + 4.0));
            self.canvas.rectangle(left, top - 4.0, right - left, 3.0, INK, 1.0);
            self.canvas.rectangle(left, self.y - AXIS_HEIGHT - 1.5, right - left, 3.0, INK, 1.0);
        }
    }

    /// Draws the close-up: the lanes that do anything in it, or that the critical path visits; for the network, those of both ends.
    pub(super) fn enlarged(&mut self, plan: &Plan, whole: &Panel, panel: &Panel, close_up: &CloseUp) {
        let (from, to) = close_up.shown;
        let name = cause_name(self.explanation, close_up.cause);
        let what = if close_up.is_gap { "gap" } else { "interval" };
        let of = match close_up.of {
            1 => format!("The {what} charged to {name}"),
            n => format!("One of {} {what}s charged to {name}", numbers::count(n as u64)),
        };
        let heading = format!("{of}, enlarged: {} from {} on (marked above)", numbers::duration(to - from), numbers::duration(from));
        let mut involved = self.involved(plan, panel);
        if close_up.cause.name().starts_with("network.") {
            // Whoever waits for the network at either end is involved.
            let ends = plan.server_tracks.iter().chain(&plan.command_tracks).filter_map(|track| plan.of_track.get(track));
            let ends: HashSet<usize> = ends.copied().filter(|lane| whole.lanes[*lane].works).collect();
            involved = shown_lanes(plan, panel).into_iter().filter(|lane| involved.contains(lane) || ends.contains(lane)).collect();
        }
        let stretch = (!close_up.is_gap).then_some((close_up.cause, close_up.shown));
        self.close_up(plan, panel, involved, &heading, stretch);
    }

    fn involved(&self, plan: &Plan, panel: &Panel) -> Vec<usize> {
        let (start_s, end_s) = self.seconds(panel);
        let in_panel = self.explanation.path.iter().filter(|s| s.end_s > start_s && s.start_s < end_s);
        let on_path: HashSet<usize> = in_panel.filter_map(|s| plan.of_track.get(&s.track?).copied()).collect();
        let works = |lane: &usize| panel.lanes[*lane].works || !panel.lanes[*lane].marks.is_empty() || on_path.contains(lane);
        let moves = |lane: &usize| panel.flows.of_lane(*lane).iter().any(Option::is_some);
        shown_lanes(plan, panel).into_iter().filter(|lane| works(lane) || moves(lane)).collect()
    }

    /// Draws the panel of a time window without a whole panel above it. Lanes empty in the window are left out.
    pub(super) fn part(&mut self, plan: &Plan, panel: &Panel, (start_s, end_s): (f64, f64)) {
        let [from, to, all] = [start_s, end_s, self.explanation.wall_s].map(numbers::duration);
        self.know_gaps(panel);
        self.close_up(plan, panel, shown_lanes(plan, panel), &format!("From {from} to {to}, of {all}"), None);
    }

    fn close_up(&mut self, plan: &Plan, panel: &Panel, mut shown: Vec<usize>, heading: &str, stretch: Option<(Cause, (f64, f64))>) {
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
        let height = path_height + GAP_LABELS + panel.curve_height(plan) + lanes_height(plan, &shown, panel);
        self.grid(panel, top, height);
        let labels_at = path_height + GAP_LABELS - 4.0;
        match stretch {
            Some((cause, interval)) => {
                let name = cause_name(self.explanation, cause);
                self.shade(panel, (top, height), cause, interval, Some((labels_at, name)));
            }
            None => self.gaps(panel, top, height, Some(labels_at)),
        }
        if exact {
            self.path(panel);
        }
        self.y += GAP_LABELS;
        self.curve(plan, panel);
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
                "{narrow} of {all} spans are too narrow to be drawn one by one: there, colours are stacked, each as high as its part of \
                 the time; waiting is blank."
            ));
        }
        notes.extend(plan.folded.clone());
        if let Some(messages) = self.thicket {
            notes.push(format!("Messages from rank to rank are arrows where they are few; here are {}.", numbers::count(messages as u64)));
        }
        if plan.lanes.iter().any(|l| l.kind == LaneKind::Connection) {
            notes.push("On connections, the rate of what the client sent is above, of what the server sent below.".into());
        }
        if let Some(channel) = main_channel(self.explanation) {
            let longest = channel.gaps.longest.len() as u64;
            if channel.gaps.count > longest && self.gaps.len() as u64 == longest {
                let (longest, all) = (numbers::count(longest), numbers::count(channel.gaps.count));
                notes.push(format!("Shaded are the {longest} longest of {all} gaps of “{}”.", channel.name));
            } else if !self.gaps.is_empty() {
                let longest = self.gaps.len();
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
        if self.explanation.phases.len() > 1 && phases_tell(self.explanation) {
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
                self.canvas.line((left + 1.0, self.y - 4.0), (right - 1.0, self.y - 4.0), AXIS, "");
                let middle = f64::midpoint(left, right);
                let wide = text_width(name, 10.5) + 6.0;
                self.canvas.rectangle(middle - wide / 2.0, self.y - 12.0, wide, 12.0, PAPER, 1.0);
                self.canvas.text(middle, self.y, name, Lettering::of(10.5).in_colour(FAINT).held("middle"));
            }
        }
        self.y += 7.0;
    }

    fn grid(&mut self, panel: &Panel, top: f64, height: f64) {
        let (start_s, end_s) = self.seconds(panel);
        for at in ticks(start_s, end_s, tick_count(panel.width)).at {
            let x = LEFT + (at - start_s) / (end_s - start_s) * panel.width;
            self.canvas.line((x, top), (x, top + height + 4.0), GRID, "");
        }
    }

    fn seconds(&self, panel: &Panel) -> (f64, f64) {
        let second = |ns: i64| ns.saturating_sub(self.explanation.start_ns) as f64 * 1e-9;
        (second(panel.start_ns), second(panel.end_ns))
    }

    /// Remembers the gaps in which nothing moved.
    fn know_gaps(&mut self, panel: &Panel) {
        self.gaps = super::close_up::gaps(self.explanation, panel).map(|gap| (gap.cause, (gap.start_s, gap.end_s))).collect();
    }

    /// Shades the gaps, and writes their lengths `labels_at` below the top, where there is room.
    fn gaps(&mut self, panel: &Panel, top: f64, height: f64, labels_at: Option<f64>) {
        for (cause, interval) in self.gaps.clone() {
            self.shade(panel, (top, height), cause, interval, labels_at.map(|at| (at, "gap")));
        }
    }

    /// Shades an interval in the colour of its cause, and writes its length.
    fn shade(&mut self, panel: &Panel, (top, height): (f64, f64), cause: Cause, (from, to): (f64, f64), label: Option<(f64, &str)>) {
        let (start_s, end_s) = self.seconds(panel);
        let scale = panel.width / (end_s - start_s);
        let left = (from.max(start_s) - start_s) * scale;
        let right = (to.min(end_s) - start_s) * scale;
        if right <= left {
            return;
        }
        self.canvas.rectangle(LEFT + left, top, (right - left).max(0.6), height, cause_style(cause).colour, SHADE);
        let Some((labels_at, name)) = label else { return };
        let said = format!("{name} {}", numbers::duration(to - from));
        if right - left > text_width(&said, 10.5) + 6.0 {
            let middle = LEFT + f64::midpoint(left, right);
            self.canvas.text(middle, top + labels_at, &said, Lettering::of(10.5).in_colour(FAINT).held("middle"));
        }
    }

    fn path(&mut self, panel: &Panel) {
        self.label(self.y + 17.0, "critical path", Lettering::of(12.0).bold());
        let fill = |class: usize| cause_fill(Cause::ALL[class]);
        panel.path.draw(&mut self.canvas, LEFT, self.y, PATH_HEIGHT + 1.0, &fill);
        for (left, right, class) in panel.path.wide_bars(60.0) {
            let colour = cause_style(Cause::ALL[class]).colour;
            let name = cause_name(self.explanation, Cause::ALL[class]);
            let wide = text_width(name, 10.5);
            if wide + 6.0 > right - left {
                continue;
            }
            let middle = LEFT + f64::midpoint(left, right);
            if is_hatched(Cause::ALL[class]) {
                self.canvas.rectangle(middle - wide / 2.0 - 2.0, self.y + 6.0, wide + 4.0, 14.0, colour, 1.0);
            }
            let ink = if is_light(colour) { ON_LIGHT } else { ON_DARK };
            self.canvas.text(middle, self.y + 17.0, name, Lettering::of(10.5).in_colour(ink).held("middle"));
        }
        self.y += PATH_HEIGHT + 8.0;
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
        if lane.kind == LaneKind::Connection {
            self.connection(index, panel, upper_row);
        }
        strips.upper.draw(&mut self.canvas, LEFT, self.y, upper_row, &fill);
        strips.lower.draw(&mut self.canvas, LEFT, self.y + upper_height, lower_row, &fill);
        if lane.kind == LaneKind::Track {
            self.stops(strips, upper_height, lower_row);
        }
        for (x, class, what) in &strips.marks {
            class.draw(&mut self.canvas, LEFT + x, self.y, height);
            self.canvas.hint(LEFT + x - 2.5, self.y, 5.0, height, what);
        }
        for hint in panel.hints.iter().filter(|h| h.lane == index) {
            let (top, row) = if hint.upper { (self.y, upper_row) } else { (self.y + upper_height, lower_row) };
            self.canvas.hint(LEFT + hint.left, top + hint.row as f64 * row, hint.right - hint.left, row, &hint.text);
        }
        let below = self.y + height + LANE_GAP / 2.0;
        self.canvas.line((LEFT, below), (LEFT + panel.width, below), HAIR, "");
        self.y += height + LANE_GAP;
    }

    /// Writes into each wide bar of a stopped thread what it is: it must not look like waiting.
    fn stops(&mut self, strips: &LaneStrips, upper_height: f64, row: f64) {
        let name = CLASSES[SpanClass::Stopped as usize].name;
        let wide = text_width(name, 10.0);
        for (left, right, class) in strips.lower.wide_bars(wide + 12.0) {
            if class == SpanClass::Stopped as usize {
                let (middle, y) = (LEFT + f64::midpoint(left, right), self.y + upper_height + row - 3.5);
                let colour = CLASSES[class].colour;
                self.canvas.rectangle(middle - wide / 2.0 - 3.0, y - 9.0, wide + 6.0, row - 1.0, colour, 1.0);
                self.canvas.text(middle, y, name, Lettering::of(10.0).in_colour(ON_DARK).held("middle"));
            }
        }
    }

    fn axis(&mut self, panel: &Panel) {
        let (start_s, end_s) = self.seconds(panel);
        let unit = TIMES.suiting(end_s);
        let marks = ticks(start_s, end_s, tick_count(panel.width));
        self.canvas.line((LEFT, self.y), (LEFT + panel.width, self.y), FAINT, "");
        for at in &marks.at {
            let x = LEFT + (at - start_s) / (end_s - start_s) * panel.width;
            self.canvas.line((x, self.y), (x, self.y + 4.0), FAINT, "");
            let text = label(at / unit.size, marks.step / unit.size);
            self.canvas.text(x, self.y + 16.0, &text, SMALL.in_colour(FAINT).held("middle"));
        }
        self.canvas.text(LEFT - 26.0, self.y + 16.0, &format!("time, {}", unit.name), SMALL.in_colour(FAINT).held("end"));
        self.y += AXIS_HEIGHT;
    }
}

/// Height of a group's heading.
const GROUP_HEIGHT: f64 = 24.0;

/// Whether the phases are those of the whole run: if what comes before the first byte or after the last one is much of it, "set-up" and
/// "tear-down" are the wrong names for it.
fn phases_tell(e: &Explanation) -> bool {
    let outside = e.phases.iter().filter(|p| matches!(p.name, PhaseName::SetUp | PhaseName::TearDown));
    outside.map(|p| p.end_s - p.start_s).sum::<f64>() <= MOST_OUTSIDE * e.wall_s
}

/// Most of the run that is called set-up and tear-down.
const MOST_OUTSIDE: f64 = 0.25;

fn tick_count(width: f64) -> usize {
    (width / 90.0) as usize
}

/// Returns the lanes that are not empty.
fn shown_lanes(plan: &Plan, panel: &Panel) -> Vec<usize> {
    let empty = |s: &LaneStrips| s.upper.is_empty() && s.lower.is_empty() && s.marks.is_empty();
    let moves = |i: usize| panel.flows.of_lane(i).iter().any(Option::is_some);
    (0..plan.lanes.len()).filter(|&i| !empty(&panel.lanes[i]) || moves(i)).collect()
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
