//! A device twice as fast, at the client or at the servers: whichever waits more.

use super::Proposal;
use crate::model::copy::{Copy, Cost, Costs};

fn faster(costs: Costs) -> Costs {
    let half = |c: Cost| Cost { wait_ns: c.wait_ns / 2.0, ..c };
    Costs { read: half(costs.read), write: half(costs.write), sync: half(costs.sync), ..costs }
}

fn proposal(id: &'static str, what: &str, how: &str, copy: Copy) -> Proposal {
    Proposal { id, change: what.to_owned(), copy, flags: Vec::new(), how: how.to_owned() }
}

pub fn propose(copy: &Copy) -> Vec<Proposal> {
    let client = Copy { requester: faster(copy.requester), near: faster(copy.near), ..copy.clone() };
    let servers = Copy { far: faster(copy.far), ..copy.clone() };
    let mut proposals = Vec::new();
    if client != *copy {
        let (what, how) = ("the client's disk twice as fast", "move the client's file to a disk twice as fast");
        proposals.push(proposal("device.client.x2", what, how, client));
    }
    if servers != *copy {
        let (what, how) = ("the servers' disks twice as fast", "give the servers disks twice as fast, or twice as many of them");
        proposals.push(proposal("device.server.x2", what, how, servers));
    }
    proposals
}
