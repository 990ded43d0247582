//! The pages for readers: links lead to files and headings, commands in code blocks exist with their flags, every cause has a row in the
//! glossary, and no page or picture holds a private path, a doubled emphasis or one table row twice.
//!
//! The outputs in pages are compared with the program's in `crates/report/tests/report/short.rs`.

use super::{root, visit};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders with pages, beside the files at the top.
const FOLDERS: [&str; 11] = ["docs", "crates", "lab", "bench", "gates", "python", "examples", "testbed", "mpi", "tools", "recipes"];

/// Templates of generated pages: their links are relative to the page.
const TEMPLATE: &str = "words.md";

/// Directories of one person's machine.
const PRIVATE: [&str; 3] = ["/root/", "/work/", "/home/"];

/// Bound: hand-written pages of docs/, without the index.
const MOST_PAGES: usize = 21;

/// Words after which another command begins.
const SEPARATORS: [&str; 5] = ["|", "||", "&", "&&", ";"];

/// Its questions and their flags are the Python package's.
const IN_PYTHON: &str = "fleet";

/// Returns every page by its path from the root.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut take = |path: &Path| {
        let is_page = path.extension().is_some_and(|ending| ending == "md") && !path.ends_with(TEMPLATE);
        if is_page && let Ok(text) = std::fs::read_to_string(path) {
            found.insert(path.strip_prefix(root()).unwrap_or(path).to_owned(), text);
        }
    };
    FOLDERS.iter().for_each(|folder| visit(&root().join(folder), &mut take));
    std::fs::read_dir(root()).expect("the source tree is there").flatten().for_each(|entry| take(&entry.path()));
    found
}

/// Whether a page is written by hand for users.
fn is_of_the_book(path: &Path) -> bool {
    path == Path::new("README.md") || path.parent() == Some(Path::new("docs"))
}

/// Splits a page into the lines of its prose and those of its code blocks.
fn prose_and_code(text: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut prose, mut code, mut is_code) = (Vec::new(), Vec::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            code.push(line);
        } else {
            prose.push(line);
        }
    }
    (prose, code)
}

/// Returns the targets of a line's links outside of its inline code.
fn links(line: &str) -> Vec<&str> {
    let is_paired = line.matches('`').count().is_multiple_of(2);
    let parts = line.split('`').enumerate().filter(|(at, _)| !is_paired || at.is_multiple_of(2));
    // `[`code`](target)` leaves its target at the beginning of a part.
    parts.flat_map(|(_, part)| part.split("](").skip(1)).filter_map(|rest| rest.split(')').next()).collect()
}

/// Returns the anchor that a heading gets on a page.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_anchor(page: &str, wanted: &str) -> bool {
    prose_and_code(page).0.iter().any(|line| line.starts_with('#') && anchor(line) == wanted)
}

/// Resolves `..` and `.` of a path without reading the file system.
fn normal(path: &Path) -> PathBuf {
    let mut made = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                made.pop();
            }
            std::path::Component::CurDir => {}
            other => made.push(other),
        }
    }
    made
}

/// Says why a link of a page leads nowhere.
fn dead(pages: &BTreeMap<PathBuf, String>, page: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_owned() } else { normal(&page.parent()?.join(file)) };
    if !root().join(&target).exists() {
        return Some(format!("{}: `{link}` does not exist", page.display()));
    }
    let text = pages.get(&target)?;
    (!heading.is_empty() && !has_anchor(text, heading)).then(|| format!("{}: `{link}` has no such heading", page.display()))
}

#[test]
fn every_link_of_a_page_leads_to_a_file_and_a_heading() {
    let pages = pages();
    let (mut count, mut broken) = (0, Vec::new());
    for (path, text) in &pages {
        for link in prose_and_code(text).0.into_iter().flat_map(links) {
            count += 1;
            broken.extend(dead(&pages, path, link));
        }
    }
    assert!(count > 500, "only {count} links were found");
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn a_dead_link_is_found() {
    let text = "# One page\n\n## What it costs, and why\n".to_owned();
    let pages = BTreeMap::from([(PathBuf::from("README.md"), text)]);
    let is_dead = |link: &str| dead(&pages, Path::new("README.md"), link).is_some();
    assert!(!is_dead("#what-it-costs-and-why") && !is_dead("README.md#one-page") && !is_dead("https://example.org/none"));
    assert!(is_dead("#what-it-brings") && is_dead("docs/NONE.md") && is_dead("README.md#another-page"));
    assert_eq!(links("a [`b`](c.md), `[d](e.md)` and [f](g.md#h)"), ["c.md", "g.md#h"]);
}

/// Splits a line of a shell into words; quoted text is one word or a part of one.
fn words(line: &str) -> Vec<String> {
    let (mut made, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c.is_whitespace() => made.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    made.push(word);
    made.retain(|word| !word.is_empty());
    made
}

/// Returns the commands of `thalweg` in a line of a code block, each as its words after the name.
fn commands(line: &str) -> Vec<Vec<String>> {
    let line = line.trim_start();
    let line = line.split_once("$ ").map_or(line, |(host, rest)| if host.chars().all(|c| c.is_ascii_lowercase()) { rest } else { line });
    let line = line.split(" # ").next().unwrap_or(line);
    let is_setting = |word: &String| word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
    let words = words(line);
    words
        .split(|word| SEPARATORS.contains(&word.as_str()))
        .map(|part| part.iter().skip_while(|word| is_setting(word)).cloned().collect::<Vec<String>>())
        .filter(|part| part.len() > 1 && part[0] == "thalweg" && part[1].chars().all(|c| c.is_ascii_lowercase()))
        .map(|part| part[1..].to_vec())
        .collect()
}

/// Returns the help of a verb, or of a verb's own verb; nothing where there is none.
fn help(verbs: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_thalweg")).args(verbs).arg("--help").output().expect("the command runs");
    if out.status.success() { String::from_utf8_lossy(&out.stdout).into_owned() } else { String::new() }
}

/// Whether a help names a flag.
fn names(help: &str, flag: &str) -> bool {
    help.match_indices(flag).any(|(at, _)| !help[at + flag.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-'))
}

/// Says what the command line does not have of a command in a page.
fn unknown(command: &[String], helps: &mut BTreeMap<String, String>) -> Option<String> {
    let verb = command[0].as_str();
    let mut text = helps.entry(verb.to_owned()).or_insert_with(|| help(&[verb])).clone();
    if text.is_empty() {
        return Some(format!("there is no `thalweg {verb}`"));
    }
    if let Some(second) = command.get(1).filter(|second| text.contains(&format!("\n  {second} "))) {
        text += helps.entry(format!("{verb} {second}")).or_insert_with(|| help(&[verb, second]));
    }
    let own = command.iter().take_while(|word| *word != "--").filter(|word| word.starts_with("--"));
    let flag = own.filter_map(|word| word.split('=').next()).find(|flag| verb != IN_PYTHON && !names(&text, flag))?;
    Some(format!("`thalweg {verb}` has no {flag}"))
}

/// Joins lines that end in a backslash with the next ones.
fn joined(lines: &[&str]) -> Vec<String> {
    let mut made = vec![String::new()];
    for line in lines {
        let last = made.len() - 1;
        match line.strip_suffix('\\') {
            Some(begun) => made[last] += begun,
            None => {
                made[last] += line;
                made.push(String::new());
            }
        }
    }
    made
}

#[test]
fn every_command_in_a_page_exists_with_its_flags() {
    let (mut count, mut wrong, mut helps) = (0, Vec::new(), BTreeMap::new());
    for (path, text) in pages().iter().filter(|(path, _)| is_of_the_book(path)) {
        for line in joined(&prose_and_code(text).1) {
            for command in commands(&line) {
                count += 1;
                wrong.extend(unknown(&command, &mut helps).map(|why| format!("{}: {why}: {line}", path.display())));
            }
        }
    }
    assert!(count > 100, "only {count} commands were found");
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn commands_are_found_behind_prompts_settings_and_pipes() {
    let found = |line: &str| commands(line).iter().map(|command| command.join(" ")).collect::<Vec<String>>();
    assert_eq!(found("server$ thalweg record --port 1 -o a.thw   # until it ends"), ["record --port 1 -o a.thw"]);
    assert_eq!(found("tar c d | thalweg cp - thal:/d && X_Y=1 thalweg ls 'a b'"), ["cp - thal:/d", "ls a b"]);
    assert_eq!(found("thalweg launch: host `a` is not known"), Vec::<String>::new());
    let mut helps = BTreeMap::from([("cp".to_owned(), "Options:\n      --requests <N>\n".to_owned())]);
    let mut is_unknown = |flag: &str| unknown(&["cp".to_owned(), flag.to_owned()], &mut helps).is_some();
    assert!(!is_unknown("--requests") && !is_unknown("--requests=4") && is_unknown("--request") && is_unknown("--never"));
}

#[test]
fn no_page_or_picture_has_a_private_path_or_a_doubled_emphasis() {
    let mut wrong = Vec::new();
    let mut take = |path: &Path| {
        let Ok(text) = std::fs::read_to_string(path) else { return };
        let found = PRIVATE.iter().chain(&["****"]).find(|text_of| text.contains(**text_of));
        wrong.extend(found.map(|what| format!("{}: {what}", path.strip_prefix(root()).unwrap_or(path).display())));
    };
    visit(&root().join("docs"), &mut take);
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].iter().for_each(|name| take(&root().join(name)));
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn no_table_of_a_page_has_one_row_twice() {
    let mut twice = Vec::new();
    for (path, text) in pages().iter().filter(|(path, _)| is_of_the_book(path) || path.components().count() == 1) {
        let mut table: Vec<&str> = Vec::new();
        for line in text.lines() {
            if !line.starts_with('|') {
                table.clear();
                continue;
            }
            // In ARCHITECTURE a thing has one row, whatever the row says of it.
            let is_by_name = path == Path::new("ARCHITECTURE.md");
            let row = if is_by_name { line.split('|').nth(1).unwrap_or(line).trim() } else { line };
            if table.contains(&row) {
                twice.push(format!("{}: {line}", path.display()));
            }
            table.push(row);
        }
    }
    assert_eq!(twice, Vec::<String>::new());
}

#[test]
fn the_book_is_short_and_its_index_leads_to_every_page() {
    let pages = pages();
    let index = &pages[Path::new("docs/README.md")];
    let of_docs = pages.keys().filter(|path| path.starts_with("docs") && !path.ends_with("README.md"));
    let unnamed: Vec<&PathBuf> =
        of_docs.filter(|path| path.strip_prefix("docs").is_ok_and(|page| !index.contains(&format!("]({}", page.display())))).collect();
    assert_eq!(unnamed, Vec::<&PathBuf>::new(), "docs/README.md does not lead to these pages");
    let by_hand = pages.keys().filter(|path| path.parent() == Some(Path::new("docs")) && !path.ends_with("README.md")).count();
    assert!(by_hand <= MOST_PAGES, "{by_hand} pages: merge two");
}

#[test]
fn every_cause_is_in_the_glossary() {
    let list = std::fs::read_to_string(root().join("crates/explain/src/cause.rs")).expect("the list of causes is there");
    let (_, list) = list.split_once("\ncauses! {").expect("the list of causes");
    let (list, _) = list.split_once("\n}").expect("its end");
    let causes: Vec<&str> = list.lines().filter_map(|line| line.split_once(" = \"")?.1.split('"').next()).collect();
    let glossary = std::fs::read_to_string(root().join("docs/GLOSSARY.md")).expect("docs/GLOSSARY.md is there");
    let missing: Vec<&str> = causes.iter().copied().filter(|cause| !glossary.contains(&format!("`{cause}`"))).collect();
    assert!(causes.len() > 20 && missing.is_empty(), "docs/GLOSSARY.md lacks {missing:?}");
}

#[test]
fn the_demo_leaves_nothing_in_the_tree() {
    let demo = std::fs::read_to_string(root().join("tools/demo")).expect("tools/demo is there");
    let (_, output) = demo.split_once("${KEEP:-").expect("the demo's directory for its output");
    assert!(output.starts_with("target/"), "target/ is ignored by git");
}
