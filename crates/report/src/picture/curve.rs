//! The curve of what moved, and the lanes of connections, which show the same for each of them.

use super::axis::{label, ticks};
use super::canvas::{AXIS, FAINT, GRID, Lettering, Path};
use super::compose::{Composer, LEFT};
use super::flows::{Bins, Flows, Series};
use super::lanes::Plan;
use super::palette::{CLASSES, SpanClass};
use super::panel::{CURVE_HEIGHT, Panel};
use thalweg_base::numbers::{self, BIT_RATES, Unit};

/// Opacity of the area under the largest curve.
const AREA: f64 = 0.25;

/// Returns the largest unit of a disk's or file's rate in which the value is at least 1.
fn byte_rate_unit(bytes_per_s: f64) -> Unit {
    let unit = |name, size| Unit { name, size };
    let units = [unit("GiB/s", 1_073_741_824.0), unit("MiB/s", 1_048_576.0), unit("KiB/s", 1024.0)];
    units.into_iter().find(|unit| bytes_per_s >= unit.size).unwrap_or(unit("B/s", 1.0))
}

/// Returns steps in pixels for bins; `y` gives the height of a value.
fn steps(values: &[f64], width: f64, left: f64, y: impl Fn(f64) -> f64) -> Vec<(f64, f64, Option<f64>)> {
    let bin = width / values.len().max(1) as f64;
    values.iter().enumerate().map(|(i, v)| (left + i as f64 * bin, left + (i + 1) as f64 * bin, Some(y(*v)))).collect()
}

impl Composer<'_> {
    /// Draws what moved over time, with an axis at the left.
    pub(super) fn curve(&mut self, plan: &Plan, panel: &Panel) {
        let series = panel.flows.series(plan);
        let Some(largest) = series.first() else { return };
        self.y += 4.0;
        let (top, bottom) = (self.y, self.y + CURVE_HEIGHT);
        let bin_s = panel.flows.bin_s();
        let rates: Vec<Vec<f64>> = series.iter().map(|s| s.bins.averaged().iter().map(|bytes| bytes / bin_s).collect()).collect();
        let highest = rates.iter().flatten().copied().fold(0.0, f64::max);
        let unit = if largest.network { BIT_RATES.suiting(highest) } else { byte_rate_unit(highest) };
        let scale = ticks(0.0, (highest / unit.size).max(1e-9), 4);
        let full = scale.at.last().map_or(scale.step, |last| if *last < highest / unit.size * 0.999 { last + scale.step } else { *last });
        let y = |rate: f64| bottom - (rate / unit.size / full).min(1.0) * CURVE_HEIGHT;
        for value in scale.at.iter().copied().chain([full]) {
            let at = y(value * unit.size);
            self.canvas.line((LEFT, at), (LEFT + panel.width, at), GRID, "");
            self.canvas.text(LEFT - 6.0, at + 3.5, &label(value, scale.step), Lettering::of(10.0).in_colour(FAINT).held("end"));
        }
        for (number, (series, rates)) in series.iter().zip(&rates).enumerate().rev() {
            let steps = steps(rates, panel.width, LEFT, y);
            let (mut area, mut line) = (Path::default(), Path::default());
            if number == 0 {
                area.step_area(&steps, bottom);
                self.canvas.veil(&area, series.colour, AREA);
            }
            line.step_line(&steps);
            self.canvas.stroke(&line, series.colour, 1.4, "");
        }
        self.curve_names(&series, &panel.flows, unit.name, top);
        self.canvas.line((LEFT, bottom), (LEFT + panel.width, bottom), AXIS, "");
        self.y = bottom + 10.0;
    }

    fn curve_names(&mut self, series: &[Series], flows: &Flows, unit: &str, top: f64) {
        let x = LEFT - 36.0;
        let small = Lettering::of(10.5).in_colour(FAINT).held("end");
        self.canvas.text(x, top + 10.0, &format!("throughput, {unit}"), Lettering::of(12.0).bold().held("end"));
        self.canvas.text(x, top + 24.0, &format!("averaged over {}", numbers::duration(flows.window_s())), small);
        for (number, series) in series.iter().enumerate() {
            let y = top + 39.0 + number as f64 * 14.0;
            let mut path = Path::default();
            path.rectangle(0.0, -3.0, 12.0, 2.5);
            self.canvas.path(x - 12.0, y, &path, series.colour);
            self.canvas.text(x - 17.0, y, &format!("{} {}", series.name, numbers::size(series.bins.total as u64)), small);
        }
    }

    /// Draws what crossed a connection: upward what the client sent, downward what the server sent, each on the scale of the larger one.
    pub(super) fn connection(&mut self, lane: usize, panel: &Panel, half: f64) {
        let both = panel.flows.of_lane(lane).map(|bins| bins.map(Bins::averaged));
        let highest = both.iter().flatten().flatten().copied().fold(0.0, f64::max);
        let middle = self.y + half;
        self.canvas.line((LEFT, middle), (LEFT + panel.width, middle), GRID, "");
        for (values, (class, sign)) in both.iter().zip([(SpanClass::Send, -1.0), (SpanClass::Receive, 1.0)]) {
            let Some(values) = values.as_ref().filter(|_| highest > 0.0) else { continue };
            let mut area = Path::default();
            area.step_area(&steps(values, panel.width, LEFT, |v| middle + sign * v / highest * half), middle);
            self.canvas.veil(&area, CLASSES[class as usize].colour, 1.0);
        }
    }
}
