//! What is measured, in which order, and what of it is there already.

use crate::access::{Access, Sharing};
use crate::pattern::{self, Pattern};
use crate::raw::{Line, Point, Way};
use crate::series::{self, CEILING, PEER, Series};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The store: `HOST:PORT` of its metadata service, as the nodes reach it.
    pub store: String,
    /// The nodes, in the order of ranks; empty: all that the store has servers on.
    pub nodes: Vec<String>,
    /// How a command is started on a node, `{node}` standing for it; absent: all nodes are this machine.
    pub run_on: Option<String>,
    /// The `thalweg` of the nodes.
    pub program: PathBuf,
    /// Names of series; empty: all.
    pub series: Vec<String>,
    /// Through what a store is used.
    pub vias: Vec<Via>,
    /// Names of further patterns beside `part`.
    pub patterns: Vec<String>,
    /// Sizes of a node's part.
    pub sizes: Vec<u64>,
    /// The part's size in the other patterns.
    pub pattern_bytes: u64,
    /// Bytes of a transfer.
    pub transfer_bytes: u64,
    /// Transfers in flight through the client library.
    pub in_flight: u32,
    /// Repetitions.
    pub repeat: usize,
    /// How MPI jobs are run.
    pub mpi: Option<Mpi>,
    /// Other systems.
    pub peers: Vec<Peer>,
    /// What the disks are known to give, instead of what the local series measures.
    pub disk_bytes_per_s: Option<f64>,
    /// What the links are known to carry, instead of what is measured.
    pub link_bytes_per_s: Option<f64>,
    /// Whether to have the local ceiling checked by bonnie++.
    pub bonnie: bool,
    /// Whether to record and explain runs.
    pub explain: bool,
    /// Silence after which a server, and ten times that after which a node, is given up.
    pub timeout_s: f64,
    /// What this store is: disks, links.
    pub label: String,
    /// Where the raw times and results go.
    pub out: PathBuf,
    /// Whether to go on with what is there.
    pub resume: bool,
}

/// Through what a store's files are written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The client library.
    Library,
    /// A mount on each node.
    Mount,
    /// MPI-IO of MPICH, over the mounts.
    Mpich,
    /// MPI-IO of Open MPI, over the mounts.
    Openmpi,
}

/// How jobs of an MPI are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpi {
    /// The words that start the program of the patterns, its arguments to follow; `{mpi}` and `{ranks}` stand for what they say.
    pub run: String,
    /// Where every rank sees the mount of its own node.
    pub directory: PathBuf,
}

impl Via {
    /// As in results.
    pub fn name(self) -> &'static str {
        match self {
            Via::Library => "library",
            Via::Mount => "mount",
            Via::Mpich => "mpich",
            Via::Openmpi => "openmpi",
        }
    }

    /// Whether the nodes mount the store for it.
    pub fn is_mounted(self) -> bool {
        self != Via::Library
    }

    /// Whether a job of all ranks moves the bytes.
    pub fn is_mpi(self) -> bool {
        matches!(self, Via::Mpich | Via::Openmpi)
    }
}

/// Another system that the same parts are written to and read from, by commands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// The node whose disk its files are on.
    pub node: String,
    /// Where a file is on that disk; `{file}` stands for its name.
    pub path: String,
    /// Writes `{bytes}` bytes to `{file}`.
    pub write: String,
    /// Reads them.
    pub read: String,
}

/// The series whose patterns other than `part` are measured too.
const PATTERN_SERIES: &[&str] = &[CEILING, "stripe-64k", "varstrip-local"];

/// One thing to measure: a point, and how.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The point.
    pub point: Point,
    /// Its series.
    pub series: &'static Series,
    /// Its pattern.
    pub pattern: &'static Pattern,
    /// Through what; absent: a local file or a peer.
    pub via: Option<Via>,
    /// Which peer, by its place in the choice.
    pub peer: Option<usize>,
}

impl Cell {
    /// What rank `rank` of `ranks` does. A file of the node's own disk holds its own part only.
    pub fn access(&self, ranks: u32, rank: u32) -> Access {
        let access = self.pattern.access(ranks, rank, self.point.part_bytes, self.point.transfer_bytes);
        if self.series.is_local() { Access { sharing: Sharing::PerRank, ..access } } else { access }
    }

    /// The ways that are measured.
    pub fn ways(&self) -> &'static [Way] {
        if self.pattern.weight.is_some() { &[Way::Write, Way::Rewrite, Way::Read] } else { &[Way::Write, Way::Read] }
    }

    /// Its series' name in a legend.
    pub fn title(&self) -> String {
        if self.peer.is_some() { self.point.series.clone() } else { self.series.title.to_owned() }
    }
}

/// Everything that is to be measured once in each repetition.
///
/// # Errors
/// A name that is none; a number that is impossible.
pub fn cells(choice: &Choice) -> Result<Vec<Cell>> {
    let unknown = |what: &str, name: &str, known: Vec<&str>| Error::Choice(format!("{what} `{name}`: expected {}", known.join(", ")));
    let series: Vec<&'static Series> = match choice.series.as_slice() {
        [] => series::SERIES.iter().collect(),
        names => {
            let found =
                |name: &String| series::named(name).ok_or_else(|| unknown("series", name, series::SERIES.iter().map(|s| s.name).collect()));
            names.iter().map(found).collect::<Result<_>>()?
        }
    };
    let known_patterns = || pattern::PATTERNS.iter().map(|p| p.name).collect();
    let found = |name: &String| pattern::named(name).ok_or_else(|| unknown("pattern", name, known_patterns()));
    let patterns: Vec<&'static Pattern> = choice.patterns.iter().map(found).collect::<Result<_>>()?;
    if choice.sizes.is_empty() || choice.repeat == 0 || choice.transfer_bytes == 0 || choice.sizes.contains(&0) {
        return Err(Error::Choice("at least one size, one repetition, and transfers of at least one byte".into()));
    }
    if choice.mpi.is_none() && choice.vias.iter().any(|via| via.is_mpi()) {
        return Err(Error::Choice("MPI jobs must be started somehow: say how with --mpi-run".into()));
    }
    let part = &pattern::PATTERNS[0];
    let mut cells = Vec::new();
    let mut add = |series: &'static Series, pattern: &'static Pattern, via: Option<Via>, peer: Option<usize>, part_bytes: u64| {
        let name = peer.map_or(series.name, |peer| choice.peers[peer].name.as_str());
        let through = via.map_or(if peer.is_some() { "command" } else { "posix" }, Via::name);
        let transfer_bytes = choice.transfer_bytes.min(part_bytes);
        let point = Point { series: name.into(), via: through.into(), pattern: pattern.name.into(), part_bytes, transfer_bytes };
        cells.push(Cell { point, series, pattern, via, peer });
    };
    for &size in &choice.sizes {
        for series in &series {
            match series.is_local() {
                true => add(series, part, None, None, size),
                false => choice.vias.iter().for_each(|via| add(series, part, Some(*via), None, size)),
            }
        }
        (0..choice.peers.len()).for_each(|peer| add(&PEER, part, None, Some(peer), size));
    }
    for pattern in patterns.into_iter().filter(|p| p.name != part.name) {
        for series in series.iter().filter(|s| PATTERN_SERIES.contains(&s.name)) {
            match series.is_local() {
                true => add(series, pattern, None, None, choice.pattern_bytes),
                false => choice.vias.iter().for_each(|via| add(series, pattern, Some(*via), None, choice.pattern_bytes)),
            }
        }
    }
    Ok(cells)
}

/// The order of runs: all cells, then all again the other way round, so that what one leaves behind does not always fall on the same.
/// Each is a repetition, from 1, and a cell's place.
pub fn order(cells: usize, repeat: usize) -> Vec<(usize, usize)> {
    let one = |repetition: usize| (0..cells).map(move |at| (repetition, if repetition % 2 == 1 { at } else { cells - 1 - at }));
    (1..=repeat).flat_map(one).collect()
}

/// The lines there are, the last of each kind: a run that was cut short was made again.
#[derive(Debug, Default)]
pub struct Known(BTreeMap<(Point, Way, usize, String), Line>);

impl Known {
    /// Of these lines.
    pub fn new(lines: Vec<Line>) -> Known {
        let mut known = Known::default();
        lines.into_iter().for_each(|line| known.add(line));
        known
    }

    /// One more.
    pub fn add(&mut self, line: Line) {
        self.0.insert((line.point.clone(), line.way, line.repeat, line.node.clone()), line);
    }

    /// Whether a cell has been measured in a repetition, on every node and in every way.
    pub fn has(&self, cell: &Cell, repeat: usize, nodes: &[String]) -> bool {
        let there = |way: &Way, node: &String| self.0.contains_key(&(cell.point.clone(), *way, repeat, node.clone()));
        nodes.iter().all(|node| cell.ways().iter().all(|way| there(way, node)))
    }

    /// All of them, in the order of points, ways, repetitions and nodes.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.0.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn choice() -> Choice {
        Choice {
            store: "127.0.0.1:1".into(),
            nodes: vec!["a".into(), "b".into()],
            run_on: None,
            program: "thalweg".into(),
            series: Vec::new(),
            vias: vec![Via::Library],
            patterns: vec!["ior-strided".into(), "beff-shared".into()],
            sizes: vec![1 << 20, 4 << 20],
            pattern_bytes: 1 << 20,
            transfer_bytes: 1 << 20,
            in_flight: 4,
            repeat: 2,
            mpi: None,
            peers: Vec::new(),
            disk_bytes_per_s: None,
            link_bytes_per_s: None,
            bonnie: false,
            explain: false,
            timeout_s: 10.0,
            label: String::new(),
            out: "out".into(),
            resume: false,
        }
    }

    #[test]
    fn every_series_is_measured_at_every_size_and_some_with_every_pattern() {
        let cells = cells(&choice()).unwrap();
        let part = cells.iter().filter(|c| c.pattern.name == "part").count();
        assert_eq!(part, series::SERIES.len() * 2);
        assert_eq!(cells.len() - part, 2 * PATTERN_SERIES.len());
        let beff = cells.iter().find(|c| c.pattern.name == "beff-shared").unwrap();
        assert_eq!(beff.ways(), [Way::Write, Way::Rewrite, Way::Read]);
        let wrong = Choice { series: vec!["x".into()], ..choice() };
        assert!(super::cells(&wrong).unwrap_err().to_string().starts_with("series `x`: expected local, "));
    }

    #[test]
    fn repetitions_are_interleaved_and_turn_round() {
        assert_eq!(order(3, 2), [(1, 0), (1, 1), (1, 2), (2, 2), (2, 1), (2, 0)]);
    }

    #[test]
    fn what_is_not_there_from_every_node_is_measured_again() {
        let all = cells(&choice()).unwrap();
        let nodes = choice().nodes;
        let line = |node: &str, way| Line {
            point: all[0].point.clone(),
            way,
            repeat: 1,
            node: node.into(),
            bytes: 1,
            transfer_s: 1.0,
            sync_s: None,
            cache: None,
            explanation: None,
            at_unix_s: 0,
        };
        let mut known = Known::new(vec![line("a", Way::Write), line("a", Way::Read), line("b", Way::Write)]);
        assert!(!known.has(&all[0], 1, &nodes));
        known.add(line("b", Way::Read));
        assert!(known.has(&all[0], 1, &nodes) && !known.has(&all[0], 2, &nodes) && !known.has(&all[1], 1, &nodes));
        // The last one counts.
        known.add(Line { transfer_s: 9.0, ..line("b", Way::Read) });
        assert_eq!(known.lines().filter(|l| l.node == "b" && l.way == Way::Read).map(|l| l.transfer_s).collect::<Vec<_>>(), [9.0]);
    }

    #[test]
    fn a_local_file_has_its_own_part_only() {
        let cells = cells(&choice()).unwrap();
        let local = cells.iter().find(|c| c.series.is_local() && c.pattern.name == "ior-strided").unwrap();
        assert_eq!(local.access(2, 1).transfers()[0], (0, 1 << 20));
    }
}
