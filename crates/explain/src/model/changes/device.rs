//! A device twice as fast, at the client or at the servers.

use super::Proposal;
use crate::model::copy::{Copy, Cost, Costs};

fn faster(costs: Costs) -> Costs {
    let half = |c: Cost| Cost { wait_ns: c.wait_ns / 2.0, ..c };
    Costs { read: half(costs.read), write: half(costs.write), sync: half(costs.sync), ..costs }
}

/// The client's file on a disk twice as fast.
pub(super) fn propose_client(copy: &Copy) -> Vec<Proposal> {
    let client = Copy { requester: faster(copy.requester), near: faster(copy.near), ..copy.clone() };
    let id = if copy.inward { "device.read.x2" } else { "device.write.x2" };
    let (what, how) = ("the client's disk twice as fast", "move the client's file to a disk twice as fast");
    proposals(id, what, how, client, copy)
}

/// The servers' datafiles on disks twice as fast.
pub(super) fn propose_servers(copy: &Copy) -> Vec<Proposal> {
    let servers = Copy { far: faster(copy.far), ..copy.clone() };
    let id = if copy.inward { "device.write.x2" } else { "device.read.x2" };
    let (what, how) = ("the servers' disks twice as fast", "give the servers disks twice as fast, or twice as many of them");
    proposals(id, what, how, servers, copy)
}

fn proposals(id: &'static str, what: &str, how: &str, changed: Copy, copy: &Copy) -> Vec<Proposal> {
    let proposal = |copy| Proposal { id, change: what.to_owned(), copy, flags: Vec::new(), how: how.to_owned() };
    if changed == *copy { Vec::new() } else { vec![proposal(changed)] }
}
