//! The demo, with a smaller file and the command under test.

use crate::common::{THALWEG, content, file, scratch, text};
use std::path::Path;
use std::process::Command;

#[test]
fn the_demo_runs_through_and_leaves_only_what_is_to_be_kept() {
    let here = scratch();
    let source = file(here.path(), "real-file", &content(1, 33 << 20));
    let (kept, temporary) = (here.path().join("kept"), here.path().join("tmp"));
    std::fs::create_dir(&temporary).unwrap();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/demo");
    let mut command = Command::new(demo);
    command.env("THALWEG", THALWEG).env("FILE", &source).env("KEEP", &kept).env("TMPDIR", &temporary).env("NO_COLOR", "1");
    let output = command.output().expect("a shell runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("Predicted against achieved") && said.contains("datafile"), "{said}");
    let sums: Vec<&str> = said.lines().filter_map(|l| l.strip_prefix("in   ").or_else(|| l.strip_prefix("out  "))).collect();
    assert!(sums.len() == 2 && sums[0] == sums[1] && sums[0].len() == 64, "{said}");
    for name in ["serial.thw", "changed.thw", "serial.json", "serial.svg", "changed.html", "changed.pftrace"] {
        assert!(kept.join(name).exists(), "{name} in {}", text(&kept));
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "the store is taken down");
}
