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
pub(crate) struct Proposal {
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
pub(crate) type Change = fn(&Copy) -> Vec<Proposal>;

/// Every kind of change.
pub(crate) const ALL: &[Change] =
    &[requests::propose, depth::propose, buffer::propose, streams::propose, device::propose_client, device::propose_servers, sync::propose];
