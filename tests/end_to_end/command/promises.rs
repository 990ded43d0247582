//! What the command line itself promises: help, exit codes, JSON.

use crate::common::run;

#[test]
fn help_shows_the_verbs_in_groups() {
    let said = run(["--help"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("Explain:"), "{}", said.out);
    assert!(said.out.contains("doctor"), "{}", said.out);
}

#[test]
fn an_unknown_verb_is_a_usage_error() {
    assert_eq!(run(["fly"]).code, Some(2));
    assert_eq!(run(["doctor", "--wings"]).code, Some(2));
}

#[test]
fn doctor_says_what_this_machine_can_do() {
    let said = run(["doctor", "--json"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let document: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(document["schema"], "thalweg.doctor/1");
    assert!(document["findings"].as_array().is_some_and(|f| f.len() >= 8));
    let names: Vec<&str> = document["findings"].as_array().unwrap().iter().filter_map(|f| f["name"].as_str()).collect();
    assert!(names.contains(&"recorder bpf") && names.contains(&"recorder preload"), "{names:?}");
    let said = run(["doctor"]);
    assert!(said.out.contains("machine:"), "{}", said.out);
}

#[test]
fn ceilings_are_measured_in_the_form_that_record_reads() {
    let here = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
    let path = here.path().to_str().unwrap();
    let said = run(["doctor", "--ceilings", "--path", path]);
    if said.err.contains("no block device") {
        return crate::common::skipped("/var/tmp is on no block device");
    }
    let ceilings = said.done().json();
    assert!(ceilings.as_object().is_some_and(|c| c.len() == 3 && c.values().all(|rate| rate.as_f64() > Some(0.0))), "{ceilings}");
    let (file, recording) = (here.path().join("ceilings.json"), here.path().join("a.thw"));
    std::fs::write(&file, ceilings.to_string()).unwrap();
    run(["record", "--ceilings", file.to_str().unwrap(), "-o", recording.to_str().unwrap(), "--", "true"]).done();
    assert!(std::fs::read_to_string(recording.join("meta.json")).unwrap().contains("ceiling.device."));
    run(["doctor", "--ceilings", "--path", "/proc"]).failed(1, &["/proc", "no block device"]);
}
