//! A profile for speedscope (https://www.speedscope.app): JSON, a "sampled" profile for each program of each machine.
//!
//! Each stack is there once, with all its time: of a million samples in order of time a browser would have to hold a hundred megabytes. So its
//! views "left heavy" and "sandwich" say all there is, and "time order" has an order of its own.

use super::stacks::Stacks;
use crate::{HostId, Source, TraceError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: String,
    shared: Shared<'a>,
    profiles: Vec<Profile<'a>>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<NamedFrame<'a>>,
}

#[derive(Serialize)]
struct NamedFrame<'a> {
    name: &'a str,
    file: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
    #[serde(skip)]
    program: &'a str,
}

/// Writes the stacks of `source` to the file `out`.
///
/// # Errors
/// The recording cannot be read, or the file written.
pub fn export(source: &dyn Source, out: &Path) -> Result<(), TraceError> {
    let failed = |e: &dyn std::fmt::Display| TraceError::new(out, format!("cannot be written: {e}"));
    let stacks = Stacks::counted(source)?;
    let mut profiles: BTreeMap<(HostId, &str), Profile<'_>> = BTreeMap::new();
    for ((host, program, stack), counted) in &stacks.counted {
        let profile = profiles.entry((*host, program)).or_insert_with(|| Profile {
            kind: "sampled",
            name: name(source, *host, program),
            unit: "nanoseconds",
            start_value: 0,
            end_value: 0,
            samples: Vec::new(),
            weights: Vec::new(),
            program,
        });
        profile.samples.push(stacks.frames(*stack).iter().rev().copied().collect());
        profile.weights.push(counted.ns);
        profile.end_value = profile.end_value.saturating_add(counted.ns);
    }
    // The first is what is shown first.
    let mut profiles: Vec<Profile<'_>> = profiles.into_values().collect();
    profiles.sort_by(|a, b| b.end_value.cmp(&a.end_value).then_with(|| a.program.cmp(b.program)));
    let document = Document {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: "thalweg",
        name: source.meta().command.join(" "),
        shared: Shared { frames: stacks.functions.iter().map(|f| NamedFrame { name: &f.name, file: &f.module }).collect() },
        profiles,
    };
    let mut file = BufWriter::new(File::create(out).map_err(|e| TraceError::new(out, format!("cannot be made: {e}")))?);
    serde_json::to_writer(&mut file, &document).map_err(|e| failed(&e))?;
    file.flush().map_err(|e| failed(&e))
}

fn name(source: &dyn Source, host: HostId, program: &str) -> String {
    match source.hosts() {
        [] | [_] => program.to_owned(),
        hosts => hosts.iter().find(|h| h.host == host).map_or_else(|| program.to_owned(), |h| format!("{program} on {}", h.name)),
    }
}
