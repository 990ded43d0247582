//! Ranks of an MPI job: the parts of messages and collectives, and the rank that a polling rank depends on.
//!
//! MPI libraries spin: a rank in a receive runs at full speed without doing work. What it waits for follows from another rank's part in the
//! same message or collective, which has the same `request`. A wait has *a* provider: the rank without which it would not have ended, and
//! the instant since which that rank had done its part: when the message was posted; when the receive was, for a sender of a message too
//! large to be sent before; when the last rank entered a collective.

use crate::observe::span::LiveSpan;
use crate::observe::tables::{Object, Tables};
use std::collections::HashMap;
use thalweg_trace::{RequestId, SpanKind};

/// One rank's part in a message or collective.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct Part {
    pub track: u32,
    pub start: i64,
    pub kind: SpanKind,
}

/// The dependency of a rank in an MPI call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    /// Nothing, or something that existed before the call began.
    Nobody,
    /// This track, which did its part at this instant.
    Track(u32, i64),
    /// An unrecorded rank; the known parts existed at this instant.
    Unrecorded(i64),
}

/// The messages and collectives seen, as far as the walk may still need them.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    parts: HashMap<u64, Vec<Part>>,
    /// Tracks by their names in messages.
    by_name: HashMap<String, u32>,
}

/// Whether a span is a rank's part of a message or collective.
pub(crate) fn is_part(span: &LiveSpan) -> bool {
    span.request >= RequestId::COMMON
}

impl Ranks {
    /// An empty set.
    pub(crate) fn new(tables: &Tables) -> Ranks {
        let ranks = tables.actors.iter().enumerate().filter(|(_, a)| a.thread && a.name.contains("rank "));
        Ranks { parts: HashMap::new(), by_name: ranks.map(|(i, a)| (a.name.clone(), i as u32)).collect() }
    }

    /// The tracks of ranks.
    pub(crate) fn tracks(&self) -> impl Iterator<Item = u32> {
        self.by_name.values().copied()
    }

    /// Adds a span, as it is read.
    pub(crate) fn note(&mut self, span: &LiveSpan) {
        if is_part(span) {
            let part = Part { track: span.track, start: span.start, kind: span.kind };
            self.parts.entry(span.request).or_default().push(part);
        }
    }

    /// Drops parts that began after the walk's `cursor`.
    pub(crate) fn prune(&mut self, cursor: i64) {
        self.parts.retain(|_, parts| parts.iter().any(|part| part.start < cursor));
    }

    /// All known parts of a span's message or collective.
    pub(crate) fn parts_of(&self, span: &LiveSpan) -> &[Part] {
        self.parts.get(&span.request).map_or(&[], Vec::as_slice)
    }

    /// The dependency of this span. All spans that end after its start must have been read.
    pub(crate) fn provider(&self, tables: &Tables, span: &LiveSpan) -> Provider {
        let object = tables.objects.get(span.object as usize);
        let parts = self.parts_of(span);
        match span.kind {
            SpanKind::MpiReceive => self.sender(object, span, parts),
            SpanKind::MpiSend => {
                let receives = parts.iter().filter(|p| p.kind == SpanKind::MpiReceive && p.track != span.track);
                match receives.min_by_key(|p| p.start) {
                    Some(receive) if receive.start > span.start && receive.start < span.end => {
                        Provider::Track(receive.track, receive.start)
                    }
                    _ => Provider::Nobody,
                }
            }
            _ => self.collective(tables, span, parts),
        }
    }

    fn sender(&self, object: Option<&Object>, span: &LiveSpan, parts: &[Part]) -> Provider {
        let sends = parts.iter().filter(|p| p.kind == SpanKind::MpiSend && p.track != span.track);
        match sends.min_by_key(|p| p.start) {
            Some(send) if send.start > span.start => Provider::Track(send.track, send.start.min(span.end)),
            Some(_) => Provider::Nobody,
            // For a recorded sender without a span as late as the receive: it had sent before.
            None if object.and_then(|t| t.attribute("from")).is_none_or(|from| self.by_name.contains_key(from)) => Provider::Nobody,
            None => Provider::Unrecorded(span.start),
        }
    }
}

/// Which ranks wait for which in a collective.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// All for all.
    All,
    /// The root for the others.
    ForRoot,
    /// The others for the root.
    Root,
}

fn waits(call: &str) -> Waits {
    let plain = call.strip_prefix("MPI_").unwrap_or(call).to_ascii_lowercase();
    let plain = plain.strip_prefix('i').unwrap_or(&plain);
    match plain {
        "bcast" | "scatter" | "scatterv" => Waits::ForRoot,
        "reduce" | "gather" | "gatherv" => Waits::Root,
        _ => Waits::All,
    }
}

impl Ranks {
    fn collective(&self, tables: &Tables, span: &LiveSpan, parts: &[Part]) -> Provider {
        if !is_part(span) {
            return Provider::Nobody;
        }
        // A rank that waits for a collective it began before has two parts in it; it entered when the first began.
        let mut came: HashMap<u32, i64> = HashMap::new();
        for part in parts {
            let at = came.entry(part.track).or_insert(part.start);
            *at = (*at).min(part.start);
        }
        let object = tables.objects.get(span.object as usize);
        let attribute = |name: &str| object.and_then(|t| t.attribute(name));
        let (order, root) = (attribute("call").map_or(Waits::All, waits), attribute("root"));
        let is_root = root == tables.actors.get(span.track as usize).map(|a| a.name.as_str());
        let late = |track: u32| track != span.track && came[&track] > span.start && came[&track] < span.end;
        let provider = |track: u32| Provider::Track(track, came[&track]);
        if let (Waits::ForRoot, Some(root)) = (order, root) {
            return match self.by_name.get(root) {
                _ if is_root => Provider::Nobody,
                Some(root) if came.contains_key(root) => {
                    if late(*root) {
                        provider(*root)
                    } else {
                        Provider::Nobody
                    }
                }
                Some(_) => Provider::Nobody,
                None => Provider::Unrecorded(span.start),
            };
        }
        if order == Waits::Root && root.is_some() && !is_root {
            return Provider::Nobody;
        }
        let last = came.keys().copied().filter(|&track| late(track)).max_by_key(|track| (came[track], *track));
        let size: usize = attribute("size").and_then(|size| size.parse().ok()).unwrap_or(0);
        match last {
            _ if came.len() < size => Provider::Unrecorded(last.map_or(span.start, |track| came[&track])),
            Some(track) => provider(track),
            None => Provider::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooted_collectives_are_known_by_their_calls() {
        assert!(waits("MPI_Ibcast") == Waits::ForRoot && waits("MPI_Scatterv") == Waits::ForRoot);
        assert!(waits("MPI_Igather") == Waits::Root && waits("MPI_Reduce") == Waits::Root);
        assert!(["MPI_Barrier", "MPI_Iallreduce", "MPI_Reduce_scatter", "MPI_File_write_all"].iter().all(|call| waits(call) == Waits::All));
    }
}
