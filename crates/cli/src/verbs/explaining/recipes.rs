//! `thalweg recipes`: lists the recipes for well-known programs, or shows the recipe of one.

use crate::failure::Failure;
use crate::output;
use serde::Serialize;
use thalweg_recipes::Recipe;

/// Arguments of `thalweg recipes`.
#[derive(clap::Args)]
#[command(after_help = "\
A recipe says how to change a program's command line to get the gain that `thalweg explain` predicts, what the change gives up, where it \
is documented, whether the lab has tested it verbatim, and which parameters `thalweg tune` varies. Recipes are files in recipes/ of the \
source tree; see docs/RECIPES.md.

  thalweg recipes
  thalweg recipes dd")]
pub(crate) struct Arguments {
    /// A program, or the name of a recipe (default: list all recipes, one line each)
    #[arg(value_name = "PROGRAM")]
    program: Option<String>,
    /// Print the recipes as JSON (thalweg.recipes/1)
    #[arg(long)]
    json: bool,
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    recipes: Vec<&'a Recipe>,
}

/// Lists the recipes, or shows one.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let all = Recipe::embedded();
    let is_meant =
        |recipe: &&Recipe| arguments.program.as_ref().is_none_or(|name| recipe.name == *name || recipe.program.names.contains(name));
    let recipes: Vec<&Recipe> = all.iter().filter(is_meant).collect();
    if let Some(name) = arguments.program.as_ref().filter(|_| recipes.is_empty()) {
        let known: Vec<&str> = all.iter().map(|recipe| recipe.name.as_str()).collect();
        return Err(Failure::usage(format!("no recipe for {name}; there are recipes for {}", known.join(", "))));
    }
    if arguments.json {
        let document = Document { schema: "thalweg.recipes/1", recipes };
        return output::result(&serde_json::to_string_pretty(&document).map_err(Failure::failed)?);
    }
    if arguments.program.is_some() {
        let texts: Vec<String> = recipes.iter().map(|recipe| thalweg_recipes::text(recipe).join("\n")).collect();
        return output::result(&texts.join("\n\n"));
    }
    let width = recipes.iter().map(|recipe| recipe.name.len()).max().unwrap_or(0);
    for recipe in recipes {
        output::line(&format!("{:width$}  {}", recipe.name, recipe.program.title))?;
    }
    Ok(())
}
