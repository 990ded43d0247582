//! What a tuning says on a terminal, of one that is replayed from a kept sweep.

use std::path::Path;
use std::time::Duration;
use thalweg_report::tune::{Columns, announced, text};
use thalweg_study::sweep;
use thalweg_tune::search::Kind;
use thalweg_tune::{Budget, Document, Goal, Replay, Tuning};

fn surface() -> sweep::Document {
    sweep::Document::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/tune/surfaces/cp.json")).unwrap()
}

fn tuning(swept: &sweep::Document, budget: Budget) -> Tuning {
    Tuning {
        kinds: swept.parameters.iter().map(|parameter| Kind::of_name(&parameter.name)).collect(),
        start: swept.parameters.iter().map(|parameter| parameter.values[0].label.clone()).collect(),
        parameters: swept.parameters.clone(),
        remembered: None,
        excluded: Vec::new(),
        budget,
        goal: Goal::Rate,
        pairs: 5,
        any_bytes: false,
        same_bytes: false,
        ceiling_bytes_per_s: None,
    }
}

#[test]
fn the_first_line_says_how_many_runs_there_will_be() {
    let plain = tuning(&surface(), Budget::Runs(14));
    assert!(
        announced(&plain)
            .starts_with("At most 25 runs: a warm-up, 14 of the search, and 5 alternating runs each of the default and the best")
    );
    assert!(announced(&plain).ends_with("55 runs)."));
    assert!(announced(&Tuning { pairs: 0, ..plain.clone() }).starts_with("At most 15 runs"));
    assert_eq!(announced(&Tuning { budget: Budget::Time(Duration::from_secs(60)), ..plain }), "");
}

#[test]
fn the_result_is_a_few_lines_and_the_last_one_is_the_command_as_a_shell_takes_it() {
    let swept = surface();
    let tuning = tuning(&swept, Budget::Runs(8));
    let tuned = tuning.run(&mut Replay::new(&swept, 1).unwrap(), &()).unwrap();
    let columns = Columns::new(&tuning);
    let lines: Vec<String> = tuned.runs.iter().map(|ran| columns.run(ran)).collect();
    assert!(lines[0].contains("the default") && lines[1].contains("network.latency: depth"), "{lines:?}");
    let text = text(&Document::new(&tuning, &tuned, &["x".into()], vec!["cp".into(), "it's".into()]));
    assert!(text.starts_with("block=") && text.contains("as fast as the default"), "{text}");
    assert!(text.ends_with("Use:\n  cp 'it'\\''s'\n"), "{text}");
    assert!(text.lines().count() <= 12 && text.lines().all(|line| line.chars().count() <= 104), "{text}");
}
