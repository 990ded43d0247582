//! Conditions for failing a run: `rate < 500MiB/s`, `share(server.sync) > 20%`, `wall > 3s`, `slower than baseline.json by 5%`.
//!
//! A condition is parsed before anything is run, and judged on the document alone. For a command that was run several times, wall time and
//! rate are the median run's.

use crate::cause::Cause;
use crate::diff::{different_amount, wall_s as wall_of};
use crate::document::Explanation;
use crate::limits::summary as limits;
use thalweg_base::numbers::{byte_rate, duration, parse_duration, parse_rate, percent};

/// A condition; a run for which it holds fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    what: Criterion,
}

#[derive(Clone, Debug, PartialEq)]
enum Criterion {
    Rate(Side, f64),
    Wall(Side, f64),
    Share(Vec<Cause>, Side, f64),
    Slower { than: String, by: f64 },
}

/// The side of the bound on which a figure fails a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Below,
    Above,
}

const EXPECTED: &str = "expected 'rate < 500MiB/s', 'wall > 3s', 'share(server.sync) > 20%' or 'slower than EARLIER.json by 5%'";

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// The text is no condition; the error names what was expected.
    pub fn parse(text: &str) -> Result<Condition, String> {
        let what = match text.trim().strip_prefix("slower than ") {
            Some(rest) => slower(rest)?,
            None => comparison(text)?,
        };
        Ok(Condition { text: text.trim().to_owned(), what })
    }

    /// The file of the run compared with: a recording or an explanation.
    pub fn baseline(&self) -> Option<&str> {
        if let Criterion::Slower { than, .. } = &self.what { Some(than) } else { None }
    }

    /// Returns the condition and the figure by which it holds, in one line; `None` if it does not hold. `baseline` is the explanation of
    /// [`Condition::baseline`].
    ///
    /// # Errors
    /// The document lacks the figure that the condition needs.
    pub fn holds(&self, e: &Explanation, baseline: Option<&Explanation>) -> Result<Option<String>, String> {
        let failed = |problem: String| Err(format!("'{}' cannot be judged: {problem}", self.text));
        let wall_s = wall_of(e);
        let (holds, figure) = match &self.what {
            Criterion::Rate(side, bound) => {
                // What programs read as they start is no transfer.
                let Some(bytes) = e.size_bytes.filter(|bytes| *bytes >= limits::LEAST_BYTES) else {
                    return failed("no moved bytes were recorded, so there is no rate; use 'wall > TIME'".to_owned());
                };
                let rate = bytes as f64 / wall_s;
                (side.fails(rate, *bound), format!("the rate is {}", byte_rate(rate)))
            }
            Criterion::Wall(side, bound) => (side.fails(wall_s, *bound), format!("it took {}", duration(wall_s))),
            Criterion::Share(causes, side, bound) => {
                let share: f64 = e.critical_path.iter().filter(|charge| causes.contains(&charge.cause)).map(|charge| charge.share).sum();
                (side.fails(share, *bound), format!("the share is {}", percent(share)))
            }
            Criterion::Slower { than, by } => {
                let Some(before) = baseline else { return failed(format!("{than} was not read")) };
                let before_s = wall_of(before);
                if let Some(why) = different_amount(before, e) {
                    return failed(format!("{than} did different work: {why}"));
                }
                let slower = wall_s / before_s - 1.0;
                let figure = format!("{} against {}, {} slower", duration(wall_s), duration(before_s), percent(slower.max(0.0)));
                (slower > *by, figure)
            }
        };
        Ok(holds.then(|| format!("'{}': {figure}", self.text)))
    }
}

impl Side {
    fn fails(self, figure: f64, bound: f64) -> bool {
        match self {
            Side::Below => figure < bound,
            Side::Above => figure > bound,
        }
    }
}

fn slower(rest: &str) -> Result<Criterion, String> {
    let (than, by) = rest.rsplit_once(" by ").ok_or_else(|| format!("'by PERCENT' is missing; {EXPECTED}"))?;
    if than.trim().is_empty() {
        return Err(format!("the earlier run is missing; {EXPECTED}"));
    }
    Ok(Criterion::Slower { than: than.trim().to_owned(), by: part(by)? })
}

fn comparison(text: &str) -> Result<Criterion, String> {
    let at = text.find(['<', '>']).ok_or(EXPECTED)?;
    let side = if text.as_bytes()[at] == b'<' { Side::Below } else { Side::Above };
    let (what, bound) = (text[..at].trim(), text[at + 1..].trim());
    let wrong = |problem: String| format!("{bound}: {problem}");
    match what {
        "rate" => Ok(Criterion::Rate(side, parse_rate(bound).map_err(wrong)?)),
        "wall" => Ok(Criterion::Wall(side, parse_duration(bound).map_err(wrong)?.as_secs_f64())),
        _ => {
            let name = what.strip_prefix("share(").and_then(|rest| rest.strip_suffix(')'));
            let name = name.ok_or_else(|| format!("{what}: no such figure; {EXPECTED}"))?;
            Ok(Criterion::Share(causes(name.trim())?, side, part(bound)?))
        }
    }
}

/// The causes with this name: one, those of an end (`server`), or those of a kind at both ends (`sync`).
fn causes(name: &str) -> Result<Vec<Cause>, String> {
    let is_meant = |cause: &Cause| cause.name() == name || cause.name().split('.').any(|part| part == name);
    let found: Vec<Cause> = Cause::ALL.iter().copied().filter(is_meant).collect();
    if found.is_empty() {
        let known: Vec<&str> = Cause::ALL.iter().map(|cause| cause.name()).collect();
        return Err(format!("{name}: no such cause; there are {}", known.join(", ")));
    }
    Ok(found)
}

/// Parses a percentage, `20%` or `20 %`, into a fraction.
fn part(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    number.filter(|n| n.is_finite() && *n >= 0.0).map(|n| n / 1e2).ok_or_else(|| format!("{}: expected a part like 20%", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_as_they_are_written() {
        let what = |text: &str| Condition::parse(text).unwrap().what;
        assert_eq!(what("rate < 500MiB/s"), Criterion::Rate(Side::Below, f64::from(500 << 20)));
        assert_eq!(what("rate<4Gb/s"), Criterion::Rate(Side::Below, 5e8));
        assert_eq!(what("wall > 2.5s"), Criterion::Wall(Side::Above, 2.5));
        assert_eq!(what("share(server.sync) > 20%"), Criterion::Share(vec![Cause::ServerSync], Side::Above, 0.2));
        assert_eq!(what("share(sync) > 0 %"), Criterion::Share(vec![Cause::ClientSync, Cause::ServerSync], Side::Above, 0.0));
        assert!(matches!(what("share(network) > 5%"), Criterion::Share(causes, ..) if causes.len() == 6));
        assert_eq!(what("slower than a by b.json by 5%"), Criterion::Slower { than: "a by b.json".into(), by: 0.05 });
        assert_eq!(Condition::parse(" slower than run.thw by 5 % ").unwrap().baseline(), Some("run.thw"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_was_expected() {
        for (text, named) in [
            ("", "expected 'rate <"),
            ("rate", "expected 'rate <"),
            ("speed < 3s", "speed: no such figure"),
            ("rate < fast", "fast: expected a rate"),
            ("rate < 500", "500"),
            ("wall > 3MiB", "3MiB: expected a time"),
            ("share(server.mood) > 20%", "server.mood: no such cause; there are client.read"),
            ("share(server.sync) > 20", "20: expected a part like 20%"),
            ("share(server.sync > 20%", "no such figure"),
            ("slower than x.json", "'by PERCENT' is missing"),
            ("slower than  by 5%", "the earlier run is missing"),
            ("slower than x.json by -5%", "-5%: expected a part"),
        ] {
            match Condition::parse(text) {
                Err(problem) => assert!(problem.contains(named), "{text}: {problem}"),
                // A rate without a unit is bytes per second.
                Ok(condition) => assert_eq!(condition.what, Criterion::Rate(Side::Below, 500.0), "{text}"),
            }
        }
    }
}
