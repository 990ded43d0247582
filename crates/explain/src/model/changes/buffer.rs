//! Another flow buffer size.

use super::{Proposal, size};
use crate::model::copy::Copy;

pub fn propose(copy: &Copy) -> Vec<Proposal> {
    let sizes = [0.25, 0.5, 2.0, 4.0].map(|factor| (copy.buffer_bytes * factor).round());
    let sizes = sizes.into_iter().filter(|&b| (65_536.0..=4_194_304.0).contains(&b) && b <= copy.request_bytes);
    sizes
        .map(|b| Proposal {
            change: format!("flow buffers of {} instead of {}", size(b), size(copy.buffer_bytes)),
            copy: Copy { buffer_bytes: b, ..copy.clone() },
            flags: vec![("--buffer", size(b))],
            how: format!("move {} bytes in each message", size(b)),
        })
        .collect()
}
