//! `thalweg lot create`: reserves space.

use super::ending::{self, End};
use super::report;
use crate::operand::StoreFlags;
use crate::{failure::Failure, lots, output};
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_wire::protocol::io::TargetId;
use thalweg_wire::protocol::lots::{Level, LotOperation};

/// Arguments of `thalweg lot create`.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Its name: 1 to 63 letters, digits, dots, dashes and underscores
    name: String,
    /// Size to reserve
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = numbers::parse_size)]
    size: u64,
    /// Term from now, like 90min, 12h or 7d
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, value_parser = numbers::parse_term)]
    term: Duration,
    /// The lot's owner (default: the owner of your credential); naming another owner needs the store's own credential
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Let the lot grow beyond its size while there is space; without this, writes beyond its size fail with EDQUOT
    #[arg(long)]
    elastic: bool,
    /// Minimum level of the reservation (default: the best that each target offers)
    #[arg(long, value_enum, value_name = "LEVEL")]
    level: Option<LeastLevel>,
    /// Targets to reserve on (default: all, evenly)
    #[arg(long, value_name = "N,N...", value_delimiter = ',')]
    targets: Vec<u32>,
    /// Expire the lot when this process on this machine ends; its files stay, as after `lot renew --for 0`
    #[arg(long = "while", value_name = "PID", conflicts_with = "job")]
    process: Option<i32>,
    /// Expire the lot when this Slurm job ends
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Print the lot as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// The protection of the space from other programs on the same disks.
#[derive(Clone, Copy, clap::ValueEnum)]
enum LeastLevel {
    /// Only the store uses the file systems
    Own,
    /// ext4's reserved blocks hold the space: unprivileged programs cannot take it
    Kernel,
    /// A preallocated file holds the space, best effort
    Ballast,
    /// The store gives the space to no other lot, but other programs can take it
    Admission,
}

impl LeastLevel {
    fn of_lot(self) -> Level {
        match self {
            LeastLevel::Own => Level::Own,
            LeastLevel::Kernel => Level::Kernel,
            LeastLevel::Ballast => Level::Ballast,
            LeastLevel::Admission => Level::Admission,
        }
    }
}

/// Creates the lot.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // Checked first: no lot is made for a process that does not exist.
    let end = match (arguments.process, &arguments.job) {
        (Some(process), _) => Some(End::of_process(process)?),
        (None, Some(job)) => Some(End::of_job(job)?),
        (None, None) => None,
    };
    let (session, name) = lots::connect(&arguments.name, &arguments.store)?;
    let operation = LotOperation::Create {
        name,
        owner: arguments.owner.clone(),
        size_bytes: arguments.size,
        for_ns: super::change::nanoseconds(arguments.term),
        elastic: arguments.elastic,
        least: arguments.level.map(LeastLevel::of_lot),
        targets: arguments.targets.iter().map(|target| TargetId(*target)).collect(),
    };
    let report = lots::one(lots::asked(&session, operation)?)?;
    let watcher = end.map(|end| ending::watch(end, &arguments.name, &report.lot, &arguments.store)).transpose()?;
    if arguments.json {
        return output::json(&report::Document::of(&report).with_watcher(watcher));
    }
    let mut text = report::line(&lots::Lot::of(&report)) + "\n";
    if let Some(level) = lots::level_of(&report) {
        text.push_str(&format!("level {}: {}\n", level.name(), lots::level_meaning(level)));
    }
    if let Some(pid) = watcher {
        text.push_str(&format!("process {pid} expires it with {}\n", what(arguments)));
    }
    output::result(&text)
}

fn what(arguments: &Arguments) -> String {
    match (arguments.process, &arguments.job) {
        (Some(process), _) => format!("process {process}"),
        (None, job) => format!("job {}", job.as_deref().unwrap_or("?")),
    }
}
