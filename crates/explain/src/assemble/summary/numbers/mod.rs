//! The number behind the rate: an activity so frequent, or a resource so small, that no disk or link would make the program faster.
//!
//! A cause says where the time went; the number says why it took that much time: 1,043 sequential requests, 64 KiB in flight, a sync for
//! each of 2,000 files, reads of one byte. Each kind has a file here. For each of the largest causes, the first kind that explains it is
//! reported: work per item before general limits, and one processor's speed last.

mod amount;
mod besides;
mod calls;
mod disks;
mod held;
mod in_flight;
mod items;
mod lives;
mod lookups;
mod phases;
mod pipes;
mod pool;
mod processor;
mod raise;
mod round_trips;
mod run;
mod stages;
mod time_limits;
mod turns;
mod words;

use super::groups::Group;
use super::of::Of;
use crate::cause::Cause;
use crate::document::{MAX_NUMBERS, NumberKind};
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
pub(super) use raise::Behind;

use run::Run;

/// A kind of number: what it finds behind a group of charges.
type Find = fn(&Run<'_>, &Group<'_>) -> Option<Behind>;

/// Every kind, the most specific first.
const KINDS: [Find; 19] = [
    lookups::find,
    time_limits::find,
    besides::find,
    held::find,
    amount::find,
    items::processes,
    items::syncs,
    round_trips::connections,
    round_trips::for_each_item,
    round_trips::one_at_a_time,
    in_flight::find,
    pool::behind,
    pool::find,
    round_trips::short_connections,
    calls::find,
    disks::find,
    processor::all,
    processor::find,
    lookups::many,
];

/// The numbers behind the rate, that of the largest cause first; and further changes that the recording suggests.
pub(super) fn numbers(of: &Of<'_>, groups: &[Group<'_>]) -> (Vec<Behind>, Vec<Raise>) {
    let run = &Run::of(of);
    let mut found: Vec<Behind> = pipes::find(run).into_iter().collect();
    // If the recorder takes much of the time, the rest counts as the run.
    let least = limits::LEAST_SHARE * (1.0 - of.share(|cause| cause == Cause::Recorder));
    let of_run = groups.iter().filter(|group| group.cause != Cause::Recorder);
    for group in of_run.take_while(|group| group.share >= least).take(MAX_NUMBERS) {
        let behind = KINDS.iter().find_map(|find| find(run, group));
        found.extend(behind.filter(|behind| found.iter().all(|earlier| earlier.number.kind != behind.number.kind)));
    }
    if found.is_empty() && groups.iter().all(|group| group.share < least) {
        // With a few processes that each wait for many things, no cause has much of the time.
        found.extend(items::one_after_the_other(run));
    }
    if found.iter().all(|behind| behind.number.kind != NumberKind::InSeries) {
        found.extend(stages::find(run, groups).or_else(|| phases::find(run)));
    }
    found.truncate(MAX_NUMBERS);
    let besides = items::one_transaction(run).into_iter().chain(round_trips::no_delay(run, groups));
    (found, besides.collect())
}
