//! `thalweg lot create`.

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
    /// How much is reserved
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = numbers::parse_size)]
    size: u64,
    /// For how long, from now, like 90min, 12h or 7d
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, value_parser = numbers::parse_term)]
    term: Duration,
    /// Whose it is to be (default: your credential's owner); another's only with the store's own credential
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Let it grow beyond its size while there is room; otherwise what is beyond is refused (EDQUOT)
    #[arg(long)]
    elastic: bool,
    /// Refuse less than this hold on the space (default: the best that each target offers)
    #[arg(long, value_enum, value_name = "LEVEL")]
    level: Option<LeastLevel>,
    /// Reserve on these targets (default: on all, evenly)
    #[arg(long, value_name = "N,N...", value_delimiter = ',')]
    targets: Vec<u32>,
    /// End it when this process of this machine ends; what is in it stays, as after `lot renew --for 0`
    #[arg(long = "while", value_name = "PID", conflicts_with = "job")]
    process: Option<i32>,
    /// End it when this Slurm job ends
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Print what it is as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// How the space is held against other programs on the same disks.
#[derive(Clone, Copy, clap::ValueEnum)]
enum LeastLevel {
    /// The store has the file systems to itself
    Own,
    /// ext4's reserved blocks: unprivileged programs cannot take it
    Kernel,
    /// A preallocated file keeps it, best effort
    Ballast,
    /// The store itself gives it to nobody else
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

/// Reserves.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // A lot is not made for a process that is not there.
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
        text.push_str(&format!("process {pid} ends it with {}\n", what(arguments)));
    }
    output::result(&text)
}

fn what(arguments: &Arguments) -> String {
    match (arguments.process, &arguments.job) {
        (Some(process), _) => format!("process {process}"),
        (None, job) => format!("job {}", job.as_deref().unwrap_or("?")),
    }
}
