//! `thalweg fleet ...`: explains many recordings once each into one table, and queries it. The Python package `thalweg` does the work, with
//! DuckDB, Dask or Spark; this verb runs it, or says how to install it.

use crate::failure::Failure;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Environment variable naming the Python that has the package (default: that of the environment this program is in, else `python3`).
const PYTHON: &str = "THALWEG_PYTHON";
/// The package's module.
const MODULE: &str = "thalweg";
/// Succeeds if the package is installed, without importing it. A directory `thalweg` in the current one is not the package.
const IS_THERE: &str = "import importlib.util, sys; found = importlib.util.find_spec('thalweg'); sys.exit(not (found and found.origin))";

/// Arguments of `thalweg fleet`.
#[derive(clap::Args)]
#[command(after_help = "\
explain WHERE             explain the recordings that are not in the table yet
top WHERE                 the causes that cost most; where: --by cause,host; for whom: --by user
trend WHERE               time lost to each cause per recording, by day, week or month
since WHERE               when a cause began to cost more or less
compare WHERE ONE OTHER   differences between \"host = 'a'\" and \"host = 'b'\"
gains WHERE               which change would save most
sql WHERE QUERY           any other question
errors WHERE              what could not be explained, and why
page WHERE -o FILE.html   all of it as a page

WHERE is a directory or URL with recordings, or the table of a fleet.
It needs the Python package: pip install 'thalweg[duckdb]', or './python[duckdb]' in the source tree.
THALWEG_PYTHON names the Python to run (default: the one this program was installed with
by pip or uv, else python3). See docs/FLEET.md.")]
pub(crate) struct Arguments {
    /// The fleet command, and its arguments; see e.g. `thalweg fleet top --help`
    #[arg(required = true, trailing_var_arg = true, value_name = "VERB")]
    words: Vec<OsString>,
}

/// Replaces this process by the package's command line.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let python = std::env::var_os(PYTHON).filter(|name| !name.is_empty()).or_else(of_environment).unwrap_or_else(|| "python3".into());
    let shown = python.to_string_lossy().into_owned();
    let found = Command::new(&python).args(["-c", IS_THERE]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match found {
        Err(error) => return Err(Failure::failed(format!("{shown}: {error}; install Python 3.9 or newer, or set {PYTHON} to its path"))),
        Ok(status) if !status.success() => {
            return Err(Failure::failed(format!(
                "{shown} has no package `{MODULE}`: {shown} -m pip install './python[duckdb]' in the source tree, or set {PYTHON} to a Python that has it"
            )));
        }
        Ok(_) => {}
    }
    let mut command = Command::new(&python);
    command.args(["-m", MODULE, "fleet"]).args(&arguments.words);
    // Recordings are explained by this program, unless another is named.
    if std::env::var_os("THALWEG").is_none() {
        command.env("THALWEG", std::env::current_exe().map_err(Failure::failed)?);
    }
    // Returns only if it cannot be run.
    Err(Failure::failed(format!("{shown}: {}", command.exec())))
}

/// Returns the Python of the virtual environment that this program is installed in, if it is in one: pip and `uv tool` put the package there, too.
fn of_environment() -> Option<OsString> {
    let folder = std::env::current_exe().ok()?.parent()?.to_path_buf();
    let python = folder.join("python3");
    (folder.with_file_name("pyvenv.cfg").exists() && python.exists()).then(|| python.into_os_string())
}
