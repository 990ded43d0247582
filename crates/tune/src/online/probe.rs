//! Trying one change: goodput before it (A), with it (B) and, if the noise requires, without it again (A).

use super::rules::{GAIN, PRICE};
use super::window::Sample;
use std::time::Duration;

/// A parameter's values before and during a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub parameter: &'static str,
    pub from: u64,
    pub to: u64,
}

/// Reason for a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Raise a parameter of the limiting stage.
    Up,
    /// Lower one, after goodput fell.
    Down,
    /// Lower one repeatedly after a collapse, until goodput recovers.
    Fall,
    /// Return to the initial values.
    Start,
    /// Try values remembered from earlier.
    History,
}

/// The window being measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    With,
    WithoutAgain,
}

/// A change being tried; see the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub turns: Vec<Turn>,
    pub purpose: Purpose,
    pub leg: Leg,
    pub before: Sample,
    pub after: Option<Sample>,
    pub begun: Duration,
    /// Reason, in words.
    pub why: String,
    /// Windows that could not be compared.
    pub idle_windows: u32,
}

/// What to do with a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Keep,
    TakeBack,
    /// The gain is within the noise: measure again without the change.
    Repeat,
}

impl Probe {
    /// Returns the gain required to keep the change.
    pub(super) fn needed(&self) -> f64 {
        match self.purpose {
            Purpose::Up => {
                let connections = self.turns.iter().find(|turn| turn.parameter == "streams");
                GAIN + connections.map_or(0.0, |turn| PRICE * (turn.to.saturating_sub(turn.from).saturating_sub(1)) as f64)
            }
            Purpose::Down | Purpose::Fall | Purpose::History => GAIN,
            // Favoured: the initial values are beyond reproach.
            Purpose::Start => -GAIN,
        }
    }

    /// Judges the window with the change. `drift`: typical difference between consecutive windows on this path.
    pub(super) fn judge(&self, after: Sample, drift: f64) -> Verdict {
        let gain = gain(self.before.rate, after.rate);
        let noise = (2.0 * self.before.noise.hypot(after.noise)).max(1.5 * drift);
        if gain < self.needed() {
            Verdict::TakeBack
        } else if noise <= GAIN || gain - noise >= self.needed() || self.purpose == Purpose::Start {
            Verdict::Keep
        } else {
            Verdict::Repeat
        }
    }

    /// Judges after the second window without the change.
    pub(super) fn judge_again(&self, again: Sample) -> Verdict {
        let Some(after) = self.after else { return Verdict::TakeBack };
        let without = f64::midpoint(self.before.rate, again.rate);
        let is_above_both = after.rate > self.before.rate.max(again.rate);
        if is_above_both && gain(without, after.rate) >= self.needed() { Verdict::Keep } else { Verdict::TakeBack }
    }
}

/// Returns the relative gain of `after` over `before`.
pub(super) fn gain(before: f64, after: f64) -> f64 {
    if before > 0.0 { after / before - 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(from: u64, to: u64, before: f64, noise: f64) -> Probe {
        let turns = vec![Turn { parameter: "streams", from, to }];
        let before = Sample { rate: before, noise };
        let (begun, why) = (Duration::ZERO, String::new());
        Probe { turns, purpose: Purpose::Up, leg: Leg::With, before, after: None, begun, why, idle_windows: 0 }
    }

    #[test]
    fn a_step_is_kept_from_five_percent_on_and_once_more_tried_where_the_noise_is_more() {
        let quiet = |rate| Sample { rate, noise: 0.0 };
        assert_eq!(probe(1, 2, 100.0, 0.0).judge(quiet(104.0), 0.0), Verdict::TakeBack);
        assert_eq!(probe(1, 2, 100.0, 0.0).judge(quiet(106.0), 0.0), Verdict::Keep);
        assert_eq!(probe(1, 2, 100.0, 0.1).judge(quiet(110.0), 0.0), Verdict::Repeat);
        assert_eq!(probe(1, 2, 100.0, 0.0).judge(quiet(110.0), 0.2), Verdict::Repeat);
        assert_eq!(probe(1, 2, 100.0, 0.1).judge(quiet(200.0), 0.0), Verdict::Keep, "no noise makes twice as much");
    }

    #[test]
    fn the_more_connections_a_step_takes_the_more_it_must_bring() {
        let quiet = |rate| Sample { rate, noise: 0.0 };
        // Half of a shared link becomes two thirds: worth it with few connections, not with many.
        assert_eq!(probe(2, 4, 50.0, 0.0).judge(quiet(66.7), 0.0), Verdict::Keep);
        assert_eq!(probe(16, 32, 50.0, 0.0).judge(quiet(66.7), 0.0), Verdict::TakeBack);
    }

    #[test]
    fn what_was_better_only_because_the_path_became_so_is_taken_back() {
        let after = Some(Sample { rate: 120.0, noise: 0.1 });
        let probed = Probe { after, ..probe(1, 2, 100.0, 0.1) };
        assert_eq!(probed.judge_again(Sample { rate: 130.0, noise: 0.1 }), Verdict::TakeBack);
        assert_eq!(probed.judge_again(Sample { rate: 99.0, noise: 0.1 }), Verdict::Keep);
    }
}
