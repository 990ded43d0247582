//! Each byte of a file read once, or written once, where it was moved several times over.

use super::proposal::{By, Proposal, Run};
use crate::replay::program::Class;
use crate::replay::scale::Scale;
use crate::replay::simulate::simulate;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    [written(run), read(run), fetched(run)].into_iter().flatten().collect()
}

/// What a device does for it, and what writers are held back for, goes by bytes.
fn written(run: &Run<'_>) -> Option<Proposal> {
    let left = 1.0 / run.written_again?.times();
    let scale = Scale::none().devices(&[Class::Write, Class::Sync], left).delays(&[Class::Memory], left);
    let how = "write each byte once: reserve the room with fallocate(2) instead of filling the file first, and write to its place at once";
    Some(Proposal::replay("write_once", "each byte written once", how, scale))
}

/// Requests that are not made again are not waited for; what is computed of the answers may go with them, or stay.
fn fetched(run: &Run<'_>) -> Option<Proposal> {
    let again = run.fetched_again.as_ref()?;
    let asked = run.asked?;
    let ns = (run.replayed_ns - asked.busy_ns as f64 * (1.0 - 1.0 / again.times())).max(0.0);
    let (change, how) = match again.out {
        true => ("each byte sent once", "send it once, and nothing that the server has already"),
        false => (
            "each range fetched once",
            "keep what was fetched: a cache that holds all parts that are read in turn, or larger pieces read in order",
        ),
    };
    Some(Proposal::new("fetch_once", change, how, By::Bound(ns)))
}

/// What is computed of the bytes may be for each time, or for what comes of them: a bound.
fn read(run: &Run<'_>) -> Option<Proposal> {
    let left = 1.0 / run.read_again?.times();
    let mut scale = Scale::none().devices(&[Class::Read], left);
    scale.run[0] = left;
    let ns = simulate(run.graph, &scale)?;
    let how = "read it in one pass, or keep what was read: a larger cache or buffer, sorted positions, an index";
    Some(Proposal::new("read_once", "each byte read once", how, By::Bound(ns)))
}
