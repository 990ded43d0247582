//! A small histogram of the lengths of drain cycles.

use super::axes::{Quantity, SMALL, Scale, TimeAxis};
use crate::picture::canvas::{Canvas, FAINT, Lettering, RULE};
use thalweg_base::numbers::{count, duration};
use thalweg_explain::rpcstat::document::DrainCycles;

const WIDTH: f64 = 420.0;
const PLOT: f64 = 70.0;
const HEAD: f64 = 22.0;
/// Total height.
pub(super) const HEIGHT: f64 = HEAD + PLOT + 34.0;

/// The axes of the histogram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    from_s: f64,
    to_s: f64,
    most: u64,
}

impl Lengths {
    /// Returns axes for all bins; `None` if there are no lengths.
    pub(super) fn of(cycles: &DrainCycles) -> Option<Lengths> {
        let all = cycles.lengths.iter();
        let all =
            all.fold((f64::INFINITY, 0.0_f64, 0), |(from, to, most), bin| (bin.from_s.min(from), bin.to_s.max(to), bin.count.max(most)));
        (all.1 > all.0).then_some(Lengths { from_s: all.0, to_s: all.1, most: all.2 })
    }

    /// Draws it at `top`.
    pub(super) fn draw(&self, canvas: &mut Canvas, cycles: &DrainCycles, left: f64, top: f64) {
        canvas.text(left, top + HEAD - 8.0, "Lengths of drain cycles", Lettering::of(12.0).bold());
        let axis = TimeAxis { left, width: WIDTH, from_s: self.from_s, to_s: self.to_s, zero_s: 0.0 };
        let scale = Scale::linear(self.most as f64, Quantity::Count);
        let (top, bottom) = (top + HEAD, top + HEAD + PLOT);
        canvas.hint(left, top, WIDTH, PLOT, &said(cycles).join("; "));
        for (value, text) in scale.ticks() {
            let y = bottom - PLOT * scale.part(value);
            canvas.line((left - 4.0, y), (axis.right(), y), RULE, "");
            canvas.text(left - 8.0, y + 4.0, &text, Lettering::of(SMALL).in_colour(FAINT).held("end"));
        }
        for bin in cycles.lengths.iter().filter(|bin| bin.count > 0) {
            let (x, height) = (axis.x(bin.from_s), (PLOT * scale.part(bin.count as f64)).max(1.0));
            let width = (axis.x(bin.to_s) - x - 1.0).max(1.0);
            canvas.rectangle(x, bottom - height, width, height, "#7C8794", 1.0);
            let hint = format!("{}: {} to {}", count(bin.count), duration(bin.from_s), duration(bin.to_s));
            canvas.hint(x, top, width, PLOT, &hint);
        }
        axis.draw(canvas, bottom, bottom);
        let x = axis.x(cycles.median_s);
        canvas.thick_line((x, top - 4.0), (x, bottom), "#882255", "4 2");
        let held = if x > left + WIDTH * 0.7 { "end" } else { "start" };
        let aside = if held == "end" { -5.0 } else { 5.0 };
        let median = format!("median {}", duration(cycles.median_s));
        canvas.text(x + aside, top + 5.0, &median, Lettering::of(SMALL).in_colour("#882255").bold().held(held));
        for (n, line) in said(cycles).iter().enumerate() {
            canvas.text(axis.right() + 50.0, top + 8.0 + 17.0 * n as f64, line, Lettering::of(12.0));
        }
    }
}

fn said(cycles: &DrainCycles) -> Vec<String> {
    vec![
        format!("{} drain cycles: nothing is sent while pending calls complete", count(cycles.count)),
        format!(
            "pending calls at the median: {} at their start, {} at their end",
            count(cycles.pending_at_start),
            count(cycles.pending_at_end)
        ),
        format!("{} at the median, one every {}", duration(cycles.median_s), duration(cycles.period_s)),
        format!("together {}", duration(cycles.total_s)),
    ]
}
