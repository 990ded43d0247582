//! A damaged recording is an error that names the file: never a panic, never other rows.

use crate::common::{self, events, everything, meta};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use thalweg_trace::*;

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.append(&mut files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(file, target).unwrap();
    }
}

#[derive(Clone, Copy, Debug)]
enum Harm {
    Cut,
    Flip(u8),
    Remove,
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![Just(Harm::Cut), (0..8_u8).prop_map(Harm::Flip), Just(Harm::Remove)]
}

fn inflict(file: &Path, harm: Harm, at: prop::sample::Index) -> bool {
    let mut bytes = std::fs::read(file).unwrap();
    match harm {
        Harm::Remove => std::fs::remove_file(file).unwrap(),
        _ if bytes.is_empty() => return false,
        Harm::Cut => bytes.truncate(at.index(bytes.len())),
        Harm::Flip(bit) => {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
    }
    if !matches!(harm, Harm::Remove) {
        std::fs::write(file, bytes).unwrap();
    }
    true
}

fn some_events() -> Vec<Event> {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    loop {
        let events = events(400).new_tree(&mut runner).unwrap().current();
        if events.len() > 200 {
            return events;
        }
    }
}

fn recorded(path: &Path, finish: bool) -> common::Everything {
    let events = some_events();
    let writer = RecordingWriter::create(path, meta()).unwrap();
    for batch in events.chunks(20) {
        writer.take(&mut batch.to_vec());
    }
    if finish {
        writer.finish(Ending::at(Time::from_monotonic_ns(1))).unwrap();
    }
    everything(&Recording::open(path).unwrap()).unwrap()
}

/// Tables give an error, or every row unchanged.
#[test]
fn damaged_tables_are_an_error_or_whole() {
    let directory = tempfile::tempdir().unwrap();
    let whole = directory.path().join("whole.thw");
    let expected = recorded(&whole, true);
    // The path in each error has the file's name and its parent directory's.
    proptest!(ProptestConfig::with_cases(80), |(file in any::<prop::sample::Index>(), harm in harm(), at in any::<prop::sample::Index>(), unsummed in any::<bool>())| {
        let broken = tempfile::tempdir().unwrap();
        copy(&whole, broken.path());
        if unsummed {
            // Without checksums other rows may be returned, but no panic may escape.
            std::fs::remove_file(broken.path().join("checksums.json")).unwrap();
        }
        let all = files(broken.path());
        let file = &all[file.index(all.len())];
        let is_table = file.extension().is_some_and(|x| x == "parquet");
        if !inflict(file, harm, at) { return Ok(()); }
        match Recording::open(broken.path()).and_then(|recording| everything(&recording)) {
            Err(error) => prop_assert!(error.path.starts_with(broken.path()), "{error}"),
            Ok(found) if is_table && !unsummed => prop_assert!(found == expected, "other rows came out of {}", file.display()),
            Ok(_) => {}
        }
    });
}

/// Segments return their intact part, and count what is left out.
#[test]
fn damaged_segments_give_what_is_whole_and_say_what_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let whole = directory.path().join("whole.thw");
    let expected = recorded(&whole, false);
    proptest!(ProptestConfig::with_cases(80), |(harm in harm(), at in any::<prop::sample::Index>())| {
        let broken = tempfile::tempdir().unwrap();
        copy(&whole, broken.path());
        let segments = files(&broken.path().join("segments"));
        inflict(&segments[0], harm, at);
        match Recording::open(broken.path()) {
            Err(error) => prop_assert!(error.path.starts_with(broken.path()), "{error}"),
            Ok(recording) => {
                let found = everything(&recording).unwrap();
                prop_assert!(found.spans.len() <= expected.spans.len());
                let noted = recording.meta().attributes.iter().any(|a| a.0 == "torn_bytes");
                let at_frame_end = matches!(harm, Harm::Cut | Harm::Remove);
                prop_assert!(noted || at_frame_end || found.spans.len() == expected.spans.len(), "lost in silence");
            }
        }
    });
}

fn problem(path: &Path) -> String {
    Recording::open(path).expect_err("opened").to_string()
}

#[test]
fn what_is_wrong_is_said_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    assert!(problem(&at("absent.thw")).contains("there is no such recording"));
    std::fs::write(at("file"), "x").unwrap();
    assert!(problem(&at("file")).contains("a recording is a directory"));
    std::fs::create_dir(at("empty.thw")).unwrap();
    assert!(problem(&at("empty.thw")).contains("the recording was emptied"));
    std::fs::create_dir_all(at("other/things")).unwrap();
    assert!(problem(&at("other")).contains("it has no meta.json"));

    let path = at("a.thw");
    recorded(&path, true);
    assert!(RecordingWriter::create(&path, meta()).unwrap_err().to_string().contains("exists and is not empty"));
    let text = std::fs::read_to_string(path.join("meta.json")).unwrap();
    std::fs::write(path.join("meta.json"), text.replace(&format!("\"format\": {FORMAT_VERSION}"), "\"format\": 7")).unwrap();
    let newer = problem(&path);
    assert!(
        newer.contains("format 7, made by thalweg") && newer.contains(&format!("up to format {FORMAT_VERSION}")) && newer.contains("newer"),
        "{newer}"
    );
    std::fs::write(path.join("meta.json"), "").unwrap();
    assert!(problem(&path).contains("emptied"));
    std::fs::write(path.join("meta.json"), &text[..text.len() / 2]).unwrap();
    assert!(problem(&path).contains("damaged or cut short"));
    std::fs::write(path.join("meta.json"), &text).unwrap();
    std::fs::remove_dir_all(path.join("tracks")).unwrap();
    assert!(problem(&path).contains("is missing"));

    let path = at("b.thw");
    recorded(&path, true);
    let spans = files(&path.join("spans")).remove(0);
    let bytes = std::fs::read(&spans).unwrap();
    std::fs::write(&spans, &bytes[..bytes.len() - 9]).unwrap();
    let cut = problem(&path);
    assert!(cut.contains("cut short") && cut.contains("spans/host="), "{cut}");
}
