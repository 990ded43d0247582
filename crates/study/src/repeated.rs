//! Several runs of one command: chooses the median run, and computes the spread of the others.

use std::collections::BTreeMap;
use thalweg_explain::document::{Explanation, Leading, Repeated, SummaryRow};
use thalweg_measure::estimate;

/// Returns the explanation of the run of median wall time (of an even number, the faster of the middle two), with figures over all runs;
/// `None` if there are no runs.
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

/// Returns the share, in another run, of a row's cause and subject. If each run has only one row of the cause, they match even with
/// different subjects: a subject may contain a number unique to the run.
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

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_explain::Cause;

    /// Returns a run of `wall_s` with these rows, the first of which is the largest cause.
    fn run(wall_s: f64, rows: &[(Cause, &str, f64)]) -> Explanation {
        let mut e: Explanation = serde_json::from_value(serde_json::json!({
            "schema": "thalweg.explain/1", "command": ["x"], "recorder": "bpf", "dropped_events": 0, "start_ns": 0, "wall_s": wall_s,
            "verdict": {"status": "limited", "cause": rows[0].0, "where": "", "share": rows[0].2, "sentence": ""},
            "critical_path": [], "path": [], "transfers": [], "phases": [], "channels": [], "tracks": [], "what_if": [], "model": {}, "notes": []
        }))
        .expect("a document");
        let row =
            |&(cause, subject, share): &(Cause, &str, f64)| SummaryRow { cause, share, subject: subject.into(), figures: String::new() };
        e.summary.rows = rows.iter().map(row).collect();
        e
    }

    #[test]
    fn the_median_run_stands_for_all_with_the_interval_of_each_share() {
        let (read, sync) = (Cause::ClientRead, Cause::ClientSync);
        let runs = [
            run(3.0, &[(read, "x (process 1)", 0.8), (sync, "vda", 0.2)]),
            run(1.0, &[(read, "x (process 2)", 0.6), (sync, "vda", 0.3)]),
            run(2.0, &[(sync, "vda", 0.7), (read, "x (process 3)", 0.3)]),
        ];
        let e = repeated(&runs).expect("three runs");
        let all = e.repeated.expect("what they say");
        assert_eq!((e.wall_s, all.explained, all.median_s, all.interval_s), (2.0, 3, 2.0, (1.0, 3.0)));
        // Rows of the median run, in its order; a number that no other run has does not make another subject.
        assert_eq!(all.shares, [(0.2, 0.7), (0.3, 0.8)]);
        assert_eq!(all.leading, [Leading { cause: read, runs: 2 }, Leading { cause: sync, runs: 1 }]);
        assert_eq!(repeated(&runs[..2]).expect("two runs").wall_s, 1.0, "the faster of the two in the middle");
        assert!(repeated(&[]).is_none());
    }
}
