//! perf events, without BPF: opening them, their ring, and its records.
//!
//! [`event`] opens events; [`ring`] maps an event's ring and reads it; [`records`] parses what the kernel writes there.
//! The kernel recorders use the events as clocks and counters; an ordinary user's recorder uses rings as well.

mod event;
mod records;
mod ring;

pub(crate) use event::{PerfEvent, SAMPLE_NS, SELDOM_NS, flags, online_processors, sample};
#[cfg(feature = "bpf")]
pub(crate) use event::{clock_event, function_event};
pub(crate) use records::{ID, Id, PerfRecord};
pub(crate) use ring::PerfRing;
