//! The panels, from top to bottom: throughput, calls, the pending queue, TCP, response times.

use super::axes::{SMALL, Scale, TimeAxis};
use super::bins::{Fold, bins_within, folded};
use super::scales::{Scales, tcp_curves};
use crate::picture::canvas::{Canvas, FAINT, INK, Lettering, Path, RULE, Step, text_width};
use thalweg_base::numbers::{bit_rate, count, duration, size};
use thalweg_explain::rpcstat::document::RpcStat;

/// Colour of data sent.
const SENT: &str = "#00805C";
/// Colour of data received.
const BACK: &str = "#123F6D";
/// Colour of windows.
const BOUND: &str = "#882255";
/// Colour of secondary lines.
const SECOND: &str = "#7C8794";

/// Height of a panel's plot.
const HEIGHT: f64 = 86.0;
/// Height of its name and key, above.
const HEAD: f64 = 22.0;
/// Gap below it.
const BELOW: f64 = 10.0;
/// Height of the line for a panel that is left out.
const LEFT_OUT: f64 = 24.0;
/// Maximum number of columns of a panel.
const MAX_COLUMNS: usize = 1_024;

/// A curve of a panel.
struct Curve {
    /// Its text in the key.
    said: String,
    colour: &'static str,
    dash: &'static str,
    is_filled: bool,
    /// Line width.
    stroke: f64,
    values: Vec<f64>,
    fold: Fold,
    /// Its own axis, at the right.
    own: Option<Scale>,
}

/// A panel.
struct Panel {
    name: String,
    scale: Scale,
    curves: Vec<Curve>,
    hint: String,
}

/// Returns the total height of all panels.
pub(super) fn height(scales: &Scales) -> f64 {
    let panel = HEAD + HEIGHT + BELOW;
    let or_text = |there: bool| if there { panel } else { LEFT_OUT };
    3.0 * panel + or_text(scales.tcp.is_some()) + or_text(scales.response.is_some()) - BELOW
}

/// Draws all panels, starting at `top`.
pub(super) fn draw(canvas: &mut Canvas, d: &RpcStat, scales: &Scales, axis: &TimeAxis, top: f64) {
    let mut y = top;
    for panel in [throughput(d, scales), calls(d, scales), pending(d, scales)] {
        y = panel.draw(canvas, d, axis, y);
    }
    y = match scales.tcp {
        Some(scale) => tcp(d, scale).draw(canvas, d, axis, y),
        None => left_out(canvas, axis, y, "TCP: congestion window, bytes in flight and receive window were not recorded"),
    };
    match scales.response {
        Some(scale) => response(d, scale).draw(canvas, d, axis, y),
        None => left_out(canvas, axis, y, "Response time: no call was seen with its reply"),
    };
}

fn left_out(canvas: &mut Canvas, axis: &TimeAxis, y: f64, text: &str) -> f64 {
    canvas.text(axis.left, y + LEFT_OUT - 9.0, text, Lettering::of(SMALL).in_colour(FAINT));
    y + LEFT_OUT
}

impl Panel {
    fn draw(&self, canvas: &mut Canvas, d: &RpcStat, axis: &TimeAxis, y: f64) -> f64 {
        let (top, bottom) = (y + HEAD, y + HEAD + HEIGHT);
        let end = axis.x(d.wall_s);
        canvas.hint(axis.left, top, axis.width, HEIGHT, &self.hint);
        for (value, said) in self.scale.ticks() {
            let y = bottom - HEIGHT * self.scale.part(value);
            canvas.line((axis.left - 4.0, y), (axis.right(), y), RULE, "");
            canvas.text(axis.left - 8.0, y + 4.0, &said, Lettering::of(SMALL).in_colour(FAINT).held("end"));
        }
        for curve in &self.curves {
            let scale = curve.own.unwrap_or(self.scale);
            let steps = curve.steps(d, axis, |value| bottom - HEIGHT * scale.part(value));
            let mut path = Path::default();
            if curve.is_filled {
                path.step_area(&steps, bottom);
                canvas.veil(&path, curve.colour, 0.5);
            } else {
                path.step_line(&steps);
                canvas.stroke(&path, curve.colour, curve.stroke, curve.dash);
            }
            if curve.own.is_some() {
                for (value, said) in scale.ticks().iter().filter(|(value, _)| *value > 0.0) {
                    let y = bottom - HEIGHT * scale.part(*value);
                    canvas.line((axis.right(), y), (axis.right() + 4.0, y), curve.colour, "");
                    canvas.text(axis.right() + 7.0, y + 4.0, said, Lettering::of(SMALL).in_colour(curve.colour));
                }
                canvas.text(axis.right() + 7.0, top - 7.0, scale.unit(), Lettering::of(SMALL).in_colour(curve.colour));
            }
        }
        canvas.line((axis.left, bottom), (axis.right(), bottom), FAINT, "");
        if axis.right() - end > 1.0 {
            canvas.line((end, top), (end, bottom), FAINT, "2 2");
        }
        self.head(canvas, axis, y);
        bottom + BELOW
    }

    /// Draws its name and key.
    fn head(&self, canvas: &mut Canvas, axis: &TimeAxis, y: f64) {
        let baseline = y + HEAD - 7.0;
        let name = match (self.scale.unit(), self.scale.is_log()) {
            ("", false) => self.name.clone(),
            ("", true) => format!("{}, logarithmic", self.name),
            (unit, _) => format!("{}, {unit}", self.name),
        };
        canvas.text(axis.left, baseline, &name, Lettering::of(12.0).bold());
        let mut x = axis.left + (text_width(&name, 12.0) + 14.0).max(170.0);
        for curve in &self.curves {
            if curve.is_filled {
                canvas.rectangle(x, baseline - 9.0, 16.0, 10.0, curve.colour, 0.5);
            } else {
                canvas.thick_line((x, baseline - 4.0), (x + 18.0, baseline - 4.0), curve.colour, curve.dash);
            }
            canvas.text(x + 23.0, baseline, &curve.said, Lettering::of(SMALL));
            x += 23.0 + text_width(&curve.said, SMALL) * 0.86 + 18.0;
        }
    }
}

impl Curve {
    fn line(said: String, colour: &'static str, values: Vec<f64>, fold: Fold) -> Curve {
        Curve { said, colour, dash: "", is_filled: false, stroke: 1.3, values, fold, own: None }
    }

    fn steps(&self, d: &RpcStat, axis: &TimeAxis, y: impl Fn(f64) -> f64) -> Vec<Step> {
        let bins = bins_within(&d.series, d.wall_s).min(self.values.len());
        if bins == 0 {
            return Vec::new();
        }
        let columns = folded(&self.values[..bins], MAX_COLUMNS, self.fold);
        let at = |column: usize| axis.x(((column * bins / columns.len()) as f64 * d.series.bin_s).min(d.wall_s));
        columns.iter().enumerate().map(|(i, value)| (at(i), at(i + 1), value.is_finite().then(|| y(*value)))).collect()
    }
}

fn most_of(values: &[f64]) -> f64 {
    values.iter().copied().filter(|v| v.is_finite()).fold(0.0, f64::max)
}

fn optional(values: &[Option<u64>]) -> Vec<f64> {
    values.iter().map(|v| v.map_or(f64::NAN, |v| v as f64)).collect()
}

fn throughput(d: &RpcStat, scales: &Scales) -> Panel {
    let s = &d.series;
    let curve = |name: &str, values: &[f64], bytes: Option<u64>, colour, is_more: bool| {
        let mean = bytes.map_or_else(String::new, |bytes| format!("{} at the mean, ", bit_rate(bytes as f64 / d.wall_s)));
        let own = if is_more { None } else { scales.lesser };
        let axis = if own.is_some() { ", own axis at the right" } else { "" };
        let said = format!("{name}: {mean}{} at most{axis}", bit_rate(most_of(values)));
        let stroke = if own.is_some() { 0.9 } else { 1.3 };
        Curve { is_filled: is_more, own, stroke, ..Curve::line(said, colour, values.to_vec(), Fold::Mean) }
    };
    let sent = curve("sent (calls)", &s.sent_bytes_per_s, d.sent_bytes, SENT, scales.sent_is_more);
    let received = curve("received (replies)", &s.received_bytes_per_s, d.received_bytes, BACK, !scales.sent_is_more);
    let hint = format!("Throughput over time; {}; {}", sent.said, received.said);
    let curves = if scales.sent_is_more { vec![sent, received] } else { vec![received, sent] };
    Panel { name: "Throughput".to_owned(), scale: scales.throughput, curves, hint }
}

fn calls(d: &RpcStat, scales: &Scales) -> Panel {
    let s = &d.series;
    let per_s = |values: &[u64]| values.iter().map(|n| *n as f64 / s.bin_s.max(1e-12)).collect::<Vec<f64>>();
    let (sent, completed) = (per_s(&s.calls), per_s(&s.replies));
    let said = |name: &str, values: &[f64]| format!("{name}: {} at most", count(most_of(values).round() as u64));
    let hint = format!("Calls sent and completed in each {}; {}", duration(s.bin_s), super::calls(d.calls));
    let curves = vec![
        Curve { stroke: 2.4, ..Curve::line(said("sent", &sent), "#6CC5A8", sent, Fold::Mean) },
        Curve { stroke: 1.0, ..Curve::line(said("completed", &completed), BACK, completed, Fold::Mean) },
    ];
    Panel { name: "Calls per second".to_owned(), scale: scales.calls, curves, hint }
}

fn pending(d: &RpcStat, scales: &Scales) -> Panel {
    let (s, p) = (&d.series, &d.pending);
    let most: Vec<f64> = s.pending_max.iter().map(|n| *n as f64).collect();
    // If more calls were pending for a while, the window was larger then.
    let at_the_median = if p.max > p.window_median { " at the median of intervals" } else { "" };
    let known = s.window.iter().any(Option::is_some);
    let window = match (known, p.sent_only) {
        (true, _) => "RPC window, reported by the client".to_owned(),
        (false, true) => format!("RPC window: at least {}{}", count(p.window_median), at_the_median),
        (false, false) => format!("RPC window: about {}{}", count(p.window_median), at_the_median),
    };
    let values = if known { optional(&s.window) } else { vec![p.window_median as f64; most.len()] };
    let hint = format!("Pending calls: {:.1} at the mean, {} at most; {window}", p.mean, count(p.max));
    let curves = vec![
        Curve { is_filled: true, ..Curve::line(format!("most: {}", count(p.max)), SECOND, most, Fold::Most) },
        Curve::line(format!("mean: {:.1}", p.mean), INK, s.pending_mean.clone(), Fold::Mean),
        Curve { dash: if known { "" } else { "6 4" }, ..Curve::line(window, BOUND, values, Fold::Most) },
    ];
    Panel { name: "Pending calls".to_owned(), scale: scales.pending, curves, hint }
}

fn tcp(d: &RpcStat, scale: Scale) -> Panel {
    let looks = [
        ("congestion window", BOUND, "", Fold::Most),
        ("in flight", SENT, "", Fold::Most),
        ("receive window", SECOND, "6 3", Fold::Least),
        ("queued in sockets", "#8C7A00", "2 1.5", Fold::Most),
    ];
    let (mut curves, mut missing) = (Vec::new(), Vec::new());
    for ((name, colour, dash, fold), values) in looks.into_iter().zip(tcp_curves(&d.series)) {
        let there: Vec<u64> = values.iter().filter_map(|v| *v).collect();
        let (least, most) = (there.iter().min(), there.iter().max());
        let said = match (least, most, fold) {
            (Some(least), Some(_), Fold::Least) => format!("{name}: {} at least", size(*least)),
            (Some(_), Some(most), _) => format!("{name}: {} at most", size(*most)),
            _ => {
                missing.push(name);
                continue;
            }
        };
        curves.push(Curve { dash, ..Curve::line(said, colour, optional(values), fold) });
    }
    missing.retain(|name| *name != "queued in sockets");
    let mut hint = format!("TCP: {}", curves.iter().map(|c| c.said.as_str()).collect::<Vec<_>>().join("; "));
    if !missing.is_empty() {
        let said = format!("{} not recorded", missing.join(", "));
        hint = format!("{hint}; {said}");
        curves.push(Curve { dash: "0 30", ..Curve::line(said, "#ffffff", Vec::new(), Fold::Most) });
    }
    Panel { name: "TCP".to_owned(), scale, curves, hint }
}

fn response(d: &RpcStat, scale: Scale) -> Panel {
    let s = &d.series;
    let seconds = |values: &[Option<f64>]| values.iter().map(|v| v.unwrap_or(f64::NAN)).collect::<Vec<f64>>();
    let (name, middle) = match s.response_median_s.iter().any(Option::is_some) {
        true => ("median in each interval", seconds(&s.response_median_s)),
        false => ("mean in each interval", seconds(&s.response_mean_s)),
    };
    let most = seconds(&s.response_max_s);
    let longest = format!("longest: {} at most", duration(most_of(&most)));
    let hint = format!("Response time over time, {name}, and {longest}");
    let curves = vec![Curve::line(longest, SECOND, most, Fold::Most), Curve::line(name.to_owned(), BACK, middle, Fold::Mean)];
    Panel { name: "Response time".to_owned(), scale, curves, hint }
}
