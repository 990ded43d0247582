//! Shared by the recorders in the kernel (`bpf`, `profile`), and independent of both.
//!
//! - [`probe`], [`types`], [`tracepoints`]: what the kernel allows and provides; [`object`]: loading programs;
//!   [`cost`]: their cost;
//! - [`ring`]: the ring that they fill; [`reader`]: the thread that drains it; [`clock`]: the clock of its records.

pub(crate) mod clock;
pub(crate) mod cost;
pub(crate) mod object;
pub(crate) mod probe;
pub(crate) mod reader;
pub(crate) mod ring;
pub(crate) mod tracepoints;
pub(crate) mod types;
