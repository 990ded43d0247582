//! Which of the proposed changes was made between two runs: by their command lines, or by its id.

use crate::document::{Explanation, WhatIf};
use crate::title::base;
use thalweg_recipes::program;

/// The change with this `id`.
///
/// # Errors
/// No change has that id; the error lists the ids there are.
pub(super) fn named<'a>(before: &'a Explanation, id: &str) -> Result<&'a WhatIf, String> {
    before.what_if.iter().find(|change| change.id == id).ok_or_else(|| {
        let known = ids(before);
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!("{id}: the earlier run's explanation proposes no such change; it proposes {known}")
    })
}

/// The change that the later command made, the one with most words first; `None` if it made none.
pub(super) fn found<'a>(before: &'a Explanation, after: &Explanation) -> Option<&'a WhatIf> {
    let by_command = before.what_if.iter().filter_map(|change| Some((by_command(change, &before.command, &after.command)?, change)));
    let by_flags = before.what_if.iter().filter_map(|change| Some((by_flags(change, &before.command, &after.command)?, change)));
    // Of two equally near, the first, which gains more.
    by_command
        .chain(by_flags)
        .fold(None, |best: Option<(usize, &WhatIf)>, next| if best.is_none_or(|b| next.0 > b.0) { Some(next) } else { best })
        .map(|b| b.1)
}

/// Number of words of the change in the later command, if all are there and were not before.
fn by_command(change: &WhatIf, was: &[String], is: &[String]) -> Option<usize> {
    if change.command.is_empty() || program(&change.command) != program(is) {
        return None;
    }
    let (proposed, was, is) = (&plain(&change.command), &plain(was), &plain(is));
    let (added, removed) = (less(proposed, was), less(was, proposed));
    let all_added = added.iter().all(|word| times(is, word) > times(was, word));
    let all_removed = removed.iter().all(|word| times(is, word) < times(was, word));
    let many = added.len() + removed.len();
    (many > 0 && all_added && all_removed).then_some(many)
}

/// Number of words of the change that are flags of the later command; of a repeated flag, the last counts.
fn by_flags(change: &WhatIf, was: &[String], is: &[String]) -> Option<usize> {
    let has = |command: &[String], (flag, value): &(String, String)| {
        let last = command.iter().rposition(|word| word == flag);
        last.and_then(|at| command.get(at + 1)) == Some(value) || command.contains(&format!("{flag}={value}"))
    };
    let all = !change.flags.is_empty() && change.flags.iter().all(|flag| has(is, flag)) && !change.flags.iter().all(|flag| has(was, flag));
    all.then_some(2 * change.flags.len())
}

/// The note if no proposed change was made.
pub(super) fn none(before: &Explanation) -> String {
    match (ids(before).as_slice(), &before.model.reason) {
        ([], Some(reason)) => format!("nothing was predicted for the earlier run: {reason}"),
        ([], None) => "the earlier run's explanation proposes no change to compare with the outcome".to_owned(),
        (known, _) => {
            format!("the commands differ by none of the proposed changes; name the one made with --made: {}", known.join(", "))
        }
    }
}

fn ids(e: &Explanation) -> Vec<&str> {
    let mut ids: Vec<&str> = Vec::new();
    for change in &e.what_if {
        if !ids.contains(&change.id.as_str()) {
            ids.push(&change.id);
        }
    }
    ids
}

/// A command with its program's name only.
fn plain(command: &[String]) -> Vec<String> {
    command.iter().enumerate().map(|(at, word)| if at == 0 { base(word).to_owned() } else { word.clone() }).collect()
}

/// The words of one command that another lacks, or has less often.
fn less<'a>(of: &'a [String], other: &[String]) -> Vec<&'a String> {
    let mut left = other.to_vec();
    let mut found = Vec::new();
    for word in of {
        match left.iter().position(|known| known == word) {
            Some(at) => drop(left.remove(at)),
            None => found.push(word),
        }
    }
    found
}

fn times(command: &[String], word: &String) -> usize {
    command.iter().filter(|other| *other == word).count()
}
