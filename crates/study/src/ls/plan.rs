//! The plan of a study of listings, batch by batch: each batch has its own store with its own contents.

use super::choice::{Choice, Location, Part};
use super::sample::{Fixture, ListingPoint, Point, Subject};
use crate::worker::protocol::NamesPoint;
use std::collections::BTreeSet;
use thalweg_client::walk::WalkMode;
use thalweg_measure::{Batch, Case, Header, Limits, OnFailure, Order, Plan};

/// A subject at a point.
pub(super) type ListingCase = Case<Point, Subject>;

/// Method: the `thalweg ls` command.
pub const COMMAND: &str = "thalweg ls -lU";
/// Method: the stock `ls` on a fresh mount.
pub const MOUNT: &str = "ls -Ul on the mount";
/// Subject: a tree copied in by `thalweg cp`.
pub(super) const OUR_COPY: &str = "thalweg cp -r";
/// Subject: a tree copied in by the stock `cp`.
pub(super) const STOCK_COPY: &str = "cp -r onto the mount";
/// Subject: small files written without listings.
pub(super) const ALONE: &str = "alone";
/// Subject: small files written beside listings.
pub(super) const BESIDE: &str = "beside listings";
/// The only subject of links and names: nothing is compared there.
const ONLY: &str = "all";
/// Bytes of a file read by other workers than its maker, as in IO500's `mdtest-hard`.
const READ_BYTES: u32 = 3_901;
/// Maximum repetitions of names.
const MOST_OF_NAMES: usize = 3;

/// A method of listing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Method {
    /// The client library, in a running process.
    Walk(WalkMode),
    /// The `thalweg ls` command.
    Command,
    /// The stock `ls`, through a mount.
    Mount,
    /// A peer's client: the peer's index, and requests in flight.
    Peer(usize, u32),
}

impl Method {
    /// Returns its name in results.
    pub(super) fn name(self, choice: &Choice) -> String {
        match self {
            Method::Walk(mode) => mode.name().to_owned(),
            Method::Command => COMMAND.into(),
            Method::Mount => MOUNT.into(),
            Method::Peer(peer, window) => format!("{}, {window} at once", choice.stage.peers[peer].name),
        }
    }

    /// Returns the method of this name.
    pub(super) fn named(choice: &Choice, name: &str) -> Option<Method> {
        let walks = WalkMode::ALL.into_iter().map(Method::Walk);
        let all = walks.chain([Method::Command, Method::Mount]).chain(all_peers(choice));
        all.into_iter().find(|method| method.name(choice) == name)
    }

    /// Returns the maximum number of entries to read, if a run of all would take too long; `None`: all.
    pub(super) fn most(self, choice: &Choice, point: &ListingPoint) -> Option<u64> {
        let location = choice.stage.locations.iter().find(|location| location.name == point.location)?;
        let files = point.fixture.files;
        let bounded = |trips: f64| Some(few(location, trips, choice.scale.slow_s, files));
        let most = match self {
            Method::Walk(WalkMode::Synchronous) => bounded(2.0),
            Method::Walk(WalkMode::Statahead) => bounded(1.0),
            Method::Peer(peer, window) if choice.stage.peers[peer].trips_per_file > 0.0 => {
                bounded(choice.stage.peers[peer].trips_per_file / f64::from(window))
            }
            _ => None,
        };
        most.map(|most| most.min(files.saturating_sub(1)).max(1))
    }
}

/// Returns the number of files to list at `trips` round trips each, such that they take about `seconds`.
fn few(location: &Location, trips: f64, seconds: f64, files: u64) -> u64 {
    // A request costs about 50 µs without a link.
    let each_s = trips * (location.round_trip_us * 1e-6 + 50e-6);
    ((seconds / each_s) as u64).clamp(20, 4_000).min(files)
}

/// Returns the plan. Listings come last: after the removal of millions of files, ext4 is slow for minutes, since it passes over their
/// inodes when it creates a file.
pub(super) fn plan(choice: &Choice) -> Plan<Point, Subject> {
    let locations: Vec<&str> = choice.stage.locations.iter().map(|location| location.name.as_str()).collect();
    let header = Header::new("ls", &choice.stage.label).of("locations", locations);
    let mut batches = vec![links(choice)];
    batches.extend([copies(choice), writes(choice), names(choice)].into_iter().flatten());
    batches.extend(listings(choice));
    let (order, limits) = (Order::Shuffled, Limits::default());
    Plan { header, batches, order, limits, warm_up: false, on_failure: OnFailure::LeaveOut, seed: 1 }
}

fn wants(choice: &Choice, part: Part) -> bool {
    choice.parts.is_empty() || choice.parts.contains(&part)
}

/// Measures the link between each location and the servers once.
fn links(choice: &Choice) -> Batch<Point, Subject> {
    let case = |location: &Location| Case { point: Point::Link(location.name.clone()), subject: ONLY.into(), repeat: 1 };
    Batch { name: "links".into(), cases: choice.stage.locations.iter().map(case).collect() }
}

fn copies(choice: &Choice) -> Option<Batch<Point, Subject>> {
    let case = |subject: &str| Case { point: Point::Copy, subject: subject.into(), repeat: choice.repeat };
    wants(choice, Part::Copies).then(|| Batch { name: Part::Copies.name().into(), cases: [OUR_COPY, STOCK_COPY].map(case).into() })
}

fn writes(choice: &Choice) -> Option<Batch<Point, Subject>> {
    let case = |subject: &str| Case { point: Point::Writes, subject: subject.into(), repeat: choice.repeat };
    wants(choice, Part::Crowd).then(|| Batch { name: Part::Crowd.name().into(), cases: [ALONE, BESIDE].map(case).into() })
}

/// `mdtest`'s patterns: with empty files, used by their makers; and, in one directory, with files that have bytes and are used by other
/// workers than their makers.
fn names(choice: &Choice) -> Option<Batch<Point, Subject>> {
    let location = &choice.stage.locations[choice.stage.nearest()].name;
    let mut points = Vec::new();
    for &workers in &choice.scale.workers {
        for shared in [false, true] {
            let point = |mounted, batch| NamesPoint { location: location.clone(), mounted, shared, workers, batch, bytes: 0, stride: 0 };
            points.extend(choice.scale.batches.iter().map(|batch| point(false, *batch)).chain([point(true, 1)]));
        }
        let others = |mounted| {
            let (location, bytes) = (location.clone(), READ_BYTES);
            NamesPoint { location, mounted, shared: true, workers, batch: 1, bytes, stride: 1 }
        };
        points.extend([others(false), others(true)]);
    }
    let repeat = choice.repeat.min(MOST_OF_NAMES);
    let cases = points.into_iter().map(|point| Case { point: Point::Names(point), subject: ONLY.into(), repeat }).collect();
    wants(choice, Part::Names).then(|| Batch { name: Part::Names.name().into(), cases })
}

/// Returns all listings, one batch per fixture.
fn listings(choice: &Choice) -> Vec<Batch<Point, Subject>> {
    let mut all: Vec<(Fixture, Vec<ListingCase>)> = Vec::new();
    let parts = [(Part::Grid, grid as fn(&Choice) -> Vec<_>), (Part::Items, items), (Part::Targets, targets)];
    let wanted = parts.into_iter().filter(|(part, _)| wants(choice, *part));
    for (fixture, location, method) in wanted.flat_map(|(_, of_part)| of_part(choice)) {
        let case = case(choice, &fixture, location, method);
        // Equal fixtures are made once, and equal cases on them run once.
        match all.iter_mut().find(|(known, _)| *known == fixture) {
            None => all.push((fixture, vec![case])),
            Some((_, cases)) if !cases.contains(&case) => cases.push(case),
            Some(_) => {}
        }
    }
    let name = |Fixture { servers, targets, files, datafiles }: Fixture| {
        format!("{files} files of {datafiles} datafiles on {servers} × {targets} targets")
    };
    all.into_iter().map(|(fixture, cases)| Batch { name: name(fixture), cases }).collect()
}

/// A fixture, a location's index in the stage, and a method.
type Listed = (Fixture, usize, Method);

/// Files of 0 to 32 datafiles, with each mechanism, from all locations.
fn grid(choice: &Choice) -> Vec<Listed> {
    let scale = &choice.scale;
    let ends = [scale.datafiles.iter().min(), scale.datafiles.iter().max(), scale.datafiles.iter().find(|d| **d == 4)];
    let mut listed = Vec::new();
    for &datafiles in &scale.datafiles {
        let mut methods = vec![WalkMode::Synchronous, WalkMode::Statahead, WalkMode::GlimpseAhead, WalkMode::SizesFromMetadata];
        if datafiles == 0 {
            methods.remove(1);
        }
        let mut methods: Vec<Method> = methods.into_iter().map(Method::Walk).collect();
        methods.push(Method::Command);
        if ends.contains(&Some(&datafiles)) {
            methods.push(Method::Mount);
        }
        let fixture = Fixture { servers: scale.servers, targets: scale.targets, files: scale.files, datafiles };
        listed.extend(everywhere(0..choice.stage.locations.len(), &fixture, &methods));
    }
    listed
}

/// Growing numbers of files in one directory, compared with other systems.
fn items(choice: &Choice) -> Vec<Listed> {
    let scale = &choice.scale;
    let mut listed = Vec::new();
    for &(files, datafiles) in &scale.items {
        let fixture = Fixture { servers: scale.servers, targets: scale.targets, files, datafiles };
        for location in near_and_one_beyond(choice) {
            let is_near = location == choice.stage.nearest();
            let mut methods = vec![Method::Walk(WalkMode::GlimpseAhead), Method::Walk(WalkMode::SizesFromMetadata), Method::Command];
            if is_near && files <= 100_000 {
                methods.push(Method::Mount);
            }
            methods.extend(peers(choice, files));
            listed.extend(everywhere([location], &fixture, &methods));
        }
    }
    listed
}

/// Growing numbers of targets on a server.
fn targets(choice: &Choice) -> Vec<Listed> {
    let scale = &choice.scale;
    let datafiles = (scale.servers * scale.targets_axis.iter().min().copied().unwrap_or(1)).min(4);
    let methods = [WalkMode::Synchronous, WalkMode::GlimpseAhead, WalkMode::SizesFromMetadata].map(Method::Walk);
    let on = |targets: &u32| {
        let fixture = Fixture { servers: scale.servers, targets: *targets, files: scale.files.min(10_000), datafiles };
        everywhere(near_and_one_beyond(choice), &fixture, &methods)
    };
    scale.targets_axis.iter().flat_map(on).collect()
}

fn everywhere(locations: impl IntoIterator<Item = usize>, fixture: &Fixture, methods: &[Method]) -> Vec<Listed> {
    locations.into_iter().flat_map(|location| methods.iter().map(move |method| (fixture.clone(), location, *method))).collect()
}

/// Returns the nearest location, and another whose round-trip time is nearest to 1 ms, if there is one.
fn near_and_one_beyond(choice: &Choice) -> Vec<usize> {
    let locations = &choice.stage.locations;
    let distance = |at: &usize| (locations[*at].round_trip_us.max(1.0) / 1000.0).ln().abs();
    let beyond = (0..locations.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)));
    BTreeSet::from_iter([choice.stage.nearest()].into_iter().chain(beyond)).into_iter().collect()
}

/// Returns the peers for a directory of usual size only, since other systems are slow to make larger ones.
fn peers(choice: &Choice, files: u64) -> Vec<Method> {
    let usual = choice.scale.items.iter().map(|(files, _)| *files).filter(|files| *files <= 100_000).max();
    if Some(files) == usual { all_peers(choice).collect() } else { Vec::new() }
}

/// Returns all peers, each with all its windows.
fn all_peers(choice: &Choice) -> impl Iterator<Item = Method> {
    let all = choice.stage.peers.iter().enumerate();
    all.flat_map(|(at, peer)| peer.windows.iter().map(move |window| Method::Peer(at, *window)))
}

fn case(choice: &Choice, fixture: &Fixture, location: usize, method: Method) -> ListingCase {
    let point = ListingPoint { fixture: fixture.clone(), location: choice.stage.locations[location].name.clone() };
    // Millions of files take long, and the time of many files varies less.
    let repeat = if fixture.files >= 400_000 { choice.repeat.min(3) } else { choice.repeat };
    Case { point: Point::Listing(point), subject: method.name(choice), repeat }
}

#[cfg(test)]
pub(in crate::ls) mod tests {
    use super::super::choice::{Peer, Scale, Stage};
    use super::*;
    use crate::worker::protocol::Phase;

    pub(in crate::ls) fn choice() -> Choice {
        let mut stage = Stage::here();
        stage.locations.push(Location { name: "10 ms".into(), round_trip_us: 10_000.0, run_on: None, link_pids: Vec::new() });
        stage.locations.push(Location { name: "1 ms".into(), round_trip_us: 1_000.0, run_on: None, link_pids: Vec::new() });
        stage.peers.push(Peer {
            name: "other".into(),
            directory: "/srv".into(),
            list: "list {directory} {window}".into(),
            windows: vec![1, 32],
            trips_per_file: 2.0,
            pids: Vec::new(),
        });
        Choice {
            program: "thalweg".into(),
            directory: "/tmp".into(),
            stage,
            parts: Vec::new(),
            scale: Scale::usual(),
            repeat: 5,
            timeout_s: 10.0,
            out: "out".into(),
            resume: false,
        }
    }

    /// Returns the cases of listings, with their points and methods.
    fn listed(choice: &Choice) -> Vec<(ListingPoint, Method, usize)> {
        let cases = listings(choice).into_iter().flat_map(|batch| batch.cases);
        let listing = |case: ListingCase| match case.point {
            Point::Listing(point) => (point, Method::named(choice, &case.subject).unwrap(), case.repeat),
            other => panic!("{other:?}"),
        };
        cases.map(listing).collect()
    }

    #[test]
    fn the_grid_has_every_number_of_datafiles_with_every_mechanism_from_everywhere() {
        let choice = Choice { parts: vec![Part::Grid], ..choice() };
        let listed = listed(&choice);
        let mut numbers: Vec<u32> = listed.iter().map(|(point, ..)| point.fixture.datafiles).collect();
        numbers.dedup();
        assert_eq!(numbers, choice.scale.datafiles);
        for datafiles in numbers {
            for location in ["loopback", "10 ms", "1 ms"] {
                let here = listed.iter().filter(|(p, ..)| p.location == location && p.fixture.datafiles == datafiles);
                let methods: Vec<String> = here.map(|(_, method, _)| method.name(&choice)).collect();
                for method in ["none", "glimpse-ahead", "metadata", COMMAND] {
                    assert!(methods.iter().any(|name| name == method), "{methods:?}");
                }
                assert_eq!(methods.iter().any(|name| name == MOUNT), [0, 4, 32].contains(&datafiles));
            }
        }
    }

    #[test]
    fn what_goes_one_file_at_a_time_lists_as_many_as_its_time_allows() {
        let choice = choice();
        let point = |location: &str| ListingPoint {
            fixture: Fixture { servers: 4, targets: 8, files: 25_000, datafiles: 32 },
            location: location.into(),
        };
        let most = |method: &str, location: &str| Method::named(&choice, method).unwrap().most(&choice, &point(location));
        assert_eq!(most("none", "10 ms"), Some(20));
        assert_eq!(most("none", "1 ms"), Some(190));
        assert_eq!(most("statahead", "1 ms"), Some(380));
        assert_eq!(most("none", "loopback"), Some(4_000));
        assert_eq!(most("metadata", "10 ms"), None);
        let of_peers: Vec<_> = listed(&choice).into_iter().filter(|(_, method, _)| matches!(method, Method::Peer(..))).collect();
        assert_eq!(of_peers.len(), 2 * 2, "two windows from near and from 1 ms");
        assert!(of_peers.iter().all(|(point, method, _)| point.fixture.files == 100_000 && method.most(&choice, point).is_some()));
    }

    #[test]
    fn fixtures_that_are_the_same_are_made_once() {
        let choice = choice();
        let all = listings(&choice);
        for (at, batch) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other.name != batch.name));
            for (at, case) in batch.cases.iter().enumerate() {
                assert!(batch.cases[..at].iter().all(|other| other != case), "{case:?}");
            }
        }
        let million = all.iter().find(|batch| batch.name.starts_with("1000000 files of 0 datafiles")).unwrap();
        assert!(million.cases.iter().all(|case| case.repeat == 3));
    }

    #[test]
    fn a_store_is_made_for_each_part_that_is_wanted() {
        let names = |parts: Vec<Part>| plan(&Choice { parts, ..choice() }).batches.into_iter().map(|batch| batch.name).collect::<Vec<_>>();
        assert_eq!(names(vec![Part::Names, Part::Crowd]), ["links", "crowd", "names"]);
        assert_eq!(names(Vec::new())[..4], ["links", "copies", "crowd", "names"]);
    }

    #[test]
    fn every_number_of_workers_has_each_pattern_of_mdtest() {
        let choice = Choice { parts: vec![Part::Names], ..choice() };
        let cases = plan(&choice).batches.swap_remove(1).cases;
        let point = |case: ListingCase| if let Point::Names(point) = case.point { point } else { panic!("{case:?}") };
        let points: Vec<NamesPoint> = cases.into_iter().map(point).collect();
        // Two kinds of directories by two batches and the mount; and what others read, by the library and the mount.
        assert_eq!(points.len(), 3 * (2 * 3 + 2));
        for workers in [1, 8, 64] {
            let here = || points.iter().filter(move |point| point.workers == workers);
            assert!([1, 64].into_iter().all(|batch| here().any(|point| (point.mounted, point.batch) == (false, batch))));
            for phase in Phase::ALL {
                assert!(here().any(|point| point.mounted && point.phases().any(|found| found == phase)), "{phase:?}");
            }
            let read = here().filter(|point| point.bytes > 0).collect::<Vec<_>>();
            assert!(read.iter().all(|point| point.stride == 1 && point.batch == 1 && point.shared), "{read:?}");
        }
        // As many names with many workers as with few.
        let names = |workers, batch| u64::from(workers) * choice.scale.names_of_each(workers, batch);
        assert_eq!([1, 8, 64].map(|workers| names(workers, 1)), [1_024, 4_096, 4_096]);
        assert_eq!([1, 8, 64].map(|workers| names(workers, 64)), [4_096, 16_384, 16_384]);
    }
}
