//! More flow buffers in flight on each connection.

use super::Proposal;
use crate::model::copy::Copy;

pub(super) fn propose(copy: &Copy) -> Vec<Proposal> {
    let most = (copy.request_bytes / copy.buffer_bytes).ceil() as usize * copy.requests / (copy.servers * copy.streams);
    let depths = [2, 4, 8, 16, 32].into_iter().filter(|&d| d > copy.depth && d < most.saturating_mul(2));
    depths
        .map(|d| Proposal {
            id: "depth",
            change: format!("{d} flow buffers in flight instead of {}", copy.depth),
            copy: Copy { depth: d, ..copy.clone() },
            flags: vec![("--depth", d.to_string())],
            how: format!("keep {d} buffers in flight on each connection"),
        })
        .collect()
}
