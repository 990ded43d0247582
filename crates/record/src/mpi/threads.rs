//! Remembers the track of each recorded thread.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_trace::{Event, Sink, Track, TrackKind};

/// Tracks of threads, noted on their way to the recording.
pub(crate) struct Threads {
    inner: Arc<dyn Sink>,
    known: Mutex<HashMap<(u32, u32), Track>>,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

impl Sink for Threads {
    fn take(&self, batch: &mut Vec<Event>) {
        let mut tracks = batch.iter().filter_map(|event| match event {
            Event::Track(track) if track.kind == TrackKind::Thread => Some(track),
            _ => None,
        });
        if let Some(first) = tracks.next() {
            let mut known = self.known.lock();
            for track in std::iter::once(first).chain(tracks) {
                if let (Some(pid), Some(tid)) = (track.pid, track.tid) {
                    known.insert((pid, tid), track.clone());
                }
            }
        }
        self.inner.take(batch);
    }
}

impl Threads {
    pub(super) fn new(inner: Arc<dyn Sink>) -> Threads {
        Threads { inner, known: Mutex::default() }
    }

    pub(super) fn get(&self, pid: u32, tid: u32) -> Option<Track> {
        self.known.lock().get(&(pid, tid)).cloned()
    }
}
