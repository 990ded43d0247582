//! Promises of the short text, over every recording that the tests have.

use std::path::{Path, PathBuf};
use thalweg_explain::document::{Explanation, Grounds, Innocent, MAX_SUMMARY_SENTENCE, SummaryRow, WhatIf};
use thalweg_report::{MAX_LINES, PictureOptions, TextOptions, short, svg, text};
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
    let explain = |path: &PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), explained_at(path));
    paths.iter().map(explain).collect()
}

fn explained_at(path: &Path) -> Explanation {
    let recording = Recording::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    thalweg_explain::explain(&recording, &thalweg_explain::Options::default()).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn page(explanation: &Explanation) -> String {
    short(explanation, &TextOptions::default(), Some("explain -v run.thw | report run.thw -o run.html"))
}

/// Every length that a page calls a round trip.
fn round_trips(page: &str) -> std::collections::BTreeSet<String> {
    let words: Vec<&str> = page.split_whitespace().map(|word| word.trim_matches(['(', ')', ',', '.', ';', ':'])).collect();
    let after = |at: usize| if words.get(at) == Some(&"of") { at + 1 } else { at };
    let ends = words.windows(2).enumerate().filter(|(_, pair)| pair[0] == "round" && pair[1].starts_with("trip"));
    let lengths = ends.filter_map(|(at, _)| Some((*words.get(after(at + 2))?, *words.get(after(at + 2) + 1)?)));
    lengths
        .filter(|(n, unit)| n.starts_with(|c: char| c.is_ascii_digit()) && unit.ends_with('s'))
        .map(|(n, unit)| format!("{n} {unit}"))
        .collect()
}

/// Where the full text, or the document, says something else than the short one: another sentence, row, number, change or remark.
fn twins(e: &Explanation) -> Vec<String> {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let full = flat(&text(e, &TextOptions::default()));
    let sentence = e.summary.sentence.trim_end_matches('.');
    let mut said = vec![sentence.to_owned()];
    said.extend(e.summary.numbers.iter().map(|number| number.sentence.clone()));
    said.extend(e.summary.remarks.iter().cloned());
    said.extend(e.verdict.settle.first().cloned());
    let page = page(e);
    let is_row = |line: &&str| line.trim_start().split_once(" %  ").is_some_and(|(share, _)| share.chars().all(|c| c.is_ascii_digit()));
    // (Of few rows, others are more in the short one; and how much of a row is cut depends on the rows beside it.)
    let start = |line: &str| flat(line.split([':', '…']).next().unwrap_or(line));
    said.extend(page.lines().filter(is_row).filter(|line| !line.contains(" other")).map(start));
    said.extend(
        page.lines()
            .filter(|line| line.contains(" -> ") && !line.contains('…'))
            .filter_map(|line| Some(line.trim().split_once("  ")?.0.to_owned())),
    );
    let mut faults: Vec<String> =
        said.iter().filter(|said| !full.contains(&flat(said))).map(|said| format!("not in the full text: {said}")).collect();
    if !e.verdict.sentence.starts_with(sentence) {
        faults.push(format!("another sentence in the document: {}", e.verdict.sentence));
    }
    faults
}

#[test]
fn the_full_text_and_the_document_say_what_the_short_one_says_in_the_same_words() {
    let all: Vec<String> = explained()
        .iter()
        .filter(|(_, e)| e.reliable)
        .flat_map(|(name, e)| twins(e).into_iter().map(move |fault| format!("{name}: {fault}")))
        .collect();
    assert!(all.is_empty(), "{all:#?}");
}

/// What a page must be; says what it is not.
fn faults(e: &Explanation) -> Vec<String> {
    let page = page(e);
    let mut faults = Vec::new();
    let mut must = |held: bool, what: String| {
        if !held {
            faults.push(what)
        }
    };
    must(page.lines().count() <= MAX_LINES, format!("{} lines", page.lines().count()));
    for line in page.lines() {
        must(line.chars().count() <= 80, format!("{} columns: {line}", line.chars().count()));
    }
    let words: Vec<&str> = page.split_whitespace().collect();
    for pair in words.windows(2) {
        let is_unit = matches!(pair[0].trim_matches([',', ';', '(']), "s" | "ms" | "µs" | "ns" | "%" | "MiB" | "KiB" | "GiB" | "min");
        must(!is_unit || pair[0] != pair[1], format!("a unit twice: {} {}", pair[0], pair[1]));
    }
    let round_trips = round_trips(&page);
    must(round_trips.len() < 2, format!("two round trips: {round_trips:?}"));
    must(e.summary.sentence.chars().count() <= MAX_SUMMARY_SENTENCE, format!("a sentence of {}", e.summary.sentence.chars().count()));
    for w in &e.what_if {
        let charged: f64 = e.critical_path.iter().filter(|c| w.about.contains(&c.cause)).map(|c| c.share).sum();
        must(charged >= 0.01, format!("{} is proposed, and {charged} was charged to {:?}", w.id, w.about));
        let (least, most) = w.interval_s;
        must(
            least <= w.predicted_wall_s && w.predicted_wall_s <= most && most <= e.wall_s * 1.000_001,
            format!("{}: {least} to {most}", w.id),
        );
    }
    // (What gives nothing up is tried before what does, and work that need not be done before all.)
    let once_first = e.what_if.first().is_some_and(WhatIf::is_of_the_number);
    let safe_first = once_first || e.what_if.get(1).is_some_and(|w| w.id == "no_sync" || w.gives_up.is_some());
    let order: Vec<(bool, f64)> =
        e.what_if.iter().skip(usize::from(safe_first)).map(|w| (w.basis == Grounds::Bounded, w.predicted_wall_s)).collect();
    must(order.is_sorted_by(|a, b| a <= b), "changes are not in the order of what they give, with bounds last".to_owned());
    let commands: Vec<&Vec<String>> = e.what_if.iter().map(|w| &w.command).chain(e.advice.iter().map(|a| &a.command)).collect();
    for (at, command) in commands.iter().enumerate().filter(|(_, command)| !command.is_empty()) {
        must(**command != e.command, format!("{} is the recorded command", command.join(" ")));
        must(!commands[..at].contains(command), format!("{} stands twice", command.join(" ")));
    }
    // (A knob says itself by which command it is turned.)
    for w in e.what_if.iter().filter(|w| w.recipe.is_none() && w.flags.is_empty()) {
        must(w.command.is_empty() && w.gives_up.is_none(), format!("{}: a command without a recipe", w.id));
        must(!w.how.trim().is_empty(), format!("{}: nothing of how it is made", w.id));
    }
    let shown: Vec<&str> = page.lines().filter(|line| line.contains("->")).collect();
    must(shown.iter().enumerate().all(|(at, line)| !shown[..at].contains(line)), "a change stands twice".to_owned());
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

/// The examples in the README and the pages of docs/ are the current output for the recordings that they name. After a wanted change, write
/// them anew with `THALWEG_BLESS=1 cargo test -p thalweg-report` and read the difference.
#[test]
fn the_examples_in_the_documents_are_what_is_printed() {
    const PROMPT: &str = "$ thalweg explain ";
    const MORE: &str = "explain -v RECORDING | report RECORDING -o run.html";
    let next = |text: &str| ["crates/", "-v crates/"].iter().filter_map(|of| text.find(&format!("{PROMPT}{of}"))).min();
    let mut documents = vec![root().join("README.md")];
    documents.extend(std::fs::read_dir(root().join("docs")).unwrap().flatten().map(|entry| entry.path()));
    documents.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut shown = 0;
    for path in documents {
        let document = std::fs::read_to_string(&path).unwrap();
        let mut made = String::new();
        let mut rest = document.as_str();
        while let Some(at) = next(rest) {
            let start = at + rest[at..].find('\n').unwrap() + 1;
            let end = start + rest[start..].find("```").unwrap();
            let asked = rest[at + PROMPT.len()..start].trim();
            let explanation = explained_at(&root().join(asked.trim_start_matches("-v ")));
            let options = TextOptions::default();
            made += &rest[..start];
            made += &if asked.starts_with("-v ") { text(&explanation, &options) } else { short(&explanation, &options, Some(MORE)) };
            rest = &rest[end..];
        }
        shown += usize::from(!made.is_empty());
        made += rest;
        if std::env::var_os("THALWEG_BLESS").is_some() {
            std::fs::write(&path, &made).unwrap();
        }
        assert_eq!(made, std::fs::read_to_string(&path).unwrap(), "{} shows an earlier output", path.display());
    }
    assert!(shown >= 3, "README, EXPLAIN and CASES have examples");
}

#[test]
fn the_readmes_picture_is_small_and_what_report_draws_of_its_example() {
    let path = root().join("crates/explain/tests/fixtures/programs/gridftp-put-1-sndbuf");
    let recording = Recording::open(&path).unwrap();
    let picture = svg(&recording, &explained_at(&path), &PictureOptions::default()).unwrap();
    let kept = root().join("docs/gallery/gridftp-put-1-sndbuf.svg");
    if std::env::var_os("THALWEG_BLESS").is_some() {
        std::fs::write(&kept, &picture).unwrap();
    }
    assert!(picture.len() <= 64 << 10, "{} bytes", picture.len());
    assert!(std::fs::read_to_string(&kept).unwrap() == picture, "docs/EXPLAIN.md says how docs/gallery/gridftp-put-1-sndbuf.svg is made");
}

/// What makes a page say less: each holds for a run that was recorded and changed in one thing.
#[test]
fn a_page_has_no_figures_that_it_cannot_stand_behind() {
    let whole = explained_at(&root().join("crates/explain/tests/fixtures/programs/curl-get-loss"));
    assert!(page(&whole).contains("->"));
    let mut missed = whole.clone();
    missed.model.reason = Some("the model replays this run in 2.00 s".to_owned());
    missed.model.replayed_wall_s = Some(2.0);
    assert!(
        !page(&missed).contains("->") && page(&missed).contains("no prediction: the model replays this run in 2.00 s"),
        "{}",
        page(&missed)
    );
    let mut unsupported = whole.clone();
    unsupported.what_if.iter_mut().for_each(|w| w.about = vec![thalweg_explain::Cause::ClientThink]);
    assert!(!page(&unsupported).contains("->"), "{}", page(&unsupported));
    let mut bound = whole.clone();
    bound.what_if.iter_mut().for_each(|w| w.basis = thalweg_explain::document::Grounds::Bounded);
    assert!(page(&bound).lines().filter(|line| line.contains("->")).all(|line| line.contains("at most")), "{}", page(&bound));
    let mut great = whole.clone();
    great.what_if[0].speedup = 24.0;
    assert!(page(&great).contains("nearly all of it"), "{}", page(&great));
    let mut failed = whole;
    failed.summary.ended = Some("killed by SIGKILL".to_owned());
    assert!(page(&failed).lines().next().unwrap().contains("killed by SIGKILL; 10 MiB"), "{}", page(&failed));
}

#[test]
fn the_fullest_page_fits_and_no_name_brings_an_escape_code() {
    let mut e = explained_at(&root().join("crates/explain/tests/fixtures/programs/curl-get-loss"));
    let long = "\x1b[31ma-name-without-an-end/".repeat(20);
    e.command = vec!["cp".to_owned(), long.clone()];
    e.summary.sentence = "word ".repeat(48);
    let row = e.summary.rows[0].clone();
    e.summary.rows = (0..12).map(|_| SummaryRow { share: 0.08, subject: long.clone(), figures: long.clone(), ..row.clone() }).collect();
    e.summary.innocent = (0..9).map(|n| Innocent { what: format!("disk{n}\x1b"), figure: "21 % busy".to_owned() }).collect();
    e.summary.remarks = vec![long.clone(); 4];
    e.what_if = (0..5).map(|n| WhatIf { change: long.clone(), predicted_wall_s: 0.1 * f64::from(n), ..e.what_if[0].clone() }).collect();
    for width in [0, 60, 80, 200] {
        let page = short(&e, &TextOptions { width, colour: false }, Some(&long));
        let columns = width.clamp(60, 80);
        assert!(page.lines().count() <= MAX_LINES, "{page}");
        for line in page.lines() {
            assert!(line.chars().count() <= columns, "{} of {columns} columns: {line}", line.chars().count());
        }
        assert!(!page.contains('\x1b'), "{page:?}");
        assert!(page.contains("8 %") && page.contains("->") && page.contains("not the limit"), "{page}");
    }
    // What would settle an unsure answer is never left out, and stands at the end.
    e.verdict.settle = vec![format!("who ended the waits was not seen; ask for: {long}"), "nothing else".to_owned()];
    for more in [None, Some("thalweg explain -v")] {
        let page = short(&e, &TextOptions::default(), more);
        assert!(page.lines().count() <= MAX_LINES, "{page}");
        let end: Vec<&str> = page.lines().rev().skip(usize::from(more.is_some())).take(2).collect();
        assert!(end[1].starts_with("  to be sure: who ended the waits") && end[0].starts_with("    "), "{page}");
        assert!(!page.contains("nothing else"), "{page}");
    }
}

#[test]
fn a_command_keeps_what_the_answer_below_it_is_about() {
    let fixture = |name: &str| explained_at(&root().join("crates/explain/tests/fixtures/programs").join(name));
    let heading = |e: &Explanation| page(e).lines().next().unwrap_or("").to_owned();
    let limited = fixture("curl-get-client-pauses");
    assert!(heading(&limited).contains("--limit-rate 32M"), "{}", heading(&limited));
    let mut small = fixture("dd-dsync");
    small.command = "dd if=/dev/zero of=/srv/a-long-way-to/the-place-of-data/dd3.out bs=4k count=200 status=none oflag=dsync"
        .split(' ')
        .map(str::to_owned)
        .collect();
    assert!(heading(&small).contains("count=200"), "{}", heading(&small));
}
