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
    let said = run(["doctor"]);
    assert!(said.out.contains("machine:"), "{}", said.out);
}
