//! Of the processes of a command that another recorder sees from within, those that it cannot: static programs, other users'.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_base::proc::maps;
use thalweg_trace::TrackId;

/// The tracks of strangers' threads, by number: the other recorder names them as wakers.
pub(crate) type Tracks = Arc<Mutex<HashMap<u32, TrackId>>>;

/// Who is one.
#[derive(Clone, Debug)]
pub(crate) struct Strangers {
    library: PathBuf,
    tracks: Tracks,
}

impl Strangers {
    /// Those who have not loaded this library.
    pub(crate) fn without(library: PathBuf, tracks: Tracks) -> Strangers {
        Strangers { library, tracks }
    }

    /// Whether the process has no library of ours. One that may not be read is another user's by now, and has none.
    pub(super) fn is_one(&self, pid: u32) -> bool {
        // A command that has not begun yet is a copy of us.
        let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
        if program("self").is_some_and(|ours| program(&pid.to_string()) == Some(ours)) {
            return false;
        }
        maps::of(pid).map_or(true, |maps| !maps.is_empty() && !maps.iter().any(|mapping| mapping.path == self.library))
    }

    /// Makes a thread's track known to the other recorder.
    pub(super) fn name(&self, tid: u32, track: TrackId) {
        self.tracks.lock().unwrap_or_else(PoisonError::into_inner).insert(tid, track);
    }
}
