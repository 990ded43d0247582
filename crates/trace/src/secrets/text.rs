//! Secrets in a text that is no command: addresses, queries, headers, connection strings, and keys that are known by their shape.

use super::names::{HEADERS, MARK, SHAPES, is_secret};
use std::borrow::Cow;
use std::ops::Range;

/// Characters that end an unquoted value.
const ENDS: &[char] = &['&', ';', ',', '"', '\'', '}', ']', ')', '#', '|', '<', '>', '\\'];

/// Returns the text with likely secrets removed.
pub fn cut(text: &str) -> Cow<'_, str> {
    let mut found = shapes_of(text);
    addresses(text, &mut found);
    values(text, &mut found);
    without(text, found)
}

/// Removes only keys recognised by their shape, and secrets in addresses.
pub(super) fn shapes(text: &str) -> Cow<'_, str> {
    without(text, shapes_of(text))
}

/// Returns the HTTP header `Authorization: VALUE` without its value; `None` if the word is not such a header.
pub(super) fn header(word: &str) -> Option<String> {
    let (before, value) = word.split_once(':')?;
    // Attached to an option: `-HCookie: X`, `--header=Cookie: X`.
    let name = before.rsplit('=').next().unwrap_or_default();
    let name = name.strip_prefix("-H").unwrap_or(name);
    let is_one = HEADERS.contains(&name.trim().to_ascii_lowercase().as_str()) || value.starts_with(' ') && is_word(name) && is_secret(name);
    (is_one && !value.trim().is_empty()).then(|| format!("{before}: {MARK}"))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_name_byte)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

fn without(text: &str, mut found: Vec<Range<usize>>) -> Cow<'_, str> {
    found.retain(|range| !range.is_empty() && &text[range.clone()] != MARK);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for range in found {
        if range.start >= at {
            out.push_str(&text[at..range.start]);
            out.push_str(MARK);
        }
        at = at.max(range.end);
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

/// Finds the `VALUE` in `user:VALUE@` of addresses.
fn addresses(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, _) in text.match_indices("://") {
        let begin = at + 3;
        let end = text[begin..].find(|c: char| c.is_whitespace() || "/?#\"'<>".contains(c)).map_or(text.len(), |length| begin + length);
        // A password may itself contain `@`, or an unescaped `/`.
        let Some(last) = text[begin..end].rfind('@') else { continue };
        if let Some(colon) = text[begin..begin + last].find(':') {
            found.push(begin + colon + 1..begin + last);
        }
    }
}

/// Finds the values of names: `token=VALUE`, `"password": "VALUE"`, `Authorization: VALUE`.
fn values(text: &str, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    for (at, separator) in text.match_indices(['=', ':']) {
        // A quote, as in JSON, and blanks may separate a name from its separator.
        let before = text[..at].trim_end_matches([' ', '"', '\'', '\\']);
        let begin = bytes[..before.len()].iter().rposition(|byte| !is_name_byte(*byte)).map_or(0, |at| at + 1);
        let name = &text[begin..before.len()];
        let in_quotes = before.len() < at;
        let after = &text[at + 1..];
        let is_header = separator == ":" && HEADERS.contains(&name.to_ascii_lowercase().as_str());
        let is_field = is_secret(name) && (separator == "=" || in_quotes || after.starts_with(' '));
        if !is_header && !is_field {
            continue;
        }
        // A directory where secrets are kept is not itself a secret.
        if name.eq_ignore_ascii_case("pwd") && after.starts_with('/') {
            continue;
        }
        let blank = after.len() - after.trim_start_matches([' ', '\\']).len();
        let start = at + 1 + blank;
        let rest = &text[start..];
        let range = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => start + 1..rest[1..].find(quote).map_or(text.len(), |length| start + 1 + length),
            _ if is_header => start..rest.find(['"', '\'', '\n', '\r']).map_or(text.len(), |length| start + length),
            _ => start..rest.find(|c: char| c.is_whitespace() || ENDS.contains(&c)).map_or(text.len(), |length| start + length),
        };
        // The mark contains a bracket that would end it.
        found.push(if rest.starts_with(MARK) { start..start + MARK.len() } else { range });
    }
}

/// Finds provider keys, web tokens and private keys.
fn shapes_of(text: &str) -> Vec<Range<usize>> {
    let (bytes, mut found) = (text.as_bytes(), Vec::new());
    let begins = |at: usize| at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
    let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    for (prefix, least, plain) in SHAPES {
        for (at, _) in text.match_indices(prefix).filter(|(at, _)| begins(*at)) {
            let rest = &bytes[at + prefix.len()..];
            let length = rest.iter().take_while(|byte| if *plain { byte.is_ascii_alphanumeric() } else { is_key(byte) }).count();
            if length >= *least {
                found.push(at..at + prefix.len() + length);
            }
        }
    }
    for (at, _) in text.match_indices("eyJ").filter(|(at, _)| begins(*at)) {
        let length = bytes[at..].iter().take_while(|byte| is_key(byte)).count();
        let parts: Vec<&str> = text[at..at + length].split('.').collect();
        if parts.len() >= 3 && parts[..2].iter().all(|part| part.len() >= 8) {
            found.push(at..at + length);
        }
    }
    if let Some(at) = text.find("-----BEGIN ").filter(|at| text[*at..].contains("PRIVATE KEY-----")) {
        found.push(at..text.len());
    }
    found
}
