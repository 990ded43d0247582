//! `thalweg completions SHELL`: prints the function with which a shell completes lines.

use crate::failure::Failure;
use crate::output;
use crate::terminal::completion::{Shell, function};

/// Arguments of `thalweg completions`.
#[derive(clap::Args)]
#[command(after_help = "\
  bash    echo 'source <(thalweg completions bash)' >> ~/.bashrc
  zsh     echo 'source <(thalweg completions zsh)' >> ~/.zshrc    (after compinit)
  fish    thalweg completions fish > ~/.config/fish/completions/thalweg.fish
  elvish  echo 'eval (thalweg completions elvish | slurp)' >> ~/.config/elvish/rc.elv

The shell then offers verbs, flags and their values, names in stores (thal:/<Tab> in the store of THALWEG_STORE), lots, recordings and \
recipes. The packages install the functions.")]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the function.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    output::result(function(arguments.shell).map_err(Failure::failed)?.trim_end())
}
