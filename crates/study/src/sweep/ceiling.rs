//! The measured ceiling: a command that moves the same bytes as fast as the hardware allows, run interleaved with the points, so that both
//! see the same machine. It is run for each setting of the parameters that it depends on, not for each point.

use super::plan::{CEILING, Choice, Sweep};
use super::point::RunResult;
use super::sample::{Point, Sample, State, Subject, Swept};
use super::template::{names, words};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use thalweg_measure::{Case, Estimate, estimate};

impl Choice {
    /// Parses the ceiling's command, if there is one.
    pub(super) fn check_ceiling(&self) -> Result<Option<Vec<String>>> {
        let Some(line) = &self.ceiling else { return Ok(None) };
        let wrong = |problem: &str| Error::Choice(format!("{CEILING} {line}: {problem}"));
        if self.bytes.is_none() {
            return Err(wrong("a ceiling is a rate: give --bytes, the amount that this command and each run move"));
        }
        if self.ceiling_bytes_per_s.is_some() {
            return Err(wrong("ceiling_bytes_per_s is given too: give only one of them"));
        }
        words(line).map(Some).map_err(|problem| wrong(&problem))
    }
}

impl Sweep {
    /// Returns the points at which the ceiling is measured: one for each setting that it depends on.
    pub(super) fn ceilings(&self) -> Vec<&Point> {
        if self.ceiling.is_none() {
            return Vec::new();
        }
        let mut met = BTreeSet::new();
        self.points.iter().filter(|point| met.insert(self.seen_by_ceiling(point))).collect()
    }

    /// Returns the values that the ceiling depends on: those in its command, and those in `bytes`.
    fn seen_by_ceiling(&self, point: &Point) -> Vec<String> {
        let templates = [&self.choice.ceiling, &self.choice.bytes];
        let known: BTreeSet<&str> = templates.into_iter().flatten().flat_map(|template| names(template)).collect();
        let seen = self.parameters.iter().zip(point).filter(|(parameter, _)| known.contains(parameter.name.as_str()));
        seen.map(|(_, label)| label.clone()).collect()
    }

    pub(super) fn ceiling_case(&self, point: &Point) -> Case<Point, Subject> {
        let subject = Subject { server: Vec::new(), recorded: false, ceiling: true };
        Case { point: point.clone(), subject, repeat: self.choice.repeat }
    }

    /// Returns its command as words.
    pub(super) fn ceiling_command(&self, point: &Point, run: &str) -> Vec<String> {
        self.ceiling.iter().flatten().map(|word| self.fill(word, point, run)).collect()
    }

    /// Returns the ceiling's rates that a point is compared with, by repetition.
    fn ceiling_rates(&self, point: &Point, runs: &Swept) -> BTreeMap<usize, f64> {
        let seen = self.seen_by_ceiling(point);
        let Some(at) = self.ceilings().into_iter().find(|other| self.seen_by_ceiling(other) == seen) else { return BTreeMap::new() };
        let samples = runs.of(at, &self.ceiling_case(at).subject);
        samples.into_iter().filter_map(|(repeat, sample)| Some((repeat, sample.rate()?))).collect()
    }

    /// Returns the ceiling's rate at this point's values.
    pub(super) fn ceiling_at(&self, point: &Point, runs: &Swept) -> Option<Estimate> {
        estimate(&self.ceiling_rates(point, runs).into_values().collect::<Vec<_>>())
    }

    /// Returns a point's rate over the ceiling's, within each repetition.
    pub(super) fn part_of_ceiling(&self, point: &Point, of: &[RunResult], runs: &Swept) -> Option<Estimate> {
        let ceiling = self.ceiling_rates(point, runs);
        let parts = of.iter().filter_map(|run| Some(run.rate()? / ceiling.get(&run.repeat)?));
        estimate(&parts.collect::<Vec<_>>())
    }

    /// Returns why the ceiling was not measured somewhere.
    pub(super) fn ceiling_problem(&self, runs: &Swept) -> Option<String> {
        let samples = |at: &Point| -> Vec<&Sample> {
            let subject = self.ceiling_case(at).subject;
            runs.of(at, &subject).into_iter().map(|(_, sample)| sample).chain(runs.get(at, &subject, 0)).collect()
        };
        let bad = |at: &Point| samples(at).into_iter().find(|sample| sample.state != State::Done).and_then(|sample| sample.problem.clone());
        self.ceilings().into_iter().find_map(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Explain;
    use super::*;
    use thalweg_measure::{Closures, Machine, Usage, measure};

    fn choice(ceiling: &str, bytes: &str) -> Choice {
        Choice {
            vary: vec!["streams=1,2".into(), "block=1,2,4".into()],
            command: ["true", "{streams}", "{block}"].map(str::to_owned).to_vec(),
            ceiling: Some(ceiling.into()),
            bytes: Some(bytes.into()),
            explain: Explain::Never,
            narrow: 0.0,
            ..Choice::default()
        }
    }

    #[test]
    fn it_is_measured_once_for_what_it_depends_on_and_in_turn_with_the_points() {
        let at = |ceiling: &str, bytes: &str| {
            let sweep = choice(ceiling, bytes).plan().unwrap();
            (sweep.ceilings().len(), sweep.runs())
        };
        assert_eq!(at("true", "1Ki"), (1, (6 + 1) * 11));
        assert_eq!(at("true {streams}", "1Ki"), (2, (6 + 2) * 11));
        assert_eq!(at("true", "{block}"), (3, (6 + 3) * 11));
        let sweep = choice("true", "1Ki").plan().unwrap();
        let plan = sweep.plans(&sweep.header().unwrap()).remove(0);
        assert_eq!(plan.batches[0].cases.iter().filter(|case| case.subject.ceiling).count(), 1, "of one batch with all points");
    }

    #[test]
    fn a_point_is_held_against_the_ceiling_of_its_own_repetition() {
        let sweep = choice("true {streams}", "1Mi").plan().unwrap();
        let plan = sweep.plans(&sweep.header().unwrap()).remove(0);
        // The machine gets slower by half in the course of the sweep; a point with `block` 4 takes four times what the ceiling takes.
        let mut subjects = Closures::new(|case: &Case<Point, Subject>, repeat| {
            let part = if case.subject.ceiling { 1.0 } else { case.point[1].parse::<f64>()? };
            let wall_s = part * case.point[0].parse::<f64>()? * (1.0 + 0.05 * repeat as f64);
            let usage = Usage { wall_s, user_s: 0.0, system_s: 0.0, max_rss_bytes: 0, voluntary_switches: 0, involuntary_switches: 0 };
            Ok(Sample { usage: Some(usage), bytes: Some(1 << 20), ..Sample::bare(State::Done, None) })
        });
        let runs: Swept = measure(&plan, None, &mut subjects, &()).unwrap().runs;
        let document = sweep.document(Machine::describe::<&str>(&[]), &runs);
        for point in &document.points {
            let part = point.of_ceiling.unwrap();
            let expected = 1.0 / point.values[1].parse::<f64>().unwrap();
            assert!((part.median - expected).abs() < 1e-9 && part.high - part.low < 1e-9, "{:?}: {part:?}", point.values);
            assert_eq!(point.runs.len(), 10, "the ceiling's runs are none of the point's");
        }
        let ceilings: Vec<f64> = document.points.iter().map(|point| point.ceiling_bytes_per_s.unwrap().median).collect();
        assert!((ceilings[0] / ceilings[3] - 2.0).abs() < 1e-9, "each point has that of its own streams: {ceilings:?}");
        assert!(document.points.iter().all(|point| point.of_ceiling.is_some()));
    }

    #[test]
    fn a_ceiling_without_bytes_or_with_a_name_that_is_no_parameter_is_refused() {
        let wrong = |choice: Choice| choice.plan().unwrap_err().to_string();
        assert!(wrong(Choice { bytes: None, ..choice("true", "1") }).contains("give --bytes"));
        assert!(wrong(choice("true {speed}", "1Ki")).contains("`{speed}` is no parameter"));
        assert!(wrong(choice("true 'x", "1Ki")).contains("not closed"));
        let used_by_ceiling_alone = Choice { command: vec!["true".into(), "{block}".into()], ..choice("true {streams}", "1Ki") };
        assert!(wrong(used_by_ceiling_alone).contains("--vary streams: nothing uses it"));
    }
}
