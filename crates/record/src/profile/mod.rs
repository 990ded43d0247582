//! Profiles: stacks of what runs, at a fixed period.
//!
//! [`machine`] takes the stack of whatever runs on each CPU, recorded or not; [`own`] takes those of the user's own
//! programs, outside the kernel, without privilege. They share how stacks become frames with names.
//!
//! A stack consists of addresses, which are resolved in two steps. While recording, a program's address becomes a file
//! and offset, because the process may be gone later: mappings come from perf's own records (short-lived processes are
//! never queried), and from `/proc/PID/maps` for older processes. Names are looked up at the end
//! ([`crate::symbols`]), never while recording.
//!
//! Rejected: build identifiers taken with each stack (4.5 µs each, and no path); a table of raw addresses resolved at
//! the end (two thousand short processes would each keep theirs).
//!
//! - [`machine`]: the recorder of the whole machine; [`raw`], [`load`]: its records, and its programs; [`drain`]: its
//!   reader thread; [`processors`]: idle, interrupts, steal; [`counts`]: CPU event counters beside the samples;
//! - [`own`]: the recorder of the user's own programs;
//! - [`events`]: perf's records of mappings, forks and exits;
//! - [`spaces`], [`modules`]: address spaces, and mapped files;
//! - [`resolve`]: addresses to stacks; [`stacks`]: each stack once; [`tracks`]: one track per thread, even if another
//!   recorder has it;
//! - [`copied`], [`unwind`], [`tables`]: user frames from copied stacks;
//! - [`name`]: frames as text; [`leaves`]: addresses of another recorder's samples.

mod copied;
#[cfg(feature = "bpf")]
mod counts;
#[cfg(feature = "bpf")]
mod drain;
mod events;
#[cfg(feature = "bpf")]
mod leaves;
#[cfg(feature = "bpf")]
mod load;
#[cfg(feature = "bpf")]
mod machine;
mod modules;
mod name;
mod own;
#[cfg(feature = "bpf")]
mod processors;
#[cfg(feature = "bpf")]
mod raw;
mod resolve;
mod spaces;
mod stacks;
mod tables;
mod tracks;
mod unwind;
#[cfg(test)]
mod unwind_tests;
#[cfg(all(test, feature = "bpf"))]
mod wait_tests;

#[cfg(feature = "bpf")]
pub(crate) use leaves::Leaves;
#[cfg(feature = "bpf")]
pub(crate) use machine::ProfileRecorder;
pub(crate) use own::OwnRecorder;
pub(crate) use tracks::SharedTracks;
