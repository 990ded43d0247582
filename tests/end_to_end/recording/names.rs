//! Numbers of files that a command used, as the kernel counts them: known numbers, of third-party programs.

use super::methods::sound;
use crate::common::{no_bpf, on_ext4, run, scratch, skipped, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Files that the programs open, read, stat and list for themselves: libraries, locales, the directories themselves.
const OWN: u64 = 60;

const FILES: u64 = 1_000;

/// Creates a directory of that many small files.
fn tree(path: &Path) {
    fs::create_dir(path).expect("a directory");
    (0..FILES).for_each(|n| fs::write(path.join(format!("file-{n}")), "of few bytes").expect("a file"));
}

/// The means of counting: programs on kernel functions count all files, those on tracepoints some.
#[derive(Clone, Copy, PartialEq)]
enum Counting {
    Functions,
    Tracepoints,
}

/// Records a command in `here` and explains it; also returns the means of counting. `None`, with the reason printed, if nothing counts
/// files here.
fn explained(here: &Path, command: &str) -> Option<(Value, Counting)> {
    let recording = here.join("names.thw");
    let _ = fs::remove_dir_all(&recording);
    run(["record", "--method", "bpf", "-o", text(&recording), "--", "sh", "-c", &format!("cd {} && {command}", text(here))]).done();
    let document = run(["explain", "--json", text(&recording)]).done().json();
    sound(&document, "bpf");
    let notes = document["notes"].as_array().expect("notes");
    let counting = match notes.iter().filter_map(Value::as_str).find(|note| note.contains("how many files were opened")) {
        Some(note) if note.contains("opened and not read") => Counting::Tracepoints,
        Some(note) => {
            skipped(note);
            return None;
        }
        None => Counting::Functions,
    };
    Some((document, counting))
}

/// Parses the first line: a number and what it counts.
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
    let here = match on_ext4() {
        Ok(here) => here,
        Err(why) => return skipped(&why),
    };
    tree(&here.path().join("a"));
    // The counts by functions, and by tracepoints; `None` if there is none, and then no output either.
    let cases = [
        (
            "mkdir b && cd b && i=0 && while [ $i -lt 1000 ]; do echo x > f$i; i=$((i+1)); done",
            "files created",
            Some("files created"),
            FILES,
            0,
        ),
        ("cp -r a c", "files created", Some("files created"), FILES, 0),
        ("tar cf c.tar a", "files opened", Some("files read"), FILES, OWN),
        ("grep -r few a > found", "files opened", Some("files read"), FILES, OWN),
        ("cat $(yes a/file-1 a/file-2 | head -n 1000)", "files opened", None, 2 * FILES, 3 * OWN),
        ("find a a", "names listed", None, 2 * FILES, 2 * OWN),
        ("rm -r c", "files removed", Some("files removed"), FILES, 0),
        ("mkdir t && tar xf c.tar -C t", "files created", Some("files created"), FILES, 0),
        ("find b -size +1M", "stat calls", None, FILES, OWN),
    ];
    for (command, by_functions, by_tracepoints, least, own) in cases {
        let Some((document, counting)) = explained(here.path(), command) else { return };
        let Some(what) = (if counting == Counting::Functions { Some(by_functions) } else { by_tracepoints }) else {
            let said = document["summary"]["about"].as_str().expect("what it was about");
            assert!(!["file", "stat call", "name"].iter().any(|counted| said.contains(counted)), "nobody counted: {command}: {said}");
            continue;
        };
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
