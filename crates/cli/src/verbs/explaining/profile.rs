//! `thalweg profile RECORDING...`: where the time of whole machines' processors went, by class of code, a column for each machine and
//! recording; with `-o PAGE.html`, pictures of it with a flame graph.

use crate::failure::Failure;
use crate::output;
use crate::recordings::memory;
use std::path::{Path, PathBuf};
use thalweg_explain::profile::{Profiled, Rules, profile};
use thalweg_report::{MAX_COLUMNS, ProfileColumn, TextOptions};
use thalweg_trace::Recording;

/// Arguments of `thalweg profile`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The recordings, directories NAME.thw: each is a column
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,
    /// Print the profile as JSON (thalweg.profile/1); of several recordings, a list
    #[arg(long)]
    json: bool,
    /// More rules for which function is in which class, before those that are built in (docs/PROFILE.md)
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
}

/// Prints a profile.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let rules = rules(arguments.classes.as_deref())?;
    let profiles: Vec<Profiled> = arguments.recordings.iter().map(|path| of(path, &rules)).collect::<Result<_, _>>()?;
    if arguments.json {
        let documents: Vec<String> = profiles.iter().map(|profiled| profiled.document.to_json()).collect();
        return output::line(&match documents.as_slice() {
            [document] => document.clone(),
            several => format!("[\n{}\n]", several.join(",\n")),
        });
    }
    let columns = columns(&arguments.recordings, &profiles)?;
    let mut notes: Vec<String> = Vec::new();
    for note in profiles.iter().flat_map(|profiled| &profiled.document.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    output::result(&thalweg_report::profile(&columns, &notes, &TextOptions::for_stdout()))
}

/// The rules that are built in, and before them those of a file.
fn rules(file: Option<&Path>) -> Result<Rules, Failure> {
    let Some(file) = file else { return Ok(Rules::default()) };
    let text = std::fs::read_to_string(file).map_err(|e| Failure::failed(format!("{}: {e}", file.display())))?;
    Rules::parse(&text).map_err(|e| Failure::failed(format!("{}: {e}", file.display())))
}

fn of(path: &Path, rules: &Rules) -> Result<Profiled, Failure> {
    memory::keep_freed();
    let recording = Recording::open(path).map_err(Failure::failed)?;
    profile(&recording, rules).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))
}

/// A column for each machine: named for its recording where there are several, for itself where one recording has several, for both else.
fn columns<'a>(paths: &[PathBuf], profiles: &'a [Profiled]) -> Result<Vec<ProfileColumn<'a>>, Failure> {
    let mut columns = Vec::new();
    for (path, profiled) in paths.iter().zip(profiles) {
        let recording = path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned());
        let hosts = &profiled.document.hosts;
        for host in hosts {
            let name = match (profiles.len(), hosts.len()) {
                (1, _) => host.name.clone(),
                (_, 1) => recording.clone(),
                _ => format!("{recording} {}", host.name),
            };
            columns.push(ProfileColumn { name, profile: host });
        }
    }
    match columns.len() {
        0 => Err(Failure::failed("the recording has no machine")),
        n if n > MAX_COLUMNS => {
            Err(Failure::usage(format!("{n} columns do not fit: give recordings of at most {MAX_COLUMNS} machines, or --json")))
        }
        _ => Ok(columns),
    }
}
