//! What is known of each recording, and the thread that explains those that changed.
//!
//! A list is answered at once with what is known. It asks for explanations of the rest, which one thread makes, one after the other, so that
//! memory and processor time stay those of one `thalweg explain`. A recording in progress is explained again at most once in
//! [`AGAIN`] times as long as explaining it took.

use super::directory::{Directory, Entry, Stamp};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::time::{Duration, Instant};
use thalweg_report::{KnownRecording, RecordingProgress};

/// How much longer a recording in progress is left alone than explaining it took.
const AGAIN: u32 = 10;
/// The least time between two explanations of a recording in progress.
const LEAST: Duration = Duration::from_secs(2);

/// An explanation of a recording, or why there is none.
struct CachedAnswer {
    stamp: Stamp,
    known: KnownRecording,
    /// When it may be made again.
    again: Instant,
}

#[derive(Default)]
struct State {
    known: HashMap<OsString, CachedAnswer>,
    wanted: VecDeque<Entry>,
    is_ending: bool,
}

/// What is known of recordings.
#[derive(Default)]
pub(super) struct Register {
    state: Mutex<State>,
    changed: Condvar,
}

impl Register {
    /// Returns what is known of these recordings, and asks for what is not. Forgets all others.
    pub(super) fn of(&self, entries: &[Entry]) -> Vec<KnownRecording> {
        let mut state = self.state.lock();
        let State { known, wanted, .. } = &mut *state;
        wanted.clear();
        let mut before = std::mem::take(known);
        let mut found = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some(of) = before.remove(&entry.name) else {
                wanted.push_back(entry.clone());
                found.push(KnownRecording::Waiting);
                continue;
            };
            let is_old = of.stamp != entry.stamp;
            let may_wait = matches!(entry.progress, RecordingProgress::BeingRecorded(_)) && of.again > Instant::now();
            if is_old && !may_wait {
                wanted.push_back(entry.clone());
            }
            found.push(of.known.clone());
            known.insert(entry.name.clone(), of);
        }
        self.changed.notify_one();
        found
    }

    /// Explains what was asked for, until [`Register::end`].
    pub(super) fn explain(&self, directory: &Directory) {
        while let Some(entry) = self.next() {
            let begun = Instant::now();
            let known = explained(directory, &entry.name);
            let again = Instant::now() + (begun.elapsed() * AGAIN).max(LEAST);
            self.state.lock().known.insert(entry.name, CachedAnswer { stamp: entry.stamp, known, again });
        }
    }

    /// Waits for the next recording to explain; `None` at the end.
    fn next(&self) -> Option<Entry> {
        let mut state = self.state.lock();
        loop {
            if state.is_ending {
                return None;
            }
            if let Some(entry) = state.wanted.pop_front() {
                return Some(entry);
            }
            self.changed.wait(&mut state);
        }
    }

    /// Ends [`Register::explain`] after the recording that it is at.
    pub(super) fn end(&self) {
        self.state.lock().is_ending = true;
        self.changed.notify_all();
    }
}

fn explained(directory: &Directory, name: &OsString) -> KnownRecording {
    let made = directory.recording(name).and_then(|(path, _)| {
        let of = crate::recordings::explained::explained(&path).map_err(|failure| failure.message().to_owned());
        of.map(|(_, explanation)| explanation)
    });
    match made {
        Ok(explanation) => {
            // The sentence of an unreliable explanation is withheld, and the reason stands in its place.
            let reason = explanation.unreliable_because.filter(|_| !explanation.reliable);
            KnownRecording::Explained { wall_s: explanation.wall_s, sentence: reason.unwrap_or(explanation.verdict.sentence) }
        }
        Err(error) => KnownRecording::Failed(error),
    }
}
