//! What shows that a change worked: several runs, conditions, two runs held against each other.

mod diff;
mod fail_if;
mod runs;
mod trying;

/// Devices that a serial copy waits for in turn, on any machine: so a change of flags is proposed however busy it is.
const SLOW: &[&str] = &["--emulate", "disk=100MiB/s,link=1Gb/s,rtt=0.2ms"];
