//! Tests of the engine with a sweep's plan, on made-up times, without starting processes.

use super::plan::{Choice, Explain};
use super::sample::{Sample, State, Swept};
use std::cell::Cell;
use thalweg_measure::{Closures, Error, Machine, Observer, Order, Plan, Runs, Usage, measure};

fn choice(vary: &[&str]) -> Choice {
    let command = std::iter::once("true".to_owned()).chain(vary.iter().map(|v| format!("{{{}}}", v.split('=').next().unwrap()))).collect();
    Choice { vary: vary.iter().map(ToString::to_string).collect(), command, explain: Explain::Never, ..Choice::default() }
}

fn sample(wall_s: f64) -> Sample {
    let usage = Usage { wall_s, user_s: 0.0, system_s: 0.0, max_rss_bytes: 0, voluntary_switches: 0, involuntary_switches: 0 };
    Sample { usage: Some(usage), ..Sample::bare(State::Done, None) }
}

/// Returns the true time of a point.
fn truth(point: &[String]) -> f64 {
    point.iter().map(|label| label.parse::<f64>().unwrap()).product()
}

/// Returns the largest relative error of a point's estimate, apart from the drift common to all points, if the machine slows down by a
/// fifth during the sweep.
fn worst_error(server: bool) -> f64 {
    let mut asked = choice(&["a=1,2,3,4", "b=1,2,3"]);
    if server {
        (asked.server, asked.port) = (Some("true {b}".into()), Some("1".into()));
    }
    let sweep = asked.plan().unwrap();
    let plan = sweep.plans(&sweep.header().unwrap()).remove(0);
    assert_eq!(plan.order, if server { Order::BySubject } else { Order::Shuffled });
    let (all, mut done) = (12.0 * 11.0, 0.0);
    let mut subjects = Closures::new(|case: &thalweg_measure::Case<Vec<String>, super::Subject>, _| {
        done += 1.0;
        Ok(sample(truth(&case.point) * (1.0 + 0.2 * done / all)))
    });
    let runs: Swept = measure(&plan, None, &mut subjects, &()).unwrap().runs;
    let document = sweep.document(Machine::describe::<&str>(&[]), &runs);
    let factors: Vec<f64> = document.points.iter().map(|p| p.wall_s.unwrap().median / truth(&p.values)).collect();
    let middle = factors.iter().sum::<f64>() / factors.len() as f64;
    factors.iter().map(|factor| (factor / middle - 1.0).abs()).fold(0.0, f64::max)
}

#[test]
fn a_drift_of_a_fifth_moves_no_estimate_by_more_than_2_percent() {
    assert!(worst_error(false) < 0.02, "{}", worst_error(false));
    assert!(worst_error(true) < 0.02, "kept together for a server: {}", worst_error(true));
}

/// Stops after a number of runs, like a kill.
struct After<'a>(&'a Cell<usize>);

impl Observer for After<'_> {
    fn cancelled(&self) -> bool {
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() == 0
    }
}

#[test]
fn ended_at_20_random_moments_and_gone_on_with_no_run_is_lost_or_made_twice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sweep.runs.jsonl");
    let sweep = choice(&["a=1,2,3,4", "b=1,2,3"]).plan().unwrap();
    let plan: Plan<_, _> = sweep.plans(&sweep.header().unwrap()).remove(0);
    let mut random = thalweg_measure::SplitMix(9);
    let mut counted = Vec::new();
    for moment in 0..=20 {
        let left = Cell::new(if moment == 20 { usize::MAX } else { 2 + random.below(18) });
        let mut subjects = Closures::new(|case: &thalweg_measure::Case<Vec<String>, super::Subject>, repeat| {
            counted.extend((repeat > 0).then(|| (case.point.clone(), repeat)));
            Ok(sample(truth(&case.point)))
        });
        let ended = measure(&plan, Some((&path, true)), &mut subjects, &After(&left));
        drop(subjects);
        assert!(matches!(ended, Err(Error::Stopped)) || moment == 20 || counted.len() == 120, "{:?}", ended.map(|_| ()));
        // A kill while writing leaves a partial line.
        let text = std::fs::read(&path).unwrap();
        let cut = if moment < 20 { random.below(5) } else { 0 };
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        if lines > 2 && cut > 0 && moment < 20 {
            std::fs::write(&path, &text[..text.len() - cut]).unwrap();
            // That run is not in the log, and must be repeated.
            let last = String::from_utf8_lossy(&text).lines().last().unwrap().to_owned();
            let run: serde_json::Value = serde_json::from_str(&last).unwrap();
            if run["repeat"].as_u64() > Some(0) {
                counted.retain(|(point, repeat)| {
                    serde_json::to_value(point).unwrap() != run["point"] || Some(*repeat as u64) != run["repeat"].as_u64()
                });
            }
        }
    }
    let all = counted.len();
    counted.sort();
    counted.dedup();
    assert_eq!((all, counted.len()), (120, 120), "every counted run once");
    let text = std::fs::read_to_string(&path).unwrap();
    let kept =
        text.lines().skip(1).map(|line| serde_json::from_str::<thalweg_measure::Run<Vec<String>, super::Subject, Sample>>(line).unwrap());
    let runs: Vec<_> = kept.filter(|run| run.repeat > 0).collect();
    assert_eq!(runs.len(), 120);
    assert_eq!(Runs::new(runs).cases().map(|(_, _, runs)| runs.len()).collect::<Vec<_>>(), [10; 12]);
}

#[test]
fn documents_hold_against_the_schema_and_every_field_is_described() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../sweep.schema.json")).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let made_up = super::findings::tests::made_up(&["a=1,2,64Ki", "mode=x,y"], |values| {
        let time = if values[0] == "1" { 1.0 } else { 2.0 };
        (
            if values[0] == "2" && values[1] == "y" { Vec::new() } else { super::findings::tests::around(time) },
            if time > 1.5 { "server.cpu" } else { "client.read" },
        )
    });
    let sweep = Choice { skip: vec!["a == 2".into()], bytes: Some("1Ki".into()), ..choice(&["a=1,2,3"]) }.plan().unwrap();
    let empty = sweep.document(Machine::describe::<&str>(&["/"]), &Runs::default());
    for document in [made_up, empty] {
        let value: serde_json::Value = serde_json::from_str(&document.json()).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}\n{value:#}");
        assert_eq!(serde_json::from_value::<super::Document>(value.clone()).unwrap(), document);
        let mut other = value;
        other["points"][0]["mood"] = "good".into();
        assert!(!validator.is_valid(&other));
    }
    let bare = bare(&schema, "");
    assert!(bare.is_empty(), "{bare:?}");
}

/// Returns the fields of a schema without a description.
fn bare(value: &serde_json::Value, path: &str) -> Vec<String> {
    let entries = |name: &str| value.get(name).and_then(|v| v.as_object()).into_iter().flatten();
    let described = |property: &serde_json::Value| property["description"].as_str().is_some_and(|text| text.len() > 5);
    let fields = entries("properties").filter(|(_, property)| !described(property)).map(|(name, _)| format!("{path}.{name}"));
    fields.chain(entries("$defs").flat_map(|(name, definition)| bare(definition, name))).collect()
}
