//! Asks a person before something is done.

use super::output;
use std::io::IsTerminal;

/// Whether somebody can be asked: standard input is a terminal.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal()
}

/// Asks on standard error; anything but yes means no.
pub(crate) fn is_agreed(question: &str) -> bool {
    output::note(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
