//! The `thalweg` command: parses arguments, calls the other crates and prints their results.
//!
//! **In:** a command line. **Out:** results on standard output, progress and notes on standard error, an exit code
//! ([`failure`]). **Never:** a rule about layouts, causes or copies: other crates have those. Each verb is one file in
//! [`verbs`] and one line in its list.

mod recordings;
mod stores;
mod terminal;
mod verbs;

// Re-exported here because almost every file uses them.
use stores::{emulation, honoured, layout_flags, lots, operand, scrubbed, session, tuning};
use terminal::{failure, interrupt, listing, names, output};

use clap::{CommandFactory, FromArgMatches, Parser};
use std::process::ExitCode;

/// Record a data transfer, explain why it is slow, and move the data through a striped store.
#[derive(Parser)]
#[command(name = "thalweg", version, subcommand_required = true, arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Sizes are whole bytes, or take the suffix Ki, Mi, Gi or Ti. A store is thal://HOST:PORT, its store.toml, or THALWEG_STORE.\n\
Exit codes: 0 done, 1 failed, 2 usage, 130 interrupted; `explain --fail-if`: 3 a condition holds; `metadata check`: 3 something was found; `lot show`: 3 little time or space left, 4 expired; `record` and `explain -- COMMAND` exit as the command did. NO_COLOR is honoured."
)]
struct CommandLine {
    #[command(subcommand)]
    verb: verbs::Verb,
}

/// Returns the definition of the command line.
fn command() -> clap::Command {
    verbs::grouped(CommandLine::command())
}

fn main() -> ExitCode {
    if terminal::completion::offered(command) {
        return ExitCode::SUCCESS;
    }
    let words = verbs::with_two_dashes(std::env::args_os());
    if let Some(printed) = terminal::version::asked(&words) {
        return printed.map_or_else(|failure| terminal::exit::report(&failure, "--version"), |()| ExitCode::SUCCESS);
    }
    let parsed = CommandLine::from_arg_matches(&command().get_matches_from(words));
    let verb = match parsed {
        Ok(line) => line.verb,
        Err(error) => error.exit(),
    };
    let name = verb.name();
    match verb.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::exit::report(&failure, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }
}
