//! `thalweg sweep`: runs a command at every point of a grid. `study` does the runs, the log and the result, `report` the text and the
//! page; this file has the flags and writes the files.

use super::super::bench::results::{ProgressLine, put};
use super::RunFlags;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use std::path::{Path, PathBuf};
use thalweg_base::numbers;
use thalweg_report::study::sweep as shown;
use thalweg_study::sweep::{Choice, Document, Explain, Surroundings, Sweep, diff};

/// Arguments of `thalweg sweep`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "thalweg sweep --vary NAME=VALUES... [OPTIONS] -- COMMAND [ARGUMENTS]...\n       thalweg sweep [OPTIONS] PLAN.toml\n       thalweg sweep diff BEFORE.json AFTER.json"
)]
#[command(after_help = "\
Values: 1,2,4 | fast,slow | 1..10:+3 (1 4 7 10) | 64Ki..16Mi:x4 (64Ki 256Ki 1Mi 4Mi 16Mi). A value with Ki, Mi or Gi is \
passed to the command as a number of bytes.

In the command and in all templates {NAME} is replaced by the parameter's value and {run} by a number unique to the run (for a fresh \
file in each run); {{NAME}} stands for the text {NAME} itself. The command is started directly, without a shell: for pipes write \
-- sh -c '...'. --prepare and --cleanup are run by sh -c, untimed; --server's command is started without a shell, once for each \
change of the parameters in it, and must stay in the foreground.

Each repetition runs every point once, in its own random order; the first run of each point is a warm-up and not counted. Times come \
from unrecorded runs; --explain once records one further run of each point, to show where its time goes.

Results: NAME.runs.jsonl (every run, as soon as it ends), NAME.json, NAME.parquet (a row for each run), NAME.html. --continue resumes \
an interrupted sweep.

--ceiling takes a rate, or a command that moves --bytes as fast as the hardware allows (--ceiling 'cp /data/big /dev/null'): it is \
started without a shell like the command, may contain {NAME} and {run}, and is run interleaved with the points.

A plan file has the same settings as the flags: vary, skip, cold, warm and command are lists of strings; prepare, cleanup, server, port, \
bytes and ceiling (a command) strings; repeat, profile, sample and seed numbers; timeout_s seconds; narrow a fraction; explain \"every\", \
\"once\" or \"never\"; ceiling_bytes_per_s a number.

  thalweg sweep --vary level=1,6,9 --vary size=1Mi,16Mi --prepare 'head -c {size} /dev/urandom > /tmp/in' \\
    --bytes '{size}' --cleanup 'rm -f /tmp/in /tmp/in.gz' -o gzip -- gzip -k -{level} /tmp/in")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    /// A plan file, instead of flags
    #[arg(value_name = "PLAN.toml", conflicts_with_all = ["vary", "command"])]
    plan: Option<PathBuf>,
    /// A parameter and its values. May be repeated: every combination is run
    #[arg(long, value_name = "NAME=VALUES")]
    vary: Vec<String>,
    #[command(flatten)]
    around: RunFlags,
    /// Maximum number of counted runs of each point
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = numbers::parse_count)]
    repeat: u32,
    /// After five runs, stop running a point once its interval is narrower than this fraction of its median
    #[arg(long, value_name = "PART", default_value_t = 0.02)]
    narrow: f64,
    /// Run only N points that cover the grid evenly (a Latin hypercube sample)
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// How often to record and explain runs: one recorded run for every counted run, one for each point, or none
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = When::Once)]
    explain: When,
    /// Profile the whole machine during every K-th recorded run of a point (default: every one). Needs privilege
    #[arg(long, value_name = "K", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = numbers::parse_count)]
    profile: Option<u32>,
    /// Ceiling of the hardware, drawn in the plots of rates: a rate, or a command that is measured alternately with the points
    #[arg(long, value_name = "RATE|CMD")]
    ceiling: Option<String>,
    /// Random seed for the orders and the sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Resume from the runs in the log
    #[arg(long = "continue")]
    go_on: bool,
    /// Print the commands, the number of runs, and the time expected from an earlier log of this plan; run nothing
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: run one point once to estimate the total time
    #[arg(long, requires = "dry_run")]
    try_one: bool,
    /// Print the result as JSON instead of text
    #[arg(long)]
    json: bool,
    /// Path of the results, without extension
    #[arg(short, long, value_name = "NAME", default_value = "sweep")]
    output: PathBuf,
    /// The command, with {NAME} where a value is to be inserted
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Subcommands of `thalweg sweep`.
#[derive(clap::Subcommand)]
enum Other {
    /// Compare two sweeps point by point
    Diff {
        /// NAME.json of the earlier sweep
        before: PathBuf,
        /// NAME.json of the later sweep
        after: PathBuf,
        /// Print the comparison as JSON
        #[arg(long)]
        json: bool,
    },
}

/// How often runs are recorded.
#[derive(Clone, Copy, clap::ValueEnum)]
enum When {
    Every,
    Once,
    Never,
}

/// Runs a sweep, or compares two.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(Other::Diff { before, after, json }) = &arguments.other {
        let read = |path: &Path| Document::read(path).map_err(Failure::failed);
        let found = diff(&read(before)?, &read(after)?).map_err(Failure::usage)?;
        return if *json { output::json(&found) } else { output::result(&shown::diff(&found)) };
    }
    let sweep = choice(arguments)?.plan().map_err(Failure::usage)?;
    let name = &arguments.output;
    let with = |ending: &str| PathBuf::from(format!("{}.{ending}", name.display()));
    let interrupt = Interrupt::listen()?;
    let around = Surroundings {
        thalweg: std::env::current_exe().map_err(|e| Failure::failed(format!("this program's path: {e}")))?,
        log: with("runs.jsonl"),
        resume: arguments.go_on,
        stop: interrupt.flag(),
    };
    if arguments.dry_run {
        return dry_run(&sweep, &around, arguments.try_one);
    }
    let document = sweep.measure(&around, &ProgressLine(interrupt)).map_err(|error| match error.is_stopped() {
        true => Failure::Interrupted("stopped; the runs so far are kept: resume with --continue".into()),
        false => Failure::failed(error),
    })?;
    let here = Path::new("");
    put(here, &with("json").display().to_string(), &document.json())?;
    document.write_table(&with("parquet")).map_err(Failure::failed)?;
    put(here, &with("html").display().to_string(), &shown::page(&document))?;
    output::note(&format!(
        "{}: page; {} and {}: for programs; {}: log of every run",
        with("html").display(),
        with("json").display(),
        with("parquet").display(),
        around.log.display()
    ));
    output::result(&if arguments.json { document.json() } else { shown::text(&document) })
}

fn choice(arguments: &Arguments) -> Result<Choice, Failure> {
    if let Some(path) = &arguments.plan {
        let failed = |e: &dyn std::fmt::Display| Failure::failed(format!("{}: {e}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| failed(&e))?;
        return toml::from_str(&text).map_err(|e| failed(&e));
    }
    let rate = arguments.ceiling.as_deref().and_then(|text| numbers::parse_rate(text).ok());
    Ok(Choice {
        vary: arguments.vary.clone(),
        command: arguments.command.clone(),
        repeat: arguments.repeat as usize,
        narrow: arguments.narrow,
        sample: arguments.sample,
        explain: match arguments.explain {
            When::Every => Explain::Every,
            When::Once => Explain::Once,
            When::Never => Explain::Never,
        },
        profile: arguments.profile.map(|every| every as usize),
        ceiling_bytes_per_s: rate,
        ceiling: arguments.ceiling.clone().filter(|_| rate.is_none()),
        seed: arguments.seed,
        ..arguments.around.choice()
    })
}

/// Prints what would be run and the expected time: from the log of an earlier sweep, from one run, or else per second that a run takes.
fn dry_run(sweep: &Sweep, around: &Surroundings, try_one: bool) -> Result<(), Failure> {
    let ((run, skipped), runs) = (sweep.points(), sweep.runs());
    let known = sweep.expected_from_log(&around.log).map_err(Failure::failed)?;
    let expected = match known {
        None if try_one => Some(sweep.expected_from_one(around).map_err(Failure::failed)?),
        known => known,
    };
    let time = match &expected {
        None => {
            format!("{} for each second that one run takes (--try-one runs one to estimate the time)", numbers::duration(runs as f64))
        }
        Some(expected) => {
            let left = expected.left_s.map_or_else(String::new, |left| match left > 0.0 {
                true => format!(", of which {} are left for --continue", numbers::duration(left)),
                false => ", all done".to_owned(),
            });
            format!("expected to take {}{left} ({})", numbers::duration(expected.seconds), expected.from)
        }
    };
    output::note(&format!("{run} points ({skipped} skipped), at most {runs} runs: {time}"));
    output::result(&sweep.dry_run().iter().map(|line| format!("{line}\n")).collect::<String>())
}
