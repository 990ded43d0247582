//! Recipes for well-known programs and systems: their parameters and the syntax of these, and the changes of a command that make what an
//! explanation proposes.
//!
//! **In:** `recipes/*.toml` (embedded), or such a file; a command. **Out:** the command's recipe; its parameters; the command with a change
//! made, what the change gives up, and where it is documented. **Never:** runs a command, or predicts the gain of a change.
//!
//! | module | contents |
//! |---|---|
//! | [`library`], [`recipe`], [`check`] | loading recipes; a file's tables; validation |
//! | [`facts`] | facts of a run that recipes may refer to |
//! | [`command`] | a command's words: the program behind `sudo` and `env`, its subcommand, its operands |
//! | [`spelling`], [`sizes`] | the syntax of flags with values, and of numbers |
//! | [`shell_loop`] | a command that a shell loop runs for each item |
//! | [`advice`], [`edit`], [`template`] | selecting advice for a command, and making the change |
//! | [`listing`] | a recipe as text |

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
