//! Recipes as they are had: all that come with the program, one of a file, the one for a command.

use crate::check::check;
use crate::embedded::EMBEDDED;
use crate::error::{Error, Result};
use crate::recipe::Recipe;
use std::path::Path;
use std::sync::OnceLock;

impl Recipe {
    /// Reads one; `origin` names it in errors.
    ///
    /// # Errors
    /// It is none: says in which table and field.
    pub fn parse(origin: &str, text: &str) -> Result<Recipe> {
        let recipe: Recipe = toml::from_str(text).map_err(|error| Error::Wrong(format!("{origin}: no recipe: {error}")))?;
        let recipe = Recipe { name: origin.to_owned(), ..recipe };
        check(&recipe)?;
        Ok(recipe)
    }

    /// All that come with the program, by name.
    pub fn embedded() -> &'static [Recipe] {
        static PARSED: OnceLock<Vec<Recipe>> = OnceLock::new();
        PARSED.get_or_init(|| {
            let parse = |&(name, text): &(&str, &str)| Recipe::parse(name, text).expect("a test reads every embedded recipe");
            EMBEDDED.iter().map(parse).collect()
        })
    }

    /// One of a file.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Recipe> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        Recipe::parse(&path.display().to_string(), &text)
    }

    /// The recipe for a command, by its program and subcommand. Where several are for it, the first that has parameters.
    pub fn find<'a>(recipes: &'a [Recipe], command: &[String]) -> Option<&'a Recipe> {
        let known = || recipes.iter().filter(|recipe| recipe.is_for(command));
        known().find(|recipe| !recipe.parameters.is_empty()).or_else(|| known().next())
    }
}
