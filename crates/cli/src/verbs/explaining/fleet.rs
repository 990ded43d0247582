//! `thalweg fleet ...`: many recordings, explained once each into one table, and questions to it. The Python package `thalweg` does it, with
//! DuckDB, Dask or Spark; this hands it the words, and says how to get it.

use crate::failure::Failure;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Which Python has the package, where it is not `python3`.
const PYTHON: &str = "THALWEG_PYTHON";
/// What the package calls its command line.
const MODULE: &str = "thalweg";
/// Succeeds where the package is (a directory of that name beside us is none), without importing it.
const IS_THERE: &str = "import importlib.util, sys; found = importlib.util.find_spec('thalweg'); sys.exit(not (found and found.origin))";

/// Arguments of `thalweg fleet`.
#[derive(clap::Args)]
#[command(after_help = "\
explain WHERE             explain what is not in the table yet
top WHERE                 which cause cost most; where: --by cause,host; for whom: --by user
trend WHERE               what a recording lost to each cause, by day, week or month
since WHERE               since when a cause costs more or less
compare WHERE ONE OTHER   what differs between \"host = 'a'\" and \"host = 'b'\"
gains WHERE               which change would save most
sql WHERE QUERY           any other question
errors WHERE              what could not be explained, and why
page WHERE -o FILE.html   all of it as a page

WHERE is a directory or URL with recordings, or the table of a fleet.
It needs the Python package: pip install './python[duckdb]' in the source tree.
THALWEG_PYTHON names the Python that has it (default: python3). docs/FLEET.md has more.")]
pub(crate) struct Arguments {
    /// What to do, and its arguments; `thalweg fleet top --help` says more of `top`
    #[arg(required = true, trailing_var_arg = true, value_name = "VERB")]
    words: Vec<OsString>,
}

/// Becomes the package's command line.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let python = std::env::var_os(PYTHON).filter(|name| !name.is_empty()).unwrap_or_else(|| "python3".into());
    let shown = python.to_string_lossy().into_owned();
    let found = Command::new(&python).args(["-c", IS_THERE]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match found {
        Err(error) => return Err(Failure::failed(format!("{shown}: {error}; install Python 3.11 or newer, or let {PYTHON} name it"))),
        Ok(status) if !status.success() => {
            return Err(Failure::failed(format!(
                "{shown} has no package `{MODULE}`: {shown} -m pip install './python[duckdb]' in the source tree, or let {PYTHON} name a Python that has it"
            )));
        }
        Ok(_) => {}
    }
    let mut command = Command::new(&python);
    command.args(["-m", MODULE, "fleet"]).args(&arguments.words);
    // Recordings are explained by this very command, unless another is named.
    if std::env::var_os("THALWEG").is_none() {
        command.env("THALWEG", std::env::current_exe().map_err(Failure::failed)?);
    }
    // Returns only where it cannot be run.
    Err(Failure::failed(format!("{shown}: {}", command.exec())))
}
