//! Formats file names: bytes, which may be anything but `/` and zero.
//!
//! On a terminal, backslashes, control characters and bytes that are not UTF-8 are escaped (`\\`, `\n`, `\x1b`, `\xff`), so that no name
//! moves the cursor or reads like another. A pipe or file gets the raw bytes, for the next program, as with other `ls`. Messages are
//! always escaped.

use std::io::IsTerminal;

/// How names are formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Unchanged bytes.
    Raw,
    /// Escaped, for a terminal.
    Escaped,
}

impl Style {
    /// Returns the style for standard output; `escape` forces escaping.
    pub(crate) fn for_stdout(escape: bool) -> Style {
        if escape || std::io::stdout().is_terminal() { Style::Escaped } else { Style::Raw }
    }
}

/// Appends a name or path.
pub(crate) fn push(out: &mut Vec<u8>, name: &[u8], style: Style) {
    match style {
        // Fast path: most names are plain.
        Style::Escaped if name.iter().any(|b| !matches!(b, b' '..=b'[' | b']'..=b'~')) => push_escaped(out, name),
        _ => out.extend_from_slice(name),
    }
}

/// Returns a name or path as escaped text.
pub(crate) fn text(name: &[u8]) -> String {
    let mut out = Vec::with_capacity(name.len());
    push(&mut out, name, Style::Escaped);
    String::from_utf8(out).unwrap_or_default()
}

fn push_escaped(out: &mut Vec<u8>, name: &[u8]) {
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.extend_from_slice(b"\\\\"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\r' => out.extend_from_slice(b"\\r"),
                c if c.is_control() || reorders(c) => {
                    c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_hexadecimal(out, byte));
                }
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        chunk.invalid().iter().for_each(|byte| push_hexadecimal(out, *byte));
    }
}

/// Whether a character changes the direction of text, or breaks lines.
fn reorders(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push_hexadecimal(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(&[b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Appends bytes as a JSON string; invalid UTF-8 becomes U+FFFD.
pub(crate) fn push_json(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'"' => out.extend_from_slice(b"\\\""),
                b'\\' => out.extend_from_slice(b"\\\\"),
                0..0x20 | 0x7f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                byte => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

/// Returns bytes as hexadecimal digits, for names that JSON cannot hold.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns `directory/name`.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    path.extend_from_slice(directory);
    if !name.is_empty() && !path.ends_with(b"/") && !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Returns the last name of a path; empty for the root.
pub(crate) fn last(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    let begin = path[..end].iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    &path[begin..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_every_byte_of_a_name_and_no_two_names_read_the_same() {
        for (name, shown) in [
            (&b"plain name.txt"[..], "plain name.txt"),
            (b"a\nb\\n", "a\\nb\\\\n"),
            (b"\x1b[2J", "\\x1b[2J"),
            (b"\xff\xc3\xa4\xc3", "\\xffä\\xc3"),
            ("c1:\u{85}".as_bytes(), "c1:\\xc2\\x85"),
            ("\u{202e}txt".as_bytes(), "\\xe2\\x80\\xaetxt"),
        ] {
            assert_eq!(text(name), shown);
        }
        let all: std::collections::BTreeSet<String> = (0..=255).map(|byte| text(&[byte])).collect();
        assert_eq!(all.len(), 256);
        assert!(all.iter().all(|shown| !shown.chars().any(char::is_control)));
        let mut raw = Vec::new();
        push(&mut raw, b"a\n\xff", Style::Raw);
        assert_eq!(raw, b"a\n\xff");
    }

    #[test]
    fn json_strings_are_json_whatever_the_bytes() {
        let every: Vec<u8> = (1..=255).collect();
        let mut out = Vec::new();
        push_json(&mut out, &every);
        let read: String = serde_json::from_slice(&out).unwrap();
        assert!(read.starts_with('\u{1}') && read.contains("\"#$") && read.ends_with('\u{fffd}'));
        let mut out = Vec::new();
        push_json(&mut out, "ä\"\\\n".as_bytes());
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), "ä\"\\\n");
    }

    #[test]
    fn paths_are_joined_and_split_as_bytes() {
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/a", b"b\xff"), b"/a/b\xff");
        assert_eq!(join(b"", b"b"), b"b");
        assert_eq!(join(b"/a/", b""), b"/a/");
        assert_eq!((last(b"/a/b//"), last(b"/"), last(b"c"), last(b"")), (&b"b"[..], &b""[..], &b"c"[..], &b""[..]));
    }
}
