//! Tests on parts of two real studies in `fixtures`: the figures of their documents follow from their raw logs.

use crate::RAW;
use crate::layout;
use crate::ls;
use serde::de::DeserializeOwned;
use std::path::Path;
use thalweg_measure::{Header, Key, Run, Runs};

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn runs<P: Key, S: Key, X: DeserializeOwned>(study: &str) -> (Header, Runs<P, S, X>) {
    let text = file(&format!("{study}/{RAW}"));
    let (header, lines) = text.split_once('\n').unwrap();
    let header: Header = serde_json::from_str(header).unwrap();
    assert_eq!((header.schema.as_str(), header.plan.as_str()), (Header::SCHEMA, study));
    (header, Runs::new(lines.lines().map(|line| serde_json::from_str::<Run<P, S, X>>(line).unwrap())))
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs()
}

#[test]
fn the_layout_study_stands_in_its_raw_log() {
    let document: layout::Document = serde_json::from_str(&file("layout/layout.json")).unwrap();
    let (header, runs) = runs::<layout::Point, layout::Subject, layout::Sample>("layout");
    assert_eq!(header.of["nodes"], serde_json::json!(document.nodes));
    assert!(!document.points.is_empty());
    for p in document.points.iter().filter(|p| p.subject.series != "local-cached") {
        let moved = |sample: &layout::Sample| sample.iter().filter(|moved| moved.operation == p.operation).cloned().collect::<Vec<_>>();
        let rates = |sample: &layout::Sample| moved(sample).into_iter().map(|moved| moved.bytes as f64 / moved.synced_s());
        let found = runs.estimate(&p.point, &p.subject, |sample| rates(sample).collect::<Vec<_>>()).unwrap();
        let expected = p.rate_bytes_per_s;
        assert!(near(found.median, expected.median) && found.values == expected.values, "{p:?}: {found:?}");
    }
}

#[test]
fn the_listing_study_stands_in_its_raw_log() {
    let document: ls::Document = serde_json::from_str(&file("ls/ls.json")).unwrap();
    let (_, runs) = runs::<ls::Point, ls::Subject, ls::Sample>("ls");
    assert!(!document.points.is_empty());
    for p in &document.points {
        let first = if p.first_us.is_some() { 2 } else { 1 };
        let listings = runs.of(&ls::Point::Listing(p.point.clone()), &p.method);
        let counted = listings.into_iter().filter(|(repeat, _)| *repeat >= first).filter_map(|(_, sample)| sample.listing());
        let per_file: Vec<f64> = counted.map(|listing| listing.seconds / listing.entries as f64 * 1e6).collect();
        let found = thalweg_measure::estimate(&per_file).unwrap();
        assert!(near(found.median, p.per_file_us.median) && near(found.high, p.per_file_us.high), "{p:?}: {found:?}");
    }
    let copies = document.copies.unwrap();
    let seconds = |sample: &ls::Sample| if let ls::Sample::Copy(seconds) = sample { Some(*seconds) } else { None };
    let (ours, stock) = ("thalweg cp -r".to_owned(), "cp -r onto the mount".to_owned());
    assert!(near(runs.ratio(&ls::Point::Copy, &ours, &stock, seconds).unwrap().0.median, copies.ratio.median));
}
