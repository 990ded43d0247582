//! Rejected wordings, each with its replacement: names that nobody could guess, and phrases that read like a translation. Only those are
//! listed that can be matched exactly and are right nowhere.

use std::path::{Path, PathBuf};

/// Names and phrases that may not occur in the crates' code or in the documents, with what to write instead.
const REJECTED: &[(&str, &str)] = &[
    ("was_brought", "relayed"),
    ("ended_by_nobody_known", "unknown_waker"),
    ("serves_itself", "is_private_work"),
    ("mode: TraceHandle", "trace: TraceHandle"),
    ("mode: &TraceHandle", "trace: &TraceHandle"),
    ("no data under way", "network idle"),
    ("held back by its CPU quota", "throttled by its CPU quota"),
    ("held back by their CPU quota", "throttled by their CPU quota"),
    ("as the programs handed them over", "measured at the socket, not on the wire"),
    ("predictions can be no better", "expect at least this error"),
    ("run it where nothing else does", "run it on an idle machine"),
    ("move what is written to a device twice as fast", "write to a device twice as fast"),
    ("not known whether it ran or waited", "unaccounted: no wait, no sample"),
    ("asleep, and it looks for something again and again", "polling in a sleep loop; target unknown"),
    ("lock that nobody recorded had", "unseen lock holder"),
    ("what processors' queueing does not account for", "unexplained run-queue time"),
];

/// Names of types that stood for many different things.
const REJECTED_TYPES: &[&str] = &["Found", "Handed", "Kept", "Known", "Said", "Seen", "Thing"];

/// Joins a text's lines without their indentation and comment markers, so that a phrase is found across a line break.
fn unwrapped(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches(['/', '!']).trim());
    lines.collect::<Vec<_>>().join(" ")
}

/// Returns whether a text contains these words, not as a part of longer ones.
fn contains(text: &str, words: &str) -> bool {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(words).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + words.len()..]);
        !before.ends_with(is_of_word) && !after.starts_with(is_of_word)
    })
}

/// Returns each rejected wording in a text, with its replacement.
fn rejected(text: &str) -> Vec<String> {
    let text = unwrapped(text);
    let wordings = REJECTED.iter().filter(|(wording, _)| contains(&text, wording));
    let mut found: Vec<String> = wordings.map(|(wording, instead)| format!("`{wording}`: write `{instead}`")).collect();
    for name in REJECTED_TYPES {
        if ["struct", "enum", "trait", "type", "union"].iter().any(|kind| contains(&text, &format!("{kind} {name}"))) {
            found.push(format!("the type `{name}`: name it for what it is"));
        }
    }
    found
}

#[test]
fn rejected_wordings_do_not_occur() {
    let mut occurrences: Vec<(PathBuf, Vec<String>)> = Vec::new();
    let mut files = 0;
    for (folder, extension) in [("crates", "rs"), ("docs", "md")] {
        super::visit(&super::root().join(folder), &mut |path: &Path| {
            if path.extension().is_some_and(|found| found == extension)
                && let Ok(text) = std::fs::read_to_string(path)
            {
                files += 1;
                let found = rejected(&text);
                if !found.is_empty() {
                    occurrences.push((path.strip_prefix(super::root()).unwrap_or(path).to_owned(), found));
                }
            }
        });
    }
    assert!(files > 500, "only {files} files were found");
    assert!(occurrences.is_empty(), "rejected wordings: {occurrences:#?}");
}

#[test]
fn wordings_are_found_across_lines_and_not_within_names() {
    let found = |text: &str| rejected(text).len();
    assert_eq!(found("    /// It was held back by\n    /// its CPU quota.\nfn f(mode: &TraceHandle) {}"), 2);
    assert_eq!(found("let x = event.was_brought;\npub(crate) struct Kept {"), 2);
    assert_eq!(found("was_brought_in(); struct KeptAlive; fn f(trace_mode: TraceHandle)"), 0);
}
