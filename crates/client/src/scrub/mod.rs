//! Scrubbing a store: everything its targets have is read and verified, and held against its names in both directions.
//!
//! Four steps. Each target is walked page by page ([`targets`]): its server verifies the bytes, and the metadata service says which file
//! each datafile belongs to. The metadata's rows are held against each other. Then all names are walked ([`names`]), since only they tell
//! of a datafile that is missing. What does not fit is looked at again at the end ([`again`]): a store that is in use changes meanwhile,
//! and a finding is what is wrong twice.
//!
//! The scrub changes nothing, except that checksums left unverified by a crash are recomputed; with `repair` it moves datafiles that belong
//! to no file out of the way, removes none, and counts the space of lots again.

mod again;
mod findings;
mod lots;
mod names;
mod pace;
mod scrubbing;
mod targets;

pub use findings::{Finding, FindingKind, Place, ScrubReport};
pub use scrubbing::{CheckRows, ScrubOptions, Watch};

use crate::files::DataClient;
use crate::metadata::MetadataClient;
use scrubbing::Scrub;
use std::time::Duration;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::{IoRequest, TargetSpace};
use thalweg_wire::protocol::metadata::Attributes;
use thalweg_wire::protocol::scrub::{ScrubRecord, ScrubRequest};
use thalweg_wire::{Error, ErrorKind, Result};

/// Has the targets remember, until their servers end, that scrubs are scheduled: for those who ask when the next one is due. A server that
/// does not answer is told by its next scrub.
pub fn schedule(data: &DataClient, every: Duration) {
    let every_ns = i64::try_from(every.as_nanos()).unwrap_or(i64::MAX);
    let (space, _) = data.space(&mut Tracer::off());
    for TargetSpace { target, scrub, .. } in space {
        let scrub = ScrubRecord { every_ns, ..scrub.unwrap_or_default() };
        let request = IoRequest::Scrub(ScrubRequest::Record { target, scrub });
        let _ = data.server_of(target).map(|server| data.links()[server].call(&mut Tracer::off(), &request, &[]));
    }
}

/// Scrubs a store, or some of its files. `rows` is called for a whole store.
///
/// # Errors
/// When a path does not exist, or the metadata service does not answer. An I/O server that does not answer is in the report.
pub fn scrub(
    names: &MetadataClient,
    data: &DataClient,
    options: &ScrubOptions,
    rows: CheckRows<'_>,
    watch: &dyn Watch,
) -> Result<ScrubReport> {
    let scrub = Scrub::new(names, data, options, watch);
    if !options.files.is_empty() {
        let wanted = |scrub: &Scrub<'_>, path: &[u8], attributes: &Attributes| match options.files.contains(&attributes.id) {
            true => targets::scrub_file(scrub, path, attributes),
            false => Ok(()),
        };
        names::walk(&scrub, b"", Some(&wanted))?;
        again::look(&scrub)?;
        let found = scrub.found.lock();
        if let Some(file) = options.files.iter().find(|file| !found.seen.contains(file)) {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("no file has number {file}: its datafiles are orphans, or it was removed"),
            ));
        }
    } else if options.paths.is_empty() {
        let started = targets::scrub_all(&scrub)?;
        if !scrub.is_over() {
            scrub.rows(rows);
        }
        names::walk(&scrub, b"", None)?;
        names::partials(&scrub)?;
        again::look(&scrub)?;
        if !scrub.is_over() {
            targets::record_ends(&scrub, &started);
        }
    } else {
        for path in &options.paths {
            names::walk(&scrub, path, Some(&targets::scrub_file))?;
        }
        again::look(&scrub)?;
    }
    let mut report = scrub.found.into_inner().report;
    report.is_whole = !watch.is_over();
    report.findings.sort_by(|one, other| {
        (&one.place.path, one.place.target, &one.place.datafile).cmp(&(&other.place.path, other.place.target, &other.place.datafile))
    });
    Ok(report)
}
