//! What came of a study of listings.

use super::bars::bars;
use super::choice::{Choice, Scale};
use super::points::{PointResult, SEED, Trend, lines_through, points};
use super::raw::{CopyLine, CrowdLine, Line, LinkLine, NamesLine, NamesPoint, Phase};
use crate::document::Bar;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thalweg_measure::{Estimate, Machine, median_interval, paired_ratio};

/// The version of the document.
pub const SCHEMA: &str = "thalweg.ls-study-result/1";

/// What is known besides the times.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The machine, and the file system that stores were made on.
    pub machine: Machine,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// What the stage is.
    pub label: String,
    /// The machine.
    pub machine: Machine,
    /// How much was measured.
    pub scale: Scale,
    /// Repetitions of most points.
    pub repeat: usize,
    /// What lies between the places and the servers, in the order of places.
    pub links: Vec<LinkLine>,
    /// All points.
    pub points: Vec<PointResult>,
    /// The lines over the number of datafiles.
    pub trends: Vec<Trend>,
    /// Names made, asked for and removed each second.
    pub names: Vec<NamesResult>,
    /// Small writes alone and beside listings.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub crowd: Option<CrowdResult>,
    /// Trees copied in.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub copies: Option<CopiesResult>,
    /// What was promised, and whether it was kept.
    pub bars: Vec<Bar>,
    /// What could not be measured, and why.
    pub problems: Vec<String>,
}

/// Names each second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamesResult {
    /// How.
    #[serde(flatten)]
    pub point: NamesPoint,
    /// What.
    pub phase: Phase,
    /// Names each second, of all workers.
    pub rate_per_s: Estimate,
}

/// Small writes beside listings; times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrowdResult {
    /// Listings at a time.
    pub listings: u32,
    /// Median time of one write, alone.
    pub idle_p50_s: Estimate,
    /// Beside the listings.
    pub loaded_p50_s: Estimate,
    /// What 99 of 100 stay below, alone.
    pub idle_p99_s: Estimate,
    /// Beside the listings.
    pub loaded_p99_s: Estimate,
    /// How many times as long the latter is, repetition by repetition.
    pub p99_ratio: Estimate,
    /// Entries that all listings together listed each second meanwhile.
    pub listed_per_s: Estimate,
}

/// A tree copied in by our command, and by the stock one onto the mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopiesResult {
    /// Files.
    pub files: u64,
    /// Bytes of each.
    pub bytes_each: u64,
    /// Files each second, by way.
    pub rate_per_s: BTreeMap<String, Estimate>,
    /// How many times as fast our command is.
    pub ratio: Estimate,
}

impl Document {
    /// Puts it together.
    pub fn new(choice: &Choice, lines: &[Line], facts: Facts, problems: Vec<String>) -> Document {
        let order = |name: &str| choice.stage.places.iter().position(|place| place.name == name);
        let mut links: Vec<LinkLine> =
            lines.iter().filter_map(|line| if let Line::Link(l) = line { Some(l.clone()) } else { None }).collect();
        links.sort_by_key(|link| order(&link.place));
        let mut document = Document {
            schema: SCHEMA.into(),
            label: choice.stage.label.clone(),
            points: points(choice, lines, facts.machine.cpus),
            machine: facts.machine,
            scale: choice.scale.clone(),
            repeat: choice.repeat,
            links,
            trends: lines_through(choice, lines),
            names: names(lines),
            crowd: crowd(lines),
            copies: copies(lines),
            bars: Vec::new(),
            problems,
        };
        document.bars = bars(&document);
        document
    }

    /// The document as JSON, indented, with a newline at its end.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers, strings and lists always serialise");
        text.push('\n');
        text
    }

    /// The places' names, in order.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        self.links.iter().map(|link| link.place.as_str())
    }

    /// The place whose round trip was asked to be 1 ms.
    pub fn millisecond(&self) -> Option<&LinkLine> {
        self.links.iter().find(|link| (900.0..=1_100.0).contains(&link.asked_us))
    }

    /// The place without a link.
    pub fn nearest(&self) -> Option<&LinkLine> {
        self.links.iter().find(|link| link.asked_us == 0.0)
    }

    /// Points of the grid with so many datafiles, from a place.
    pub fn grid_points<'a>(&'a self, place: &'a str, how: &'a str) -> impl Iterator<Item = &'a PointResult> {
        let anchor = (self.scale.servers, self.scale.targets, self.scale.files);
        self.points.iter().filter(move |p| {
            let ground = &p.point.ground;
            (ground.servers, ground.targets, ground.files) == anchor && p.point.place == place && p.point.how == how
        })
    }
}

fn names(lines: &[Line]) -> Vec<NamesResult> {
    let mut groups: BTreeMap<(&NamesPoint, Phase), Vec<&NamesLine>> = BTreeMap::new();
    for line in lines {
        if let Line::Names(line) = line {
            groups.entry((&line.point, line.phase)).or_default().push(line);
        }
    }
    let result = |((point, phase), lines): ((&NamesPoint, Phase), Vec<&NamesLine>)| {
        let rates: Vec<f64> = lines.iter().map(|line| line.names as f64 / line.seconds.max(1e-9)).collect();
        Some(NamesResult { point: point.clone(), phase, rate_per_s: median_interval(&rates, SEED)? })
    };
    groups.into_iter().filter_map(result).collect()
}

fn crowd(lines: &[Line]) -> Option<CrowdResult> {
    let all = || lines.iter().filter_map(|line| if let Line::Crowd(line) = line { Some(line) } else { None });
    let pairs: Vec<(&CrowdLine, &CrowdLine)> = all()
        .filter(|idle| idle.listings == 0)
        .filter_map(|idle| Some((idle, all().find(|loaded| loaded.listings > 0 && loaded.repeat == idle.repeat)?)))
        .collect();
    let of = |figure: &dyn Fn(&(&CrowdLine, &CrowdLine)) -> f64| median_interval(&pairs.iter().map(figure).collect::<Vec<_>>(), SEED);
    Some(CrowdResult {
        listings: pairs.first()?.1.listings,
        idle_p50_s: of(&|(idle, _)| idle.p50_s)?,
        loaded_p50_s: of(&|(_, loaded)| loaded.p50_s)?,
        idle_p99_s: of(&|(idle, _)| idle.p99_s)?,
        loaded_p99_s: of(&|(_, loaded)| loaded.p99_s)?,
        p99_ratio: of(&|(idle, loaded)| loaded.p99_s / idle.p99_s.max(1e-9))?,
        listed_per_s: of(&|(_, loaded)| loaded.listed as f64 / loaded.seconds.max(1e-9))?,
    })
}

fn copies(lines: &[Line]) -> Option<CopiesResult> {
    let all = || lines.iter().filter_map(|line| if let Line::Copy(line) = line { Some(line) } else { None });
    let mut rates: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    all().for_each(|line| rates.entry(line.how.clone()).or_default().push(line.files as f64 / line.seconds.max(1e-9)));
    let is_ours = |line: &&CopyLine| line.how.starts_with("thalweg");
    let pairs = all().filter(is_ours).filter_map(|of| Some((of.seconds, all().find(|to| !is_ours(to) && to.repeat == of.repeat)?.seconds)));
    let (of, to): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let first = all().next()?;
    Some(CopiesResult {
        files: first.files,
        bytes_each: first.bytes_each,
        rate_per_s: rates.into_iter().filter_map(|(how, rates)| Some((how, median_interval(&rates, SEED)?))).collect(),
        ratio: paired_ratio(&of, &to, SEED)?.0,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::plan::tests::choice;
    use super::super::points::tests::grid;
    use super::*;

    pub(crate) fn document() -> Document {
        let mut lines = grid();
        let names = NamesPoint { place: "loopback".into(), mounted: false, shared: true, workers: 2, batch: 64 };
        for repeat in 1..=3 {
            for phase in Phase::ALL {
                lines.push(Line::Names(NamesLine { point: names.clone(), phase, repeat, names: 500, seconds: 0.5 }));
            }
            for (listings, p99_s) in [(0, 0.001), (100, 0.002)] {
                let place = "loopback".into();
                let line =
                    CrowdLine { place, listings, repeat, writes: 9, p50_s: p99_s / 2.0, p99_s, most_s: 1.0, listed: 10, seconds: 5.0 };
                lines.push(Line::Crowd(line));
            }
            for (how, seconds) in [("thalweg cp -r", 1.0), ("cp -r onto the mount", 7.0)] {
                lines.push(Line::Copy(CopyLine {
                    place: "loopback".into(),
                    how: how.into(),
                    repeat,
                    files: 10,
                    bytes_each: 4096,
                    seconds,
                }));
            }
        }
        let facts = Facts { machine: Machine { cpus: 2, ..Machine::describe::<&str>(&[]) } };
        Document::new(&choice(), &lines, facts, vec!["a thing: why".into()])
    }

    #[test]
    fn what_was_measured_is_there_once_and_survives_its_file() {
        let document = document();
        assert_eq!(document.names.len(), 3);
        assert_eq!(document.names[0].rate_per_s.median, 1000.0);
        assert_eq!(document.crowd.as_ref().unwrap().p99_ratio.median, 2.0);
        assert_eq!(document.copies.as_ref().unwrap().ratio.median, 7.0);
        assert_eq!(document.grid_points("1 ms", "metadata").count(), 7);
        let again: Document = serde_json::from_str(&document.json()).unwrap();
        assert_eq!(again, document);
    }
}
