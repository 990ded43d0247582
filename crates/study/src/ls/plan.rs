//! Grounds, and what is measured on each.

use super::choice::{Choice, Part, Place};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use thalweg_store::client::walk::WalkMode;

/// What is made before anything is listed: a store, and a directory in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ground {
    /// I/O servers.
    pub servers: u32,
    /// Targets of each.
    pub targets: u32,
    /// Files of the directory.
    pub files: u64,
    /// Datafiles of each; 0: never written.
    pub datafiles: u32,
}

/// What is measured: a point of a curve.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// On what.
    #[serde(flatten)]
    pub ground: Ground,
    /// From where.
    pub place: String,
    /// How: a mechanism's name, [`COMMAND`], [`MOUNT`], or a peer's with its window.
    pub how: String,
}

/// `thalweg ls`, started for it.
pub const COMMAND: &str = "thalweg ls -lU";
/// The stock `ls` on a mount that has just been made.
pub const MOUNT: &str = "ls -Ul on the mount";

/// How a directory is listed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// By the client library, in a process that is there already.
    Walk(WalkMode),
    /// By our command.
    Command,
    /// By the stock `ls`, through a mount.
    Mount,
    /// By a peer's client: which peer, and requests in flight.
    Peer(usize, u32),
}

/// One thing to measure.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The point.
    pub point: Point,
    /// How.
    pub how: How,
    /// From where: its place in the stage.
    pub place: usize,
    /// Entries that are read at most; `None`: all.
    pub most: Option<u64>,
    /// Repetitions.
    pub repeat: usize,
}

/// A ground with all that is measured on it.
#[derive(Clone, Debug)]
pub struct Lot {
    /// The ground.
    pub ground: Ground,
    /// What is measured.
    pub cells: Vec<Cell>,
}

impl How {
    /// As it is called in results.
    pub fn name(self, choice: &Choice) -> String {
        match self {
            How::Walk(mode) => mode.name().to_owned(),
            How::Command => COMMAND.into(),
            How::Mount => MOUNT.into(),
            How::Peer(peer, window) => format!("{}, {window} at once", choice.stage.peers[peer].name),
        }
    }
}

/// How many files a run lists that takes `trips` round trips for each: about as many as fit into `seconds`.
pub fn few(place: &Place, trips: f64, seconds: f64, files: u64) -> u64 {
    // What a request costs where the wire costs nothing: about 50 µs.
    let each_s = trips * (place.round_trip_us * 1e-6 + 50e-6);
    ((seconds / each_s) as u64).clamp(20, 4_000).min(files)
}

/// Everything that is listed, ground by ground. (Names, crowds and copies are made on grounds of their own: see [`super::conduct`].)
pub fn lots(choice: &Choice) -> Vec<Lot> {
    let wanted = |part: Part| choice.parts.is_empty() || choice.parts.contains(&part);
    let scale = &choice.scale;
    let anchor = |files, datafiles| Ground { servers: scale.servers, targets: scale.targets, files, datafiles };
    let mut lots: Vec<Lot> = Vec::new();
    if wanted(Part::Grid) {
        let ends = [scale.datafiles.iter().min(), scale.datafiles.iter().max(), scale.datafiles.iter().find(|d| **d == 4)];
        for &datafiles in &scale.datafiles {
            let is_shown = ends.contains(&Some(&datafiles));
            let mut cells = Vec::new();
            for place in 0..choice.stage.places.len() {
                let mut hows = vec![WalkMode::Synchronous, WalkMode::Statahead, WalkMode::GlimpseAhead, WalkMode::SizesFromMetadata];
                if datafiles == 0 {
                    hows.remove(1);
                }
                let mut hows: Vec<How> = hows.into_iter().map(How::Walk).collect();
                hows.push(How::Command);
                if is_shown {
                    hows.push(How::Mount);
                }
                cells.extend(hows.into_iter().map(|how| cell(choice, &anchor(scale.files, datafiles), place, how)));
            }
            lots.push(Lot { ground: anchor(scale.files, datafiles), cells });
        }
    }
    if wanted(Part::Items) {
        for &(files, datafiles) in &scale.items {
            let ground = anchor(files, datafiles);
            let mut cells = Vec::new();
            for place in near_and_one_beyond(choice) {
                let is_near = place == choice.stage.nearest();
                let mut hows = vec![How::Walk(WalkMode::GlimpseAhead), How::Walk(WalkMode::SizesFromMetadata), How::Command];
                if is_near && files <= 100_000 {
                    hows.push(How::Mount);
                }
                hows.extend(peers(choice, files));
                cells.extend(hows.into_iter().map(|how| cell(choice, &ground, place, how)));
            }
            lots.push(Lot { ground, cells });
        }
    }
    if wanted(Part::Targets) {
        for &targets in &scale.targets_axis {
            let datafiles = (scale.servers * scale.targets_axis.iter().min().copied().unwrap_or(1)).min(4);
            let ground = Ground { servers: scale.servers, targets, files: scale.files.min(10_000), datafiles };
            let hows = [WalkMode::Synchronous, WalkMode::GlimpseAhead, WalkMode::SizesFromMetadata].map(How::Walk);
            let cells = near_and_one_beyond(choice).into_iter();
            let cells = cells.flat_map(|place| hows.map(|how| cell(choice, &ground, place, how))).collect();
            lots.push(Lot { ground, cells });
        }
    }
    merged(lots)
}

/// The nearest place, and the one whose round trip is nearest to 1 ms, if that is another.
fn near_and_one_beyond(choice: &Choice) -> Vec<usize> {
    let places = &choice.stage.places;
    let distance = |at: &usize| (places[*at].round_trip_us.max(1.0) / 1000.0).ln().abs();
    let beyond = (0..places.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)));
    BTreeSet::from_iter([choice.stage.nearest()].into_iter().chain(beyond)).into_iter().collect()
}

/// The peers, and with which windows: on a directory of a usual size only, since other systems take their time to make theirs.
fn peers(choice: &Choice, files: u64) -> Vec<How> {
    let usual = choice.scale.items.iter().map(|(files, _)| *files).filter(|files| *files <= 100_000).max();
    if Some(files) != usual {
        return Vec::new();
    }
    let all = choice.stage.peers.iter().enumerate();
    all.flat_map(|(at, peer)| peer.windows.iter().map(move |window| How::Peer(at, *window))).collect()
}

fn cell(choice: &Choice, ground: &Ground, place: usize, how: How) -> Cell {
    let at = &choice.stage.places[place];
    let bounded = |trips: f64| Some(few(at, trips, choice.scale.slow_s, ground.files));
    let most = match how {
        How::Walk(WalkMode::Synchronous) => bounded(2.0),
        How::Walk(WalkMode::Statahead) => bounded(1.0),
        How::Peer(peer, window) if choice.stage.peers[peer].trips_per_file > 0.0 => {
            bounded(choice.stage.peers[peer].trips_per_file / f64::from(window))
        }
        _ => None,
    };
    let point = Point { ground: ground.clone(), place: at.name.clone(), how: how.name(choice) };
    // Millions of files take their time, and the time of many files varies less.
    let repeat = if ground.files >= 400_000 { choice.repeat.min(3) } else { choice.repeat };
    Cell { point, how, place, most: most.map(|most| most.min(ground.files.saturating_sub(1)).max(1)), repeat }
}

/// Grounds that are the same are made once.
fn merged(lots: Vec<Lot>) -> Vec<Lot> {
    let mut all: Vec<Lot> = Vec::new();
    for lot in lots {
        match all.iter_mut().find(|known| known.ground == lot.ground) {
            None => all.push(lot),
            Some(known) => {
                let more = lot.cells.into_iter().filter(|cell| known.cells.iter().all(|k| k.point != cell.point)).collect::<Vec<_>>();
                known.cells.extend(more);
            }
        }
    }
    all
}

/// The order of runs on one ground: all cells once, then all again the other way round. Each is a repetition, from 1, and a cell.
pub fn order(cells: &[Cell]) -> Vec<(usize, &Cell)> {
    let most = cells.iter().map(|cell| cell.repeat).max().unwrap_or(0);
    let one = |repeat: usize| {
        let wanted = cells.iter().filter(move |cell| repeat <= cell.repeat).map(move |cell| (repeat, cell));
        let mut wanted: Vec<_> = wanted.collect();
        if repeat.is_multiple_of(2) {
            wanted.reverse();
        }
        wanted
    };
    (1..=most).flat_map(one).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::choice::{Peer, Scale, Stage};
    use super::*;

    pub(crate) fn choice() -> Choice {
        let mut stage = Stage::here();
        stage.places.push(Place { name: "10 ms".into(), round_trip_us: 10_000.0, run_on: None, link_pids: Vec::new() });
        stage.places.push(Place { name: "1 ms".into(), round_trip_us: 1_000.0, run_on: None, link_pids: Vec::new() });
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

    #[test]
    fn the_grid_has_every_number_of_datafiles_with_every_mechanism_from_everywhere() {
        let choice = Choice { parts: vec![Part::Grid], ..choice() };
        let lots = lots(&choice);
        assert_eq!(lots.iter().map(|lot| lot.ground.datafiles).collect::<Vec<_>>(), choice.scale.datafiles);
        for lot in &lots {
            for place in ["loopback", "10 ms", "1 ms"] {
                let hows: Vec<&str> = lot.cells.iter().filter(|c| c.point.place == place).map(|c| c.point.how.as_str()).collect();
                for how in ["sync", "glimpse-ahead", "metadata", COMMAND] {
                    assert!(hows.contains(&how), "{hows:?}");
                }
                assert_eq!(hows.contains(&MOUNT), [0, 4, 32].contains(&lot.ground.datafiles));
            }
        }
    }

    #[test]
    fn what_goes_one_file_at_a_time_lists_as_many_as_its_time_allows() {
        let choice = choice();
        let lots = lots(&choice);
        let grid = lots.iter().find(|lot| lot.ground.files == 25_000 && lot.ground.datafiles == 32).unwrap();
        let most = |how: &str, place: &str| grid.cells.iter().find(|c| c.point.how == how && c.point.place == place).unwrap().most;
        assert_eq!(most("sync", "10 ms"), Some(20));
        assert_eq!(most("sync", "1 ms"), Some(190));
        assert_eq!(most("statahead", "1 ms"), Some(380));
        assert_eq!(most("sync", "loopback"), Some(4_000));
        assert_eq!(most("metadata", "10 ms"), None);
        let peers: Vec<&Cell> = lots.iter().flat_map(|lot| &lot.cells).filter(|c| matches!(c.how, How::Peer(..))).collect();
        assert_eq!(peers.len(), 2 * 2, "two windows from near and from 1 ms");
        assert!(peers.iter().all(|c| c.point.ground.files == 100_000 && c.most.is_some()));
    }

    #[test]
    fn grounds_that_are_the_same_are_made_once() {
        let choice = choice();
        let all = lots(&choice);
        for (at, lot) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other.ground != lot.ground));
            for (at, cell) in lot.cells.iter().enumerate() {
                assert!(lot.cells[..at].iter().all(|other| other.point != cell.point), "{:?}", cell.point);
            }
        }
        let million = all.iter().find(|lot| lot.ground.files == 1_000_000).unwrap();
        assert!(million.ground.datafiles == 0 && million.cells.iter().all(|cell| cell.repeat == 3));
    }

    #[test]
    fn repetitions_are_interleaved_and_turn_round() {
        let choice = Choice { parts: vec![Part::Targets], repeat: 2, ..choice() };
        let lots = lots(&choice);
        let cells = &lots[0].cells;
        let order = order(cells);
        assert_eq!(order.len(), cells.len() * 2);
        assert!(order[..cells.len()].iter().all(|(repeat, _)| *repeat == 1));
        assert_eq!(order[cells.len()].1.point, cells.last().unwrap().point);
    }
}
