//! Without waiting for stable storage.

use super::proposal::{By, Proposal, Run};
use crate::replay::program::Class;
use crate::replay::scale::Scale;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    if !run.matters(run.stages.at_devices(Class::Sync)) {
        return Vec::new();
    }
    let how = "leave out syncing each write; sync once at the end if the data must survive a power loss";
    // The overhead of a transaction depends on the file system's commits: without those it is much less, by an unknown amount.
    if run.transactions {
        return vec![Proposal::new("no_sync", "no waiting for stable storage", how, By::Bound(0.0))];
    }
    let scale = Scale { no_sync: true, ..Scale::none().devices(&[Class::Sync], 0.0) };
    vec![Proposal::replay("no_sync", "no waiting for stable storage", how, scale)]
}
