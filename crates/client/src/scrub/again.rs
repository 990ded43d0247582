//! A second look at what did not fit: what was removed, completed or moved meanwhile is no finding.

use super::findings::{FindingKind, Place};
use super::lots;
use super::scrubbing::Scrub;
use super::targets::{belongs, place_of};
use crate::files::{FileHandle, Names};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::common::ServiceStart;
use thalweg_wire::protocol::io::{DatafileId, FileId, LotId, TargetId};
use thalweg_wire::protocol::metadata::{FileLayout, FilePath};
use thalweg_wire::protocol::scrub::{ScrubRequest, ScrubbedDatafile, SumsState};
use thalweg_wire::{ErrorKind, Result, limits};

/// Maximum time to wait for removals that are under way.
const REMOVALS: Duration = Duration::from_secs(10);

/// Looks at all suspects again; moves orphans away if that was asked for.
pub(super) fn look(scrub: &Scrub<'_>) -> Result<()> {
    if scrub.is_over() {
        return Ok(());
    }
    let (suspects, short) = {
        let mut found = scrub.found.lock();
        (std::mem::take(&mut found.suspects), std::mem::take(&mut found.short))
    };
    if !suspects.is_empty() {
        wait_for_removals(scrub);
    }
    let mut orphans: BTreeMap<TargetId, Vec<DatafileId>> = BTreeMap::new();
    for (id, before) in &suspects {
        if let Some(kind) = suspect(scrub, id, before)?
            && kind == FindingKind::Orphan
        {
            orphans.entry(id.target).or_default().push(*id);
        }
    }
    for (file, path) in &short {
        sizes(scrub, *file, path)?;
    }
    damage(scrub)?;
    if scrub.options.paths.is_empty() {
        lots::compare(scrub);
    }
    name_files(scrub);
    if scrub.options.repair {
        set_aside(scrub, &orphans);
    }
    Ok(())
}

/// Waits a little until the datafiles of removed files are removed too: they belong to no file meanwhile.
fn wait_for_removals(scrub: &Scrub<'_>) {
    let until = Instant::now() + REMOVALS;
    while Names::removals(scrub.names, &mut Tracer::off()) > 0 && Instant::now() < until && !scrub.is_over() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Looks again at a datafile that belongs to no file, or elsewhere, or is missing.
fn suspect(scrub: &Scrub<'_>, id: &DatafileId, before: &ScrubbedDatafile) -> Result<Option<FindingKind>> {
    let attributes = match scrub.names.stat_many(&mut Tracer::off(), &[FilePath::of(id.file)], false)?.pop() {
        Some(Ok(attributes)) => Some(attributes),
        Some(Err(error)) if error.is_gone() => None,
        Some(Err(error)) => return Err(error),
        None => None,
    };
    let layout = attributes.as_ref().and_then(|attributes| attributes.layout.as_deref());
    let is_there = |layout: &FileLayout| belongs(layout, id);
    if before.sums != SumsState::Alone && layout.is_some_and(is_there) {
        return Ok(None);
    }
    let server = scrub.data.server_of(id.target)?;
    let page = match scrub.page(server, ScrubRequest::Datafile { datafile: *id, offset: 0, most_bytes: 1 }) {
        Ok(page) => page,
        Err(error) => {
            scrub.found.lock().report.silent.push(error.to_string());
            return Ok(None);
        }
    };
    let Some(now) = page.datafiles.into_iter().next().filter(|now| (now.sums == SumsState::Alone) == (before.sums == SumsState::Alone))
    else {
        return Ok(None);
    };
    let (kind, problem) = match (layout, now.sums) {
        (None, SumsState::Alone) => {
            (FindingKind::Orphan, "checksums of a datafile that is not there, of a file that does not exist".to_owned())
        }
        (None, _) => (FindingKind::Orphan, format!("{} bytes of a file that does not exist{}", now.size_bytes, not_begun(scrub, id.file))),
        (Some(layout), SumsState::Alone) if is_there(layout) => {
            (FindingKind::Lost, "the datafile is missing; its checksums are there".to_owned())
        }
        (Some(layout), _) => {
            let place = match layout.targets.get(id.index as usize) {
                Some(target) => format!("datafile {} of its file is on target {target}{}", id.index, in_lot(layout.lot)),
                None => format!("its file has {} datafiles", layout.targets.len()),
            };
            (FindingKind::Misplaced, place)
        }
    };
    let place = Place { ranges: Vec::new(), in_file: Vec::new(), ..place_of(&now, None) };
    scrub.found.lock().add(kind, place, problem);
    Ok(Some(kind))
}

/// Looks again at damage: that of a file that was removed or written again meanwhile is none.
fn damage(scrub: &Scrub<'_>) -> Result<()> {
    let found = std::mem::take(&mut scrub.found.lock().report.findings);
    let mut kept = Vec::with_capacity(found.len());
    for finding in found {
        let is_damage = matches!(finding.kind, FindingKind::Damaged | FindingKind::Unreadable);
        match finding.place.id.filter(|_| is_damage) {
            Some(id) if !is_still_damaged(scrub, &finding.place, id)? => {}
            _ => kept.push(finding),
        }
    }
    scrub.found.lock().report.findings = kept;
    Ok(())
}

fn is_still_damaged(scrub: &Scrub<'_>, place: &Place, datafile: DatafileId) -> Result<bool> {
    let server = scrub.data.server_of(datafile.target)?;
    let mut starts: Vec<u64> = place.ranges.iter().rev().map(|(from, _)| *from).collect();
    // What has no range may be seen at the end only.
    let is_whole = starts.is_empty();
    starts.extend(is_whole.then_some(0));
    while let Some(offset) = starts.pop().filter(|_| !scrub.is_over()) {
        let most_bytes = if is_whole { scrub.pace.most_bytes() } else { 1 };
        // Where its server is gone, what it said is what is known.
        let Ok(page) = scrub.page(server, ScrubRequest::Datafile { datafile, offset, most_bytes }) else { return Ok(true) };
        match page.datafiles.first() {
            Some(now) if !now.damaged.is_empty() || now.problem.is_some() => return Ok(true),
            Some(now) if now.sums != SumsState::Alone => {}
            _ => return Ok(false),
        }
        starts.extend(page.next.filter(|next| is_whole && next.offset > offset).map(|next| next.offset));
    }
    Ok(scrub.is_over())
}

/// Says that a file's number is of a start that has not been, if it is.
fn not_begun(scrub: &Scrub<'_>, file: FileId) -> String {
    let now = Names::service(scrub.names, ServiceStart { epoch: file.epoch(), start: 0 });
    match now.filter(|now| now.epoch < file.epoch()) {
        Some(now) => format!(": its number is of start {} of the metadata service, which is in start {}", file.epoch(), now.epoch),
        None => String::new(),
    }
}

fn in_lot(lot: Option<LotId>) -> String {
    lot.map_or_else(String::new, |lot| format!(" in lot {lot}"))
}

/// Looks again at a file whose datafiles have not the size that is expected.
fn sizes(scrub: &Scrub<'_>, file: FileId, path: &[u8]) -> Result<()> {
    let tracer = &mut Tracer::off();
    let attributes = match scrub.names.stat(tracer, &FilePath::of(file)) {
        Ok(attributes) => attributes,
        Err(error) if error.is_gone() => return Ok(()),
        Err(error) => return Err(error),
    };
    let handle = FileHandle::from_attributes(String::from_utf8_lossy(path), &attributes)?;
    match scrub.data.sizes(tracer, &handle) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::Lost => {
            let place = Place { file: Some(file), path: Some(path.to_vec()), ..Place::default() };
            scrub.found.lock().add(FindingKind::Lost, place, error.message().to_owned());
        }
        Err(error) => scrub.found.lock().report.silent.push(error.to_string()),
    }
    Ok(())
}

/// Names the files that findings are about.
fn name_files(scrub: &Scrub<'_>) {
    let mut found = scrub.found.lock();
    let paths = std::mem::take(&mut found.paths);
    for finding in &mut found.report.findings {
        if let (None, Some(file)) = (&finding.place.path, finding.place.file) {
            finding.place.path = paths.get(&file).cloned().flatten();
        }
    }
}

/// Moves datafiles that belong to no file out of the way.
fn set_aside(scrub: &Scrub<'_>, orphans: &BTreeMap<TargetId, Vec<DatafileId>>) {
    for (target, datafiles) in orphans {
        for some in datafiles.chunks(limits::BATCH / 4) {
            let request = ScrubRequest::SetAside { target: *target, datafiles: some.to_vec() };
            let moved = scrub.data.server_of(*target).and_then(|server| scrub.done(server, request));
            let mut found = scrub.found.lock();
            match moved {
                Ok(()) => {
                    let is_moved = |place: &Place| place.id.is_some_and(|id| some.contains(&id));
                    let orphans = found.report.findings.iter_mut().filter(|finding| finding.kind == FindingKind::Orphan);
                    orphans.filter(|finding| is_moved(&finding.place)).for_each(|finding| finding.repaired = true);
                }
                Err(error) => found.report.silent.push(error.to_string()),
            }
        }
    }
}
