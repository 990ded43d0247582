//! What `cp --json` prints of one file's copy.

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
    /// Bytes that were moved: what is not in holes.
    data_bytes: u64,
    elapsed_s: f64,
    /// Of the data.
    rate_bytes_per_s: f64,
    /// The devices that the store, or the source, pretends to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    emulated: Option<String>,
    /// How it was done.
    flow: Flow,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<PathBuf>,
    /// What `--tune` did.
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

/// The document of a copy that is done.
pub(super) fn document((from, to): (&str, &str), outcome: &CopyOutcome, emulated: Option<String>, tuning: Option<Report>) -> Document {
    let (elapsed_s, data_bytes) = (outcome.elapsed.as_secs_f64(), outcome.size_bytes - outcome.hole_bytes);
    Document {
        schema: SCHEMA,
        from: from.to_owned(),
        to: to.to_owned(),
        size_bytes: outcome.size_bytes,
        data_bytes,
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
