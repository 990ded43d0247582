//! Points of curves, the model they are compared with, and fitted lines.
//!
//! **The model.** A listing cannot be faster than its bytes over the link, nor than its CPU time over all processors: the larger of the
//! two is the *bound*. The cost of sequential round trips is shown separately: a listing that waits for each file pays them for each file,
//! one that runs ahead pays a few in all. On one machine, client, servers and an emulated link share the processors, so all three are in
//! the bound's CPU time, and are shown separately.

use super::choice::Choice;
use super::sample::{Listing, ListingPoint, Point, Sample, Subject};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thalweg_client::walk::WalkMode;
use thalweg_measure::{Estimate, Fit, Runs, fit_line, median};

/// Equal seeds give equal intervals.
const SEED: u64 = 1;
/// Low pair of numbers of datafiles, to compare a datafile's cost with that between [`HIGH`].
const LOW: (u32, u32) = (4, 8);
/// High pair of numbers of datafiles; see [`LOW`].
const HIGH: (u32, u32) = (16, 32);

/// The link between a location and the servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// The location.
    pub location: String,
    /// The nominal round-trip time.
    pub asked_us: f64,
    /// The median time of a request that costs the server nothing.
    pub round_trip_us: f64,
    /// The rate of one TCP stream from the servers to there.
    pub bytes_per_s: Option<f64>,
}

/// One point of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// The point.
    #[serde(flatten)]
    pub point: ListingPoint,
    /// The method: a mechanism's name, [`super::COMMAND`], [`super::MOUNT`], or a peer's with its window.
    pub method: Subject,
    /// Entries of a run.
    pub entries: f64,
    /// Time per file, in µs, over all repetitions but the first, if there are others.
    pub per_file_us: Estimate,
    /// Time per file in the first repetition, with cold servers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_us: Option<f64>,
    /// CPU time of the client per file.
    pub client_cpu_us: Estimate,
    /// CPU time of the servers per file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_cpu_us: Option<Estimate>,
    /// CPU time of the link per file, if a process emulates it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link_cpu_us: Option<Estimate>,
    /// Bytes over the network for each file.
    pub bytes_per_file: f64,
    /// Requests for each file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requests_per_file: Option<f64>,
    /// Sequential round trips of the whole run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips: Option<f64>,
    /// Share of the entries read that had been prefetched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hit_share: Option<f64>,
    /// Share of the prefetched entries that were not read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wasted_share: Option<f64>,
    /// Comparison with the bound.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<Model>,
    /// Speed relative to one file at a time, in the same repetition.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_synchronous: Option<Estimate>,
}

/// The minimum cost of a file's listing, in µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Time of its bytes over the link.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes_us: Option<f64>,
    /// CPU time of client, servers and link over all processors.
    pub cpu_us: f64,
    /// Its share of the sequential round trips.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips_us: Option<f64>,
    /// The bound: the larger of the first two.
    pub bound_us: f64,
    /// The measured time over the bound.
    pub of_bound: f64,
}

/// A line over the number of datafiles, for one method from one location.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The location.
    pub location: String,
    /// The method.
    pub method: Subject,
    /// Cost of a file (intercept), and of each datafile (slope), in µs.
    pub fit: Fit,
    /// Measured cost of files never written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub never_written_us: Option<Estimate>,
    /// Cost of a datafile between the numbers of `LOW`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub low_us: Option<Estimate>,
    /// Cost of a datafile between the numbers of `HIGH`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub high_us: Option<Estimate>,
    /// CPU time of client and servers together, likewise.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu: Option<Fit>,
}

fn per_file(listing: &Listing, seconds: f64) -> f64 {
    seconds / listing.entries.max(1) as f64 * 1e6
}

fn estimate(listings: &[&Listing], figure: impl Fn(&Listing) -> Option<f64>) -> Option<Estimate> {
    thalweg_measure::estimate(&listings.iter().map(|listing| figure(listing)).collect::<Option<Vec<f64>>>()?)
}

/// Splits off the first repetition; without two others, returns all.
///
/// After a directory is made its servers are cold: the first listing pays for reading their disks (with 32 datafiles, five times as
/// much as later ones). It is reported separately instead of as scatter.
fn apart<T: Copy>(all: &[(usize, T)]) -> (Option<T>, Vec<(usize, T)>) {
    let (first, others): (Vec<_>, Vec<_>) = all.iter().copied().partition(|(repeat, _)| *repeat == 1);
    if others.len() < 2 { (None, all.to_vec()) } else { (first.first().map(|(_, first)| *first), others) }
}

/// Listings of one case, by repetition.
type Listings<'a> = Vec<(usize, &'a Listing)>;

/// Returns all cases that are listings.
fn listings(runs: &Runs<Point, Subject, Sample>) -> impl Iterator<Item = (&ListingPoint, &Subject, Listings<'_>)> {
    runs.cases().filter_map(|(point, method, runs)| {
        let Point::Listing(point) = point else { return None };
        let listings: Listings<'_> = runs.into_iter().filter_map(|(repeat, sample)| Some((repeat, sample.listing()?))).collect();
        (!listings.is_empty()).then_some((point, method, listings))
    })
}

/// Returns all points, ordered by fixture, location and method.
pub(super) fn points(choice: &Choice, runs: &Runs<Point, Subject, Sample>, links: &[LinkResult], cpus: usize) -> Vec<PointResult> {
    let location = |name: &str| choice.stage.locations.iter().position(|location| location.name == name);
    let mut results: Vec<PointResult> = listings(runs)
        .filter_map(|(point, method, listings)| {
            let link = links.iter().find(|link| link.location == point.location);
            let found = result(point, method, &listings, link, cpus)?;
            Some(PointResult { of_synchronous: of_synchronous(runs, point, method, &listings), ..found })
        })
        .collect();
    results.sort_by_key(|p| (p.point.fixture.clone(), location(&p.point.location), method_rank(&p.method), p.method.clone()));
    results
}

/// Returns the order of methods: mechanisms as they build on one another, then commands, then others.
pub fn method_rank(method: &str) -> usize {
    let known = WalkMode::ALL.iter().map(|mode| mode.name()).chain([super::COMMAND, super::MOUNT]);
    known.into_iter().position(|name| name == method).unwrap_or(usize::MAX)
}

/// Returns the speed relative to one file at a time, in the repetitions that count.
fn of_synchronous(runs: &Runs<Point, Subject, Sample>, point: &ListingPoint, method: &str, listings: &Listings<'_>) -> Option<Estimate> {
    let one_at_a_time = WalkMode::Synchronous.name();
    if method == one_at_a_time {
        return None;
    }
    // The first repetition of a case is reported separately here too.
    let first = apart(listings).1.first()?.0;
    let per_file = |sample: &Sample| sample.listing().map(|l| per_file(l, l.seconds));
    let point = Point::Listing(point.clone());
    Some(runs.ratio_from(first, &point, &method.to_owned(), &one_at_a_time.to_owned(), per_file)?.0)
}

fn result(point: &ListingPoint, method: &str, listings: &Listings<'_>, link: Option<&LinkResult>, cpus: usize) -> Option<PointResult> {
    let (first, listings) = apart(listings);
    let listings: Vec<&Listing> = listings.into_iter().map(|(_, listing)| listing).collect();
    let middle = |figure: &dyn Fn(&Listing) -> Option<f64>| -> Option<f64> {
        median(&listings.iter().map(|listing| figure(listing)).collect::<Option<Vec<f64>>>()?)
    };
    let per_file_us = estimate(&listings, |l| Some(per_file(l, l.seconds)))?;
    let client_cpu_us = estimate(&listings, |l| Some(per_file(l, l.client_cpu_s)))?;
    let server_cpu_us = estimate(&listings, |l| l.server_cpu_s.map(|s| per_file(l, s)));
    let link_cpu_us = estimate(&listings, |l| l.link_cpu_s.map(|s| per_file(l, s)));
    let bytes_per_file = middle(&|l| Some(l.bytes as f64 / l.entries.max(1) as f64))?;
    let round_trips = middle(&|l| l.counters.map(|c| c.round_trips as f64));
    let entries = middle(&|l| Some(l.entries as f64))?;
    let model = server_cpu_us.map(|server| {
        let cpu_us = (client_cpu_us.median + server.median + link_cpu_us.map_or(0.0, |link| link.median)) / cpus.max(1) as f64;
        let bytes_us = link.and_then(|link| link.bytes_per_s).map(|rate| bytes_per_file / rate * 1e6);
        let bound_us = bytes_us.unwrap_or(0.0).max(cpu_us);
        let round_trips_us = round_trips.zip(link).map(|(trips, link)| trips * link.round_trip_us / entries.max(1.0));
        Model { bytes_us, cpu_us, round_trips_us, bound_us, of_bound: per_file_us.median / bound_us.max(1e-9) }
    });
    Some(PointResult {
        point: point.clone(),
        method: method.to_owned(),
        entries,
        per_file_us,
        first_us: first.map(|first| per_file(first, first.seconds)),
        client_cpu_us,
        server_cpu_us,
        link_cpu_us,
        bytes_per_file,
        requests_per_file: middle(&|l| l.counters.map(|c| c.requests as f64 / l.entries.max(1) as f64)),
        round_trips,
        hit_share: middle(&|l| l.counters.map(|c| c.hits as f64 / (c.hits + c.misses).max(1) as f64)),
        wasted_share: middle(&|l| l.counters.map(|c| c.wasted as f64 / (c.wasted + c.hits + c.misses).max(1) as f64)),
        model,
        of_synchronous: None,
    })
}

/// Returns the fitted lines through the grid: one for each method from each location.
pub(super) fn lines_through(choice: &Choice, runs: &Runs<Point, Subject, Sample>) -> Vec<Trend> {
    let anchor = |point: &ListingPoint| {
        let (fixture, scale) = (&point.fixture, &choice.scale);
        (fixture.servers, fixture.targets, fixture.files) == (scale.servers, scale.targets, scale.files)
    };
    let mut curves: BTreeMap<(usize, usize, &str), Curve<'_>> = BTreeMap::new();
    for (point, method, listings) in listings(runs).filter(|(point, ..)| anchor(point)) {
        let Some(location) = choice.stage.locations.iter().position(|location| location.name == point.location) else { continue };
        let counted = apart(&listings).1.into_iter().map(|(_, listing)| listing).collect();
        curves.entry((location, method_rank(method), method)).or_default().insert(point.fixture.datafiles, counted);
    }
    let trend = |((location, _, method), curve): ((usize, usize, &str), Curve<'_>)| {
        let location = choice.stage.locations[location].name.clone();
        trend(location, method, &curve)
    };
    curves.into_iter().filter_map(trend).collect()
}

/// The listings that count, by number of datafiles.
type Curve<'a> = BTreeMap<u32, Vec<&'a Listing>>;

fn trend(location: String, method: &str, curve: &Curve<'_>) -> Option<Trend> {
    let wall = |listings: &Vec<&Listing>| listings.iter().map(|l| per_file(l, l.seconds)).collect::<Vec<f64>>();
    let cpu = |l: &&Listing| l.server_cpu_s.map(|server| per_file(l, server + l.client_cpu_s));
    let written = || curve.iter().filter(|(datafiles, _)| **datafiles > 0);
    let of = |(datafiles, listings): (&u32, &Vec<&Listing>)| (f64::from(*datafiles), wall(listings));
    let between = |(from, to): (u32, u32)| {
        let ends = written().filter(|(datafiles, _)| **datafiles == from || **datafiles == to).map(of);
        Some(fit_line(&ends.collect::<Vec<_>>(), SEED)?.slope)
    };
    let cpus = written().map(|(datafiles, all)| Some((f64::from(*datafiles), all.iter().map(cpu).collect::<Option<Vec<f64>>>()?)));
    Some(Trend {
        location,
        method: method.to_owned(),
        fit: fit_line(&written().map(of).collect::<Vec<_>>(), SEED)?,
        never_written_us: curve.get(&0).and_then(|all| thalweg_measure::estimate(&wall(all))),
        low_us: between(LOW),
        high_us: between(HIGH),
        cpu: cpus.collect::<Option<Vec<_>>>().and_then(|cpus| fit_line(&cpus, SEED)),
    })
}

#[cfg(test)]
pub(in crate::ls) mod tests {
    use super::super::plan::tests::choice;
    use super::super::sample::{Fixture, LinkSample};
    use super::*;
    use crate::worker::protocol::Counters;
    use thalweg_measure::Run;

    type Line = Run<Point, Subject, Sample>;

    /// Returns a listing of the reference grid: `per_file_us` of wall time, half of it CPU time.
    fn listing(method: &str, location: &str, datafiles: u32, repeat: usize, per_file_us: f64) -> Line {
        let fixture = Fixture { servers: 4, targets: 8, files: 25_000, datafiles };
        let listing = Listing {
            entries: 1_000,
            seconds: per_file_us * 1e-3,
            counters: Some(Counters { requests: 10, round_trips: 4, hits: 900, misses: 100, ..Counters::default() }),
            client_cpu_s: per_file_us * 0.25e-3,
            server_cpu_s: Some(per_file_us * 0.25e-3),
            link_cpu_s: None,
            bytes: 100_000,
        };
        let point = Point::Listing(ListingPoint { fixture, location: location.into() });
        Run { point, subject: method.into(), repeat, at_unix_s: 0, sample: Sample::Listing(listing) }
    }

    pub(in crate::ls) fn grid() -> Vec<Line> {
        let mut lines = Vec::new();
        for location in ["loopback", "1 ms"] {
            let sample = Sample::Link(LinkSample { round_trip_us: 1_000.0, bytes_per_s: Some(1e9) });
            lines.push(Run { point: Point::Link(location.into()), subject: "all".into(), repeat: 1, at_unix_s: 0, sample });
            for datafiles in [0, 1, 2, 4, 8, 16, 32] {
                for repeat in 1..=3 {
                    let per_file = 4.0 + 0.5 * f64::from(datafiles);
                    let beside = [("none", 2_000.0), ("metadata", per_file)];
                    lines.extend(beside.map(|(method, us)| listing(method, location, datafiles, repeat, us)));
                }
            }
        }
        lines
    }

    fn links() -> Vec<LinkResult> {
        let link = |location: &str| LinkResult { location: location.into(), asked_us: 0.0, round_trip_us: 1_000.0, bytes_per_s: Some(1e9) };
        ["loopback", "1 ms"].map(link).to_vec()
    }

    #[test]
    fn a_line_is_found_with_its_intercept_and_its_slope() {
        let found = lines_through(&choice(), &Runs::new(grid()));
        assert_eq!(
            found.iter().map(|l| (l.location.as_str(), l.method.as_str())).collect::<Vec<_>>(),
            [("loopback", "none"), ("loopback", "metadata"), ("1 ms", "none"), ("1 ms", "metadata")]
        );
        let line = &found[3];
        assert!((line.fit.intercept.median - 4.0).abs() < 1e-6 && (line.fit.slope.median - 0.5).abs() < 1e-6, "{line:?}");
        assert!((line.low_us.unwrap().median - 0.5).abs() < 1e-6 && (line.high_us.unwrap().median - 0.5).abs() < 1e-6);
        assert!((line.cpu.unwrap().slope.median - 0.25).abs() < 1e-6);
        assert!((line.never_written_us.unwrap().median - 4.0).abs() < 1e-6);
    }

    #[test]
    fn a_point_says_what_it_costs_and_what_it_must() {
        let points = points(&choice(), &Runs::new(grid()), &links(), 2);
        let is_far = |p: &&PointResult| p.method == "metadata" && p.point.location == "1 ms" && p.point.fixture.datafiles == 32;
        let point = points.iter().find(is_far).unwrap();
        assert!((point.per_file_us.median - 20.0).abs() < 1e-9);
        let model = point.model.unwrap();
        // 100 bytes at 1 GB/s; 10 µs of processors over two of them; four round trips over 1,000 files.
        assert!((model.bytes_us.unwrap() - 0.1).abs() < 1e-9 && (model.cpu_us - 5.0).abs() < 1e-9);
        assert!((model.bound_us - 5.0).abs() < 1e-9 && (model.of_bound - 4.0).abs() < 1e-9);
        assert!((model.round_trips_us.unwrap() - 4.0).abs() < 1e-9);
        assert!((point.of_synchronous.unwrap().median - 100.0).abs() < 1e-6);
        assert_eq!((point.requests_per_file, point.hit_share), (Some(0.01), Some(0.9)));
        let synchronous = points.iter().find(|p| p.method == "none").unwrap();
        assert!(synchronous.of_synchronous.is_none());
    }

    #[test]
    fn the_first_repetition_is_known_from_itself_where_there_are_others() {
        let times = |times: &[f64]| {
            let listings = (1..).zip(times).map(|(repeat, us)| listing("metadata", "1 ms", 4, repeat, *us));
            Runs::new(listings.chain([listing("metadata", "1 ms", 8, 1, 5.0)]))
        };
        let runs = times(&[40.0, 4.0, 5.0, 6.0]);
        let found = &points(&choice(), &runs, &links(), 2)[0];
        assert_eq!((found.first_us.map(f64::round), found.per_file_us.median.round()), (Some(40.0), 5.0));
        assert!(found.per_file_us.high < 7.0);
        assert!((lines_through(&choice(), &runs)[0].fit.slope.median).abs() < 1e-6, "5 µs with 4 datafiles and with 8");
        let few = &points(&choice(), &times(&[40.0, 4.0]), &links(), 2)[0];
        assert_eq!((few.first_us, few.per_file_us.median.round()), (None, 22.0));
    }
}
