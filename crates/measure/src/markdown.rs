//! The table that goes into docs: one row an arm, its ratio to the raw ceiling beside every figure.

use crate::outcome::{ArmResult, Outcome};
use crate::{Estimate, StopReason};
use std::fmt::Write;

impl Outcome {
    /// The result as Markdown: a table of the arms, one of the comparisons that are not with the
    /// ceiling, and how it was measured.
    pub fn markdown(&self) -> String {
        let mut out = format!("### {}\n\n", self.experiment);
        let ceiling = self.ceiling.as_deref();
        out.push_str("| arm | median | 95 % interval | rate |");
        out.push_str(&ceiling.map_or_else(String::new, |c| format!(" of {} |", cell(c))));
        out.push_str(" page cache before |\n|---|--:|--:|--:|");
        out.push_str(if ceiling.is_some() { "--:|---|\n" } else { "---|\n" });
        for arm in &self.arms {
            self.row(&mut out, arm);
        }
        let others: Vec<_> = self.comparisons.iter().filter(|c| Some(c.to.as_str()) != ceiling).collect();
        if !others.is_empty() {
            out.push_str("\n| faster by | ratio | 95 % interval | pairs |\n|---|--:|--:|--:|\n");
            for c in others {
                let _ = writeln!(out, "| {} / {} | {} | {} |", cell(&c.of), cell(&c.to), ratio_cells(&c.ratio), c.pairs.len());
            }
        }
        let rounds = self.arms.first().map_or(0, |a| a.wall_s.values);
        let why = match self.stopped {
            StopReason::IntervalNarrowEnough => "the intervals were narrow enough",
            StopReason::MostPairs => "that was the most allowed",
            StopReason::MostSeconds => "the time allowed was used up",
        };
        let _ = write!(out, "\n{rounds} interleaved rounds ({why}); ratios pair by pair. {}.", self.machine.sentence());
        if let (Some(before), Some(after)) = (self.machine.load, self.load_after) {
            let _ = write!(out, " Load before and after: {before:.2}, {after:.2}.");
        }
        out.push('\n');
        out
    }

    fn row(&self, out: &mut String, arm: &ArmResult) {
        let wall = &arm.wall_s;
        let interval = format!("{} – {}", seconds(wall.low), seconds(wall.high));
        let rate = arm.rate_bytes_per_s.map_or_else(|| "—".into(), |r| rate(r.median));
        let _ = write!(out, "| {} | {} | {interval} | {rate} |", cell(&arm.name), seconds(wall.median));
        if let Some(ceiling) = &self.ceiling {
            let of_ceiling = match self.comparison(&arm.name, ceiling) {
                Some(c) => format!("{:.2} [{:.2}, {:.2}]", c.ratio.median, c.ratio.low, c.ratio.high),
                None => "1 (the ceiling)".into(),
            };
            let _ = write!(out, " {of_ceiling} |");
        }
        let cache = arm.cache().map_or_else(|| "as it was".into(), ToString::to_string);
        let _ = writeln!(out, " {} |", cell(&cache));
    }
}

fn ratio_cells(e: &Estimate) -> String {
    format!("{:.3} | {:.3} – {:.3}", e.median, e.low, e.high)
}

/// A bar would end the table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// A time with three figures and the unit that suits it.
fn seconds(s: f64) -> String {
    match s {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{} ms", three_figures(s * 1e3)),
        s => format!("{} µs", three_figures(s * 1e6)),
    }
}

fn three_figures(v: f64) -> String {
    let digits = if v >= 100.0 { 0 } else { 1 + usize::from(v < 10.0) };
    format!("{v:.digits$}")
}

/// A rate of bytes with the binary unit that suits it.
fn rate(bytes_per_s: f64) -> String {
    let units = ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"];
    let mut value = bytes_per_s;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_figures(value), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits_and_their_unit() {
        assert_eq!(seconds(2.05), "2.05 s");
        assert_eq!(seconds(0.0175), "17.5 ms");
        assert_eq!(seconds(0.000_000_5), "0.50 µs");
        assert_eq!(rate(130_944_125.0), "125 MiB/s");
        assert_eq!(rate(3.2 * 1024.0 * 1024.0 * 1024.0), "3.20 GiB/s");
        assert_eq!(rate(12.0), "12.0 B/s");
    }
}
