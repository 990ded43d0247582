//! `explain -- COMMAND` of a program on a mounted store: its mount and servers are found, recorded and named, unless excluded.

use crate::common::{CommandOutput, Mounted, Up, can_mount, content, run, scratch, text};
use serde_json::Value;
use std::path::Path;

impl Mounted {
    /// Mounts this store, with a file that is not in its caches; `None` without permission.
    fn with_file(store: &Up, at: &Path, bytes: &[u8]) -> Option<Mounted> {
        if !can_mount() {
            return None;
        }
        std::fs::create_dir_all(at).unwrap();
        let source = at.with_extension("source");
        std::fs::write(&source, bytes).unwrap();
        run(["cp", "--quiet", text(&source), &store.path("/big")]).done();
        let mounted = Mounted(at.to_owned());
        run(["mount", &store.address, text(at)]).done();
        Some(mounted)
    }
}

fn places(explanation: &Value) -> Vec<String> {
    let charges = explanation["critical_path"].as_array().unwrap();
    charges.iter().map(|charge| charge["where"].as_str().unwrap().to_owned()).collect()
}

fn share(explanation: &Value, cause: &str) -> f64 {
    let charges = explanation["critical_path"].as_array().unwrap();
    charges.iter().filter(|charge| charge["cause"] == cause).map(|charge| charge["share"].as_f64().unwrap()).sum()
}

fn notes(explanation: &Value) -> String {
    explanation["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

fn explained(flags: &[&str], command: &[&str]) -> CommandOutput {
    run([&["explain", "--json"], flags, &["--"], command].concat()).done()
}

#[test]
fn a_program_on_a_mount_is_explained_with_its_mount_and_servers() {
    let (store, here) = (Up::start(2), scratch());
    let Some(mount) = Mounted::with_file(&store, &here.path().join("m"), &content(1, 48 << 20)) else { return };
    let input = format!("if={}/big", text(&mount.0));
    let copy = ["dd", &input, "of=/dev/null", "bs=1M", "status=none"];
    let explanation = explained(&[], &copy).json();
    let said = notes(&explanation);
    assert!(said.contains(&format!("The command works in {}", text(&mount.0))), "{said}");
    assert!(said.contains("io0, io1, metadata") && said.contains("--no-also"), "{said}");
    assert!(places(&explanation).iter().any(|place| place.starts_with("mount")), "{explanation:#}");
    assert!(share(&explanation, "server.unknown") < 0.02, "{explanation:#}");
    let from = explanation["transfers"][0]["from"].as_str().unwrap();
    assert_eq!(from, format!("{}/big", text(&mount.0)));
}

#[test]
fn what_is_not_to_be_recorded_with_a_program_on_a_mount_is_not() {
    let (store, here) = (Up::start(1), scratch());
    let Some(mount) = Mounted::with_file(&store, &here.path().join("m"), &content(2, 1 << 20)) else { return };
    let inside = format!("{}/big", text(&mount.0));
    let without = run(["record", "--no-also", "-o", text(&here.path().join("without.thw")), "--", "cat", &inside]).done();
    assert!(!without.err.contains("its mount is recorded"), "{}", without.err);
    // The mount of a command whose words do not name it is given by hand.
    let by_hand = run(["record", "--also", text(&mount.0), "-o", text(&here.path().join("hand.thw")), "--", "true"]).done();
    assert!(by_hand.err.contains("its mount is recorded too"), "{}", by_hand.err);
    run(["record", "--also", text(here.path()), "-o", text(&here.path().join("no.thw")), "--", "true"]).failed(2, &["no mounted store"]);
}
