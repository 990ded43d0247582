//! Commands as the subjects of a plan: each is run as a whole process, interleaved with the others, until the ratios are precise enough.
//!
//! The plan is a document ([`CommandPlan`]), so any program that writes JSON can have commands measured. A command is compared by its wall
//! time, and by numbers that it prints: if the last line (or all) of its output is a JSON object, the object's numbers are its figures, and
//! likewise for its cleanup.

mod document;
mod plan;

use document::CommandRun;
pub use document::{CommandResult, Outcome, WALL};
pub use plan::CommandPlan;
use plan::{Subject, Words, filled};

use crate::engine::{Failure, Observer, Subjects, measure};
use crate::plan::{Batch, Case, Header, Limits, OnFailure, Order, Plan};
use crate::runs::Runs;
use crate::{CacheState, Error, Machine, Process, Result, evict, warm};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

impl CommandPlan {
    /// Runs the plan. With a path, each run is written to a raw log there; with `resume`, runs in the log are not repeated.
    ///
    /// # Errors
    /// The plan is invalid, a command fails, the log cannot be used, or [`Error::Stopped`].
    pub fn run(&self, log: Option<(&Path, bool)>, observer: &dyn Observer) -> Result<Outcome> {
        let pairs = self.all_pairs()?;
        let repeat = self.repeat;
        let case = |subject: &Subject| Case { point: self.name.clone(), subject: subject.name.clone(), repeat: repeat.most };
        let plan = Plan {
            header: Header::new("commands", &self.name).of("commands", &self.commands),
            batches: vec![Batch { name: self.name.clone(), cases: self.commands.iter().map(case).collect() }],
            order: Order::Shuffled,
            limits: Limits { least: repeat.least, seconds: repeat.seconds },
            warm_up: self.warm_up,
            on_failure: OnFailure::End,
            seed: self.seed,
        };
        let started_unix_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let machine = Machine::describe(&self.directory.iter().collect::<Vec<_>>());
        let measured = measure(&plan, log, &mut Commands { plan: self, pairs: &pairs }, observer)?;
        Ok(Outcome::new(self, &pairs, &measured, machine, started_unix_s))
    }

    /// Returns the pairs to compare, each once.
    fn all_pairs(&self) -> Result<Vec<(String, String)>> {
        let wrong = |problem: String| Error::Plan { plan: self.name.clone(), problem };
        if self.repeat.least == 0 || self.repeat.most < self.repeat.least {
            return Err(wrong(format!("expected 1 ≤ least ≤ most, but least is {} and most is {}", self.repeat.least, self.repeat.most)));
        }
        if let Some(empty) = self.commands.iter().find(|subject| subject.command.is_empty()) {
            return Err(wrong(format!("{}: empty command", empty.name)));
        }
        let names = || self.commands.iter().map(|subject| subject.name.as_str());
        let of_baseline = self.baseline.iter().flat_map(|of| names().filter(move |to| of != to).map(move |to| (of.clone(), to.to_owned())));
        let mut pairs: Vec<(String, String)> = of_baseline.collect();
        for pair in &self.pairs {
            if !pairs.contains(pair) {
                pairs.push(pair.clone());
            }
        }
        let is_unknown = |name: &&String| names().all(|known| known != name.as_str());
        if let Some(name) = self.baseline.iter().chain(pairs.iter().flat_map(|(of, to)| [of, to])).find(is_unknown) {
            return Err(wrong(format!("no command is named {name}; the commands are: {}", names().collect::<Vec<_>>().join(", "))));
        }
        Ok(pairs)
    }
}

/// Runs the commands of a plan.
struct Commands<'a> {
    plan: &'a CommandPlan,
    pairs: &'a [(String, String)],
}

impl Subjects for Commands<'_> {
    type Point = String;
    type Subject = String;
    type Sample = CommandRun;

    fn name(&self, case: &Case<String, String>) -> String {
        case.subject.clone()
    }

    fn before_repetition(&mut self, repeat: usize) -> std::result::Result<(), Failure> {
        self.each(&self.plan.before_repetition, "", repeat)?;
        Ok(())
    }

    fn run(&mut self, case: &Case<String, String>, repeat: usize) -> std::result::Result<CommandRun, Failure> {
        let known = self.plan.commands.iter().find(|subject| subject.name == case.subject);
        let subject = known.ok_or("a case of no command: a bug")?;
        let ran = self.once(subject, repeat);
        // The cleanup runs whatever happened; the first error is reported.
        let cleaned = self.each(&subject.cleanup, &subject.name, repeat);
        let mut run = ran?;
        for output in cleaned? {
            run.figures.extend(numbers(&output));
        }
        if let Some(missing) = subject.figures.iter().find(|name| !run.figures.contains_key(*name)) {
            return Err(format!("prints no number called {missing}").into());
        }
        run.figures.retain(|name, _| subject.figures.contains(name));
        Ok(run)
    }

    fn is_enough(&self, _batch: &Batch<String, String>, runs: &Runs<String, String, CommandRun>) -> bool {
        let (point, width) = (&self.plan.name, self.plan.repeat.narrow);
        let wall = |run: &CommandRun| [run.usage.wall_s];
        if self.pairs.is_empty() {
            let estimate = |subject: &Subject| runs.estimate(point, &subject.name, wall);
            return self.plan.commands.iter().all(|subject| estimate(subject).is_some_and(|e| e.relative_width() < width));
        }
        self.pairs.iter().all(|(of, to)| runs.ratio(point, of, to, wall).is_some_and(|(e, _)| e.relative_width() < width))
    }
}

impl Commands<'_> {
    fn once(&self, subject: &Subject, repeat: usize) -> std::result::Result<CommandRun, Failure> {
        self.each(&subject.prepare, &subject.name, repeat)?;
        let cache: Option<CacheState> = match (subject.cold.as_slice(), subject.warm.as_slice()) {
            ([], []) => None,
            ([], files) => Some(warm(files)?),
            (files, _) => Some(evict(files)?),
        };
        let (usage, output) = self.process(&subject.command, &subject.name, repeat).run_for_output()?;
        let text = String::from_utf8_lossy(&output);
        let figures = numbers(&text);
        Ok(CommandRun { repeat, usage, figures, cache, output: self.plan.keep_output.then(|| text.into_owned()) })
    }

    /// Runs untimed commands one after the other; returns their outputs.
    fn each(&self, commands: &[Words], name: &str, repeat: usize) -> Result<Vec<String>> {
        let one = |words: &Words| self.process(words, name, repeat).run_for_output();
        commands.iter().map(|words| Ok(String::from_utf8_lossy(&one(words)?.1).into_owned())).collect()
    }

    fn process(&self, words: &[String], name: &str, repeat: usize) -> Process {
        let words = filled(words, name, repeat);
        let mut command = Command::new(words.first().map_or("", String::as_str));
        command.args(words.iter().skip(1));
        Process::new(command).keep_output().time_limit(Duration::from_secs_f64(self.plan.limit_s))
    }
}

/// Returns the numbers of the JSON object in a command's output: all of it, or else its last line.
fn numbers(output: &str) -> BTreeMap<String, f64> {
    let last = || output.trim_end().rsplit('\n').next().unwrap_or_default();
    let found = serde_json::from_str(output).or_else(|_| serde_json::from_str(last()));
    let object: serde_json::Map<String, serde_json::Value> = found.unwrap_or_default();
    object.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::plan::Repeat;
    use super::*;

    fn plan(text: &str) -> CommandPlan {
        serde_json::from_str(text).unwrap()
    }

    fn printing(numbers: &str) -> String {
        format!(
            r#"{{"name": "x", "repeat": {{"least": 3, "most": 40, "narrow": 0.05}}, "commands": [
                {{"name": "a", "figures": ["n"], "command": ["true"], "cleanup": [["sh", "-c", "echo '{{\"n\": 10}}'"]]}},
                {{"name": "b", "figures": ["n"], "command": ["sh", "-c", "echo words; echo '{{\"n\": {numbers}, \"other\": \"x\"}}'"]}}], "baseline": "a"}}"#
        )
    }

    #[test]
    fn a_number_that_a_command_or_its_cleanup_prints_is_a_figure_and_is_compared() {
        let outcome =
            CommandPlan { repeat: Repeat { least: 2, most: 2, ..Repeat::default() }, ..plan(&printing("30")) }.run(None, &()).unwrap();
        let of = |figure: &str| outcome.ratios.iter().find(|r| r.figure == figure).unwrap();
        assert_eq!((of("n").of.as_str(), of("n").to.as_str(), of("n").ratio.median), ("a", "b", 3.0));
        assert_eq!(of("wall_s").pairs.len(), 2);
        assert_eq!(outcome.commands[1].figures["n"].median, 30.0);
        let mut other = plan(&printing("30"));
        other.commands[0].figures = vec!["speed".into()];
        let missing = other.run(None, &()).unwrap_err();
        assert_eq!(missing.to_string().split(": ").nth(2), Some("prints no number called speed"));
    }

    #[test]
    fn every_run_is_numbered_prepared_and_cleaned_up_and_its_failure_named() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let say = |word: &str| vec!["sh".to_owned(), "-c".to_owned(), format!("echo {word} {{name}} {{run}} >> {}", log.display())];
        let subject = Subject {
            name: "a".into(),
            command: say("go"),
            prepare: vec![say("before")],
            cleanup: vec![say("after")],
            ..Subject::default()
        };
        let least = r#"{"name": "x", "commands": [], "repeat": {"least": 1, "most": 1}}"#;
        let mut plan = CommandPlan { commands: vec![subject], ..plan(least) };
        plan.run(None, &()).unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        assert_eq!(text, "before a 0\ngo a 0\nafter a 0\nbefore a 1\ngo a 1\nafter a 1\n");
        plan.commands[0].command = ["sh", "-c", "test {run} = 0 || { echo the disk is full >&2; exit 3; }"].map(String::from).to_vec();
        let error = plan.run(None, &()).unwrap_err().to_string();
        assert!(error.starts_with("x: a, run 1: sh -c ") && error.ends_with("standard error: the disk is full"), "{error}");
        assert!(std::fs::read_to_string(&log).unwrap().ends_with("after a 1\n"), "cleaned up after a failure too");
    }

    #[test]
    fn what_was_verified_of_the_caches_stands_in_the_result() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("source");
        std::fs::write(&file, vec![1; 1 << 16]).unwrap();
        let subject = |name: &str| Subject { name: name.into(), command: vec!["true".into()], ..Subject::default() };
        let commands =
            vec![Subject { cold: vec![file.clone()], ..subject("cold") }, Subject { warm: vec![file.clone()], ..subject("warm") }];
        let repeat = Repeat { least: 2, most: 2, ..Repeat::default() };
        let outcome = CommandPlan { commands, repeat, directory: Some(file), ..plan(r#"{"name": "caches", "commands": []}"#) }
            .run(None, &())
            .unwrap();
        // A file system may keep its pages; the state must be reported either way.
        assert!(outcome.commands.iter().all(|c| c.runs.iter().all(|r| r.cache.is_some())));
        assert!(outcome.commands[1].cache().unwrap().is_verified());
        assert_eq!(outcome.machine.file_systems.len(), 1);
    }

    #[test]
    fn a_plan_that_cannot_be_meant_is_refused() {
        let wrong = |text: &str| plan(text).run(None, &()).unwrap_err().to_string();
        let one = r#"{"name": "a", "command": ["true"]}"#;
        assert!(wrong(&format!(r#"{{"name": "x", "commands": [{one}, {one}]}}"#)).contains("occurs twice"));
        assert_eq!(
            wrong(&format!(r#"{{"name": "x", "commands": [{one}], "baseline": "raw"}}"#)),
            "x: no command is named raw; the commands are: a"
        );
        assert!(wrong(r#"{"name": "x", "commands": []}"#).contains("at least one case"));
        assert!(wrong(r#"{"name": "x", "commands": [], "repeat": {"least": 3, "most": 2}}"#).contains("1 ≤ least ≤ most"));
        assert!(wrong(r#"{"name": "x", "commands": [{"name": "a", "command": []}]}"#).contains("empty command"));
    }
}
