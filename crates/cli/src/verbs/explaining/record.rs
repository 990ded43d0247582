//! `thalweg record -- COMMAND` runs and records a command, `thalweg record --server --port N --for TIME` records a running server, and
//! `thalweg record --profile --for TIME` profiles the whole machine.

use crate::failure::Failure;
use crate::output;
use crate::recordings::record_flags::{RecordFlags, default_name};
use std::ffi::OsString;
use std::path::PathBuf;
use thalweg_base::numbers;
use thalweg_record::{Exit, Options, RecordError};

/// Arguments of `thalweg record`.
#[derive(clap::Args)]
#[command(after_help = "Exits with the command's exit code or by the signal that ended it; 127: not found, 126: not executable. \
The command keeps its standard input and output; notes go to standard error.\n\
docs/RECORDING.md describes what each recorder sees, and how to record both ends.")]
pub(crate) struct Arguments {
    /// The recording: a directory that does not exist yet (default: COMMAND-TIME.thw in the current directory)
    #[arg(short, long, value_name = "NAME.thw")]
    output: Option<PathBuf>,
    /// Record the server processes that listen on --port, without running a command
    #[arg(long, requires = "port", conflicts_with = "also")]
    server: bool,
    /// With --server or --profile: a port that the server listens on. May be repeated
    #[arg(long, conflicts_with = "also", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    #[command(flatten)]
    flags: RecordFlags,
    /// The command to run, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Records a command or a server.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let about_ports = !arguments.port.is_empty();
    if about_ports && !arguments.server && !arguments.flags.profile {
        return Err(Failure::usage("--port names a server to record: add --server, or --profile for a profile too"));
    }
    let named = arguments.output.clone().unwrap_or_else(|| default_name(&subject(arguments)));
    let options = Options {
        server: arguments.server || about_ports,
        ports: arguments.port.clone(),
        // With a command nothing is printed before its own output.
        begun: arguments.command.is_empty().then_some(|| output::note("thalweg record: recording; Ctrl-C ends it")),
        ..arguments.flags.options(&arguments.command, &named)
    };
    let outcome = thalweg_record::run(&options).map_err(|error| match error {
        RecordError::Trace(error) if arguments.output.is_none() => {
            Failure::failed(format!("{error}; -o NAME.thw puts the recording where files can be written"))
        }
        error => error.into(),
    })?;
    for note in &outcome.notes {
        output::note(&format!("thalweg record: {note}"));
    }
    let bytes = bytes_below(&outcome.path);
    let state = if outcome.finished { "" } else { ", not finished" };
    let more = if matches!(outcome.recorder, "profile" | "counts") { "profile" } else { "explain" };
    output::note(&format!(
        "thalweg record: {} ({}, by {}{state}); `thalweg {more} {}` says where the time went",
        outcome.path.display(),
        numbers::size(bytes),
        outcome.recorder,
        outcome.path.display()
    ));
    match outcome.exit {
        None | Some(Exit::Code(0)) => Ok(()),
        Some(exit) => Err(Failure::Ended(exit)),
    }
}

/// Returns the name of what is recorded, for the recording's default name.
fn subject(arguments: &Arguments) -> String {
    match (arguments.command.first(), arguments.port.first(), arguments.flags.also.first()) {
        (Some(command), _, _) => command.to_string_lossy().into_owned(),
        (None, Some(port), _) => format!("server-{port}"),
        (None, None, Some(also)) => also.trim_start_matches(':').replace("pid:", "").replace('/', "_"),
        (None, None, None) if arguments.flags.profile => "profile".to_owned(),
        (None, None, None) => "recording".to_owned(),
    }
}

fn bytes_below(directory: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(m) if m.is_dir() => bytes_below(&entry.path()),
            Ok(m) => m.len(),
            Err(_) => 0,
        })
        .sum()
}
