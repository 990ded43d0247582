//! The result of a study of listings.

use super::choice::{Choice, Scale};
use super::plan::{ALONE, BESIDE, OUR_COPY, STOCK_COPY};
use super::points::{LinkResult, PointResult, Trend, lines_through, points};
use super::sample::{Point, Sample, Subject, WritesSample};
use crate::bar::Bar;
use crate::worker::protocol::{NamesPoint, Phase};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thalweg_measure::{Estimate, Machine, Measured, Runs};

/// The version of the document.
const SCHEMA: &str = "thalweg.ls-study-result/3";

/// The result of a study of listings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// Description of the stage.
    pub label: String,
    /// The machine.
    pub machine: Machine,
    /// The scale.
    pub scale: Scale,
    /// Repetitions of most points.
    pub repeat: usize,
    /// The links between locations and servers, in the order of locations.
    pub links: Vec<LinkResult>,
    /// All points.
    pub points: Vec<PointResult>,
    /// The fitted lines over the number of datafiles.
    pub trends: Vec<Trend>,
    /// `mdtest`'s patterns.
    pub names: Vec<NamesResult>,
    /// Small writes alone and beside listings.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub crowd: Option<CrowdResult>,
    /// Trees copied in.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub copies: Option<CopiesResult>,
    /// Targets, and whether they are met.
    pub bars: Vec<Bar>,
    /// Reasons why something could not be measured.
    pub problems: Vec<String>,
}

/// Rate of operations on names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamesResult {
    /// The point.
    #[serde(flatten)]
    pub point: NamesPoint,
    /// The phase.
    pub phase: Phase,
    /// Names per second, of all workers together.
    pub rate_per_s: Estimate,
}

/// Small writes beside listings; times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrowdResult {
    /// Number of concurrent listings.
    pub listings: u32,
    /// Median time of one write, alone.
    pub idle_p50_s: Estimate,
    /// Median time of one write, beside the listings.
    pub loaded_p50_s: Estimate,
    /// 99th percentile, alone.
    pub idle_p99_s: Estimate,
    /// 99th percentile, beside the listings.
    pub loaded_p99_s: Estimate,
    /// Ratio of the 99th percentiles, repetition by repetition.
    pub p99_ratio: Estimate,
    /// Entries per second listed by all listings meanwhile.
    pub listed_per_s: Estimate,
}

/// A tree copied in by `thalweg cp`, and by the stock `cp` onto the mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopiesResult {
    /// Number of files.
    pub files: u64,
    /// Bytes per file.
    pub bytes_each: u64,
    /// Files per second, by command.
    pub rate_per_s: BTreeMap<String, Estimate>,
    /// Speed of `thalweg cp` relative to `cp`.
    pub ratio: Estimate,
}

impl Document {
    /// Computes the result, without targets.
    pub(super) fn new(choice: &Choice, measured: &Measured<Point, Subject, Sample>, machine: Machine) -> Document {
        let (runs, links) = (&measured.runs, links(choice, &measured.runs));
        Document {
            schema: SCHEMA.into(),
            label: choice.stage.label.clone(),
            points: points(choice, runs, &links, machine.cpus),
            machine,
            scale: choice.scale.clone(),
            repeat: choice.repeat,
            links,
            trends: lines_through(choice, runs),
            names: names(runs),
            crowd: crowd(runs),
            copies: copies(choice, runs),
            bars: Vec::new(),
            problems: measured.problems(),
        }
    }

    /// Formats the document as indented JSON, ending in a newline.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers, strings and lists always serialise");
        text.push('\n');
        text
    }

    /// Returns the locations' names, in order.
    pub fn locations(&self) -> impl Iterator<Item = &str> {
        self.links.iter().map(|link| link.location.as_str())
    }

    /// Returns the location with a nominal round-trip time of 1 ms.
    pub(super) fn millisecond(&self) -> Option<&LinkResult> {
        self.links.iter().find(|link| (900.0..=1_100.0).contains(&link.asked_us))
    }

    /// Returns the location without a link.
    pub fn nearest(&self) -> Option<&LinkResult> {
        self.links.iter().find(|link| link.asked_us == 0.0)
    }

    /// Returns the points of the grid from a location.
    pub fn grid<'a>(&'a self, location: &'a str) -> impl Iterator<Item = &'a PointResult> {
        let anchor = (self.scale.servers, self.scale.targets, self.scale.files);
        self.points.iter().filter(move |p| {
            let fixture = &p.point.fixture;
            (fixture.servers, fixture.targets, fixture.files) == anchor && p.point.location == location
        })
    }

    /// Returns the points of the grid from a location, for one method.
    pub fn grid_points<'a>(&'a self, location: &'a str, method: &'a str) -> impl Iterator<Item = &'a PointResult> {
        self.grid(location).filter(move |p| p.method == method)
    }
}

type LsRuns = Runs<Point, Subject, Sample>;

/// Returns the links in the order of locations.
fn links(choice: &Choice, runs: &LsRuns) -> Vec<LinkResult> {
    let measured = |name: &str| runs.cases().find(|(point, ..)| **point == Point::Link(name.to_owned()))?.2.pop();
    let link = |location: &super::choice::Location| {
        let Some((_, Sample::Link(link))) = measured(&location.name) else { return None };
        let (round_trip_us, bytes_per_s) = (link.round_trip_us, link.bytes_per_s);
        Some(LinkResult { location: location.name.clone(), asked_us: location.round_trip_us, round_trip_us, bytes_per_s })
    };
    choice.stage.locations.iter().filter_map(link).collect()
}

fn names(runs: &LsRuns) -> Vec<NamesResult> {
    let mut results = Vec::new();
    for (point, subject, _) in runs.cases() {
        let Point::Names(names) = point else { continue };
        for phase in Phase::ALL {
            let rate = |sample: &Sample| match sample {
                Sample::Names(found) => {
                    found.seconds.get(&phase).map(|seconds| names.names_in(phase, found.each) as f64 / seconds.max(1e-9))
                }
                _ => None,
            };
            let estimate = runs.estimate(point, subject, rate);
            results.extend(estimate.map(|rate_per_s| NamesResult { point: names.clone(), phase, rate_per_s }));
        }
    }
    results
}

fn crowd(runs: &LsRuns) -> Option<CrowdResult> {
    let of = |figure: fn(&WritesSample) -> f64| {
        move |sample: &Sample| if let Sample::Writes(writes) = sample { Some(figure(writes)) } else { None }
    };
    let (alone, beside) = (ALONE.to_owned(), BESIDE.to_owned());
    let estimate = |subject: &Subject, figure| runs.estimate(&Point::Writes, subject, of(figure));
    let listings = match runs.of(&Point::Writes, &beside).pop() {
        Some((_, Sample::Writes(writes))) => writes.listings,
        _ => return None,
    };
    Some(CrowdResult {
        listings,
        idle_p50_s: estimate(&alone, |writes| writes.p50_s)?,
        loaded_p50_s: estimate(&beside, |writes| writes.p50_s)?,
        idle_p99_s: estimate(&alone, |writes| writes.p99_s)?,
        loaded_p99_s: estimate(&beside, |writes| writes.p99_s)?,
        // Its speedup alone equals its slowdown beside them.
        p99_ratio: runs.ratio(&Point::Writes, &alone, &beside, of(|writes| writes.p99_s.max(1e-9)))?.0,
        listed_per_s: estimate(&beside, |writes| writes.listed as f64 / writes.seconds.max(1e-9))?,
    })
}

fn copies(choice: &Choice, runs: &LsRuns) -> Option<CopiesResult> {
    let (files, bytes_each) = (choice.scale.copied_files, choice.scale.copied_bytes);
    let seconds = |sample: &Sample| if let Sample::Copy(seconds) = sample { Some(seconds.max(1e-9)) } else { None };
    let rate = |subject: &str| {
        let rate = runs.estimate(&Point::Copy, &subject.to_owned(), |sample| seconds(sample).map(|seconds| files as f64 / seconds))?;
        Some((subject.to_owned(), rate))
    };
    Some(CopiesResult {
        files,
        bytes_each,
        rate_per_s: [OUR_COPY, STOCK_COPY].into_iter().filter_map(rate).collect(),
        ratio: runs.ratio(&Point::Copy, &OUR_COPY.into(), &STOCK_COPY.into(), seconds)?.0,
    })
}

#[cfg(test)]
pub(in crate::ls) mod tests {
    use super::super::plan::tests::choice;
    use super::super::points::tests::grid;
    use super::super::sample::NamesSample;
    use super::*;
    use thalweg_measure::{Run, StopReason};

    /// Returns points of names, and the names each worker creates in half a second.
    fn mdtest() -> Vec<(NamesPoint, u64)> {
        let library = NamesPoint { location: "no link".into(), mounted: false, shared: true, workers: 2, batch: 64, bytes: 0, stride: 0 };
        let mount = |workers| NamesPoint { mounted: true, batch: 1, workers, ..library.clone() };
        let others = NamesPoint { bytes: 100, stride: 1, ..mount(8) };
        vec![(mount(1), 4_000), (mount(8), 600), (mount(64), 60), (others, 500), (library, 250)]
    }

    pub(in crate::ls) fn document() -> Document {
        let mut lines = grid();
        for repeat in 1..=3 {
            let mut add = |point, subject: &str, sample| lines.push(Run { point, subject: subject.into(), repeat, at_unix_s: 0, sample });
            for (point, each) in mdtest() {
                let seconds = point.phases().map(|phase| (phase, 0.5)).collect();
                add(Point::Names(point), "all", Sample::Names(NamesSample { each, seconds }));
            }
            for (subject, listings, p99_s) in [(ALONE, 0, 0.001), (BESIDE, 100, 0.002)] {
                let writes = WritesSample { listings, writes: 9, p50_s: p99_s / 2.0, p99_s, most_s: 1.0, listed: 10, seconds: 5.0 };
                add(Point::Writes, subject, Sample::Writes(writes));
            }
            add(Point::Copy, OUR_COPY, Sample::Copy(1.0));
            add(Point::Copy, STOCK_COPY, Sample::Copy(7.0));
        }
        let machine = Machine { cpus: 2, ..Machine::describe::<&str>(&[]) };
        let problems = [("a thing".to_owned(), "why".to_owned())].into();
        let measured = Measured { runs: Runs::new(lines), problems, stopped: StopReason::MostRepetitions };
        let choice = choice();
        let scale = super::super::choice::Scale { copied_files: 10, ..choice.scale.clone() };
        Document::new(&Choice { scale, ..choice }, &measured, machine)
    }

    #[test]
    fn what_was_measured_is_there_once_and_survives_its_file() {
        let document = document();
        // Directories and files, and of one point files alone, which are also read.
        assert_eq!(document.names.len(), 4 * 8 + 6);
        let rate = |phase| document.names.iter().find(|n| !n.point.mounted && n.phase == phase).unwrap().rate_per_s.median;
        assert_eq!([Phase::FileCreation, Phase::TreeCreation].map(rate), [1000.0, 2.0]);
        assert_eq!(document.crowd.as_ref().unwrap().p99_ratio.median, 2.0);
        assert_eq!(document.copies.as_ref().unwrap().ratio.median, 7.0);
        assert_eq!(document.grid_points("1 ms", "metadata").count(), 7);
        let again: Document = serde_json::from_str(&document.json()).unwrap();
        assert_eq!(again, document);
    }
}
