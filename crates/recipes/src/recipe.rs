//! A recipe's tables, as its file has them.

use crate::command;
use crate::facts::Fact;
use crate::kind::Kind;
use crate::sizes::{number_of, unit_bytes};
use crate::spelling::{InAddress, Spelling};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is known of a program, or of a part of a system.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// What it is called: its file's name, without the ending.
    #[serde(skip_deserializing)]
    pub name: String,
    /// The program.
    pub program: Program,
    /// What can be varied.
    #[serde(rename = "parameter", default)]
    pub parameters: Vec<Parameter>,
    /// What can be changed, and for which cause.
    #[serde(default)]
    pub advice: Vec<Advice>,
}

/// The program.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// What its file may be called; none: a part of a system, for any program, or a library (`uses`).
    pub names: Vec<String>,
    /// Modules of an interpreter: the recipe is of a library, and for any program that imports one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
    /// Its first word that is no flag has to be one of these, if there are any.
    pub subcommands: Vec<String>,
    /// Flags whose value is the next word: without them that would be taken for an operand.
    #[serde(default)]
    pub takes_value: Vec<String>,
    /// Flags that stand for one operand each, as curl's `-o FILE` does: in a list of many each has its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of_operand: Vec<String>,
    /// Whether what stands behind its first operand is no flag of its own, as with `ssh HOST ls -l`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flags_first: bool,
    /// Whether its first word may be a bundle of flags without a dash, as tar's `czf` is.
    #[serde(default)]
    pub first_without_dash: bool,
    /// Whether its advice is for a program that serves: also where it served the command.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub serves: bool,
    /// What it is, in a few words.
    pub title: String,
    /// The page that documents its options.
    pub source: String,
    /// How its version is asked for, and for which the recipe is.
    pub version: Option<Versions>,
    /// Which word names what a run makes: `last`, a word that begins so (`of=`), the word after a flag (`-o`), or none.
    pub output: String,
    /// Why a second run may do nothing or fail.
    pub repeat: String,
    /// What a tuner never writes.
    pub never: Vec<Never>,
}

/// How a version is known, and the range that was checked.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Versions {
    /// A program says it: the one of the recipe, or one that comes with it.
    Asked {
        /// Who is asked, if not the program itself.
        program: Option<String>,
        /// With which words.
        arguments: Vec<String>,
        /// The first that was checked.
        from: String,
        /// The first that was not.
        before: String,
    },
    /// Nobody says it, and the library that the program is linked with is of it.
    Linked {
        /// The library's file.
        library: String,
    },
}

/// A flag that decides what is durable, verified, encrypted or kept.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Never {
    /// The flag.
    pub flag: String,
    /// Why.
    pub why: String,
}

/// A parameter of a program.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// What it is called here.
    pub name: String,
    /// What it turns.
    pub kind: Kind,
    /// What it is, in a few words.
    pub title: String,
    /// Every way to write it: see [`crate::Spelling`].
    pub flags: Vec<String>,
    /// How it is written where the command does not have it.
    pub write: String,
    /// Flags that are set to the same value where the command does not have them.
    #[serde(default)]
    pub also: Vec<String>,
    /// Where that goes: `before-operands`, `end`, or `query:SCHEME`, into the address that begins so.
    pub place: String,
    /// Its values, as `--vary` takes them.
    pub values: String,
    /// What stands behind a number in the command: it is so many of these.
    pub unit: String,
    /// What the program does where it is not given: a value, or `auto`.
    pub default: String,
    /// What other values give up.
    pub gives_up: String,
    /// Whether it is varied only where that is allowed by name.
    pub needs_consent: bool,
    /// Words with which it cannot be varied.
    #[serde(default)]
    pub conflicts: Vec<Conflict>,
    /// Words of which one has to be there.
    #[serde(default)]
    pub needs: Option<Needs>,
    /// Variables that change the default.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Where it is documented.
    pub source: String,
}

/// A word with which a parameter cannot be varied.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// A word that begins so.
    pub word: String,
    /// Why.
    pub why: String,
}

/// Words without which a parameter means nothing.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// One of them has to be there.
    pub words: Vec<String>,
    /// Why.
    pub why: String,
}

/// A change: for which cause, with which evidence in the command, and how it is made. Without one of the fields that make a command it is text: a
/// setting that is made outside of the command.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    /// The what-ifs of an explanation that it makes true: their identifiers.
    #[serde(rename = "for", default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// The causes that it is for where no what-if predicts what it gives.
    #[serde(rename = "cause", default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// One of these words has to be in the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub has: Vec<String>,
    /// None of these may be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// The command has at least so many operands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operands: Option<usize>,
    /// One of its operands has one of these texts in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operand_has: Vec<String>,
    /// Of a cause, or a what-if about a program: that program is one of these (`*`: any), which the command started; without, it is the command's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub started: Vec<String>,
    /// Facts of the run that have to be known ([`crate::Fact`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// Facts that must not be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unless: Vec<String>,
    /// A fact of the run that is a number, and this or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<From>,
    /// A parameter whose value is below this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Below>,
    /// Into what pieces the work is cut that go on side by side: the advice is for a run that reads two of them or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pieces: Option<Pieces>,
    /// Which part of the recorded work the changed command does, where another program does the same with less or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<f64>,
    /// Whether a what-if of it is a bound: what goes on side by side may have to wait for each other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most: bool,
    /// Words that are left out: a flag without a value, a letter of a bundle (`-z` of `-avz`), an item of a list (`conv=fsync`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Flags that are left out with their value, each as [`crate::Spelling`] has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_values: Vec<String>,
    /// Words that others take the place of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace: Vec<Replace>,
    /// Parameters of the recipe that are given a value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<Set>,
    /// Words that are added, before the operands; templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
    /// A whole new command, a template: `{1}` is the first operand, `{operands}` all of them (for a shell), `{batch}` how many of them a command gets at a time, `{of=}` what stands behind `of=`, `{-i}` the word behind the flag `-i`,
    /// `{?conv=}` the word that begins so if there is one, `{others}` all words that no other place has (for a shell), `{*}` the command as it was, `{mount}` a fact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// What takes the place of a shell's loop that runs the command for each of many, a template: `{for}` is `for i in LIST`, `{list}` its list, `{each}` the words that are for one of them and `{shared}` those for all, `{body}` the command
    /// for `xargs`, with `{}` for the variable, `{discard}` where its output is thrown away. An advice that has it is for such loops alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub in_loop: String,
    /// Words of the command that the new one has no use for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<String>,
    /// The change, in words; a template as well.
    pub says: String,
    /// What it gives up; empty: nothing. A program asks before it makes a change that gives something up.
    pub gives_up: String,
    /// The page that documents it.
    pub source: String,
    /// The laboratory's scenario, or the command of its answers (`answers/gzip`), in which it is followed to the letter; or `not tried here`.
    pub tried: String,
}

/// A parameter that stands below a value.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Below {
    /// Its name.
    pub parameter: String,
    /// The value, as the parameter's values are written.
    pub value: String,
}

/// A fact that is this or more.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct From {
    /// Its name.
    pub fact: String,
    /// The least, as sizes are written.
    pub value: String,
}

/// How large the pieces are that a program works on side by side.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pieces {
    /// Always so large, as sizes are written: `24M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Or the parameter that decides,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// and the size by its value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, String>,
}

/// A word that another takes the place of.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Replace {
    /// It; the program's name is meant wherever its file lies.
    pub word: String,
    /// The other.
    pub with: String,
}

/// A parameter that is given a value.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// Its name.
    pub parameter: String,
    /// The value, as the parameter's values are written.
    pub value: Option<String>,
    /// How that stands in the command, where not as a plain number: `1M`.
    pub written: Option<String>,
    /// Or so many times what it is, up to its largest.
    pub times: Option<f64>,
}

impl Recipe {
    /// Whether it is for this command.
    pub fn is_for(&self, command: &[String]) -> bool {
        self.program.names.iter().any(|name| name == command::program(command))
            && (self.program.subcommands.is_empty() || self.subcommand(command).is_some())
    }

    /// Whether it is of a part of a system, and for any program.
    pub fn is_of_system(&self) -> bool {
        self.program.names.is_empty() && self.program.uses.is_empty()
    }

    /// Whether it is of a library that a run with these facts used.
    pub(crate) fn is_used(&self, facts: &[Fact]) -> bool {
        self.program.uses.iter().any(|module| facts.iter().any(|fact| fact.name == "modules" && fact.value.split(' ').any(|m| m == module)))
    }

    /// Where its subcommand stands, if it has such.
    pub(crate) fn subcommand(&self, command: &[String]) -> Option<usize> {
        let first = command::operands(command, &self.program.takes_value).first().copied();
        first.filter(|&at| self.program.subcommands.contains(&command[at]))
    }

    /// The places of a command's operands: its subcommand is none.
    pub(crate) fn operands(&self, command: &[String]) -> Vec<usize> {
        let found = command::operands(command, &self.program.takes_value);
        found.into_iter().skip(usize::from(!self.program.subcommands.is_empty())).collect()
    }

    /// Where a flag can be put: right after the program and its subcommand.
    pub fn first_free(&self, command: &[String]) -> usize {
        self.subcommand(command).unwrap_or_else(|| command::at_program(command)) + 1
    }

    /// What a run of this command makes, where the recipe knows it.
    pub fn output(&self, command: &[String]) -> Option<String> {
        match self.program.output.as_str() {
            "" => None,
            "last" => command::words_of_program(command).iter().rfind(|word| !word.starts_with('-')).cloned(),
            flag => Spelling::of(flag).find(command).map(|found| found.value),
        }
    }

    /// Why a second run may do nothing or fail; empty where nothing is known.
    pub fn repeat(&self) -> &str {
        &self.program.repeat
    }

    /// A parameter's value in a command, or what the program does without it; `None` where that is the program's own choice.
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

    /// The parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }
}

impl Parameter {
    /// Why it means nothing, or something else, in this command, if so.
    pub fn unusable(&self, command: &[String]) -> Option<String> {
        if let Some(conflict) = self.conflicts.iter().find(|conflict| command::has(command, &conflict.word)) {
            return Some(conflict.why.clone());
        }
        let needs = self.needs.as_ref().filter(|needs| !needs.words.iter().any(|word| command::has(command, word)))?;
        Some(format!("{} (it needs {})", needs.why, needs.words.join(" or ")))
    }
}
