//! Formats a recipe as text: title, advice, parameters.

use crate::check::NOT_TRIED;
use crate::recipe::{Advice, Parameter, Pieces, Recipe};

/// Formats a recipe as lines, the first of which is its title.
pub fn text(recipe: &Recipe) -> Vec<String> {
    let mut lines = vec![recipe.title()];
    for advice in &recipe.advice {
        lines.extend(advised(advice));
    }
    if !recipe.parameters.is_empty() {
        lines.push("  parameters that `thalweg tune` varies:".to_owned());
        lines.extend(recipe.parameter_lines().into_iter().map(|line| format!("    {line}")));
    }
    lines
}

impl Recipe {
    /// Returns its title line.
    pub fn title(&self) -> String {
        format!("{}: {} ({})", self.name, self.program.title, self.program.source)
    }

    /// Returns a line for each parameter: name, description, values, default, source.
    pub fn parameter_lines(&self) -> Vec<String> {
        let consent =
            |parameter: &Parameter| if parameter.needs_consent { format!(" (--allow {})", parameter.name) } else { String::new() };
        let line = |p: &Parameter| format!("{}: {}, {}, default {}{} [{}]", p.name, p.title, p.values, p.default, consent(p), p.source);
        self.parameters.iter().map(line).collect()
    }
}

/// Formats an advice: what it is for, the change, its conditions, the edits of the command, what it gives up, its source.
fn advised(advice: &Advice) -> Vec<String> {
    let about: Vec<&str> = advice.changes.iter().chain(&advice.causes).map(String::as_str).collect();
    let mut lines = vec![format!("  {}: {}", about.join(", "), advice.says)];
    let mut more = |what: &str, words: &[String], joint: &str| {
        if !words.is_empty() {
            lines.push(format!("    {what}: {}", words.join(joint)));
        }
    };
    more("if the command has", &advice.has, " or ");
    more("and not", &advice.lacks, " or ");
    more("if the run has", &advice.when, " and ");
    more("and no", &advice.unless, " or ");
    more("where", &advice.from.iter().map(|from| format!("{} is {} or more", from.fact, from.value)).collect::<Vec<_>>(), "");
    let below = advice.below.iter().map(|below| format!("{} is below {}", below.parameter, below.value)).collect::<Vec<_>>();
    more("where", &below, " and ");
    let decides = |pieces: &Pieces| pieces.size.clone().or_else(|| Some(format!("a size set by {}", pieces.parameter.as_ref()?)));
    more("if at least two pieces are read, each of", &advice.pieces.iter().filter_map(decides).collect::<Vec<_>>(), "");
    more("removes", &[advice.remove.as_slice(), advice.remove_values.as_slice()].concat(), " ");
    more("replaces", &advice.replace.iter().map(|one| format!("{} for {}", one.with, one.word)).collect::<Vec<_>>(), ", ");
    let sets = advice.set.iter().map(|set| match (&set.value, set.times) {
        (Some(value), _) => format!("{} = {value}", set.parameter),
        (None, times) => format!("{} x {}", set.parameter, times.unwrap_or(1.0)),
    });
    more("sets", &sets.collect::<Vec<_>>(), ", ");
    more("adds", &advice.add, " ");
    more("command", &advice.command, " ");
    more("instead of the shell loop", &Some(&advice.in_loop).filter(|text| !text.is_empty()).cloned().into_iter().collect::<Vec<_>>(), "");
    more("gives up", &Some(&advice.gives_up).filter(|text| !text.is_empty()).cloned().into_iter().collect::<Vec<_>>(), "");
    let tried = if advice.tried == NOT_TRIED { NOT_TRIED.to_owned() } else { format!("tried in {}", advice.tried) };
    lines.push(format!("    {tried} [{}]", advice.source));
    lines
}
