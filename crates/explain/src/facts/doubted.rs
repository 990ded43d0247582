//! Doubts about waits for a disk in recordings without privilege, in which requests are nobody's: other programs may have made most of
//! them, or something above the disk may have held back the run's own (a control group's limit, a scheduler). The wait is known then, but
//! not its reason.

use crate::limits::assemble as limits;
use crate::observe::observation::Observation;
use crate::observe::tables::Tables;
use crate::path::ledger::{Entry, Ledger};
use crate::waits::place::{Place, What};
use std::collections::HashMap;
use thalweg_trace::{ObjectKind, SpanKind};

/// Marks such waits as inferred.
pub(crate) fn doubt_disks(ledger: &mut Ledger, tables: &Tables, seen: &Observation, wall_ns: i64) {
    if !tables.wakers_inferred {
        return;
    }
    let mut waited_ns: HashMap<String, u64> = HashMap::new();
    for (name, entry) in ledger.entries.iter().filter_map(|entry| Some((disk(tables, entry)?, entry))) {
        *waited_ns.entry(name.to_owned()).or_default() += entry.runs.total_ns;
    }
    let least_ns = wall_ns as f64 * limits::DOUBTED_DISK;
    let doubted = |name: &str, ns: u64| {
        let track = tables.device_objects.keys().copied().find(|&track| tables.actors[track as usize].name == name);
        let Some(device) = track.and_then(|track| seen.devices.get(&track)) else { return false };
        let own = own_bytes(tables, seen, name);
        let others = own >= limits::DOUBTED_BYTES && device.read_bytes as f64 > own as f64 * limits::OTHERS_READ;
        let held_back = (device.all.finish().busy_ns as f64) < ns as f64 * limits::HELD_BACK_PART;
        ns as f64 >= least_ns && (others || held_back)
    };
    waited_ns.retain(|name, ns| doubted(name, *ns));
    for entry in &mut ledger.entries {
        entry.inferred |= disk(tables, entry).is_some_and(|name| waited_ns.contains_key(name));
    }
}

/// The disk that a charge is a wait for, to read or write data.
fn disk<'a>(tables: &'a Tables, entry: &Entry) -> Option<&'a str> {
    let Place::Thread { what: What::Blocked(kind), object, .. } = entry.place else { return None };
    let data = matches!(kind, SpanKind::FileRead | SpanKind::FileWrite | SpanKind::WaitDisk | SpanKind::DiskRead | SpanKind::DiskWrite);
    let object = tables.objects.get(object as usize).filter(|_| data)?;
    if object.kind == ObjectKind::Device { Some(&object.name) } else { object.attribute("device") }
}

/// Bytes that the recorded programs read from files on a disk.
fn own_bytes(tables: &Tables, seen: &Observation, disk: &str) -> u64 {
    let on_disk = tables.objects.iter().enumerate().filter(|(_, object)| object.attribute("device") == Some(disk));
    on_disk.flat_map(|(number, _)| seen.moved.iter().filter_map(move |by_object| by_object.get(number))).map(|moved| moved[0].bytes).sum()
}
