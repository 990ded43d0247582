//! The text and the page of two runs, over recordings that the tests have.

use crate::made_up::{Copy, made_up};
use thalweg_explain::Explanation;
use thalweg_explain::diff::{DiffOptions, diff};
use thalweg_explain::document::{Leading, Repeated, SummaryRow};
use thalweg_report::{MAX_LINES, TextOptions, short};

/// A serial copy, with its charges as the rows of its summary.
fn explanation() -> Explanation {
    let (_, mut e) = made_up(Copy::SERIAL);
    let row = |charge: &thalweg_explain::document::Charge| SummaryRow {
        cause: charge.cause,
        share: charge.share,
        subject: charge.place.clone(),
        figures: "12 of 34".into(),
    };
    e.summary.rows = e.critical_path.iter().map(row).collect();
    e
}

fn pages(before: &Explanation, after: &Explanation) -> (String, String) {
    let options = DiffOptions { anyway: true, made: before.what_if.first().map(|change| change.id.clone()) };
    let diff = diff(before, after, &options).expect("compared anyway");
    (thalweg_report::diff(&diff, &TextOptions::default()), thalweg_report::diff_page(&diff, &[("Before".into(), "<svg></svg>".into())]))
}

#[test]
fn a_diff_fits_and_names_what_went() {
    let before = explanation();
    let mut after = explanation();
    after.wall_s *= 0.5;
    after.command.push("x".repeat(200));
    for (before, after) in [(&before, &after), (&after, &before), (&before, &before)] {
        let (text, page) = pages(before, after);
        assert!(text.lines().count() <= MAX_LINES && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("wall time") && page.contains("</html>") && page.contains("Change by cause"), "{text}");
    }
    let (text, _) = pages(&before, &after);
    assert!(text.contains("2.00 times as fast") && text.contains("predicted"), "{text}");
}

#[test]
fn several_runs_are_shown_with_their_intervals() {
    let mut e = explanation();
    let rows = e.summary.rows.len();
    e.repeated = Some(Repeated {
        wall_s: vec![1.0, 1.1, 1.2],
        explained: 2,
        median_s: 1.1,
        interval_s: (1.0, 1.2),
        shares: vec![(0.31, 0.42); rows],
        leading: vec![Leading { cause: e.verdict.cause, runs: 2 }, Leading { cause: thalweg_explain::Cause::ClientRead, runs: 1 }],
    });
    let text = short(&e, &TextOptions::default(), Some("more"));
    assert!(text.lines().count() <= MAX_LINES && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("3 runs: 1.00 s, 1.10 s, 1.20 s; median 1.10 s (1.00 to 1.20 s)"), "{text}");
    assert!(text.contains("largest cause in 2 of 3 runs: "), "{text}");
    assert!(rows == 0 || text.contains("(31 to 42 %)"), "{text}");
}
