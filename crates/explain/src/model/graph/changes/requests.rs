//! Four times as many requests in flight, for programs that ask and wait for the answer.
//!
//! As many requests are under way for as long each, until the busiest stage has no pause left: the time is that of the
//! whole over four, or the busiest stage's, and a little more than either where they are near each other.

use super::{By, Proposal, Run};

/// An exchange is a request when there were so many.
const FEWEST_EXCHANGES: u64 = 16;

/// How sharp the bend is between the two.
const SHARPNESS: f64 = 4.0;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let exchanges = &run.graph.exchanges;
    if exchanges.count < FEWEST_EXCHANGES {
        return Vec::new();
    }
    // What lies before the first request and after the last answer stays.
    let asking = exchanges.span_ns.min(run.replayed_ns);
    let busiest = run.stages.bottleneck(run.graph).min(asking);
    let ns = run.replayed_ns - asking + (busiest.powf(SHARPNESS) + (asking / 4.0).powf(SHARPNESS)).powf(1.0 / SHARPNESS);
    vec![Proposal {
        id: "requests.x4",
        change: "four times as many requests in flight".to_owned(),
        how: "send the next requests before the last is answered".to_owned(),
        flags: Vec::new(),
        by: By::Stages(ns.min(run.replayed_ns)),
    }]
}
