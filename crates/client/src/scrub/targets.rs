//! The targets of a store, page by page.

use super::findings::{FindingKind, Place};
use super::lots;
use super::scrubbing::Scrub;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg_layout::{Distribution, Layout};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::{DatafileId, FileId, TargetId, TargetSpace};
use thalweg_wire::protocol::metadata::{Attributes, FileLayout, FilePath, TargetEntry};
use thalweg_wire::protocol::scrub::{ScrubCursor, ScrubPage, ScrubRecord, ScrubRequest, ScrubbedDatafile, SumsState};
use thalweg_wire::{Error, Result};

/// Targets scrubbed at a time.
const THREADS: usize = 8;
/// Interval between records of how far a scrub has come.
const RECORD_EVERY: Duration = Duration::from_secs(10);
/// Parts of a target, of 256, that tell how much is in all.
const ENOUGH_PARTS: u128 = 16;
/// Ranges of one finding; the rest is in the last of them.
const RANGES: usize = 64;

/// When the scrub of each target began, and what the scrub before it found.
pub(super) type Started = BTreeMap<TargetId, ScrubRecord>;

fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Scrubs all targets, several at a time. Returns how each was begun, without those whose server did not answer.
pub(super) fn scrub_all(scrub: &Scrub<'_>) -> Result<Started> {
    let (space, silent) = scrub.data.space(&mut Tracer::off());
    let uses = lots::uses(scrub);
    {
        let mut found = scrub.found.lock();
        found.report.silent.extend(silent.iter().map(ToString::to_string));
        found.uses = uses;
    }
    let targets = &scrub.data.map().targets;
    let (next, started) = (AtomicUsize::new(0), thalweg_base::sync::Mutex::new(Started::new()));
    let work = || {
        while let Some(entry) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(space) = space.iter().find(|space| space.target == entry.target) else { continue };
            match scrub_target(scrub, entry, space) {
                Ok(record) => _ = started.lock().insert(entry.target, record),
                Err(error) => scrub.found.lock().report.silent.push(error.to_string()),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..targets.len().min(THREADS) {
            // Without more threads, this one does all.
            let _ = std::thread::Builder::new().name("scrub".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    Ok(started.into_inner())
}

fn scrub_target(scrub: &Scrub<'_>, entry: &TargetEntry, space: &TargetSpace) -> Result<ScrubRecord> {
    let (server, target) = (entry.server as usize, entry.target);
    let before = space.scrub.clone().unwrap_or_default();
    let is_on = space.checksums.is_some();
    if !is_on && scrub.options.add_checksums {
        scrub.done(server, ScrubRequest::AddChecksums { target })?;
    }
    let last_bytes = if before.ended_ns > 0 { before.read_bytes } else { 0 };
    let mut record = match (scrub.options.go_on, before.at) {
        (true, Some(_)) => before.clone(),
        _ => ScrubRecord {
            started_ns: now_ns(),
            before_ns: if before.ended_ns > 0 { before.ended_ns } else { before.before_ns },
            ..ScrubRecord::default()
        },
    };
    record.every_ns = scrub.options.every.map_or(before.every_ns, |every| i64::try_from(every.as_nanos()).unwrap_or(i64::MAX));
    record.ended_ns = 0;
    let mut cursor = record.at.unwrap_or_default();
    if cursor.lot.is_some() {
        // Not all of its lots' datafiles are met this time.
        scrub.found.lock().uses.retain(|(of, _), _| *of != target);
    }
    let mut recorded: Option<Instant> = None;
    let findings = || scrub.found.lock().report.findings.iter().filter(|found| found.place.target == Some(target)).count() as u64;
    let begun_with = record.findings.saturating_sub(findings());
    loop {
        let page = scrub.page(server, ScrubRequest::Page { target, from: cursor, most_bytes: scrub.pace.most_bytes() })?;
        record.read_bytes += page.read_bytes;
        record.datafiles += page.datafiles.iter().filter(|found| found.is_whole).count() as u64;
        let about = estimate(record.read_bytes, page.next.as_ref(), last_bytes);
        scrub.watch.read(page.read_bytes, scrub.found.lock().about((target, about), scrub.data.map().targets.len()));
        examine(scrub, target, &page)?;
        let Some(next) = page.next else { break };
        if next == cursor {
            return Err(Error::new(thalweg_wire::ErrorKind::Protocol, "a page of a scrub goes on where it began")
                .at_server(entry.directory.clone()));
        }
        cursor = next;
        (record.at, record.findings) = (Some(cursor), begun_with + findings());
        if scrub.is_over() || recorded.is_none_or(|last| last.elapsed() >= RECORD_EVERY) {
            recorded = Some(Instant::now());
            scrub.done(server, ScrubRequest::Record { target, scrub: record.clone() })?;
        }
        if scrub.is_over() {
            return Ok(record);
        }
    }
    record.at = None;
    record.findings = begun_with;
    Ok(record)
}

/// Estimates the bytes of a target: as many as in its last scrub, or from the parts that have been read, over which numbers of files are
/// spread evenly. 0: too few parts to tell.
fn estimate(read_bytes: u64, next: Option<&ScrubCursor>, last_bytes: u64) -> u64 {
    match next {
        Some(_) if last_bytes > 0 => read_bytes.max(last_bytes),
        Some(next) if next.lot.is_none() => {
            let parts = u128::from(next.file as u8) + 1;
            let all = u64::try_from(u128::from(read_bytes) * 256 / parts).unwrap_or(u64::MAX);
            if parts < ENOUGH_PARTS { 0 } else { all }
        }
        _ => read_bytes,
    }
}

/// Records the end of the scrub of each target, with the findings there are in the end.
pub(super) fn record_ends(scrub: &Scrub<'_>, started: &Started) {
    for entry in &scrub.data.map().targets {
        let Some(record) = started.get(&entry.target).filter(|record| record.at.is_none()) else { continue };
        let mut found = scrub.found.lock();
        // What is wrong with a file or a row, and not with one target, is in the first target's record.
        let is_first = scrub.data.map().targets.first().is_some_and(|first| first.target == entry.target);
        let is_here = |place: &Place| place.target.map_or(is_first, |target| target == entry.target);
        let here = found.report.findings.iter().filter(|found| is_here(&found.place) && !found.repaired).count() as u64;
        let record = ScrubRecord { ended_ns: now_ns(), findings: record.findings + here, ..record.clone() };
        drop(found);
        if let Err(error) = scrub.done(entry.server as usize, ScrubRequest::Record { target: entry.target, scrub: record }) {
            found = scrub.found.lock();
            found.report.silent.push(error.to_string());
        }
    }
}

/// Scrubs the datafiles of one file.
pub(super) fn scrub_file(scrub: &Scrub<'_>, path: &[u8], attributes: &Attributes) -> Result<()> {
    let Some(layout) = &attributes.layout else { return Ok(()) };
    scrub.found.lock().seen.insert(attributes.id);
    for (index, target) in (0..).zip(&layout.targets) {
        let datafile = DatafileId { file: attributes.id, index, target: *target, lot: layout.lot };
        let (server, mut offset) = (scrub.data.server_of(*target)?, 0);
        while !scrub.is_over() {
            let page = scrub.page(server, ScrubRequest::Datafile { datafile, offset, most_bytes: scrub.pace.most_bytes() })?;
            scrub.watch.read(page.read_bytes, 0);
            scrub.found.lock().paths.insert(attributes.id, Some(path.to_vec()));
            examine(scrub, *target, &page)?;
            match page.next {
                Some(next) if next.offset > offset => offset = next.offset,
                _ => break,
            }
        }
    }
    Ok(())
}

/// Adds what a page says to the findings, and what it leaves open to the suspects.
fn examine(scrub: &Scrub<'_>, target: TargetId, page: &ScrubPage) -> Result<()> {
    let files = attributes_of(scrub, page.datafiles.iter().map(|found| found.id.file))?;
    let mut collected = scrub.found.lock();
    collected.report.read_bytes += page.read_bytes;
    for strange in &page.strange {
        let place = Place { target: Some(target), datafile: Some(strange.clone()), ..Place::default() };
        collected.add(FindingKind::Strange, place, "no server has made this".to_owned());
    }
    for found in &page.datafiles {
        collected.report.datafiles += u64::from(found.is_whole && found.sums != SumsState::Alone);
        collected.report.recomputed += u64::from(found.is_whole && found.sums == SumsState::Unverified);
        if found.sums == SumsState::Off {
            collected.report.without_sums.insert(target);
        }
        if let Some(lot) = found.id.lot.filter(|_| found.is_whole) {
            *collected.lots.entry((target, lot)).or_default() += found.allocated_bytes;
        }
        let layout = files.get(&found.id.file).and_then(Option::as_ref);
        if found.is_whole && (found.sums == SumsState::Alone || layout.is_none_or(|layout| !belongs(layout, &found.id))) {
            collected.suspect(found);
        }
        let place = || place_of(found, layout);
        if !found.damaged.is_empty() {
            let bytes: u64 = found.damaged.iter().map(|(from, to)| to - from).sum();
            collected.add(FindingKind::Damaged, place(), format!("{bytes} bytes do not match their checksums"));
        }
        if let Some(problem) = &found.problem {
            collected.add(FindingKind::Unreadable, place(), problem.clone());
        }
    }
    Ok(())
}

/// Returns the layout of each of these files that is known to the metadata service.
fn attributes_of(scrub: &Scrub<'_>, files: impl Iterator<Item = FileId>) -> Result<HashMap<FileId, Option<FileLayout>>> {
    let mut files: Vec<FileId> = files.collect();
    files.sort_unstable_by_key(|file| file.0);
    files.dedup();
    let places: Vec<FilePath> = files.iter().map(|file| FilePath::of(*file)).collect();
    let answers = scrub.names.stat_many(&mut Tracer::off(), &places, false)?;
    let mut known = HashMap::new();
    for (file, answer) in files.iter().zip(answers) {
        match answer {
            Ok(attributes) => _ = known.insert(*file, attributes.layout.map(|layout| layout.as_ref().clone())),
            Err(error) if error.is_gone() => _ = known.insert(*file, None),
            Err(error) => return Err(error),
        }
    }
    Ok(known)
}

/// Whether a layout has a datafile where it was found.
pub(super) fn belongs(layout: &FileLayout, id: &DatafileId) -> bool {
    layout.targets.get(id.index as usize) == Some(&id.target) && layout.lot == id.lot
}

/// Returns where a datafile's findings are.
pub(super) fn place_of(found: &ScrubbedDatafile, layout: Option<&FileLayout>) -> Place {
    let mut ranges: Vec<(u64, u64)> = found.damaged.iter().take(RANGES).copied().collect();
    if let (Some(last), Some(end)) = (ranges.last_mut(), found.damaged.last()) {
        last.1 = if found.damaged.len() > RANGES { end.1 } else { last.1 };
    }
    let in_file = layout.map_or_else(Vec::new, |layout| ranges.iter().flat_map(|range| in_file(layout, found.id.index, *range)).collect());
    Place {
        target: Some(found.id.target),
        id: Some(found.id),
        datafile: Some(found.path.clone()),
        file: Some(found.id.file),
        path: None,
        ranges,
        in_file,
    }
}

/// Returns where a range of a datafile is in its file.
fn in_file(layout: &FileLayout, index: u32, (from, to): (u64, u64)) -> Vec<(u64, u64)> {
    let many = layout.targets.len() as u32;
    let Ok(layout) = Layout::new(&layout.spec, Some(many), many) else { return Vec::new() };
    let (mut at, mut ranges) = (from, Vec::<(u64, u64)>::new());
    while at < to && ranges.len() < RANGES {
        let Some(logical) = layout.physical_to_logical(index, at) else { break };
        let piece = layout.piece_at(logical);
        let length = (piece.logical_offset + piece.length).saturating_sub(logical).min(to - at).max(1);
        match ranges.last_mut() {
            Some(last) if last.1 == logical => last.1 = logical.saturating_add(length),
            _ => ranges.push((logical, logical.saturating_add(length))),
        }
        at += length;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_layout::Spec;

    #[test]
    fn a_range_of_a_datafile_is_found_in_its_file() {
        let layout =
            FileLayout { spec: Spec::new("simple_stripe").with("strip_size", "100"), targets: vec![TargetId(4), TargetId(5)], lot: None };
        assert_eq!(in_file(&layout, 1, (0, 50)), [(100, 150)]);
        assert_eq!(in_file(&layout, 1, (50, 250)), [(150, 200), (300, 400), (500, 550)]);
        assert_eq!(in_file(&layout, 0, (100, 100)), []);
        let id = |index, target| DatafileId { file: FileId(7), index, target: TargetId(target), lot: None };
        assert!(belongs(&layout, &id(1, 5)) && !belongs(&layout, &id(1, 4)) && !belongs(&layout, &id(2, 5)));
    }

    #[test]
    fn the_size_of_a_target_is_estimated_from_its_first_parts() {
        let at = |file| Some(ScrubCursor { file, ..ScrubCursor::default() });
        assert_eq!(estimate(1 << 20, at(0x1_0000_007f).as_ref(), 0), 2 << 20);
        assert_eq!(estimate(1 << 20, at(0x1_0000_0001).as_ref(), 0), 0);
        assert_eq!(estimate(1 << 20, at(0x1_0000_0001).as_ref(), 3 << 20), 3 << 20);
        assert_eq!(estimate(5 << 20, at(0x1_0000_0001).as_ref(), 3 << 20), 5 << 20);
        assert_eq!(estimate(1 << 20, None, 3 << 20), 1 << 20);
    }
}
