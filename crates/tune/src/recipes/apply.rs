//! A recipe put into a command: its flags become places, and the command as it stands is the default.

use super::spelling::{Occurrence, Spelling};
use super::{Recipe, RecipeParameter};
use crate::search::Kind;
use crate::{Error, Result};
use thalweg_study::sweep::{Parameter, Point, Value};
use thalweg_trace::numbers;

/// A command with places for its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// Its words, with `{NAME}` where a parameter stands.
    pub template: Vec<String>,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// What each of them turns.
    pub kinds: Vec<Kind>,
    /// The command as it was given.
    pub start: Point,
    /// What each parameter's other values give up, where they do.
    pub gives_up: Vec<(String, String)>,
    /// What is not varied, and why; what could not be checked.
    pub notes: Vec<String>,
    /// What a run makes, if the recipe knows that: a path or an address.
    pub output: Option<String>,
    /// Why a second run may do nothing or fail.
    pub repeat: String,
}

/// A parameter in a command.
struct Placed {
    parameter: Parameter,
    start: String,
}

impl Recipe {
    /// Puts it into a command. `allowed`: parameters that may be varied although they give something up; `is_set`: whether an
    /// environment variable is.
    ///
    /// # Errors
    /// The program is of another version; no parameter can be varied in this command.
    pub fn apply(&self, command: &[String], allowed: &[String], is_set: impl Fn(&str) -> bool) -> Result<Applied> {
        let version = self.program.version.as_ref().map(|versions| versions.check(&self.name, &command[0])).transpose()?.flatten();
        if let Some(name) = allowed.iter().find(|name| self.parameters.iter().all(|parameter| parameter.name != **name)) {
            let known: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
            return Err(Error::Choice(format!(
                "--allow {name}: the recipe {} has no such parameter; it has {}",
                self.name,
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
            output: self.output(command),
            repeat: self.program.repeat.clone(),
        };
        for parameter in &self.parameters {
            match unusable(parameter, command, allowed, &is_set).map_or_else(|| self.place(parameter, &mut applied.template), Err) {
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
            return Err(Error::Choice(format!(
                "nothing can be varied in this command by the recipe {}: {}",
                self.name,
                applied.notes.join("; ")
            )));
        }
        Ok(applied)
    }

    /// Puts a place for a parameter into the words.
    fn place(&self, parameter: &RecipeParameter, template: &mut Vec<String>) -> std::result::Result<Placed, String> {
        if let Some(scheme) = parameter.place.strip_prefix("query:") {
            return in_address(parameter, scheme, template);
        }
        let place = format!("{{{}}}", parameter.name);
        let written = parameter.flags.iter().map(|flag| Spelling::of(flag)).find_map(|spelling| Some((spelling.find(template)?, spelling)));
        let spelling = written.as_ref().map_or_else(|| Spelling::of(&parameter.write), |(_, spelling)| spelling.clone());
        let also: Vec<Spelling<'_>> = also(parameter, template);
        let given = written.as_ref().map(|(found, _)| found.value.as_str());
        // What stands in the command stands there alone.
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
            None => template.insert(self.first_free(template), place),
        }
        Ok(placed)
    }

    /// Right after the program and its subcommand.
    fn first_free(&self, words: &[String]) -> usize {
        let subcommand = words.iter().skip(1).position(|word| self.program.subcommands.contains(word));
        subcommand.map_or(1, |at| at + 2)
    }

    /// What a run makes.
    pub fn output(&self, command: &[String]) -> Option<String> {
        match self.program.output.as_str() {
            "" => None,
            "last" => command.iter().skip(1).rfind(|word| !word.starts_with('-')).cloned(),
            flag => {
                let flag = Spelling::of(flag);
                flag.find(command).map(|found| found.value)
            }
        }
    }
}

/// Why a parameter is not varied in this command, if so.
fn unusable(parameter: &RecipeParameter, command: &[String], allowed: &[String], is_set: impl Fn(&str) -> bool) -> Option<String> {
    let has = |start: &str| command.iter().skip(1).any(|word| is_meant(word, start));
    if parameter.needs_consent && !allowed.contains(&parameter.name) {
        return Some(format!("it gives up {} (--allow {} allows it)", parameter.gives_up, parameter.name));
    }
    if let Some(conflict) = parameter.conflicts.iter().find(|conflict| has(&conflict.word)) {
        return Some(conflict.why.clone());
    }
    if let Some(needs) = parameter.needs.as_ref().filter(|needs| !needs.words.iter().any(|word| has(word))) {
        return Some(format!("{} (it needs {})", needs.why, needs.words.join(" or ")));
    }
    let variable = parameter.environment.iter().find(|name| is_set(name))?;
    Some(format!("{variable} is set, and the program takes its default from there"))
}

/// Whether a word of a command is what a recipe's word means: it begins so (`count=`), it has the letter among others (`-z` in `-avz`), or it has the
/// item in its list (`conv=sync` in `conv=notrunc,sync`); in an address, so do the arguments of its query.
fn is_meant(word: &str, meant: &str) -> bool {
    let is_short = |text: &str| text.len() > 1 && text.starts_with('-') && !text.starts_with("--");
    if is_short(meant) && meant.len() == 2 && is_short(word) && word[1..].chars().all(|c| c.is_ascii_alphabetic()) {
        return word[1..].contains(&meant[1..]);
    }
    let list = word.split_once('=').zip(meant.split_once('='));
    if let Some(((name, items), (wanted, item))) = list
        && name == wanted
        && !item.is_empty()
        && items.split(',').any(|one| one.starts_with(item))
    {
        return true;
    }
    word.starts_with(meant) || word.split_once('?').is_some_and(|(_, query)| query.split('&').any(|argument| argument.starts_with(meant)))
}

/// Flags that go with it and are not in the command.
fn also<'a>(parameter: &'a RecipeParameter, template: &[String]) -> Vec<Spelling<'a>> {
    let spellings: Vec<Spelling<'_>> = parameter.also.iter().map(|flag| Spelling::of(flag)).collect();
    let is_there = spellings.iter().any(|spelling| spelling.find(template).is_some());
    spellings.into_iter().take(usize::from(!is_there)).collect()
}

/// A parameter in an address's query: `nfs://host/file?readahead=4096`.
fn in_address(parameter: &RecipeParameter, scheme: &str, template: &mut [String]) -> std::result::Result<Placed, String> {
    let at = template.iter().position(|word| word.starts_with(scheme)).ok_or_else(|| format!("no address begins with {scheme}"))?;
    let (place, word) = (format!("{{{}}}", parameter.name), template[at].clone());
    let flag = parameter.write.as_str();
    let query_at = word.find('?');
    let there = query_at.and_then(|query| {
        let pairs = &word[query..];
        let start = pairs.find(&format!("?{flag}")).or_else(|| pairs.find(&format!("&{flag}")))? + query;
        let end = word[start + 1..].find('&').map_or(word.len(), |end| start + 1 + end);
        Some((start, end))
    });
    let (from, to, sign) = there.map_or((word.len(), word.len(), if query_at.is_some() { '&' } else { '?' }), |(start, end)| {
        (start, end, if word[start..].starts_with('?') { '?' } else { '&' })
    });
    let given = there.map(|(start, end)| word[start + 1 + flag.len()..end].to_owned());
    let mut placed = values(parameter, given.as_deref(), &|value| vec![format!("{sign}{flag}{value}")])?;
    for value in &mut placed.parameter.values {
        // It is a part of a word, and not words of its own.
        value.word = value.words.take().map(|words| words.concat()).unwrap_or_default();
    }
    template[at] = format!("{}{place}{}", &word[..from], &word[to..]);
    Ok(placed)
}

/// The values of a parameter in a command that has it at `given`, or does not have it; `words` writes one.
fn values(parameter: &RecipeParameter, given: Option<&str>, words: &dyn Fn(&str) -> Vec<String>) -> std::result::Result<Placed, String> {
    let unit = unit_bytes(&parameter.unit);
    let parse = |values: &str| Parameter::parse(&format!("{}={values}", parameter.name)).map_err(|error| error.to_string());
    let mut found = parse(&parameter.values)?;
    for value in &mut found.values {
        let number = value.number.ok_or_else(|| format!("the recipe's value {} is no number", value.label))?;
        value.words = Some(words(&format!("{}{}", number / unit, parameter.unit)));
    }
    let numbers: Vec<f64> = found.values.iter().filter_map(|value| value.number).collect();
    let (least, most) = (numbers.iter().copied().fold(f64::INFINITY, f64::min), numbers.iter().copied().fold(0.0, f64::max));
    let middle = (least.max(1.0) * most.max(1.0)).sqrt();
    let own = match given {
        Some(text) => {
            let number = number_of(text, unit).ok_or_else(|| format!("{text} is no number that is understood"))?;
            Value { label: text.to_owned(), word: text.to_owned(), number: Some(number), words: Some(words(text)) }
        }
        // Where the program decides, nobody knows which value it is near to: the middle of the list is as good as any place.
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

fn unit_bytes(unit: &str) -> f64 {
    match unit {
        "k" | "K" => 1024.0,
        "M" => 1_048_576.0,
        "G" => 1_073_741_824.0,
        _ => 1.0,
    }
}

/// A number as programs take it: plain, or with a letter of their own (`64k`, `4M`, `1Mi`).
fn number_of(text: &str, unit: f64) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return Some(number * unit).filter(|number| number.is_finite());
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let letter = text[digits.len()..].chars().next()?.to_ascii_uppercase().to_string();
    let many = unit_bytes(&letter);
    let own = numbers::parse_size(text).ok().map(|bytes| bytes as f64);
    own.or_else(|| (many > 1.0).then(|| digits.parse::<f64>().ok().map(|number| number * many)).flatten())
}
