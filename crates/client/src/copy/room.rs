//! Checks for free space before the first byte is copied.
//!
//! Only a copy that certainly cannot fit is refused: the known data is compared with the free space now. A compressing file system may
//! hold more than its free space, so it is not checked. If the store is removing files, the check waits for them; if the removal does not
//! end, there may yet be room. Space that runs out later is reported by the failing write.

use super::ends::{StoreEnd, To};
use crate::files::Outgoing;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use thalweg_base::numbers;
use thalweg_trace::Tracer;
use thalweg_wire::limits;
use thalweg_wire::protocol::io::{IoReply, IoRequest, TargetId, TargetSpace};
use thalweg_wire::{Error, ErrorKind, Result};

/// File systems that may compress their data: btrfs, ZFS, bcachefs, F2FS.
const COMPRESSING: [u64; 4] = [0x9123_683e, 0x2fc1_2fc1, 0xca45_1a4e, 0xf2f5_2010];

/// Checks that these ranges of data fit into a sink.
///
/// # Errors
/// [`ErrorKind::NoSpace`], with the space needed and available.
pub(super) fn check<'a>(tracer: &mut Tracer, sink: &To, data: impl Iterator<Item = &'a Range<u64>> + Clone) -> Result<()> {
    let needed_bytes = data.clone().map(|range| range.end - range.start).sum();
    match sink {
        To::Local(local) => check_local(local.file(), needed_bytes),
        To::Output(output) => check_local(output.file(), needed_bytes),
        To::Store(end) => check_targets(tracer, end, data),
        To::Null(_) => Ok(()),
    }
}

fn check_local(file: impl AsFd, needed_bytes: u64) -> Result<()> {
    let is_file = rustix::fs::fstat(&file).is_ok_and(|found| rustix::fs::FileType::from_raw_mode(found.st_mode).is_file());
    let (Ok(space), Ok(kind)) = (rustix::fs::fstatvfs(&file), rustix::fs::fstatfs(&file)) else { return Ok(()) };
    let blocks = if rustix::process::geteuid().is_root() { space.f_bfree } else { space.f_bavail };
    let available_bytes = blocks.saturating_mul(space.f_frsize);
    // A file system without blocks does not report its space.
    let says = is_file && space.f_blocks > 0 && !COMPRESSING.contains(&(kind.f_type as u64 & 0xffff_ffff));
    if !says || needed_bytes <= available_bytes {
        return Ok(());
    }
    let (needed, available) = (numbers::size(needed_bytes), numbers::size(available_bytes));
    Err(Error::new(ErrorKind::NoSpace, format!("needs {needed}, and its file system has {available} free: nothing was copied")))
}

/// Interval between queries to a store that is removing files.
const BETWEEN: Duration = Duration::from_millis(20);

/// Checks the space at a store's targets, including the space that pending removals will free.
fn check_targets<'a>(tracer: &mut Tracer, end: &StoreEnd, data: impl Iterator<Item = &'a Range<u64>> + Clone) -> Result<()> {
    if check_targets_now(tracer, end, data.clone()).is_ok() {
        return Ok(());
    }
    let begun = Instant::now();
    let (mut least, mut moved) = (u64::MAX, begun);
    loop {
        // Asked before the targets, so that any removal that ends in between is included in their free space.
        let removals = end.store.names.removals(tracer);
        let Err(refused) = check_targets_now(tracer, end, data.clone()) else { return Ok(()) };
        if removals == 0 {
            return Err(refused);
        }
        if removals < least {
            (least, moved) = (removals, Instant::now());
        }
        if moved.elapsed() >= limits::REMOVAL_STALLED || begun.elapsed() >= limits::REMOVAL_PATIENCE {
            // Not certain to fail. A target that runs full waits for removals itself.
            return Ok(());
        }
        std::thread::sleep(BETWEEN);
    }
}

/// Checks the free space now; targets on one file system share it.
fn check_targets_now<'a>(tracer: &mut Tracer, end: &StoreEnd, data: impl Iterator<Item = &'a Range<u64>> + Clone) -> Result<()> {
    let layout = end.handle.layout();
    let mut needed: BTreeMap<TargetId, u64> = BTreeMap::new();
    for id in end.handle.datafiles() {
        let on_it = data.clone().map(|range| layout.physical_range(id.index, range.start, range.end - range.start));
        *needed.entry(id.target).or_default() += on_it.map(|part| part.end - part.start).sum::<u64>();
    }
    let in_lot = end.handle.datafiles().any(|id| id.lot.is_some());
    let servers: BTreeSet<usize> = end.servers()?.into_keys().collect();
    let ask = |server: &usize| Outgoing { server: *server, request: IoRequest::Statfs, payload: Vec::new() };
    let asked: Vec<_> = servers.iter().map(ask).collect();
    for (server, reply) in servers.iter().zip(end.store.data.exchange(tracer, None, &asked)) {
        // A server that does not answer makes the copy fail by itself.
        let Ok((IoReply::Space(found), _)) = reply else { continue };
        let name = end.store.data.links()[*server].name();
        too_full(&needed, &found, in_lot).map_or(Ok(()), |error| Err(error.at_server(name).on_file(&end.path)))?;
    }
    Ok(())
}

/// Returns the error for the first file system with too little space for its targets. Space reserved by lots is available to a file in a
/// lot.
fn too_full(needed: &BTreeMap<TargetId, u64>, space: &[TargetSpace], in_lot: bool) -> Option<Error> {
    let mut by_file_system: BTreeMap<u64, (u64, &TargetSpace)> = BTreeMap::new();
    for target in space {
        let (sum, _) = by_file_system.entry(target.file_system).or_insert((0, target));
        *sum += needed.get(&target.target).copied().unwrap_or(0);
    }
    let free = |target: &TargetSpace| target.available_bytes.saturating_sub(if in_lot { 0 } else { target.promised_bytes });
    let (needed_bytes, target) = by_file_system.into_values().find(|(needed_bytes, target)| *needed_bytes > free(target))?;
    let (needed, available) = (numbers::size(needed_bytes), numbers::size(free(target)));
    let problem = format!(
        "target {} ({}) needs {needed}, and has {available} free: nothing was copied; free space on this target or choose others",
        target.target, target.directory
    );
    Some(Error::new(ErrorKind::NoSpace, problem))
}
