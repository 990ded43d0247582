//! What is known of well-known programs and systems: which parameters they have and how those are written, and which change of a command makes what an
//! explanation says would help.
//!
//! **In:** `recipes/*.toml` (embedded), or a file of that kind; a command. **Out:** the command's recipe; its parameters; the same command with a
//! change made, what the change gives up, and where it is documented. **Never:** runs a command; says what a change would gain.
//!
//! | module | what is in it |
//! |---|---|
//! | [`library`], [`recipe`], [`check`] | where recipes come from; a file's tables, and what is wrong with one |
//! | [`facts`] | what they may ask of a run |
//! | [`command`] | a command's words: the program behind `sudo` and `env`, its subcommand, its operands |
//! | [`spelling`], [`sizes`] | how a flag with its value is written, and how a number is |
//! | [`shell_loop`] | a command that a shell runs for each of many |
//! | [`advice`], [`edit`], [`template`] | whether an advice is for this command, and the command with the change made |
//! | [`listing`] | a recipe for people to read |

#![warn(unreachable_pub)]

mod advice;
mod check;
mod command;
mod edit;
mod embedded;
mod error;
mod facts;
mod kind;
mod library;
mod listing;
mod recipe;
mod shell_loop;
mod sizes;
mod spelling;
mod template;
#[cfg(test)]
mod tests;

pub use advice::{Advised, Asked};
pub use command::{at_program, program, words_of_program};
pub use error::{Error, Result};
pub use facts::Fact;
pub use kind::Kind;
pub use listing::text;
pub use recipe::{Advice, Below, From, Never, Parameter, Program, Recipe, Replace, Set, Versions};
pub use sizes::{number_of, unit_bytes};
pub use spelling::{InAddress, Occurrence, Spelling};
