//! Recorders: what turns an unmodified program, a process at work, or a packet capture into a trace.
//!
//! **In:** a command to run, processes to watch, or packets. **Out:** events in a [`thalweg_trace::Sink`], as
//! `SCHEMA.md` of the trace crate says; and how the command ended. **Never:** what an event means, or which cause it
//! is charged to; nor does a recorder change what the command does, also when the recorder fails.
//!
//! Four recorders fill the same tables: the kernel's tracepoints through BPF (`bpf`), a library preloaded into
//! the program together with what /proc and socket diagnostics say (`preload`, `proc`), packets (`capture`), and the stack of whatever runs,
//! taken by a clock (`profile`); where that is not allowed, what /proc counts of processors and processes (`counted`).

#![warn(unreachable_pub)]

mod also;
#[cfg(feature = "bpf")]
mod bpf;
pub mod capture;
mod command;
mod counted;
#[cfg(feature = "bpf")]
mod kernel;
mod mounted;
mod mpi;
mod preload;
pub mod probe;
mod proc;
#[cfg(feature = "bpf")]
mod profile;
mod quota;
mod recorder;
mod run;
pub mod symbols;
mod worker;

pub use command::Exit;
pub use mpi::{Implementation, Mpi, rank_here};
use recorder::{Finished, Recorder, Watched, WatchedProcess};
pub use recorder::{RecordError, Tier};
pub use run::{Method, Options, Outcome, Profile, UserStacks, run};
