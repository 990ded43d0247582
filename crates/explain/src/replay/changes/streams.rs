//! Four times as many connections, if each is limited by its own window, or by its own losses.

use super::proposal::{Proposal, Run};
use crate::replay::facts::ceiling_ns_per_byte;
use crate::replay::regime::Regime;
use crate::replay::scale::{Rooms, Scale};

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let own = [Regime::Window, Regime::Cwnd, Regime::Loss];
    if !run.matters(run.stages.in_regimes(&own)) {
        return Vec::new();
    }
    let scale = Scale::none().services(&own, 0.25).rooms(&own, Rooms::Wide);
    let scale = Scale { least_ns_per_byte: ceiling_ns_per_byte(run.meta), ..scale };
    vec![Proposal::replay("streams.x4", "four times the connections", "use more connections in parallel", scale)]
}
