//! Every charge has its rules, on request; and every rule is documented.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use thalweg_explain::rule::{MAX_STRETCHES, RuleId};
use thalweg_explain::{Explanation, Options, explain};
use thalweg_trace::{Recording, Source};

/// All recordings below a directory.
fn recordings(folder: &Path, found: &mut Vec<PathBuf>) {
    if folder.join("meta.json").is_file() {
        return found.push(folder.to_owned());
    }
    for entry in std::fs::read_dir(folder).expect("a folder of recordings").flatten() {
        if entry.path().is_dir() {
            recordings(&entry.path(), found);
        }
    }
}

/// Every fixture.
fn all_recordings() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    recordings(&here.join("tests/fixtures"), &mut found);
    assert!(found.len() > 20, "{} recordings", found.len());
    found
}

/// Each of them explained, with the rules of its charges.
static ASKED: LazyLock<Vec<(PathBuf, Explanation)>> = LazyLock::new(|| {
    let asked = |path: PathBuf| {
        let recording = Recording::open(&path).expect("a fixture opens");
        let explanation = explain(&recording, &Options { why: true, what_if: false, ..Options::default() }).expect("it is explained");
        (path, explanation)
    };
    all_recordings().into_iter().map(asked).collect()
});

#[test]
fn the_model_has_a_row_for_each_rule() {
    let model = include_str!("../../MODEL.md");
    let section = model.split("\n## The rules\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the rules' section");
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
    let rules: Vec<String> = RuleId::ALL.iter().map(|r| format!("| `{}` | {} | {} |", r.name(), r.when(), r.basis())).collect();
    assert_eq!(rows, rules);
    let names: BTreeSet<&str> = RuleId::ALL.iter().map(|rule| rule.name()).collect();
    assert_eq!(names.len(), RuleId::ALL.len(), "two rules have one name");
}

#[test]
fn every_charge_has_its_rules_and_they_add_up_to_it() {
    for (path, e) in ASKED.iter() {
        for charge in e.critical_path.iter().filter(|charge| charge.seconds > 0.0) {
            let of = format!("{}: {} at {}: {:?}", path.display(), charge.cause.name(), charge.place, charge.rules);
            assert!(!charge.rules.is_empty(), "{of}");
            let sum: f64 = charge.rules.iter().map(|applied| applied.seconds).sum();
            assert!((sum - charge.seconds).abs() <= 1e-9 + 1e-6 * charge.seconds, "{sum} of {} s: {of}", charge.seconds);
            assert!(charge.rules.windows(2).all(|two| two[0].seconds >= two[1].seconds), "{of}");
            assert!(charge.rules.iter().map(|applied| applied.rests_on.len()).sum::<usize>() <= MAX_STRETCHES, "{of}");
        }
    }
}

#[test]
fn stretches_lie_in_the_spans_that_they_name() {
    for (path, e) in ASKED.iter() {
        let recording = Recording::open(path).expect("a fixture opens");
        let mut spans = HashMap::new();
        for batch in recording.spans_backward() {
            let batch = batch.expect("a batch");
            for span in (0..batch.len()).filter_map(|row| batch.row(row)) {
                spans.insert(span.span.number(), (span.kind.name(), span.track.number(), span.start.ns(), span.duration_ns as i64));
            }
        }
        for stretch in e.critical_path.iter().flat_map(|c| &c.rules).flat_map(|applied| &applied.rests_on) {
            assert!(stretch.start_s < stretch.end_s && stretch.start_s >= 0.0 && stretch.end_s <= e.wall_s + 1e-9, "{stretch:?}");
            let Some(number) = stretch.span else { continue };
            let (kind, track, start, length) = spans[&number];
            assert_eq!((stretch.kind.as_deref(), stretch.track), (Some(kind), Some(track)), "{}: {stretch:?}", path.display());
            let (from, to) = ((start - e.start_ns) as f64 / 1e9, (start + length - e.start_ns) as f64 / 1e9);
            assert!(stretch.start_s < to + 1e-6 && stretch.end_s > from - 1e-6, "{}: {stretch:?} not in {from} to {to}", path.display());
        }
    }
}

#[test]
fn what_was_not_asked_for_is_not_there_and_changes_nothing() {
    for (path, asked) in ASKED.iter() {
        let recording = Recording::open(path).expect("a fixture opens");
        let plain = explain(&recording, &Options { what_if: false, ..Options::default() }).expect("it is explained");
        assert!(plain.critical_path.iter().all(|charge| charge.rules.is_empty()));
        let mut asked = asked.clone();
        asked.critical_path.iter_mut().for_each(|charge| charge.rules.clear());
        assert_eq!(asked, plain, "{}", path.display());
    }
}
