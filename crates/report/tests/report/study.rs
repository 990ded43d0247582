//! Results of measurements as Markdown, text and pages: the kept documents always give the kept pages.

use crate::golden::golden;
use crate::interactive::{element, static_part};
use serde::de::DeserializeOwned;
use std::path::Path;
use thalweg_report::study;
use thalweg_study::{layout, ls, sweep};

/// A kept result, by its path from this crate.
fn result<D: DeserializeOwned>(path: &str) -> D {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A listing study with every part, made up.
fn listings() -> ls::Document {
    result("tests/fixtures/ls.json")
}

/// Six made-up points, one of which failed.
fn few_points() -> sweep::Document {
    result("tests/fixtures/sweep.json")
}

/// 64 points that were measured.
fn many_points() -> sweep::Document {
    result("../../bench/tune/surfaces/cp.json")
}

#[test]
fn a_kept_result_always_gives_the_same_markdown() {
    golden("layout.md", &study::layout::markdown(&result::<layout::Document>("../study/fixtures/layout/layout.json")));
    golden("ls.md", &study::ls::markdown(&listings()));
}

#[test]
fn a_kept_sweep_always_gives_the_same_text() {
    golden("sweep.txt", &study::sweep::text(&few_points()));
    golden("sweep-many.txt", &study::sweep::text(&many_points()));
}

#[test]
fn every_table_has_as_many_cells_in_each_row() {
    let text = study::ls::markdown(&listings());
    let mut columns = None;
    for line in text.lines() {
        let cells = line.matches('|').count();
        match (line.starts_with('|'), columns) {
            (true, None) => columns = Some(cells),
            (true, Some(expected)) => assert_eq!(cells, expected, "{line}"),
            (false, _) => columns = None,
        }
    }
    for part in [
        "What was promised",
        "From where",
        "What each mechanism removes: 32",
        "each of its datafiles",
        "Datafiles: 25,000",
        "Names each second",
        "directory removal | tree creation",
        "file creation | file stat | file read | file removal",
        "others' through a second",
        "A writer beside",
        "copied in",
        "Not measured",
    ] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn few_points_are_all_there_and_a_failed_one_says_why() {
    let text = study::sweep::text(&few_points());
    assert!(text.lines().count() <= 25 && text.lines().count() == text.trim_end().lines().count(), "{text}");
    assert!(text.contains("  3 y  failed ") && text.contains("the disk is full"), "{text}");
    assert!(text.contains("Best: a=1") && text.contains("what did not: b (0 %") && text.contains("client.read 75 %"), "{text}");
    assert!(text.contains("changes hands between a=1 and 2: from client.read to server.cpu (2 times)."), "{text}");
}

#[test]
fn many_points_are_the_best_and_the_worst_in_25_lines() {
    let text = study::sweep::text(&many_points());
    assert!(text.lines().count() <= 25, "{text}");
    assert!(text.contains("best: ") && text.contains("worst: ") && text.contains("least with streams="), "{text}");
}

#[test]
fn a_part_of_the_ceiling_stands_beside_the_best_point() {
    let document = sweep::Document { ceiling_bytes_per_s: Some(1e9), ..many_points() };
    assert!(study::sweep::text(&document).contains(" % of the ceiling)"));
}

#[test]
fn two_sweeps_are_compared_in_a_sentence_and_a_table() {
    let (before, mut after) = (few_points(), few_points());
    for run in after.points.iter_mut().filter(|point| point.values[0] == "2").flat_map(|point| &mut point.runs) {
        run.wall_s /= 2.0;
    }
    after.points.pop();
    let text = study::sweep::diff(&sweep::diff(&before, &after).unwrap());
    assert!(text.starts_with("Of 5 points in both, the second is faster at 2, slower at 0, and not distinguishable at 3."), "{text}");
    assert!(text.contains("1 points are in only one of them"), "{text}");
    let failed = sweep::diff(&before, &sweep::Document { points: vec![few_points().points.pop().unwrap()], ..few_points() }).unwrap();
    assert!(study::sweep::diff(&failed).contains("failed -> failed"));
}

#[test]
fn pages_hold_every_picture_and_need_nothing_else() {
    let sweep = |document: &sweep::Document| (study::sweep::page(document), "sweep", serde_json::to_value(document).unwrap());
    let listings = listings();
    let ls = (study::ls::page(&listings), "ls", serde_json::to_value(&listings).unwrap());
    for (page, view, document) in [ls, sweep(&few_points()), sweep(&many_points())] {
        let fixed = static_part(&page);
        assert!(fixed.contains("<svg") && page.ends_with("</html>\n"));
        for refused in ["<script", "src=", "NaN", " style="] {
            assert!(!fixed.contains(refused), "{refused}");
        }
        let header: serde_json::Value = serde_json::from_str(element(&page, "application/json", "thalweg-header")).unwrap();
        assert_eq!((&header["format"], &header["view"], &header["document"]), (&"thalweg.page/1".into(), &view.into(), &document));
        assert!(!header["short"].as_str().unwrap().is_empty() && !page.contains("thalweg-data\""));
    }
    let pictures = study::ls::pictures(&listings);
    assert!(!pictures.is_empty() && pictures.iter().all(|picture| picture.name.starts_with("ls-") && picture.svg.contains("</svg>")));
}
