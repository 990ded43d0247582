//! More requests in flight: reading the next while the last is sent.

use super::Proposal;
use crate::model::copy::Copy;

pub(super) fn propose(copy: &Copy) -> Vec<Proposal> {
    let counts = [2, 4, 8].into_iter().filter(|&n| n > copy.requests);
    counts
        .map(|n| Proposal {
            id: "requests",
            change: match copy.requests {
                1 => format!("overlap reading with sending: {n} requests in flight"),
                now => format!("{n} requests in flight instead of {now}"),
            },
            copy: Copy { requests: n, ..copy.clone() },
            flags: vec![("--requests", n.to_string())],
            how: format!("keep {n} requests in flight: start the next before the last is answered"),
        })
        .collect()
}
