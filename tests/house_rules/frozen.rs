//! The formats of 0.1 are frozen: the definitions of everything that is written to disk, sent, or printed as a document are kept in
//! `tests/formats/definitions/`, a file for each format and version. A definition that changes without a new version fails here.
//!
//! What counts is the text of a definition, without comments: types that serde writes, closed sets, and the schemas of tables. (Rejected: a
//! checksum of it, which would not say what changed.) A format with a new version gets a new file: `THALWEG_BLESS=1` writes it, and never
//! overwrites one.

use super::root;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What may change without a new version.
#[derive(Clone, Copy, PartialEq)]
enum May {
    /// Nothing: the bytes have no names.
    Nothing,
    /// Closed sets and enums may get members at their end; readers leave out what they do not know.
    GetMembers,
    /// Fields and types may be added; none may go or change.
    GetFields,
}

/// A format: its name, where its version is (a file, and what stands before the number), where its definitions are, what may change.
struct Format {
    name: &'static str,
    version: (&'static str, &'static str),
    files: &'static [&'static str],
    may: May,
}

const fn format(name: &'static str, version: (&'static str, &'static str), may: May, files: &'static [&'static str]) -> Format {
    Format { name, version, files, may }
}

const FORMATS: &[Format] = &[
    format(
        "recording",
        ("crates/trace/src/model.rs", "FORMAT_VERSION: u32 = "),
        May::GetMembers,
        &["crates/trace/src/model.rs", "crates/trace/src/kind.rs", "crates/trace/src/recording"],
    ),
    format(
        "wire",
        ("crates/wire/src/transport/header.rs", "VERSION: u16 = "),
        May::Nothing,
        &["crates/wire/src/protocol", "crates/wire/src/trust/identity.rs", "crates/wire/src/emulate", "crates/layout/src/spec.rs"],
    ),
    format(
        "store",
        ("crates/io/src/target.rs", "FORMAT: u32 = "),
        May::Nothing,
        &["crates/io/src", "crates/metadata/src", "crates/store/src/config", "crates/wire/src/trust/credential.rs"],
    ),
    format("backup", ("crates/store/src/backup/file.rs", "VERSION: u32 = "), May::Nothing, &["crates/store/src/backup/file.rs"]),
    format(
        "explain",
        ("crates/explain/src/document.rs", "thalweg.explain/"),
        May::GetFields,
        &["crates/explain/src/document.rs", "crates/explain/src/document", "crates/explain/src/connections/document.rs"],
    ),
    format("diff", ("crates/explain/src/diff/document.rs", "thalweg.diff/"), May::GetFields, &["crates/explain/src/diff/document.rs"]),
    format(
        "profile",
        ("crates/explain/src/profile/document.rs", "thalweg.profile/"),
        May::GetFields,
        &["crates/explain/src/profile/document.rs"],
    ),
    format(
        "rpcstat",
        ("crates/explain/src/rpcstat/document.rs", "thalweg.rpcstat/"),
        May::GetFields,
        &["crates/explain/src/rpcstat/document.rs"],
    ),
    format("sweep", ("crates/study/src/sweep/document.rs", "thalweg.sweep/"), May::Nothing, &["crates/study/src/sweep"]),
    format("tune", ("crates/tune/src/document.rs", "thalweg.tune/"), May::GetFields, &["crates/tune/src/document.rs"]),
    format(
        "measure",
        ("crates/measure/src/commands/document.rs", "thalweg.measure/"),
        May::GetFields,
        &["crates/measure/src/commands/document.rs"],
    ),
    format(
        "layout-study",
        ("crates/study/src/layout/document.rs", "thalweg.layout-study-result/"),
        May::GetFields,
        &["crates/study/src/layout/document.rs"],
    ),
    format(
        "ls-study",
        ("crates/study/src/ls/document.rs", "thalweg.ls-study-result/"),
        May::GetFields,
        &["crates/study/src/ls/document.rs"],
    ),
    format("page", ("crates/report/src/interactive/header.rs", "thalweg.page/"), May::GetFields, &["crates/report/src/interactive"]),
    format("recipe", ("Cargo.toml", "version = \"0."), May::GetFields, &["crates/recipes/src/recipe.rs"]),
];

/// A definition's lines, by its first one.
type Definitions = BTreeMap<String, Vec<String>>;

/// Adds the definitions of a file's text.
fn define(text: &str, all: &mut Definitions) {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").filter(|line| !line.trim_start().starts_with("//"));
    let mut lines = lines.map(|line| (line.trim(), line.starts_with(' ')));
    while let Some((line, is_local)) = lines.next() {
        // (A type within a function only reads a version, or adds to another.)
        let is_type = !is_local && line.starts_with("#[derive(") && (line.contains("Serialize") || line.contains("Deserialize"));
        let is_table = line.contains("\"message ");
        if !is_type && !is_table && !line.starts_with("closed_set! {") {
            continue;
        }
        let (mut block, mut depth, mut is_open) = (Vec::new(), 0, false);
        let mut next = if is_type { lines.next().map(|(line, _)| line) } else { Some(line) };
        while let Some(line) = next {
            let text = line.split(" //").next().unwrap_or_default().trim();
            depth += text.matches(['{', '(']).count();
            depth -= text.matches(['}', ')']).count().min(depth);
            is_open |= text.contains('{') || text.ends_with(';');
            if !text.is_empty() && text != "closed_set! {" {
                block.push(text.to_owned());
            }
            if is_open && depth == 0 {
                break;
            }
            next = lines.next().map(|(line, _)| line);
        }
        let is_name = |line: &&String| !line.starts_with("#[");
        if let Some(name) = block.iter().find(is_name).cloned() {
            let also = (2..).map(|n| format!("{name} ({n})"));
            let name = std::iter::once(name.clone()).chain(also).find(|name| !all.contains_key(name));
            name.map(|name| all.insert(name, block));
        }
    }
}

/// Returns the definitions of today's sources.
fn today(format: &Format) -> Definitions {
    let mut all = Definitions::new();
    for file in format.files {
        let path = root().join(file);
        let mut files: Vec<PathBuf> = Vec::new();
        if path.is_dir() {
            super::visit(&path, &mut |path| files.push(path.to_owned()));
        } else {
            files.push(path);
        }
        files.retain(|path| {
            path.extension().is_some_and(|ending| ending == "rs") && !path.components().any(|part| part.as_os_str() == "tests")
        });
        files.sort();
        assert!(!files.is_empty(), "{}: {file} has no sources", format.name);
        files.iter().for_each(|path| define(&std::fs::read_to_string(path).expect("a source"), &mut all));
    }
    assert!(!all.is_empty(), "{} has definitions", format.name);
    all
}

fn version(format: &Format) -> u32 {
    let (file, before) = format.version;
    let text = std::fs::read_to_string(root().join(file)).expect("the file with a version");
    let digits = text.split(before).nth(1).unwrap_or_else(|| panic!("{file} has `{before}`"));
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
}

fn written(all: &Definitions) -> String {
    all.values().map(|block| block.join("\n") + "\n").collect::<Vec<_>>().join("\n")
}

/// Returns why a frozen definition is not kept by today's; `None` if it is.
fn broken(frozen: &[String], today: &[String], may: May) -> Option<String> {
    let has = |word: &str| frozen.iter().any(|line| line.contains(word));
    let is_set = has("enum ") || !has("struct ") && !has("\"message ");
    let kept = match may {
        May::GetMembers if is_set => {
            let ends = |block: &[String]| block.iter().rev().take_while(|line| *line == "}").count();
            let members = |block: &[String]| block[..block.len() - ends(block)].to_vec();
            members(today).starts_with(&members(frozen))
        }
        May::Nothing | May::GetMembers => frozen == today,
        May::GetFields => {
            let mut rest = today.iter();
            frozen.iter().all(|line| rest.any(|found| found == line))
        }
    };
    (!kept).then(|| format!("was\n{}\nis\n{}", frozen.join("\n"), today.join("\n")))
}

#[test]
fn what_is_written_changes_only_with_its_version() {
    let mut problems = Vec::new();
    for format in FORMATS {
        let (today, number) = (today(format), version(format));
        let path = root().join(format!("tests/formats/definitions/{}-{number}.txt", format.name));
        if !path.exists() && std::env::var_os("THALWEG_BLESS").is_some() {
            std::fs::write(&path, written(&today)).expect("the definitions are written");
        }
        let Ok(text) = std::fs::read_to_string(&path) else {
            problems.push(format!("{}: it is missing; THALWEG_BLESS=1 writes it", path.display()));
            continue;
        };
        let current = written(&today);
        let blocks = |text: &str| text.split("\n\n").map(|block| block.lines().map(str::to_owned).collect()).collect::<Vec<Vec<String>>>();
        let (frozen, current) = (blocks(&text), blocks(&current));
        let name = |block: &[String]| block.iter().find(|line| !line.starts_with("#[")).cloned().unwrap_or_default();
        // Two files may each have a definition of one name.
        let of_name =
            |all: &[Vec<String>], block: &[String]| all.iter().filter(|other| name(other) == name(block)).cloned().collect::<Vec<_>>();
        for block in &frozen {
            let found: Vec<Option<String>> = of_name(&current, block).iter().map(|today| broken(block, today, format.may)).collect();
            if found.iter().all(Option::is_some) {
                let problem = found.into_iter().flatten().next().unwrap_or_else(|| "is gone".to_owned());
                problems.push(format!("{} {number}: `{}` {problem}", format.name, name(block)));
            }
        }
        let new = current.iter().filter(|today| of_name(&frozen, today).len() < of_name(&current, today).len());
        if format.may == May::Nothing {
            problems.extend(new.map(|block| format!("{} {number}: `{}` is new", format.name, name(block))));
        }
    }
    let what = "raise the format's version and read the old one still, or take the change back (CONTRIBUTING.md, Formats)";
    assert!(problems.is_empty(), "{what}:\n{}", problems.join("\n\n"));
}

#[test]
fn a_changed_definition_is_seen_and_an_addition_only_where_it_may_be_one() {
    let of = |text: &str| {
        let mut all = Definitions::new();
        define(text, &mut all);
        all.into_values().next().unwrap_or_default()
    };
    let fields = |fields: &str| of(&format!("/// It.\n#[derive(Serialize)]\npub struct S {{\n    /// A field.\n{fields}\n}}\n"));
    let members = |members: &str| of(&format!("closed_set! {{\n    Kind {{\n{members}\n    }}\n}}\n"));
    let (one, two) = (fields("a: u32,"), fields("a: u32,\nb: u32,"));
    assert_eq!(one, ["pub struct S {", "a: u32,", "}"]);
    assert!(broken(&one, &two, May::GetFields).is_none() && broken(&two, &one, May::GetFields).is_some());
    assert!(broken(&one, &two, May::Nothing).is_some() && broken(&one, &two, May::GetMembers).is_some());
    assert!(broken(&one, &fields("a: u64,"), May::GetFields).is_some());
    let (a, ab, ba) = (members("A = \"a\","), members("A = \"a\",\nB = \"b\","), members("B = \"b\",\nA = \"a\","));
    assert!(broken(&a, &ab, May::GetMembers).is_none() && broken(&a, &ba, May::GetMembers).is_some(), "{a:?} {ba:?}");
}
