//! An unrecorded far end answering in half the time.

use super::proposal::{Proposal, Run};
use crate::replay::program::Class;
use crate::replay::scale::Scale;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    if !run.delayed(&[Class::FarEnd]) {
        return Vec::new();
    }
    let how = "record the far end too: what it spends its time on is not known";
    vec![Proposal::replay("server.x2", "the server answering in half the time", how, Scale::none().delays(&[Class::FarEnd], 0.5))]
}
