//! Applies a recipe to a command: its flags become placeholders, and the command as given is the default.

use super::version;
use crate::search::Kind;
use crate::{Error, Result};
use thalweg_recipes::{InAddress, Occurrence, Recipe, Spelling, at_program, number_of, unit_bytes};
use thalweg_study::sweep::{Parameter, Point, Value};

/// A command with placeholders for its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// Words, with `{NAME}` for a parameter.
    pub template: Vec<String>,
    /// Parameters.
    pub parameters: Vec<Parameter>,
    /// Kind of each parameter.
    pub kinds: Vec<Kind>,
    /// The command's own setting.
    pub start: Point,
    /// Properties that other values of each parameter give up, if any.
    pub gives_up: Vec<(String, String)>,
    /// Parameters not varied, with the reason, and checks that could not be made.
    pub notes: Vec<String>,
    /// Output of a run, a path or address, if the recipe knows it.
    pub output: Option<String>,
    /// Why a second run may do nothing or fail.
    pub repeat: String,
}

/// A parameter in a command.
struct Placed {
    parameter: Parameter,
    start: String,
}

/// Applies a recipe to a command. `allowed`: parameters that may be varied although they give something up; `is_set`: whether an
/// environment variable is set.
///
/// # Errors
/// The program has another version; no parameter can be varied in this command.
pub fn apply(recipe: &Recipe, command: &[String], allowed: &[String], is_set: impl Fn(&str) -> bool) -> Result<Applied> {
    let program = command.get(at_program(command)).map_or("", String::as_str);
    let version = recipe.program.version.as_ref().map(|versions| version::check(versions, &recipe.name, program)).transpose()?.flatten();
    if let Some(name) = allowed.iter().find(|name| recipe.parameter(name).is_none()) {
        let known: Vec<&str> = recipe.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        return Err(Error::Choice(format!(
            "--allow {name}: the recipe {} has no such parameter; it has {}",
            recipe.name,
            known.join(", ")
        )));
    }
    let mut applied = Applied {
        template: command.to_vec(),
        parameters: Vec::new(),
        kinds: Vec::new(),
        start: Vec::new(),
        gives_up: Vec::new(),
        notes: version.into_iter().collect(),
        output: recipe.output(command),
        repeat: recipe.program.repeat.clone(),
    };
    for parameter in &recipe.parameters {
        match unusable(parameter, command, allowed, &is_set).map_or_else(|| place(recipe, parameter, &mut applied.template), Err) {
            Ok(placed) => {
                applied.parameters.push(placed.parameter);
                applied.start.push(placed.start);
                applied.kinds.push(parameter.kind);
                if !parameter.gives_up.is_empty() {
                    applied.gives_up.push((parameter.name.clone(), parameter.gives_up.clone()));
                }
            }
            Err(why) => applied.notes.push(format!("{} is not varied: {why}", parameter.name)),
        }
    }
    if applied.parameters.is_empty() {
        let why = if recipe.parameters.is_empty() { "it has no parameters".to_owned() } else { applied.notes.join("; ") };
        return Err(Error::Choice(format!("nothing can be varied in this command by the recipe {}: {why}", recipe.name)));
    }
    Ok(applied)
}

/// Replaces a parameter's flag with a placeholder, or adds one.
fn place(recipe: &Recipe, parameter: &thalweg_recipes::Parameter, template: &mut Vec<String>) -> std::result::Result<Placed, String> {
    if let Some(scheme) = parameter.place.strip_prefix("query:") {
        return in_address(parameter, scheme, template);
    }
    let place = format!("{{{}}}", parameter.name);
    let written = parameter.flags.iter().map(|flag| Spelling::of(flag)).find_map(|spelling| Some((spelling.find(template)?, spelling)));
    let spelling = written.as_ref().map_or_else(|| Spelling::of(&parameter.write), |(_, spelling)| spelling.clone());
    let also: Vec<Spelling<'_>> = also(parameter, template);
    let given = written.as_ref().map(|(found, _)| found.value.as_str());
    // A value in the command has no flag words of its own.
    let words = |value: &str| {
        let others = also.iter().filter(|_| given != Some(value)).flat_map(|also| also.words(value));
        spelling.words(value).into_iter().chain(others).collect()
    };
    let placed = values(parameter, given, &words)?;
    match written {
        Some((Occurrence { at, words, .. }, _)) => {
            template.splice(at..at + words, [place]);
        }
        None if parameter.place == "end" => template.push(place),
        None => template.insert(recipe.first_free(template), place),
    }
    Ok(placed)
}

/// Returns the reason why a parameter cannot be varied in this command, if any.
fn unusable(
    parameter: &thalweg_recipes::Parameter,
    command: &[String],
    allowed: &[String],
    is_set: impl Fn(&str) -> bool,
) -> Option<String> {
    if parameter.needs_consent && !allowed.contains(&parameter.name) {
        return Some(format!("it gives up {} (--allow {} allows it)", parameter.gives_up, parameter.name));
    }
    if let Some(why) = parameter.unusable(command) {
        return Some(why);
    }
    let variable = parameter.environment.iter().find(|name| is_set(name))?;
    Some(format!("{variable} is set, and the program takes its default from there"))
}

/// Returns the accompanying flags that the command lacks.
fn also<'a>(parameter: &'a thalweg_recipes::Parameter, template: &[String]) -> Vec<Spelling<'a>> {
    let spellings: Vec<Spelling<'_>> = parameter.also.iter().map(|flag| Spelling::of(flag)).collect();
    let is_there = spellings.iter().any(|spelling| spelling.find(template).is_some());
    spellings.into_iter().take(usize::from(!is_there)).collect()
}

/// Puts a parameter into an address's query: `nfs://host/file?readahead=4096`.
fn in_address(parameter: &thalweg_recipes::Parameter, scheme: &str, template: &mut [String]) -> std::result::Result<Placed, String> {
    let at = template.iter().position(|word| word.starts_with(scheme)).ok_or_else(|| format!("no address begins with {scheme}"))?;
    let (place, word) = (format!("{{{}}}", parameter.name), template[at].clone());
    let flag = parameter.write.as_str();
    let InAddress { range, sign, value } = InAddress::of(&word, flag);
    let mut placed = values(parameter, value.as_deref(), &|value| vec![format!("{sign}{flag}{value}")])?;
    for value in &mut placed.parameter.values {
        // A part of a word rather than separate words.
        value.word = value.words.take().map(|words| words.concat()).unwrap_or_default();
    }
    template[at] = format!("{}{place}{}", &word[..range.start], &word[range.end..]);
    Ok(placed)
}

/// Returns a parameter's values in a command that has `given`, if any; `words` formats one.
fn values(
    parameter: &thalweg_recipes::Parameter,
    given: Option<&str>,
    words: &dyn Fn(&str) -> Vec<String>,
) -> std::result::Result<Placed, String> {
    let unit = unit_bytes(&parameter.unit);
    let parse = |values: &str| Parameter::parse(&format!("{}={values}", parameter.name)).map_err(|error| error.to_string());
    let mut found = parse(&parameter.values)?;
    for value in &mut found.values {
        let number = value.number.ok_or_else(|| format!("the recipe's value {} is not a number", value.label))?;
        value.words = Some(words(&format!("{}{}", number / unit, parameter.unit)));
    }
    let numbers: Vec<f64> = found.values.iter().filter_map(|value| value.number).collect();
    let (least, most) = (numbers.iter().copied().fold(f64::INFINITY, f64::min), numbers.iter().copied().fold(0.0, f64::max));
    let middle = (least.max(1.0) * most.max(1.0)).sqrt();
    let own = match given {
        Some(text) => {
            let number = number_of(text, unit).ok_or_else(|| format!("{text} is not a number"))?;
            Value { label: text.to_owned(), word: text.to_owned(), number: Some(number), words: Some(words(text)) }
        }
        // If the program decides, its value is unknown: assume the middle of the list.
        None => {
            let number = if parameter.default == "auto" { middle } else { number_of(&parameter.default, 1.0).unwrap_or(middle) };
            Value { label: parameter.default.clone(), word: String::new(), number: Some(number), words: Some(Vec::new()) }
        }
    };
    let start = own.label.clone();
    let is_own = |value: &Value| {
        value.label == own.label || (given.is_none_or(|_| parameter.default != "auto") && value.number == own.number && own.label != "auto")
    };
    found.values.retain(|value| !is_own(value));
    let at = found.values.iter().position(|value| value.number > own.number).unwrap_or(found.values.len());
    found.values.insert(at, own);
    Ok(Placed { parameter: found, start })
}
