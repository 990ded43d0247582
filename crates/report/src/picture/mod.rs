//! The picture of a recording: self-contained SVG for a ticket or a paper.
//!
//! From top to bottom: the sentence of `explain` as its title; legends; the critical path as one bar in the colours of its causes; what
//! moved over time; a lane for each client thread, connection and server thread, with the gaps shaded behind them in the colour of their
//! cause; the time axis. Below, a close-up shows one whole gap or wait of the largest cause.
//!
//! Spans are read backward in time: once for the whole, and again for the close-up, which depends on what moved. Spans narrower than a
//! pixel or two are drawn as coverage ([`strip`]), and excess lanes are folded ([`lanes`]); the picture says both. So its size and memory
//! depend on its width and lanes, not on the length of the recording.

pub(crate) mod axis;
pub(crate) mod canvas;
pub(crate) mod close_up;
pub(crate) mod compose;
mod curve;
mod drawn;
mod flows;
pub(crate) mod lanes;
mod legend;
pub(crate) mod marks;
pub(crate) mod messages;
pub(crate) mod palette;
pub(crate) mod panel;
pub(crate) mod strip;

use crate::Result;
use crate::running::Running;
use compose::Composer;
use lanes::Plan;
use panel::{Names, Panel};
use thalweg_explain::document::Explanation;
use thalweg_trace::Source;

/// Options of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PictureOptions {
    /// Width in pixels; at least 700.
    pub width_px: f64,
    /// Maximum number of lanes; further threads and connections are folded. At least 8.
    pub max_lanes: usize,
    /// Whether to show a typical gap or wait of the largest cause enlarged.
    pub enlarged: bool,
    /// Start and end of the part to draw, in seconds from the recording's start; `None` for the whole.
    pub window: Option<(f64, f64)>,
}

impl Default for PictureOptions {
    fn default() -> PictureOptions {
        PictureOptions { width_px: 1400.0, max_lanes: 40, enlarged: true, window: None }
    }
}

/// Draws a recording with its explanation.
pub fn svg(source: &dyn Source, explanation: &Explanation, options: &PictureOptions) -> Result<String> {
    let running = &Running::read(source, explanation)?;
    let plan = Plan::new(source, explanation, options.max_lanes);
    let names = names(source)?;
    let mut composer = Composer::new(options.width_px.max(700.0), explanation);
    let width = composer.plot_width();
    let (start_s, end_s) = options.window.unwrap_or((0.0, explanation.wall_s));
    let mut whole = Panel::new(&plan, explanation, start_s, end_s, width, running);
    fill(source, &plan, &names, &mut whole)?;
    if options.window.is_some() {
        composer.head(&[&whole]);
        composer.part(&plan, &whole, (start_s, end_s));
        composer.foot(&plan, &whole);
        return Ok(composer.finish());
    }
    let Some(close_up) = close_up::choose(explanation, &whole).filter(|_| options.enlarged) else {
        composer.head(&[&whole]);
        composer.whole(&plan, &whole, None);
        composer.foot(&plan, &whole);
        return Ok(composer.finish());
    };
    let mut enlarged = Panel::new(&plan, explanation, close_up.window.0, close_up.window.1, width, running);
    fill(source, &plan, &names, &mut enlarged)?;
    enlarged.flows.follow(&plan, &whole.flows);
    composer.head(&[&whole, &enlarged]);
    composer.whole(&plan, &whole, Some(close_up.window));
    composer.enlarged(&plan, &whole, &enlarged, &close_up);
    composer.foot(&plan, &whole);
    Ok(composer.finish())
}

fn names(source: &dyn Source) -> Result<Names> {
    let objects = source.objects().iter().map(|o| (o.object.number(), o.name.clone())).collect();
    // A profile has many stacks, and in most recordings no waits refer to them.
    let has_waits = source.meta().attributes.iter().any(|(name, value)| name == "profile.waits" && value != "0");
    Ok(Names { objects, stacks: if has_waits { source.stacks()? } else { Vec::new() } })
}

/// Fills a panel in one pass over the spans.
fn fill(source: &dyn Source, plan: &Plan, names: &Names, panel: &mut Panel) -> Result<()> {
    for batch in source.spans_backward() {
        let batch = batch?;
        panel.add(plan, names, &batch);
        if batch.end_ns.last().is_some_and(|end| *end < panel.start_ns) && panel.is_settled() {
            break;
        }
    }
    panel.begin_threads(plan);
    panel.flows.complete(source, plan)?;
    for mark in source.marks()? {
        panel.mark(plan, &mark);
    }
    Ok(())
}
