//! What the close-up shows: one whole gap, or one whole stretch of the critical path, of the largest cause, between what comes before and
//! after. Of many the typical one is shown: half of the cause's time is in shorter ones. What fills most of the picture needs no close-up.

use super::drawn::{is_exact, main_channel};
use super::panel::Panel;
use thalweg_explain::Cause;
use thalweg_explain::document::Explanation;

/// Longest stretch worth a close-up, as a part of the whole.
const LONGEST: f64 = 0.35;
/// Shortest close-up, as a part of the whole: what is shorter is lost in noise.
const SHORTEST: f64 = 1e-5;
/// A stretch of the path goes on over others that are shorter than this part of it.
const BRIDGED: f64 = 0.1;
/// Causes below this share are not shown.
const LEAST_SHARE: f64 = 0.1;
/// Gaps stand for a cause if they hold this part of its time.
const IN_GAPS: f64 = 0.3;
/// Space before and after, as a part of what is shown.
const AROUND: f64 = 0.45;

/// A close-up: what is shown, and the time around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CloseUp {
    /// The cause.
    pub cause: Cause,
    /// Whether it is a gap.
    pub is_gap: bool,
    /// Of how many it is one.
    pub of: usize,
    /// Start and end of what is shown, in seconds.
    pub shown: (f64, f64),
    /// Start and end of the close-up.
    pub window: (f64, f64),
}

/// Chooses the close-up; `None` if no cause has a stretch that is neither most of the picture nor too short to see.
pub(crate) fn choose(e: &Explanation, whole: &Panel) -> Option<CloseUp> {
    largest_causes(e).into_iter().find_map(|(cause, seconds)| of_cause(e, whole, cause, seconds))
}

fn of_cause(e: &Explanation, whole: &Panel, cause: Cause, seconds: f64) -> Option<CloseUp> {
    let gaps: Vec<(f64, f64)> = gaps(e, whole).filter(|g| g.cause == cause).map(|g| (g.start_s, g.end_s)).collect();
    let in_gaps: f64 = gaps.iter().map(|(start, end)| end - start).sum();
    let is_gap = in_gaps >= IN_GAPS * seconds;
    let candidates = match is_gap {
        true => vec![gaps],
        false if is_exact(e) => vec![stretches(e, cause, BRIDGED), stretches(e, cause, 0.0)],
        false => return None,
    };
    let stretches = candidates.into_iter().find(|stretches| {
        let lengths = || stretches.iter().map(|(start, end)| end - start);
        // What is seen in the whole picture already needs no second one.
        let too_long: f64 = lengths().filter(|s| *s > LONGEST * e.wall_s).sum();
        lengths().fold(0.0, f64::max) >= SHORTEST * e.wall_s && too_long <= 0.5 * seconds
    })?;
    let shown = typical(&stretches, e.wall_s)?;
    let around = AROUND * (shown.1 - shown.0);
    let window = ((shown.0 - around).max(0.0), (shown.1 + around).min(e.wall_s));
    Some(CloseUp { cause, is_gap, of: stretches.len(), shown, window })
}

/// Returns the causes with their seconds, largest first.
fn largest_causes(e: &Explanation) -> Vec<(Cause, f64)> {
    let mut causes: Vec<(Cause, f64)> = Vec::new();
    for charge in e.critical_path.iter().filter(|c| !matches!(c.cause, Cause::Recorder | Cause::Unknown)) {
        match causes.iter_mut().find(|(cause, _)| *cause == charge.cause) {
            Some((_, seconds)) => *seconds += charge.seconds,
            None => causes.push((charge.cause, charge.seconds)),
        }
    }
    causes.retain(|(_, seconds)| *seconds >= LEAST_SHARE * e.wall_s);
    causes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    causes
}

/// Returns the gaps that are drawn: not those in which data went on arriving that had been handed over before.
pub(crate) fn gaps<'a>(e: &'a Explanation, whole: &'a Panel) -> impl Iterator<Item = &'a thalweg_explain::document::Gap> {
    let all = main_channel(e).map_or(&[][..], |channel| &channel.gaps.longest);
    let at = |s: f64| e.start_ns.saturating_add((s * 1e9) as i64);
    all.iter().filter(move |gap| !whole.flows.goes_on(at(gap.start_s), at(gap.end_s)))
}

/// Returns the stretches of the path with this cause, bridging interruptions shorter than this part of them.
fn stretches(e: &Explanation, cause: Cause, bridged: f64) -> Vec<(f64, f64)> {
    let mut stretches: Vec<(f64, f64)> = Vec::new();
    for segment in e.path.iter().filter(|s| s.cause == cause) {
        match stretches.last_mut() {
            Some(last) if segment.start_s - last.1 <= bridged * (last.1 - last.0) + 1e-9 => last.1 = segment.end_s,
            _ => stretches.push((segment.start_s, segment.end_s)),
        }
    }
    stretches
}

/// Returns, of those that are not too long, the one nearest to the middle whose length is about typical.
fn typical(stretches: &[(f64, f64)], wall_s: f64) -> Option<(f64, f64)> {
    let length = |(start, end): &(f64, f64)| end - start;
    let mut fit: Vec<(f64, f64)> = stretches.iter().copied().filter(|s| length(s) <= LONGEST * wall_s && length(s) > 0.0).collect();
    fit.sort_by(|a, b| length(a).total_cmp(&length(b)));
    let all: f64 = fit.iter().map(length).sum();
    let mut sum = 0.0;
    let typical = length(fit.iter().find(|s| {
        sum += length(s);
        sum >= all / 2.0
    })?);
    let about = |s: &&(f64, f64)| (0.8 * typical..=1.25 * typical).contains(&length(s));
    let from_middle = |s: &&(f64, f64)| (f64::midpoint(s.0, s.1) - wall_s / 2.0).abs();
    fit.iter().filter(about).min_by(|a, b| from_middle(a).total_cmp(&from_middle(b)).then(a.0.total_cmp(&b.0))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_the_typical_one_in_the_middle_is_shown() {
        let mut stretches: Vec<(f64, f64)> = (0..50).map(|i| (f64::from(i), f64::from(i) + 0.2)).collect();
        stretches.extend((0..20).map(|i| (f64::from(i) + 0.5, f64::from(i) + 0.5001)));
        stretches.push((60.0, 90.0));
        let shown = typical(&stretches, 100.0).unwrap();
        assert_eq!(shown, (60.0, 90.0), "most of the time is in the long one");
        assert_eq!(typical(&stretches[..70], 50.0).unwrap(), (25.0, 25.2));
        assert_eq!(typical(&[(0.0, 9.0)], 10.0), None, "it fills the picture");
    }
}
