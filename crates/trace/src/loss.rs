//! Lost events, counted per track so that a loss can be drawn where it happened.

use crate::{CounterOf, Event, Mark, MarkKind, Time, TrackId};
use std::collections::BTreeMap;

/// Maximum tracks whose losses are counted separately; beyond it only a total is kept.
const TRACKS: usize = 1 << 12;

/// Counts of events that could not be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    tracks: BTreeMap<TrackId, (u64, Time)>,
    /// Lost events that belong to no track: objects, hosts, CPUs.
    pub elsewhere: u64,
}

impl Loss {
    /// Counts an event as lost.
    pub fn count(&mut self, event: &Event) {
        let (track, at) = match event {
            Event::Span(span) => (span.track, span.end()),
            Event::Mark(mark) => (mark.track, mark.at),
            Event::Counter(counter) => match counter.of {
                CounterOf::Track(track) => (track, counter.at),
                CounterOf::Object(_) => return self.elsewhere += 1,
            },
            Event::Sample(sample) => match sample.track {
                Some(track) => (track, sample.at),
                None => return self.elsewhere += 1,
            },
            Event::Waited(waited) => (waited.track, waited.until),
            Event::Host(_) | Event::Clock(_) | Event::Track(_) | Event::Object(_) | Event::Stack(_) => return self.elsewhere += 1,
        };
        // A lost `lost` mark stands for the events it counted.
        let more = match event {
            Event::Mark(Mark { kind: MarkKind::Lost, value, .. }) => value.and_then(|v| u64::try_from(v).ok()).unwrap_or(0),
            _ => 1,
        };
        if self.tracks.len() >= TRACKS && !self.tracks.contains_key(&track) {
            self.elsewhere = self.elsewhere.saturating_add(more);
            return;
        }
        let lost = self.tracks.entry(track).or_insert((0, at));
        lost.0 = lost.0.saturating_add(more);
        lost.1 = lost.1.max(at);
    }

    /// Returns the total number of lost events.
    pub fn total(&self) -> u64 {
        self.tracks.values().fold(self.elsewhere, |total, lost| total.saturating_add(lost.0))
    }

    /// Takes the losses on tracks as `lost` marks, each at the time of the last lost event.
    pub fn take_marks(&mut self) -> Vec<Event> {
        let mark = |(track, (count, at))| {
            let value = Some(i64::try_from(count).unwrap_or(i64::MAX));
            Event::Mark(Mark { track, kind: MarkKind::Lost, at, object: None, value })
        };
        std::mem::take(&mut self.tracks).into_iter().map(mark).collect()
    }
}
