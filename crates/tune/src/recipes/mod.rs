//! Recipes in a tuned command: flags in the command become placeholders, and missing ones become placeholders that are empty by default.
//! `thalweg-recipes` defines recipes; this module has only what tuning adds.

mod apply;
#[cfg(test)]
mod tests;
mod version;

pub use apply::{Applied, apply};

use crate::{Error, Result};
use std::path::Path;
use thalweg_recipes::Recipe;

/// Reads a recipe whose values a sweep can use.
///
/// # Errors
/// The file cannot be read, or is not a recipe.
pub fn read(path: &Path) -> Result<Recipe> {
    let recipe = Recipe::read(path)?;
    checked(recipe)
}

/// Checks that the parameters' values are valid in a sweep.
fn checked(recipe: Recipe) -> Result<Recipe> {
    for parameter in &recipe.parameters {
        if let Err(error) = thalweg_study::sweep::Parameter::parse(&format!("{}={}", parameter.name, parameter.values)) {
            return Err(Error::Choice(format!("{}: parameter {}: values: {error}", recipe.name, parameter.name)));
        }
    }
    Ok(recipe)
}
