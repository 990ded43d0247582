//! Validates a recipe: errors name the file, the table, the field, and what was expected.

use crate::error::{Error, Result};
use crate::facts::FACTS;
use crate::recipe::{Advice, Parameter, Recipe, Set};
use crate::{sizes, template};

/// The value of `tried` for advice without a scenario.
pub(crate) const NOT_TRIED: &str = "not tried here";

/// Valid places of a parameter.
const PLACES: [&str; 2] = ["before-operands", "end"];

pub(crate) fn check(recipe: &Recipe) -> Result<()> {
    let wrong = |table: &str, problem: String| Err(Error::Wrong(format!("{}: {table}: {problem}", recipe.name)));
    for parameter in &recipe.parameters {
        if let Some(problem) = in_parameter(recipe, parameter) {
            return wrong(&format!("parameter {}", parameter.name), problem);
        }
    }
    for (number, advice) in recipe.advice.iter().enumerate() {
        if let Some(problem) = in_advice(recipe, advice) {
            let about = advice.changes.first().or(advice.causes.first()).map_or("nothing", String::as_str);
            return wrong(&format!("advice {} (for {about})", number + 1), problem);
        }
    }
    if !recipe.program.uses.is_empty() && !recipe.program.names.is_empty() {
        return wrong("program", "both `names` and `uses`: expected either a program or a library".to_owned());
    }
    if recipe.parameters.is_empty() && recipe.advice.is_empty() {
        return wrong("program", "neither a parameter nor an advice: expected [[parameter]] or [[advice]]".to_owned());
    }
    Ok(())
}

fn in_parameter(recipe: &Recipe, parameter: &Parameter) -> Option<String> {
    if let Some(never) = recipe.program.never.iter().find(|never| parameter.flags.contains(&never.flag)) {
        return Some(format!("flags: {} is listed under `never` in the same recipe", never.flag));
    }
    if !["", "k", "K", "M", "G"].contains(&parameter.unit.as_str()) {
        return Some(format!("unit `{}`: expected nothing, k, K, M or G", parameter.unit));
    }
    let is_known = PLACES.contains(&parameter.place.as_str()) || parameter.place.starts_with("query:");
    (!is_known).then(|| format!("place `{}`: expected before-operands, end or query:SCHEME", parameter.place))
}

fn in_advice(recipe: &Recipe, advice: &Advice) -> Option<String> {
    if advice.changes.is_empty() && advice.causes.is_empty() {
        return Some("neither `for` nor `cause`: expected a what-if's identifier or a cause".to_owned());
    }
    if let Some(name) = advice.when.iter().chain(&advice.unless).find(|name| !FACTS.contains(&name.as_str())) {
        return Some(format!("when or unless: `{name}` is not a fact of a run; expected one of {}", FACTS.join(", ")));
    }
    if let Some(from) = &advice.from {
        if !FACTS.contains(&from.fact.as_str()) {
            return Some(format!("from: `{}` is not a fact of a run; expected one of {}", from.fact, FACTS.join(", ")));
        }
        if let Some(problem) = no_number("from", &from.value) {
            return Some(problem);
        }
    }
    if let Some(below) = &advice.below {
        let problem = unknown(recipe, &below.parameter).or_else(|| no_number("below", &below.value));
        if problem.is_some() {
            return problem;
        }
    }
    if let Some(problem) = advice.set.iter().find_map(|set| in_set(recipe, advice, set)) {
        return Some(problem);
    }
    let edits = [&advice.remove, &advice.remove_values, &advice.add].iter().any(|list| !list.is_empty());
    let edits = edits || !advice.set.is_empty() || !advice.replace.is_empty();
    if edits && !advice.command.is_empty() {
        return Some("command: a new command and edits of the recorded one exclude each other".to_owned());
    }
    if !advice.drops.is_empty() && advice.command.is_empty() {
        return Some("drops: valid only with a new command; edits use `remove`".to_owned());
    }
    if recipe.program.names.is_empty() && edits {
        return Some("a recipe without program names cannot edit a command: expected `says` alone, or `command` with {*}".to_owned());
    }
    if let Some(pieces) = &advice.pieces {
        let mut sizes = pieces.size.iter().chain(pieces.sizes.values());
        let problem = pieces.parameter.as_ref().and_then(|name| unknown(recipe, name));
        if let Some(problem) = problem.or_else(|| sizes.find_map(|size| no_number("pieces", size))) {
            return Some(problem);
        }
        if pieces.size.is_some() == pieces.parameter.is_some() {
            return Some("pieces: expected either `size`, or `parameter` and `sizes`".to_owned());
        }
    }
    if advice.says.trim().is_empty() {
        return Some("says is empty: expected the change in words".to_owned());
    }
    if !advice.source.starts_with("http") && !advice.source.starts_with("docs/") {
        return Some(format!("source `{}`: expected the address of a page, or a file of docs/", advice.source));
    }
    if advice.tried.is_empty() || advice.tried.contains(' ') && advice.tried != NOT_TRIED {
        return Some(format!(
            "tried `{}`: expected a scenario of lab/scenarios, answers/NAME of lab/answers/commands.toml, or `{NOT_TRIED}`",
            advice.tried
        ));
    }
    if !advice.in_loop.is_empty() && (edits || !advice.command.is_empty()) {
        return Some("in_loop: excludes edits of the recorded command, and a new command".to_owned());
    }
    advice.command.iter().chain(&advice.add).chain([&advice.says, &advice.in_loop]).find_map(|text| template::problem(text))
}

fn in_set(recipe: &Recipe, advice: &Advice, set: &Set) -> Option<String> {
    if let Some(problem) = unknown(recipe, &set.parameter) {
        return Some(problem);
    }
    match (&set.value, set.times) {
        (Some(value), None) => {
            let written = set.written.as_ref().map(|written| sizes::number_of(written, 1.0));
            if written.is_some_and(|written| written != sizes::number_of(value, 1.0)) {
                return Some(format!("set {}: `written` is a different number than `value`, {value}", set.parameter));
            }
            if let Some(problem) = no_number("set", value) {
                return Some(problem);
            }
        }
        (None, Some(times)) if times > 0.0 && times.is_finite() => {}
        _ => return Some(format!("set {}: expected either a value or times, a number above 0", set.parameter)),
    }
    let needs_consent = recipe.parameter(&set.parameter).is_some_and(|parameter| parameter.needs_consent);
    (needs_consent && advice.gives_up.is_empty()).then(|| format!("gives_up is empty, but the parameter {} needs consent", set.parameter))
}

fn unknown(recipe: &Recipe, name: &str) -> Option<String> {
    let known: Vec<&str> = recipe.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    (!known.contains(&name)).then(|| format!("no parameter `{name}`; the recipe has {}", known.join(", ")))
}

fn no_number(field: &str, value: &str) -> Option<String> {
    sizes::number_of(value, 1.0).is_none().then(|| format!("{field}: `{value}` is not a number: expected one like 4, 64Ki or 1Mi"))
}
