//! The operations behind work on names and attributes: waits by their call, and running by samples of its calls.

use super::groups::Group;
use super::of::Of;
use crate::facts::names::{brief, file_name};
use crate::limits::summary as limits;
use crate::waits::place::{Place, What};
use thalweg_trace::SpanKind;

/// Operations as sample classes name them, and in words.
const OPERATIONS: [(&str, &str); 9] = [
    ("open", "opening files"),
    ("stat", "asking for attributes"),
    ("list", "listing directories"),
    ("close", "closing files"),
    ("truncate", "truncating files"),
    ("remove", "removing files"),
    ("rename", "renaming files"),
    ("create", "making directories and links"),
    ("execute", "starting programs"),
];

/// The operation of a wait's call.
fn of_wait(kind: SpanKind) -> Option<&'static str> {
    Some(match kind {
        SpanKind::FileOpen => "open",
        SpanKind::FileStat => "stat",
        SpanKind::FileList => "list",
        SpanKind::FileClose => "close",
        SpanKind::FileTruncate => "truncate",
        SpanKind::FileRemove => "remove",
        SpanKind::FileRename => "rename",
        SpanKind::FileCreate => "create",
        SpanKind::FileOther => "other",
        _ => return None,
    })
}

/// The operations of a group with their parts of its known time, most first.
pub(super) fn operations(of: &Of<'_>, group: &Group<'_>) -> Vec<(String, f64)> {
    let mut sums: Vec<(String, f64)> = Vec::new();
    let mut add = |name: &str, ns: f64| match sums.iter_mut().find(|(known, _)| known == name) {
        Some((_, sum)) => *sum += ns,
        None => sums.push((name.to_owned(), ns)),
    };
    let entries = &of.parts.ledger.entries;
    let waits = |place: Place| match place {
        Place::Thread { what: What::Blocked(kind), .. } => of_wait(kind),
        _ => None,
    };
    let mut ran = Vec::new();
    for &member in &group.members {
        match waits(entries[member].place) {
            Some(name) => add(name, entries[member].runs.total_ns as f64),
            None => ran.push(member),
        }
    }
    let ran_ns: u64 = ran.iter().map(|&member| entries[member].runs.total_ns).sum();
    if let Some((all, calls)) = of.parts.around.on_names(&ran).filter(|(all, _)| *all > 0.0) {
        calls.into_iter().for_each(|(name, part)| add(name, ran_ns as f64 * part / all));
    }
    let known: f64 = sums.iter().map(|(_, ns)| ns).sum();
    sums.iter_mut().for_each(|(_, ns)| *ns /= known.max(1.0));
    sums.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums
}

/// The operation with most of the time, in words, with its file if there was one: `closing dst.bin`.
pub(super) fn mostly(of: &Of<'_>, group: &Group<'_>) -> Option<String> {
    let (name, part) = operations(of, group).into_iter().next()?;
    let words = OPERATIONS.iter().find(|(known, _)| *known == name).filter(|_| part >= limits::MOST_OF_NAMES)?.1;
    let file = group.file().filter(|_| words.ends_with(" files")).map(|file| brief(file_name(file)));
    Some(file.map_or_else(|| words.to_owned(), |file| words.replace("files", &file)))
}
