//! Promises of the command line: help, exit codes, JSON.

use crate::common::run;

/// Returns the verbs of a group in the help, with their descriptions.
fn group<'a>(help: &'a str, heading: &str) -> Vec<(&'a str, &'a str)> {
    let lines = help.lines().skip_while(|line| line.trim_end() != heading).skip(1).take_while(|line| line.starts_with("  "));
    lines.map(|line| line.trim_start().split_once(' ').map_or((line.trim(), ""), |(verb, does)| (verb, does.trim()))).collect()
}

#[test]
fn help_shows_every_verb_in_its_group_with_what_it_does() {
    let said = run(["--help"]).done();
    let verbs = [
        ("Explain:", &["explain", "record", "diff", "merge", "rpcstat", "profile", "report", "export", "recipes", "doctor"][..]),
        (
            "Store:",
            &[
                "up",
                "serve",
                "cp",
                "ls",
                "find",
                "du",
                "stat",
                "mkdir",
                "rm",
                "mv",
                "cat",
                "df",
                "scrub",
                "credential",
                "metadata",
                "lot",
                "layout",
                "session",
                "mount",
                "umount",
            ],
        ),
        ("Measure and tune:", &["bench", "sweep", "tune"]),
        ("Past one machine:", &["fleet", "launch"]),
        ("The command itself:", &["completions", "man"]),
    ];
    for (heading, expected) in verbs {
        let shown = group(&said.out, heading);
        assert_eq!(shown.iter().map(|(verb, _)| *verb).collect::<Vec<_>>(), expected, "{heading} in: {}", said.out);
        for (verb, does) in shown {
            assert!(does.len() > 10 && does.starts_with(char::is_uppercase), "{verb}: `{does}`");
            assert!(run([verb, "--help"]).done().out.contains("Usage: thalweg"), "{verb}");
        }
    }
    assert_eq!(said.out.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).count(), verbs.len() + 1, "{}", said.out);
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
    assert!(!said.out.contains("`make bench`") && !said.out.contains("`make lab`"), "{}", said.out);
    let packages = |document: &serde_json::Value| document["packages"].as_array().expect("packages").clone();
    let (of_users, of_developers) = (packages(&document), packages(&run(["doctor", "--develop", "--json"]).done().json()));
    assert!(of_users.iter().all(|package| package["target"] != "bench" && package["target"] != "lab"), "{of_users:?}");
    assert!(of_users.iter().all(|package| of_developers.contains(package)), "{of_users:?} {of_developers:?}");
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
