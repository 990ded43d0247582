//! Reading the next while the last is sent: for a client that reads from a device and sends, one after the other.

use super::{By, Proposal, Run};
use crate::model::graph::program::{Class, Op};
use crate::model::graph::scale::Scale;
use crate::model::graph::simulate::simulate;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let main = &run.graph.programs[run.graph.main];
    let reads = main.ops.iter().filter(|op| matches!(op, Op::Serve { class: Class::Read, .. })).count();
    let waits_for_others =
        main.ops.iter().filter(|op| matches!(op, Op::Arrive { .. } | Op::Room { .. } | Op::Delay { class: Class::FarEnd, .. })).count();
    if reads < 8 || waits_for_others < 8 {
        return Vec::new();
    }
    let Some(without) = simulate(run.graph, &Scale::none().devices(&[Class::Read], 0.0)) else { return Vec::new() };
    let reading = run.replayed_ns - without;
    if !run.matters(reading) {
        return Vec::new();
    }
    let first = reading / reads.min(waits_for_others) as f64;
    vec![Proposal {
        id: "overlap.read_send",
        change: "overlap reading with sending".to_owned(),
        how: "read the next buffer while the last is sent (a second thread, or asynchronous reads)".to_owned(),
        flags: Vec::new(),
        by: By::Stages((without.max(reading) + first).min(run.replayed_ns)),
    }]
}
