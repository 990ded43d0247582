//! What the recorders in the kernel (`bpf`, `profile`) have in common. It knows neither of them.
//!
//! - [`probe`], [`types`], [`tracepoints`]: what the kernel allows and has; [`object`]: programs, and how they get into it; [`cost`]: what they cost;
//! - [`ring`]: the ring that they fill; [`reader`]: the thread that empties it; [`clock`]: the clock of what is in it; [`perf`]: events of perf, and the clock that samples.

pub(crate) mod clock;
pub(crate) mod cost;
pub(crate) mod object;
pub(crate) mod perf;
pub(crate) mod probe;
pub(crate) mod reader;
pub(crate) mod ring;
pub(crate) mod tracepoints;
pub(crate) mod types;
