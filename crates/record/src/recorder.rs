//! What all recorders have in common: whom they watch, into what they write, and how they end.
//!
//! The order is always the same. The command's process exists but has not yet called `execve`: it is held by the
//! runner. [`Recorder::begin`] takes hold of it and of the other processes to watch; the runner lets it go; it ends;
//! [`Recorder::finish`] hands over what is left. Between the two a recorder works on threads of its own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_trace::{HostId, IdSpace, Role, Sink};

/// How much is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// Scheduler, block, socket and TCP events; no system calls. What a run can bear always.
    #[default]
    Lean,
    /// A span per system call, or per run of like calls that never blocked.
    Syscall,
}

/// A process to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchedProcess {
    /// Its number.
    pub pid: u32,
    /// On whose behalf it works: `Client` for the command, `Server` for one that listens, else `Client`.
    pub role: Role,
}

/// Whom to watch, and where events go.
#[derive(Clone)]
pub(crate) struct Watched {
    /// The command, held before `execve`; `None` when only others are watched.
    pub command: Option<WatchedProcess>,
    /// The file that the command will execute, where that is known.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code))]
    pub executable: Option<PathBuf>,
    /// Other processes; all their threads, and what they start from now on.
    pub others: Vec<WatchedProcess>,
    /// Processes that a recorded thread deals with on this machine are recorded too; only the kernel recorder can.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code))]
    pub follow: bool,
    /// What processes are called instead of by their command's name, by number.
    pub names: BTreeMap<u32, String>,
    /// How much; only the kernel recorder has a choice.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code))]
    pub tier: Tier,
    /// The number of this machine in the recording.
    pub host: HostId,
    /// Identifiers that the recorder may give.
    pub space: IdSpace,
    /// How often events are fetched from the kernel or from the command; zero: without a pause.
    pub drain: Duration,
    /// It is a profile, and no other recorder tells of the threads.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code))]
    pub profile_alone: bool,
    /// Where events go.
    pub sink: Arc<dyn Sink>,
}

#[cfg(test)]
impl Watched {
    /// One process, which is there.
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

/// What a recorder says when it has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finished {
    /// Events lost that no `lost` mark counts.
    pub dropped_events: u64,
    /// Name and value, for `meta.json` (the recorder's own cost, what it could not see, ...).
    pub attributes: Vec<(String, String)>,
    /// What a person should know, one sentence each: shown after the run, kept in the recording.
    pub notes: Vec<String>,
}

impl Finished {
    /// Adds what another recorder says: sentences are joined, times of the recorders summed, anything else is the first one's.
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

/// One way to record.
pub(crate) trait Recorder: Send {
    /// What stands in `meta.json`: `bpf`, `preload`, `proc`.
    fn name(&self) -> &'static str;

    /// What the command's environment must have in addition.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    /// The kernel's map in which it keeps its threads, for another recorder that is to begin beside it; of one that has begun.
    fn threads(&self) -> Option<OwnedFd> {
        None
    }

    /// Another recorder works already: these are its threads.
    fn begins_beside(&mut self, _threads: Option<OwnedFd>) {}

    /// Begins. The command is held and has not run yet.
    fn begin(&mut self, watched: Watched) -> Result<(), RecordError>;

    /// Ends soon: [`Recorder::finish`] will be called when others have ended too. What takes long may begin now.
    fn end_soon(&mut self) {}

    /// Ends: everything that happened until now goes to the sink.
    fn finish(&mut self) -> Result<Finished, RecordError>;
}

/// Why something was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The machine, or its owner, does not allow this recorder; what would is in the text.
    #[error("{0}")]
    NotAllowed(String),
    /// The command cannot be run.
    #[error("{command}: {problem}")]
    Command {
        /// As it was given.
        command: String,
        /// What is wrong, and what to do.
        problem: String,
        /// The exit code that shells use for it: 127 not found, 126 not executable.
        exit_code: i32,
    },
    /// A file that is read or written by a recorder.
    #[error("{}: {problem}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// What was asked for makes no sense; the text says what would.
    #[error("{0}")]
    Usage(String),
    /// The recorder itself failed.
    #[error("{0}")]
    Failed(String),
    /// The recording cannot be written.
    #[error(transparent)]
    Trace(#[from] thalweg_trace::TraceError),
}
