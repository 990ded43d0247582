//! Each byte of a file read once, or written once, where it was moved several times over.

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

/// What a device does for it, and what writers are held back for, goes by bytes. Where nobody waits for a device, all that is done may go with the bytes, as
/// far as it is for each time: a bound, and one that no replay holds back, since a thread that writes may wait for its own program's others (a runtime's).
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
        let how =
            "write each byte once: reserve the room with fallocate(2) instead of filling the file first, and write to its place at once";
        return Some(Proposal::replay("write_once", change, how, scale));
    }
    let how = "write it once, at the end or now and then; or write what changed alone: append it, or write it in its place";
    Some(Proposal::new("write_once", change, how, By::Bound(run.replayed_ns * left)))
}

/// Half of the writing goes, and all of the reading: a bound, since what else is computed of the bytes does not show.
fn copied(run: &Run<'_>) -> Option<Proposal> {
    let copied = run.copied_again?;
    let mut scale = Scale::none().devices(&[Class::Write, Class::Sync], 0.5).devices(&[Class::Read], 0.0).delays(&[Class::Memory], 0.5);
    scale.run[0] = limits::LEFT_OF_A_COPY;
    let ns = simulate(run.graph, &scale)?;
    let how = format!(
        "rename {} instead of copying it (rename(2), mv within a file system), or write to its place at once",
        file_name(&run.tables.objects[copied.from].name)
    );
    Some(Proposal::new("write_once", "each byte written once", how, By::Bound(ns)))
}

/// Requests that are not made again are not waited for; what is computed of the answers may go with them, or stay.
fn fetched(run: &Run<'_>) -> Option<Proposal> {
    let again = run.fetched_again.as_ref()?;
    let asked = run.asked?;
    // Of a link that is full, bytes take the time; else it goes by requests.
    let full = run.support.share(&[Cause::NetworkBandwidth]) >= limits::FULL_PART;
    let left = if full { 1.0 / again.times() } else { again.different as f64 / again.requests.max(1) as f64 };
    let ns = (run.replayed_ns - asked.busy_ns as f64 * (1.0 - left)).max(0.0);
    let (change, how) = match again.out {
        true => ("each byte sent once", "send it once, and nothing that the server has already"),
        false => (
            "each range fetched once",
            "keep what was fetched: a cache that holds all parts that are read in turn, or larger pieces read in order",
        ),
    };
    Some(Proposal::new("fetch_once", change, how, By::Bound(ns)))
}

/// What is computed of the bytes may be for each time, or for what comes of them: a bound. Who computes less waits less for a processor.
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

/// All that is done for each version of a file that was replaced may be done once: it is read, written, and put in the place of the last.
fn unreplaced(run: &Run<'_>, left: f64) -> Proposal {
    let how = "make all the changes to it in one run, or in its place: what replaces a file writes all of it for each change";
    Proposal::new("write_once", "all changes to it in one run", how, By::Bound(run.replayed_ns * left))
}
