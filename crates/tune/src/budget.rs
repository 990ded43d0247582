//! The budget of a search: runs, a share of the grid, or time.

use crate::search::LEAST_RUNS;
use crate::{Error, Result};
use std::time::Duration;
use thalweg_base::numbers;

/// Default number of runs, unless a fifth of the grid is more.
const RUNS: usize = 12;

/// The budget of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Budget {
    /// Twelve runs, or a fifth of the grid if that is more, and at most twice as many.
    #[default]
    Usual,
    /// Number of runs of the search; those of the default and the best at the end come on top.
    Runs(usize),
    /// Share of the grid.
    Share(f64),
    /// Duration of everything.
    Time(Duration),
}

impl Budget {
    /// Parses `12`, `12 runs`, `20%` or `10min`.
    ///
    /// # Errors
    /// A description of what was expected.
    pub fn parse(text: &str) -> std::result::Result<Budget, String> {
        let text = text.trim();
        let wrong = || format!("`{text}`: expected runs (12), a part of the grid (20%) or a time (10min)");
        if let Some(part) = text.strip_suffix('%') {
            let percent: f64 = part.trim().parse().map_err(|_| wrong())?;
            return if percent > 0.0 && percent <= 100.0 { Ok(Budget::Share(percent / 100.0)) } else { Err(wrong()) };
        }
        let runs = text.strip_suffix("runs").or(text.strip_suffix("run")).unwrap_or(text).trim();
        match runs.parse() {
            Ok(runs) => Ok(Budget::Runs(runs)),
            Err(_) => numbers::parse_duration(text).map(Budget::Time).map_err(|_| wrong()),
        }
    }

    /// Returns the number of runs for a grid of `points` points.
    ///
    /// # Errors
    /// The budget is too small for a comparison.
    pub(crate) fn runs(self, points: usize) -> Result<usize> {
        let part = |share: f64| (points as f64 * share).ceil() as usize;
        let runs = match self {
            Budget::Usual => part(0.2).clamp(RUNS, 2 * RUNS),
            Budget::Runs(runs) => runs,
            Budget::Share(share) => part(share),
            // The time limit ends it.
            Budget::Time(_) => points.saturating_mul(3).max(LEAST_RUNS),
        };
        if runs >= LEAST_RUNS {
            return Ok(runs);
        }
        let problem = format!("a budget of {runs} runs is too small for one comparison");
        Err(Error::Choice(format!(
            "{problem}: the default and one other setting, each of them twice, are {LEAST_RUNS} (--budget {LEAST_RUNS})"
        )))
    }

    /// Returns the time limit, if the budget is one.
    pub(crate) fn time(self) -> Option<Duration> {
        if let Budget::Time(time) = self { Some(time) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_runs_a_part_or_a_time() {
        let parse = |text: &str| Budget::parse(text).unwrap();
        assert_eq!((parse("12"), parse("8 runs"), parse("20%")), (Budget::Runs(12), Budget::Runs(8), Budget::Share(0.2)));
        assert_eq!(parse("10min"), Budget::Time(Duration::from_secs(600)));
        for wrong in ["", "much", "0%", "120%", "-3"] {
            assert!(Budget::parse(wrong).unwrap_err().contains("expected runs"), "{wrong}");
        }
        assert_eq!((Budget::Usual.runs(64).unwrap(), Budget::Usual.runs(4096).unwrap()), (13, 24));
        assert_eq!(Budget::Usual.runs(16).unwrap(), 12);
        assert_eq!(Budget::Share(0.5).runs(16).unwrap(), 8);
        assert!(Budget::Runs(2).runs(64).unwrap_err().to_string().contains("too small for one comparison"));
    }
}
