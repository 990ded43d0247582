//! Limits that numbers name, raised by the numbers' own figures, if no other change raises them.

use super::proposal::{By, Proposal, Run};
use crate::document::WhatIf;
use crate::facts::raise::Raise;
use crate::limits::replay as limits;

/// Proposals for the limits that no predicted change raises.
pub(crate) fn propose(run: &Run<'_>, raises: &[Raise], predicted: &[WhatIf]) -> Vec<Proposal> {
    let of_replay = run.replayed_ns / run.graph.wall_ns.max(1.0);
    // A named window was full: a replay in which a wider one gains little has kept the waits of the program that carries the bytes.
    let gives = |w: &WhatIf, raise: &Raise| {
        let gained = (1.0 - 1.0 / w.speedup) * run.replayed_ns;
        w.speedup >= limits::LEAST_SPEEDUP && (raise.id != "window.x4" || gained >= raise.gained_ns * of_replay * limits::WINDOW_REPLAYED)
    };
    let is_raised = |raise: &Raise| predicted.iter().any(|w| gives(w, raise) && raises_as(&w.id, raise.id));
    // One thread's computing stays, unless it is waiting.
    let busiest_ns = run.busiest_ns();
    let bound = |raise: &Raise| {
        let least_ns = if raise.id == "requests.x4" { busiest_ns } else { 0.0 };
        let ns = (run.replayed_ns - raise.gained_ns * of_replay).max(least_ns);
        Proposal::new(raise.id, raise.change.clone(), raise.how, By::Bound(ns))
    };
    let is_first = |(at, raise): &(usize, &Raise)| raises[..*at].iter().all(|earlier| earlier.id != raise.id);
    raises.iter().enumerate().filter(is_first).map(|(_, raise)| raise).filter(|raise| !is_raised(raise)).map(bound).collect()
}

/// Whether one change raises the limit that another is about.
fn raises_as(one: &str, other: &str) -> bool {
    let overlaps = |id: &str| id.starts_with("overlap.") || id == "requests";
    one == other
        || overlaps(one) && overlaps(other)
        || other == "requests.x4" && (one.starts_with("walk.") || one == "requests" || one == "depth" || one == "window.x4")
}
