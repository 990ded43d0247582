//! Recorders: turn an unmodified program, a running process, or a packet capture into a trace.
//!
//! **In:** a command to run, processes to watch, or packets. **Out:** events in a [`thalweg_trace::Sink`], as
//! `SCHEMA.md` of the trace crate defines them; and how the command ended. **Never:** what an event means, or which
//! cause it is charged to; nor does a recorder change what the command does, even if the recorder fails.
//!
//! Several recorders fill the same tables: the kernel's tracepoints through BPF (`bpf`); a library preloaded into the
//! program together with /proc and socket diagnostics (`preload`, `proc`); packets (`capture`); stacks of whatever
//! runs, sampled by a clock (`profile`: of the whole machine, or without privilege of one's own programs); and where
//! that is not allowed, counts of CPUs and processes from /proc
//! (`counted`).

#![warn(unreachable_pub)]
// Without the kernel recorder, nothing uses some parts of the shared readers, and the compiler would warn of them.
#![cfg_attr(not(feature = "bpf"), allow(dead_code, unused_imports))]

mod also;
#[cfg(feature = "bpf")]
mod bpf;
pub mod capture;
mod command;
mod counted;
mod groups;
#[cfg(feature = "bpf")]
mod kernel;
mod mounted;
mod mpi;
mod perf;
mod preload;
pub mod probe;
mod proc;
mod profile;
mod quota;
mod recorder;
mod refusal;
mod run;
mod starting;
mod switches;
pub mod symbols;
mod user;

mod worker;

pub use command::Exit;
pub use mpi::{Implementation, Mpi, rank_here};
use recorder::{Finished, Recorder, Watched, WatchedProcess};
pub use recorder::{RecordError, Tier};
pub use run::{Method, Options, Outcome, Profile, UserStacks, run};
