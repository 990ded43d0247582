//! `thalweg bench commands`: compares the run time of whole commands.

use super::results::ProgressLine;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use std::path::PathBuf;
use thalweg_measure::{CommandPlan, Error};

/// Arguments of `thalweg bench commands`.
#[derive(clap::Args)]
#[command(after_help = "\
The plan is a JSON object:
  name               name of the measurement
  commands           each {name, command: [WORD...]}, and optionally
    prepare, cleanup   commands ([[WORD...]...]) before and after it, untimed
    cold, warm         files to evict from the page cache, or to read into it, before each run (verified)
    figures            names of numbers to compare besides the wall time: the command's output,
                       or its last line, is a JSON object that has them
  baseline           the name of the command that the others are compared with
  pairs              further comparisons: [[NAME, NAME]...]
  amount             what one run moves, for rates: {\"count\": 268435456, \"unit\": \"bytes\"}
  repeat             {least, most, narrow, seconds}: minimum and maximum number of repetitions;
                     in between, it stops when the interval of each ratio is narrower than this
                     part of the ratio, or after this time (10, 40, 0.05, no limit)
  warm_up            run each command once before the measured runs (true)
  before_repetition  commands to run before each repetition
  keep_output        keep the output of commands with each run (false)
  limit_s            seconds after which a command is killed and counts as failed (300)
  directory          a path whose file system is described with the machine
  seed               of the order, which is shuffled anew for each repetition (0)
In each word, {run} is the repetition (0: the warm-up) and {name} the command's name.

  {\"name\": \"copy\", \"baseline\": \"thalweg\", \"commands\": [
    {\"name\": \"thalweg\", \"warm\": [\"a\"],
     \"command\": [\"thalweg\", \"cp\", \"a\", \"thal://h:4000/a-{run}\"]},
    {\"name\": \"cp\", \"warm\": [\"a\"], \"command\": [\"cp\", \"a\", \"/mnt/a-{run}\"],
     \"cleanup\": [[\"rm\", \"/mnt/a-{run}\"]]}]}")]
pub(super) struct Arguments {
    /// The plan, as JSON
    #[arg(value_name = "PLAN.json")]
    plan: PathBuf,
    /// Append every run to this log as soon as it ends
    #[arg(long, value_name = "LOG")]
    raw: Option<PathBuf>,
    /// Resume from the runs in --raw
    #[arg(long, requires = "raw")]
    resume: bool,
    /// Print the result as JSON instead of Markdown
    #[arg(long)]
    json: bool,
}

/// Runs the measurement.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::failed(format!("{}: {e}", arguments.plan.display()));
    let text = std::fs::read_to_string(&arguments.plan).map_err(|e| failed(&e))?;
    let plan: CommandPlan = serde_json::from_str(&text).map_err(|e| failed(&e))?;
    let log = arguments.raw.as_deref().map(|path| (path, arguments.resume));
    let outcome = plan.run(log, &ProgressLine(Interrupt::listen()?)).map_err(|error| match error {
        Error::Stopped => Failure::Interrupted(error.to_string()),
        error => Failure::failed(error),
    })?;
    output::result(&if arguments.json { outcome.json() } else { thalweg_report::study::commands(&outcome) })
}
