//! Other users of the link that carried the run's bytes.
//!
//! For each unrecorded process, the recorder counts the bytes it sent and received over links of recorded connections. Compared with the
//! bytes of the run's own ends over the same link in the same direction, this gives its part of what programs on this machine moved
//! meanwhile. Forwarded packets (for containers or other machines) belong to no process here and are not counted, nor are unconnected
//! datagrams.

use super::neighbours::Neighbours;
use crate::ExplainError;
use crate::cause::End;
use crate::observe::observation::Observation;
use crate::observe::tables::Tables;
use crate::waits::place::Place;
use std::collections::BTreeMap;
use thalweg_base::numbers::whole_percent;
use thalweg_trace::{CounterName, CounterOf, Role, Source, TrackKind};

/// Bytes of one process over one link in one direction.
#[derive(Clone, Debug, PartialEq)]
struct Moved {
    link: String,
    program: String,
    process: u32,
    sent: bool,
    /// Cumulative bytes by instant, in order.
    bytes: Vec<(i64, u64)>,
}

/// The traffic of all unrecorded processes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Links {
    moved: Vec<Moved>,
}

/// A link with its other users.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shared {
    /// Their parts of the bytes in the direction of the run's own.
    pub neighbours: Neighbours,
    /// Bytes of the run's own connections.
    pub own_bytes: u64,
    link: String,
    sent: bool,
}

/// Splits `veth0: socat (812)`, a recorder's name for a process's traffic over a link.
fn parted(name: &str) -> Option<(&str, &str, u32)> {
    let (link, who) = name.split_once(": ")?;
    let (program, process) = who.strip_suffix(')')?.rsplit_once(" (")?;
    Some((link, program, process.parse().ok()?))
}

impl Links {
    /// Reads the tracks and counters of a recording.
    pub(crate) fn read(source: &dyn Source, tables: &mut Tables) -> Result<Links, ExplainError> {
        let tracks: Vec<_> = source.tracks().iter().filter(|track| track.kind == TrackKind::Link).collect();
        let mut moved: BTreeMap<(u32, bool), Moved> = BTreeMap::new();
        for (counter, sent) in [(CounterName::LinkSentBytes, true), (CounterName::LinkReceivedBytes, false)] {
            if tracks.is_empty() {
                break;
            }
            for counter in source.counters(counter)? {
                let CounterOf::Track(track) = counter.of else { continue };
                let actor = tables.tracks.get(track.number());
                let Some((link, program, process)) = tables.actors.get(actor as usize).and_then(|actor| parted(&actor.name)) else {
                    continue;
                };
                let of = moved.entry((actor, sent)).or_insert_with(|| {
                    let (link, program) = (link.to_owned(), program.to_owned());
                    Moved { link, program, process, sent, bytes: Vec::new() }
                });
                of.bytes.push((counter.at.ns(), u64::try_from(counter.value).unwrap_or(0)));
            }
        }
        // A process that was recorded later is no neighbour.
        let takes_part = |process: u32| {
            let has = |role| matches!(role, Role::Client | Role::Server | Role::Recorder);
            tables.actors.iter().any(|actor| actor.thread && actor.pid == process && has(actor.role))
        };
        Ok(Links { moved: moved.into_values().filter(|moved| !takes_part(moved.process)).collect() })
    }

    /// For bytes in transit at this place, or due from a far end: the link they use, with its other users.
    pub(crate) fn at(&self, tables: &Tables, seen: &Observation, place: Place) -> Option<Shared> {
        let end = |actor: u32| tables.actors.get(actor as usize).map(|actor| actor.end);
        let sender = match place {
            _ if self.moved.is_empty() => None,
            Place::Wire(from, to) => end(from).or_else(|| end(to).map(End::other)),
            Place::FarEnd { side, .. } => Some(side),
            _ => None,
        }?;
        let mut own: BTreeMap<(&str, bool), u64> = BTreeMap::new();
        for (number, object) in tables.objects.iter().enumerate() {
            if let (Some(link), Some(end)) = (object.attribute("link"), object.connection_end) {
                let sent = end == sender;
                *own.entry((link, sent)).or_default() += seen.moved[end as usize][number][usize::from(sent)].bytes;
            }
        }
        // Both ends may be on this machine, each with a link of its own.
        let most = own.values().copied().max().filter(|most| *most > 0)?;
        let used = own.into_iter().filter(|(_, bytes)| bytes * 2 >= most);
        let shared = used.map(|((link, sent), bytes)| {
            let others = self.moved.iter().filter(|moved| moved.link == link && moved.sent == sent);
            let by_end =
                |moved: &Moved| moved.bytes.iter().take_while(|(at, _)| *at <= seen.interval.1).last().map_or(0, |(_, bytes)| *bytes);
            let mut by_program: BTreeMap<&str, u64> = BTreeMap::new();
            others.for_each(|moved| *by_program.entry(&moved.program).or_default() += by_end(moved));
            let all = bytes + by_program.values().sum::<u64>();
            let neighbours = Neighbours::of(by_program.into_iter().map(|(program, bytes)| (program.to_owned(), bytes)), all);
            Shared { neighbours, own_bytes: bytes, link: link.to_owned(), sent }
        });
        shared.max_by(|a, b| a.neighbours.part().total_cmp(&b.neighbours.part()))
    }
}

impl Shared {
    /// The phrase in parentheses: `socat had 52 % of what came by veth0`.
    pub(crate) fn words(&self, written: impl Fn(&str) -> String) -> String {
        let (who, part) = (self.neighbours.who(written), whole_percent(self.neighbours.part()));
        format!("{who} had {part} of what {} by {}", if self.sent { "left" } else { "came" }, self.link)
    }
}

#[cfg(test)]
mod tests {
    use super::parted;

    #[test]
    fn who_moves_bytes_over_a_link_is_in_its_tracks_name() {
        assert_eq!(parted("veth0: socat (812)"), Some(("veth0", "socat", 812)));
        assert_eq!(parted("eth0#2: a b (c) (7)"), Some(("eth0#2", "a b (c)", 7)));
        assert_eq!(parted("veth0"), None);
    }
}
