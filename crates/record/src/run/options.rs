//! What a run records, and how.

use crate::Tier;
use crate::mpi::Mpi;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Which recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The best one this machine allows: `Bpf`, else `Preload` for a dynamic program, else `Proc`.
    #[default]
    Auto,
    /// The kernel's tracepoints. Needs privilege.
    Bpf,
    /// A library in the program's processes; others are watched as by `Proc`.
    Preload,
    /// Samples of /proc every few milliseconds.
    Proc,
}

/// Whether a profile of the whole machine is taken: the stack of what runs on each processor, a thousand times a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// None.
    #[default]
    No,
    /// Beside everything else. Needs privilege.
    Beside,
    /// Alone: no other recorder works. Without privilege there are no samples, and what /proc counts is recorded instead.
    Alone,
}

/// How a profile finds the frames of programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserStacks {
    /// The kernel follows their frame pointers: cheap, and of code that was compiled without them no more than the innermost frames.
    #[default]
    FramePointers,
    /// So much of the top of each stack is copied, and followed by the unwind tables of the files that are mapped.
    Dwarf {
        /// At most 64 KiB.
        stack_bytes: u32,
    },
}

/// What to record, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command's words; empty: none, only others are watched.
    pub command: Vec<OsString>,
    /// Other processes: number, command name, port they listen on, or a path in a mounted store.
    pub also: Vec<String>,
    /// Also watch the mounts of stores that the command works in, and who serves them here.
    pub also_mounts: bool,
    /// Record the command and what `also` names alone: nobody that they have to do with on this machine.
    pub only: bool,
    /// Watch who listens on `ports`, as servers; without a command.
    pub server: bool,
    /// The ports of `server`.
    pub ports: Vec<u16>,
    /// How much is recorded.
    pub tier: Tier,
    /// With what.
    pub method: Method,
    /// Whether a profile is taken; then there need be neither a command nor anybody to watch: it is of the whole machine.
    pub profile: Profile,
    /// How it finds the frames of programs.
    pub user_stacks: UserStacks,
    /// What a profile must have samples for (`-o page.html`): without the privilege for them, nothing is recorded.
    pub samples_for: Option<String>,
    /// Events that a profile counts besides: names as perf has them. Empty: those of the processor, where it has them.
    pub events: Vec<String>,
    /// Where the recording is made: must not exist, or be an empty directory.
    pub output: PathBuf,
    /// The most it may take on disk while it is made.
    pub limit_bytes: u64,
    /// Ends the recording after this time. A command goes on, and is waited for.
    pub duration: Option<Duration>,
    /// How often events are fetched.
    pub drain: Duration,
    /// The label of this machine; `None`: `THALWEG_NODE`, else the host's name.
    pub node: Option<String>,
    /// Called once everything is watched: without a command, those who wait may now begin.
    pub begun: Option<fn()>,
    /// Measured ceilings: a JSON object of names (`device.vda.read`, `path.A>B`) and bytes per second.
    pub ceilings: Option<PathBuf>,
    /// MPI calls of the command's ranks too.
    pub mpi: Option<Mpi>,
    /// Words of the command that look like secrets are recorded as they are.
    pub keep_command: bool,
    /// The recording is read once and not kept: no tables are made of a small one.
    pub read_once: bool,
}

impl Options {
    /// Records `command` into `output`, with everything else as it is best for most.
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
    /// Takes a profile and records nothing else: around `command`; else for `duration`, of everything that runs. A server on `ports`, or what
    /// `also` names, is marked as what the profile is about.
    pub fn profile(command: Vec<OsString>, also: Vec<String>, ports: Vec<u16>, duration: Option<Duration>, output: PathBuf) -> Options {
        let server = !ports.is_empty();
        Options { profile: Profile::Alone, also, server, ports, duration, ..Options::new(command, output) }
    }

    /// Whether there is nobody in particular to record.
    pub(super) fn is_of_everything(&self) -> bool {
        self.profile != Profile::No && self.command.is_empty() && self.also.is_empty() && !self.server
    }
}
