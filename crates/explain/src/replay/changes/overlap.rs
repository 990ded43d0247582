//! Reading the next buffer while the last is sent: for a client that alternately reads from a device and sends.

use super::proposal::{By, Proposal, Run};
use crate::replay::edit::overlapped;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let Some(graph) = overlapped(run.graph) else { return Vec::new() };
    let how = "read the next buffer while the last is sent (a second thread, or asynchronous reads)";
    vec![Proposal::new("overlap.read_send", "overlap reading with sending", how, By::Edit(Box::new(graph)))]
}
