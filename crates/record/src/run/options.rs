//! Options of a run.

use crate::Tier;
use crate::mpi::Mpi;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The recorder to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The best that this machine allows: `Bpf`, otherwise `User`, otherwise `Preload` for a dynamically linked
    /// program, otherwise `Proc`.
    #[default]
    Auto,
    /// The kernel's tracepoints. Needs privilege.
    Bpf,
    /// Every switch of the user's own threads, the library's calls, and looks into /proc.
    User,
    /// A library in the program's processes; others are watched as by `Proc`.
    Preload,
    /// Samples of /proc every few milliseconds.
    Proc,
}

/// Whether to take a profile of the whole machine: the stack of whatever runs on each CPU, a thousand times a second.
/// Without privilege it is one of the user's own programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// No profile.
    #[default]
    No,
    /// Beside a recorder. Without privilege: of own programs alone.
    Beside,
    /// Alone, without a recorder. Without privilege, own programs are sampled, and the rest is counted from /proc; where
    /// not even that is allowed, everything is counted.
    Alone,
}

/// How a profile finds user frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserStacks {
    /// The kernel follows frame pointers: cheap, but code compiled without them shows only the innermost frames.
    #[default]
    FramePointers,
    /// The top of each stack is copied, and unwound with the tables of the mapped files.
    Dwarf {
        /// Bytes copied per stack, at most 64 KiB.
        stack_bytes: u32,
    },
}

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command's words; empty to watch only other processes.
    pub command: Vec<OsString>,
    /// Other processes: process id, command name, listening port, or a path in a mounted store.
    pub also: Vec<String>,
    /// Also watch the mounts of stores that the command works in, and their servers on this machine.
    pub also_mounts: bool,
    /// Record only the command and what `also` names, not the local processes they interact with.
    pub only: bool,
    /// Watch the processes that listen on `ports`, as servers; without a command.
    pub server: bool,
    /// The ports of `server`.
    pub ports: Vec<u16>,
    /// Level of detail.
    pub tier: Tier,
    /// The recorder to use.
    pub method: Method,
    /// Whether to take a profile; it covers the whole machine, so it needs neither a command nor processes to watch.
    pub profile: Profile,
    /// How the profile finds user frames.
    pub user_stacks: UserStacks,
    /// The option that needs a profile's samples (`-o page.html`): without privilege for them, nothing is recorded.
    pub samples_for: Option<String>,
    /// Events for a profile to count, named as in perf. Empty: the CPU's default ones, if it has them.
    pub events: Vec<String>,
    /// Path of the recording: must not exist, or be an empty directory.
    pub output: PathBuf,
    /// Maximum disk space of the recording while it is made.
    pub limit_bytes: u64,
    /// Ends the recording after this time. The command continues, and is waited for.
    pub duration: Option<Duration>,
    /// Interval at which events are fetched.
    pub drain: Duration,
    /// This machine's node label; `None`: `THALWEG_NODE`, otherwise the host name.
    pub node: Option<String>,
    /// Called once everything is watched; without a command, processes waiting for the recording may start.
    pub begun: Option<fn()>,
    /// Measured ceilings: a JSON object of names (`device.vda.read`, `path.A>B`) and bytes per second.
    pub ceilings: Option<PathBuf>,
    /// Whether to record MPI calls of the command's ranks.
    pub mpi: Option<Mpi>,
    /// Record command words that look like secrets unchanged.
    pub keep_command: bool,
    /// The recording is read once and not kept: no tables are made of a small one.
    pub read_once: bool,
}

impl Options {
    /// Creates options to record `command` into `output`, with defaults that suit most runs.
    pub fn new(command: Vec<OsString>, output: PathBuf) -> Options {
        Options {
            command,
            also: Vec::new(),
            also_mounts: true,
            only: false,
            server: false,
            ports: Vec::new(),
            tier: Tier::default(),
            method: Method::default(),
            profile: Profile::default(),
            user_stacks: UserStacks::default(),
            samples_for: None,
            events: Vec::new(),
            output,
            limit_bytes: 4 << 30,
            duration: None,
            drain: Duration::from_millis(10),
            node: None,
            begun: None,
            ceilings: None,
            mpi: None,
            keep_command: false,
            read_once: false,
        }
    }
}

impl Options {
    /// Creates options for a profile without a recorder: of `command`; otherwise, for `duration`, of everything that
    /// runs. A server on `ports`, or processes in `also`, are marked as the profile's subject.
    pub fn profile(command: Vec<OsString>, also: Vec<String>, ports: Vec<u16>, duration: Option<Duration>, output: PathBuf) -> Options {
        let server = !ports.is_empty();
        Options { profile: Profile::Alone, also, server, ports, duration, ..Options::new(command, output) }
    }

    /// Whether the run has no particular process to record.
    pub(super) fn is_of_everything(&self) -> bool {
        self.profile != Profile::No && self.command.is_empty() && self.also.is_empty() && !self.server
    }
}
