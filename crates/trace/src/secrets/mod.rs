//! Secrets in the words of commands and in names, which are cut before they are recorded: recordings are made to be shared.
//!
//! What is cut is replaced by [`MARK`], so that the option it belongs to can still be read. What looks like a secret is told by three things, all
//! in one table ([`names`]): the *name* before it (`--password=X`, `PGPASSWORD=X`, `token=X`, `Authorization: X`), the *program* whose option it is
//! (`mysql -pX`, and not `mkdir -p X`), and its *shape* (keys of providers, `user:X@` in an address). A word with spaces in it is a line of a shell,
//! and is taken apart as one.
//!
//! *Rejected*: to look for anything with much entropy, which cuts hashes, names of objects and half of all paths.

mod names;
mod shell;
#[cfg(test)]
mod tests;
mod text;

use crate::{Event, Meta, ObjectKind};
use names::{AT_LOGIN, Has, PROGRAMS, WITH_SLASH, is_secret};
use std::borrow::Cow;
pub use text::cut as cut_text;

/// Stands where something was cut.
pub const MARK: &str = "[secret]";

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
    shell::cut(line)
}

/// A command's words, one after the other: what an option's value is depends on the words before it.
#[derive(Default)]
pub(super) struct Line {
    /// Options whose value is a secret; each is looked for until it was found: what `sshpass` runs has its own.
    options: Vec<(&'static str, Has)>,
    with_slash: bool,
    has_login: bool,
    /// The next word is a secret, from this character on.
    next: Option<Has>,
    /// The next word is a shell's line.
    script: bool,
    words: usize,
}

impl Line {
    pub(super) fn cut(&mut self, word: &str) -> String {
        self.words += 1;
        if let Some(has) = self.next.take()
            && !(word.starts_with('-') && word.len() > 1)
        {
            return hidden(word, has);
        }
        if std::mem::take(&mut self.script) {
            return cut_line(word);
        }
        self.note(word);
        if let Some(cut) = self.of_program(word) {
            return cut;
        }
        if let Some((name, value)) = word.split_once('=')
            && is_name(name)
            && is_secret(name)
            && !value.is_empty()
            && (word.starts_with('-') || !word.contains(char::is_whitespace))
        {
            // A query goes on behind its `&`.
            return if word.starts_with('-') { format!("{name}={MARK}") } else { text::cut(word).into_owned() };
        }
        if word.starts_with('-') && is_name(word) && is_secret(word) && !word.starts_with("-pass-") {
            self.next = Some(Has::Next);
            return word.to_owned();
        }
        // As in `aws configure set aws_secret_access_key VALUE`.
        if self.words > 2 && is_name(word) && word.contains('_') && is_secret(word) && !word.contains('/') {
            self.next = Some(Has::Next);
        }
        if let Some(cut) = text::header(word) {
            return cut;
        }
        if word.contains(char::is_whitespace) { cut_line(word) } else { text::cut(word).into_owned() }
    }

    /// What a word says of those that follow.
    fn note(&mut self, word: &str) {
        let base = word.rsplit('/').next().unwrap_or_default();
        if let Some((_, options)) = PROGRAMS.iter().find(|(programs, _)| programs.contains(&base)) {
            self.options.extend_from_slice(options);
        }
        self.with_slash |= WITH_SLASH.contains(&base);
        self.has_login |= AT_LOGIN.contains(&base);
        if word == "login" && self.has_login {
            self.options.push(("-p", Has::Either));
        }
        let is_shell_flag = word.starts_with('-') && !word.starts_with("--") && word.ends_with('c') && word.len() <= 4;
        self.script = is_shell_flag && word.chars().skip(1).all(|c| "ceilxu".contains(c));
    }

    fn of_program(&mut self, word: &str) -> Option<String> {
        if self.with_slash
            && let Some((user, rest)) = word.split_once('/')
            && let Some((_, at)) = rest.split_once('@')
            && !user.is_empty()
        {
            return Some(format!("{user}/{MARK}@{at}"));
        }
        for at in 0..self.options.len() {
            let (option, has) = self.options[at];
            if word == option {
                if has != Has::Attached {
                    self.options.remove(at);
                    (self.next, self.script) = (Some(has), false);
                    return Some(word.to_owned());
                }
                continue;
            }
            let Some(attached) = word.strip_prefix(option).filter(|_| has != Has::Next) else { continue };
            let (equals, value) = attached.strip_prefix('=').map_or(("", attached), |value| ("=", value));
            if !attached.starts_with('-') && (equals == "=" || !option.starts_with("--")) {
                self.options.remove(at);
                return Some(format!("{option}{equals}{}", hidden(value, has)));
            }
        }
        None
    }
}

/// A value that is a secret, or whose end is.
fn hidden(value: &str, has: Has) -> String {
    let Has::After(character) = has else { return MARK.to_owned() };
    match value.split_once(character) {
        Some((user, secret)) if !secret.is_empty() => format!("{user}{character}{MARK}"),
        _ => value.to_owned(),
    }
}

/// Whether a word, before its `=`, is a name.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
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
