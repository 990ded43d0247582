//! `thalweg doctor`: checks what this machine supports for recordings, copies and the demo, what each absence costs, and how to get it.
//!
//! The recorders' findings come from their own probes, the others from [`findings`]. `--fix` makes the changes that findings propose
//! ([`fixing`]), and `--undo` takes them back; otherwise nothing is changed. `--ceilings` measures the throughput of devices and the
//! loopback instead.

mod findings;
mod fixing;
mod made;
mod packages;

use crate::failure::Failure;
use crate::output;
use packages::Package;
use serde::Serialize;
use thalweg_record::probe::fix::FIXES;
use thalweg_record::probe::{Finding, State};

/// Arguments of `thalweg doctor`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print the findings as JSON (thalweg.doctor/1)
    #[arg(long)]
    json: bool,
    /// Make the changes that it proposes, or only this one: show what it does, what it adds, who else is affected and how to undo it, and
    /// ask first. May be repeated
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true, default_missing_value = ALL, value_parser = identifier)]
    #[arg(conflicts_with_all = ["json", "ceilings", "undo"])]
    fix: Vec<String>,
    /// Undo the changes that --fix made, the latest first. Asks before each
    #[arg(long, conflicts_with_all = ["json", "ceilings"])]
    undo: bool,
    /// With --fix or --undo: do not ask
    #[arg(long)]
    yes: bool,
    /// With --fix: also keep settings of the kernel over boots, in /etc/sysctl.d/60-thalweg.conf
    #[arg(long, requires = "fix")]
    persist: bool,
    /// In a checkout of the sources, also list the missing packages that only `make bench`, `make lab` and `make dist` need
    #[arg(long, conflicts_with = "ceilings")]
    develop: bool,
    /// A store to check: thal://HOST:PORT, or its store.toml
    #[arg(long, env = "THALWEG_STORE", value_name = "STORE")]
    store: Option<String>,
    /// Measure the throughput of the devices under --path and of the loopback, and print it as JSON for `record --ceilings`
    #[arg(long, conflicts_with = "json")]
    ceilings: bool,
    /// A directory on a device to measure (default: the current one). May be repeated
    #[arg(long, value_name = "DIRECTORY", requires = "ceilings")]
    path: Vec<std::path::PathBuf>,
}

/// The value of `--fix` without one.
const ALL: &str = "all";

fn identifier(text: &str) -> Result<String, String> {
    match text == ALL || FIXES.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("expected one of {}", FIXES.join(", "))),
    }
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    findings: Vec<Finding>,
    packages: Vec<Package>,
}

/// Checks everything, and prints the findings, or makes the changes that they propose.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.ceilings {
        return ceilings(&arguments.path);
    }
    if arguments.yes && !arguments.undo && arguments.fix.is_empty() {
        return Err(Failure::usage("--yes answers what --fix and --undo ask: give one of them"));
    }
    if arguments.undo {
        return fixing::undo(arguments.yes);
    }
    if !arguments.fix.is_empty() {
        let ids = if arguments.fix.iter().any(|id| id == ALL) { &[][..] } else { &arguments.fix };
        return fixing::fix(findings::all(), ids, arguments.yes, arguments.persist);
    }
    let mut findings = findings::all();
    findings.extend(arguments.store.as_deref().filter(|store| !store.is_empty()).map(findings::store));
    let document = Document { schema: "thalweg.doctor/1", findings, packages: packages::missing_packages(arguments.develop) };
    if arguments.json { output::json(&document) } else { output::result(&text(&document)) }
}

fn text(document: &Document) -> String {
    let mut text = String::new();
    for finding in &document.findings {
        text.push_str(&format!("{}  {}: {}\n", sign(finding.state), finding.name, finding.found));
        if !finding.costs.is_empty() {
            text.push_str(&format!("         {}\n", finding.costs));
        }
        if !finding.get.is_empty() {
            text.push_str(&format!("         to get it: {}\n", finding.get));
        }
        if let Some(fix) = &finding.fix {
            text.push_str(&format!("         or, after asking: thalweg doctor --fix={}\n", fix.id));
        }
    }
    for package in &document.packages {
        text.push_str(&format!(
            "absent   {}: without it `make {}` leaves out {}\n         to get it: apt-get install {}\n",
            package.package, package.target, package.left_out, package.package
        ));
    }
    text
}

fn sign(state: State) -> &'static str {
    match state {
        State::Good => "good   ",
        State::Limited => "limited",
        State::Absent => "absent ",
    }
}

/// Measures ceilings and prints them as one JSON object; notes progress on standard error.
fn ceilings(paths: &[std::path::PathBuf]) -> Result<(), Failure> {
    use thalweg_measure::ceiling;
    let here = [std::path::PathBuf::from(".")];
    let paths = if paths.is_empty() { &here } else { paths };
    let mut devices = std::collections::BTreeMap::new();
    for path in paths {
        devices.entry(ceiling::device_name(path).map_err(Failure::failed)?).or_insert(path);
    }
    let mut all = ceiling::loopback().map_err(Failure::failed)?;
    for (device, path) in devices {
        output::note(&format!("thalweg doctor: measuring {device}, through {}", path.display()));
        all.extend(ceiling::device(path).map_err(Failure::failed)?);
    }
    let rounded: std::collections::BTreeMap<String, u64> = all.into_iter().map(|(name, rate)| (name, rate.round() as u64)).collect();
    output::json(&rounded)
}
