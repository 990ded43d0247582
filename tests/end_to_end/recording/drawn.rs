//! `thalweg report` and `export`: the format is a flag's, or that of the file's name.

use crate::bounded::Bounded;
use crate::common::{file, run, scratch, text, thalweg};
use std::path::Path;

/// The first bytes of a PNG.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Returns the size that a PNG's header gives.
fn size(png: &[u8]) -> (u32, u32) {
    assert!(png.starts_with(PNG) && &png[12..16] == b"IHDR");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

fn recorded(directory: &Path) -> String {
    let recording = directory.join("a.thw");
    let from = format!("if={}", text(&file(directory, "from", &[7; 100_000])));
    let to = format!("of={}", text(&directory.join("to")));
    run(["record", "--method", "proc", "-o", text(&recording), "--", "dd", &from, &to, "bs=10k", "conv=fsync"]).done();
    text(&recording).to_owned()
}

#[test]
fn a_picture_is_drawn_as_png_without_a_browser() {
    let here = scratch();
    let recording = recorded(here.path());
    let path = |name: &str| here.path().join(name);
    let drawn = |name: &str, more: &[&str]| {
        run([&["report", &recording, "-o", text(&path(name))], more].concat()).done();
        std::fs::read(path(name)).unwrap()
    };
    let png = drawn("a.png", &[]);
    let (width, height) = size(&png);
    assert!(width == 1400 && height > 200 && png.len() > 10_000, "{width} x {height}, {} bytes", png.len());
    assert_eq!(size(&drawn("large.png", &["--width", "2800"])), (2800, 2 * height), "wider is larger");
    assert_eq!(size(&drawn("any", &["--png"])), (width, height), "the flag gives the format");
    let printed = thalweg(["report", &recording, "--png"]).output_in_time().unwrap();
    assert!(printed.status.success() && printed.stdout == png, "standard output without -o");
    let markdown = run(["report", &recording, "--markdown"]).done().out;
    assert_eq!(
        std::fs::read_to_string({
            drawn("a.md", &[]);
            path("a.md")
        })
        .unwrap(),
        markdown
    );
    assert!(markdown.contains("dd "), "{markdown}");
    run(["report", &recording, "-o", "x.pdf"]).failed(2, &["x.pdf", ".svg, .png, .html or .md"]);
    run(["report", &recording, "--png", "-o", "x.svg"]).failed(2, &["--png -o x.svg"]);
    run(["report", &recording]).failed(2, &["--output"]);
    run(["report", &recording, "--png", "--markdown"]).failed(2, &["--markdown"]);
}

#[test]
fn the_name_of_an_export_gives_its_format() {
    let here = scratch();
    let recording = recorded(here.path());
    let exported = |name: &str, more: &[&str]| {
        let path = here.path().join(name);
        run([&["export", &recording, "-o", text(&path)], more].concat()).done();
        path
    };
    let named = std::fs::read(exported("a.pftrace", &[])).unwrap();
    assert_eq!(named, std::fs::read(exported("b", &["--to", "perfetto"])).unwrap());
    assert!(exported("a.csv", &[]).join("spans.csv").is_file());
    run(["export", &recording, "-o", "a.speedscope.json"]).failed(1, &["has no stacks"]);
    run(["export", &recording, "-o", "a.xyz"]).failed(2, &["a.xyz", ".pftrace", "--to"]);
}
