//! Links (network devices) used by recorded connections, and what unrecorded programs move over them.
//!
//! A link is identified by its kernel address: devices of two networks may have the same name. A process that moves
//! bytes over one has a track of its own, with counters but without intervals, since nothing else of it is recorded.

use super::output::Output;
use crate::bpf::raw::Link;
use crate::kernel::ring::text;
use std::collections::HashMap;
use thalweg_trace::{CounterName, CounterOf, Role, TrackId, TrackKind};

/// Maximum programs kept separately, over all links.
const MOST_NEIGHBOURS: usize = 4_096;

/// The links met.
#[derive(Debug, Default)]
pub(crate) struct Links {
    names: HashMap<u64, String>,
    /// By link and process.
    tracks: HashMap<(u64, u32), TrackId>,
}

impl Links {
    /// Returns a link's name: its device's, with a number if several share it. Empty if unknown.
    pub(crate) fn name(&mut self, link: u64, name: &[u8]) -> String {
        if link == 0 {
            return String::new();
        }
        if let Some(known) = self.names.get(&link) {
            return known.clone();
        }
        let name = text(name);
        let others = self.names.values().filter(|known| known.split('#').next() == Some(&name)).count();
        let name = if others == 0 { name } else { format!("{name}#{}", others + 1) };
        self.names.insert(link, name.clone());
        name
    }

    /// Records how much an unrecorded process has moved over a link so far.
    pub(crate) fn moved(&mut self, moved: &Link, output: &mut Output) {
        let link = self.name(moved.link, &moved.link_name);
        let known = self.tracks.get(&(moved.link, moved.pid)).copied();
        let track = known.unwrap_or_else(|| {
            if self.tracks.len() >= MOST_NEIGHBOURS {
                self.tracks.clear();
            }
            let track = output.track_id();
            self.tracks.insert((moved.link, moved.pid), track);
            let name = format!("{link}: {} ({})", text(&moved.name), moved.pid);
            output.track(track, TrackKind::Link, Role::None, None, &name);
            track
        });
        let counter = if moved.direction == 0 { CounterName::LinkSentBytes } else { CounterName::LinkReceivedBytes };
        output.counter(CounterOf::Track(track), counter, moved.head.at_ns, moved.bytes);
    }
}
