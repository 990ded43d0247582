//! The interface of all recorders: what they watch, where events go, and how they end.
//!
//! The order is fixed. The command's process exists but has not yet called `execve`: the runner holds it.
//! [`Recorder::begin`] attaches to it and the other processes to watch; the runner releases it; it ends;
//! [`Recorder::finish`] flushes the rest. In between, a recorder works on threads of its own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_trace::{HostId, IdSpace, Role, Sink};

/// Level of detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// Scheduler, block, socket and TCP events; no system calls. Cheap enough for any run.
    #[default]
    Lean,
    /// A span per system call, or per run of like calls that never blocked.
    Syscall,
}

/// A process to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchedProcess {
    /// Its process id.
    pub pid: u32,
    /// Its role: `Server` for a process that listens, otherwise `Client`.
    pub role: Role,
}

/// The processes to watch, and the destination of events.
#[derive(Clone)]
pub(crate) struct Watched {
    /// The command, held before `execve`; `None` if only others are watched.
    pub command: Option<WatchedProcess>,
    /// The file that the command will execute, if known.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code))]
    pub executable: Option<PathBuf>,
    /// Other processes, with all their threads and future children.
    pub others: Vec<WatchedProcess>,
    /// Whether local processes that recorded threads interact with are recorded too; only the kernel recorder can.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code))]
    pub follow: bool,
    /// Display names of processes, replacing their command names.
    pub names: BTreeMap<u32, String>,
    /// Level of detail; only the kernel recorder has a choice.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code))]
    pub tier: Tier,
    /// This machine's number in the recording.
    pub host: HostId,
    /// Identifiers for the recorder's events.
    pub space: IdSpace,
    /// Interval at which events are fetched from the kernel or the command; zero: without a pause.
    pub drain: Duration,
    /// A profile without another recorder that records threads.
    pub profile_alone: bool,
    /// Destination of events.
    pub sink: Arc<dyn Sink>,
}

#[cfg(test)]
impl Watched {
    /// Watches one existing process.
    pub(crate) fn one(pid: u32, sink: Arc<dyn Sink>) -> Watched {
        Watched {
            command: None,
            executable: None,
            others: vec![WatchedProcess { pid, role: Role::Client }],
            follow: false,
            names: BTreeMap::new(),
            tier: Tier::Lean,
            host: HostId(0),
            space: IdSpace(1),
            drain: Duration::from_millis(10),
            profile_alone: false,
            sink,
        }
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("command", &self.command).field("others", &self.others).finish_non_exhaustive()
    }
}

/// A recorder's summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finished {
    /// Events lost and not counted by any `lost` mark.
    pub dropped_events: u64,
    /// Attributes for `meta.json` (the recorder's cost, what it could not see, ...).
    pub attributes: Vec<(String, String)>,
    /// Notes for the user, one sentence each: shown after the run, kept in the recording.
    pub notes: Vec<String>,
}

impl Finished {
    /// Adds another recorder's summary: notes are joined, recorder times summed, other attributes keep the first
    /// value.
    pub(crate) fn add(&mut self, more: Finished) {
        self.dropped_events += more.dropped_events;
        self.notes.extend(more.notes);
        for (name, value) in more.attributes {
            match self.attributes.iter_mut().find(|(known, _)| *known == name) {
                None => self.attributes.push((name, value)),
                Some((_, known)) if name == "not_seen" => *known = format!("{known} {value}"),
                Some((_, known)) if name == "recorder.cpu_ns" => {
                    let sum = known.parse::<u64>().unwrap_or(0) + value.parse::<u64>().unwrap_or(0);
                    *known = sum.to_string();
                }
                Some(_) => {}
            }
        }
    }
}

/// A recorder.
pub(crate) trait Recorder: Send {
    /// Returns the name stored in `meta.json`: `bpf`, `preload`, `proc`.
    fn name(&self) -> &'static str;

    /// Returns variables to add to the command's environment.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    /// Returns the kernel map with its threads, for a second recorder; only after it has begun.
    fn threads(&self) -> Option<OwnedFd> {
        None
    }

    /// Passes on the threads of a recorder that has already begun.
    fn begins_beside(&mut self, _threads: Option<OwnedFd>) {}

    /// Begins recording. The command is held and has not run yet.
    fn begin(&mut self, watched: Watched) -> Result<(), RecordError>;

    /// Announces the end: [`Recorder::finish`] will be called after others have ended. Slow clean-up may begin now.
    fn end_soon(&mut self) {}

    /// Ends recording: everything that has happened goes to the sink.
    fn finish(&mut self) -> Result<Finished, RecordError>;
}

/// Why something was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The machine or its settings do not allow this recorder; the text says what would.
    #[error("{0}")]
    NotAllowed(String),
    /// The command cannot be run.
    #[error("{command}: {problem}")]
    Command {
        /// Its name, as given.
        command: String,
        /// The problem, and what to do.
        problem: String,
        /// The exit code that shells use: 127 not found, 126 not executable.
        exit_code: i32,
    },
    /// A file that a recorder reads or writes.
    #[error("{}: {problem}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// An invalid request; the text says what is valid.
    #[error("{0}")]
    Usage(String),
    /// The recorder itself failed.
    #[error("{0}")]
    Failed(String),
    /// The recording cannot be written.
    #[error(transparent)]
    Trace(#[from] thalweg_trace::TraceError),
}
