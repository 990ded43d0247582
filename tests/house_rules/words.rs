//! Words that were worn out here: `docs/GLOSSARY.md` has what to write instead. Each may stand where plain English needs it, and so often
//! in all; the number is only ever lowered.

use std::path::Path;

/// The word, with what may follow its stem; how often it may stand in the crates and the documents; what to write instead.
const WORN: &[(&[&str], usize, &str)] = &[
    (&["tell", "tells", "told", "telling", "untold"], 40, "record, emit, report, notify, distinguish, known from, say"),
    (&["whoever"], 10, "the noun itself"),
];

/// How often a text has one of these words, by itself or as a part of a name (`tell_closed`, `tellClosed`, `Told`).
fn count(text: &str, words: &[&str]) -> usize {
    let mut parts = Vec::new();
    for word in text.split(|c: char| !c.is_alphabetic()) {
        let mut from = 0;
        let letters: Vec<(usize, char)> = word.char_indices().collect();
        for pair in letters.windows(2) {
            if pair[0].1.is_lowercase() && pair[1].1.is_uppercase() {
                parts.push(&word[from..pair[1].0]);
                from = pair[1].0;
            }
        }
        parts.push(&word[from..]);
    }
    parts.iter().filter(|part| words.iter().any(|word| part.eq_ignore_ascii_case(word))).count()
}

fn is_prose_or_code(path: &Path) -> bool {
    path.extension().is_some_and(|e| ["rs", "c", "h", "py", "md"].iter().any(|known| e == *known))
}

#[test]
fn words_that_were_worn_out_do_not_come_back() {
    let mut texts = Vec::new();
    for folder in ["crates", "docs"] {
        super::visit(&super::root().join(folder), &mut |path| {
            if is_prose_or_code(path) {
                texts.extend(std::fs::read_to_string(path).ok().map(|text| (path.to_owned(), text)));
            }
        });
    }
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        texts.push((name.into(), std::fs::read_to_string(super::root().join(name)).expect("a page")));
    }
    for (words, most, instead) in WORN {
        let found: Vec<(&Path, usize)> =
            texts.iter().map(|(path, text)| (path.as_path(), count(text, words))).filter(|(_, times)| *times > 0).collect();
        let all: usize = found.iter().map(|(_, times)| times).sum();
        assert!(all <= *most, "{words:?} stand {all} times, {most} are allowed; write {instead}: {found:?}");
    }
}

#[test]
fn words_are_counted_in_sentences_and_in_names() {
    let words = ["tell", "told"];
    assert_eq!(count("It is told. tell_closed(); Told::of(isTold)", &words), 4);
    assert_eq!(count("a teller, telldir, untold, intellect", &words), 0);
}
