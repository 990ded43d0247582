//! The `thalweg` command: parses, calls, wires, prints; decides nothing.
//!
//! **In:** a command line. **Out:** results on standard output, progress and notes on standard error, an exit code
//! ([`failure`]). **Never:** a rule about layouts, causes or copies: those are the crates' it calls. One verb is one file in
//! [`verbs`], and one line in its list.

mod ending;
mod failure;
mod glob;
mod interrupt;
mod layout_flags;
mod listing;
mod names;
mod operand;
mod output;
mod partials;
mod progress;
mod recorded;
mod recording;
mod remover;
mod session;
mod size;
mod temporary;
mod tree;
mod verbs;
mod walking;

use clap::{CommandFactory, FromArgMatches, Parser};
use std::process::ExitCode;

/// Says why a transfer is slow and what to change: records any program, explains where its time went, moves the data better.
#[derive(Parser)]
#[command(name = "thalweg", version, subcommand_required = true, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Sizes: whole bytes, or with Ki, Mi, Gi, Ti. A store: thal://HOST:PORT, or its store.toml, or THALWEG_STORE.\n\
Exit codes: 0 done, 1 failed, 2 usage, 130 interrupted; record and explain -- COMMAND: the command's own. NO_COLOR is honoured.")]
struct CommandLine {
    #[command(subcommand)]
    verb: verbs::Verb,
}

fn main() -> ExitCode {
    let words = verbs::find::with_two_dashes(std::env::args_os());
    let parsed = CommandLine::from_arg_matches(&verbs::grouped(CommandLine::command()).get_matches_from(words));
    let verb = match parsed {
        Ok(line) => line.verb,
        Err(error) => error.exit(),
    };
    let name = verb.name();
    match verb.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        verbs::grouped(CommandLine::command()).debug_assert();
    }
}
