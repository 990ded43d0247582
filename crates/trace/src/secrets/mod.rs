//! Secrets in the words of commands and in names, which are cut before they are recorded: recordings are made to be shared.
//!
//! What is cut is replaced by [`MARK`], so that the option it belongs to can still be read. What looks like a secret is known by three things, all
//! in one table ([`names`]): the *name* before it (`--password=X`, `PGPASSWORD=X`, `token=X`, `Authorization: X`), the *program* whose option it is
//! (`mysql -pX`, and not `mkdir -p X`), and its *shape* (keys of providers, `user:X@` in an address). A word with spaces in it is a line of a shell,
//! and is taken apart as one.
//!
//! *Rejected*: to look for anything with much entropy, which cuts hashes, names of objects and half of all paths.

mod line;
mod names;
#[cfg(test)]
mod tests;
mod text;

use crate::{Event, Meta, ObjectKind};
use line::Line;
pub use names::MARK;
use std::borrow::Cow;
pub use text::cut as cut_text;

/// The attribute of a recording whose words were to be kept as they were given.
pub const KEPT: &str = "command.kept";

/// The attribute of a recording whose command was cut: in how many words.
pub const CUT: &str = "command.cut";

/// What a recording says whose command was cut.
const NOTE: &str = "Words of the command that look like secrets were not recorded: [secret] stands for each. Give it again where a command is to be run that is shown here, \
                    or record with --keep-command.";

/// Whether words hold the mark: what they name cannot be run as it stands.
pub fn was_cut(words: &[String]) -> bool {
    words.iter().any(|word| word.contains(MARK))
}

/// The words of a command without what looks like a secret.
pub fn cut_command(words: &[String]) -> Vec<String> {
    let mut line = Line::default();
    words.iter().map(|word| line.cut(word)).collect()
}

/// The same of a line as a shell reads it.
pub fn cut_line(line: &str) -> String {
    line::cut(line)
}

/// Cuts the names of an event.
pub(crate) fn cut_event(event: &mut Event) {
    match event {
        Event::Track(row) => replace(&mut row.name, cut_text),
        Event::Object(row) => {
            // A path is a name and no text: only what nothing else looks like is cut of it.
            let is_path = row.kind == ObjectKind::File && !row.name.contains("://") && !row.name.contains('?');
            replace(&mut row.name, if is_path { text::shapes } else { cut_text });
            row.attributes.iter_mut().for_each(|(_, value)| replace(value, cut_text));
        }
        _ => {}
    }
}

fn replace(text: &mut String, cut: for<'a> fn(&'a str) -> Cow<'a, str>) {
    if let Cow::Owned(without) = cut(text) {
        *text = without;
    }
}

/// Cuts a recording's command and attributes, and notes that it did; not where its words are to be kept.
pub(crate) fn cut_meta(meta: &mut Meta) {
    if is_kept(meta) {
        return;
    }
    let cut = cut_command(&meta.command);
    let many = meta.command.iter().zip(&cut).filter(|(before, after)| before != after).count();
    meta.command = cut;
    cut_attributes(&mut meta.attributes);
    if many > 0 {
        meta.attributes.push((CUT.to_owned(), many.to_string()));
    }
}

/// Cuts attributes of a recording.
pub(crate) fn cut_attributes(attributes: &mut [(String, String)]) {
    for (name, value) in attributes {
        match name.starts_with("knob.") && name.ends_with(".how") {
            true => *value = cut_line(value),
            false => replace(value, cut_text),
        }
    }
}

/// Adds to the notes of a recording whose command was cut that it was.
pub(crate) fn note_cut(meta: &mut Meta) {
    if !was_cut(&meta.command) {
        return;
    }
    match meta.attributes.iter_mut().find(|(name, _)| name == "notes") {
        Some((_, notes)) if notes.contains(NOTE) => {}
        Some((_, notes)) => *notes = format!("{notes}\n{NOTE}"),
        None => meta.attributes.push(("notes".to_owned(), NOTE.to_owned())),
    }
}

/// Whether a recording's words are to be kept as they are.
pub(crate) fn is_kept(meta: &Meta) -> bool {
    meta.attributes.iter().any(|(name, _)| name == KEPT)
}
