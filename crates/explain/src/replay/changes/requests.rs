//! More requests in flight: a given number for a copy; four times as many for programs that ask and wait for the answer.

use super::proposal::{By, Proposal, Run};
use crate::cause::Cause;
use crate::limits::replay as limits;
use crate::replay::edit::{in_flight, under_way};
use crate::replay::edit_copy::edited;
use crate::replay::program::Graph;
use thalweg_trace::{Knob, Meta};

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    if run.graph.flows.is_known() {
        return of_copy(run);
    }
    // Asking ahead in a walk of this project's client is a change of its own.
    let now = run.under_way().filter(|_| run.walk.is_none());
    let edited = now.and_then(|now| in_flight(run.graph, chains(now, limits::MORE_REQUESTS * now)));
    let how = "send the next requests before the last is answered";
    let edited = edited.map(|graph| Proposal::requests(run, ID, "four times the requests in flight", how, graph));
    edited.into_iter().chain(of_pool(run)).collect()
}

const ID: &str = "requests.x4";

/// For a pool whose server slept instead of working on the requests, as if waiting for something unrecorded: such requests do not wait for
/// each other. A bound, since the server's capacity is unknown.
fn of_pool(run: &Run<'_>) -> Option<Proposal> {
    let pool = run.pool.filter(|_| run.walk.is_none() && run.support.share(&[Cause::ServerThink]) >= limits::SLEPT_FOR)?;
    // The requests' processing stays: no thread goes faster than it runs.
    let busiest_ns = run.busiest_ns();
    // If requests fill the run, the time between them overlaps as well.
    let fills = pool.busy_ns as f64 >= run.graph.wall_ns * limits::FILLS;
    let asking_ns = if fills { run.replayed_ns } else { pool.busy_ns as f64 };
    let ns = (run.replayed_ns - asking_ns * (1.0 - 1.0 / limits::MORE_REQUESTS as f64)).max(busiest_ns);
    let (change, how) = match pool.usual {
        1 => (
            "four requests at a time".to_owned(),
            "send the next requests before the last is answered, or on several connections".to_owned(),
        ),
        n => {
            let more = n as usize * limits::MORE_REQUESTS;
            (
                format!("{more} requests at a time instead of {n}"),
                format!("raise the pool from {n} to {more}: threads, connections, or requests at a time"),
            )
        }
    };
    Some(Proposal::new(ID, change, how, By::Bound(ns)))
}

/// For a copy: made by knobs.
fn of_copy(run: &Run<'_>) -> Vec<Proposal> {
    if run.copied_ns.is_none() {
        return Vec::new();
    }
    let (requests, depth) = in_flight_as_set(run.graph, run.meta);
    let with = |id, requests, depth, change, how: String| {
        let graph = edited(run.graph, requests, depth)?;
        Some(Proposal::new(id, change, how, By::EditCopy(Box::new(graph))))
    };
    let most = run.graph.flows.requests();
    let counts = [2, 4, 8].into_iter().filter(|&n| n > requests && n <= most);
    let mut proposals: Vec<Proposal> = counts
        .filter_map(|n| {
            let change = match requests {
                1 => format!("overlap reading with sending: {n} requests in flight"),
                now => format!("{n} requests in flight instead of {now}"),
            };
            let how = format!("keep {n} requests in flight: start the next before the last is answered");
            Some(with("requests", n, depth, change, how)?.with_knob(run.meta, "requests", n))
        })
        .collect();
    let most = run.graph.flows.messages_of_a_request() * requests;
    let depths = [2, 4, 8, 16, 32].into_iter().filter(|&d| d > depth && d < most.saturating_mul(2));
    proposals.extend(depths.filter_map(|d| {
        let change = format!("{d} flow buffers in flight instead of {depth}");
        let how = format!("keep {d} buffers in flight on each connection");
        Some(with("depth", requests, d, change, how)?.with_knob(run.meta, "depth", d))
    }));
    proposals
}

/// Number of turns in flight needed for this many requests, if each turn already has `now` of them.
pub(super) fn chains(now: usize, wanted: usize) -> usize {
    wanted.saturating_sub(now) + 1
}

impl Run<'_> {
    /// Number of requests in flight, if threads ask and wait for answers.
    pub(super) fn under_way(&self) -> Option<usize> {
        under_way(self.graph)
    }
}

/// Requests of a copy in flight, and messages on each connection: as configured, or else as seen.
pub(crate) fn in_flight_as_set(graph: &Graph, meta: &Meta) -> (usize, usize) {
    let set = |name: &str| Knob::of(meta, name).and_then(|knob| knob.value.parse().ok());
    let (requests, depth) = graph.flows.in_flight();
    (set("requests").unwrap_or(requests), set("depth").unwrap_or(depth))
}
