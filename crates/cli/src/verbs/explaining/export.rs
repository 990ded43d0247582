//! `thalweg export RECORDING -o FILE`: converts a recording for other programs, to the format that FILE's name or `--to` gives: perfetto, csv,
//! folded, speedscope or pprof. (The recording itself is Parquet.) `--anonymous` makes a recording without names, for a bug report.

use crate::failure::Failure;
use crate::output;
use std::path::{Path, PathBuf};
use thalweg_explain::{Explanation, Options};
use thalweg_trace::export::perfetto::{CriticalPath, PathInterval};
use thalweg_trace::{Recording, Source, SourceError, Time, TrackId, export};

/// Arguments of `thalweg export`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The recording, a directory NAME.thw
    recording: PathBuf,
    /// The format (default: by the name of the output)
    #[arg(long, value_enum)]
    to: Option<Format>,
    /// Make an anonymous recording for a bug report: names, paths, addresses, users, machines and words of commands are replaced
    /// consistently; `explain` gives the same answer for it
    #[arg(long, conflicts_with = "to")]
    anonymous: bool,
    /// The file to write, whose name gives the format: .perfetto, .pftrace or .perfetto-trace, .csv (a directory), .folded,
    /// .speedscope.json or .speedscope, .pb.gz or .pprof; with --anonymous, the recording NAME.thw
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
    /// Returns the format that a name stands for.
    fn of_name(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| *format)
    }

    fn is_of_stacks(self) -> bool {
        matches!(self, Format::Folded | Format::Speedscope | Format::Pprof)
    }
}

/// The endings of names that stand for a format.
const ENDINGS: [(&str, Format); 9] = [
    (".perfetto", Format::Perfetto),
    (".pftrace", Format::Perfetto),
    (".perfetto-trace", Format::Perfetto),
    (".csv", Format::Csv),
    (".folded", Format::Folded),
    (".speedscope.json", Format::Speedscope),
    (".speedscope", Format::Speedscope),
    (".pb.gz", Format::Pprof),
    (".pprof", Format::Pprof),
];

/// Returns the format to export to.
fn format(arguments: &Arguments) -> Result<Format, Failure> {
    let named = || Format::of_name(&arguments.output);
    arguments.to.or_else(named).ok_or_else(|| {
        let endings = ENDINGS.map(|(ending, _)| ending).join(", ");
        Failure::usage(format!("{}: expected a name that ends with one of {endings}; or give --to", arguments.output.display()))
    })
}

/// Exports the recording.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.anonymous {
        return thalweg_trace::anonymous::export(&arguments.recording, &arguments.output).map_err(Failure::failed);
    }
    let to = format(arguments)?;
    let opened = crate::recordings::captured::opened(&arguments.recording, "export")?;
    let recording: &Recording = &opened;
    let has_stacks = || Ok::<_, SourceError>(recording.samples()?.iter().any(|sample| sample.profiled().is_some()));
    if to.is_of_stacks() && !has_stacks().map_err(Failure::failed)? {
        let name = arguments.recording.display();
        return Err(Failure::failed(format!("{name}: has no stacks; `thalweg profile -o run.thw -- COMMAND` records them")));
    }
    let done = match to {
        Format::Perfetto => export::perfetto::export(recording, &critical_path(recording), &arguments.output),
        Format::Csv => export::csv::export(recording, &arguments.output),
        Format::Folded => export::folded::export(recording, &arguments.output),
        Format::Speedscope => export::speedscope::export(recording, &arguments.output),
        Format::Pprof => export::pprof::export(recording, &arguments.output),
    };
    done.map_err(Failure::failed)
}

/// Explains the recording for its critical path. One that cannot be explained is exported without.
fn critical_path(recording: &Recording) -> CriticalPath {
    match thalweg_explain::explain(recording, &Options::default()) {
        Ok(explanation) => path_of(&explanation),
        Err(reason) => {
            output::note(&format!("thalweg export: without a critical path: {reason}"));
            CriticalPath::default()
        }
    }
}

/// The critical path of an explanation, on the recording's time axis.
fn path_of(explanation: &Explanation) -> CriticalPath {
    let at = |seconds: f64| Time::from_monotonic_ns(explanation.start_ns.saturating_add((seconds * 1e9).round() as i64));
    let interval = |segment: &thalweg_explain::document::Segment| PathInterval {
        start: at(segment.start_s),
        end: at(segment.end_s),
        cause: segment.cause.name().to_owned(),
        place: explanation.critical_path.get(segment.charge).map(|charge| charge.place.clone()).unwrap_or_default(),
        track: segment.track.and_then(TrackId::new),
    };
    // An unreliable explanation's sentence is withheld, and the reason stands in its place.
    let unreliable = || explanation.unreliable_because.clone().unwrap_or_default();
    let sentence = if explanation.reliable { explanation.summary.sentence.clone() } else { unreliable() };
    CriticalPath { sentence, intervals: explanation.path.iter().map(interval).collect() }
}
