//! Verbs that run a command at many settings: at all of them, or at the few that lead to the fastest.

pub(super) mod sweep;
pub(super) mod tune;

use std::time::Duration;
use thalweg_base::numbers;
use thalweg_study::sweep::Choice;

/// Flags for what is done around each run of a sweep or a tuning.
#[derive(clap::Args)]
pub(super) struct RunFlags {
    /// Skip points for which this holds, like 'streams*block > 64Mi' or "mode == 'fast' && n > 2". May be repeated
    #[arg(long, value_name = "EXPR")]
    skip: Vec<String>,
    /// Run this before each run, untimed
    #[arg(long, value_name = "CMD")]
    prepare: Option<String>,
    /// Run this after each run, untimed, even if the run failed
    #[arg(long, value_name = "CMD")]
    cleanup: Option<String>,
    /// Keep this server running during the runs; its CPU time is counted too
    #[arg(long, value_name = "CMD", requires = "port")]
    server: Option<String>,
    /// The port on this machine, or address and port, that shows that the server is up
    #[arg(long, value_name = "[ADDR:]P", requires = "server")]
    port: Option<String>,
    /// Bytes that one run moves, for rates: a size, or a file whose size after the run counts
    #[arg(long, value_name = "SIZE|FILE")]
    bytes: Option<String>,
    /// Evict this file from the page cache before each run, and verify it
    #[arg(long, value_name = "FILE", conflicts_with = "warm")]
    cold: Vec<String>,
    /// Read this file into the page cache before each run, and verify it
    #[arg(long, value_name = "FILE")]
    warm: Vec<String>,
    /// Kill a run after this time: its setting counts as timed out, and the others continue
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = numbers::parse_duration)]
    timeout: Duration,
}

impl RunFlags {
    /// Returns a choice with these flags and defaults for the rest.
    fn choice(&self) -> Choice {
        Choice {
            skip: self.skip.clone(),
            prepare: self.prepare.clone(),
            cleanup: self.cleanup.clone(),
            server: self.server.clone(),
            port: self.port.clone(),
            bytes: self.bytes.clone(),
            cold: self.cold.clone(),
            warm: self.warm.clone(),
            timeout_s: self.timeout.as_secs_f64(),
            ..Choice::default()
        }
    }
}
