//! Changes whose gain the model predicts: one file each, and one line in [`ALL`].

mod buffer;
mod depth;
mod device;
mod requests;
mod streams;
mod sync;

use super::copy::Copy;

/// A change of the copy.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// What kind of change, for programs.
    pub id: &'static str,
    /// In words.
    pub change: String,
    /// The copy with it.
    pub copy: Copy,
    /// The program's flags that make it, where it is a matter of flags.
    pub flags: Vec<(&'static str, String)>,
    /// How to make it where no flag does.
    pub how: String,
}

/// Proposals of one kind for a copy; of each kind at most one is shown: the simplest that is near the best.
pub type Change = fn(&Copy) -> Vec<Proposal>;

/// Every kind of change.
pub const ALL: &[Change] =
    &[requests::propose, depth::propose, buffer::propose, streams::propose, device::propose_client, device::propose_servers, sync::propose];

/// A size as the program's flags take it.
fn size(bytes: f64) -> String {
    let bytes = bytes as u64;
    let exact = [("Gi", 30), ("Mi", 20), ("Ki", 10)].into_iter().find(|(_, shift)| bytes >= 1 << shift && bytes.is_multiple_of(1 << shift));
    exact.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}
