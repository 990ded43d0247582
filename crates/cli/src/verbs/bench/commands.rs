//! `thalweg bench commands`: whole commands, one beside the other.

use super::results::Telling;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use std::path::PathBuf;
use thalweg_measure::{CommandPlan, Error};

/// Arguments of `thalweg bench commands`.
#[derive(clap::Args)]
#[command(after_help = "\
The plan is a JSON object:
  name               what is measured
  commands           each {name, command: [WORD...]}, and where it needs them
    prepare, cleanup   commands ([[WORD...]...]) before and after it, untimed; a cleanup that fails fails the run
    cold, warm         files to be out of the page cache, or in it, before each run, which the kernel is asked to confirm
    amount             what one run moves, for rates: {count, unit}, like {\"count\": 268435456, \"unit\": \"bytes\"}
  repeat             {least, most, narrow, seconds}: at least and at most so often; between, until the interval of each ratio is
                     narrower than this part of it, and no longer than this (10, 40, 0.05, no limit)
  warm_up            run each once before anything counts (true)
  before_repetition  commands that are run before each repetition
  keep_output        keep what commands print with each run (false)
  limit_s            after so long a command is killed, and has failed (300)
  directory          a path whose file system is described with the machine
  seed               of the order, which is shuffled anew for each repetition (0)
In each word {run} stands for the repetition (0: the warm-up) and {name} for the command's name.

  {\"name\": \"copy\", \"baseline\": \"thalweg\", \"commands\": [
    {\"name\": \"thalweg\", \"command\": [\"thalweg\", \"cp\", \"a\", \"thal://h:4000/a-{run}\"], \"warm\": [\"a\"]},
    {\"name\": \"cp\", \"command\": [\"cp\", \"a\", \"/mnt/a-{run}\"], \"warm\": [\"a\"], \"cleanup\": [[\"rm\", \"/mnt/a-{run}\"]]}]}")]
pub(super) struct Arguments {
    /// What to measure
    #[arg(value_name = "PLAN.json")]
    plan: PathBuf,
    /// Keep every run here, as soon as it is known
    #[arg(long, value_name = "LOG")]
    raw: Option<PathBuf>,
    /// Go on with the runs in --raw
    #[arg(long, requires = "raw")]
    resume: bool,
    /// Print the result as JSON instead of Markdown
    #[arg(long)]
    json: bool,
}

/// Measures.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::failed(format!("{}: {e}", arguments.plan.display()));
    let text = std::fs::read_to_string(&arguments.plan).map_err(|e| failed(&e))?;
    let plan: CommandPlan = serde_json::from_str(&text).map_err(|e| failed(&e))?;
    let log = arguments.raw.as_deref().map(|path| (path, arguments.resume));
    let outcome = plan.run(log, &Telling(Interrupt::listen()?)).map_err(|error| match error {
        Error::Stopped => Failure::Interrupted(error.to_string()),
        error => Failure::failed(error),
    })?;
    output::result(&if arguments.json { outcome.json() } else { outcome.markdown() })
}
