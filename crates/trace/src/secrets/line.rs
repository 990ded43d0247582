//! Removes secrets from the words of a command, one after another, and from a line that is parsed as a shell does;
//! everything else is unchanged.

use super::names::{AT_LOGIN, Has, MARK, PROGRAMS, WITH_SLASH, is_secret};
use super::text;
use thalweg_base::shell;

/// State carried along a command's words: the meaning of an option's value depends on the preceding words.
#[derive(Default)]
pub(super) struct Line {
    /// Options whose value is a secret; each is searched for until found. `sshpass` adds those of the program it
    /// runs.
    options: Vec<(&'static str, Has)>,
    with_slash: bool,
    has_login: bool,
    /// The next word is a secret, from this character on.
    next: Option<Has>,
    /// The next word is a shell command line.
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
            return cut(word);
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
            // `&` continues a query.
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
        if word.contains(char::is_whitespace) { cut(word) } else { text::cut(word).into_owned() }
    }

    /// Notes what a word says about the following ones.
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

/// Hides a value that is, or ends in, a secret.
fn hidden(value: &str, has: Has) -> String {
    let Has::After(character) = has else { return MARK.to_owned() };
    match value.split_once(character) {
        Some((user, secret)) if !secret.is_empty() => format!("{user}{character}{MARK}"),
        _ => value.to_owned(),
    }
}

/// Whether the part of a word before `=` is a name.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Returns the line with likely secrets removed.
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

/// Quotes a changed word if it has blanks.
fn quoted(word: &str) -> String {
    if word.contains(char::is_whitespace) || word.contains('\'') || word.contains('"') { shell::word(word) } else { word.to_owned() }
}

/// Splits off the first word of a text: as written, as the program receives it, and the rest.
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
