//! Identifies the processes of a command that the preload recorder cannot see: static programs, other users'
//! processes.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use thalweg_base::proc::maps;
use thalweg_trace::TrackId;

/// Tracks of strangers' threads, by number, which the other recorder names as wakers.
pub(crate) type Tracks = Arc<Mutex<HashMap<u32, TrackId>>>;

/// Recognises strangers.
#[derive(Clone, Debug)]
pub(crate) struct Strangers {
    library: PathBuf,
    tracks: Tracks,
}

impl Strangers {
    /// Strangers are the processes that have not loaded this library.
    pub(crate) fn without(library: PathBuf, tracks: Tracks) -> Strangers {
        Strangers { library, tracks }
    }

    /// Whether the process lacks our library. An unreadable one has become another user's, and lacks it.
    pub(super) fn is_one(&self, pid: u32) -> bool {
        // A command not yet executed is a copy of this process.
        let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
        if program("self").is_some_and(|ours| program(&pid.to_string()) == Some(ours)) {
            return false;
        }
        maps::of(pid).map_or(true, |maps| !maps.is_empty() && !maps.iter().any(|mapping| mapping.path == self.library))
    }

    /// Gives the other recorder a thread's track.
    pub(super) fn name(&self, tid: u32, track: TrackId) {
        self.tracks.lock().unwrap_or_else(PoisonError::into_inner).insert(tid, track);
    }
}
