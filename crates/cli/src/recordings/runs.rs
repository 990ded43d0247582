//! Applies an analysis to each run of a recording, or to one run.

use crate::failure::Failure;
use std::path::Path;
use thalweg_explain::runs::{Run, runs};
use thalweg_trace::{Recording, Source};

/// A run and its result; `None` if the whole recording is one run.
pub(crate) type OfRun<T> = (Option<Run>, Result<T, Failure>);

/// Returns `of`'s result for each run of a recording, or for the run `wanted` alone.
///
/// # Errors
/// The run does not exist, or the recording cannot be read.
pub(crate) fn each<T>(
    recording: &Recording,
    path: &Path,
    wanted: Option<usize>,
    mut of: impl FnMut(&dyn Source) -> Result<T, Failure>,
) -> Result<Vec<OfRun<T>>, Failure> {
    let found = runs(recording);
    let count = found.len().max(1);
    if let Some(wanted) = wanted.filter(|wanted| !(1..=count).contains(wanted)) {
        let holds = if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
        return Err(Failure::usage(format!("--run {wanted}: {} holds {holds}", path.display())));
    }
    if found.is_empty() {
        return Ok(vec![(None, of(recording))]);
    }
    let chosen = found.into_iter().filter(|run| wanted.is_none_or(|wanted| run.number == wanted));
    chosen
        .map(|run| {
            let within = run.within(recording).map_err(Failure::failed)?;
            Ok((Some(run), of(&within)))
        })
        .collect()
}

/// Formats a run's title: `run 2 of 2, 2007-02-01 12:00:00 UTC`.
pub(crate) fn title(run: &Run, recording: &Recording) -> String {
    let is_dated = recording.hosts().first().is_some_and(|host| host.clock.starts_with("capture:"));
    let date = jiff::Timestamp::from_nanosecond(i128::from(run.from_ns)).ok().filter(|_| is_dated);
    let date = date.map_or_else(String::new, |date| format!(", {} UTC", date.strftime("%Y-%m-%d %H:%M:%S")));
    format!("run {} of {}{date}", run.number, run.of)
}
