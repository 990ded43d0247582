//! The network: twice the rate, half the round trip, larger windows, no loss, no slow start.

use super::proposal::{Proposal, Run};
use crate::replay::facts::ceiling_ns_per_byte;
use crate::replay::program::Class;
use crate::replay::regime::Regime;
use crate::replay::scale::{Rooms, Scale};

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let mut proposals = Vec::new();
    let took = |regimes: &[Regime]| run.stages.in_regimes(regimes);
    let least = ceiling_ns_per_byte(run.meta);
    let none = || Scale { least_ns_per_byte: least, ..Scale::none() };
    if run.matters(took(&[Regime::Bandwidth])) {
        let how = "a link of twice the rate, or half as much to send (compression)";
        proposals.push(Proposal::replay("link.x2", "the link carries twice as much", how, none().services(&[Regime::Bandwidth], 0.5)));
    }
    let by_round_trips = [Regime::Window, Regime::Cwnd, Regime::Loss, Regime::Latency];
    if run.matters(run.stages.latency + took(&by_round_trips) + run.stages.delays[Class::Connect as usize]) {
        let scale = Scale { latency: 0.5, ..none().services(&by_round_trips, 0.5).delays(&[Class::Connect], 0.5) };
        proposals.push(Proposal::replay("rtt.half", "half the round-trip time", "move the two ends closer together", scale));
    }
    if run.matters(took(&[Regime::Window])) || run.stages.rooms > 0.0 {
        let how = "larger socket buffers at both ends";
        let scale = none().services(&[Regime::Window], 0.25).rooms(&[Regime::Window], Rooms::Wide);
        proposals.push(Proposal::replay("window.x4", "send and receive buffers x 4", how, scale));
    }
    let steady = |known: f64| if known > 0.0 { known } else { run.stages.good_ns_per_byte }.max(least);
    if run.matters(took(&[Regime::Loss]) + run.stages.delays[Class::Lost as usize]) {
        let scale = Scale {
            steady_ns_per_byte: steady(run.graph.window_ns_per_byte),
            ..none().services(&[Regime::Loss], 0.0).rooms(&[Regime::Loss], Rooms::Endless).delays(&[Class::Lost], 0.0)
        };
        let how = "find where the path loses packets";
        proposals.push(Proposal::replay("no_loss", "no packet loss", how, scale));
    }
    if run.matters(took(&[Regime::Cwnd])) {
        let scale =
            Scale { steady_ns_per_byte: steady(0.0), ..none().services(&[Regime::Cwnd], 0.0).rooms(&[Regime::Cwnd], Rooms::Endless) };
        let how = "keep connections open and reuse them";
        proposals.push(Proposal::replay("no_slow_start", "no slow start: connections at full speed from their beginning", how, scale));
    }
    proposals
}
