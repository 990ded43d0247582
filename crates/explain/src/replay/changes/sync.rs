//! Without waiting for stable storage.

use super::proposal::{Proposal, Run};
use crate::replay::program::Class;
use crate::replay::scale::Scale;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    if !run.matters(run.stages.at_devices(Class::Sync)) {
        return Vec::new();
    }
    let how = "leave out syncing each write; sync once at the end if the data must survive a power loss";
    let scale = Scale { no_sync: true, ..Scale::none().devices(&[Class::Sync], 0.0) };
    vec![Proposal::replay("no_sync", "not waiting for data to be on stable storage", how, scale)]
}
