//! The lanes: one for each thread, connection, device, processor and link that has anything to draw.
//!
//! Before it is known which have, each has a *slot*: tracks in the order of the recording, then the connections known as objects only.

use crate::numbered::Numbered;
use crate::picture::lanes::{CONNECTIONS, order_of_name, section};
use serde::Serialize;
use std::collections::HashMap;
use thalweg_trace::{HostId, ObjectKind, Role, Source, Track, TrackKind};

/// Most lanes: a plane numbers them in 16 bits, and the last number is [`NO_LANE`].
pub(super) const MAX_LANES: usize = 0xffff;
/// Marks that a row is on no lane.
pub(super) const NO_LANE: u16 = 0xffff;

/// A lane, as the header lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Lane {
    /// Its name: a thread's, a connection's, a device's.
    name: String,
    /// `thread`, `server`, `rank`, `connection`, `device`, `cpu` or `path`.
    kind: &'static str,
    /// Its host's name.
    host: String,
    /// Process id and name; empty if it has none.
    process: String,
    /// The side on whose behalf it works.
    role: &'static str,
}

/// A connection that is no track, and so is known by what programs send over it.
struct Sent<'a> {
    name: &'a str,
    host: HostId,
}

/// All that may become a lane.
pub(super) struct Slots<'a> {
    source: &'a dyn Source,
    sent: Vec<Sent<'a>>,
    of_track: Numbered<u32>,
    of_connection: Numbered<u32>,
}

impl<'a> Slots<'a> {
    /// Returns the slots of a recording.
    pub(super) fn new(source: &'a dyn Source) -> Slots<'a> {
        let tracks = source.tracks();
        let of_track = tracks.iter().enumerate().map(|(slot, track)| (track.track.number(), slot as u32)).collect();
        let mut slots = Slots { source, sent: Vec::new(), of_track, of_connection: Numbered::default() };
        let mut named: HashMap<&str, u32> = HashMap::new();
        for (slot, track) in tracks.iter().enumerate().filter(|(_, track)| track.kind == TrackKind::Connection) {
            named.entry(&track.name).or_insert(slot as u32);
        }
        for object in source.objects().iter().filter(|object| object.kind == ObjectKind::Connection) {
            let slot = *named.entry(&object.name).or_insert_with(|| {
                slots.sent.push(Sent { name: &object.name, host: object.host });
                (tracks.len() + slots.sent.len() - 1) as u32
            });
            slots.of_connection.insert(object.object.number(), slot);
        }
        slots
    }

    /// Returns the number of slots.
    pub(super) fn count(&self) -> usize {
        self.source.tracks().len() + self.sent.len()
    }

    /// Returns the slot of a track.
    pub(super) fn track(&self, number: u64) -> Option<u32> {
        self.of_track.get(&number).copied()
    }

    /// Returns the slot of a connection's object.
    pub(super) fn connection(&self, object: u64) -> Option<u32> {
        self.of_connection.get(&object).copied()
    }

    /// Returns the track of a slot, unless it is a connection's that is no track.
    pub(super) fn track_at(&self, slot: u32) -> Option<&'a Track> {
        self.source.tracks().get(slot as usize)
    }

    /// Returns the lanes of the slots in use, in the order of the pictures, and the lane of each slot. `weight`: how much there is to
    /// draw in a slot; 0 if it is not in use. Of more than [`MAX_LANES`] those with most to draw are kept.
    pub(super) fn lanes(&self, weight: &[u64]) -> (Vec<Lane>, Vec<u16>) {
        let mut used: Vec<u32> = (0..self.count() as u32).filter(|slot| weight[*slot as usize] > 0).collect();
        if used.len() > MAX_LANES {
            used.sort_by_key(|slot| std::cmp::Reverse(weight[*slot as usize]));
            used.truncate(MAX_LANES);
        }
        used.sort_by_cached_key(|&slot| match self.track_at(slot) {
            Some(track) => (section(track), track.host, order_of_name(&track.name), slot),
            None => (CONNECTIONS, self.sent_at(slot).host, order_of_name(self.sent_at(slot).name), slot),
        });
        let processes = Processes::new(self.source.tracks());
        let mut lane_of = vec![NO_LANE; self.count()];
        for (lane, slot) in used.iter().enumerate() {
            lane_of[*slot as usize] = lane as u16;
        }
        (used.iter().map(|slot| self.lane(*slot, &processes)).collect(), lane_of)
    }

    fn sent_at(&self, slot: u32) -> &Sent<'a> {
        &self.sent[slot as usize - self.source.tracks().len()]
    }

    fn host(&self, host: HostId) -> String {
        self.source.hosts().iter().find(|row| row.host == host).map(|row| row.name.clone()).unwrap_or_default()
    }

    fn lane(&self, slot: u32, processes: &Processes<'_>) -> Lane {
        let Some(track) = self.track_at(slot) else {
            let sent = self.sent_at(slot);
            return Lane {
                name: sent.name.to_owned(),
                kind: "connection",
                host: self.host(sent.host),
                process: String::new(),
                role: Role::None.name(),
            };
        };
        Lane {
            name: track.name.clone(),
            kind: kind(track),
            host: self.host(track.host),
            process: processes.of(track),
            role: track.role.name(),
        }
    }
}

/// Returns the kind of a track's lane.
fn kind(track: &Track) -> &'static str {
    match track.kind {
        TrackKind::Thread if track.name.contains("rank ") => "rank",
        TrackKind::Thread if track.role == Role::Server => "server",
        TrackKind::Thread => "thread",
        TrackKind::Connection => "connection",
        TrackKind::Device => "device",
        TrackKind::Cpu => "cpu",
        TrackKind::Link => "path",
    }
}

/// Names of processes: those of their first threads.
struct Processes<'a>(HashMap<(HostId, u32), &'a str>);

impl<'a> Processes<'a> {
    fn new(tracks: &'a [Track]) -> Processes<'a> {
        let first = |track: &&Track| track.kind == TrackKind::Thread && track.pid.is_some() && track.pid == track.tid;
        Processes(tracks.iter().filter(first).filter_map(|track| Some(((track.host, track.pid?), &*track.name))).collect())
    }

    fn of(&self, track: &Track) -> String {
        match track.pid {
            None => String::new(),
            Some(pid) => self.0.get(&(track.host, pid)).map_or_else(|| pid.to_string(), |name| format!("{pid} {name}")),
        }
    }
}
