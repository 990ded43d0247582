//! `thalweg bench ls`: measures the cost of a file in a listing.
//!
//! It starts its own stores below `--directory`, one for each population, and removes them. `raw.jsonl` has every measured time, and
//! `--resume` continues from it; `ls.json`, `ls.md`, `ls.html` and the plots (SVG) are made from it.

use super::results::{self, ProgressLine, Results};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_report::study::{self, Picture};
use thalweg_study::ls::{self, Choice, Document, Part, Scale, Stage};

/// Arguments of `thalweg bench ls`.
#[derive(clap::Args)]
#[command(
    after_help = "Parts: grid (datafiles per file, mechanisms, round trips), items (files in a directory, other systems), targets (targets on a\n\
    server), names (mdtest), crowd (many listings beside a writer), copies (trees of small files).\n\
    names: mdtest's tests under its names, with 1, 8 and 64 workers, through the library and a mount: tree creation and removal;\n\
    directory creation, stat and removal (-D); file creation, stat and removal (-F), in directories of their own (-u) and in one; and\n\
    in one, files of 3,901 bytes (-w) with file read (-E), stat, read and removed by other workers than their makers (-N 1), on the\n\
    mount through a second one.\n\
    A stage is a TOML file: label, serve_on and host of the servers; [[locations]] with name, round_trip_us, run_on and link_pids;\n\
    [[peers]] with name, directory, list, windows, trips_per_file and pids. Without one, everything is on this machine.\n\
    bench/ls of the sources makes one with links of 0.2, 1 and 10 ms.\n\
    thalweg bench ls --short --out /tmp/ls"
)]
pub(super) struct Arguments {
    /// Run a smoke test on small directories, in under a minute; its figures mean nothing
    #[arg(long)]
    short: bool,
    /// Parts to measure (default: all)
    #[arg(long, value_name = "PART,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Files in each directory of the grid
    #[arg(long, value_name = "N", value_parser = numbers::parse_count)]
    files: Option<u32>,
    /// Numbers of datafiles per file in the grid; 0: files never written
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    datafiles: Vec<u32>,
    /// Directories of the items part, each FILESxDATAFILES
    #[arg(long, value_name = "NxD,...", value_delimiter = ',', value_parser = product)]
    items: Vec<(u64, u32)>,
    /// Number of servers, and of targets on each, like 4x8
    #[arg(long, value_name = "SxT", value_parser = product)]
    store: Option<(u64, u32)>,
    /// Numbers of targets on each server, for the targets part
    #[arg(long, value_name = "T,...", value_delimiter = ',', value_parser = numbers::parse_count)]
    targets: Vec<u32>,
    /// Repetitions, interleaved
    #[arg(long, value_name = "N", value_parser = numbers::parse_count)]
    repeat: Option<u32>,
    /// Locations to list from and systems to compare with: a TOML file (default: this machine alone)
    #[arg(long, value_name = "FILE")]
    stage: Option<PathBuf>,
    /// Directory for temporary stores (default: the system's directory for temporary files)
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Timeout for a server that does not answer; ten times as long for a location
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = numbers::parse_duration)]
    timeout: Duration,
    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "ls-study")]
    out: PathBuf,
    /// Resume from the raw times in --out
    #[arg(long)]
    resume: bool,
    /// Print the result as JSON instead of Markdown
    #[arg(long)]
    json: bool,
}

/// Parses two numbers separated by `x`.
fn product(text: &str) -> Result<(u64, u32), String> {
    let wrong = || format!("`{text}`: expected two numbers like 4x8");
    let (first, second) = text.split_once('x').ok_or_else(wrong)?;
    let first = first.parse().map_err(|_| wrong())?;
    Ok((first, second.parse().map_err(|_| wrong())?)).and_then(|found: (u64, u32)| if found.0 == 0 { Err(wrong()) } else { Ok(found) })
}

/// Runs the study.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let choice = choice(arguments)?;
    // A file that cannot be written is reported when the study is done.
    let so_far = |document: &Document| drop(results::write(document, &choice.out));
    results::finish(ls::run(&choice, &ProgressLine(interrupt), &so_far), &choice.out, arguments.json)
}

impl Results for Document {
    const NAME: &'static str = "ls";
    const TITLE: &'static str = "What a listing costs";

    fn json(&self) -> String {
        Document::json(self)
    }

    fn markdown(&self) -> String {
        study::ls::markdown(self)
    }

    fn page(&self) -> String {
        study::ls::page(self)
    }

    fn pictures(&self) -> Vec<Picture> {
        study::ls::pictures(self)
    }
}

fn choice(arguments: &Arguments) -> Result<Choice, Failure> {
    let stage = match &arguments.stage {
        None => Stage::here(),
        Some(path) => {
            let failed = |e: &dyn std::fmt::Display| Failure::failed(format!("{}: {e}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|e| failed(&e))?;
            toml::from_str(&text).map_err(|e| failed(&e))?
        }
    };
    let mut scale = if arguments.short { Scale::short() } else { Scale::usual() };
    if let Some(files) = arguments.files {
        scale.files = u64::from(files);
    }
    if !arguments.datafiles.is_empty() {
        scale.datafiles.clone_from(&arguments.datafiles);
    }
    if !arguments.items.is_empty() {
        scale.items.clone_from(&arguments.items);
    }
    if !arguments.targets.is_empty() {
        scale.targets_axis.clone_from(&arguments.targets);
    }
    if let Some((servers, targets)) = arguments.store {
        (scale.servers, scale.targets) = (servers as u32, targets);
    }
    let program = std::env::current_exe().map_err(|e| Failure::failed(format!("this program's path: {e}")))?;
    let parts = arguments.only.iter().map(|name| Part::named(name)).collect::<thalweg_study::Result<_>>().map_err(Failure::failed)?;
    Ok(Choice {
        program,
        directory: arguments.directory.clone().unwrap_or_else(std::env::temp_dir),
        stage,
        parts,
        scale,
        repeat: arguments.repeat.map_or(if arguments.short { 2 } else { 5 }, |repeat| repeat as usize),
        timeout_s: arguments.timeout.as_secs_f64(),
        out: arguments.out.clone(),
        resume: arguments.resume,
    })
}
