//! `thalweg export RECORDING --to perfetto|csv`: a recording for other programs. (Parquet is the recording itself.)

use crate::failure::Failure;
use std::path::PathBuf;

/// Arguments of `thalweg export`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The recording, a directory NAME.thw
    recording: PathBuf,
    /// The format: one file for https://ui.perfetto.dev, or a directory with a CSV file for each table
    #[arg(long, value_enum)]
    to: Format,
    /// The file (perfetto) or directory (csv) to write
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
}

/// What a recording can become.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// Perfetto's trace format
    Perfetto,
    /// Comma-separated values (RFC 4180), one file for each table
    Csv,
}

/// Exports.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let recording = thalweg_trace::Recording::open(&arguments.recording).map_err(Failure::failed)?;
    let done = match arguments.to {
        Format::Perfetto => thalweg_trace::export::perfetto::export(&recording, &arguments.output),
        Format::Csv => thalweg_trace::export::csv::export(&recording, &arguments.output),
    };
    done.map_err(Failure::failed)
}
