use super::*;
use thalweg_measure::SplitMix;

/// A simulated command: seconds by setting, noise, and bytes moved.
struct MadeUp<'a> {
    seconds: &'a dyn Fn(&Point) -> Option<f64>,
    bytes: &'a dyn Fn(&Point) -> u64,
    noise: f64,
    random: SplitMix,
    ran: Vec<Point>,
}

impl<'a> MadeUp<'a> {
    fn new(seconds: &'a dyn Fn(&Point) -> Option<f64>) -> MadeUp<'a> {
        MadeUp { seconds, bytes: &|_| 1 << 20, noise: 0.0, random: SplitMix(7), ran: Vec::new() }
    }

    fn figures(&mut self, point: &Point) -> Option<Figures> {
        let shake = 1.0 + self.noise * (self.random.below(2001) as f64 / 1000.0 - 1.0);
        Some(Figures { wall_s: (self.seconds)(point)? * shake, bytes: Some((self.bytes)(point)), ..Figures::default() })
    }
}

impl Trials for MadeUp<'_> {
    fn run(&mut self, point: &Point, _: usize, _: &dyn Observer) -> Result<Trial> {
        self.ran.push(point.clone());
        let Some(figures) = self.figures(point) else { return Ok(Trial::failed(State::Failed, "out of memory".into())) };
        let causes = vec![("network.latency".to_owned(), 0.9)];
        Ok(Trial { figures, causes, problem: None, ..Trial::failed(State::Done, String::new()) })
    }

    fn pairs(&mut self, points: [&Point; 2], pairs: usize, _: &dyn Observer) -> Result<Vec<[Figures; 2]>> {
        Ok((0..pairs).filter_map(|_| Some([self.figures(points[0])?, self.figures(points[1])?])).collect())
    }
}

fn tuning(vary: &[&str]) -> Tuning {
    let parameters: Vec<Parameter> = vary.iter().map(|text| Parameter::parse(text).unwrap()).collect();
    Tuning {
        kinds: parameters.iter().map(|parameter| Kind::of_name(&parameter.name)).collect(),
        start: parameters.iter().map(|parameter| parameter.values[0].label.clone()).collect(),
        parameters,
        remembered: None,
        excluded: Vec::new(),
        budget: Budget::Usual,
        goal: Goal::Rate,
        pairs: 5,
        any_bytes: false,
        same_bytes: false,
        ceiling_bytes_per_s: None,
    }
}

fn number(point: &Point, n: usize) -> f64 {
    point[n].parse().unwrap()
}

#[test]
fn the_best_setting_is_found_and_the_gain_is_that_of_pairs() {
    let seconds = |point: &Point| Some(8.0 / number(point, 0).min(8.0) + 0.1 * (number(point, 0) - 8.0).max(0.0));
    let tuned = tuning(&["streams=1..32:x2"]).run(&mut MadeUp::new(&seconds), &()).unwrap();
    assert_eq!(tuned.winner, ["8"]);
    assert!((tuned.gain.unwrap().median - 8.0).abs() < 1e-9);
    assert_eq!(tuned.pairs.len(), 5);
    assert!(tuned.runs.len() <= 12);
}

#[test]
fn noise_above_every_difference_leaves_the_default() {
    for seed in 0..20 {
        let seconds = |_: &Point| Some(1.0);
        let mut trials = MadeUp { noise: 0.2, random: SplitMix(seed), ..MadeUp::new(&seconds) };
        let tuned = tuning(&["streams=1..32:x2", "block=1Ki..64Ki:x2"]).run(&mut trials, &()).unwrap();
        assert!(tuned.winner == ["1", "1Ki"] || tuned.gain.unwrap().low > 1.0);
        assert!(tuned.noise > 0.02, "{}", tuned.noise);
    }
}

#[test]
fn no_more_runs_are_made_than_are_foretold() {
    let plain = Tuning { budget: Budget::Runs(14), ..tuning(&["streams=1..32:x2", "block=1Ki..64Ki:x2"]) };
    let (search, fewest, most) = plain.runs().unwrap().unwrap();
    for seed in 0..20 {
        // So noisy that five pairs leave open which is faster.
        let seconds = |point: &Point| Some(1.0 - 0.01 * number(point, 0).min(8.0));
        let mut trials = MadeUp { noise: 0.2, random: SplitMix(seed), ..MadeUp::new(&seconds) };
        let tuned = plain.run(&mut trials, &()).unwrap();
        assert!(trials.ran.len() <= search && 2 * tuned.pairs.len() <= most, "{} and {}", trials.ran.len(), tuned.pairs.len());
        assert!(tuned.pairs.is_empty() || 2 * tuned.pairs.len() >= fewest);
    }
}

#[test]
fn a_setting_that_fails_is_avoided_and_listed_and_a_default_that_fails_is_the_end() {
    let seconds = |point: &Point| (number(point, 0) < 8.0).then(|| 1.0 / number(point, 0));
    let tuned = tuning(&["requests=1..64:x2"]).run(&mut MadeUp::new(&seconds), &()).unwrap();
    assert_eq!(tuned.winner, ["4"]);
    assert!(tuned.runs.iter().any(|ran| ran.trial.state == State::Failed));
    let error = tuning(&["requests=8,1"]).run(&mut MadeUp::new(&seconds), &()).unwrap_err().to_string();
    assert!(error.contains("fails at its default, requests=8: out of memory"), "{error}");
}

#[test]
fn settings_that_do_other_work_are_refused_unless_rates_are_asked_for() {
    let seconds = |_: &Point| Some(1.0);
    let bytes = |point: &Point| 1000 * number(point, 0) as u64;
    let trials = || MadeUp { bytes: &bytes, ..MadeUp::new(&seconds) };
    let error = tuning(&["block=1,2,4"]).run(&mut trials(), &()).unwrap_err().to_string();
    assert!(error.contains("block=4 does other work than the default") && error.contains("--any-bytes"), "{error}");
    let by_rate = Tuning { any_bytes: true, ..tuning(&["block=1,2,4"]) };
    assert_eq!(by_rate.run(&mut trials(), &()).unwrap().winner, ["4"]);
}

#[test]
fn at_the_ceiling_nothing_is_tried() {
    let seconds = |point: &Point| Some(1.0 / number(point, 0));
    let at = Tuning { ceiling_bytes_per_s: Some(f64::from(1 << 20)), ..tuning(&["streams=1..32:x2"]) };
    let mut trials = MadeUp::new(&seconds);
    let tuned = at.run(&mut trials, &()).unwrap();
    assert_eq!(tuned.winner, ["1"]);
    assert!(trials.ran.iter().all(|point| point == &["1"]), "{:?}", trials.ran);
    assert_eq!(tuned.at_ceiling, Some(1.0));
}

#[test]
fn excluded_settings_are_not_run_and_what_is_remembered_is_run_second() {
    let seconds = |point: &Point| Some(1.0 / number(point, 0));
    let asked = Tuning { excluded: vec![vec!["32".into()]], remembered: Some(vec!["16".into()]), ..tuning(&["streams=1..32:x2"]) };
    let mut trials = MadeUp::new(&seconds);
    let tuned = asked.run(&mut trials, &()).unwrap();
    assert_eq!((trials.ran[1].as_slice(), tuned.winner.as_slice()), (["16".to_owned()].as_slice(), ["16".to_owned()].as_slice()));
    assert!(!trials.ran.contains(&vec!["32".to_owned()]));
}

#[test]
fn a_time_that_allows_no_comparison_is_an_error_that_says_what_would() {
    let seconds = |_: &Point| Some(1.0);
    struct Slow<'a>(MadeUp<'a>);
    impl Trials for Slow<'_> {
        fn run(&mut self, point: &Point, nth: usize, observer: &dyn Observer) -> Result<Trial> {
            std::thread::sleep(Duration::from_millis(5));
            self.0.run(point, nth, observer)
        }
        fn pairs(&mut self, points: [&Point; 2], pairs: usize, observer: &dyn Observer) -> Result<Vec<[Figures; 2]>> {
            self.0.pairs(points, pairs, observer)
        }
    }
    let short = Tuning { budget: Budget::Time(Duration::from_millis(1)), ..tuning(&["streams=1..32:x2"]) };
    let error = short.run(&mut Slow(MadeUp::new(&seconds)), &()).unwrap_err().to_string();
    assert!(error.contains("too small for one comparison"), "{error}");
}

#[test]
fn documents_hold_against_the_schema_and_every_field_is_described() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../tune.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let seconds = |point: &Point| (number(point, 0) < 16.0).then(|| 1.0 / number(point, 0));
    let tuning = Tuning { remembered: Some(vec!["8".into()]), ..tuning(&["streams=1..32:x2"]) };
    let tuned = tuning.run(&mut MadeUp::new(&seconds), &()).unwrap();
    let gives_up = [("streams".to_owned(), "fairness".to_owned())];
    let document = crate::Document::new(&tuning, &tuned, &["x".into()], vec!["x".into()]).giving_up(&gives_up);
    assert_eq!(document.gives_up, ["streams: fairness"]);
    let value: serde_json::Value = serde_json::from_str(&document.json()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert_eq!(serde_json::from_value::<crate::Document>(value.clone()).unwrap(), document);
    for place in ["", "/winner", "/runs/0"] {
        let mut other = value.clone();
        other.pointer_mut(place).unwrap()["mood"] = "good".into();
        assert!(!validator.is_valid(&other), "{place}");
    }
    assert_eq!(undescribed(&schema, ""), Vec::<String>::new());
}

/// Returns the fields of a schema without a description.
fn undescribed(value: &serde_json::Value, path: &str) -> Vec<String> {
    let entries = |name: &str| value.get(name).and_then(|entries| entries.as_object()).into_iter().flatten();
    let bare = entries("properties").filter(|(_, property)| property["description"].as_str().is_none_or(|text| text.len() < 4));
    let fields = bare.map(|(name, _)| format!("{path}.{name}"));
    fields.chain(entries("$defs").flat_map(|(name, definition)| undescribed(definition, name))).collect()
}
