//! One track per thread, even if two recorders record it. The other recorder's events pass through here: a thread
//! first met by the profile keeps the profile's track, and one already recorded by the other recorder keeps that
//! recorder's.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_trace::{CounterOf, Event, MarkKind, Sink, TrackId, TrackKind};

/// Threads that have a track, by process and thread number.
#[derive(Debug, Default)]
pub(crate) struct SharedTracks {
    table: Mutex<TrackTable>,
}

#[derive(Debug, Default)]
struct TrackTable {
    threads: HashMap<(u32, u32), Entry>,
    /// The other recorder's tracks of threads that the profile met first, and the profile's tracks for them.
    renamed: HashMap<TrackId, TrackId>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    track: TrackId,
    /// The other recorder has recorded it, with its name and role.
    is_others: bool,
}

/// Renames tracks in the other recorder's events.
struct Renaming {
    tracks: Arc<SharedTracks>,
    inner: Arc<dyn Sink>,
}

impl SharedTracks {
    /// Returns the sink for the other recorder's events from now on.
    pub(crate) fn sink(self: &Arc<Self>, inner: Arc<dyn Sink>) -> Arc<dyn Sink> {
        Arc::new(Renaming { tracks: Arc::clone(self), inner })
    }

    /// Returns a thread's track, and whether the profile must record it; `new` creates one if there is none.
    pub(crate) fn of(&self, pid: u32, tid: u32, new: impl FnOnce() -> TrackId) -> (TrackId, bool) {
        let mut table = self.table.lock();
        let entry = table.threads.entry((pid, tid)).or_insert_with(|| Entry { track: new(), is_others: false });
        (entry.track, !entry.is_others)
    }

    /// Forgets an ended thread, whose number may be reused.
    pub(crate) fn ended(&self, pid: u32, tid: u32) {
        let mut table = self.table.lock();
        if table.threads.get(&(pid, tid)).is_some_and(|entry| !entry.is_others) {
            table.threads.remove(&(pid, tid));
        }
    }
}

impl TrackTable {
    /// Notes that the other recorder records a thread.
    fn recorded(&mut self, pid: u32, tid: u32, track: TrackId) {
        let other = Entry { track, is_others: true };
        match self.threads.get_mut(&(pid, tid)) {
            Some(entry) if !entry.is_others && entry.track != track => {
                self.renamed.insert(track, entry.track);
                entry.is_others = true;
            }
            // Emitted again, under the track it has here.
            Some(entry) if self.renamed.get(&track) == Some(&entry.track) => {}
            _ => drop(self.threads.insert((pid, tid), other)),
        }
    }

    fn rename(&self, event: &mut Event) {
        let name = |track: &mut TrackId| {
            if let Some(new) = self.renamed.get(track) {
                *track = *new;
            }
        };
        match event {
            Event::Track(track) => name(&mut track.track),
            Event::Span(span) => {
                name(&mut span.track);
                span.waker_track.iter_mut().for_each(name);
            }
            Event::Mark(mark) => {
                name(&mut mark.track);
                // The value of a `thread.start` is the creator's track.
                let maker =
                    mark.value.filter(|_| mark.kind == MarkKind::ThreadStart).and_then(|value| TrackId::new(u64::try_from(value).ok()?));
                if let Some(new) = maker.and_then(|maker| self.renamed.get(&maker)) {
                    mark.value = i64::try_from(new.number()).ok();
                }
            }
            Event::Counter(counter) => {
                if let CounterOf::Track(track) = &mut counter.of {
                    name(track);
                }
            }
            Event::Sample(sample) => sample.track.iter_mut().for_each(name),
            Event::Waited(waited) => name(&mut waited.track),
            Event::Host(_) | Event::Clock(_) | Event::Object(_) | Event::Stack(_) => {}
        }
    }
}

impl Sink for Renaming {
    fn take(&self, batch: &mut Vec<Event>) {
        let mut table = self.tracks.table.lock();
        for event in batch.iter_mut() {
            if let Event::Track(track) = event
                && let (TrackKind::Thread, Some(pid), Some(tid)) = (track.kind, track.pid, track.tid)
            {
                table.recorded(pid, tid, track.track);
            }
            if !table.renamed.is_empty() {
                table.rename(event);
            }
        }
        drop(table);
        self.inner.take(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_trace::{HostId, Mark, Memory, Role, Time, Track};

    fn track(number: u64) -> TrackId {
        TrackId::new(number).expect("a number")
    }

    fn recorded(number: u64, tid: u32) -> Event {
        let (kind, role, name) = (TrackKind::Thread, Role::Client, String::new());
        Event::Track(Track { track: track(number), host: HostId(0), kind, role, pid: Some(7), tid: Some(tid), name })
    }

    fn started(of: u64, by: i64) -> Event {
        Event::Mark(Mark { track: track(of), kind: MarkKind::ThreadStart, at: Time::from_monotonic_ns(1), object: None, value: Some(by) })
    }

    #[test]
    fn a_thread_has_one_track_whoever_met_it_first() {
        let (tracks, memory) = (Arc::new(SharedTracks::default()), Arc::new(Memory::new(100)));
        let sink = tracks.sink(Arc::clone(&memory) as Arc<dyn Sink>);
        assert_eq!(tracks.of(7, 7, || track(100)), (track(100), true));
        sink.take(&mut vec![recorded(1, 7), recorded(2, 8), started(2, 1)]);
        assert_eq!(tracks.of(7, 7, || track(101)), (track(100), false), "recorded by the other from now on");
        assert_eq!(tracks.of(7, 8, || track(102)), (track(2), false));
        sink.take(&mut vec![recorded(1, 7)]);
        assert_eq!(memory.drain().0, [recorded(100, 7), recorded(2, 8), started(2, 100), recorded(100, 7)]);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_track() {
        let (tracks, memory) = (Arc::new(SharedTracks::default()), Arc::new(Memory::new(100)));
        let sink = tracks.sink(Arc::clone(&memory) as Arc<dyn Sink>);
        tracks.of(7, 7, || track(100));
        sink.take(&mut vec![recorded(1, 7), recorded(3, 7)]);
        assert_eq!(memory.drain().0, [recorded(100, 7), recorded(3, 7)]);
        assert_eq!(tracks.of(7, 7, || track(101)).0, track(3));
        tracks.of(7, 9, || track(104));
        tracks.ended(7, 9);
        assert_eq!(tracks.of(7, 9, || track(105)).0, track(105));
    }
}
