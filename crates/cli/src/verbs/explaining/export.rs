//! `thalweg export RECORDING --to perfetto|csv|folded|speedscope|pprof`: converts a recording for other programs. (The recording itself is
//! Parquet.) `--anonymous` makes a recording without names, for a bug report.

use crate::failure::Failure;
use std::path::PathBuf;
use thalweg_trace::{Recording, Source, SourceError, export};

/// Arguments of `thalweg export`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The recording, a directory NAME.thw
    recording: PathBuf,
    /// The format
    #[arg(long, value_enum, required_unless_present = "anonymous")]
    to: Option<Format>,
    /// Make an anonymous recording for a bug report: names, paths, addresses, users, machines and words of commands are replaced
    /// consistently; `explain` gives the same answer for it
    #[arg(long, conflicts_with = "to")]
    anonymous: bool,
    /// The file to write; for csv, the directory; with --anonymous, the recording NAME.thw
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
}

/// A format to export to.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// Perfetto's trace format, for https://ui.perfetto.dev
    Perfetto,
    /// Comma-separated values (RFC 4180), one file for each table
    Csv,
    /// A profile's stacks, one per line, for flame graph scripts
    Folded,
    /// A profile for https://www.speedscope.app
    Speedscope,
    /// A profile for pprof (`go tool pprof`)
    Pprof,
}

impl Format {
    fn is_of_stacks(self) -> bool {
        matches!(self, Format::Folded | Format::Speedscope | Format::Pprof)
    }
}

/// Exports the recording.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(to) = arguments.to else {
        return thalweg_trace::anonymous::export(&arguments.recording, &arguments.output).map_err(Failure::failed);
    };
    let opened = crate::recordings::captured::opened(&arguments.recording, "export")?;
    let recording: &Recording = &opened;
    let has_stacks = || Ok::<_, SourceError>(recording.samples()?.iter().any(|sample| sample.profiled().is_some()));
    if to.is_of_stacks() && !has_stacks().map_err(Failure::failed)? {
        let name = arguments.recording.display();
        return Err(Failure::failed(format!("{name}: has no stacks; `thalweg profile -o run.thw -- COMMAND` records them")));
    }
    let done = match to {
        Format::Perfetto => export::perfetto::export(recording, &arguments.output),
        Format::Csv => export::csv::export(recording, &arguments.output),
        Format::Folded => export::folded::export(recording, &arguments.output),
        Format::Speedscope => export::speedscope::export(recording, &arguments.output),
        Format::Pprof => export::pprof::export(recording, &arguments.output),
    };
    done.map_err(Failure::failed)
}
