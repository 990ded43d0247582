//! Formats predicted against achieved times of a change.

use crate::repeated::interval;
use thalweg_base::numbers::{duration, percent};
use thalweg_base::text::clean;
use thalweg_explain::diff::Diff;
use thalweg_explain::document::Grounds;

/// The predicted and the achieved time of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The wall time without the change.
    pub before_s: f64,
    /// The predicted wall time; for a bound, its minimum.
    pub predicted_s: f64,
    /// Whether the prediction is a bound.
    pub bounded: bool,
    /// The interval of the prediction.
    pub predicted_interval_s: Option<(f64, f64)>,
    /// The achieved wall time.
    pub achieved_s: f64,
    /// The 95 % interval of the achieved time, if there were several runs.
    pub achieved_interval_s: Option<(f64, f64)>,
    /// Number of runs with the change.
    pub runs: usize,
}

impl Prediction {
    /// Returns (predicted − achieved) / achieved: negative if the prediction was too optimistic.
    pub fn error(&self) -> f64 {
        (self.predicted_s - self.achieved_s) / self.achieved_s
    }

    /// Returns the prediction for the change that a diff found to have been made.
    pub(crate) fn of(diff: &Diff) -> Option<Prediction> {
        let made = diff.made.as_ref()?;
        Some(Prediction {
            before_s: diff.before.wall_s,
            predicted_s: made.predicted_s,
            bounded: made.basis == Grounds::Bounded,
            predicted_interval_s: Some(made.interval_s),
            achieved_s: made.achieved_s,
            achieved_interval_s: diff.after.interval_s,
            runs: diff.after.runs,
        })
    }

    /// Returns whether the achieved time is within the interval of the prediction, in words.
    fn place(&self) -> &'static str {
        let Some((low, high)) = self.predicted_interval_s else { return "" };
        let (least, most) = self.achieved_interval_s.unwrap_or((self.achieved_s, self.achieved_s));
        if least <= high && low <= most { ", within the interval" } else { ", outside the interval" }
    }
}

/// Formats predicted against achieved as one line, without a newline.
pub fn predicted_against_achieved(change: &str, p: &Prediction) -> String {
    let speedup = |s: f64| if s > 0.0 { format!("{:.2}×", p.before_s / s) } else { "?".into() };
    let with = |s: f64, interval_s: Option<(f64, f64)>| interval_s.map_or_else(|| speedup(s), interval);
    let error = p.error();
    let verdict = match error {
        e if !e.is_finite() => "nothing to compare".to_owned(),
        e if p.bounded && p.achieved_s >= p.predicted_s => format!("{} slower than the bound", percent(e.abs())),
        _ if p.bounded => "faster than it could be: the bound is wrong".to_owned(),
        e if e.abs() < 0.000_5 => format!("exactly as predicted{}", p.place()),
        e => format!("{} {} than predicted{}", percent(e.abs()), if e < 0.0 { "slower" } else { "faster" }, p.place()),
    };
    format!(
        "{}: {} before, {}{} predicted ({}), {} achieved ({}){}: {verdict}",
        clean(change),
        duration(p.before_s),
        if p.bounded { "at best " } else { "" },
        duration(p.predicted_s),
        with(p.predicted_s, p.predicted_interval_s.filter(|_| !p.bounded)),
        duration(p.achieved_s),
        with(p.achieved_s, p.achieved_interval_s),
        if p.runs > 1 { format!(" in {} runs", p.runs) } else { String::new() },
    )
}
