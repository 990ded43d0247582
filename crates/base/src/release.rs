//! This release, and what it says of files that another release made.
//!
//! Within 0.1 each release reads what every other one wrote; a file of a later format is refused before anything else of it is read. Whoever
//! raises a format keeps the place of its number, and writes beside it which release did: `made_by`, in JSON and TOML.

use std::fmt::Display;

/// The name and number of this release.
pub const RELEASE: &str = concat!("thalweg ", env!("CARGO_PKG_VERSION"));

/// Says that something has a format that this release does not read: `what` ("a recording") was `found` to have this format, and formats
/// up to `reads` can be read. `made_by` is the release that made it, as it says itself.
pub fn other_format(what: &str, found: impl Display, reads: impl Display, made_by: Option<&str>) -> String {
    // It is another program's text: only what a release's name may have is repeated.
    let is_name = |name: &&str| name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || " .-+_".contains(c));
    let (made, its) = match made_by.filter(is_name) {
        Some(release) => (format!(", made by {release}"), release),
        None => (String::new(), "the release that made it"),
    };
    format!("{what} of format {found}{made}; this is {RELEASE}, which reads up to format {reads}: use {its}, or a newer one")
}

/// Says that a JSON document is not the expected one, by what it says of itself (`thalweg.explain/2`).
pub fn other_schema(found: &str, expected: &str) -> String {
    let parts = |schema: &str| schema.rsplit_once('/').map(|(name, version)| (name.to_owned(), version.escape_debug().to_string()));
    match (parts(found), parts(expected)) {
        (Some((name, version)), Some((ours, reads))) if name == ours => other_format(&format!("a document `{name}`"), version, reads, None),
        _ => format!("`{}`, expected `{expected}`", found.escape_debug()),
    }
}

/// Says that a file has a key that this release does not know.
pub fn unknown_key(key: &str) -> String {
    format!("`{}` is not known to {RELEASE}: remove it, or use the release that it is for", key.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_format_is_named_with_its_release_and_ours_and_what_to_do() {
        let said = other_format("a recording", 3, 2, Some("thalweg 0.2.0"));
        let ours = format!("a recording of format 3, made by thalweg 0.2.0; this is {RELEASE}, which reads up to format 2: ");
        assert_eq!(said, format!("{ours}use thalweg 0.2.0, or a newer one"));
        assert!(!other_format("a target", 2, 1, None).contains("made by"));
    }

    #[test]
    fn a_document_of_another_version_is_no_other_document() {
        assert!(other_schema("thalweg.explain/2", "thalweg.explain/1").starts_with("a document `thalweg.explain` of format 2; this is"));
        assert_eq!(other_schema("thalweg.diff/1", "thalweg.explain/1"), "`thalweg.diff/1`, expected `thalweg.explain/1`");
    }

    #[test]
    fn what_a_file_says_of_its_release_moves_no_cursor() {
        for odd in ["\x1b[2J", "a\nb", &"x".repeat(100)] {
            assert_eq!(other_format("a target", 2, 1, Some(odd)), other_format("a target", 2, 1, None));
        }
    }
}
