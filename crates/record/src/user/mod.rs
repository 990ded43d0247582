//! The recorder of an ordinary user: everything that may be read without privilege, in one trace.
//!
//! The kernel tells every switch of the command's threads ([`switches`](crate::switches)), so running and waiting are
//! exact. What a wait is for comes from the preloaded library's calls, or from one look into /proc in the middle of the
//! wait; connections, devices, bytes and control groups are polled. Programs that the library cannot be loaded into
//! lack calls, and nothing else.

use crate::preload::{Drain, PreloadRecorder};
use crate::proc::calls::Calls;
use crate::proc::recorder::Sampler;
use crate::proc::strangers::Tracks;
use crate::switches::{self, Switches};
use crate::worker::{Stop, Worker, thread_cpu};
use crate::{Finished, RecordError, Recorder, Watched};
use std::ffi::OsString;
use std::time::Duration;
use thalweg_trace::{IdSpace, Time};

/// Pause between two looks at what threads do.
const PAUSE: Duration = Duration::from_millis(1);

/// Interval at which the library's rings are drained.
const DRAIN: Duration = Duration::from_millis(10);

/// Recording may take one in this many parts of a CPU, beyond a credit for the beginning: a short command costs most
/// at its start, and is recorded whole.
const COST_PART: u32 = 33;
const CREDIT: Duration = Duration::from_millis(60);

/// Whatever it costs, threads are looked at this often.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Distance of the library's identifier space from ours; the one in between belongs to another recorder.
const LIBRARY_SPACE: u16 = 2;

/// The recorder `user`.
pub(crate) struct UserRecorder {
    /// Absent if the command cannot load it.
    library: Option<PreloadRecorder>,
    running: Option<Worker>,
}

impl UserRecorder {
    /// Creates the recorder, with the library if the command can load it.
    ///
    /// # Errors
    /// The kernel does not tell this user of switches; the text says who can change that.
    pub(crate) fn new(library: Option<PreloadRecorder>) -> Result<UserRecorder, RecordError> {
        switches::allowed().map_err(RecordError::NotAllowed)?;
        Ok(UserRecorder { library, running: None })
    }
}

impl Recorder for UserRecorder {
    fn name(&self) -> &'static str {
        "user"
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        self.library.as_ref().map(PreloadRecorder::environment).unwrap_or_default()
    }

    fn begin(&mut self, watched: Watched) -> Result<(), RecordError> {
        let first = watched.command.or(watched.others.first().copied());
        let first = first.ok_or_else(|| RecordError::Usage("there is nobody to watch".to_owned()))?.pid;
        let refused =
            |error: std::io::Error| RecordError::NotAllowed(format!("the kernel does not tell switches of process {first}: {error}"));
        let switches = Switches::of(first).map_err(refused)?;
        let tracks = Tracks::default();
        let of_library = Watched { space: IdSpace(watched.space.0 + LIBRARY_SPACE), ..watched.clone() };
        let path = self.library.as_ref().map(PreloadRecorder::library);
        let (calls, drain) = match &self.library {
            Some(library) => {
                let calls = Calls::expected();
                let drain = library.drain_beside(&of_library, Tracks::clone(&tracks), calls.clone());
                (calls, Some(drain))
            }
            None => (Calls::default(), None),
        };
        // Existing processes must be seen before the command is released.
        let (seen, is_seen) = std::sync::mpsc::channel();
        self.running = Some(Worker::start("look", move |stop| {
            let mut sampler = Sampler::of_switches(&watched, switches, tracks, (path, calls));
            sampler.begin();
            let _ = seen.send(());
            work(stop, &mut sampler, drain)
        })?);
        // It ends without a message only if its thread did, which `finish` reports.
        let _ = is_seen.recv();
        Ok(())
    }

    fn finish(&mut self) -> Result<Finished, RecordError> {
        Worker::finish_any(&mut self.running)
    }
}

impl Drop for UserRecorder {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

fn work(stop: &Stop, sampler: &mut Sampler, mut drain: Option<Drain>) -> Finished {
    let (begun, mut next, mut drained) = (Time::now(), PAUSE, Time::now());
    loop {
        let asked = stop.wait(next);
        // Threads first: the library's records refer to them.
        sampler.sample(asked);
        if let Some(drain) = drain.as_mut().filter(|_| asked || Time::now().since(drained) >= DRAIN.as_nanos() as u64) {
            drained = Time::now();
            // An object is the same one, whoever names it.
            std::mem::swap(sampler.objects(), drain.objects());
            drain.drain(asked);
            std::mem::swap(sampler.objects(), drain.objects());
        }
        if asked {
            let mut finished = sampler.end();
            if let Some(drain) = &mut drain {
                finished.add(drain.end());
            }
            return finished;
        }
        let allowed = CREDIT + Duration::from_nanos(Time::now().since(begun)) / COST_PART;
        let beyond = thread_cpu().saturating_sub(allowed);
        next = PAUSE.max(beyond * COST_PART).min(LONGEST_PAUSE);
    }
}
