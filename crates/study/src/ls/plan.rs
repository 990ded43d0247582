//! What is measured of listings, batch by batch: each batch has a store of its own, and what is made in it.

use super::choice::{Choice, Location, Part};
use super::sample::{Fixture, ListingPoint, Point, Subject};
use crate::worker::protocol::NamesPoint;
use std::collections::BTreeSet;
use thalweg_client::walk::WalkMode;
use thalweg_measure::{Batch, Case, Header, Limits, OnFailure, Order, Plan};

/// A subject at a point.
pub(super) type ListingCase = Case<Point, Subject>;

/// `thalweg ls`, started for it.
pub const COMMAND: &str = "thalweg ls -lU";
/// The stock `ls` on a mount that has just been made.
pub const MOUNT: &str = "ls -Ul on the mount";
/// A tree copied in by our command.
pub(super) const OUR_COPY: &str = "thalweg cp -r";
/// The same by the stock command.
pub(super) const STOCK_COPY: &str = "cp -r onto the mount";
/// Small files written while nobody lists.
pub(super) const ALONE: &str = "alone";
/// Small files written beside listings.
pub(super) const BESIDE: &str = "beside listings";
/// What links and names are measured with: nothing is compared there.
const ONLY: &str = "all";
/// Bytes of a file that others than its maker read: those of `mdtest-hard` in IO500.
const READ_BYTES: u32 = 3_901;
/// More repetitions of names say no more.
const MOST_OF_NAMES: usize = 3;

/// How a directory is listed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Method {
    /// By the client library, in a process that is there already.
    Walk(WalkMode),
    /// By our command.
    Command,
    /// By the stock `ls`, through a mount.
    Mount,
    /// By a peer's client: which peer, and requests in flight.
    Peer(usize, u32),
}

impl Method {
    /// As it is called in results.
    pub(super) fn name(self, choice: &Choice) -> String {
        match self {
            Method::Walk(mode) => mode.name().to_owned(),
            Method::Command => COMMAND.into(),
            Method::Mount => MOUNT.into(),
            Method::Peer(peer, window) => format!("{}, {window} at once", choice.stage.peers[peer].name),
        }
    }

    /// The method of this name.
    pub(super) fn named(choice: &Choice, name: &str) -> Option<Method> {
        let walks = WalkMode::ALL.into_iter().map(Method::Walk);
        let all = walks.chain([Method::Command, Method::Mount]).chain(all_peers(choice));
        all.into_iter().find(|method| method.name(choice) == name)
    }

    /// Entries that are read at most where a run would take too long otherwise; `None`: all.
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

/// How many files a run lists that takes `trips` round trips for each: about as many as fit into `seconds`.
fn few(location: &Location, trips: f64, seconds: f64, files: u64) -> u64 {
    // What a request costs where the wire costs nothing: about 50 µs.
    let each_s = trips * (location.round_trip_us * 1e-6 + 50e-6);
    ((seconds / each_s) as u64).clamp(20, 4_000).min(files)
}

/// The plan. Listings come last: a file system that has just lost millions of files (ext4 passes over each of their inodes for minutes,
/// when it makes one) would be measured with that.
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

/// What lies between each location and the servers: once.
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

/// `mdtest`'s patterns: with files that nothing is written into, which their makers use; and, in one directory, with files that have
/// bytes, and that others use than their makers.
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

/// Everything that is listed, one batch for each fixture.
fn listings(choice: &Choice) -> Vec<Batch<Point, Subject>> {
    let mut all: Vec<(Fixture, Vec<ListingCase>)> = Vec::new();
    let parts = [(Part::Grid, grid as fn(&Choice) -> Vec<_>), (Part::Items, items), (Part::Targets, targets)];
    let wanted = parts.into_iter().filter(|(part, _)| wants(choice, *part));
    for (fixture, location, method) in wanted.flat_map(|(_, of_part)| of_part(choice)) {
        let case = case(choice, &fixture, location, method);
        // Fixtures that are the same are made once, and what is the same on them is listed once.
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

/// A fixture, a location by its place in the stage, a method.
type Listed = (Fixture, usize, Method);

/// Files of 0 to 32 datafiles, with each mechanism, from everywhere.
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

/// More and more files in one directory, beside other systems.
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

/// More and more targets on a server.
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

/// The nearest location, and the one whose round trip is nearest to 1 ms, if that is another.
fn near_and_one_beyond(choice: &Choice) -> Vec<usize> {
    let locations = &choice.stage.locations;
    let distance = |at: &usize| (locations[*at].round_trip_us.max(1.0) / 1000.0).ln().abs();
    let beyond = (0..locations.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)));
    BTreeSet::from_iter([choice.stage.nearest()].into_iter().chain(beyond)).into_iter().collect()
}

/// The peers: on a directory of a usual size only, since other systems take their time to make theirs.
fn peers(choice: &Choice, files: u64) -> Vec<Method> {
    let usual = choice.scale.items.iter().map(|(files, _)| *files).filter(|files| *files <= 100_000).max();
    if Some(files) == usual { all_peers(choice).collect() } else { Vec::new() }
}

/// All peers, each with all its windows.
fn all_peers(choice: &Choice) -> impl Iterator<Item = Method> {
    let all = choice.stage.peers.iter().enumerate();
    all.flat_map(|(at, peer)| peer.windows.iter().map(move |window| Method::Peer(at, *window)))
}

fn case(choice: &Choice, fixture: &Fixture, location: usize, method: Method) -> ListingCase {
    let point = ListingPoint { fixture: fixture.clone(), location: choice.stage.locations[location].name.clone() };
    // Millions of files take their time, and the time of many files varies less.
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

    /// Cases of listings, with their points and methods.
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
