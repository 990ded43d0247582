//! Promises of the answer as Markdown.

use crate::made_up::{Copy, made_up};
use thalweg_report::markdown;

#[test]
fn it_has_the_charges_and_what_a_recording_says_stays_text() {
    let (_, mut explanation) = made_up(Copy::SERIAL);
    explanation.critical_path[0].place = "a | b\n<script>alert(1)</script> ![x](http://example.org)".into();
    let page = markdown(&explanation);
    assert!(page.starts_with("## Where the time went\n\n    "));
    for charge in &explanation.critical_path {
        assert!(page.contains(&format!("| {} |", charge.cause.name())), "{} is missing", charge.cause.name());
    }
    let table = page.lines().filter(|line| line.starts_with('|'));
    assert!(table.clone().count() > explanation.critical_path.len());
    assert!(table.clone().all(|line| !line.contains('<') && !line.contains("![")), "{page}");
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    assert!(table.take(explanation.critical_path.len() + 2).all(|line| cells(line) == 6), "{page}");
}
