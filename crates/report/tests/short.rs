//! Promises of the short text, over every recording that the tests have.

use std::path::{Path, PathBuf};
use thalweg_explain::document::{Explanation, MAX_SUMMARY_SENTENCE};
use thalweg_report::{MAX_LINES, TextOptions, short};
use thalweg_trace::Recording;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every recording below a directory.
fn recordings_below(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()) {
        if path.join("meta.json").exists() { found.push(path) } else { recordings_below(&path, found) }
    }
}

/// Every fixture and every recording of the laboratory's corpus, explained.
fn explained() -> Vec<(String, Explanation)> {
    let mut paths = Vec::new();
    recordings_below(&root().join("crates/explain/tests/fixtures"), &mut paths);
    assert!(paths.len() >= 30, "the fixtures are there");
    recordings_below(&root().join("lab/corpus/recordings"), &mut paths);
    paths.sort();
    let explain = |path: &PathBuf| {
        let recording = Recording::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let explanation = thalweg_explain::explain(&recording, &thalweg_explain::Options::default());
        (path.file_name().unwrap().to_string_lossy().into_owned(), explanation.unwrap_or_else(|e| panic!("{}: {e}", path.display())))
    };
    paths.iter().map(explain).collect()
}

fn page(explanation: &Explanation) -> String {
    short(explanation, &TextOptions::default(), Some("explain -v run.thw | report run.thw -o run.html"))
}

/// What a page must be; says what it is not.
fn faults(e: &Explanation) -> Vec<String> {
    let page = page(e);
    let mut faults = Vec::new();
    let mut must = |held: bool, what: String| if !held { faults.push(what) };
    must(page.lines().count() <= MAX_LINES, format!("{} lines", page.lines().count()));
    for line in page.lines() {
        must(line.chars().count() <= 80, format!("{} columns: {line}", line.chars().count()));
    }
    let words: Vec<&str> = page.split_whitespace().collect();
    for pair in words.windows(2) {
        let is_unit = matches!(pair[0].trim_matches([',', ';', '(']), "s" | "ms" | "µs" | "ns" | "%" | "MiB" | "KiB" | "GiB" | "min");
        must(!is_unit || pair[0] != pair[1], format!("a unit twice: {} {}", pair[0], pair[1]));
    }
    must(e.summary.sentence.chars().count() <= MAX_SUMMARY_SENTENCE, format!("a sentence of {}", e.summary.sentence.chars().count()));
    for w in &e.what_if {
        let charged: f64 = e.critical_path.iter().filter(|c| w.about.contains(&c.cause)).map(|c| c.share).sum();
        must(charged >= 0.01, format!("{} is proposed, and {charged} was charged to {:?}", w.id, w.about));
        let (least, most) = w.interval_s;
        must(least <= w.predicted_wall_s && w.predicted_wall_s <= most && most <= e.wall_s * 1.000_001, format!("{}: {least} to {most}", w.id));
    }
    let share: f64 = e.summary.rows.iter().map(|row| row.share).sum();
    must((share - 1.0).abs() < 0.002 || e.summary.rows.is_empty() && e.wall_s < 0.01, format!("rows sum to {share}"));
    let server = e.critical_path.iter().any(|c| c.cause.name().starts_with("server.") || c.cause.name().starts_with("network."));
    let server = server || e.channels.iter().any(|c| c.name.contains(" > "));
    // (Names of the command's own may have the word in them.)
    let client = page.lines().skip(1).flat_map(str::split_whitespace).any(|word| word == "client" || word.starts_with("client."));
    must(server || !client, "a client without a server".to_owned());
    faults
}

#[test]
fn every_recording_is_explained_in_a_few_lines_that_hold_what_they_say() {
    let mut all = Vec::new();
    for (name, explanation) in explained() {
        println!("== {name}\n{}", page(&explanation));
        all.extend(faults(&explanation).into_iter().map(|fault| format!("{name}: {fault}")));
    }
    assert!(all.is_empty(), "{all:#?}");
}
