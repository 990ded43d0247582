//! The picture of a recording: self-contained SVG for a ticket or a paper.
//!
//! From top to bottom: the verdict as its title; legends; the critical path as one bar in the colours of its causes; the throughput
//! curve; a lane for each client thread, connection and server thread, with the gaps shaded behind them in the colour of their cause; the
//! time axis. If the recording has several requests, two or three are shown enlarged below.
//!
//! Spans are read once, backward in time. Spans narrower than a pixel or two are drawn as coverage ([`strip`]), and excess lanes are
//! folded ([`lanes`]); the picture says both. So its size and memory depend on its width and lanes, not on the length of the recording.

pub(crate) mod axis;
pub(crate) mod canvas;
pub(crate) mod compose;
pub(crate) mod lanes;
pub(crate) mod messages;
pub(crate) mod palette;
pub(crate) mod panel;
pub(crate) mod strip;

use crate::Result;
use compose::{Composer, main_channel};
use lanes::Plan;
use panel::{Names, Panel};
use thalweg_explain::document::{Explanation, PhaseName};
use thalweg_trace::{ObjectKind, Source};

/// Options of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PictureOptions {
    /// Width in pixels; at least 700.
    pub width_px: f64,
    /// Maximum number of lanes; further threads and connections are folded. At least 8.
    pub max_lanes: usize,
    /// Whether to show a few requests enlarged.
    pub enlarged: bool,
    /// Start and end of the part to draw, in seconds from the recording's start; `None` for the whole.
    pub window: Option<(f64, f64)>,
}

impl Default for PictureOptions {
    fn default() -> PictureOptions {
        PictureOptions { width_px: 1400.0, max_lanes: 40, enlarged: true, window: None }
    }
}

/// Minimum number of requests for which a part is shown enlarged.
const REQUESTS_WORTH_ENLARGING: u64 = 6;
/// Number of requests shown enlarged.
const ENLARGED_REQUESTS: f64 = 2.3;

/// Draws a recording with its explanation.
pub fn svg(source: &dyn Source, explanation: &Explanation, options: &PictureOptions) -> Result<String> {
    let plan = Plan::new(source, explanation, options.max_lanes);
    let mut composer = Composer::new(options.width_px.max(700.0), explanation);
    let width = composer.plot_width();
    if let Some((start_s, end_s)) = options.window {
        let mut panels = vec![Panel::new(&plan, explanation, start_s, end_s, width)];
        fill(source, &plan, &mut panels)?;
        composer.head(&panels);
        composer.part(&plan, &panels[0], (start_s, end_s));
        composer.foot(&plan, &panels[0]);
        return Ok(composer.finish());
    }
    let mut panels = vec![Panel::new(&plan, explanation, 0.0, explanation.wall_s, width)];
    // In an MPI job the ranks' interplay matters, and no request is typical: nothing is enlarged.
    let of_ranks = source.objects().iter().any(|object| object.kind == ObjectKind::Communicator);
    let window = if options.enlarged && !of_ranks { enlarged_window(explanation) } else { None };
    if let Some((start_s, end_s)) = window {
        panels.push(Panel::new(&plan, explanation, start_s, end_s, width));
    }
    fill(source, &plan, &mut panels)?;
    composer.head(&panels);
    let whole = panels.remove(0);
    composer.whole(&plan, &whole, window);
    if let (Some((start_s, end_s)), Some(panel)) = (window, panels.first()) {
        composer.enlarged(&plan, &whole, panel, start_s, end_s);
    }
    composer.foot(&plan, &whole);
    Ok(composer.finish())
}

/// Fills all panels in one pass over the spans.
fn fill(source: &dyn Source, plan: &Plan, panels: &mut [Panel]) -> Result<()> {
    let objects = source.objects().iter().map(|o| (o.object.number(), o.name.clone())).collect();
    // A profile has many stacks, and in most recordings no waits refer to them.
    let has_waits = source.meta().attributes.iter().any(|(name, value)| name == "profile.waits" && value != "0");
    let names = Names { objects, stacks: if has_waits { source.stacks()? } else { Vec::new() } };
    let earliest = panels.iter().map(|p| p.start_ns).min().unwrap_or(i64::MIN);
    for batch in source.spans_backward() {
        let batch = batch?;
        for panel in panels.iter_mut() {
            panel.add(plan, &names, &batch);
        }
        if batch.end_ns.last().is_some_and(|end| *end < earliest) {
            break;
        }
    }
    for mark in source.marks()? {
        panels.iter_mut().for_each(|panel| panel.mark(plan, &mark));
    }
    Ok(())
}

/// Returns start and end, in seconds, of [`ENLARGED_REQUESTS`] requests in the middle of the steady phase, starting just before a gap if
/// one is near.
fn enlarged_window(e: &Explanation) -> Option<(f64, f64)> {
    let requests: u64 = e.transfers.iter().map(|t| t.requests).sum();
    if requests < REQUESTS_WORTH_ENLARGING || e.wall_s <= 0.0 {
        return None;
    }
    let steady = e.phases.iter().find(|p| p.name == PhaseName::Steady).map_or((0.0, e.wall_s), |p| (p.start_s, p.end_s));
    let period_s = (steady.1 - steady.0) / requests as f64;
    let middle = f64::midpoint(steady.0, steady.1);
    let gaps = main_channel(e).map_or(&[][..], |c| &c.gaps.longest);
    let near = gaps.iter().map(|g| g.start_s).min_by(|a, b| (a - middle).abs().total_cmp(&(b - middle).abs()));
    let start_s = match near {
        Some(gap_s) if (gap_s - middle).abs() < 4.0 * period_s => gap_s - 0.12 * period_s,
        _ => middle - period_s,
    };
    let start_s = start_s.max(0.0);
    let end_s = (start_s + ENLARGED_REQUESTS * period_s).min(e.wall_s);
    (end_s > start_s).then_some((start_s, end_s))
}
