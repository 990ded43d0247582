//! Changes that are proposed are such as can be made, and give what is said.

use crate::numbers::fixture;
use thalweg_explain::document::{Explanation, NumberKind};

fn proposes(e: &Explanation, id: &str) -> bool {
    e.what_if.iter().any(|w| w.id == id)
}

/// A queue's client asks 25 times for the next task, over one connection; the server takes 200 ms for each small answer.
#[test]
fn who_asks_for_the_next_task_fetches_nothing_again() {
    let e = fixture("next-task-again");
    assert!(!proposes(&e, "fetch_once"), "{:?}", e.what_if);
    assert!(e.summary.numbers.iter().all(|n| n.kind != NumberKind::TimesOver), "{:#?}", e.summary.numbers);
    assert!(e.summary.numbers.iter().any(|n| n.kind == NumberKind::OneAtATime && n.count == Some(25)), "{:#?}", e.summary.numbers);
}
