//! How many files a command dealt with, as the kernel counts them: known numbers, of other people's programs.

use super::methods::sound;
use crate::common::{no_bpf, run, scratch, skipped, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// What the programs open, stat and list for themselves: libraries, locales, the directories themselves.
const OWN: u64 = 60;

const FILES: u64 = 1_000;

/// A directory of as many small files as are counted by.
fn tree(path: &Path) {
    fs::create_dir(path).expect("a directory");
    (0..FILES).for_each(|n| fs::write(path.join(format!("file-{n}")), "of few bytes").expect("a file"));
}

/// Records a command in `here` and explains it; `None`, with the reason said: nothing counts files here.
fn explained(here: &Path, command: &str) -> Option<Value> {
    let recording = here.join("names.thw");
    let _ = fs::remove_dir_all(&recording);
    run(["record", "--method", "bpf", "-o", text(&recording), "--", "sh", "-c", &format!("cd {} && {command}", text(here))]).done();
    let document = run(["explain", "--json", text(&recording)]).done().json();
    sound(&document, "bpf");
    let notes = document["notes"].as_array().expect("notes");
    if let Some(note) = notes.iter().filter_map(Value::as_str).find(|note| note.contains("how many files were opened")) {
        skipped(note);
        return None;
    }
    Some(document)
}

/// What the first line says: a number and what it counts.
#[track_caller]
fn about(document: &Value) -> (u64, String) {
    let about = document["summary"]["about"].as_str().expect("what it was about");
    let (number, rest) = about.split_once(' ').expect("a number and what it counts");
    let what = rest.split([',']).next().unwrap_or(rest).split(" in ").next().unwrap_or(rest);
    (number.replace(',', "").parse().unwrap_or_else(|_| panic!("no number: {about}")), what.to_owned())
}

#[test]
fn files_that_commands_create_copy_list_and_remove_are_counted() {
    if let Some(why) = no_bpf() {
        return skipped(&why);
    }
    let here = scratch();
    tree(&here.path().join("a"));
    let cases = [
        ("mkdir b && cd b && i=0 && while [ $i -lt 1000 ]; do echo x > f$i; i=$((i+1)); done", "files created", FILES, 0),
        ("cp -r a c", "files created", FILES, 0),
        ("tar cf c.tar a", "files opened", FILES, OWN),
        ("find a a", "names listed", 2 * FILES, 2 * OWN),
        ("rm -r c", "files removed", FILES, 0),
        ("find b -size +1M", "stat calls", FILES, OWN),
    ];
    for (command, what, least, own) in cases {
        let Some(document) = explained(here.path(), command) else { return };
        let (n, said) = about(&document);
        assert_eq!(said, what, "{command}: {}", document["summary"]["about"]);
        assert!((least..=least + own).contains(&n), "{command}: {n} {what}");
    }
}

#[test]
fn a_copy_of_one_file_is_not_about_files() {
    if let Some(why) = no_bpf() {
        return skipped(&why);
    }
    let here = scratch();
    fs::write(here.path().join("one"), "x").expect("a file");
    let recording = here.path().join("one.thw");
    run(["record", "--method", "bpf", "-o", text(&recording), "--", "cp", text(&here.path().join("one")), text(&here.path().join("two"))])
        .done();
    let document = run(["explain", "--json", text(&recording)]).done().json();
    sound(&document, "bpf");
    let about = document["summary"]["about"].as_str().expect("what it was about");
    assert!(!about.contains("file"), "one file is not worth a count: {about}");
}
