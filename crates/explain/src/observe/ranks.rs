//! Ranks of an MPI job: what parts of messages and collectives went by, and on whom a rank that polls depends.
//!
//! Libraries that implement MPI spin: a rank in a receive runs at full speed, and what it does is no work. What it waits for is told by the
//! part that another rank has in the same message or collective, which has the same `request`. A wait has *a* provider: the rank
//! without which it would not have ended, and the instant since which it had what it waited for: when the message was posted; when
//! the receive was, for one who sends what is too large to be sent before; when the last rank came to a collective.

use crate::assemble::Parts;
use crate::observe::cast::{Cast, Thing};
use crate::observe::feed::LiveSpan;
use std::collections::{BTreeMap, HashMap};
use thalweg_trace::numbers::{duration, whole_percent};
use thalweg_trace::{RequestId, SpanKind};

/// One rank's part in a message or collective.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Part {
    pub track: u32,
    pub start: i64,
    pub end: i64,
    pub kind: SpanKind,
}

/// On whom a rank that is in an MPI call depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// On nobody, or on what was there before the call began.
    Nobody,
    /// On this track, which did its part at this instant.
    Track(u32, i64),
    /// On a rank that was not recorded; what is known was there at this instant.
    Unrecorded(i64),
}

/// What has gone by of messages and collectives, as far as the walk may still want it.
#[derive(Debug, Default)]
pub struct Ranks {
    parts: HashMap<u64, Vec<Part>>,
    /// Tracks by the name that messages use.
    by_name: HashMap<String, u32>,
}

/// Whether a span is of MPI.
pub fn is_mpi(kind: SpanKind) -> bool {
    use SpanKind as K;
    matches!(
        kind,
        K::MpiIo | K::MpiMessage | K::MpiCollective | K::MpiWait | K::MpiOther | K::MpiSend | K::MpiReceive | K::MpiRead | K::MpiWrite
    )
}

/// Whether a span is a rank's part of something that others have parts in.
pub fn is_part(span: &LiveSpan) -> bool {
    span.request >= RequestId::COMMON
}

impl Ranks {
    /// Nothing yet.
    pub fn new(cast: &Cast) -> Ranks {
        let ranks = cast.actors.iter().enumerate().filter(|(_, a)| a.thread && a.name.contains("rank "));
        Ranks { parts: HashMap::new(), by_name: ranks.map(|(i, a)| (a.name.clone(), i as u32)).collect() }
    }

    /// The tracks of ranks.
    pub fn tracks(&self) -> impl Iterator<Item = u32> {
        self.by_name.values().copied()
    }

    /// A span, as it is read.
    pub fn note(&mut self, span: &LiveSpan) {
        if is_part(span) {
            let part = Part { track: span.track, start: span.start, end: span.end, kind: span.kind };
            self.parts.entry(span.request).or_default().push(part);
        }
    }

    /// The walk has come to `cursor`: what began after it is of no more use.
    pub fn prune(&mut self, cursor: i64) {
        self.parts.retain(|_, parts| parts.iter().any(|part| part.start < cursor));
    }

    /// All parts known of what a span is a part of.
    pub fn parts_of(&self, span: &LiveSpan) -> &[Part] {
        self.parts.get(&span.request).map_or(&[], Vec::as_slice)
    }

    /// On whom this span depended. All that ends after its beginning must have been read.
    pub fn provider(&self, cast: &Cast, span: &LiveSpan) -> Provider {
        let thing = cast.things.get(span.object as usize);
        let parts = self.parts_of(span);
        match span.kind {
            SpanKind::MpiReceive => self.sender(thing, span, parts),
            SpanKind::MpiSend => {
                let receives = parts.iter().filter(|p| p.kind == SpanKind::MpiReceive && p.track != span.track);
                match receives.min_by_key(|p| p.start) {
                    Some(receive) if receive.start > span.start && receive.start < span.end => {
                        Provider::Track(receive.track, receive.start)
                    }
                    _ => Provider::Nobody,
                }
            }
            _ => self.collective(cast, span, parts),
        }
    }

    fn sender(&self, thing: Option<&Thing>, span: &LiveSpan, parts: &[Part]) -> Provider {
        let sends = parts.iter().filter(|p| p.kind == SpanKind::MpiSend && p.track != span.track);
        match sends.min_by_key(|p| p.start) {
            Some(send) if send.start > span.start => Provider::Track(send.track, send.start.min(span.end)),
            Some(_) => Provider::Nobody,
            // Of one that was recorded, and of whom nothing was found that is as late as the receive: it had sent before.
            None if thing.and_then(|t| t.attribute("from")).is_none_or(|from| self.by_name.contains_key(from)) => Provider::Nobody,
            None => Provider::Unrecorded(span.start),
        }
    }
}

/// What is said of ranks that others waited for and of which nothing was recorded.
pub fn note(unrecorded: &BTreeMap<String, i64>) -> Option<String> {
    let ns: i64 = unrecorded.values().sum();
    let (most, _) = unrecorded.iter().max_by_key(|(_, ns)| **ns)?;
    let whom = if unrecorded.len() == 1 { most.clone() } else { format!("{most} and {} more", unrecorded.len() - 1) };
    Some(format!(
        "For {} ranks waited for {whom}, of which nothing was recorded: record all ranks (`thalweg record --mpi -- mpirun ...` on each machine, or \
         `mpirun ... thalweg record --mpi -o job.thw -- PROGRAM`) and put the recordings together with `thalweg merge`.",
        duration(ns as f64 / 1e9)
    ))
}

/// Of a charge at ranks: which of them it was, where one was most of it.
pub fn who(parts: &Parts<'_>, members: &[usize]) -> Option<String> {
    let cast = parts.cast;
    let mut of_track: HashMap<u32, i64> = HashMap::new();
    let mut all = 0;
    for run in parts.ledger.path.iter().filter(|run| members.contains(&(run.entry as usize))) {
        all += run.end - run.start;
        *of_track.entry(run.track).or_default() += run.end - run.start;
    }
    let is_rank = |track: &u32| cast.actors.get(*track as usize).is_some_and(|a| a.thread && a.label.ends_with("rank"));
    let (&track, &most) = of_track.iter().filter(|(track, _)| is_rank(track)).max_by_key(|&(&track, &ns)| (ns, track))?;
    let several = cast.actors.iter().filter(|a| a.thread && a.label.ends_with("rank")).count() > 1;
    (several && most * 2 > all)
        .then(|| format!("{} in {} of it", cast.actors[track as usize].name, whole_percent(most as f64 / all as f64)))
}

/// Which ranks a collective makes others wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// Everybody for everybody.
    All,
    /// The others for its root.
    ForRoot,
    /// Its root for the others.
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
    fn collective(&self, cast: &Cast, span: &LiveSpan, parts: &[Part]) -> Provider {
        if !is_part(span) {
            return Provider::Nobody;
        }
        // A rank that waits for a collective it began before has two parts in it; it came when the first began.
        let mut came: HashMap<u32, i64> = HashMap::new();
        for part in parts {
            let at = came.entry(part.track).or_insert(part.start);
            *at = (*at).min(part.start);
        }
        let thing = cast.things.get(span.object as usize);
        let attribute = |name: &str| thing.and_then(|t| t.attribute(name));
        let (order, root) = (attribute("call").map_or(Waits::All, waits), attribute("root"));
        let is_root = root == cast.actors.get(span.track as usize).map(|a| a.name.as_str());
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
