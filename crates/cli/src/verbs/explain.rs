//! `thalweg explain RECORDING`: where the time went, and what a change would give; with `--after EARLIER`, what an earlier
//! recording's explanation predicted for this one, against what was achieved.

use crate::{failure::Failure, output};
use std::path::{Path, PathBuf};
use thalweg_explain::Explanation;
use thalweg_report::{Prediction, TextOptions};
use thalweg_trace::Source;

/// Arguments of `thalweg explain`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The recording: a directory NAME.thw
    recording: PathBuf,
    /// Print the explanation as JSON (thalweg.explain/1)
    #[arg(long)]
    json: bool,
    /// Print what the explanation of EARLIER predicted for the change made since, against what was achieved
    #[arg(long, value_name = "EARLIER", conflicts_with = "json")]
    after: Option<PathBuf>,
}

/// Explains.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (recording, explanation) = explained(&arguments.recording)?;
    match &arguments.after {
        None => print(&explanation, arguments.json),
        Some(earlier) => {
            let (_, before) = explained(earlier)?;
            output::result(&against(&before, &explanation, &recording.meta().command, earlier)?)
        }
    }
}

/// Opens a recording and explains it.
pub fn explained(path: &Path) -> Result<(thalweg_trace::Recording, Explanation), Failure> {
    let recording = thalweg_trace::Recording::open(path).map_err(Failure::failed)?;
    let explanation = thalweg_explain::explain(&recording, &thalweg_explain::Options::default())
        .map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
    Ok((recording, explanation))
}

/// Prints an explanation for a person, or as JSON.
pub fn print(explanation: &Explanation, json: bool) -> Result<(), Failure> {
    match json {
        true => output::line(&explanation.to_json()),
        false => output::result(&thalweg_report::text(explanation, &TextOptions::for_stdout())),
    }
}

/// The change of `before` that `command` made, with prediction and outcome.
fn against(before: &Explanation, now: &Explanation, command: &[String], earlier: &Path) -> Result<String, Failure> {
    let has = |(flag, value): &(String, String)| {
        // The last of several is what the command went by.
        let last = command.iter().rposition(|word| word == flag);
        last.and_then(|at| command.get(at + 1)) == Some(value) || command.contains(&format!("{flag}={value}"))
    };
    let made = before.what_if.iter().find(|change| !change.flags.is_empty() && change.flags.iter().all(has)).ok_or_else(|| {
        Failure::failed(format!("{}: none of the changes that its explanation proposes was made in this recording", earlier.display()))
    })?;
    let prediction = Prediction { before_s: before.wall_s, predicted_s: made.predicted_wall_s, achieved_s: now.wall_s };
    Ok(thalweg_report::predicted_against_achieved(&made.change, &prediction))
}
