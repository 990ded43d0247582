//! `thalweg merge CLIENT SERVER... -o OUT`: merges recordings of both ends into one, on one time axis.

use crate::failure::Failure;
use crate::output;
use crate::recordings::explained::merged;
use serde::Serialize;
use std::path::PathBuf;
use thalweg_base::numbers::duration;
use thalweg_trace::merge::{ClockFrom, MergedPart};

/// Arguments of `thalweg merge`.
#[derive(clap::Args)]
#[command(
    after_help = "The first recording is the one to explain, and its clock is the time axis. The others are aligned by the bytes that both ends of their \
connections saw, so record both ends of a run at the same time. `thalweg explain CLIENT SERVER` merges and explains in one step.\n\
A capture of the same run (pcap, pcapng, also .gz) may replace a recording: thalweg merge run.thw packets.pcap -o both.thw.\n\
Recordings of different runs are refused: use `thalweg diff BEFORE AFTER` to compare them."
)]
pub(crate) struct Arguments {
    /// The recordings, or captures of packets (pcap, pcapng): the client's first, then the servers'
    #[arg(required = true, num_args = 2.., value_name = "NAME.thw|CAPTURE")]
    recordings: Vec<PathBuf>,
    /// The merged recording: a directory that does not exist yet
    #[arg(short, long, value_name = "NAME.thw")]
    output: PathBuf,
    /// Print the alignment of each recording as JSON (thalweg.merge/1)
    #[arg(long)]
    json: bool,
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    recording: String,
    parts: Vec<Placed>,
    notes: Vec<String>,
}

/// The alignment of one recording.
#[derive(Serialize)]
struct Placed {
    recording: String,
    /// `reference`, `same_boot`, `connections` or `wall_clock`.
    clock_from: &'static str,
    connections: usize,
    /// Start of the interval, on its clock, for which offset, drift and error hold.
    from_ns: i64,
    to_ns: i64,
    offset_ns: i64,
    drift_ppb: i64,
    error_ns: u64,
}

/// Merges the recordings.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let merged = merged(&arguments.recordings, &arguments.output)?;
    let parts: Vec<Placed> = merged.parts.iter().map(placed).collect();
    if arguments.json {
        let recording = arguments.output.display().to_string();
        return output::json(&Document { schema: "thalweg.merge/1", recording, parts, notes: merged.notes });
    }
    for note in &merged.notes {
        output::note(&format!("thalweg merge: {note}"));
    }
    output::result(&parts.iter().map(sentence).collect::<String>())
}

fn placed(part: &MergedPart) -> Placed {
    let (clock_from, connections) = match part.clock {
        ClockFrom::Reference => ("reference", 0),
        ClockFrom::SameBoot => ("same_boot", 0),
        ClockFrom::Connections { connections, .. } => ("connections", connections),
        ClockFrom::WallClock => ("wall_clock", 0),
    };
    let &MergedPart { from_ns, to_ns, offset_ns, drift_ppb, error_ns, .. } = part;
    Placed { recording: part.name.clone(), clock_from, connections, from_ns, to_ns, offset_ns, drift_ppb, error_ns }
}

fn sentence(part: &Placed) -> String {
    let name = &part.recording;
    match part.clock_from {
        "reference" => format!("{name}: the reference clock\n"),
        "same_boot" if part.offset_ns != 0 => {
            format!("{name}: same boot of a machine already merged, {:+.6} s in its time namespace\n", part.offset_ns as f64 / 1e9)
        }
        "same_boot" => format!("{name}: same boot of a machine already merged\n"),
        by => {
            let by = if by == "wall_clock" { "wall clocks".to_owned() } else { format!("{} connections", part.connections) };
            let offset_s = part.offset_ns as f64 / 1e9;
            let drift_ppm = part.drift_ppb as f64 / 1e3;
            format!("{name}: {offset_s:+.6} s, {drift_ppm:+.2} ppm, within {}, by {by}\n", duration(part.error_ns as f64 / 1e9))
        }
    }
}
