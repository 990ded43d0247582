//! Intervals of predictions, from changes that were made in the laboratory.
//!
//! The gain is uncertain: a change that gains little cannot be wrong by much. So the interval is the gain, plus and minus the part of it
//! within which four of five predictions of that kind were right in the laboratory (85 were compared with a run with the change made), and
//! never narrower than the replay's error on the unchanged run.

use crate::document::Grounds;
use crate::limits::replay as limits;

/// The interval, in wall times; for a bound, from it to no gain.
pub(super) fn interval(id: &str, basis: Grounds, wall_s: f64, predicted_s: f64, missed: f64) -> (f64, f64) {
    if basis == Grounds::Bounded {
        return (predicted_s, wall_s);
    }
    let part = match id {
        "no_cpu_quota" => limits::MISSED_QUOTA,
        id if id.ends_with(".x2") || id == "rtt.half" => limits::MISSED_TWICE,
        _ => limits::MISSED_OTHERS,
    };
    let half = ((wall_s - predicted_s) * part).max(predicted_s * missed);
    ((predicted_s - half).max(0.0), (predicted_s + half).min(wall_s.max(predicted_s)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_its_prediction_and_promises_no_loss() {
        for (id, basis, predicted_s, missed) in [
            ("link.x2", Grounds::Replayed, 1.0, 0.02),
            ("no_cpu_quota", Grounds::Replayed, 0.1, 0.0),
            ("no_sync", Grounds::Replayed, 1.99, 0.1),
            ("requests.x4", Grounds::Bounded, 0.5, 0.0),
        ] {
            let (least, most) = interval(id, basis, 2.0, predicted_s, missed);
            assert!(0.0 <= least && least <= predicted_s && predicted_s <= most && most <= 2.0, "{id}: {least} to {most}");
        }
        assert_eq!(interval("link.x2", Grounds::Replayed, 2.0, 1.0, 0.0), (0.85, 1.15));
        assert_eq!(interval("requests.x4", Grounds::Bounded, 2.0, 0.5, 0.0), (0.5, 2.0));
    }
}
