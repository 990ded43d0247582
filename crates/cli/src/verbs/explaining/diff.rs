//! `thalweg diff BEFORE AFTER`: compares two runs: which costs went away and which are new, and what was predicted for the change made.

use super::report::write_whole;
use crate::failure::Failure;
use crate::output;
use crate::recordings::captured::Opened;
use crate::recordings::explained::{explained, explanation_of, is_recorded};
use std::path::{Path, PathBuf};
use thalweg_explain::Explanation;
use thalweg_explain::diff::{DiffOptions, Refused, diff};
use thalweg_report::{Explained, TextOptions};
use thalweg_trace::Source;

/// Arguments of `thalweg diff`.
#[derive(clap::Args)]
#[command(after_help = "\
A run is a recording (a directory NAME.thw) or an explanation as JSON (explain --json --to NAME.json). For a command that was run several \
times (explain -n 5 --json), the median is compared, with its interval.

  thalweg record -o before.thw -- dd if=big of=copy bs=4k oflag=dsync
  thalweg record -o after.thw -- dd if=big of=copy bs=1M oflag=dsync
  thalweg diff before.thw after.thw -o diff.html")]
pub(crate) struct Arguments {
    /// The earlier run
    before: PathBuf,
    /// The later run
    after: PathBuf,
    /// The change made between the two runs, by its id in the earlier explanation's JSON (default: found from the command lines)
    #[arg(long, value_name = "ID")]
    made: Option<String>,
    /// Compare even if the runs did different work
    #[arg(long)]
    anyway: bool,
    /// Print the diff as JSON (thalweg.diff/1)
    #[arg(long)]
    json: bool,
    /// Also write a page: FILE.html
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Compares the runs and prints the result.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(output) = arguments.output.as_ref().filter(|output| output.extension().is_none_or(|ending| ending != "html")) {
        return Err(Failure::usage(format!("{}: expected a name that ends with .html", output.display())));
    }
    let (before, after) = (Run::of(&arguments.before)?, Run::of(&arguments.after)?);
    let options = DiffOptions { made: arguments.made.clone(), anyway: arguments.anyway };
    let found = diff(&before.explanation, &after.explanation, &options).map_err(|refused| match refused {
        Refused::NotProposed(problem) => Failure::usage(format!("--made {problem}")),
        Refused::DifferentWork(why) => {
            let (before, after) = (arguments.before.display(), arguments.after.display());
            Failure::failed(format!("{before} and {after} are not runs of the same work: {why}. Use --anyway to compare them nevertheless"))
        }
    })?;
    if let Some(output) = &arguments.output {
        let names = [&before.name, &after.name].map(String::as_str);
        let page = thalweg_report::diff_page(&found, names, [before.explained(), after.explained()]).map_err(Failure::failed)?;
        write_whole(output, page)?;
    }
    match arguments.json {
        true => output::json(&found),
        false => output::result(&thalweg_report::diff(&found, &TextOptions::for_stdout())),
    }
}

/// A run to compare.
struct Run {
    name: String,
    /// Absent if there is only an explanation.
    recording: Option<Opened>,
    explanation: Explanation,
}

impl Run {
    fn of(path: &Path) -> Result<Run, Failure> {
        let name = path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned());
        let (recording, explanation) = match is_recorded(path) {
            true => explained(path).map(|(recording, explanation)| (Some(recording), explanation))?,
            false => (None, explanation_of(path)?),
        };
        Ok(Run { name, recording, explanation })
    }

    fn explained(&self) -> Option<Explained<'_>> {
        self.recording.as_ref().map(|recording| (&**recording as &dyn Source, &self.explanation))
    }
}
