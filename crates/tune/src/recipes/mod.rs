//! Recipes: how well-known programs' parameters are written, what they turn, and what must not be touched.
//!
//! A recipe is data, `recipes/*.toml` at the root of the source tree; here it is read, found by a command's first words, and put into a command: the flags
//! that are there become places, those that are not become places that the default leaves empty. A new program is a file there and a line in
//! [`EMBEDDED`].

mod apply;
mod spelling;
#[cfg(test)]
mod tests;
mod version;

pub use apply::Applied;

use crate::search::Kind;
use crate::{Error, Result};
use serde::Deserialize;
use std::path::Path;

/// The recipes that come with the program.
const EMBEDDED: &[(&str, &str)] = &[
    ("aria2c", include_str!("../../../../recipes/aria2c.toml")),
    ("curl", include_str!("../../../../recipes/curl.toml")),
    ("dd", include_str!("../../../../recipes/dd.toml")),
    ("fio", include_str!("../../../../recipes/fio.toml")),
    ("gridftp", include_str!("../../../../recipes/gridftp.toml")),
    ("nfs-cp", include_str!("../../../../recipes/nfs-cp.toml")),
    ("pigz", include_str!("../../../../recipes/pigz.toml")),
    ("rclone", include_str!("../../../../recipes/rclone.toml")),
    ("rsync", include_str!("../../../../recipes/rsync.toml")),
    ("scp", include_str!("../../../../recipes/scp.toml")),
    ("sftp", include_str!("../../../../recipes/sftp.toml")),
    ("thalweg-cp", include_str!("../../../../recipes/thalweg-cp.toml")),
    ("thalweg-mount", include_str!("../../../../recipes/thalweg-mount.toml")),
    ("xrdcp", include_str!("../../../../recipes/xrdcp.toml")),
    ("xz", include_str!("../../../../recipes/xz.toml")),
    ("zstd", include_str!("../../../../recipes/zstd.toml")),
];

/// What is known of a program's parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// What it is called: its file's name.
    #[serde(skip)]
    pub name: String,
    pub(crate) program: Program,
    #[serde(rename = "parameter")]
    pub(crate) parameters: Vec<RecipeParameter>,
}

/// The program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    /// What its file may be called.
    pub(crate) names: Vec<String>,
    /// Its first word that is no flag has to be one of these, if there are any.
    pub(crate) subcommands: Vec<String>,
    pub(crate) title: String,
    /// The page that documents its options.
    pub(crate) source: String,
    /// How its version is asked for, and for which the recipe is.
    pub(crate) version: Option<version::Versions>,
    /// Which word names what a run makes: `last`, a word that begins so (`of=`), the word after a flag (`-o`), or none.
    pub(crate) output: String,
    /// Why a second run may do nothing or fail.
    pub(crate) repeat: String,
    /// What a tuner never writes.
    pub(crate) never: Vec<Never>,
}

/// A flag that decides what is durable, verified, encrypted or kept.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Never {
    pub(crate) flag: String,
    #[allow(dead_code, reason = "for who reads the recipe")]
    why: String,
}

/// A parameter of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecipeParameter {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) title: String,
    /// Every way to write it: see [`spelling::Spelling`].
    pub(crate) flags: Vec<String>,
    /// How it is written where the command does not have it.
    pub(crate) write: String,
    /// Flags that are set to the same value where the command does not have them.
    #[serde(default)]
    pub(crate) also: Vec<String>,
    /// Where that goes: `before-operands`, `end`, or `query:SCHEME`, into the address that begins so.
    pub(crate) place: String,
    /// Its values, as `--vary` takes them.
    pub(crate) values: String,
    /// What stands behind a number in the command: it is so many of these.
    pub(crate) unit: String,
    /// What the program does where it is not given: a value, or `auto`.
    pub(crate) default: String,
    pub(crate) gives_up: String,
    /// Whether it is varied only where that is allowed by name.
    pub(crate) needs_consent: bool,
    /// Words with which it cannot be varied.
    #[serde(default)]
    pub(crate) conflicts: Vec<Conflict>,
    /// Words of which one has to be there.
    #[serde(default)]
    pub(crate) needs: Option<Needs>,
    /// Variables that change the default.
    #[serde(default)]
    pub(crate) environment: Vec<String>,
    pub(crate) source: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Conflict {
    /// A word that begins so.
    pub(crate) word: String,
    pub(crate) why: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Needs {
    pub(crate) words: Vec<String>,
    pub(crate) why: String,
}

impl Recipe {
    /// Reads one; `origin` names it in errors.
    fn parse(origin: &str, text: &str) -> Result<Recipe> {
        let recipe: Recipe = toml::from_str(text).map_err(|error| Error::Choice(format!("{origin}: no recipe: {error}")))?;
        let wrong =
            |parameter: &RecipeParameter, problem: String| Err(Error::Choice(format!("{origin}: parameter {}: {problem}", parameter.name)));
        for parameter in &recipe.parameters {
            if let Err(error) = thalweg_study::sweep::Parameter::parse(&format!("{}={}", parameter.name, parameter.values)) {
                return wrong(parameter, error.to_string());
            }
            if let Some(never) = recipe.program.never.iter().find(|never| parameter.flags.contains(&never.flag)) {
                return wrong(parameter, format!("{} is never to be touched, says the same recipe", never.flag));
            }
            if !["", "k", "K", "M", "G"].contains(&parameter.unit.as_str()) {
                return wrong(parameter, format!("unit `{}`: expected nothing, k, K, M or G", parameter.unit));
            }
            let places = ["before-operands", "end"];
            if !places.contains(&parameter.place.as_str()) && !parameter.place.starts_with("query:") {
                return wrong(parameter, format!("place `{}`: expected before-operands, end or query:SCHEME", parameter.place));
            }
        }
        Ok(Recipe { name: origin.to_owned(), ..recipe })
    }

    /// All that come with the program.
    ///
    /// # Errors
    /// Never, as a test shows.
    pub fn embedded() -> Result<Vec<Recipe>> {
        EMBEDDED.iter().map(|(name, text)| Recipe::parse(name, text)).collect()
    }

    /// One of a file.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Recipe> {
        let text = std::fs::read_to_string(path).map_err(Error::file(path, "reading a recipe"))?;
        Recipe::parse(&path.display().to_string(), &text)
    }

    /// The recipe for a command, by its program and subcommand.
    pub fn find<'a>(recipes: &'a [Recipe], command: &[String]) -> Option<&'a Recipe> {
        recipes.iter().find(|recipe| recipe.is_for(command))
    }

    fn is_for(&self, command: &[String]) -> bool {
        let Some((program, words)) = command.split_first() else { return false };
        let file = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
        let subcommand = words.iter().find(|word| !word.starts_with('-'));
        file.is_some_and(|file| self.program.names.contains(&file))
            && (self.program.subcommands.is_empty() || subcommand.is_some_and(|word| self.program.subcommands.contains(word)))
    }

    /// Why a second run may do nothing or fail; empty where nothing is known.
    pub fn repeat(&self) -> &str {
        &self.program.repeat
    }

    /// What it is of, in a line.
    pub fn title(&self) -> String {
        format!("{}: {} ({})", self.name, self.program.title, self.program.source)
    }

    /// Its parameters, a line each: name, kind, values, default, what it is, where that is documented.
    pub fn lines(&self) -> Vec<String> {
        let consent =
            |parameter: &RecipeParameter| if parameter.needs_consent { format!(" (--allow {})", parameter.name) } else { String::new() };
        let line =
            |p: &RecipeParameter| format!("{}: {}, {}, default {}{} [{}]", p.name, p.title, p.values, p.default, consent(p), p.source);
        self.parameters.iter().map(line).collect()
    }
}
