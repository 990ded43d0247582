//! Removes secrets from command words and names before they are recorded: recordings are made to be shared.
//!
//! A secret is replaced by [`MARK`], so that its option remains readable. Three things, all in one table ([`names`]),
//! identify a likely secret: the *name* before it (`--password=X`, `PGPASSWORD=X`, `token=X`, `Authorization: X`),
//! the *program* whose option it is (`mysql -pX`, but not `mkdir -p X`), and its *shape* (keys of providers,
//! `user:X@` in an address). A word with spaces is a shell command line and is parsed as one.
//!
//! *Rejected*: removing anything of high entropy, which cuts hashes, names of objects and half of all paths.

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

/// Attribute of a recording whose words are kept as given.
pub const KEPT: &str = "command.kept";

/// Attribute of a recording whose command was cut: the number of words cut.
pub const CUT: &str = "command.cut";

/// Note added to a recording whose command was cut.
const NOTE: &str = "Words of the command that look like secrets were not recorded; each is shown as [secret]. Fill them in before \
                    running a command shown here, or record with --keep-command.";

/// Whether any word contains the mark, so that the command cannot be run as shown.
pub fn was_cut(words: &[String]) -> bool {
    words.iter().any(|word| word.contains(MARK))
}

/// Returns a command's words with likely secrets removed.
pub fn cut_command(words: &[String]) -> Vec<String> {
    let mut line = Line::default();
    words.iter().map(|word| line.cut(word)).collect()
}

/// Returns a shell command line with likely secrets removed.
pub fn cut_line(line: &str) -> String {
    line::cut(line)
}

/// Removes secrets from the names in an event.
pub(crate) fn cut_event(event: &mut Event) {
    match event {
        Event::Track(row) => replace(&mut row.name, cut_text),
        Event::Object(row) => {
            // A path is a name, not text: only shapes that cannot be anything else are cut.
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

/// Cuts a recording's command and attributes, and notes it; does nothing if words are to be kept.
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

/// Cuts a recording's attributes.
pub(crate) fn cut_attributes(attributes: &mut [(String, String)]) {
    for (name, value) in attributes {
        match name.starts_with("knob.") && name.ends_with(".how") {
            true => *value = cut_line(value),
            false => replace(value, cut_text),
        }
    }
}

/// Adds a note that the command was cut.
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

/// Whether a recording's words are kept as given.
pub(crate) fn is_kept(meta: &Meta) -> bool {
    meta.attributes.iter().any(|(name, _)| name == KEPT)
}
