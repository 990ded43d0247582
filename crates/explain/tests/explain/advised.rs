//! Recipes' advice refers to things that explanations have: what-ifs listed in MODEL.md, and causes.

use thalweg_explain::Cause;
use thalweg_recipes::Recipe;

#[test]
fn advice_is_for_what_ifs_and_causes_that_there_are() {
    let model = include_str!("../../MODEL.md");
    for recipe in Recipe::embedded() {
        for advice in &recipe.advice {
            for id in &advice.changes {
                let is_listed = model.contains(&format!("`{id}`")) || id.starts_with("walk.window.") && model.contains("`walk.window.8`");
                assert!(is_listed, "{}: MODEL.md lists no what-if {id}", recipe.name);
            }
            for cause in &advice.causes {
                assert!(Cause::from_name(cause).is_some(), "{}: {cause} is no cause", recipe.name);
            }
        }
    }
}
