//! Doubts about waits for a disk in recordings without privilege, which do not say who made a request. Of a disk that rested for much of
//! the time it was waited for, other programs may have made most requests, or a control group's limit or a scheduler may have held back the
//! run's own. The wait is then known, but not its reason.

use super::set_limits::SetLimits;
use crate::limits::assemble as limits;
use crate::observe::observation::{DeviceActivity, Observation};
use crate::observe::tables::Tables;
use crate::path::ledger::{Entry, Ledger};
use crate::waits::place::{Place, What};
use std::collections::HashMap;
use thalweg_trace::{ObjectKind, SpanKind};

/// Marks such waits as inferred.
pub(crate) fn doubt_disks(ledger: &mut Ledger, tables: &Tables, (seen, set_limits): (&Observation, &SetLimits), wall_ns: i64) {
    if !tables.wakers_inferred {
        return;
    }
    let mut waited_ns: HashMap<(String, bool), u64> = HashMap::new();
    for ((name, syncs), entry) in ledger.entries.iter().filter_map(|entry| Some((disk(tables, entry)?, entry))) {
        *waited_ns.entry((name.to_owned(), syncs)).or_default() += entry.runs.total_ns;
    }
    let least_ns = wall_ns as f64 * limits::DOUBTED_DISK;
    // A limit that was reached is the reason.
    waited_ns.retain(|(name, syncs), ns| {
        *ns as f64 >= least_ns && set_limits.group_of(name).is_none() && is_doubtful(tables, seen, (name, *syncs), *ns)
    });
    for entry in &mut ledger.entries {
        entry.inferred |= disk(tables, entry).is_some_and(|(name, syncs)| waited_ns.contains_key(&(name.to_owned(), syncs)));
    }
}

/// Whether something other than a disk's requests may explain the waits for it, `ns` in all.
fn is_doubtful(tables: &Tables, seen: &Observation, (name, syncs): (&str, bool), ns: u64) -> bool {
    let Some(device) = device(tables, seen, name) else { return false };
    let busy = device.all.finish().busy_ns as f64 / ns as f64;
    // A disk that worked all the time is what was waited for, whosever requests it worked on.
    let least = match for_others(tables, seen, name, syncs) {
        Some(_) => limits::BUSY_FOR_OTHERS,
        None if syncs => 0.0,
        None => limits::HELD_BACK_PART,
    };
    busy < least
}

/// The bytes that a disk moved, where most of them were not the run's.
pub(crate) struct ForOthers {
    /// All that it read or, for syncs, wrote.
    pub all: u64,
    /// That of the run's own files.
    pub own: u64,
}

/// What a disk read or, for syncs, wrote for others than the run.
pub(crate) fn for_others(tables: &Tables, seen: &Observation, name: &str, syncs: bool) -> Option<ForOthers> {
    let device = device(tables, seen, name)?;
    let [read, written] = own_bytes(tables, seen, name);
    let (all, own) = if syncs { (device.written_bytes, written) } else { (device.read_bytes, read) };
    let others = match syncs {
        // A journal, and whole blocks for small writes, make more of what is synced.
        true => all > limits::OTHERS_WRITTEN_BYTES && all / limits::OTHERS_WRITTEN > own,
        false => own >= limits::DOUBTED_BYTES && all as f64 > own as f64 * limits::OTHERS_READ,
    };
    others.then_some(ForOthers { all, own })
}

fn device<'a>(tables: &Tables, seen: &'a Observation, name: &str) -> Option<&'a DeviceActivity> {
    let track = tables.device_objects.keys().copied().find(|&track| tables.actors[track as usize].name == name)?;
    seen.devices.get(&track)
}

/// The disk that a charge is a wait for, to read or write data, and whether for stable storage.
fn disk<'a>(tables: &'a Tables, entry: &Entry) -> Option<(&'a str, bool)> {
    let Place::Thread { what: What::Blocked(kind), object, .. } = entry.place else { return None };
    let data = matches!(kind, SpanKind::FileRead | SpanKind::FileWrite | SpanKind::WaitDisk | SpanKind::DiskRead | SpanKind::DiskWrite);
    let syncs = kind == SpanKind::FileSync;
    let object = tables.objects.get(object as usize).filter(|_| data || syncs)?;
    let name = if object.kind == ObjectKind::Device { Some(object.name.as_str()) } else { object.attribute("device") };
    name.map(|name| (name, syncs))
}

/// Bytes that the recorded programs read from files on a disk, and that they wrote.
fn own_bytes(tables: &Tables, seen: &Observation, disk: &str) -> [u64; 2] {
    let on_disk = tables.objects.iter().enumerate().filter(|(_, object)| object.attribute("device") == Some(disk));
    let moved = on_disk.flat_map(|(number, _)| seen.moved.iter().filter_map(move |by_object| by_object.get(number)));
    moved.fold([0, 0], |sum, moved| [sum[0] + moved[0].bytes, sum[1] + moved[1].bytes])
}
