//! `thalweg diff BEFORE AFTER`: compares two runs: which costs went away and which are new, and what was predicted for the change made.

use super::report::write_whole;
use crate::failure::Failure;
use crate::output;
use crate::recordings::explained::{explained, explanation_of};
use std::path::{Path, PathBuf};
use thalweg_explain::diff::{DiffOptions, Refused, diff};
use thalweg_report::{PictureOptions, TextOptions};

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
    let (before, after) = (explanation_of(&arguments.before)?, explanation_of(&arguments.after)?);
    let options = DiffOptions { made: arguments.made.clone(), anyway: arguments.anyway };
    let found = diff(&before, &after, &options).map_err(|refused| match refused {
        Refused::NotProposed(problem) => Failure::usage(format!("--made {problem}")),
        Refused::DifferentWork(why) => {
            let (before, after) = (arguments.before.display(), arguments.after.display());
            Failure::failed(format!("{before} and {after} are not runs of the same work: {why}. Use --anyway to compare them nevertheless"))
        }
    })?;
    if let Some(output) = &arguments.output {
        let both = [("Before", &arguments.before), ("After", &arguments.after)];
        let drawn = both.into_iter().filter(|(_, path)| path.is_dir());
        let pictures = drawn.map(|(name, path)| Ok((name.to_owned(), picture(path)?))).collect::<Result<Vec<_>, Failure>>()?;
        write_whole(output, &thalweg_report::diff_page(&found, &pictures))?;
    }
    match arguments.json {
        true => output::json(&found),
        false => output::result(&thalweg_report::diff(&found, &TextOptions::for_stdout())),
    }
}

/// Returns the picture of a recording as SVG.
fn picture(path: &Path) -> Result<String, Failure> {
    let (recording, explanation) = explained(path)?;
    thalweg_report::svg(&*recording, &explanation, &PictureOptions::default()).map_err(Failure::failed)
}
