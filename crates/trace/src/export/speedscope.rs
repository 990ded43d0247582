//! Exports a profile for speedscope (https://www.speedscope.app): JSON, with a "sampled" profile for each program of
//! each machine.
//!
//! Stacks are in order of time, with consecutive equal stacks merged. A million samples would cost a browser a
//! hundred megabytes: past [`MOST_RUNS`] each stack is written once with all its time, in order of first appearance.
//! The views "left heavy" and "sandwich" then lose nothing, and "time order" shows when each stack first appeared.

use super::stacks::{Runs, Stacks};
use crate::{HostId, Source, TraceError};
use serde::Serialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Maximum stacks, repeats included, written in order of time.
const MOST_RUNS: usize = 100_000;

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: String,
    shared: Shared<'a>,
    profiles: Vec<Profile>,
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
struct Profile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

/// Writes the stacks of `source` to the file `out`.
///
/// # Errors
/// The recording cannot be read, or the file not written.
pub fn export(source: &dyn Source, out: &Path) -> Result<(), TraceError> {
    let failed = |e: &dyn std::fmt::Display| TraceError::new(out, format!("cannot be written: {e}"));
    let stacks = Stacks::functions(source)?;
    let mut runs = stacks.in_order(source)?;
    if runs.values().map(Vec::len).sum::<usize>() > MOST_RUNS {
        once(&mut runs);
    }
    let profile = |((host, program), runs): (&(HostId, String), &Vec<(u32, u64)>)| Profile {
        kind: "sampled",
        name: name(source, *host, program),
        unit: "nanoseconds",
        start_value: 0,
        end_value: runs.iter().fold(0, |sum, (_, ns)| sum.saturating_add(*ns)),
        samples: runs.iter().map(|(stack, _)| stacks.frames(*stack).iter().rev().copied().collect()).collect(),
        weights: runs.iter().map(|(_, ns)| *ns).collect(),
    };
    // The first profile is the one shown on opening.
    let mut profiles: Vec<Profile> = runs.iter().map(profile).collect();
    profiles.sort_by(|a, b| b.end_value.cmp(&a.end_value).then_with(|| a.name.cmp(&b.name)));
    let document = Document {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: "thalweg",
        name: source.meta().command.join(" "),
        shared: Shared { frames: stacks.functions.iter().map(|f| NamedFrame { name: &f.name, file: &f.module }).collect() },
        profiles,
    };
    let mut file = BufWriter::new(File::create(out).map_err(|e| TraceError::new(out, format!("cannot be created: {e}")))?);
    serde_json::to_writer(&mut file, &document).map_err(|e| failed(&e))?;
    file.flush().map_err(|e| failed(&e))
}

/// Merges equal stacks at their first appearance.
fn once(runs: &mut Runs) {
    for runs in runs.values_mut() {
        let mut places: HashMap<u32, usize> = HashMap::new();
        let mut all: Vec<(u32, u64)> = Vec::new();
        for (stack, ns) in runs.drain(..) {
            let place = *places.entry(stack).or_insert(all.len());
            match all.get_mut(place) {
                Some((_, sum)) => *sum = sum.saturating_add(ns),
                None => all.push((stack, ns)),
            }
        }
        *runs = all;
    }
}

fn name(source: &dyn Source, host: HostId, program: &str) -> String {
    match source.hosts() {
        [] | [_] => program.to_owned(),
        hosts => hosts.iter().find(|h| h.host == host).map_or_else(|| program.to_owned(), |h| format!("{program} on {}", h.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_the_bound_each_stack_is_where_it_was_first() {
        let mut runs = Runs::from([((HostId(0), "cp".to_owned()), vec![(7, 1), (3, 2), (7, 4), (3, 1), (9, 5)])]);
        once(&mut runs);
        assert_eq!(runs.into_values().collect::<Vec<_>>(), [vec![(7, 5), (3, 3), (9, 5)]]);
    }
}
