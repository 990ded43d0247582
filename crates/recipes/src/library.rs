//! Loads recipes: all built-in ones, one from a file, the one for a command.

use crate::check::check;
use crate::embedded::EMBEDDED;
use crate::error::{Error, Result};
use crate::recipe::Recipe;
use std::path::Path;
use std::sync::OnceLock;

impl Recipe {
    /// Parses a recipe; `origin` names it in errors.
    ///
    /// # Errors
    /// The text is not a valid recipe; the error names the table and field.
    pub fn parse(origin: &str, text: &str) -> Result<Recipe> {
        let recipe: Recipe = toml::from_str(text).map_err(|error| Error::Wrong(format!("{origin}: not a recipe: {error}")))?;
        let recipe = Recipe { name: origin.to_owned(), ..recipe };
        check(&recipe)?;
        Ok(recipe)
    }

    /// Returns all built-in recipes, by name.
    pub fn embedded() -> &'static [Recipe] {
        static PARSED: OnceLock<Vec<Recipe>> = OnceLock::new();
        PARSED.get_or_init(|| {
            let parse = |&(name, text): &(&str, &str)| Recipe::parse(name, text).expect("a test reads every embedded recipe");
            EMBEDDED.iter().map(parse).collect()
        })
    }

    /// Reads a recipe from a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid recipe.
    pub fn read(path: &Path) -> Result<Recipe> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        Recipe::parse(&path.display().to_string(), &text)
    }

    /// Returns the recipe for a command, by its program and subcommand; of several, the first that has parameters.
    pub fn find<'a>(recipes: &'a [Recipe], command: &[String]) -> Option<&'a Recipe> {
        let known = || recipes.iter().filter(|recipe| recipe.is_for(command));
        known().find(|recipe| !recipe.parameters.is_empty()).or_else(|| known().next())
    }
}
