//! Opens, merges and explains recordings, and prints explanations.

use super::captured::{Opened, is_capture, opened};
use super::memory;
use crate::{failure::Failure, output};
use std::path::{Path, PathBuf};
use thalweg_base::release::other_schema;
use thalweg_explain::{Explanation, Options};
use thalweg_report::TextOptions;
use thalweg_trace::merge::{Merged, Part, merge};
use thalweg_trace::{Recording, Source};

/// Opens a recording, or reads a capture, and explains it.
pub(crate) fn explained(path: &Path) -> Result<(Opened, Explanation), Failure> {
    explained_as(path, &Options::default())
}

/// Opens a recording, or reads a capture, and explains it with these options.
pub(crate) fn explained_as(path: &Path, options: &Options) -> Result<(Opened, Explanation), Failure> {
    memory::keep_freed();
    let recording = opened(path, "explain")?;
    let explanation = thalweg_explain::explain(&*recording, options).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
    Ok((recording, explanation))
}

/// Returns the explanation of a recording, or the one in a JSON file.
pub(crate) fn explanation_of(path: &Path) -> Result<Explanation, Failure> {
    if is_recorded(path) {
        return explained(path).map(|(_, explanation)| explanation);
    }
    let expected = "expected a recording, or an explanation as JSON (explain --json --to NAME.json)";
    let text = std::fs::read_to_string(path).map_err(|e| Failure::failed(format!("{}: {e}; {expected}", path.display())))?;
    let failed = |problem: String| Failure::failed(format!("{}: {problem}", path.display()));
    let damaged = |e| failed(format!("not an explanation: {e}; {expected}"));
    // The version first: another may have other fields, or mean something else by the same.
    #[derive(serde::Deserialize)]
    struct Version {
        schema: String,
    }
    match serde_json::from_str(&text).map_err(damaged)? {
        Version { schema } if schema == thalweg_explain::SCHEMA => serde_json::from_str(&text).map_err(damaged),
        Version { schema } => Err(failed(format!("{}; {expected}", other_schema(&schema, thalweg_explain::SCHEMA)))),
    }
}

/// Whether a path is a recording or a capture, and not an explanation as JSON.
pub(crate) fn is_recorded(path: &Path) -> bool {
    path.is_dir() || (is_capture(path) && !is_text(path))
}

/// Whether a file begins like a JSON object.
fn is_text(path: &Path) -> bool {
    use std::io::Read;
    let mut first = [0; 1];
    path == Path::new("-")
        || std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_err()
        || b" \t\r\n{".contains(&first[0])
}

/// Merges recordings and captures into one at `output`.
pub(crate) fn merged(recordings: &[PathBuf], output: &Path) -> Result<Merged, Failure> {
    memory::keep_freed();
    let opened: Vec<Opened> = recordings.iter().map(|path| opened(path, "merge")).collect::<Result<_, _>>()?;
    refuse_one_twice(recordings, &opened)?;
    refuse_several_runs(recordings, &opened)?;
    let name = |path: &Path| path.display().to_string();
    let parts: Vec<Part<'_>> = recordings.iter().zip(&opened).map(|(path, source)| Part { name: name(path), source: &**source }).collect();
    merge(&parts, output).map_err(Failure::failed)
}

/// Refuses a recording given twice, or beside a copy of itself.
fn refuse_one_twice(paths: &[PathBuf], opened: &[Opened]) -> Result<(), Failure> {
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

/// Refuses a capture of several runs: which of them to merge is unknown.
fn refuse_several_runs(paths: &[PathBuf], opened: &[Opened]) -> Result<(), Failure> {
    for (path, recording) in paths.iter().zip(opened) {
        let runs = thalweg_explain::runs::runs(&**recording);
        if !runs.is_empty() {
            let name = path.display();
            let how = "cut out the one to merge (editcap -A START -B END)";
            return Err(Failure::usage(format!("{name} has {} runs, not one: {how}", runs.len())));
        }
    }
    Ok(())
}

/// The form in which an explanation is printed.
#[derive(Clone, Copy)]
pub(crate) enum Form<'a> {
    /// A few lines, the last of which says how to see more.
    Short {
        /// Commands that show more.
        more: &'a str,
    },
    /// The full text.
    Full,
    /// JSON.
    Json,
}

/// How to see more after `--explain`, whose recording is not kept.
pub(crate) const NOT_KEPT: &str = "--record run.thw, then thalweg explain -v run.thw";

impl Form<'_> {
    /// Formats the explanation, ending in a newline.
    pub(crate) fn write(self, explanation: &Explanation, options: &TextOptions) -> String {
        match self {
            Form::Short { more } => thalweg_report::short(explanation, options, Some(more)),
            Form::Full => thalweg_report::text(explanation, options),
            Form::Json => format!("{}\n", explanation.to_json()),
        }
    }
}

/// Returns the commands that show more of a recording.
pub(crate) fn more_of(recording: &Path) -> String {
    // A longer name would leave no room for the commands: the reader fills it in.
    const ROOM: usize = 20;
    let name = recording.to_str().filter(|name| name.len() <= ROOM).unwrap_or("RECORDING");
    format!("explain -v {name} | report {name} -o run.html")
}

/// Prints an explanation on standard output.
pub(crate) fn print(explanation: &Explanation, form: Form<'_>) -> Result<(), Failure> {
    output::result(&form.write(explanation, &TextOptions::for_stdout()))
}

/// Prints an explanation on standard error, where standard output is the command's.
pub(crate) fn note(explanation: &Explanation, form: Form<'_>) {
    output::note(form.write(explanation, &TextOptions::for_stderr()).trim_end());
}
