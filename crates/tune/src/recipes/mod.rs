//! A recipe put into a command that is tuned: the flags that are there become places, those that are not become places that the default leaves empty.
//! What recipes are, and which there are, is `thalweg-recipes`'; here is what only a tuner does with them.

mod apply;
#[cfg(test)]
mod tests;
mod version;

pub use apply::{Applied, apply};

use crate::{Error, Result};
use std::path::Path;
use thalweg_recipes::Recipe;

/// A recipe of a file, with values that a sweep can have.
///
/// # Errors
/// It cannot be read, or is none.
pub fn read(path: &Path) -> Result<Recipe> {
    let recipe = Recipe::read(path)?;
    checked(recipe)
}

/// The same, if its parameters' values are a sweep's.
fn checked(recipe: Recipe) -> Result<Recipe> {
    for parameter in &recipe.parameters {
        if let Err(error) = thalweg_study::sweep::Parameter::parse(&format!("{}={}", parameter.name, parameter.values)) {
            return Err(Error::Choice(format!("{}: parameter {}: values: {error}", recipe.name, parameter.name)));
        }
    }
    Ok(recipe)
}
