//! The accounts of lots: what each target counts, held against the blocks of the datafiles there.

use super::findings::{FindingKind, Place};
use super::scrubbing::Scrub;
use std::collections::{BTreeMap, BTreeSet};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::{IoReply, IoRequest, LotId, TargetId};
use thalweg_wire::protocol::lots::{LotUse, ShareRequest};
use thalweg_wire::protocol::scrub::ScrubRequest;

/// Differences of a lot's use that are none: a file system may allocate blocks, or take them back, after the last write.
const LATER_BYTES: u64 = 1 << 20;
/// The same, as a part of the use.
const LATER_PART: u64 = 64;

/// Holds the use of each lot on each target against the blocks of its datafiles, where it is the same before and after.
pub(super) fn compare(scrub: &Scrub<'_>) {
    let (before, counted) = {
        let mut found = scrub.found.lock();
        (std::mem::take(&mut found.uses), std::mem::take(&mut found.lots))
    };
    let mut now = uses(scrub);
    let is_wrong = |used: Option<&u64>, blocks: u64| used.is_some_and(|used| used.abs_diff(blocks) > LATER_BYTES.max(blocks / LATER_PART));
    let mut wrong: Vec<_> = before
        .into_iter()
        .map(|(of, used)| (of, used, counted.get(&of).copied().unwrap_or(0)))
        .filter(|(of, used, blocks)| now.get(of) == Some(used) && is_wrong(Some(used), *blocks))
        .collect();
    wrong.sort_unstable();
    if scrub.options.repair && !wrong.is_empty() {
        recount(scrub, wrong.iter().map(|((target, _), ..)| *target).collect());
        now = uses(scrub);
    }
    for ((target, lot), used, blocks) in wrong {
        let problem = format!("lot {lot} is counted as using {used} bytes on target {target}, but has {blocks}");
        let mut found = scrub.found.lock();
        found.add(FindingKind::Account, Place { target: Some(target), ..Place::default() }, problem);
        if let Some(finding) = found.report.findings.last_mut().filter(|finding| finding.kind == FindingKind::Account) {
            finding.repaired = scrub.options.repair && !is_wrong(now.get(&(target, lot)), blocks);
        }
    }
}

/// Has the lots of these targets counted again.
fn recount(scrub: &Scrub<'_>, targets: BTreeSet<TargetId>) {
    for target in targets {
        if let Err(error) = scrub.data.server_of(target).and_then(|server| scrub.done(server, ScrubRequest::Recount { target })) {
            scrub.found.lock().report.silent.push(error.to_string());
        }
    }
}

/// Returns the use of each lot on each target whose server answers.
pub(super) fn uses(scrub: &Scrub<'_>) -> BTreeMap<(TargetId, LotId), u64> {
    let mut all = BTreeMap::new();
    for link in scrub.data.links() {
        if let Ok((IoReply::Lots(uses), _)) = link.call(&mut Tracer::off(), &IoRequest::Share(ShareRequest::List), &[]) {
            all.extend(uses.into_iter().map(|LotUse { share, target, used_bytes, .. }| ((target, share.lot), used_bytes)));
        }
    }
    all
}
