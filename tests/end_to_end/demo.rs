//! The demo, with a smaller file and the command under test.

use crate::common::{THALWEG, content, file, scratch, skipped, text};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// How far a prediction may be from the copies that were made: the lab's bar for its worst prediction. It holds where nothing else
/// runs; beside the other tests, which take the processors from some copies and not from others, a factor of two is all that can be asked.
const TOLERANCE: f64 = 0.15;
const TOLERANCE_BUSY: f64 = 1.0;
/// Copies of an attempt may have been slowed down unevenly, or too much for the model to replay them.
const ATTEMPTS: usize = 3;

/// What the demo said, and the explanations that it kept.
struct Demo {
    said: String,
    serial: Value,
    changed: Value,
    /// More is running than half of the processors can do, as the demo says it.
    busy: bool,
}

fn is_busy() -> bool {
    let load = std::fs::read_to_string("/proc/loadavg").expect("the load is known");
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).expect("a number");
    load > std::thread::available_parallelism().map_or(1, usize::from) as f64 / 2.0
}

/// Runs the demo, and checks all that does not depend on time.
fn demo() -> Demo {
    let busy = is_busy();
    let here = scratch();
    let source = file(here.path(), "real-file", &content(1, 33 << 20));
    let (kept, temporary) = (here.path().join("kept"), here.path().join("tmp"));
    std::fs::create_dir(&temporary).unwrap();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/demo");
    let mut command = Command::new(demo);
    command.env("THALWEG", THALWEG).env("FILE", &source).env("KEEP", &kept).env("TMPDIR", &temporary).env("NO_COLOR", "1");
    let output = command.output().expect("a shell runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("datafile"), "{said}");
    let sums: Vec<&str> = said.lines().filter_map(|l| l.strip_prefix("in   ").or_else(|| l.strip_prefix("out  "))).collect();
    assert!(sums.len() == 2 && sums[0] == sums[1] && sums[0].len() == 64, "{said}");
    for name in ["serial.thw", "changed.thw", "serial.json", "serial.svg", "changed.html", "changed.pftrace"] {
        assert!(kept.join(name).exists(), "{name} in {}", text(&kept));
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "the store is taken down");
    let explanation = |name: &str| serde_json::from_str(&std::fs::read_to_string(kept.join(name)).unwrap()).expect("a document");
    Demo { said, serial: explanation("serial.json"), changed: explanation("changed.json"), busy: busy || is_busy() }
}

/// `143 ms` or `1.20 s`, in seconds.
fn seconds(text: &str) -> f64 {
    let (number, unit) = text.trim().split_once(' ').unwrap_or_else(|| panic!("`{text}` is no time"));
    let scale = if unit == "ms" { 1e-3 } else { 1.0 };
    number.parse::<f64>().unwrap_or_else(|_| panic!("`{text}` is no time")) * scale
}

/// A change that the explanation proposed and the demo made.
#[derive(Debug)]
struct Change {
    predicted_s: f64,
    /// The fastest and the slowest of the copies with the change.
    fastest_s: f64,
    slowest_s: f64,
    tolerance: f64,
}

impl Change {
    /// What came of it; `None`: the explanation made no prediction, and the demo said so.
    fn of(demo: &Demo) -> Option<Change> {
        let Demo { said, serial, changed, .. } = demo;
        let (_, after) = said.split_once("== Predicted against achieved\n").expect("the heading");
        let verdict = after.lines().next().expect("a verdict below the heading");
        let proposed = serial["what_if"].as_array().into_iter().flatten().find(|change| change["flags"].as_array().is_some());
        let Some(proposed) = proposed else {
            assert!(verdict.starts_with("not predicted; "), "{verdict}");
            return None;
        };
        let rest = verdict.strip_prefix(proposed["change"].as_str().expect("its name")).expect("the change that was proposed");
        // `: 158 ms before, 125 ms predicted (1.26×), 118 ms achieved (1.34×): 6.3 % faster than predicted`
        let words: Vec<&str> = rest.split([' ', ':', ',']).filter(|word| !word.is_empty()).collect();
        let told = |what: &str| {
            let at = words.iter().position(|word| *word == what).unwrap_or_else(|| panic!("`{what}` in: {verdict}"));
            seconds(&words[at - 2..at].join(" "))
        };
        let predicted_s = proposed["predicted_wall_s"].as_f64().expect("a prediction");
        let achieved_s = changed["wall_s"].as_f64().expect("a time");
        for (what, known_s) in
            [("before", serial["wall_s"].as_f64().expect("a time")), ("predicted", predicted_s), ("achieved", achieved_s)]
        {
            assert!((told(what) / known_s - 1.0).abs() < 0.006, "{what} is {known_s} s in the explanation: {verdict}");
        }
        let off = predicted_s / achieved_s - 1.0;
        let told_off = words[words.len() - 5].parse::<f64>().map_or(0.0, |percent| percent / 100.0);
        assert!((told_off - off.abs()).abs() < 0.006, "{off} off: {verdict}");
        assert!(off.abs() < 0.001 || verdict.contains(if off > 0.0 { "faster" } else { "slower" }), "{off} off: {verdict}");
        // The times of the copies with the change are the second line of such.
        let copies = said.lines().filter(|line| line.matches(" ms").count() == 5).nth(1).expect("the times of the copies with the change");
        let copies: Vec<f64> = copies.split(',').map(seconds).collect();
        let tolerance = if demo.busy { TOLERANCE_BUSY } else { TOLERANCE };
        Some(Change { predicted_s, fastest_s: copies[0], slowest_s: copies[4], tolerance })
    }

    /// Whether the prediction lies between the fastest and the slowest of the copies, within the tolerance. The median alone is no measure:
    /// five copies of a tenth of a second differ by a third.
    fn is_as_predicted(&self) -> bool {
        let factor = 1.0 + self.tolerance;
        self.fastest_s <= self.predicted_s * factor && self.slowest_s >= self.predicted_s / factor
    }
}

#[test]
fn the_demo_makes_the_proposed_change_and_achieves_what_was_predicted() {
    let mut missed = Vec::new();
    for attempt in 1..=ATTEMPTS {
        match Change::of(&demo()) {
            Some(change) if change.is_as_predicted() => {
                println!("as predicted at attempt {attempt} of {ATTEMPTS}: {change:?}");
                return;
            }
            Some(change) => missed.push(change),
            None => println!("attempt {attempt} of {ATTEMPTS}: no prediction was made"),
        }
    }
    assert!(missed.is_empty(), "no attempt achieved what was predicted: {missed:?}");
    skipped("the explanation of the demo's copies made no prediction to hold them to: too much else runs on this machine");
}

#[test]
fn a_prediction_that_is_wrong_is_seen() {
    let is_seen = |predicted_ms: u32, busy: bool| {
        let predicted_s = f64::from(predicted_ms) / 1e3;
        let off = 100.0 * (predicted_s / 0.183 - 1.0);
        let said = format!(
            "300 ms, 310 ms, 320 ms, 330 ms, 340 ms\n== The change\n162 ms, 180 ms, 182 ms, 202 ms, 221 ms\n\n== Predicted against achieved\n\
             overlap: 4 requests: 320 ms before, {predicted_ms} ms predicted (1.29×), 183 ms achieved (1.01×): {:.1} % {} than predicted\n",
            off.abs(),
            if off > 0.0 { "faster" } else { "slower" },
        );
        let change = serde_json::json!({"change": "overlap: 4 requests", "predicted_wall_s": predicted_s, "flags": [["--requests", "4"]]});
        let serial = serde_json::json!({"wall_s": 0.32, "what_if": [{"change": "a faster processor"}, change]});
        let demo = Demo { said, serial, changed: serde_json::json!({"wall_s": 0.183}), busy };
        !Change::of(&demo).unwrap().is_as_predicted()
    };
    for (predicted_ms, seen, seen_busy) in [
        (183, false, false),
        (145, false, false),
        (250, false, false),
        (135, true, false),
        (265, true, false),
        (75, true, true),
        (460, true, true),
    ] {
        assert_eq!((is_seen(predicted_ms, false), is_seen(predicted_ms, true)), (seen, seen_busy), "{predicted_ms} ms");
    }
}
