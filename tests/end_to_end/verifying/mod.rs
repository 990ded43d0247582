//! Verification of a change: several runs, conditions, two runs compared.

mod diff;
mod fail_if;
mod runs;
mod trying;

/// Emulated devices that a serial copy waits for alternately, so that a change of flags is proposed on any machine: slow even against a
/// contended CPU.
const SLOW: &[&str] = &["--emulate", "disk=20MiB/s,link=200Mb/s,rtt=0.2ms"];

/// The bytes copied to them: one second's worth.
const SLOW_COPY_BYTES: usize = 8 << 20;
