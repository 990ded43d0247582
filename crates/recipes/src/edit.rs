//! Applies an advice's change to a command. A change that cannot be made exactly is not made.

use crate::command::{is_bundle, is_letter};
use crate::recipe::{Advice, Parameter, Recipe, Set};
use crate::sizes::{number_of, unit_bytes};
use crate::spelling::{InAddress, Spelling};
use crate::template::Filling;

/// Whether an advice changes the command.
pub(crate) fn makes_command(advice: &Advice) -> bool {
    let edits = [&advice.remove, &advice.remove_values, &advice.add, &advice.command].iter().any(|list| !list.is_empty());
    edits || !advice.set.is_empty() || !advice.replace.is_empty()
}

/// Returns the changed command; `None` if the change cannot be made in this command, or has no effect.
pub(crate) fn edited(filling: &Filling<'_>, advice: &Advice) -> Option<Vec<String>> {
    let words = if advice.command.is_empty() { with_edits(filling, advice)? } else { renewed(filling, advice)? };
    (words != filling.command).then_some(words)
}

/// Returns the template's words, after the program's starters; only if they contain every word of the recorded command, or may drop it.
fn renewed(filling: &Filling<'_>, advice: &Advice) -> Option<Vec<String>> {
    let (words, mut used) = filling.words(&advice.command)?;
    used.extend(filling.recipe.subcommand(filling.command));
    let mut at = filling.program + 1;
    while let Some(word) = filling.command.get(at) {
        let is_dropped = may_drop(word, &advice.drops);
        if !used.contains(&at) && !is_dropped {
            return None;
        }
        at += 1 + usize::from(filling.recipe.program.takes_value.contains(word) && is_dropped);
    }
    Some([&filling.command[..filling.program], &words].concat())
}

/// Whether a new command may drop a word; for a bundle of flags, each of its letters.
fn may_drop(word: &str, drops: &[String]) -> bool {
    let is_letter_dropped = |letter: char| drops.iter().any(|drop| is_letter(drop) && drop.ends_with(letter));
    drops.iter().any(|drop| drop == word || drop.ends_with('=') && word.starts_with(drop))
        || is_bundle(word) && word[1..].chars().all(is_letter_dropped)
}

fn with_edits(filling: &Filling<'_>, advice: &Advice) -> Option<Vec<String>> {
    let (recipe, program) = (filling.recipe, filling.program);
    let mut words = filling.command.to_vec();
    for word in &advice.remove {
        remove(&mut words, program + 1, word);
    }
    for flag in advice.remove_values.iter().map(|flag| Spelling::of(flag)) {
        while let Some(found) = flag.find(&words).filter(|found| found.at > program) {
            words.drain(found.at..found.at + found.words);
        }
    }
    for replace in &advice.replace {
        let is_program = recipe.program.names.contains(&replace.word);
        let at = if is_program { Some(program) } else { (program + 1..words.len()).find(|&at| words[at] == replace.word) }?;
        words[at].clone_from(&replace.with);
    }
    for set in &advice.set {
        words = with_value(recipe, recipe.parameter(&set.parameter)?, set, words)?;
    }
    let at = recipe.first_free(&words);
    let added = advice.add.iter().map(|word| filling.text(word)).collect::<Option<Vec<String>>>()?;
    words.splice(at..at, added);
    Some(words)
}

/// Removes a word, a letter of a bundle or an item of a list, from index `from` on.
fn remove(words: &mut Vec<String>, from: usize, meant: &str) {
    let mut at = from;
    while at < words.len() {
        let left = without(&words[at], meant);
        match left {
            Some(left) => words[at] = left,
            None => {
                words.remove(at);
                continue;
            }
        }
        at += 1;
    }
}

/// Returns the rest of a word; `None` if nothing is left.
fn without(word: &str, meant: &str) -> Option<String> {
    if word == meant {
        return None;
    }
    if is_letter(meant) && is_bundle(word) {
        let left: String = word.chars().filter(|c| !meant[1..].contains(*c)).collect();
        return (left != "-").then_some(left);
    }
    let list = word.split_once('=').zip(meant.split_once('='));
    if let Some(((name, items), (wanted, item))) = list
        && name == wanted
        && items.contains(',')
    {
        let left: Vec<&str> = items.split(',').filter(|one| *one != item).collect();
        return Some(format!("{name}={}", left.join(","))).filter(|_| !left.is_empty());
    }
    Some(word.to_owned())
}

/// Sets a parameter to another value; `None` if it has no meaning in this command, if it is to be multiplied but its value is the program's
/// own choice, or if it has its maximum already.
fn with_value(recipe: &Recipe, parameter: &Parameter, set: &Set, mut words: Vec<String>) -> Option<Vec<String>> {
    if parameter.unusable(&words).is_some() {
        return None;
    }
    let now = recipe.value_in(&parameter.name, &words);
    let number = match (&set.value, set.times) {
        (Some(value), _) => number_of(value, 1.0)?,
        (None, Some(times)) => {
            let (now, most) = (now?, most(&parameter.values)?);
            (now.max(1.0) * times).min(most)
        }
        (None, None) => return None,
    };
    if now.is_some_and(|now| (now - number).abs() < f64::EPSILON) || set.times.is_some_and(|times| times > 1.0 && Some(number) <= now) {
        return None;
    }
    let value = set.written.clone().unwrap_or_else(|| format!("{}{}", number / unit_bytes(&parameter.unit), parameter.unit));
    if let Some(scheme) = parameter.place.strip_prefix("query:") {
        let at = words.iter().position(|word| word.starts_with(scheme))?;
        let place = InAddress::of(&words[at], &parameter.write);
        words[at] = place.with(&words[at], &format!("{}{value}", parameter.write));
        return Some(words);
    }
    let written = parameter.flags.iter().map(|flag| Spelling::of(flag)).find_map(|flag| Some((flag.find(&words)?, flag)));
    match written {
        Some((found, flag)) => {
            words.splice(found.at..found.at + found.words, flag.words(&value));
        }
        None => {
            let at = if parameter.place == "end" { words.len() } else { recipe.first_free(&words) };
            words.splice(at..at, Spelling::of(&parameter.write).words(&value));
        }
    }
    let also: Vec<Spelling<'_>> = parameter.also.iter().map(|flag| Spelling::of(flag)).collect();
    match also.iter().find_map(|flag| Some((flag.find(&words)?, flag))) {
        Some((found, flag)) => {
            words.splice(found.at..found.at + found.words, flag.words(&value));
        }
        None => {
            if let Some(flag) = also.first() {
                let at = recipe.first_free(&words);
                words.splice(at..at, flag.words(&value));
            }
        }
    }
    Some(words)
}

/// Returns the maximum of a parameter's values in the syntax of `--vary`: `1..32:x2`, or a list.
fn most(values: &str) -> Option<f64> {
    let range = values.split_once("..").map(|(_, rest)| rest.split(':').next().unwrap_or(rest));
    let numbers: Vec<f64> = range.unwrap_or(values).split(',').filter_map(|value| number_of(value, 1.0)).collect();
    numbers.into_iter().reduce(f64::max)
}
