//! Shared recordings: without the secrets of their commands, and without names on request.

use crate::bounded::Bounded;
use crate::common::{Up, content, file, no_bpf, run, scratch, skipped, text, thalweg};
use serde_json::Value;
use std::path::{Path, PathBuf};

const SECRET: &str = "Hunter2Hunter2";

/// Returns all contents of a recording, decompressed, and the raw contents of its files.
fn said(recording: &Path, beside: &Path) -> String {
    run(["export", text(recording), "--to", "csv", "-o", text(beside)]).done();
    let mut all = String::new();
    for directory in [recording, beside] {
        files(directory).iter().for_each(|path| all.push_str(&String::from_utf8_lossy(&std::fs::read(path).unwrap())));
    }
    all
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns a command with secrets in its words, which shows that it received them.
fn command(got: &Path) -> [String; 6] {
    let script = format!("PGPASSWORD={SECRET} sh -c 'printf %s \"$PGPASSWORD $1\" > {}' x \"$1\"; sleep 0.05", text(got));
    ["sh".to_owned(), "-c".to_owned(), script, "x".to_owned(), format!("--password={SECRET}"), format!("https://ana:{SECRET}@host/")]
}

#[test]
fn secrets_of_a_command_are_in_no_recording_and_the_command_gets_them() {
    for method in ["proc", "preload", "bpf"] {
        if method == "bpf" && no_bpf().is_some() {
            skipped("no kernel recorder");
            continue;
        }
        let here = scratch();
        let (got, recording) = (here.path().join("got"), here.path().join("a.thw"));
        let words = command(&got);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        run([&["record", "--method", method, "-o", text(&recording), "--"], &words[..]].concat()).done();
        assert_eq!(std::fs::read_to_string(&got).unwrap(), format!("{SECRET} --password={SECRET}"), "{method}");
        let all = said(&recording, &here.path().join("csv"));
        assert!(!all.contains(SECRET) && all.contains("--password=[secret]") && all.contains("PGPASSWORD=[secret]"), "{method}");
        let explained = run(["explain", "--json", text(&recording)]).done().out;
        assert!(!explained.contains(SECRET) && explained.contains("https://ana:[secret]@host/"), "{method}");
        assert!(explained.contains("--keep-command"), "the explanation says that words were cut");
        let page = here.path().join("a.html");
        run(["report", text(&recording), "-o", text(&page)]).done();
        assert!(!std::fs::read_to_string(&page).unwrap().contains(SECRET), "{method}");
        // Also for a command that was run to be explained.
        let live = run([&["explain", "--json", "--method", method, "--"], &words[..]].concat()).done().out;
        assert!(!live.contains(SECRET), "{method}");
        let kept = here.path().join("kept.thw");
        run([&["record", "--keep-command", "--method", method, "-o", text(&kept), "--"], &words[..]].concat()).done();
        assert!(said(&kept, &here.path().join("kept.csv")).contains(&format!("--password={SECRET}")), "{method}");
    }
}

#[test]
fn secrets_are_not_in_what_a_copy_or_a_profile_records_of_itself() {
    let store = Up::start(1);
    let here = scratch();
    let source = file(here.path(), "source", &content(1, 100_000));
    // A name that looks like a provider's key.
    let key = "AKIAIOSFODNN7EXAMPLE";
    for (n, kept) in [false, true].into_iter().enumerate() {
        let recording = here.path().join(format!("{n}.thw"));
        let target = store.path(&format!("/{n}-{key}"));
        let mut flags = vec!["cp", "--quiet", "--record", text(&recording), text(&source), &target];
        flags.extend(kept.then_some("--keep-command"));
        run(flags).done();
        assert_eq!(said(&recording, &here.path().join(format!("{n}.csv"))).contains(key), kept);
    }
    let walk = here.path().join("walk.thw");
    run(["ls", "--record", text(&walk), &store.path("/"), &store.path(&format!("/0-{key}"))]).done();
    assert!(!said(&walk, &here.path().join("walk.csv")).contains(key));
    let profile = here.path().join("profile.thw");
    let profiled =
        thalweg(["profile", "-o", text(&profile), "--", "sh", "-c", &format!("true --token={SECRET}")]).output_in_time().unwrap();
    assert!(profiled.status.success(), "{}", String::from_utf8_lossy(&profiled.stderr));
    assert!(!said(&profile, &here.path().join("profile.csv")).contains(SECRET));
}

#[test]
fn a_change_is_not_tried_with_a_command_whose_words_were_cut() {
    let here = scratch();
    let (from, to, recording) = (here.path().join("from"), here.path().join("to"), here.path().join("a.thw"));
    std::fs::write(&from, content(1, 20 << 20)).unwrap();
    let script = format!("dd if={} of={} bs=512 conv=fsync; true --token={SECRET}", text(&from), text(&to));
    let tried =
        thalweg(["explain", "--try", "--yes", "--runs", "1", "-o", text(&recording), "--", "sh", "-c", &script]).output_in_time().unwrap();
    let err = String::from_utf8_lossy(&tried.stderr).into_owned();
    // Without a proposed change there is nothing to try; a proposed change does not contain `[secret]`.
    assert!(err.contains("--keep-command") || err.contains("nothing to try"), "{err}");
    assert!(!err.contains(SECRET), "{err}");
}

/// Returns an explanation's results, without names.
fn answer(recording: &Path) -> (Value, Value, Value, Vec<(Value, Value, Value)>) {
    let document = run(["explain", "--json", text(recording)]).done().json();
    let charges = document["critical_path"].as_array().unwrap().iter();
    let charges = charges.map(|charge| (charge["cause"].clone(), charge["seconds"].clone(), charge["share"].clone())).collect();
    (document["verdict"]["status"].clone(), document["verdict"]["cause"].clone(), document["wall_s"].clone(), charges)
}

#[test]
fn an_anonymous_recording_has_nobodys_names_and_is_explained_the_same() {
    let here = scratch();
    let whose = here.path().join("zaphod-beeblebrox");
    std::fs::create_dir(&whose).unwrap();
    let (from, to) = (file(&whose, "zaphod.dat", &content(1, 8 << 20)), whose.join("copy-of-zaphod"));
    let script = format!("dd if={} of={} bs=64K conv=fsync; sleep 0.1", text(&from), text(&to));
    let (recording, anonymous) = (here.path().join("a.thw"), here.path().join("b.thw"));
    run(["record", "--method", "proc", "-o", text(&recording), "--", "sh", "-c", &script]).done();
    run(["export", text(&recording), "--anonymous", "-o", text(&anonymous)]).done();
    assert!(said(&recording, &here.path().join("a.csv")).contains("zaphod"));
    let all = said(&anonymous, &here.path().join("b.csv"));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for name in ["zaphod", "beeblebrox"] {
        assert!(!all.contains(name), "{name}");
    }
    let meta: Value = serde_json::from_slice(&std::fs::read(anonymous.join("meta.json")).unwrap()).unwrap();
    assert!(host.trim().is_empty() || !meta.to_string().contains(host.trim()), "{meta}");
    assert_eq!(answer(&recording), answer(&anonymous));
    run(["export", text(&recording), "--anonymous", "-o", text(&anonymous)]).failed(1, &["is not empty"]);
}
