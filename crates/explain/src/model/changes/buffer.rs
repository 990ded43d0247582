//! Another flow buffer size. Not above 1 MiB: what a byte costs is known for the observed size, and above
//! that buffers no longer fit the processors' own caches, which the recording cannot tell.

use super::Proposal;
use crate::model::copy::Copy;
use thalweg_trace::numbers::{exact_size, size};

pub(super) fn propose(copy: &Copy) -> Vec<Proposal> {
    let sizes = [0.25, 0.5, 2.0, 4.0].map(|factor| (copy.buffer_bytes * factor).round());
    let sizes = sizes.into_iter().filter(|&b| (65_536.0..=1_048_576.0).contains(&b) && b <= copy.request_bytes);
    sizes
        .map(|b| Proposal {
            id: "buffer",
            change: format!("flow buffers of {} instead of {}", size(b as u64), size(copy.buffer_bytes as u64)),
            copy: Copy { buffer_bytes: b, ..copy.clone() },
            flags: vec![("--buffer", exact_size(b as u64))],
            how: format!("move {} in each message", size(b as u64)),
        })
        .collect()
}
