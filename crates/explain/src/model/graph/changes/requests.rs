//! Four times as many requests in flight, for programs that ask and wait for the answer.

use super::{Proposal, Run};
use crate::model::graph::edit::{in_flight, under_way};

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    // What a walk of our own client asks ahead is a change of its own.
    let now = run.under_way().filter(|_| run.walk.is_none());
    let Some(graph) = now.and_then(|now| in_flight(run.graph, chains(now, 4 * now))) else { return Vec::new() };
    let how = "send the next requests before the last is answered";
    vec![Proposal::requests(run, "requests.x4", "four times as many requests in flight", how, graph)]
}

/// How many turns of asking must be under way for this many requests to be, where so many are in each turn's time already.
pub(super) fn chains(now: usize, wanted: usize) -> usize {
    wanted.saturating_sub(now) + 1
}

impl Run<'_> {
    /// How many requests are under way, where threads ask and wait for answers.
    pub(super) fn under_way(&self) -> Option<usize> {
        under_way(self.graph)
    }
}
