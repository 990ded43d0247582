//! Examples, scripts and pages without a reference: each must be named by a target, a script, a test or a page.
//!
//! An example is named as `examples/NAME`, `--example NAME` or the like; a script with its folder (`answers/run`), or, if its name is
//! unique, between quotes or in an `import`; a page or picture of docs/ by its file name. A file's references to itself do not count.

use super::{root, visit};
use std::path::{Path, PathBuf};

/// Folders of scripts that must be named.
const SCRIPTS: [&str; 4] = ["tools", "lab", "bench", "testbed"];

/// Folders whose files count as references, beside those at the top.
const NAMING: [&str; 14] =
    ["crates", "tests", "bench", "lab", "gates", "testbed", "mpi", "fuzz", "python", "tools", "docs", "examples", "recipes", ".ci"];

/// Longer files are results, and do not count.
const MOST_BYTES: u64 = 1 << 20;

/// Extensions of results, which do not count either.
const RESULTS: [&str; 4] = ["json", "jsonl", "svg", "txt"];

/// A file and its text.
type Text = (PathBuf, String);

fn ending(path: &Path) -> &str {
    path.extension().and_then(|ending| ending.to_str()).unwrap_or_default()
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Returns every text that counts as a reference, by its path from the root.
fn texts() -> Vec<Text> {
    let mut found = Vec::new();
    let mut take = |path: &Path| {
        let is_short = path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() < MOST_BYTES);
        if is_short
            && !RESULTS.contains(&ending(path))
            && let Ok(text) = std::fs::read_to_string(path)
        {
            found.push((path.strip_prefix(root()).unwrap_or(path).to_owned(), text));
        }
    };
    NAMING.iter().for_each(|folder| visit(&root().join(folder), &mut take));
    std::fs::read_dir(root()).expect("the source tree is there").flatten().for_each(|entry| take(&entry.path()));
    found
}

/// Returns whether a text has a word after a lead and separators.
fn follows(text: &str, lead: &str, word: &str) -> bool {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(lead).any(|(at, _)| {
        let after = &text[at + lead.len()..];
        let after = after.strip_prefix('s').unwrap_or(after).trim_start_matches([' ', '"', '\'', ',', '/', '(']);
        after.strip_prefix(word).is_some_and(|rest| !rest.starts_with(is_of_word))
    })
}

/// Returns whether any other file's text satisfies the condition.
fn is_named(texts: &[Text], path: &Path, holds: impl Fn(&str) -> bool) -> bool {
    texts.iter().any(|(of, text)| of != path && holds(text))
}

/// Returns unreferenced examples of crates.
fn examples(texts: &[Text]) -> Vec<&Path> {
    let is_example = |path: &Path| path.starts_with("crates") && path.parent().is_some_and(|folder| folder.ends_with("examples"));
    let stem = |path: &Path| path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
    let all = texts.iter().map(|(path, _)| path.as_path()).filter(|path| is_example(path));
    all.filter(|path| !is_named(texts, path, |text| follows(text, "example", &stem(path)))).collect()
}

/// Returns unreferenced scripts.
fn scripts(texts: &[Text]) -> Vec<&Path> {
    let is_script = |(path, text): &&Text| text.starts_with("#!") && SCRIPTS.iter().any(|folder| path.starts_with(folder));
    let all: Vec<&Path> = texts.iter().filter(is_script).map(|(path, _)| path.as_path()).collect();
    let names = |path: &Path| {
        let (name, folder) = (name(path), path.parent().map(name).unwrap_or_default());
        let mut names = vec![format!("{folder}/{name}")];
        if all.iter().filter(|other| self::name(other) == name).count() == 1 {
            names.extend([format!("\"{name}\""), format!("'{name}'")]);
            names.extend(name.strip_suffix(".py").map(|module| format!("import {module}")));
        }
        names
    };
    let is_unnamed = |path: &&Path| {
        let names = names(path);
        !is_named(texts, path, |text| names.iter().any(|name| text.contains(name.as_str())))
    };
    all.iter().copied().filter(is_unnamed).collect()
}

/// Returns unreferenced pages and pictures of docs/.
fn pages(texts: &[Text]) -> Vec<PathBuf> {
    let mut unnamed = Vec::new();
    visit(&root().join("docs"), &mut |path| {
        let path = path.strip_prefix(root()).unwrap_or(path);
        if !is_named(texts, path, |text| text.contains(name(path))) {
            unnamed.push(path.to_owned());
        }
    });
    unnamed
}

#[test]
fn every_example_script_and_page_is_named_somewhere() {
    let texts = texts();
    assert!(texts.len() > 1000, "only {} texts were found", texts.len());
    let unnamed: Vec<PathBuf> = examples(&texts).into_iter().chain(scripts(&texts)).map(Path::to_owned).chain(pages(&texts)).collect();
    assert_eq!(unnamed, Vec::<PathBuf>::new(), "nothing names these: name them where they are used, or remove them");
}

#[test]
fn what_is_named_is_told_from_what_is_not() {
    let of = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    let texts = [
        of("crates/a/examples/used.rs", ""),
        of("crates/a/examples/scale.rs", ""),
        of("crates/a/examples/unused.rs", "examples/unused"),
        of("lab/one/run", "#!/bin/sh\nlab/one/run"),
        of("lab/two/run", "#!/bin/sh"),
        of("bench/made.py", "#!/usr/bin/env python3"),
        of("Makefile", "cargo run --example used; '--example', 'scale'; lab/two/run; '--example', 'unused_too'; \"run\""),
        of("bench/score.py", "from bench import made as m"),
    ];
    assert_eq!(examples(&texts), [Path::new("crates/a/examples/unused.rs")]);
    assert_eq!(scripts(&texts), [Path::new("lab/one/run")]);
}
