//! A recipe for people to read: a line of what it is, its advice, its parameters.

use crate::check::NOT_TRIED;
use crate::recipe::{Advice, Parameter, Pieces, Recipe};

/// A recipe in lines, the first of which says what it is of.
pub fn text(recipe: &Recipe) -> Vec<String> {
    let mut lines = vec![recipe.title()];
    for advice in &recipe.advice {
        lines.extend(advised(advice));
    }
    if !recipe.parameters.is_empty() {
        lines.push("  parameters, which `thalweg tune` varies:".to_owned());
        lines.extend(recipe.parameter_lines().into_iter().map(|line| format!("    {line}")));
    }
    lines
}

impl Recipe {
    /// What it is of, in a line.
    pub fn title(&self) -> String {
        format!("{}: {} ({})", self.name, self.program.title, self.program.source)
    }

    /// Its parameters, a line each: name, values, default, what it is, where that is documented.
    pub fn parameter_lines(&self) -> Vec<String> {
        let consent =
            |parameter: &Parameter| if parameter.needs_consent { format!(" (--allow {})", parameter.name) } else { String::new() };
        let line = |p: &Parameter| format!("{}: {}, {}, default {}{} [{}]", p.name, p.title, p.values, p.default, consent(p), p.source);
        self.parameters.iter().map(line).collect()
    }
}

/// An advice: what for, the change, with which words it holds, how a command is changed, what that gives up, where it is from.
fn advised(advice: &Advice) -> Vec<String> {
    let about: Vec<&str> = advice.changes.iter().chain(&advice.causes).map(String::as_str).collect();
    let mut lines = vec![format!("  {}: {}", about.join(", "), advice.says)];
    let mut more = |what: &str, words: &[String], joint: &str| {
        if !words.is_empty() {
            lines.push(format!("    {what}: {}", words.join(joint)));
        }
    };
    more("where the command has", &advice.has, " or ");
    more("and not", &advice.lacks, " or ");
    more("where the run has", &advice.when, " and ");
    more("and no", &advice.unless, " or ");
    more("where", &advice.from.iter().map(|from| format!("{} is {} or more", from.fact, from.value)).collect::<Vec<_>>(), "");
    let below = advice.below.iter().map(|below| format!("{} is below {}", below.parameter, below.value)).collect::<Vec<_>>();
    more("where", &below, " and ");
    let decides = |pieces: &Pieces| pieces.size.clone().or_else(|| Some(format!("a size that {} decides", pieces.parameter.as_ref()?)));
    more("where two pieces or more are read, each of", &advice.pieces.iter().filter_map(decides).collect::<Vec<_>>(), "");
    more("leaves out", &[advice.remove.as_slice(), advice.remove_values.as_slice()].concat(), " ");
    more("instead", &advice.replace.iter().map(|one| format!("{} for {}", one.with, one.word)).collect::<Vec<_>>(), ", ");
    let sets = advice.set.iter().map(|set| match (&set.value, set.times) {
        (Some(value), _) => format!("{} = {value}", set.parameter),
        (None, times) => format!("{} x {}", set.parameter, times.unwrap_or(1.0)),
    });
    more("sets", &sets.collect::<Vec<_>>(), ", ");
    more("adds", &advice.add, " ");
    more("command", &advice.command, " ");
    more(
        "in the place of a shell's loop",
        &Some(&advice.in_loop).filter(|text| !text.is_empty()).cloned().into_iter().collect::<Vec<_>>(),
        "",
    );
    more("gives up", &Some(&advice.gives_up).filter(|text| !text.is_empty()).cloned().into_iter().collect::<Vec<_>>(), "");
    let tried = if advice.tried == NOT_TRIED { NOT_TRIED.to_owned() } else { format!("tried in {}", advice.tried) };
    lines.push(format!("    {tried} [{}]", advice.source));
    lines
}
