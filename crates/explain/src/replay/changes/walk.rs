//! A walk of this project's client, and the gain of asking ahead.
//!
//! One entry at a time costs round trips: its attributes, then its sizes. With a window, the same round trips bring as many entries as the
//! window holds: a page of names with attributes, then the sizes of all their files in one message to each server. So a walk is modelled as
//! *turns*: each costs what one entry costs in the recording, and every further entry in it the cost of an entry in a message that is sent
//! anyway. The recording shows the latter by the cost per byte of the service's own largest page.

use crate::document::{RoundTrips, Trip};
use crate::facts::Parts;
use crate::limits::replay as limits;
use thalweg_trace::Meta;

/// A walk that requests one entry at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Walk {
    /// Number of entries.
    pub entries: f64,
    /// Time of one entry alone, with its round trips, in nanoseconds.
    pub alone_ns: f64,
    /// Time of a further entry in messages that are sent anyway, in ns.
    pub further_ns: f64,
    /// Time before the first entry and after the last, in ns.
    pub around_ns: f64,
}

impl Walk {
    /// The walk of a recording, if it waits for entry after entry.
    pub(crate) fn of(parts: &Parts<'_>, meta: &Meta, trips: Option<&RoundTrips>) -> Option<Walk> {
        let (trips, asking) = (trips.filter(|t| t.of == Trip::Calls)?, &parts.seen.asking);
        let entry = trips.per_entry.as_ref().filter(|e| e.round_trips >= limits::ENTRY_BY_ENTRY)?;
        let (entries, wall_ns) = (entry.entries as f64, (parts.end - parts.start) as f64);
        let alone_ns = asking.each_delivered_ns().unwrap_or(entry.seconds * 1e9);
        // Names are listed first, and then entries requested; with a window, pages of names replace the first request.
        let listing_ns = asking.calls.lengths.quantile_ns(0.5) as f64;
        let around_ns = (wall_ns - alone_ns * entries - listing_ns).max(0.0);
        let datafiles = attribute(meta, "walk.datafiles").unwrap_or(0.0) / entries;
        let further_ns =
            asking.cost_of_bytes().map(|(ns, bytes)| ns * (bytes * limits::BYTES_OF_ENTRY + datafiles * limits::BYTES_OF_DATAFILE));
        Some(Walk { entries, alone_ns, further_ns: further_ns.unwrap_or(alone_ns * limits::USUAL_FURTHER), around_ns })
    }

    /// Its length with this window, in ns.
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
