//! Each byte of a file read once, or written once, if it was moved several times over.

use super::proposal::{By, Proposal, Run};
use crate::cause::Cause;
use crate::facts::names::file_name;
use crate::limits::replay as limits;
use crate::replay::program::Class;
use crate::replay::scale::Scale;
use crate::replay::simulate::simulate;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    [written(run).or_else(|| copied(run)), read(run), fetched(run)].into_iter().flatten().collect()
}

/// A device's work, and the time writers are throttled, follow the bytes. If no device was waited for, all work may follow the bytes, as
/// far as it is done each time: a bound, not limited by a replay, since a writing thread may wait for others of its own program (a
/// runtime's).
fn written(run: &Run<'_>) -> Option<Proposal> {
    let again = run.written_again?;
    let left = 1.0 / again.times();
    if again.replaced.is_some() {
        return Some(unreplaced(run, left));
    }
    let scale = Scale::none().devices(&[Class::Write, Class::Sync], left).delays(&[Class::Memory], left);
    let change = "each byte written once";
    let at_devices = run.stages.at_devices(Class::Write) + run.stages.at_devices(Class::Sync) + run.stages.delays[Class::Memory as usize];
    if again.times() < limits::REWRITTEN || run.matters(at_devices) {
        let how = "write each byte once: reserve space with fallocate(2) instead of filling the file first, and write straight to the final place";
        return Some(Proposal::replay("write_once", change, how, scale));
    }
    let how = "write it once, at the end or now and then; or write only what changed: append it, or write it in place";
    Some(Proposal::new("write_once", change, how, By::Bound(run.replayed_ns * left)))
}

/// Half of the writing is saved, and all of the reading: a bound, since the bytes' other processing is unknown.
fn copied(run: &Run<'_>) -> Option<Proposal> {
    let copied = run.copied_again?;
    let mut scale = Scale::none().devices(&[Class::Write, Class::Sync], 0.5).devices(&[Class::Read], 0.0).delays(&[Class::Memory], 0.5);
    scale.run[0] = limits::LEFT_OF_A_COPY;
    let ns = simulate(run.graph, &scale)?;
    let how = format!(
        "rename {} instead of copying it (rename(2), mv within a file system), or write straight to the final place",
        file_name(&run.tables.objects[copied.from].name)
    );
    Some(Proposal::new("write_once", "each byte written once", how, By::Bound(ns)))
}

/// Requests that are not repeated are not waited for; the processing of their answers may be saved, or stay.
fn fetched(run: &Run<'_>) -> Option<Proposal> {
    let again = run.fetched_again.as_ref()?;
    let asked = run.asked?;
    // On a full link, bytes take the time; otherwise requests do.
    let full = run.support.share(&[Cause::NetworkBandwidth]) >= limits::FULL_PART;
    let left = if full { 1.0 / again.times() } else { again.different as f64 / again.requests.max(1) as f64 };
    let ns = (run.replayed_ns - asked.busy_ns as f64 * (1.0 - left)).max(0.0);
    let (change, how) = match again.out {
        true => ("each byte sent once", "send it once, and skip what the server already has"),
        false => (
            "each range fetched once",
            "keep what was fetched: a cache large enough for all parts that are read in turn, or larger pieces read in order",
        ),
    };
    Some(Proposal::new("fetch_once", change, how, By::Bound(ns)))
}

/// The bytes' processing may be needed each time, or once: a bound. Less computing also means less queueing.
fn read(run: &Run<'_>) -> Option<Proposal> {
    let again = run.read_again?;
    let left = 1.0 / again.most_times();
    if again.replaced.is_some() {
        return run.written_again.is_none_or(|written| written.replaced.is_none()).then(|| unreplaced(run, left));
    }
    let queues = [Class::LongQueue, Class::Foreign, Class::Recorder, Class::Queue];
    let mut scale = Scale::none().devices(&[Class::Read], left).delays(&queues, left);
    scale.run[0] = left;
    let ns = simulate(run.graph, &scale)?;
    let how = "read it in one pass, or keep what was read: a larger cache or buffer, sorted positions, an index";
    Some(Proposal::new("read_once", "each byte read once", how, By::Bound(ns)))
}

/// All work on each version of a replaced file may be done once: it is read, written, and put in place of the last.
fn unreplaced(run: &Run<'_>, left: f64) -> Proposal {
    let how = "make all changes in one run, or in place: replacing a file writes all of it for each change";
    Proposal::new("write_once", "all changes to it in one run", how, By::Bound(run.replayed_ns * left))
}
