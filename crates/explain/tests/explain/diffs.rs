//! Diffs of synthetic explanations.

use proptest::prelude::*;
use thalweg_explain::Cause;
use thalweg_explain::diff::{Diff, DiffOptions, DiffRow, diff};
use thalweg_explain::document::{Explanation, Grounds, Repeated, SummaryRow, WhatIf};

/// A run of a command with these rows, in seconds.
fn run(command: &str, rows: &[(Cause, &str, f64)]) -> Explanation {
    let wall_s: f64 = rows.iter().map(|row| row.2).sum();
    let row = |&(cause, subject, s): &(Cause, &str, f64)| SummaryRow {
        cause,
        share: s / wall_s,
        subject: subject.into(),
        figures: String::new(),
    };
    let mut e: Explanation = serde_json::from_value(serde_json::json!({
        "schema": "thalweg.explain/1", "command": command.split(' ').collect::<Vec<_>>(), "recorder": "bpf", "dropped_events": 0, "start_ns": 0,
        "wall_s": wall_s, "verdict": {"status": "limited", "cause": "client.read", "where": "", "share": 1.0, "sentence": "It was read."},
        "critical_path": [], "path": [], "transfers": [], "phases": [], "channels": [], "tracks": [], "what_if": [], "model": {}, "notes": []
    }))
    .expect("a document");
    e.summary.rows = rows.iter().map(row).collect();
    e
}

fn change(id: &str, predicted_wall_s: f64, command: &str, flags: &[(&str, &str)]) -> WhatIf {
    WhatIf {
        id: id.into(),
        change: format!("make {id}"),
        basis: Grounds::Replayed,
        predicted_wall_s,
        interval_s: (predicted_wall_s * 0.95, predicted_wall_s * 1.05),
        speedup: 1.0,
        about: Vec::new(),
        how: String::new(),
        flags: flags.iter().map(|(f, v)| ((*f).to_owned(), (*v).to_owned())).collect(),
        command: command.split_whitespace().map(str::to_owned).collect(),
        gives_up: None,
        recipe: None,
    }
}

fn of(before: &Explanation, after: &Explanation) -> Diff {
    diff(before, after, &DiffOptions::default()).expect("the same work")
}

#[test]
fn what_went_and_what_came_is_by_cause_and_subject() {
    let before = run("dd if=a of=b", &[(Cause::ClientSync, "dd, disk vda", 2.0), (Cause::ClientRead, "dd (process 81)", 1.0)]);
    let after = run("dd if=a of=b", &[(Cause::ClientRead, "dd (process 97)", 1.1), (Cause::ClientCpu, "dd", 0.2)]);
    let d = of(&before, &after);
    let rows: Vec<_> = d.rows.iter().map(|row| (row.cause.unwrap().name(), (row.change_s * 10.0).round() as i64)).collect();
    assert_eq!(rows, [("client.sync", -20), ("client.cpu", 2), ("client.read", 1)]);
    assert_eq!(d.rows[2].subject_after.as_deref(), Some("dd (process 97)"));
    assert!((d.change_s + 1.7).abs() < 1e-9 && (d.speedup - 3.0 / 1.3).abs() < 1e-9);
}

#[test]
fn the_change_that_was_made_is_found_from_the_commands() {
    let mut before = run("/usr/bin/thalweg cp big thal://h/x", &[(Cause::ClientRead, "thalweg", 3.0)]);
    before.what_if = vec![
        change("disk.x2", 1.0, "", &[]),
        change("overlap", 2.0, "thalweg cp --requests 4 big thal://h/x", &[("--requests", "4")]),
        change("no_sync", 2.5, "thalweg cp --no-sync big thal://h/x", &[]),
    ];
    let made = |command: &str| of(&before, &run(command, &[(Cause::ClientRead, "thalweg", 2.04)])).made.map(|made| made.id);
    assert_eq!(made("thalweg cp --requests 4 --record b.thw big thal://h/y").as_deref(), Some("overlap"));
    assert_eq!(made("thalweg cp --requests=4 big thal://h/y").as_deref(), Some("overlap"));
    assert_eq!(made("thalweg cp --no-sync big thal://h/x").as_deref(), Some("no_sync"));
    assert_eq!(made("thalweg cp --requests 8 big thal://h/x"), None);
    let found = of(&before, &run("thalweg cp --requests 4 big thal://h/y", &[(Cause::ClientRead, "thalweg", 2.04)])).made.unwrap();
    assert!(found.within && (found.error + 0.04 / 2.04).abs() < 1e-9, "{found:?}");
    let named = DiffOptions { made: Some("disk.x2".into()), ..DiffOptions::default() };
    assert_eq!(diff(&before, &before, &named).unwrap().made.unwrap().id, "disk.x2");
    let refused = diff(&before, &before, &DiffOptions { made: Some("disk.x3".into()), ..DiffOptions::default() }).unwrap_err().to_string();
    assert!(refused.contains("disk.x3") && refused.contains("disk.x2, overlap, no_sync"), "{refused}");
}

#[test]
fn runs_of_different_work_are_refused_with_the_reason() {
    let rows = [(Cause::ClientRead, "x", 1.0)];
    let sized = |command: &str, bytes: u64| Explanation { size_bytes: Some(bytes), ..run(command, &rows) };
    let refused = |a: &Explanation, b: &Explanation| diff(a, b, &DiffOptions::default()).expect_err("refused").to_string();
    assert!(refused(&run("cp a b", &rows), &run("dd if=a of=b", &rows)).contains("cp and dd"));
    assert!(refused(&run("cp a b", &rows), &run("cp c b", &rows)).contains("a b and c b"));
    assert!(refused(&sized("cp a b", 256 << 20), &sized("cp a b", 64 << 20)).contains("256 MiB and 64"));
    let mut ended = run("cp a b", &rows);
    ended.summary.ended = Some("failed with exit code 1".into());
    assert!(refused(&run("cp a b", &rows), &ended).contains("the later run failed with exit code 1"));
    let anyway = diff(&run("cp a b", &rows), &run("dd if=a of=b", &rows), &DiffOptions { anyway: true, ..DiffOptions::default() }).unwrap();
    assert!(anyway.different_work.unwrap().contains("cp and dd"));
    // A proposed change may run another program.
    let mut slow = run("gzip -k big", &rows);
    slow.what_if = vec![change("cpu", 0.5, "pigz -k big", &[])];
    assert_eq!(of(&slow, &run("/usr/bin/pigz -k big", &rows)).made.unwrap().id, "cpu");
}

#[test]
fn of_runs_that_were_repeated_the_median_counts_with_its_interval() {
    let mut after = run("cp a b", &[(Cause::ClientRead, "x", 1.0)]);
    after.repeated = Some(Repeated {
        wall_s: vec![0.9, 1.2, 1.3],
        explained: 2,
        median_s: 1.2,
        interval_s: (0.9, 1.3),
        shares: vec![(1.0, 1.0)],
        leading: Vec::new(),
    });
    let mut before = run("cp a b", &[(Cause::ClientRead, "x", 2.0)]);
    before.what_if = vec![change("faster", 0.92, "", &[])];
    let d = diff(&before, &after, &DiffOptions { made: Some("faster".into()), anyway: false }).unwrap();
    assert!((d.after.wall_s - 1.2).abs() < 1e-12 && d.after.runs == 3 && (d.rows[0].after_s - 1.2).abs() < 1e-9);
    assert!(d.made.unwrap().within, "the intervals meet");
}

#[test]
fn a_diff_holds_against_its_schema() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../diff.schema.json")).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let mut before = run("cp a b", &[(Cause::ClientSync, "x", 2.0), (Cause::ClientRead, "y", 1e-6)]);
    before.what_if = vec![change("no_sync", 1.0, "cp --no-sync a b", &[])];
    for after in ["cp --no-sync a b", "dd if=a of=b"] {
        let options = DiffOptions { anyway: true, ..DiffOptions::default() };
        let d = diff(&before, &run(after, &[(Cause::ClientRead, "x", 1.0)]), &options).unwrap();
        let document = serde_json::to_value(&d).unwrap();
        let errors: Vec<String> = validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}\n{document:#}");
        assert_eq!(serde_json::from_value::<Diff>(document).unwrap(), d);
    }
}

/// Rows of any causes and few subjects, so that some are in both runs.
fn rows() -> impl Strategy<Value = Vec<(usize, u8, f64)>> {
    prop::collection::vec((0..Cause::ALL.len(), 0_u8..4, 0.000_01_f64..10.0), 1..12)
}

proptest! {
    #[test]
    fn what_went_and_came_sums_to_the_difference_of_the_wall_times(a in rows(), b in rows()) {
        let subjects = ["disk vda", "disk vdb", "dd (process 1)", "dd (process 2)"];
        let made = |rows: &[(usize, u8, f64)]| {
            let rows: Vec<_> = rows.iter().map(|&(cause, subject, s)| (Cause::ALL[cause], subjects[usize::from(subject)], s)).collect();
            run("cp a b", &rows)
        };
        let (before, after) = (made(&a), made(&b));
        let d = of(&before, &after);
        let sum = |of: fn(&DiffRow) -> f64| d.rows.iter().map(of).sum::<f64>();
        prop_assert!((sum(|row| row.before_s) - before.wall_s).abs() < 1e-6);
        prop_assert!((sum(|row| row.after_s) - after.wall_s).abs() < 1e-6);
        prop_assert!((sum(|row| row.change_s) - d.change_s).abs() < 1e-6);
        // Reversed, every change has the other sign.
        let back = of(&after, &before);
        prop_assert!((back.change_s + d.change_s).abs() < 1e-9);
    }
}
