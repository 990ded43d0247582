//! Without waiting for the lock.

use super::proposal::{Proposal, Run};
use crate::replay::program::Class;
use crate::replay::scale::Scale;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    if run.stages.locks == 0.0 && !run.delayed(&[Class::Lock]) {
        return Vec::new();
    }
    let scale = Scale { no_lock: true, ..Scale::none().delays(&[Class::Lock], 0.0) };
    let how = "hold the lock for less: do the slow work outside of it, or split what it guards";
    // Files, answers and others' work are waited for like a lock, but are none.
    let change = if run.stages.locks > 0.0 { "no waiting for the lock" } else { "no waiting for it" };
    vec![Proposal::replay("no_lock", change, how, scale)]
}
