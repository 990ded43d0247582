//! A line as a shell reads it, taken apart into words: what is no secret stays as it was written.

use super::{Line, text};
use crate::shell;

/// The line without what looks like a secret.
pub(super) fn cut(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut words = Line::default();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() || ";|&()<>`".contains(first) {
            if ";|&()\n`".contains(first) {
                words = Line::default();
            }
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (raw, plain, after) = word(rest);
        let without = words.cut(&plain);
        match without == plain {
            true => out.push_str(&text::cut(raw)),
            false => out.push_str(&quoted(&without)),
        }
        rest = after;
    }
    out
}

/// A word that was changed: with quotes where it has blanks.
fn quoted(word: &str) -> String {
    if word.contains(char::is_whitespace) || word.contains('\'') || word.contains('"') { shell::word(word) } else { word.to_owned() }
}

/// The first word of a text: as it is written, as the program gets it, and what follows.
fn word(text: &str) -> (&str, String, &str) {
    let (mut plain, mut quote, mut escaped) = (String::new(), None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => {
                plain.push(c);
                escaped = false;
            }
            (None | Some('"'), '\\') => escaped = true,
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => plain.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, _) if c.is_whitespace() || ";|&()<>`".contains(c) => return (&text[..at], plain, &text[at..]),
            (None, _) => plain.push(c),
        }
    }
    (text, plain, "")
}
