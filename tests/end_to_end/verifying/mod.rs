//! What shows that a change worked: several runs, conditions, two runs held against each other.

mod diff;
mod fail_if;
mod runs;
mod trying;

/// Devices that a serial copy waits for in turn, on any machine, so that a change of flags is proposed however busy it is: slow beside what a
/// processor takes that others want, too.
const SLOW: &[&str] = &["--emulate", "disk=20MiB/s,link=200Mb/s,rtt=0.2ms"];

/// What is copied to them: a second's worth.
const SLOW_COPY_BYTES: usize = 8 << 20;
