//! The request for a sweep, and its plan: every point of the grid (or a sample), the condition each is skipped by, and which runs belong
//! together.

use super::program::Program;
use super::sample::{Point, Subject};
use super::skip;
use super::template::{alone, filled, names, words};
use super::values::{Parameter, Value};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use thalweg_base::numbers::count;
use thalweg_measure::{Batch, Case, Header, Limits, OnFailure, Order, Plan, SplitMix};

/// The ceiling's flag, as named in errors.
pub(super) const CEILING: &str = "--ceiling";

/// Maximum number of runs: more are surely a mistake.
const MOST_RUNS: u128 = 10_000;

/// How often runs are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Explain {
    /// One further run for each counted one.
    Every,
    /// One further run of each point.
    #[default]
    Once,
    /// Never.
    Never,
}

/// The request for a sweep: the flags of the command, or the fields of a plan file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Choice {
    /// Parameters, each as `NAME=VALUES`.
    pub vary: Vec<String>,
    /// Conditions: points at which one holds are skipped.
    pub skip: Vec<String>,
    /// The command: words that may contain `{NAME}`.
    pub command: Vec<String>,
    /// Command run with `sh -c` before each run, untimed.
    pub prepare: Option<String>,
    /// Command run with `sh -c` after each run, untimed.
    pub cleanup: Option<String>,
    /// Command of a server that must be up during the runs.
    pub server: Option<String>,
    /// The port that shows that the server is up.
    pub port: Option<String>,
    /// Bytes that one run moves: a size, or a file of that size.
    pub bytes: Option<String>,
    /// Files to evict from the page cache before each run.
    pub cold: Vec<String>,
    /// Files to read into the page cache before each run.
    pub warm: Vec<String>,
    /// Maximum number of counted runs of each point.
    pub repeat: usize,
    /// Time after which a run is killed.
    pub timeout_s: f64,
    /// A point ends early once its interval is narrower than this part of its median.
    pub narrow: f64,
    /// Number of points to sample from the grid; all if absent.
    pub sample: Option<usize>,
    /// How often runs are recorded.
    pub explain: Explain,
    /// Every n-th recorded run of a point, starting with the first, takes a profile of the machine too.
    pub profile: Option<usize>,
    /// Ceiling of the hardware in bytes per second: a line in plots.
    pub ceiling_bytes_per_s: Option<f64>,
    /// Template of a command that measures the ceiling: it moves `bytes`, and is run interleaved with the points.
    pub ceiling: Option<String>,
    /// Equal seeds give equal orders and samples.
    pub seed: u64,
}

impl Default for Choice {
    fn default() -> Choice {
        Choice {
            vary: Vec::new(),
            skip: Vec::new(),
            command: Vec::new(),
            prepare: None,
            cleanup: None,
            server: None,
            port: None,
            bytes: None,
            cold: Vec::new(),
            warm: Vec::new(),
            repeat: 10,
            timeout_s: 300.0,
            narrow: 0.02,
            sample: None,
            explain: Explain::Once,
            profile: None,
            ceiling_bytes_per_s: None,
            ceiling: None,
            seed: 1,
        }
    }
}

/// The points to run, and the skipped ones, each with the condition that held.
type Points = (Vec<Point>, Vec<(Point, String)>);

/// A sweep that can be run.
#[derive(Clone, Debug)]
pub struct Sweep {
    pub(super) choice: Choice,
    pub(super) parameters: Vec<Parameter>,
    /// The points to run, as labels of their values.
    pub(super) points: Vec<Point>,
    /// The skipped points, each with the condition that held.
    pub(super) skipped: Vec<(Point, String)>,
    /// Indexes of the parameters in the server's command.
    server_takes: Vec<usize>,
    /// The server's command.
    pub(super) server: Option<Vec<String>>,
    /// The command that measures the ceiling.
    pub(super) ceiling: Option<Vec<String>>,
}

impl Choice {
    /// Validates the request, and makes all points.
    ///
    /// # Errors
    /// The request is invalid, or asks for too many runs.
    pub fn plan(self) -> Result<Sweep> {
        let parameters = self.parameters()?;
        let sweep = self.grid(parameters)?;
        sweep.check_runs()?;
        Ok(sweep)
    }

    /// Parses the parameters.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn parameters(&self) -> Result<Vec<Parameter>> {
        self.vary.iter().map(|text| Parameter::parse(text)).collect()
    }

    /// Makes the points of these parameters without a limit on runs, for a tuner, which runs few of them.
    ///
    /// # Errors
    /// The request is invalid.
    pub fn grid(self, parameters: Vec<Parameter>) -> Result<Sweep> {
        let wrong = |text: String| Err(Error::Choice(text));
        if let Some((_, twice)) = parameters.iter().enumerate().find(|(n, p)| parameters[..*n].iter().any(|other| other.name == p.name)) {
            return wrong(format!("--vary {}: given twice; put all its values into one list", twice.name));
        }
        if parameters.is_empty() {
            return wrong("nothing is varied: give at least one --vary NAME=VALUES".into());
        }
        if self.command.first().is_none_or(String::is_empty) {
            return wrong("no command: give it after --, like -- cp -r {tree} /tmp/copy-{run}".into());
        }
        if self.repeat == 0 || self.timeout_s <= 0.0 || !self.timeout_s.is_finite() {
            return wrong("--repeat and --timeout must be above 0".into());
        }
        let server = match (&self.server, &self.port) {
            (Some(line), Some(_)) => Some(words(line).map_err(|problem| Error::Choice(format!("--server {line}: {problem}")))?),
            (None, None) => None,
            (Some(_), None) => return wrong("--server needs --port: it is up when that port answers".into()),
            (None, Some(_)) => return wrong("--port needs --server".into()),
        };
        let ceiling = self.check_ceiling()?;
        self.check_profile()?;
        self.check_names(&parameters)?;
        let of_server: BTreeSet<&str> = self.server.iter().chain(&self.port).flat_map(|template| names(template)).collect();
        let server_takes = (0..parameters.len()).filter(|n| of_server.contains(parameters[*n].name.as_str())).collect();
        let (points, skipped) = self.points(&parameters)?;
        Ok(Sweep { choice: self, parameters, points, skipped, server_takes, server, ceiling })
    }

    /// Checks that every template uses known parameters only, and that every parameter is used.
    fn check_names(&self, parameters: &[Parameter]) -> Result<()> {
        let known = || parameters.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
        let optional = [
            ("--prepare", &self.prepare),
            ("--cleanup", &self.cleanup),
            ("--server", &self.server),
            ("--port", &self.port),
            ("--bytes", &self.bytes),
            (CEILING, &self.ceiling),
        ];
        let optional = optional.into_iter().filter_map(|(flag, text)| Some((flag, text.as_ref()?)));
        let all = self.command.iter().map(|word| ("the command", word)).chain(optional);
        let files = self.cold.iter().map(|file| ("--cold", file)).chain(self.warm.iter().map(|file| ("--warm", file)));
        let mut used = BTreeSet::new();
        for (place, template) in all.chain(files) {
            for name in names(template) {
                let is_run = name == "run" && !["--server", "--port"].contains(&place);
                if !is_run && parameters.iter().all(|p| p.name != name) {
                    let problem = match name {
                        "run" => "a server is not started for each run, so it has no {run}".to_owned(),
                        _ => format!("`{{{name}}}` is no parameter; the parameters are: {} (literally: {{{{{name}}}}})", known()),
                    };
                    return Err(Error::Choice(format!("{place}: {template}: {problem}")));
                }
                // A parameter of the ceiling alone varies nothing.
                if place != CEILING {
                    used.insert(name);
                }
            }
        }
        match parameters.iter().find(|p| !used.contains(p.name.as_str())) {
            Some(p) => {
                Err(Error::Choice(format!("--vary {}: nothing uses it: put {{{}}} into the command, or leave it out", p.name, p.name)))
            }
            None => Ok(()),
        }
    }

    /// Returns the points to run, and the skipped ones.
    fn points(&self, parameters: &[Parameter]) -> Result<Points> {
        let grid: u128 = parameters.iter().fold(1_u128, |all, p| all.saturating_mul(p.values.len() as u128));
        let too_many = grid > MOST_RUNS.saturating_mul(100);
        let places: Vec<Vec<usize>> = match self.sample {
            Some(0) => return Err(Error::Choice("--sample must be above 0".into())),
            Some(points) if (points as u128) < grid => latin_hypercube(parameters, points, self.seed),
            _ if too_many => return Err(refused(grid, grid.saturating_mul(self.repeat as u128))),
            _ => whole_grid(parameters),
        };
        let (mut points, mut skipped) = (Vec::new(), Vec::new());
        for place in places {
            let values: Vec<&Value> = place.iter().zip(parameters).map(|(n, p)| &p.values[*n]).collect();
            let value = |name: &str| parameters.iter().position(|p| p.name == name).map(|n| values[n]);
            let mut why = None;
            for expression in &self.skip {
                let holds = skip::holds(expression, value).map_err(|problem| Error::Choice(format!("--skip {expression}: {problem}")))?;
                why = why.or_else(|| holds.then(|| expression.clone()));
            }
            let point: Point = values.iter().map(|value| value.label.clone()).collect();
            match why {
                Some(why) => skipped.push((point, why)),
                None => points.push(point),
            }
        }
        if points.is_empty() {
            return Err(Error::Choice(format!("every point is skipped by {}: nothing is left to run", self.skip.join(", "))));
        }
        Ok((points, skipped))
    }
}

fn refused(points: u128, runs: u128) -> Error {
    let count = |n: u128| count(u64::try_from(n).unwrap_or(u64::MAX));
    let problem = format!("{} points are {} runs, more than {}", count(points), count(runs), count(MOST_RUNS));
    Error::Choice(format!("{problem}: vary less, lower --repeat, or give --sample N for N points that cover the grid"))
}

/// Returns every combination, the last parameter varying fastest.
fn whole_grid(parameters: &[Parameter]) -> Vec<Vec<usize>> {
    parameters.iter().fold(vec![Vec::new()], |points, parameter| {
        let longer = |point: Vec<usize>| (0..parameter.values.len()).map(move |n| point.iter().copied().chain([n]).collect());
        points.into_iter().flat_map(longer).collect()
    })
}

/// Returns a Latin hypercube sample (McKay, Beckman and Conover): each parameter takes all its values equally often, or each stratum of
/// them once. Duplicates are dropped.
fn latin_hypercube(parameters: &[Parameter], points: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = SplitMix(seed ^ 0x4c48_5300);
    let columns: Vec<Vec<usize>> = parameters
        .iter()
        .map(|parameter| {
            let mut column: Vec<usize> = (0..points).map(|n| n * parameter.values.len() / points).collect();
            random.shuffle(&mut column);
            column
        })
        .collect();
    let rows: BTreeSet<Vec<usize>> = (0..points).map(|n| columns.iter().map(|column| column[n]).collect()).collect();
    rows.into_iter().collect()
}

impl Sweep {
    fn check_runs(&self) -> Result<()> {
        let runs = self.runs();
        if runs > MOST_RUNS { Err(refused(self.points.len() as u128, runs)) } else { Ok(()) }
    }

    /// Returns the maximum number of runs, including warm-ups and recorded ones.
    pub fn runs(&self) -> u128 {
        let counted = (1 + self.choice.repeat) as u128;
        self.points.len() as u128 * (counted + self.recorded() as u128) + self.ceilings().len() as u128 * counted
    }

    /// Returns the numbers of points to run and of skipped ones.
    pub fn points(&self) -> (usize, usize) {
        (self.points.len(), self.skipped.len())
    }

    /// Returns the maximum number of recorded runs of each point.
    pub(super) fn recorded(&self) -> usize {
        match self.choice.explain {
            Explain::Every => self.choice.repeat,
            Explain::Once => 1,
            Explain::Never => 0,
        }
    }

    /// Returns the value of a parameter at a point.
    pub(super) fn value(&self, point: &Point, name: &str) -> Option<&Value> {
        let place = self.parameters.iter().position(|p| p.name == name)?;
        self.parameters[place].values.iter().find(|value| value.label == point[place])
    }

    /// Fills a template for a point.
    pub(super) fn fill(&self, template: &str, point: &Point, run: &str) -> String {
        filled(template, |name| if name == "run" { Some(run) } else { self.value(point, name).map(|value| value.word.as_str()) })
    }

    /// Returns the command of a point and run, as words.
    pub fn command(&self, point: &Point, run: &str) -> Vec<String> {
        let filled = |word: &String| {
            let words = alone(word).and_then(|name| self.value(point, name)?.words.clone());
            words.unwrap_or_else(|| vec![self.fill(word, point, run)])
        };
        self.choice.command.iter().flat_map(filled).collect()
    }

    /// Returns the parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Returns the skipped points.
    pub fn skipped(&self) -> impl Iterator<Item = &Point> {
        self.skipped.iter().map(|(point, _)| point)
    }

    /// Returns the subject at a point: the server's values, and whether the run is recorded.
    pub(super) fn subject(&self, point: &Point, recorded: bool) -> Subject {
        Subject { server: self.server_takes.iter().map(|n| point[*n].clone()).collect(), recorded, ceiling: false }
    }

    /// Returns the counted case of a point.
    pub(super) fn counted(&self, point: &Point) -> Case<Point, Subject> {
        Case { point: point.clone(), subject: self.subject(point, false), repeat: self.choice.repeat }
    }

    /// Returns the header that identifies this plan. Settings that do not affect figures (repetitions, limits, recording) are left out.
    pub(super) fn header(&self) -> Result<Header> {
        self.header_of("sweep")
    }

    /// Returns the header of another kind of plan over these points.
    pub(super) fn header_of(&self, plan: &str) -> Result<Header> {
        let choice = &self.choice;
        let program = |words: &[String]| Program::of(words.first().map_or("", String::as_str));
        let mut header = Header::new(plan, "")
            .of("vary", &self.parameters)
            .of("skip", &choice.skip)
            .of("sample", choice.sample)
            .of("seed", choice.seed)
            .of("command", &choice.command)
            .of("prepare", &choice.prepare)
            .of("cleanup", &choice.cleanup)
            .of("server", &choice.server)
            .of("port", &choice.port)
            .of("bytes", &choice.bytes)
            .of("cold", &choice.cold)
            .of("warm", &choice.warm);
        if let Some(ceiling) = &choice.ceiling {
            header = header.of("ceiling", ceiling);
        }
        // A program that is itself varied is part of the command's values.
        if names(&choice.command[0]).is_empty() {
            header = header.of("program", program(&choice.command)?);
        }
        if let Some(server) = self.server.as_ref().filter(|words| names(&words[0]).is_empty()) {
            header = header.of("server program", program(server)?);
        }
        Ok(header)
    }

    /// Returns the plans for counted and for recorded runs, which share one log.
    pub(super) fn plans(&self, header: &Header) -> Vec<Plan<Point, Subject>> {
        let plan = |recorded: bool, repeat: usize| {
            let case = |point: &Point| Case { point: point.clone(), subject: self.subject(point, recorded), repeat };
            let ceilings = self.ceilings().into_iter().filter(|_| !recorded).map(|point| self.ceiling_case(point));
            Plan {
                header: header.clone(),
                batches: vec![Batch { name: "sweep".into(), cases: self.points.iter().map(case).chain(ceilings).collect() }],
                order: if self.server_takes.is_empty() { Order::Shuffled } else { Order::BySubject },
                limits: Limits::default(),
                warm_up: !recorded,
                on_failure: OnFailure::LeaveOut,
                seed: self.choice.seed,
            }
        };
        let recorded = self.recorded();
        [plan(false, self.choice.repeat)].into_iter().chain((recorded > 0).then(|| plan(true, recorded))).collect()
    }

    /// Returns the command of each point in its first run.
    pub fn dry_run(&self) -> Vec<String> {
        let line = |point: &Point| self.command(point, "0").join(" ");
        self.points.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(vary: &[&str], command: &str) -> Choice {
        let words = command.split(' ').map(str::to_owned).collect();
        Choice { vary: vary.iter().map(ToString::to_string).collect(), command: words, ..Choice::default() }
    }

    fn wrong(choice: Choice) -> String {
        choice.plan().unwrap_err().to_string()
    }

    #[test]
    fn the_grid_is_every_combination_but_the_skipped() {
        let asked = Choice { skip: vec!["a * b > 4".into()], ..choice(&["a=1,2,4", "b=1..2"], "true {a} {b}") };
        let sweep = asked.plan().unwrap();
        assert_eq!(sweep.dry_run(), ["true 1 1", "true 1 2", "true 2 1", "true 2 2", "true 4 1"]);
        assert_eq!(sweep.skipped, [(vec!["4".to_owned(), "2".to_owned()], "a * b > 4".to_owned())]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_before_anything_runs() {
        assert!(wrong(choice(&["a=1"], "true {b}")).contains("`{b}` is no parameter; the parameters are: a"));
        assert!(wrong(choice(&["a=1", "b=2"], "true {a}")).contains("--vary b: nothing uses it"));
        assert!(wrong(choice(&["a=1", "a=2"], "true {a}")).contains("given twice"));
        assert!(wrong(choice(&[], "true")).contains("nothing is varied"));
        assert!(wrong(Choice { command: Vec::new(), ..choice(&["a=1"], "x") }).contains("no command"));
        assert!(wrong(Choice { skip: vec!["a == 1".into()], ..choice(&["a=1"], "true {a}") }).contains("every point is skipped"));
        assert!(wrong(Choice { skip: vec!["c > 1".into()], ..choice(&["a=1"], "true {a}") }).contains("no parameter `c`"));
        assert!(wrong(Choice { server: Some("x {a}".into()), ..choice(&["a=1"], "true") }).contains("needs --port"));
        let with_server = |line: &str| Choice { server: Some(line.into()), port: Some("1".into()), ..choice(&["a=1"], "true {a}") };
        assert!(wrong(with_server("x {run}")).contains("has no {run}"));
        assert!(wrong(with_server("x 'y")).contains("not closed"));
        assert!(wrong(Choice { repeat: 0, ..choice(&["a=1"], "true {a}") }).contains("above 0"));
        assert!(wrong(Choice { sample: Some(0), ..choice(&["a=1"], "true {a}") }).contains("--sample"));
    }

    #[test]
    fn more_than_ten_thousand_runs_are_refused_with_their_number() {
        let error = wrong(choice(&["a=1..100", "b=1..10"], "true {a} {b}"));
        assert!(error.contains("1,000 points are 12,000 runs, more than 10,000"), "{error}");
        let huge = wrong(choice(&["a=1..9999", "b=1..9999", "c=1..9999"], "true {a} {b} {c}"));
        assert!(huge.contains("999,700,029,999 points"), "{huge}");
        let sweep = Choice { sample: Some(50), ..choice(&["a=1..9999", "b=1..9999", "c=1..5"], "true {a} {b} {c}") }.plan().unwrap();
        assert_eq!(sweep.points.len(), 50);
        // Each value of a small parameter is met equally often, and each fiftieth of a large one.
        for value in &sweep.parameters[2].values {
            assert_eq!(sweep.points.iter().filter(|point| point[2] == value.label).count(), 10);
        }
        let fiftieths: BTreeSet<usize> = sweep.points.iter().map(|point| (point[0].parse::<usize>().unwrap() - 1) * 50 / 9999).collect();
        assert!(fiftieths.len() >= 49, "{}", fiftieths.len());
    }

    #[test]
    fn runs_with_one_setting_of_the_server_are_kept_together() {
        let mut asked = choice(&["threads=1,2", "block=1,2,3"], "true {block}");
        (asked.server, asked.port) = (Some("serve {threads}".into()), Some("4000".into()));
        let sweep = asked.plan().unwrap();
        let plan = sweep.plans(&Header::new("sweep", "")).remove(0);
        assert_eq!(plan.order, Order::BySubject);
        let subjects: BTreeSet<Vec<String>> = plan.batches[0].cases.iter().map(|case| case.subject.server.clone()).collect();
        assert_eq!(subjects.len(), 2);
    }
}
