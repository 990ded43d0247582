//! The result of a sweep: every point with its state, figures and cause, every run, and the findings. `sweep.schema.json` describes it for
//! other languages; a test checks that they agree.

use super::findings::{Findings, find};
use super::plan::Sweep;
use super::point::{PointResult, RunResult, name, places};
use super::profile;
use super::run::Surroundings;
use super::sample::{Digest, Point, Sample, State, Subject, Swept};
use super::values::Parameter;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::SystemTime;
use thalweg_base::release::other_schema;
use thalweg_measure::{Machine, Observer, estimate, median};

/// A sweep's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// [`Document::SCHEMA`].
    pub schema: String,
    /// The command's template.
    pub command: Vec<String>,
    /// The server's template, if there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<String>,
    /// The varied parameters.
    pub parameters: Vec<Parameter>,
    /// When it ended, seconds since 1970.
    pub ended_unix_s: u64,
    /// The machine it ran on.
    pub machine: Machine,
    /// Maximum number of counted runs of each point.
    pub repeat: usize,
    /// Ceiling of the hardware, if given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ceiling_bytes_per_s: Option<f64>,
    /// The command that measured the ceiling, if one did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ceiling_command: Option<String>,
    /// Why the ceiling has no figure somewhere.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ceiling_problem: Option<String>,
    /// Every point, including skipped ones.
    pub points: Vec<PointResult>,
    /// The findings.
    pub findings: Findings,
}

impl Sweep {
    /// Runs the sweep, or the rest of it; returns the result.
    ///
    /// # Errors
    /// The log is another plan's or cannot be written, or the observer asked to stop.
    pub fn measure(&self, around: &Surroundings, observer: &dyn Observer) -> Result<Document> {
        let machine = Machine::describe::<&Path>(&[]);
        let runs = self.run(around, observer)?;
        Ok(self.document(machine, &runs))
    }

    pub(super) fn document(&self, machine: Machine, runs: &Swept) -> Document {
        let skipped = self.skipped.iter().map(|(values, why)| PointResult::bare(values, State::Skipped, Some(why.clone())));
        let mut points: Vec<PointResult> = self.points.iter().map(|point| self.result(point, runs)).chain(skipped).collect();
        points.sort_by_key(|point| self.places(&point.values));
        let findings = find(&self.parameters, &points);
        Document {
            schema: Document::SCHEMA.into(),
            command: self.choice.command.clone(),
            server: self.choice.server.clone(),
            parameters: self.parameters.clone(),
            ended_unix_s: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            machine,
            repeat: self.choice.repeat,
            ceiling_bytes_per_s: self.choice.ceiling_bytes_per_s,
            ceiling_command: self.choice.ceiling.clone(),
            ceiling_problem: self.ceiling_problem(runs),
            points,
            findings,
        }
    }

    /// Returns the indexes of a point's values.
    fn places(&self, point: &Point) -> Vec<usize> {
        places(&self.parameters, point)
    }

    fn result(&self, point: &Point, runs: &Swept) -> PointResult {
        let case = self.counted(point);
        let recorded = Subject { recorded: true, ..case.subject.clone() };
        let samples: Vec<(usize, &Sample)> = runs.of(point, &case.subject);
        let warm_up = runs.get(point, &case.subject, 0);
        let bad = samples.iter().map(|(_, sample)| *sample).chain(warm_up).find(|sample| sample.state != State::Done);
        let results: Vec<RunResult> = samples.iter().filter_map(|(repeat, sample)| RunResult::of(*repeat, sample)).collect();
        let medians = |figure: &dyn Fn(&RunResult) -> Option<f64>| median(&results.iter().filter_map(figure).collect::<Vec<_>>());
        let caches = || samples.iter().filter_map(|(_, sample)| sample.cache.as_ref());
        PointResult {
            wall_s: estimate(&results.iter().map(|run| run.wall_s).collect::<Vec<_>>()),
            rate_bytes_per_s: estimate(&results.iter().filter_map(RunResult::rate).collect::<Vec<_>>()),
            client_cpu_s: medians(&|run| Some(run.user_s + run.system_s)),
            server_cpu_s: medians(&|run| run.server_cpu_s),
            cpu_ns_per_byte: medians(&|run| Some((run.cpu_s()) * 1e9 / run.bytes.filter(|bytes| *bytes > 0)? as f64)),
            cache: caches().find(|state| !state.is_verified()).or_else(|| caches().next()).cloned(),
            explanation: merged(runs.of(point, &recorded).into_iter().filter_map(|(_, sample)| sample.explanation.as_ref())),
            profile: profile::merged(runs.of(point, &recorded).into_iter().filter_map(|(_, sample)| sample.profile.as_ref())),
            ceiling_bytes_per_s: self.ceiling_at(point, runs),
            of_ceiling: self.part_of_ceiling(point, &results, runs),
            runs: results,
            ..PointResult::bare(point, bad.map_or(State::Done, |bad| bad.state), bad.and_then(|bad| bad.problem.clone()))
        }
    }
}

/// Merges several recorded runs: the mean of each share, and the sentence of a run with the cause that is then the largest.
fn merged<'a>(digests: impl Iterator<Item = &'a Digest>) -> Option<Digest> {
    let all: Vec<&Digest> = digests.collect();
    let mut shares: Vec<(String, f64)> = Vec::new();
    for (cause, share) in all.iter().flat_map(|digest| &digest.shares) {
        match shares.iter_mut().find(|(known, _)| known == cause) {
            Some((_, sum)) => *sum += share / all.len() as f64,
            None => shares.push((cause.clone(), share / all.len() as f64)),
        }
    }
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let first = shares.first().map(|(cause, _)| cause.clone());
    let words = all.iter().find(|digest| Some(&digest.cause) == first.as_ref()).or(all.first())?;
    Some(Digest { shares, ..(*words).clone() })
}

impl Document {
    /// The version of the document.
    pub const SCHEMA: &'static str = "thalweg.sweep/1";

    /// Reads a result.
    ///
    /// # Errors
    /// The file is not a sweep's result, or has another version.
    pub fn read(path: &Path) -> Result<Document> {
        let text = std::fs::read_to_string(path).map_err(Error::file(path, "reading a sweep's result"))?;
        let damaged = |e| Error::Choice(format!("{}: not a result of a sweep: {e}", path.display()));
        // The version first: another may have other fields.
        #[derive(Deserialize)]
        struct Version {
            schema: String,
        }
        let Version { schema } = serde_json::from_str(&text).map_err(damaged)?;
        if schema != Document::SCHEMA {
            return Err(Error::Choice(format!("{}: {}", path.display(), other_schema(&schema, Document::SCHEMA))));
        }
        serde_json::from_str(&text).map_err(damaged)
    }

    /// Formats the document as indented JSON, ending in a newline.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, strings and lists always serialise") + "\n"
    }

    /// Whether rates are known; if so, they are compared instead of times.
    pub fn has_rates(&self) -> bool {
        self.points.iter().any(|point| point.rate_bytes_per_s.is_some())
    }

    /// Formats a point: `streams=4 block=64Ki`.
    pub fn name(&self, values: &[String]) -> String {
        name(&self.parameters, values)
    }
}
