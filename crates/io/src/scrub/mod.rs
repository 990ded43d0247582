//! Scrubbing a target, as its client asks for it page by page.

mod page;

use super::target::Target;
use std::collections::BTreeMap;
use thalweg_wire::protocol::io::{IoReply, TargetId};
use thalweg_wire::protocol::scrub::ScrubRequest;
use thalweg_wire::{Error, ErrorKind, Result, limits};

/// Serves a request of a scrub.
pub(super) fn serve(targets: &BTreeMap<TargetId, Target>, request: ScrubRequest) -> Result<IoReply> {
    let of =
        |number: TargetId| targets.get(&number).ok_or_else(|| Error::new(ErrorKind::Absent, format!("this server has no target {number}")));
    match request {
        ScrubRequest::Page { target, from, most_bytes } => {
            let target = of(target)?;
            page::page(target, &from, most_bytes).map(|page| IoReply::Scrub(Box::new(page)))
        }
        ScrubRequest::Datafile { datafile, offset, most_bytes } => {
            let target = of(datafile.target)?;
            page::datafile(target, datafile, offset, most_bytes).map(|page| IoReply::Scrub(Box::new(page)))
        }
        ScrubRequest::SetAside { target, datafiles } => {
            if datafiles.len() > limits::BATCH {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!("a batch of {} datafiles: the maximum is {}", datafiles.len(), limits::BATCH),
                ));
            }
            let target = of(target)?;
            if let Some(other) = datafiles.iter().find(|id| id.target != target.number()) {
                return Err(Error::new(ErrorKind::Invalid, format!("a datafile of target {} at target {}", other.target, target.number())));
            }
            target.set_aside(&datafiles)?;
            Ok(IoReply::Done)
        }
        ScrubRequest::AddChecksums { target } => of(target)?.add_sums().map(|()| IoReply::Done),
        ScrubRequest::Recount { target } => of(target)?.recount_lots().map(|()| IoReply::Done),
        ScrubRequest::Record { target, scrub } => {
            let target = of(target)?;
            // An earlier release's target stays one: it has no place for this.
            let directory = target.has_sums().then(|| target.directory());
            target.scrubbed().set(directory, &scrub)?;
            Ok(IoReply::Done)
        }
    }
}
