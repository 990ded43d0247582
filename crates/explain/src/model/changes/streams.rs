//! More connections to each server.

use super::Proposal;
use crate::model::copy::Copy;

pub(super) fn propose(copy: &Copy) -> Vec<Proposal> {
    let counts = [2, 4].into_iter().filter(|&n| n > copy.streams && n * copy.servers <= 64);
    counts
        .map(|n| Proposal {
            id: "streams",
            change: format!("{n} connections to each server instead of {}", copy.streams),
            copy: Copy { streams: n, ..copy.clone() },
            flags: vec![("--streams", n.to_string())],
            how: format!("open {n} connections to each server"),
        })
        .collect()
}
