//! Lines on several runs of one command: their times, and whether they had the same cause.

use crate::words::cause_name;
use thalweg_base::numbers::duration;
use thalweg_base::text::width;
use thalweg_explain::document::Explanation;

/// Returns a line on the runs, with each time if there is room, and a second on the largest causes if they differ between runs.
pub(crate) fn lines(e: &Explanation, columns: usize) -> Vec<String> {
    let Some(runs) = &e.repeated else { return Vec::new() };
    let name = |cause| cause_name(e, cause);
    let count = runs.wall_s.len();
    let median = format!("median {} ({})", duration(runs.median_s), interval(runs.interval_s));
    let each: Vec<String> = runs.wall_s.iter().map(|&s| duration(s)).collect();
    let long = format!("{count} runs: {}; {median}", each.join(", "));
    let extreme = |pick: fn(f64, f64) -> f64| duration(runs.wall_s.iter().copied().reduce(pick).unwrap_or_default());
    let first = if width(&long) <= columns {
        long
    } else {
        format!("{count} runs: {median}, fastest {}, slowest {}", extreme(f64::min), extreme(f64::max))
    };
    let mut lines = vec![first];
    if let [first, others @ ..] = runs.leading.as_slice()
        && !others.is_empty()
    {
        let others: Vec<String> = others.iter().map(|other| format!("{} of {count}: {}", other.runs, name(other.cause))).collect();
        lines.push(format!("largest cause in {} of {count} runs: {}, {}", first.runs, name(first.cause), others.join(", ")));
    }
    lines
}

/// Formats the interval of a share: `(49 to 55 %)`.
pub(crate) fn share((low, high): (f64, f64)) -> String {
    let whole = |part: f64| format!("{:.0}", part * 100.0);
    format!("({} to {} %)", whole(low), whole(high))
}

/// Formats an interval of times, with a common unit only once.
pub(crate) fn interval((least, most): (f64, f64)) -> String {
    let (least, most) = (duration(least), duration(most));
    match (least.split_once(' '), most.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {most}"),
        _ => format!("{least} to {most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_its_unit_once() {
        assert_eq!(interval((0.201, 0.586)), "201 to 586 ms");
        assert_eq!(interval((0.907, 1.13)), "907 ms to 1.13 s");
    }
}
