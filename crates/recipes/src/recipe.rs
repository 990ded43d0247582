//! The tables of a recipe's file.

use crate::command;
use crate::facts::Fact;
use crate::kind::Kind;
use crate::sizes::{number_of, unit_bytes};
use crate::spelling::{InAddress, Spelling};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A recipe for a program, or for a part of the system.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Its name: the file's name without extension.
    #[serde(skip_deserializing)]
    pub name: String,
    /// The program.
    pub program: Program,
    /// Parameters that can be varied.
    #[serde(rename = "parameter", default)]
    pub parameters: Vec<Parameter>,
    /// Changes, by what-if or cause.
    #[serde(default)]
    pub advice: Vec<Advice>,
}

/// The program of a recipe.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Possible names of its file; empty for a part of the system (any program) or a library (`uses`).
    pub names: Vec<String>,
    /// Modules of an interpreter: the recipe is for a library, and for any program that imports one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
    /// Subcommands: if there are any, the first word that is not a flag must be one of them.
    pub subcommands: Vec<String>,
    /// Flags whose value is the next word, which would otherwise be taken for an operand.
    #[serde(default)]
    pub takes_value: Vec<String>,
    /// Flags that apply to one operand each, like curl's `-o FILE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of_operand: Vec<String>,
    /// Whether flags end at the first operand, as with `ssh HOST ls -l`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flags_first: bool,
    /// Whether its first word may be a bundle of flags without a dash, like tar's `czf`.
    #[serde(default)]
    pub first_without_dash: bool,
    /// Whether its advice also applies to the program as a server of the command.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub serves: bool,
    /// A short description.
    pub title: String,
    /// The page that documents its options.
    pub source: String,
    /// How to query its version, and the versions that the recipe is for.
    pub version: Option<Versions>,
    /// The word that names a run's output: `last`, a prefix (`of=`), a flag before it (`-o`), or empty for none.
    pub output: String,
    /// Why a second run may do nothing or fail.
    pub repeat: String,
    /// Flags that a tuner must not set.
    pub never: Vec<Never>,
}

/// How to find a version, and the range that was checked.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Versions {
    /// Printed by a program: the recipe's, or one that comes with it.
    Asked {
        /// The program to run, if not the recipe's.
        program: Option<String>,
        /// Its arguments.
        arguments: Vec<String>,
        /// The first version checked.
        from: String,
        /// The first version not checked.
        before: String,
    },
    /// Not printed; it is the version of a library that the program is linked with.
    Linked {
        /// The library's file.
        library: String,
    },
}

/// A flag that affects durability, verification, encryption or what is kept.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Never {
    /// The flag.
    pub flag: String,
    /// The reason.
    pub why: String,
}

/// A parameter of a program.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its name here.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// A short description.
    pub title: String,
    /// Every way to write it: see [`crate::Spelling`].
    pub flags: Vec<String>,
    /// How to write it if the command does not have it.
    pub write: String,
    /// Flags set to the same value if the command does not have them.
    #[serde(default)]
    pub also: Vec<String>,
    /// Where to insert it: `before-operands`, `end`, or `query:SCHEME` for the query of a URL of that scheme.
    pub place: String,
    /// Its values, in the syntax of `--vary`.
    pub values: String,
    /// The unit written after a number in the command.
    pub unit: String,
    /// The program's default: a value, or `auto`.
    pub default: String,
    /// What other values give up.
    pub gives_up: String,
    /// Whether it is varied only with explicit consent (`--allow NAME`).
    pub needs_consent: bool,
    /// Words with which it cannot be varied.
    #[serde(default)]
    pub conflicts: Vec<Conflict>,
    /// Words of which one must be present.
    #[serde(default)]
    pub needs: Option<Needs>,
    /// Environment variables that change the default.
    #[serde(default)]
    pub environment: Vec<String>,
    /// The page that documents it.
    pub source: String,
}

/// A word with which a parameter cannot be varied.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// A prefix of the word.
    pub word: String,
    /// The reason.
    pub why: String,
}

/// Words without which a parameter has no effect.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// Words of which one must be present.
    pub words: Vec<String>,
    /// The reason.
    pub why: String,
}

/// A change: its cause, its conditions, and how to make it. Without any field that changes the command it is only text: a setting outside
/// the command.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    /// Ids of the what-ifs that it makes true.
    #[serde(rename = "for", default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// The causes that it helps against, if no what-if predicts its gain.
    #[serde(rename = "cause", default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// Words of which the command must have one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub has: Vec<String>,
    /// Words that the command must not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// Minimum number of operands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operands: Option<usize>,
    /// Texts of which one must occur in an operand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operand_has: Vec<String>,
    /// For a cause, or a what-if about a program: programs started by the command of which it must be one (`*`: any). If empty, it is the
    /// command's own program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub started: Vec<String>,
    /// Facts of the run that must be known ([`crate::Fact`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Facts that must not be known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unless: Vec<String>,
    /// A numeric fact of the run, and its minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<From>,
    /// A parameter whose value must be below this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Below>,
    /// Pieces that are worked on in parallel: the run must read at least two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<Pieces>,
    /// Part of the recorded work that the changed command does, if another program needs more or less work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<f64>,
    /// Whether its what-if is a bound: parallel parts may have to wait for each other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most: bool,
    /// Words to remove: a flag without a value, a letter of a bundle (`-z` of `-avz`), an item of a list (`conv=fsync`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Flags to remove with their value, in the syntax of [`crate::Spelling`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_values: Vec<String>,
    /// Words to replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace: Vec<Replace>,
    /// Parameters of the recipe to set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<Set>,
    /// Words to insert before the operands; templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
    /// A new command, as a template: `{1}` is the first operand, `{operands}` all operands (for a shell), `{batch}` the number of operands
    /// per command, `{of=}` the rest of the word after `of=`, `{-i}` the word after the flag `-i`, `{?conv=}` the word with this prefix if
    /// there is one, `{others}` all words used by no other placeholder (for a shell), `{*}` the recorded command, `{mount}` a fact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Replacement of a shell loop that runs the command for each item, as a template: `{for}` is `for i in LIST`, `{list}` its list,
    /// `{each}` the words for one item and `{shared}` those for all, `{body}` the command for `xargs`, with `{}` for the variable,
    /// `{discard}` the redirection that discards its output. An advice with it applies to such loops only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub in_loop: String,
    /// Words of the command that the new one may drop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<String>,
    /// The change, in words; a template.
    pub says: String,
    /// What it gives up; empty: nothing. Changes that give something up need the user's consent.
    pub gives_up: String,
    /// The page that documents it.
    pub source: String,
    /// The lab's scenario, or the command of its answers (`answers/gzip`), in which it is tested verbatim; or `not tried here`.
    pub tried: String,
}

/// A parameter that must be below a value.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Below {
    /// Its name.
    pub parameter: String,
    /// The value, in the syntax of the parameter's values.
    pub value: String,
}

/// A numeric fact with a minimum.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct From {
    /// Its name.
    pub fact: String,
    /// The minimum, in the syntax of sizes.
    pub value: String,
}

/// The size of the pieces that a program works on in parallel.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pieces {
    /// A fixed size, in the syntax of sizes: `24M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Or the parameter that determines the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// The sizes by value of that parameter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, String>,
}

/// A replacement of a word.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Replace {
    /// The word to replace; a program's name matches in any directory.
    pub word: String,
    /// The new word.
    pub with: String,
}

/// A parameter to set.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// Its name.
    pub parameter: String,
    /// The value, in the syntax of the parameter's values.
    pub value: Option<String>,
    /// How to write the value in the command, if not as a plain number: `1M`.
    pub written: Option<String>,
    /// Or a factor for the current value, up to its maximum.
    pub times: Option<f64>,
}

impl Recipe {
    /// Whether it applies to this command.
    pub fn is_for(&self, command: &[String]) -> bool {
        self.program.names.iter().any(|name| name == command::program(command))
            && (self.program.subcommands.is_empty() || self.subcommand(command).is_some())
    }

    /// Whether it is for a part of the system, and any program.
    pub fn is_of_system(&self) -> bool {
        self.program.names.is_empty() && self.program.uses.is_empty()
    }

    /// Whether it is for a library that a run with these facts used.
    pub(crate) fn is_used(&self, facts: &[Fact]) -> bool {
        self.program.uses.iter().any(|module| facts.iter().any(|fact| fact.name == "modules" && fact.value.split(' ').any(|m| m == module)))
    }

    /// Returns the index of its subcommand, if it has one.
    pub(crate) fn subcommand(&self, command: &[String]) -> Option<usize> {
        let first = command::operands(command, &self.program.takes_value).first().copied();
        first.filter(|&at| self.program.subcommands.contains(&command[at]))
    }

    /// Returns the indexes of a command's operands, without its subcommand.
    pub(crate) fn operands(&self, command: &[String]) -> Vec<usize> {
        let found = command::operands(command, &self.program.takes_value);
        found.into_iter().skip(usize::from(!self.program.subcommands.is_empty())).collect()
    }

    /// Returns the index for a new flag: right after the program and its subcommand.
    pub fn first_free(&self, command: &[String]) -> usize {
        self.subcommand(command).unwrap_or_else(|| command::at_program(command)) + 1
    }

    /// Returns the output of a run of this command, if the recipe knows it.
    pub fn output(&self, command: &[String]) -> Option<String> {
        match self.program.output.as_str() {
            "" => None,
            "last" => command::words_of_program(command).iter().rfind(|word| !word.starts_with('-')).cloned(),
            flag => Spelling::of(flag).find(command).map(|found| found.value),
        }
    }

    /// Returns why a second run may do nothing or fail; empty if not known.
    pub fn repeat(&self) -> &str {
        &self.program.repeat
    }

    /// Returns a parameter's value in a command, or its default; `None` if the default is the program's own choice.
    pub(crate) fn value_in(&self, parameter: &str, command: &[String]) -> Option<f64> {
        let parameter = self.parameter(parameter)?;
        let written = match parameter.place.strip_prefix("query:") {
            Some(scheme) => {
                let address = command.iter().find(|word| word.starts_with(scheme));
                address.and_then(|word| InAddress::of(word, &parameter.write).value)
            }
            None => parameter.flags.iter().find_map(|flag| Spelling::of(flag).find(command)).map(|found| found.value),
        };
        match written {
            Some(value) => number_of(&value, unit_bytes(&parameter.unit)),
            None => number_of(&parameter.default, 1.0),
        }
    }

    /// Returns the parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }
}

impl Parameter {
    /// Returns why it cannot be varied in this command, if so.
    pub fn unusable(&self, command: &[String]) -> Option<String> {
        if let Some(conflict) = self.conflicts.iter().find(|conflict| command::has(command, &conflict.word)) {
            return Some(conflict.why.clone());
        }
        let needs = self.needs.as_ref().filter(|needs| !needs.words.iter().any(|word| command::has(command, word)))?;
        Some(format!("{} (it needs {})", needs.why, needs.words.join(" or ")))
    }
}
