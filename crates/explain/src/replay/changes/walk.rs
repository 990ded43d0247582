//! A walk of our own client, and what asking ahead would give it.
//!
//! One entry at a time costs round trips: its attributes, then its sizes. With a window, the same round trips bring as many entries
//! as the window holds: a page of names with attributes, then the sizes of all their files in one message to each server. So a
//! walk is taken to be *turns*: each costs what one entry costs in the recording, and every further entry in it what an entry costs
//! in a message that is sent anyway. Of that the recording shows what the service's own largest page cost, for each of its bytes.

use crate::document::{RoundTrips, Trip};
use crate::facts::Parts;
use crate::limits::replay as limits;
use thalweg_trace::Meta;

/// A walk that asks for one entry at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Walk {
    /// Entries.
    pub entries: f64,
    /// What one entry takes alone, with its round trips, in nanoseconds.
    pub alone_ns: f64,
    /// What one more takes in messages that are sent anyway.
    pub further_ns: f64,
    /// Before the first entry and after the last.
    pub around_ns: f64,
}

impl Walk {
    /// The walk of a recording, if it is one that waits for entry after entry.
    pub(crate) fn of(parts: &Parts<'_>, meta: &Meta, trips: Option<&RoundTrips>) -> Option<Walk> {
        let (trips, asking) = (trips.filter(|t| t.of == Trip::Calls)?, &parts.seen.asking);
        let entry = trips.per_entry.as_ref().filter(|e| e.round_trips >= limits::ENTRY_BY_ENTRY)?;
        let (entries, wall_ns) = (entry.entries as f64, (parts.end - parts.start) as f64);
        let alone_ns = asking.each_delivered_ns().unwrap_or(entry.seconds * 1e9);
        // Names are listed first, and then entries asked about; with a window, pages of names take the place of the first question.
        let listing_ns = asking.calls.lengths.quantile_ns(0.5) as f64;
        let around_ns = (wall_ns - alone_ns * entries - listing_ns).max(0.0);
        let datafiles = attribute(meta, "walk.datafiles").unwrap_or(0.0) / entries;
        let further_ns =
            asking.cost_of_bytes().map(|(ns, bytes)| ns * (bytes * limits::BYTES_OF_ENTRY + datafiles * limits::BYTES_OF_DATAFILE));
        Some(Walk { entries, alone_ns, further_ns: further_ns.unwrap_or(alone_ns * limits::USUAL_FURTHER), around_ns })
    }

    /// How long it takes with this window.
    pub(crate) fn ns(&self, window: u32) -> f64 {
        let turns = (self.entries / f64::from(window)).ceil().min(self.entries);
        self.around_ns + turns * self.alone_ns + (self.entries - turns) * self.further_ns
    }
}

fn attribute(meta: &Meta, name: &str) -> Option<f64> {
    meta.attributes.iter().find(|(n, _)| n == name).and_then(|(_, value)| value.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_takes_a_turn_for_each_of_its_fills_and_what_further_entries_cost() {
        let walk = Walk { entries: 300.0, alone_ns: 2_000_000.0, further_ns: 10_000.0, around_ns: 5_000_000.0 };
        assert_eq!(walk.ns(1), 605_000_000.0);
        assert_eq!(walk.ns(8), 5_000_000.0 + 38.0 * 2_000_000.0 + 262.0 * 10_000.0);
        assert_eq!(walk.ns(128), 5_000_000.0 + 3.0 * 2_000_000.0 + 297.0 * 10_000.0);
        assert_eq!(walk.ns(1000), 5_000_000.0 + 2_000_000.0 + 299.0 * 10_000.0);
    }
}
