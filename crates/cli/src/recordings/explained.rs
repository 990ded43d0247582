//! Recordings opened, merged and explained, and explanations printed.

use super::memory;
use crate::{failure::Failure, output};
use std::path::{Path, PathBuf};
use thalweg_explain::Explanation;
use thalweg_report::TextOptions;
use thalweg_trace::merge::{Merged, Part, merge};
use thalweg_trace::{Recording, Source};

/// Opens a recording and explains it.
pub(crate) fn explained(path: &Path) -> Result<(Recording, Explanation), Failure> {
    memory::keep_freed();
    let recording = Recording::open(path).map_err(Failure::failed)?;
    let explanation = thalweg_explain::explain(&recording, &thalweg_explain::Options::default())
        .map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
    Ok((recording, explanation))
}

/// Merges recordings into one at `output`.
pub(crate) fn merged(recordings: &[PathBuf], output: &Path) -> Result<Merged, Failure> {
    memory::keep_freed();
    let opened: Vec<Recording> = recordings.iter().map(|path| Recording::open(path)).collect::<Result<_, _>>().map_err(Failure::failed)?;
    refuse_one_twice(recordings, &opened)?;
    let name = |path: &Path| path.display().to_string();
    let parts: Vec<Part<'_>> = recordings.iter().zip(&opened).map(|(path, source)| Part { name: name(path), source }).collect();
    merge(&parts, output).map_err(Failure::failed)
}

/// A recording and itself, or a copy of it, are not the two ends of anything.
fn refuse_one_twice(paths: &[PathBuf], opened: &[Recording]) -> Result<(), Failure> {
    let identity = |recording: &Recording| {
        let meta = recording.meta();
        (meta.start, meta.end, meta.recorder.clone(), meta.command.clone(), recording.hosts().to_vec())
    };
    for (number, later) in opened.iter().enumerate() {
        if let Some(first) = opened[..number].iter().position(|earlier| identity(earlier) == identity(later)) {
            let (first, later) = (paths[first].display(), paths[number].display());
            return Err(Failure::usage(format!("{first} and {later} are the same recording: give recordings of the two ends")));
        }
    }
    Ok(())
}

/// Prints an explanation for a person, or as JSON.
pub(crate) fn print(explanation: &Explanation, json: bool) -> Result<(), Failure> {
    match json {
        true => output::line(&explanation.to_json()),
        false => output::result(&thalweg_report::text(explanation, &TextOptions::for_stdout())),
    }
}

/// Prints an explanation for a person where standard output is something else's.
pub(crate) fn note(explanation: &Explanation) {
    output::note(thalweg_report::text(explanation, &TextOptions::for_stderr()).trim_end());
}
