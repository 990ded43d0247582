//! Points of curves, the model they are held against, and the lines through them.
//!
//! **The model.** A listing cannot be faster than its bytes over the link, nor than its processor time over all processors: the larger
//! of the two is the *bound*. What round trips one after another cost is stated beside it: a listing that waits for each file
//! pays them for each file, one that runs ahead a few times in all. Client, servers and a link that is made by a process share one
//! machine's processors where the study is made on one; so all three are in the bound's processor time, and shown by themselves.

use super::choice::Choice;
use super::plan::Point;
use super::raw::{Line, LinkLine, Listing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thalweg_measure::{Estimate, Fit, fit_line, median, median_interval, paired_ratio};
use thalweg_store::client::walk::WalkMode;

/// Equal seeds give equal intervals.
pub const SEED: u64 = 1;
/// Where it is asked whether a datafile's cost grows with their number: between these, and between those.
const LOW: (u32, u32) = (4, 8);
/// See [`LOW`].
const HIGH: (u32, u32) = (16, 32);

/// One point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// Which.
    #[serde(flatten)]
    pub point: Point,
    /// Entries of a run.
    pub entries: f64,
    /// Time per file, in microseconds, of all repetitions but the first where there are others.
    pub per_file_us: Estimate,
    /// Of the first repetition, which finds servers that have looked at nothing yet.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_us: Option<f64>,
    /// Of that, what the client's processors did.
    pub client_cpu_us: Estimate,
    /// What the servers' did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_cpu_us: Option<Estimate>,
    /// What the link's did, where a process makes it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link_cpu_us: Option<Estimate>,
    /// Bytes over the network for each file.
    pub bytes_per_file: f64,
    /// Requests for each file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requests_per_file: Option<f64>,
    /// Round trips one after another, of the whole run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips: Option<f64>,
    /// Of the entries read, how many were there when the reader wanted them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hit_share: Option<f64>,
    /// Entries asked for in vain, of all that were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wasted_share: Option<f64>,
    /// How it compares with what is possible.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<Model>,
    /// How many times as fast as one file at a time, in the same repetition.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_synchronous: Option<Estimate>,
}

/// What a file's listing must cost, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Its bytes over the link.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes_us: Option<f64>,
    /// Processor time of client, servers and link over all processors.
    pub cpu_us: f64,
    /// Its part of the round trips one after another.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub round_trips_us: Option<f64>,
    /// The larger of the first two.
    pub bound_us: f64,
    /// The time as a multiple of that.
    pub of_bound: f64,
}

/// A line over the number of datafiles, for one way of listing from one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// From where.
    pub place: String,
    /// How.
    pub how: String,
    /// Microseconds: of a file at all, and of each of its datafiles.
    pub fit: Fit,
    /// What was measured where nobody had ever written the files.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub never_written_us: Option<Estimate>,
    /// What a datafile costs where there are few of them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub low_us: Option<Estimate>,
    /// What it costs where there are many.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub high_us: Option<Estimate>,
    /// Processor time of client and servers together, likewise.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu: Option<Fit>,
}

fn per_file(listing: &Listing, seconds: f64) -> f64 {
    seconds / listing.entries.max(1) as f64 * 1e6
}

fn estimate(listings: &[&Listing], figure: impl Fn(&Listing) -> Option<f64>) -> Option<Estimate> {
    let all: Vec<f64> = listings.iter().filter_map(|listing| figure(listing)).collect();
    if all.len() == listings.len() { median_interval(&all, SEED) } else { None }
}

/// The first repetition, and the others; where there are not two others, all of them.
///
/// After a directory is made its servers know nothing of it: whoever asks first pays for their looking at their disks (with 32 datafiles,
/// five times as much as who comes after). That is told by itself, and not as if it were scatter.
fn apart<T: Copy>(all: &[T], repeat: impl Fn(&T) -> usize) -> (Option<T>, Vec<T>) {
    let (first, others): (Vec<T>, Vec<T>) = all.iter().partition(|one| repeat(one) == 1);
    if others.len() < 2 { (None, all.to_vec()) } else { (first.first().copied(), others) }
}

/// All points, in the order of grounds, places and ways.
pub fn points(choice: &Choice, lines: &[Line], cpus: usize) -> Vec<PointResult> {
    let mut groups: BTreeMap<&Point, Vec<&Listing>> = BTreeMap::new();
    for line in lines {
        if let Line::Listing(listing) = line {
            groups.entry(&listing.point).or_default().push(listing);
        }
    }
    let links: Vec<&LinkLine> = lines.iter().filter_map(|line| if let Line::Link(link) = line { Some(link) } else { None }).collect();
    let place = |name: &str| choice.stage.places.iter().position(|place| place.name == name);
    let mut results: Vec<PointResult> = groups
        .iter()
        .filter_map(|(point, listings)| {
            let synchronous = groups.get(&Point { how: WalkMode::Synchronous.name().into(), ..(*point).clone() });
            let link = links.iter().find(|link| link.place == point.place).copied();
            result(point, listings, synchronous, link, cpus)
        })
        .collect();
    results.sort_by_key(|p| (p.point.ground.clone(), place(&p.point.place), how_rank(&p.point.how), p.point.how.clone()));
    results
}

/// The order of ways: mechanisms as they build on one another, then commands, then others.
pub fn how_rank(how: &str) -> usize {
    let known = WalkMode::ALL.iter().map(|mode| mode.name()).chain([super::plan::COMMAND, super::plan::MOUNT]);
    known.into_iter().position(|name| name == how).unwrap_or(usize::MAX)
}

fn result(
    point: &Point,
    listings: &[&Listing],
    synchronous: Option<&Vec<&Listing>>,
    link: Option<&LinkLine>,
    cpus: usize,
) -> Option<PointResult> {
    let (first, listings) = apart(listings, |listing| listing.repeat);
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
    let of_synchronous = synchronous.filter(|_| point.how != WalkMode::Synchronous.name()).and_then(|synchronous| {
        let pairs = listings.iter().filter_map(|of| Some((*of, *synchronous.iter().find(|to| to.repeat == of.repeat)?)));
        let (of, to): (Vec<f64>, Vec<f64>) = pairs.map(|(of, to)| (per_file(of, of.seconds), per_file(to, to.seconds))).unzip();
        paired_ratio(&of, &to, SEED).map(|(ratio, _)| ratio)
    });
    Some(PointResult {
        point: point.clone(),
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
        of_synchronous,
    })
}

/// One repetition's time, and processor time, per file in microseconds.
#[derive(Clone, Copy)]
struct Timed {
    repeat: usize,
    wall_us: f64,
    cpu_us: Option<f64>,
}

/// Of each number of datafiles, all repetitions.
type Times = BTreeMap<u32, Vec<Timed>>;

/// The lines through the grid: one for each way of listing from each place.
pub fn lines_through(choice: &Choice, lines: &[Line]) -> Vec<Trend> {
    let scale = &choice.scale;
    let mut curves: BTreeMap<(usize, usize, &str), Times> = BTreeMap::new();
    for line in lines {
        let Line::Listing(l) = line else { continue };
        let ground = &l.point.ground;
        if (ground.servers, ground.targets, ground.files) != (scale.servers, scale.targets, scale.files) {
            continue;
        }
        let Some(place) = choice.stage.places.iter().position(|place| place.name == l.point.place) else { continue };
        let cpu_us = l.server_cpu_s.map(|server| per_file(l, server + l.client_cpu_s));
        let curve = curves.entry((place, how_rank(&l.point.how), l.point.how.as_str())).or_default();
        curve.entry(ground.datafiles).or_default().push(Timed { repeat: l.repeat, wall_us: per_file(l, l.seconds), cpu_us });
    }
    let line = |((place, _, how), times): ((usize, usize, &str), Times)| {
        let times: Times = times.into_iter().map(|(datafiles, all)| (datafiles, apart(&all, |one| one.repeat).1)).collect();
        let written = || times.iter().filter(|(datafiles, _)| **datafiles > 0);
        let wall = |of: &[Timed]| of.iter().map(|one| one.wall_us).collect::<Vec<f64>>();
        let of = |(datafiles, all): (&u32, &Vec<Timed>)| (f64::from(*datafiles), wall(all));
        let between = |(from, to): (u32, u32)| {
            let ends = written().filter(|(datafiles, _)| **datafiles == from || **datafiles == to).map(of);
            Some(fit_line(&ends.collect::<Vec<_>>(), SEED)?.slope)
        };
        let cpus = written().map(|(datafiles, all)| {
            let cpu = all.iter().map(|one| one.cpu_us).collect::<Option<Vec<f64>>>()?;
            Some((f64::from(*datafiles), cpu))
        });
        Some(Trend {
            place: choice.stage.places[place].name.clone(),
            how: how.to_owned(),
            fit: fit_line(&written().map(of).collect::<Vec<_>>(), SEED)?,
            never_written_us: times.get(&0).and_then(|all| median_interval(&wall(all), SEED)),
            low_us: between(LOW),
            high_us: between(HIGH),
            cpu: cpus.collect::<Option<Vec<_>>>().and_then(|cpus| fit_line(&cpus, SEED)),
        })
    };
    curves.into_iter().filter_map(line).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::plan::{Ground, tests::choice};
    use super::*;

    /// A listing of the anchor's grid: `per_file_us` on the wall, half of it on processors.
    pub(crate) fn listing(how: &str, place: &str, datafiles: u32, repeat: usize, per_file_us: f64) -> Listing {
        let ground = Ground { servers: 4, targets: 8, files: 25_000, datafiles };
        Listing {
            point: Point { ground, place: place.into(), how: how.into() },
            repeat,
            entries: 1_000,
            seconds: per_file_us * 1e-3,
            counters: Some(super::super::raw::Counters { requests: 10, round_trips: 4, hits: 900, misses: 100, ..Default::default() }),
            client_cpu_s: per_file_us * 0.25e-3,
            server_cpu_s: Some(per_file_us * 0.25e-3),
            link_cpu_s: None,
            bytes: 100_000,
            at_unix_s: 0,
        }
    }

    pub(crate) fn grid() -> Vec<Line> {
        let mut lines = Vec::new();
        for place in ["loopback", "1 ms"] {
            lines.push(Line::Link(LinkLine { place: place.into(), asked_us: 0.0, round_trip_us: 1_000.0, bytes_per_s: Some(1e9) }));
            for datafiles in [0, 1, 2, 4, 8, 16, 32] {
                for repeat in 1..=3 {
                    let per_file = 4.0 + 0.5 * f64::from(datafiles);
                    let beside = [("sync", 2_000.0), ("metadata", per_file)];
                    lines.extend(beside.map(|(how, us)| Line::Listing(listing(how, place, datafiles, repeat, us))));
                }
            }
        }
        lines
    }

    #[test]
    fn a_line_is_found_with_its_intercept_and_its_slope() {
        let found = lines_through(&choice(), &grid());
        assert_eq!(
            found.iter().map(|l| (l.place.as_str(), l.how.as_str())).collect::<Vec<_>>(),
            [("loopback", "sync"), ("loopback", "metadata"), ("1 ms", "sync"), ("1 ms", "metadata")]
        );
        let line = &found[3];
        assert!((line.fit.intercept.median - 4.0).abs() < 1e-6 && (line.fit.slope.median - 0.5).abs() < 1e-6, "{line:?}");
        assert!((line.low_us.unwrap().median - 0.5).abs() < 1e-6 && (line.high_us.unwrap().median - 0.5).abs() < 1e-6);
        assert!((line.cpu.unwrap().slope.median - 0.25).abs() < 1e-6);
        assert!((line.never_written_us.unwrap().median - 4.0).abs() < 1e-6);
    }

    #[test]
    fn a_point_says_what_it_costs_and_what_it_must() {
        let points = points(&choice(), &grid(), 2);
        let point = points.iter().find(|p| p.point.how == "metadata" && p.point.place == "1 ms" && p.point.ground.datafiles == 32).unwrap();
        assert!((point.per_file_us.median - 20.0).abs() < 1e-9);
        let model = point.model.unwrap();
        // 100 bytes at 1 GB/s; 10 µs of processors over two of them; four round trips over 1,000 files.
        assert!((model.bytes_us.unwrap() - 0.1).abs() < 1e-9 && (model.cpu_us - 5.0).abs() < 1e-9);
        assert!((model.bound_us - 5.0).abs() < 1e-9 && (model.of_bound - 4.0).abs() < 1e-9);
        assert!((model.round_trips_us.unwrap() - 4.0).abs() < 1e-9);
        assert!((point.of_synchronous.unwrap().median - 100.0).abs() < 1e-6);
        assert_eq!((point.requests_per_file, point.hit_share), (Some(0.01), Some(0.9)));
        let synchronous = points.iter().find(|p| p.point.how == "sync").unwrap();
        assert!(synchronous.of_synchronous.is_none());
    }

    #[test]
    fn the_first_repetition_is_told_by_itself_where_there_are_others() {
        let times = |times: &[f64]| -> Vec<Line> {
            let listings = (1..).zip(times).map(|(repeat, us)| Line::Listing(listing("metadata", "1 ms", 4, repeat, *us)));
            listings.chain([Line::Listing(listing("metadata", "1 ms", 8, 1, 5.0))]).collect()
        };
        let lines = times(&[40.0, 4.0, 5.0, 6.0]);
        let found = &points(&choice(), &lines, 2)[0];
        assert_eq!((found.first_us.map(f64::round), found.per_file_us.median.round()), (Some(40.0), 5.0));
        assert!(found.per_file_us.high < 7.0);
        assert!((lines_through(&choice(), &lines)[0].fit.slope.median).abs() < 1e-6, "5 µs with 4 datafiles and with 8");
        let few = &points(&choice(), &times(&[40.0, 4.0]), 2)[0];
        assert_eq!((few.first_us, few.per_file_us.median.round()), (None, 22.0));
    }
}
