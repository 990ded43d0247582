//! The text and the page of two runs, over recordings that the tests have.

use crate::interactive::{element, static_part, well_formed_static_part};
use crate::made_up::{Copy, made_up};
use serde_json::Value;
use thalweg_explain::Explanation;
use thalweg_explain::diff::{DiffOptions, diff};
use thalweg_explain::document::{Leading, Repeated, SummaryRow};
use thalweg_report::{MAX_LINES, TextOptions, short};
use thalweg_trace::Source;

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
    let (source, explanation) = made_up(Copy::SERIAL);
    let one = Some((&source as &dyn Source, &explanation));
    let page = thalweg_report::diff_page(&diff, ["a", "b"], [one, None]).unwrap();
    (thalweg_report::diff(&diff, &TextOptions::default()), page)
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
fn the_page_of_two_recordings_has_the_data_of_both() {
    let ((first, mut before), (second, after)) = (made_up(Copy::SERIAL), made_up(Copy { requests: 20, ..Copy::SERIAL }));
    before.command.push("</script><script>alert(1)".into());
    let found = diff(&before, &after, &DiffOptions { anyway: true, made: None }).unwrap();
    let names = ["a</script>", "b"];
    let page = thalweg_report::diff_page(&found, names, [Some((&first, &before)), Some((&second, &after))]).unwrap();
    let header =
        |suffix: &str| -> Value { serde_json::from_str(element(&page, "application/json", &format!("thalweg-header{suffix}"))).unwrap() };
    assert_eq!((&header("")["names"], &header("")["diff"]["schema"]), (&serde_json::json!(names), &"thalweg.diff/1".into()));
    for (suffix, explanation) in [("", &before), ("-2", &after)] {
        // The critical path is in the planes.
        let without_path = Explanation { path: Vec::new(), ..explanation.clone() };
        assert_eq!(header(suffix)["explanation"], serde_json::to_value(&without_path).unwrap());
        assert!(!header(suffix)["planes"].as_array().unwrap().is_empty());
        assert!(!element(&page, "application/octet-stream", &format!("thalweg-data{suffix}")).is_empty());
    }
    assert!(header("-2")["diff"].is_null());
    assert!(!static_part(&page).contains("<script") && static_part(&page).matches("<svg").count() == 3);
    well_formed_static_part(&page);
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
