//! The plan: every series at every size, some with every pattern; through the library, mounts and MPI; and other systems.

use super::pattern::{self, Pattern};
use super::sample::{Operation, Point, Subject};
use super::series::{self, CEILING, PEER, Series};
use crate::access::{Access, Sharing};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use thalweg_measure::{Batch, Case, Header, Limits, OnFailure, Order, Plan};

/// A subject at a point.
pub(super) type LayoutCase = Case<Point, Subject>;

/// The request for a layout study.
#[derive(Clone, Debug)]
pub struct Choice {
    /// `HOST:PORT` of the store's metadata service, as the nodes reach it.
    pub store: String,
    /// The file with the store's credential on the nodes; absent: they search for it.
    pub credential: Option<PathBuf>,
    /// The nodes, in the order of ranks; empty: all nodes with servers of the store.
    pub nodes: Vec<String>,
    /// Prefix that starts a command on node `{node}`; absent: all nodes are this machine.
    pub run_on: Option<String>,
    /// Path of `thalweg` on the nodes.
    pub program: PathBuf,
    /// Names of series; empty: all.
    pub series: Vec<String>,
    /// Interfaces to use the store through.
    pub vias: Vec<Via>,
    /// Names of patterns besides `part`.
    pub patterns: Vec<String>,
    /// Sizes of a node's part.
    pub sizes: Vec<u64>,
    /// Size of a part in the other patterns.
    pub pattern_bytes: u64,
    /// Bytes of a transfer.
    pub transfer_bytes: u64,
    /// Transfers in flight in the client library.
    pub in_flight: u32,
    /// Repetitions.
    pub repeat: usize,
    /// The launcher of MPI jobs.
    pub mpi: Option<Mpi>,
    /// Other systems.
    pub peers: Vec<Peer>,
    /// Known rate of the disks, instead of the local series' measurement.
    pub disk_bytes_per_s: Option<f64>,
    /// Known rate of the links, instead of a measurement.
    pub link_bytes_per_s: Option<f64>,
    /// Whether to check the local ceiling with bonnie++.
    pub bonnie: bool,
    /// Whether to record and explain runs.
    pub explain: bool,
    /// Timeout for a server in seconds; ten times as long for a node.
    pub timeout_s: f64,
    /// Description of the store: disks, links.
    pub label: String,
    /// Directory for the raw times and results.
    pub out: PathBuf,
    /// Whether to resume from existing runs.
    pub resume: bool,
}

/// An interface to a store's files.
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

/// The launcher of MPI jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpi {
    /// Command that starts the patterns' program, whose arguments are appended; `{mpi}` and `{ranks}` are replaced.
    pub run: String,
    /// Directory where every rank finds the mount of its own node.
    pub directory: PathBuf,
}

impl Via {
    const ALL: [Via; 4] = [Via::Library, Via::Mount, Via::Mpich, Via::Openmpi];

    /// Returns its name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Via::Library => "library",
            Via::Mount => "mount",
            Via::Mpich => "mpich",
            Via::Openmpi => "openmpi",
        }
    }

    /// Whether it uses mounts on the nodes.
    pub(super) fn is_mounted(self) -> bool {
        self != Via::Library
    }

    /// Whether an MPI job moves the bytes.
    pub(super) fn is_mpi(self) -> bool {
        matches!(self, Via::Mpich | Via::Openmpi)
    }
}

/// Another system, to which commands write the same parts and from which they read them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// The node whose disk its files are on.
    pub node: String,
    /// Path of a file on that disk; `{file}` is replaced by its name.
    pub path: String,
    /// Command that writes `{bytes}` bytes to `{file}`.
    pub write: String,
    /// Command that reads them.
    pub read: String,
}

/// Name of the interface to local files.
pub(super) const POSIX: &str = "posix";
/// Name of the interface to other systems.
const COMMAND: &str = "command";

/// The series for which patterns other than `part` are measured too.
const PATTERN_SERIES: &[&str] = &[CEILING, "stripe-64k", "varstrip-local"];

/// A subject's work at a point.
#[derive(Clone, Debug)]
pub(super) struct Method<'a> {
    /// The point.
    pub(super) point: &'a Point,
    /// The subject.
    pub(super) subject: &'a Subject,
    /// Its series.
    pub(super) series: &'static Series,
    /// Its pattern.
    pub(super) pattern: &'static Pattern,
    /// The interface; absent for a local file or a peer.
    pub(super) via: Option<Via>,
    /// The other system, if it is one.
    pub(super) peer: Option<&'a Peer>,
}

impl<'a> Method<'a> {
    /// Returns the method of a case of this choice's plan.
    pub(super) fn of(choice: &'a Choice, case: &'a LayoutCase) -> Result<Method<'a>> {
        let Case { point, subject, .. } = case;
        let peer = choice.peers.iter().find(|peer| subject.via == COMMAND && peer.name == subject.series);
        let series = if peer.is_some() { Some(&PEER) } else { series::named(&subject.series) };
        let via = Via::ALL.into_iter().find(|via| via.name() == subject.via);
        let (Some(series), Some(pattern)) = (series, pattern::named(&point.pattern)) else {
            return Err(Error::Choice(format!("{} of {}: a bug", point.pattern, subject.series)));
        };
        Ok(Method { point, subject, series, pattern, via, peer })
    }

    /// Returns the access of rank `rank` of `ranks`. A file on the node's own disk holds its own part only.
    pub(super) fn access(&self, ranks: u32, rank: u32) -> Access {
        let access = self.pattern.access(ranks, rank, self.point.part_bytes, self.point.transfer_bytes);
        if self.series.is_local() { Access { sharing: Sharing::PerRank, ..access } } else { access }
    }

    /// Returns the operations measured.
    pub(super) fn operations(&self) -> &'static [Operation] {
        if self.pattern.weight.is_some() {
            &[Operation::Write, Operation::Rewrite, Operation::Read]
        } else {
            &[Operation::Write, Operation::Read]
        }
    }

    /// Returns its series' name in a legend.
    pub(super) fn title(&self) -> String {
        if self.peer.is_some() { self.subject.series.clone() } else { self.series.title.to_owned() }
    }
}

/// Makes the plan of these cases; the header identifies the store.
pub(super) fn plan(cases: Vec<LayoutCase>, header: Header) -> Plan<Point, Subject> {
    let batches = vec![Batch { name: "layouts".into(), cases }];
    let (order, limits) = (Order::Shuffled, Limits::default());
    Plan { header, batches, order, limits, warm_up: false, on_failure: OnFailure::LeaveOut, seed: 1 }
}

/// Returns everything to measure.
///
/// # Errors
/// An unknown name, or an invalid number.
pub(super) fn cases(choice: &Choice) -> Result<Vec<LayoutCase>> {
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
        return Err(Error::Choice("expected at least one size, one repetition, and transfers of at least one byte".into()));
    }
    if choice.mpi.is_none() && choice.vias.iter().any(|via| via.is_mpi()) {
        return Err(Error::Choice("MPI needs a launcher: give --mpi-run".into()));
    }
    let part = &pattern::PATTERNS[0];
    let mut cases: Vec<LayoutCase> = Vec::new();
    let mut add = |series: &str, via: &str, pattern: &Pattern, part_bytes: u64| {
        let transfer_bytes = choice.transfer_bytes.min(part_bytes);
        let point = Point { pattern: pattern.name.into(), part_bytes, transfer_bytes };
        let case = Case { point, subject: Subject { series: series.into(), via: via.into() }, repeat: choice.repeat };
        if !cases.contains(&case) {
            cases.push(case);
        }
    };
    let mut add_series = |series: &Series, pattern: &Pattern, part_bytes: u64| match series.is_local() {
        true => add(series.name, POSIX, pattern, part_bytes),
        false => choice.vias.iter().for_each(|via| add(series.name, via.name(), pattern, part_bytes)),
    };
    for &size in &choice.sizes {
        series.iter().for_each(|series| add_series(series, part, size));
    }
    for pattern in patterns.into_iter().filter(|p| p.name != part.name) {
        let some = series.iter().filter(|s| PATTERN_SERIES.contains(&s.name));
        some.for_each(|series| add_series(series, pattern, choice.pattern_bytes));
    }
    for &size in &choice.sizes {
        choice.peers.iter().for_each(|peer| add(&peer.name, COMMAND, part, size));
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice() -> Choice {
        Choice {
            credential: None,
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
        let choice = choice();
        let cases = cases(&choice).unwrap();
        let part = cases.iter().filter(|c| c.point.pattern == "part").count();
        assert_eq!(part, series::SERIES.len() * 2);
        assert_eq!(cases.len() - part, 2 * PATTERN_SERIES.len());
        let beff = cases.iter().find(|c| c.point.pattern == "beff-shared").unwrap();
        assert_eq!(Method::of(&choice, beff).unwrap().operations(), [Operation::Write, Operation::Rewrite, Operation::Read]);
        let wrong = Choice { series: vec!["x".into()], ..choice };
        assert!(super::cases(&wrong).unwrap_err().to_string().starts_with("series `x`: expected local, "));
    }

    #[test]
    fn a_peer_is_a_subject_by_its_name_whatever_series_has_it_too() {
        let text = |word: &str| word.to_owned();
        let peer = Peer { name: text("local"), node: text("a"), path: text("/{file}"), write: text("w"), read: text("r") };
        let choice = Choice { peers: vec![peer], ..choice() };
        let cases = cases(&choice).unwrap();
        let of_peers: Vec<&LayoutCase> = cases.iter().filter(|case| Method::of(&choice, case).unwrap().peer.is_some()).collect();
        assert_eq!(of_peers.len(), choice.sizes.len());
        assert!(of_peers.iter().all(|case| case.subject.via == COMMAND && Method::of(&choice, case).unwrap().title() == "local"));
    }

    #[test]
    fn a_local_file_has_its_own_part_only() {
        let choice = choice();
        let cases = cases(&choice).unwrap();
        let methods = cases.iter().map(|case| Method::of(&choice, case).unwrap());
        let local = methods.into_iter().find(|m| m.series.is_local() && m.pattern.name == "ior-strided").unwrap();
        assert_eq!(local.access(2, 1).transfers()[0], (0, 1 << 20));
    }
}
