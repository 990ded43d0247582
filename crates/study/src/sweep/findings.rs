//! Findings in the points: the best one and its equals, the parameters that matter, where the largest cause changes, and what failed points
//! have in common.

use super::point::{PointResult, RunResult, name, places};
use super::sample::{Point, State};
use super::values::Parameter;
use super::variance::{Observed, Share, analyse};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thalweg_measure::{Estimate, estimate};

/// The findings of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Findings {
    /// A sentence on which parameters mattered and which did not.
    pub sentence: String,
    /// Whether points differ by more than noise; absent if the noise is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub differs: Option<bool>,
    /// The share of variance that each parameter explains, largest first.
    pub shares: Vec<Share>,
    /// The point with the highest rate, or else the shortest time; absent if no difference was found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub best: Option<Point>,
    /// The points not distinguishable from it: the interval of the paired ratio covers 1.
    pub equals: Vec<Point>,
    /// Where the largest cause changes from one value of a parameter to the next.
    pub handovers: Vec<Handover>,
    /// The values that all failed points have, and no other.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failures: Option<String>,
}

/// A place where the largest cause changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// The parameter along which it changes.
    pub parameter: String,
    /// The last value with the first cause.
    pub before: String,
    /// The first value with the second cause.
    pub after: String,
    /// The first cause.
    pub from: String,
    /// The second cause.
    pub to: String,
    /// Number of settings of the other parameters at which it changes so.
    pub times: usize,
}

/// Computes the findings.
pub(super) fn find(parameters: &[Parameter], points: &[PointResult]) -> Findings {
    let done: Vec<&PointResult> = points.iter().filter(|p| p.state == State::Done && p.wall_s.is_some()).collect();
    let observed = |point: &&PointResult| {
        let log = |run: &RunResult| (run.repeat, -run.rate().unwrap_or(1.0 / run.wall_s).ln());
        Observed { places: places(parameters, &point.values), logs: point.runs.iter().map(log).collect() }
    };
    // Rates of 0 bytes have no logarithm.
    let all: Vec<Observed> = done.iter().map(observed).filter(|o| o.logs.iter().all(|(_, log)| log.is_finite())).collect();
    let names: Vec<String> = parameters.iter().map(|parameter| parameter.name.clone()).collect();
    let variance = analyse(&names, &all);
    let (shares, differs) = variance.map_or((Vec::new(), None), |v| (v.shares, v.differs));
    let best = if differs == Some(false) { None } else { best(&done) };
    let equals = best.map_or_else(Vec::new, |best| {
        let is_equal = |point: &&&PointResult| {
            point.values != best.values && slower(point, best).is_none_or(|ratio| ratio.covers(1.0) || ratio.median < 1.0)
        };
        done.iter().filter(is_equal).map(|point| point.values.clone()).collect()
    });
    Findings {
        sentence: sentence(&shares, differs, done.len(), points.len()),
        differs,
        shares,
        best: best.map(|best| best.values.clone()),
        equals,
        handovers: handovers(parameters, points),
        failures: failures(parameters, points),
    }
}

fn best<'a>(done: &[&'a PointResult]) -> Option<&'a PointResult> {
    let figure = |p: &PointResult| p.rate_bytes_per_s.map_or_else(|| p.wall_s.map_or(0.0, |wall| 1.0 / wall.median), |rate| rate.median);
    done.iter().copied().max_by(|a, b| figure(a).total_cmp(&figure(b)))
}

/// Returns a point's time relative to another's, repetition by repetition; `None` if fewer than two repetitions are shared.
fn slower(of: &PointResult, than: &PointResult) -> Option<Estimate> {
    let figure = |run: &RunResult| run.rate().map_or(run.wall_s, |rate| 1.0 / rate);
    let theirs: BTreeMap<usize, f64> = than.runs.iter().map(|run| (run.repeat, figure(run))).collect();
    let ratios: Vec<f64> = of.runs.iter().filter_map(|run| Some(figure(run) / theirs.get(&run.repeat)?)).collect();
    (ratios.len() > 1).then(|| estimate(&ratios)).flatten()
}

fn sentence(shares: &[Share], differs: Option<bool>, done: usize, all: usize) -> String {
    match (done, differs) {
        (0, _) => return format!("None of {all} points has a figure."),
        (1, _) => return "One point has a figure: there is nothing to compare it with.".into(),
        (_, Some(false)) => return "No difference found: the noise of single runs is larger than every difference between points.".into(),
        _ => {}
    }
    let percent = |part: f64| (part * 100.0).round();
    let words = |share: &Share| {
        let [share_of_all, low, high] = [share.share, share.low, share.high].map(percent);
        // Where single runs hardly differ, the interval is a point.
        let interval = if low < high { format!(", {low:.0} to {high:.0}") } else { String::new() };
        format!("{} ({share_of_all:.0} % of the variance{interval})", share.parameter)
    };
    let (mattered, not): (Vec<&Share>, Vec<&Share>) = shares.iter().partition(|share| share.matters);
    let list = |shares: &[&Share]| shares.iter().map(|share| words(share)).collect::<Vec<_>>().join(", then ");
    let together = 1.0 - shares.iter().map(|share| share.share).sum::<f64>();
    let mut text = match (mattered.as_slice(), not.as_slice()) {
        ([], _) => "No parameter mattered by itself".to_owned(),
        (mattered, []) => format!("What mattered: {}", list(mattered)),
        (mattered, not) => format!("What mattered: {}; what did not: {}", list(mattered), list(not)),
    };
    if together > 0.05 {
        text += &format!("; {:.0} % is due to how they act together", percent(together));
    }
    if differs.is_none() {
        text += "; each point was run once, so that noise is not known";
    }
    text + "."
}

/// Finds changes of the largest cause along each parameter, at each setting of the others.
fn handovers(parameters: &[Parameter], points: &[PointResult]) -> Vec<Handover> {
    let by_values: BTreeMap<&Point, &PointResult> = points.iter().map(|point| (&point.values, point)).collect();
    let mut found: Vec<Handover> = Vec::new();
    for (n, parameter) in parameters.iter().enumerate() {
        for pair in parameter.values.windows(2) {
            for point in points.iter().filter(|point| point.values[n] == pair[0].label) {
                let mut next = point.values.clone();
                next[n].clone_from(&pair[1].label);
                let cause = |p: &PointResult| p.explanation.as_ref().map(|e| e.cause.clone());
                let Some((from, to)) = cause(point).zip(by_values.get(&next).and_then(|p| cause(p))) else { continue };
                if from == to {
                    continue;
                }
                let same = |h: &&mut Handover| h.parameter == parameter.name && h.before == pair[0].label && h.from == from && h.to == to;
                match found.iter_mut().find(same) {
                    Some(handover) => handover.times += 1,
                    None => found.push(Handover {
                        parameter: parameter.name.clone(),
                        before: pair[0].label.clone(),
                        after: pair[1].label.clone(),
                        from,
                        to,
                        times: 1,
                    }),
                }
            }
        }
    }
    found.sort_by_key(|handover| std::cmp::Reverse(handover.times));
    found
}

/// Returns the value, or pair of values, that all failed points have and no other point that was run.
fn failures(parameters: &[Parameter], points: &[PointResult]) -> Option<String> {
    let ran: Vec<&PointResult> = points.iter().filter(|point| point.state != State::Skipped).collect();
    let bad = |point: &PointResult| matches!(point.state, State::Failed | State::TimedOut);
    let failed: Vec<&PointResult> = ran.iter().copied().filter(|point| bad(point)).collect();
    let first = failed.first()?;
    if failed.len() == ran.len() {
        return Some(format!("Every point failed or timed out ({} of them).", ran.len()));
    }
    let all = 0..parameters.len();
    let single = all.clone().map(|a| vec![a]);
    let pairs = all.clone().flat_map(|a| (a + 1..parameters.len()).map(move |b| vec![a, b]));
    let explains = |places: &Vec<usize>| ran.iter().all(|point| bad(point) == places.iter().all(|n| point.values[*n] == first.values[*n]));
    let common = single.chain(pairs).find(explains)?;
    // A single point has only its own values.
    let values: Vec<String> = common.iter().map(|n| first.values[*n].clone()).collect();
    let chosen: Vec<Parameter> = common.iter().map(|n| parameters[*n].clone()).collect();
    let together = if common.len() > 1 { " together" } else { "" };
    Some(format!(
        "What failed or timed out ({} of {} points) has {}{together}; nothing else has.",
        failed.len(),
        ran.len(),
        name(&chosen, &values)
    ))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::document::Document;
    use super::super::sample::Digest;
    use super::*;
    use thalweg_measure::Machine;

    /// Returns a sweep over these parameters, with the times and the cause given for each point; no times: it failed.
    pub(crate) fn made_up(vary: &[&str], point: impl Fn(&[String]) -> (Vec<f64>, &'static str)) -> Document {
        let parameters: Vec<Parameter> = vary.iter().map(|text| Parameter::parse(text).unwrap()).collect();
        let grid = parameters.iter().fold(vec![Vec::new()], |points: Vec<Point>, p| {
            points.iter().flat_map(|point| p.values.iter().map(|v| [point.as_slice(), std::slice::from_ref(&v.label)].concat())).collect()
        });
        let points: Vec<PointResult> = grid
            .into_iter()
            .map(|values| {
                let (times, cause) = point(&values);
                let run = |(n, wall_s): (usize, &f64)| RunResult {
                    repeat: n + 1,
                    wall_s: *wall_s,
                    user_s: 0.1,
                    system_s: 0.1,
                    server_cpu_s: None,
                    bytes: None,
                };
                PointResult {
                    state: if times.is_empty() { State::Failed } else { State::Done },
                    problem: times.is_empty().then(|| "sh: exit status: 3; standard error: the disk is full".into()),
                    wall_s: estimate(&times),
                    rate_bytes_per_s: None,
                    ceiling_bytes_per_s: None,
                    of_ceiling: None,
                    client_cpu_s: (!times.is_empty()).then_some(0.2),
                    server_cpu_s: None,
                    cpu_ns_per_byte: None,
                    cache: None,
                    explanation: (!times.is_empty() && !cause.is_empty()).then(|| Digest {
                        cause: cause.into(),
                        place: "here".into(),
                        sentence: "It is so.".into(),
                        shares: vec![(cause.into(), 0.75), ("unknown".into(), 0.25)],
                    }),
                    profile: None,
                    runs: times.iter().enumerate().map(run).collect(),
                    values,
                }
            })
            .collect();
        let findings = find(&parameters, &points);
        Document {
            schema: Document::SCHEMA.into(),
            command: vec!["true".into()],
            server: None,
            ended_unix_s: 0,
            machine: Machine::describe::<&str>(&[]),
            repeat: 10,
            ceiling_bytes_per_s: None,
            ceiling_command: None,
            ceiling_problem: None,
            parameters,
            points,
            findings,
        }
    }

    /// Returns ten runs around this time.
    pub(crate) fn around(seconds: f64) -> Vec<f64> {
        (0..10).map(|n| seconds * (1.0 + 0.002 * f64::from((n * 7) % 5))).collect()
    }

    #[test]
    fn the_best_point_its_equals_and_where_the_cause_changes_are_found() {
        let document = made_up(&["streams=1,2,4", "mode=a,b"], |values| {
            let streams: f64 = values[0].parse().unwrap();
            let time = (8.0 / streams).max(3.0);
            let mut times = around(time);
            times.rotate_left(usize::from(values[1] == "b"));
            (times, if streams < 4.0 { "network.latency" } else { "server.write" })
        });
        let found = &document.findings;
        assert_eq!(found.best.as_ref().unwrap()[0], "4");
        assert_eq!(found.equals.len(), 1, "{:?}", found.equals);
        assert_eq!(found.equals[0][0], "4");
        let [handover] = found.handovers.as_slice() else { panic!("{:?}", found.handovers) };
        assert_eq!((handover.before.as_str(), handover.after.as_str(), handover.times), ("2", "4", 2));
        assert!(
            found.sentence.contains("What mattered: streams (100 %") && found.sentence.contains("what did not: mode (0 %"),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn noise_larger_than_every_difference_has_no_best_point() {
        let noisy = |values: &[String]| {
            let seed: u64 = values[0].parse().unwrap();
            let mut random = thalweg_measure::SplitMix(seed + 11);
            ((0..10).map(|_| 1.0 + random.below(1000) as f64 / 1000.0).collect(), "")
        };
        let found = made_up(&["a=1,2,3"], noisy).findings;
        assert_eq!((found.differs, &found.best), (Some(false), &None));
        assert!(found.sentence.starts_with("No difference found"));
    }

    #[test]
    fn two_values_that_always_fail_together_are_named() {
        let document = made_up(&["a=1,2", "b=x,y", "c=1,2"], |values| {
            (if values[0] == "2" && values[1] == "y" { Vec::new() } else { around(1.0) }, "")
        });
        assert_eq!(document.findings.failures.unwrap(), "What failed or timed out (2 of 8 points) has a=2 b=y together; nothing else has.");
        let document = made_up(&["a=1,2", "b=x,y"], |values| (if values[0] == "2" { Vec::new() } else { around(1.0) }, ""));
        assert!(document.findings.failures.unwrap().contains("has a=2; nothing"));
        let document = made_up(&["a=1,2"], |_| (Vec::new(), ""));
        assert_eq!(document.findings.failures.unwrap(), "Every point failed or timed out (2 of them).");
        assert_eq!(document.findings.sentence, "None of 2 points has a figure.");
    }
}
