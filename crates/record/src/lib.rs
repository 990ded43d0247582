//! Recorders: what turns an unmodified program, a process at work, or a packet capture into a trace.
//!
//! **In:** a command to run, processes to watch, or packets. **Out:** events in a [`thalweg_trace::Sink`], as
//! `SCHEMA.md` of the trace crate says; and how the command ended. **Never:** what an event means, or which cause it
//! is charged to; nor does a recorder change what the command does, also when the recorder fails.
//!
//! Three recorders fill the same tables: the kernel's tracepoints through BPF (`bpf`), a library preloaded into
//! the program together with what /proc and socket diagnostics say (`preload`, `proc`), and packets (`capture`).

pub mod also;
#[cfg(feature = "bpf")]
pub mod bpf;
pub mod capture;
pub mod command;
pub mod mounted;
pub mod mpi;
pub mod preload;
pub mod probe;
pub mod proc;
pub mod quota;
pub mod recorder;
pub mod run;
mod worker;

pub use command::Exit;
pub use recorder::{Finished, RecordError, Recorder, Tier, Watched, WatchedProcess};
pub use run::{Method, Options, Outcome, run};
