//! `explain CAPTURE`: reads a packet capture into a recording first. A capture may hold several runs: each is explained separately.

use crate::failure::Failure;
use crate::output;
use crate::recordings::captured::{self, Opened};
use crate::recordings::explained::Form;
use crate::recordings::runs::{OfRun, each, title};
use std::path::Path;
use thalweg_explain::{Explanation, Options};
use thalweg_report::{RunSummary, TextOptions};
use thalweg_trace::Recording;

/// Options for printing several runs.
pub(super) struct How<'a> {
    pub(super) json: bool,
    pub(super) full: bool,
    pub(super) to: Option<&'a Path>,
}

/// Reads a capture, and explains each of its runs, or the run asked for.
pub(super) fn explained(
    path: &Path,
    output: Option<&Path>,
    run: Option<usize>,
    options: &Options,
) -> Result<(Opened, Vec<OfRun<Explanation>>), Failure> {
    let opened = captured::read(path, "explain", &thalweg_record::capture::Options::default(), output)?;
    let named = |e: thalweg_explain::ExplainError| Failure::failed(format!("{}: {e}. {}", path.display(), opened.notes.join(" ")));
    let all = each(&opened, path, run, |source| thalweg_explain::explain(source, options).map_err(named))?;
    Ok((opened, all))
}

/// Prints several runs, or writes them to a file.
pub(super) fn print(all: &[OfRun<Explanation>], recording: &Recording, how: &How<'_>, path: &Path) -> Result<(), Failure> {
    let options = if how.to.is_some() { TextOptions::default() } else { TextOptions::for_stdout() };
    let text = if how.json { json(all)? } else { text(all, recording, how, &options, path) };
    match how.to {
        Some(to) => std::fs::write(to, text).map_err(|e| Failure::failed(format!("{}: {e}", to.display()))),
        None => output::result(&text),
    }
}

fn json(all: &[OfRun<Explanation>]) -> Result<String, Failure> {
    let value = |(_, explanation): &OfRun<Explanation>| match explanation {
        Ok(explanation) => serde_json::to_value(explanation),
        Err(failure) => Ok(serde_json::json!({ "problem": failure.message() })),
    };
    let runs: Vec<serde_json::Value> = all.iter().map(value).collect::<Result<_, _>>().map_err(Failure::failed)?;
    let document = serde_json::json!({ "schema": "thalweg.explain-runs/1", "runs": runs });
    serde_json::to_string_pretty(&document).map(|text| text + "\n").map_err(Failure::failed)
}

fn text(all: &[OfRun<Explanation>], recording: &Recording, how: &How<'_>, options: &TextOptions, path: &Path) -> String {
    let titled = |(run, explanation): &OfRun<Explanation>| {
        let title = run.as_ref().map_or_else(String::new, |run| title(run, recording));
        match explanation {
            Ok(e) if how.full => format!("{title}\n\n{}", Form::Full.write(e, options)),
            Ok(_) => title,
            Err(failure) => format!("{title}\n\n{}\n", failure.message()),
        }
    };
    if how.full {
        return all.iter().map(titled).collect::<Vec<_>>().join("\n");
    }
    let summaries: Vec<RunSummary> = all
        .iter()
        .map(|(run, explanation)| {
            let title = run.as_ref().map_or_else(String::new, |run| title(run, recording));
            match explanation {
                Ok(e) => RunSummary { title, about: e.summary.about.clone(), sentence: e.summary.sentence.clone() },
                Err(failure) => RunSummary { title, about: "not explained".to_owned(), sentence: failure.message().to_owned() },
            }
        })
        .collect();
    let name = path.file_name().map_or_else(|| "standard input".into(), std::ffi::OsStr::to_string_lossy);
    thalweg_report::runs(&name, &summaries, options, "explain --run N FILE")
}
