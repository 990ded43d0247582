//! One command run several times: which run stands for all, and how far the others differ from it.

use std::collections::BTreeMap;
use thalweg_explain::document::{Explanation, Leading, Repeated, SummaryRow};
use thalweg_measure::estimate;

/// The explanation of the run of median wall time (of an even number, the faster of the two in the middle), with what all runs say; `None` of no runs.
pub fn repeated(runs: &[Explanation]) -> Option<Explanation> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by(|&a, &b| runs[a].wall_s.total_cmp(&runs[b].wall_s));
    let middle = *order.get(order.len().checked_sub(1)? / 2)?;
    let wall_s: Vec<f64> = runs.iter().map(|run| run.wall_s).collect();
    let wall = estimate(&wall_s)?;
    let shares = |row: &SummaryRow| {
        let shares: Vec<f64> = runs.iter().map(|run| share(row, &runs[middle], run)).collect();
        estimate(&shares).map_or((row.share, row.share), |share| (share.low, share.high))
    };
    let repeated = Repeated {
        explained: middle + 1,
        median_s: wall.median,
        interval_s: (wall.low, wall.high),
        shares: runs[middle].summary.rows.iter().map(shares).collect(),
        leading: leading(runs),
        wall_s,
    };
    Some(Explanation { repeated: Some(repeated), ..runs[middle].clone() })
}

/// The share in another run of what a row of this one is about: the row of that cause and subject. Where both have one row of the cause alone, they are
/// the same: a subject may have a number that no other run has.
fn share(row: &SummaryRow, of: &Explanation, other: &Explanation) -> f64 {
    let of_cause = |run: &Explanation| run.summary.rows.iter().filter(|r| r.cause == row.cause).map(|r| r.share).collect::<Vec<_>>();
    let same = |r: &&SummaryRow| r.cause == row.cause && r.subject == row.subject;
    match (other.summary.rows.iter().find(same), of_cause(of).len(), of_cause(other).as_slice()) {
        (Some(found), ..) => found.share,
        (None, 1, [share]) => *share,
        (None, ..) => 0.0,
    }
}

fn leading(runs: &[Explanation]) -> Vec<Leading> {
    let mut counted = BTreeMap::new();
    runs.iter().for_each(|run| *counted.entry(run.verdict.cause).or_insert(0) += 1);
    let mut leading: Vec<Leading> = counted.into_iter().map(|(cause, runs)| Leading { cause, runs }).collect();
    leading.sort_by_key(|leading| std::cmp::Reverse(leading.runs));
    leading
}
