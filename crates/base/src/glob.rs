//! Shell patterns for names: `*`, `?`, `[a-z]`, `[!x]`, `\*`.
//!
//! Names are bytes; `?` and sets match characters where the name is valid UTF-8 and bytes elsewhere. Patterns are not compiled and matching
//! does not recurse: on a mismatch it backtracks to the last star only, so a match costs at most pattern length times name length.

/// How a pattern is interpreted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// ASCII letters match in either case.
    pub ignore_case: bool,
    /// Only `*` and `?` are special. Brackets and backslashes are literal, as they occur in function names.
    pub only_wildcards: bool,
}

/// Returns whether the pattern matches the whole name.
pub fn matches(pattern: &[u8], name: &[u8], reading: Reading) -> bool {
    let (mut p, mut n) = (0, 0);
    // After the last star: where the pattern resumes, and the end of the part of the name that the star matches.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            star = Some((p, n));
            continue;
        }
        let step = if n < name.len() { one(&pattern[p..], &name[n..], reading) } else { None };
        match (step, star) {
            _ if n == name.len() && p == pattern.len() => return true,
            (Some((of_pattern, of_name)), _) => {
                p += of_pattern;
                n += of_name;
            }
            (None, Some((after, stood))) if stood < name.len() => {
                n = stood + character(&name[stood..]).1;
                p = after;
                star = Some((after, n));
            }
            _ => return false,
        }
    }
}

/// Matches the pattern's first element with the name's first character; returns the length of both.
fn one(pattern: &[u8], name: &[u8], reading: Reading) -> Option<(usize, usize)> {
    let fold = |c: u32| if reading.ignore_case { char::from_u32(c).map_or(c, |c| c.to_ascii_lowercase().into()) } else { c };
    let (found, of_name) = character(name);
    let literal = |pattern: &[u8], skipped: usize| {
        let (wanted, of_pattern) = character(pattern);
        (fold(wanted) == fold(found)).then_some((skipped + of_pattern, of_name))
    };
    match pattern {
        [] => None,
        [b'?', ..] => Some((1, of_name)),
        _ if reading.only_wildcards => literal(pattern, 0),
        [b'\\', rest @ ..] if !rest.is_empty() => literal(rest, 1),
        [b'[', rest @ ..] => match set(rest, fold(found), fold) {
            Some((is_in, length)) => is_in.then_some((1 + length, of_name)),
            // An unclosed bracket is literal.
            None => literal(pattern, 0),
        },
        _ => literal(pattern, 0),
    }
}

/// Matches a character against the set after a `[`; returns the result and the set's length including `]`, or `None` if it is not closed.
fn set(pattern: &[u8], found: u32, fold: impl Fn(u32) -> u32) -> Option<(bool, usize)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let first = usize::from(negated);
    let (mut at, mut is_in) = (first, false);
    loop {
        let rest = pattern.get(at..).filter(|rest| !rest.is_empty())?;
        // A `]` in first position is a member of the set.
        if rest[0] == b']' && at > first {
            return Some((is_in != negated, at + 1));
        }
        let escaped = usize::from(rest[0] == b'\\' && rest.len() > 1);
        let (low, length) = character(&rest[escaped..]);
        at += escaped + length;
        let high = match pattern.get(at..) {
            Some([b'-', after @ ..]) if !after.is_empty() && after[0] != b']' => {
                let escaped = usize::from(after[0] == b'\\' && after.len() > 1);
                let (high, length) = character(&after[escaped..]);
                at += 1 + escaped + length;
                high
            }
            _ => low,
        };
        is_in |= (low..=high).contains(&found) || (fold(low)..=fold(high)).contains(&found);
    }
}

/// Decodes the first character; returns it with its length. An invalid byte becomes a value that equals no character.
fn character(bytes: &[u8]) -> (u32, usize) {
    const NOT_UTF_8: u32 = 0x11_0000;
    let length = match bytes[0] {
        0..0x80 => return (bytes[0].into(), 1),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    match bytes.get(..length).and_then(|piece| std::str::from_utf8(piece).ok()).and_then(|text| text.chars().next()) {
        Some(c) => (c.into(), length),
        None => (NOT_UTF_8 + u32::from(bytes[0]), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::{Reading, matches};
    use proptest::prelude::*;

    const PLAIN: Reading = Reading { ignore_case: false, only_wildcards: false };
    const ANY_CASE: Reading = Reading { ignore_case: true, only_wildcards: false };
    const WILDCARDS: Reading = Reading { ignore_case: false, only_wildcards: true };

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a?c", "aäc", true),
            ("*.rs", "main.rs", true),
            ("*.rs", "main.rs~", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("[a-c]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[!a-c]x", "dx", true),
            ("[^a-c]x", "ax", false),
            ("[]x]", "]", true),
            ("[a-]", "-", true),
            ("[ä-ö]", "é", true),
            ("[", "[", true),
            ("[ab", "[ab", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("file-00[0-4]?", "file-0031", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes(), PLAIN), expected, "{pattern} against {name}");
        }
        assert!(matches(b"*.RS", b"main.rs", ANY_CASE) && !matches(b"*.RS", b"main.rs", PLAIN));
        assert!(matches(b"[A-C]", b"b", ANY_CASE) && matches(b"[a-c]", b"B", ANY_CASE));
    }

    #[test]
    fn bytes_that_are_no_text_match_themselves_and_a_question_mark() {
        assert!(matches(b"a?c", b"a\xffc", PLAIN));
        assert!(matches(b"\xff*", b"\xffx", PLAIN));
        assert!(!matches(b"\xfe", b"\xff", PLAIN));
        assert!(matches(b"??", b"\xc3\xff", PLAIN));
    }

    #[test]
    fn many_stars_do_not_take_forever() {
        let name = vec![b'a'; 255];
        assert!(!matches(&b"*a".repeat(100).iter().chain(b"b").copied().collect::<Vec<u8>>(), &name, PLAIN));
        assert!(matches(&b"*a".repeat(100), &name, PLAIN));
    }

    #[test]
    fn every_name_matches_itself_escaped() {
        let every: Vec<u8> = (1..=255).filter(|b| *b != b'/').collect();
        let escaped: Vec<u8> = every.iter().flat_map(|b| if b.is_ascii() { vec![b'\\', *b] } else { vec![*b] }).collect();
        assert!(matches(&escaped, &every, PLAIN));
    }

    #[test]
    fn brackets_and_backslashes_can_stand_for_themselves() {
        assert!(matches(b"operator[]*", b"operator[](int)", WILDCARDS) && !matches(b"[jit]*", b"jitter", WILDCARDS));
        assert!(matches(b"a\\?", b"a\\b", WILDCARDS) && !matches(b"a\\?", b"a?", WILDCARDS));
    }

    /// The specification: as simple as possible, without regard to speed.
    fn means(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.first(), name.first()) {
            (None, None) => true,
            (Some(b'*'), _) => means(&pattern[1..], name) || (!name.is_empty() && means(pattern, &name[1..])),
            (Some(b'?'), Some(_)) => means(&pattern[1..], &name[1..]),
            (Some(a), Some(b)) => a == b && means(&pattern[1..], &name[1..]),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_pattern_is_what_it_means(pattern in "[ab*?]{0,7}", name in "[ab]{0,9}") {
            for reading in [PLAIN, WILDCARDS] {
                prop_assert_eq!(matches(pattern.as_bytes(), name.as_bytes(), reading), means(pattern.as_bytes(), name.as_bytes()));
            }
        }
    }
}
