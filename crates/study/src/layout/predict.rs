//! Computes the rate that disks and links allow a layout, to compare measurements with.
//!
//! Every node has a disk and a link, each with a rate in each direction; nothing else costs time. All nodes start simultaneously and share
//! disks and links fairly. In this fluid model each flow, from a rank to one target, runs at the rate of the most contended disk or link on
//! its way (progressive filling) until the first flow ends; then the rates are computed again for the rest. A rank is done when its last
//! flow is. Over `n` nodes that all stripe over all, `(n − 1) / n` of each rank's bytes cross its link, so a link of half a disk's rate
//! limits four nodes to two thirds of a disk.

use serde::{Deserialize, Serialize};

/// Rates of a node's disk and link, the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Rates {
    /// The disk.
    pub disk_bytes_per_s: f64,
    /// The link, in each direction; absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link_bytes_per_s: Option<f64>,
}

/// Bytes of one rank on one node's disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flow {
    /// The rank, which is also its node.
    pub rank: usize,
    /// The node whose disk they are on.
    pub on: usize,
    /// Number of bytes.
    pub bytes: f64,
}

/// Returns the seconds that each of `ranks` ranks takes to move its flows, all starting simultaneously. The direction makes no difference:
/// links are symmetric.
pub(super) fn seconds(ranks: usize, flows: &[Flow], rates: &Rates) -> Vec<f64> {
    let mut done = vec![0.0; ranks];
    let mut left: Vec<Flow> = flows.iter().copied().filter(|flow| flow.bytes > 0.0).collect();
    let mut now = 0.0;
    while !left.is_empty() {
        let speeds = fair_shares(ranks, &left, rates);
        let step = left.iter().zip(&speeds).map(|(flow, speed)| flow.bytes / speed).fold(f64::INFINITY, f64::min);
        now += step;
        for (flow, speed) in left.iter_mut().zip(&speeds) {
            flow.bytes -= speed * step;
            // Less than a byte left is a rounding error.
            if flow.bytes < 1e-3 {
                flow.bytes = 0.0;
                done[flow.rank] = now;
            }
        }
        left.retain(|flow| flow.bytes > 0.0);
    }
    done
}

/// Whether a flow uses a resource: a node's disk, its outgoing link, or its incoming link.
fn passes(flow: &Flow, resource: usize, nodes: usize) -> bool {
    let (kind, node) = (resource / nodes, resource % nodes);
    match kind {
        0 => flow.on == node,
        1 => flow.rank == node && flow.on != node,
        _ => flow.on == node && flow.rank != node,
    }
}

/// Returns each flow's rate: the most contended resource is divided among its flows and removed, repeatedly.
fn fair_shares(nodes: usize, flows: &[Flow], rates: &Rates) -> Vec<f64> {
    let link = rates.link_bytes_per_s.unwrap_or(f64::INFINITY);
    let mut free: Vec<f64> = (0..3 * nodes).map(|resource| if resource < nodes { rates.disk_bytes_per_s } else { link }).collect();
    let mut speeds: Vec<Option<f64>> = vec![None; flows.len()];
    loop {
        let share = |resource: usize| {
            let many = flows.iter().zip(&speeds).filter(|(flow, speed)| speed.is_none() && passes(flow, resource, nodes)).count();
            (many > 0).then(|| free[resource] / many as f64)
        };
        let fullest = (0..3 * nodes).filter_map(|r| Some((share(r)?, r))).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((speed, resource)) = fullest else { break };
        for (flow, of) in flows.iter().zip(speeds.iter_mut()) {
            if of.is_none() && passes(flow, resource, nodes) {
                *of = Some(speed);
                (0..3 * nodes).filter(|r| passes(flow, *r, nodes)).for_each(|r| free[r] -= speed);
            }
        }
    }
    // Every flow uses a disk at least, so it has a rate.
    speeds.into_iter().map(|speed| speed.unwrap_or(f64::INFINITY)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates { disk_bytes_per_s: 40.0, link_bytes_per_s: Some(20.0) };

    fn striped(nodes: usize, bytes: f64) -> Vec<Flow> {
        (0..nodes).flat_map(|rank| (0..nodes).map(move |on| Flow { rank, on, bytes: bytes / nodes as f64 })).collect()
    }

    fn near(found: &[f64], expected: &[f64]) {
        let close = found.len() == expected.len() && found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-6 * e.max(1.0));
        assert!(close, "{found:?}, expected {expected:?}");
    }

    #[test]
    fn own_disks_are_limited_by_nothing_else() {
        let flows: Vec<Flow> = (0..3).map(|n| Flow { rank: n, on: n, bytes: 80.0 }).collect();
        near(&seconds(3, &flows, &RATES), &[2.0, 2.0, 2.0]);
    }

    #[test]
    fn striping_over_all_sends_all_but_one_nth_over_the_link() {
        // 3/4 of 80 bytes over a link of 20: 3 s; the disk alone would take 2.
        near(&seconds(4, &striped(4, 80.0), &RATES), &[3.0; 4]);
        // Two nodes: half of 80 over 20: 2 s, as the disk.
        near(&seconds(2, &striped(2, 80.0), &RATES), &[2.0; 2]);
        let free = Rates { link_bytes_per_s: None, ..RATES };
        near(&seconds(4, &striped(4, 80.0), &free), &[2.0; 4]);
    }

    #[test]
    fn one_server_gives_the_others_its_link_and_itself_the_rest_of_its_disk() {
        let flows: Vec<Flow> = (0..3).map(|rank| Flow { rank, on: 0, bytes: 40.0 }).collect();
        // The others share the link inward, 10 each; rank 0 has the disk's other 20: 2 s. Then the others go on as before.
        near(&seconds(3, &flows, &RATES), &[2.0, 4.0, 4.0]);
    }

    #[test]
    fn a_neighbours_disk_costs_the_link() {
        let flows: Vec<Flow> = (0..4).map(|n| Flow { rank: n, on: (n + 1) % 4, bytes: 80.0 }).collect();
        near(&seconds(4, &flows, &RATES), &[4.0; 4]);
    }

    #[test]
    fn nothing_takes_no_time() {
        near(&seconds(2, &[Flow { rank: 0, on: 0, bytes: 0.0 }], &RATES), &[0.0, 0.0]);
    }
}
