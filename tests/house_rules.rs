//! The house rules that a machine can check: dependencies between crates, lengths of files and functions, and that the pages that describe
//! the project name what exists. Separate files check cycles between files ([`circles`]), formats ([`frozen`]), duplicates ([`once`]), unreferenced
//! files ([`unused`]), the pages for readers ([`pages`]) and rejected wordings ([`wordings`]).

#[path = "house_rules/circles.rs"]
mod circles;
#[path = "house_rules/frozen.rs"]
mod frozen;
#[path = "house_rules/once.rs"]
mod once;
#[path = "house_rules/pages.rs"]
mod pages;
#[path = "house_rules/unused.rs"]
mod unused;
#[path = "house_rules/wordings.rs"]
mod wordings;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Allowed dependencies. A crate not listed may depend on none of ours.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("thalweg-explain", &["thalweg-trace", "thalweg-recipes"]),
    ("thalweg-recipes", &["thalweg-trace"]),
    ("thalweg-record", &["thalweg-trace"]),
    ("thalweg-wire", &["thalweg-bulk", "thalweg-layout", "thalweg-trace"]),
    ("thalweg-io", &["thalweg-bulk", "thalweg-trace", "thalweg-wire"]),
    ("thalweg-metadata", &["thalweg-bulk", "thalweg-layout", "thalweg-trace", "thalweg-wire"]),
    ("thalweg-client", &["thalweg-bulk", "thalweg-layout", "thalweg-trace", "thalweg-wire"]),
    (
        "thalweg-store",
        &["thalweg-bulk", "thalweg-io", "thalweg-layout", "thalweg-metadata", "thalweg-client", "thalweg-trace", "thalweg-wire"],
    ),
    ("thalweg-trace", &["thalweg-bulk"]),
    ("thalweg-launch", &["thalweg-store", "thalweg-trace"]),
    ("thalweg-mount", &["thalweg-client", "thalweg-trace", "thalweg-layout"]),
    // Results of measurements are documents of the measuring crates, with their points and phases.
    ("thalweg-report", &["thalweg-trace", "thalweg-explain", "thalweg-measure", "thalweg-study", "thalweg-tune"]),
    ("thalweg-study", &["thalweg-layout", "thalweg-client", "thalweg-measure", "thalweg-trace", "thalweg-explain"]),
    ("thalweg-tune", &["thalweg-study", "thalweg-client", "thalweg-measure", "thalweg-recipes", "thalweg-trace", "thalweg-explain"]),
    ("thalweg-fuzz", &["thalweg-trace", "thalweg-record", "thalweg-explain"]),
];

/// Additional dependencies allowed in tests and examples.
const MAY_KNOW_IN_TESTS: &[(&str, &[&str])] = &[("thalweg-mount", &["thalweg-store"])];

/// Every crate may depend on it; it depends on none of ours.
const GROUND_FLOOR: &str = "thalweg-base";

/// The only crate that is built with databases.
const WITH_DATABASES: &str = "thalweg-metadata";

/// The only crate that may depend on all others.
const KNOWS_EVERYBODY: &str = "thalweg";

/// Bound: lines of a file without its unit tests, unless its first lines give a reason ("Long because ...").
const MOST_LINES: usize = 600;

/// Bound: lines of a function without blank lines and comments, with the same exception. For Rust, clippy checks it (clippy.toml).
const MOST_LINES_OF_A_FUNCTION: usize = 70;

/// Every folder with our code.
const FOLDERS: [&str; 9] = ["crates", "tests", "bench", "lab", "gates", "testbed", "mpi", "fuzz", "python"];

/// Bound: terms of the glossary.
const MOST_TERMS: usize = 80;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the source tree is there")
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("cargo metadata is JSON")
}

fn packages() -> Vec<Value> {
    metadata()["packages"].as_array().expect("packages").clone()
}

#[test]
fn nobody_knows_whom_they_may_not_know() {
    let packages = packages();
    let ours: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let [allowed, in_tests] = [MAY_KNOW, MAY_KNOW_IN_TESTS].map(|list| list.iter().copied().collect::<BTreeMap<&str, &[&str]>>());
    let mut broken = Vec::new();
    for package in &packages {
        let name = package["name"].as_str().expect("a package has a name");
        if name == KNOWS_EVERYBODY {
            continue;
        }
        let listed = |list: &BTreeMap<&str, &[&str]>, whom: &str| list.get(name).is_some_and(|names| names.contains(&whom));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let is_of_tests = dependency["kind"] == "dev";
            let dependency = dependency["name"].as_str().expect("a dependency has a name");
            let may = dependency == GROUND_FLOOR && name != GROUND_FLOOR
                || listed(&allowed, dependency)
                || is_of_tests && listed(&in_tests, dependency);
            // A library's own examples and tests may use it.
            if ours.contains(&dependency) && dependency != name && !may {
                broken.push(format!("{name} knows {dependency}"));
            }
        }
    }
    assert!(ours.contains(&KNOWS_EVERYBODY), "the command is a package");
    assert_eq!(broken, Vec::<String>::new());
}

/// Crates other than the metadata service (the client, the mount) are built without its databases.
#[test]
fn databases_are_the_metadata_services_alone() {
    let packages = packages();
    let of = |p: &Value| p["dependencies"].as_array().expect("dependencies").iter().any(|d| d["name"] == "redb" || d["name"] == "postgres");
    let with: Vec<&str> = packages.iter().filter(|p| of(p)).filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(with, [WITH_DATABASES]);
}

/// A model checker replaces the locks of one module, which the store and the mount must use.
#[test]
fn locks_of_the_store_come_from_one_module() {
    let checked = ["thalweg-wire", "thalweg-io", "thalweg-metadata", "thalweg-client", "thalweg-store", "thalweg-mount"];
    let has_own = |p: &Value| p["dependencies"].as_array().expect("dependencies").iter().any(|d| d["name"] == "parking_lot");
    let packages = packages();
    let names = packages.iter().filter(|p| has_own(p)).filter_map(|p| p["name"].as_str());
    assert_eq!(names.filter(|name| checked.contains(name)).collect::<Vec<_>>(), Vec::<&str>::new(), "use thalweg_base::sync");
}

#[test]
fn every_crate_is_linted_alike() {
    let lacking: Vec<String> = packages()
        .iter()
        .filter_map(|p| p["manifest_path"].as_str().map(PathBuf::from))
        .filter(|manifest| !std::fs::read_to_string(manifest).is_ok_and(|text| text.contains("[lints]\nworkspace = true")))
        .map(|manifest| manifest.display().to_string())
        .collect();
    assert_eq!(lacking, Vec::<String>::new(), "these manifests lack `[lints] workspace = true`");
}

#[derive(Clone, Copy, PartialEq)]
enum Language {
    Rust,
    Python,
    C,
    Shell,
}

/// Returns the language of a source file, by its name or its interpreter.
fn language(path: &Path, text: &str) -> Option<Language> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("rs") => Some(Language::Rust),
        Some("py") => Some(Language::Python),
        Some("c" | "h") => Some(Language::C),
        Some("sh") => Some(Language::Shell),
        Some(_) => None,
        None => {
            let runs = text.lines().next().filter(|line| line.starts_with("#!"))?;
            Some(if runs.contains("python") { Language::Python } else { Language::Shell })
        }
    }
}

/// Calls `seen` with all our source files and their text.
fn sources(seen: &mut dyn FnMut(&Path, Language, &str)) {
    for folder in FOLDERS.iter().chain(&["tools"]) {
        visit(&root().join(folder), &mut |path| {
            let Ok(text) = std::fs::read_to_string(path) else { return };
            let Some(language) = language(path, &text) else { return };
            seen(path.strip_prefix(root()).unwrap_or(path), language, &text);
        });
    }
}

fn says_why(text: &str) -> bool {
    text.lines().take(40).any(|line| line.contains("Long because"))
}

/// A crate's public items are those that its root names: the rest is private to it, so that the compiler finds unused items.
#[test]
fn no_library_publishes_by_accident() {
    let libraries =
        packages().into_iter().filter_map(|p| p["manifest_path"].as_str().map(|m| PathBuf::from(m).with_file_name("src/lib.rs")));
    let lacking: Vec<PathBuf> =
        libraries.filter(|root| std::fs::read_to_string(root).is_ok_and(|text| !text.contains("#![warn(unreachable_pub)]"))).collect();
    assert_eq!(lacking, Vec::<PathBuf>::new(), "these lack `#![warn(unreachable_pub)]`");
}

#[test]
fn no_file_is_long_without_a_reason() {
    let (mut long, mut files) = (Vec::new(), 0);
    sources(&mut |path, _, text| {
        files += 1;
        // A file's unit tests come last, and do not count.
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        if lines > MOST_LINES && !says_why(text) {
            long.push(format!("{} has {lines} lines", path.display()));
        }
    });
    assert!(files > 500, "only {files} files were found");
    assert_eq!(long, Vec::<String>::new(), "split them, or say in the first comment: Long because ...");
}

/// Returns the functions of a file with their lines: by indentation in Python, by braces in the first column in C.
fn functions(language: Language, text: &str) -> Vec<(String, usize)> {
    let comment = if language == Language::Python { "#" } else { "//" };
    let counts = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with(comment);
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let body = &lines[at + 1..];
        if language == Language::Python && line.trim_start().starts_with("def ") {
            let within = |l: &&&str| l.trim().is_empty() || indentation(l) > indentation(line) || l.trim().starts_with(')');
            found.push((line.trim().to_owned(), 1 + body.iter().take_while(within).copied().filter(counts).count()));
        } else if language == Language::C
            && line.ends_with('{')
            && !line.starts_with([' ', '\t', '}'])
            && (line.contains('(') || *line == "{")
        {
            found.push((
                lines[at.saturating_sub(usize::from(*line == "{"))].to_owned(),
                2 + body.iter().take_while(|l| !l.starts_with('}')).copied().filter(counts).count(),
            ));
        }
    }
    found
}

#[test]
fn no_function_is_long_without_a_reason() {
    let (mut long, mut seen) = (Vec::new(), 0);
    sources(&mut |path, language, text| {
        if !matches!(language, Language::Python | Language::C) || says_why(text) {
            return;
        }
        for (name, lines) in functions(language, text) {
            seen += 1;
            if lines > MOST_LINES_OF_A_FUNCTION {
                long.push(format!("{}: {name} has {lines} lines", path.display()));
            }
        }
    });
    assert!(seen > 1000, "only {seen} functions were found");
    assert_eq!(long, Vec::<String>::new(), "divide them, or say in the file's first comment: Long because ...");
}

#[test]
fn functions_are_found_and_counted() {
    let python = "def a():\n    # why\n    return 1\n\n\nclass B:\n    def c(\n        self,\n    ):\n        pass\n\n    x = 1\n";
    assert_eq!(functions(Language::Python, python), [("def a():".to_owned(), 2), ("def c(".to_owned(), 4)]);
    let c = "static int f(int x)\n{\n    // why\n    return x;\n}\n\nint g(void) {\n    return 1;\n}\nstruct s {\n    int x;\n};\n";
    assert_eq!(functions(Language::C, c), [("static int f(int x)".to_owned(), 3), ("int g(void) {".to_owned(), 3)]);
}

/// Returns the texts between backquotes in a page.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_architecture_names_what_is_there() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let is_path = |word: &&str| word.contains('/') && !word.contains([' ', ':', '|', '*']) && !word.starts_with("NAME");
    let gone: Vec<&str> = quoted(&text).filter(is_path).filter(|word| !root().join(word.trim_end_matches('/')).exists()).collect();
    assert_eq!(gone, Vec::<&str>::new(), "ARCHITECTURE.md names these, and they are not there");
    for folder in FOLDERS {
        assert!(text.contains(&format!("`{folder}/")), "ARCHITECTURE.md says nothing of `{folder}/`");
    }
}

#[test]
fn each_dependency_has_its_line_and_each_line_its_dependency() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let table = text.split("## Dependencies").nth(1).expect("ARCHITECTURE.md has a table of dependencies");
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| crate"));
    let mut listed: Vec<&str> = rows.filter_map(|row| row.split('|').nth(1)).flat_map(|cell| cell.split(',').map(str::trim)).collect();
    let packages = packages();
    let ours: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let dependencies = packages.iter().flat_map(|p| p["dependencies"].as_array().expect("dependencies"));
    let mut used: Vec<&str> = dependencies.filter_map(|d| d["name"].as_str()).filter(|name| !ours.contains(name)).collect();
    listed.sort_unstable();
    used.sort_unstable();
    used.dedup();
    assert_eq!(listed, used);
}

#[test]
fn there_is_one_library_of_ciphers() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock is there");
    let others = ["aws-lc-rs", "aws-lc-sys", "openssl-sys", "native-tls", "rustls-native-certs", "webpki-roots"];
    let found: Vec<&str> = others.into_iter().filter(|name| lock.contains(&format!("name = \"{name}\"\n"))).collect();
    assert_eq!(found, Vec::<&str>::new(), "ring is the only provider: leave rustls's default features off");
    assert_eq!(lock.matches("name = \"ring\"\n").count(), 1);
}

#[test]
fn the_glossary_is_short_and_each_term_says_what_it_means() {
    let text = std::fs::read_to_string(root().join("docs/GLOSSARY.md")).expect("docs/GLOSSARY.md is there");
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| ") && !["| term", "| cause |", "| write"].iter().any(|head| line.starts_with(head)))
        .collect();
    assert!((20..=MOST_TERMS).contains(&rows.len()), "{} terms", rows.len());
    assert!(rows.iter().all(|row| row.split('|').nth(2).is_some_and(|meaning| meaning.trim().len() > 20)));
}

fn visit(directory: &Path, seen: &mut dyn FnMut(&Path)) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !["target", "build", "node_modules"].iter().any(|built| path.ends_with(built)) {
                visit(&path, seen);
            }
        } else {
            seen(&path);
        }
    }
}
