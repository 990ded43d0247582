//! The document of `cp --json` for a single file.

use crate::tuning::Report;
use serde::Serialize;
use std::path::PathBuf;
use thalweg_client::copy::CopyOutcome;

const SCHEMA: &str = "thalweg.cp/1";

/// The document of `--json`.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    from: String,
    to: String,
    size_bytes: u64,
    /// Bytes moved, without holes.
    data_bytes: u64,
    /// First byte and end of each range that is damaged at rest and was left out (`--skip-damaged`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<(u64, u64)>,
    elapsed_s: f64,
    /// Rate of the data, without holes.
    rate_bytes_per_s: f64,
    /// Emulated devices of the store or the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    emulated: Option<String>,
    /// The flow's parameters.
    flow: Flow,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<PathBuf>,
    /// The result of `--tune`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tuning: Option<Report>,
}

#[derive(Serialize)]
struct Flow {
    request_bytes: u64,
    requests: u32,
    buffer_bytes: u64,
    depth: u32,
    streams: u32,
    servers: u32,
    data_path: String,
}

/// Makes the document of a finished copy.
pub(super) fn document((from, to): (&str, &str), outcome: &CopyOutcome, emulated: Option<String>, tuning: Option<Report>) -> Document {
    let (elapsed_s, data_bytes) = (outcome.elapsed.as_secs_f64(), outcome.size_bytes - outcome.hole_bytes);
    Document {
        schema: SCHEMA,
        from: from.to_owned(),
        to: to.to_owned(),
        size_bytes: outcome.size_bytes,
        data_bytes,
        damaged: outcome.damaged.iter().map(|range| (range.start, range.end)).collect(),
        elapsed_s,
        rate_bytes_per_s: if elapsed_s > 0.0 { data_bytes as f64 / elapsed_s } else { 0.0 },
        emulated,
        flow: Flow {
            request_bytes: outcome.request_bytes,
            requests: outcome.requests,
            buffer_bytes: outcome.buffer_bytes,
            depth: outcome.depth,
            streams: outcome.streams,
            servers: outcome.servers,
            data_path: format!("{:?}", outcome.data_path).to_lowercase(),
        },
        recording: outcome.recording.clone(),
        tuning,
    }
}
