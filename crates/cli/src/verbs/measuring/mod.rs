//! Commands run at many settings: all of them, or the few that lead to the best.

pub(super) mod sweep;
pub(super) mod tune;

use std::time::Duration;
use thalweg_base::numbers;
use thalweg_study::sweep::Choice;

/// What is around a run, as sweeps and tunings take it.
#[derive(clap::Args)]
pub(super) struct RunFlags {
    /// Leave out points at which this holds, like 'streams*block > 64Mi' or "mode == 'fast' && n > 2"; may be repeated
    #[arg(long, value_name = "EXPR")]
    skip: Vec<String>,
    /// Run this before each run, untimed
    #[arg(long, value_name = "CMD")]
    prepare: Option<String>,
    /// Run this after each run, untimed, whatever came of it
    #[arg(long, value_name = "CMD")]
    cleanup: Option<String>,
    /// Have this server up meanwhile; its processor time is counted too
    #[arg(long, value_name = "CMD", requires = "port")]
    server: Option<String>,
    /// The port of this machine, or the address and port, by which the server is known to be up
    #[arg(long, value_name = "[ADDR:]P", requires = "server")]
    port: Option<String>,
    /// What one run moves, for rates: a size, or a file that has it after the run
    #[arg(long, value_name = "SIZE|FILE")]
    bytes: Option<String>,
    /// Put this file out of the page cache before each run, and verify that it is
    #[arg(long, value_name = "FILE", conflicts_with = "warm")]
    cold: Vec<String>,
    /// Read this file into the page cache before each run, and verify that it is
    #[arg(long, value_name = "FILE")]
    warm: Vec<String>,
    /// Kill a run after this time: that setting has timed out, and the others go on
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = numbers::parse_duration)]
    timeout: Duration,
}

impl RunFlags {
    /// A choice with these; the rest is as it is by default.
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
