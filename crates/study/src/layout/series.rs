//! The curves of a study: the destinations of a part.
//!
//! Rank `r` runs on node `r`. A series that lays out a file needs the nodes' targets ([`Topology`]) and the lengths of each rank's
//! contiguous blocks. It returns the layout choice that a client passes when it makes the file.

use crate::access::{Access, Sharing};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use thalweg_client::wire::protocol::io::TargetId;
use thalweg_client::wire::protocol::metadata::{LayoutChoice, Placement, StoreMap};
use thalweg_layout::{Layout, Spec};

/// A curve.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// Its name in the legend.
    pub title: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A file on the node's own disk.
    Local,
    /// A file on the node's own disk, read without emptying the cache.
    LocalCached,
    /// All bytes on one target.
    OneServer,
    /// Strips of this size over all nodes.
    Striped(u64),
    /// A strip is a rank's block, without a chosen placement.
    Fitted,
    /// A strip is a rank's block, placed on the rank's own node.
    Own,
    /// twod_stripe in two groups.
    TwoD,
    /// Another system, written and read by commands.
    Peer,
}

/// All series. Peers have no entry: the user names them.
pub const SERIES: &[Series] = &[
    Series { name: "local", title: "local file system", kind: Kind::Local },
    Series { name: "local-cached", title: "local, caches on", kind: Kind::LocalCached },
    Series { name: "basic", title: "basic_dist: one server", kind: Kind::OneServer },
    Series { name: "stripe-64k", title: "simple_stripe 64 KiB", kind: Kind::Striped(64 << 10) },
    Series { name: "stripe-8m", title: "simple_stripe 8 MiB", kind: Kind::Striped(8 << 20) },
    Series { name: "stripe-16m", title: "simple_stripe 16 MiB", kind: Kind::Striped(16 << 20) },
    Series { name: "stripe-fitted", title: "simple_stripe, strip = part", kind: Kind::Fitted },
    Series { name: "varstrip-local", title: "varstrip_dist, own disk", kind: Kind::Own },
    Series { name: "twod", title: "twod_stripe", kind: Kind::TwoD },
];

/// The series of other systems, which the user names.
pub(crate) const PEER: Series = Series { name: "peer", title: "peer", kind: Kind::Peer };

/// Name of the series that all others are compared with.
pub const CEILING: &str = "local";

/// Returns the series of this name.
pub(crate) fn named(name: &str) -> Option<&'static Series> {
    SERIES.iter().find(|series| series.name == name)
}

/// The nodes of ranks and targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The node of each rank.
    pub nodes: Vec<String>,
    /// The targets on each rank's node.
    pub own: Vec<Vec<u32>>,
    /// All targets of these nodes: the first of each node, then the second of each, and so on.
    pub all: Vec<u32>,
}

impl Topology {
    /// Finds the nodes' targets in a store's map.
    ///
    /// # Errors
    /// A node has no target: nothing it writes could be local.
    pub fn new(map: &StoreMap, nodes: &[String]) -> Result<Topology> {
        let of = |node: &String| -> Vec<u32> {
            let here = |server: u32| map.servers.get(server as usize).is_some_and(|s| s.node == *node);
            map.targets.iter().filter(|t| here(t.server)).map(|t| t.target.0).collect()
        };
        let own: Vec<Vec<u32>> = nodes.iter().map(of).collect();
        if let Some(bare) = nodes.iter().zip(&own).find(|(_, targets)| targets.is_empty()) {
            let known: Vec<&str> = map.servers.iter().map(|s| s.node.as_str()).collect();
            let problem = format!("node {} has no target in this store; its servers are on {}", bare.0, known.join(", "));
            return Err(Error::Choice(problem));
        }
        let most = own.iter().map(Vec::len).max().unwrap_or(0);
        let all = (0..most).flat_map(|n| own.iter().filter_map(move |targets| targets.get(n).copied())).collect();
        Ok(Topology { nodes: nodes.to_vec(), own, all })
    }

    /// Returns the target on the rank's node that the rank writes to.
    fn own_target(&self, rank: usize) -> u32 {
        self.own[rank][0]
    }

    /// Returns the first rank on a target's node.
    pub fn rank_of_target(&self, target: u32) -> Option<usize> {
        self.own.iter().position(|targets| targets.contains(&target))
    }
}

impl Series {
    /// Whether the part is a file on the node's own disk, without a store.
    pub fn is_local(&self) -> bool {
        matches!(self.kind, Kind::Local | Kind::LocalCached)
    }

    /// Whether caches are not emptied.
    pub fn is_cached(&self) -> bool {
        self.kind == Kind::LocalCached
    }

    /// Whether another system's commands move the bytes.
    pub fn is_peer(&self) -> bool {
        self.kind == Kind::Peer
    }

    /// Returns the layout of the file for `access` (rank 0's); `None` if it is not in a store.
    pub fn layout(&self, topology: &Topology, access: &Access) -> Option<LayoutChoice> {
        let ranks = topology.nodes.len();
        let on = |targets: &[u32]| Some(Placement::Targets(targets.iter().copied().map(TargetId).collect()));
        let choice = |spec: Spec, targets: &[u32]| {
            Some(LayoutChoice { spec: Some(spec), datafiles: Some(targets.len() as u32), placement: on(targets), lot: None })
        };
        let striped = |strip: u64, targets: &[u32]| choice(Spec::new("simple_stripe").with("strip_size", strip), targets);
        match self.kind {
            Kind::Local | Kind::LocalCached | Kind::Peer => None,
            Kind::OneServer => choice(Spec::new("basic_dist"), &topology.all[..1]),
            Kind::Striped(strip) => striped(strip, &topology.all),
            Kind::TwoD => choice(Spec::new("twod_stripe").with("num_groups", 2.min(topology.all.len())), &topology.all),
            // Each rank's own file is laid out by its maker.
            Kind::Fitted | Kind::Own if access.sharing == Sharing::PerRank => {
                let rank = (access.rank as usize + usize::from(self.kind == Kind::Fitted)) % ranks;
                choice(Spec::new("basic_dist"), &[topology.own_target(rank)])
            }
            Kind::Fitted => {
                // Without a placement a file starts at a random target; here, to be reproducible, at the neighbour's.
                let targets: Vec<u32> = (0..ranks).map(|rank| topology.own_target((rank + 1) % ranks)).collect();
                striped(access.block_bytes, &targets)
            }
            Kind::Own => {
                let targets: Vec<u32> = (0..ranks).map(|rank| topology.own_target(rank)).collect();
                let strips: Vec<String> = (0..ranks).map(|rank| format!("{rank}:{}", access.block_bytes)).collect();
                choice(Spec::new("varstrip_dist").with("strips", strips.join(";")), &targets)
            }
        }
    }
}

/// Returns the bytes of a rank's access on each target, in the order of the choice.
///
/// # Errors
/// The choice is not a valid layout over these targets.
pub(crate) fn bytes_on_targets(choice: &LayoutChoice, access: &Access) -> Result<Vec<(u32, u64)>> {
    let (Some(spec), Some(Placement::Targets(targets))) = (&choice.spec, &choice.placement) else {
        return Err(Error::Choice("a series names its distribution and its targets: a bug".into()));
    };
    let many = targets.len() as u32;
    let layout = Layout::new(spec, Some(many), many).map_err(|e| Error::Choice(e.to_string()))?;
    let bytes = |datafile: u32, (offset, length): (u64, u64)| {
        let range = layout.physical_range(datafile, offset, length);
        range.end - range.start
    };
    let on = |datafile: u32| access.blocks().map(|block| bytes(datafile, block)).sum();
    Ok((0..many).zip(targets).map(|(datafile, target)| (target.0, on(datafile))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::pattern;

    fn topology(nodes: usize, each: u32) -> Topology {
        let own: Vec<Vec<u32>> = (0..nodes as u32).map(|n| (0..each).map(|t| n * each + t).collect()).collect();
        let all = (0..each as usize).flat_map(|t| own.iter().map(move |targets| targets[t])).collect();
        Topology { nodes: (0..nodes).map(|n| format!("n{n}")).collect(), own, all }
    }

    #[test]
    fn varstrip_local_puts_every_byte_on_its_writers_own_target() {
        let topology = topology(3, 2);
        for name in ["part", "ior-strided", "ior-random", "ior-file-per-process", "beff-scatter"] {
            for rank in 0..3 {
                let access = pattern::named(name).unwrap().access(3, rank, 5 << 20, 1 << 20);
                let choice = named("varstrip-local").unwrap().layout(&topology, &access).unwrap();
                let on = bytes_on_targets(&choice, &access).unwrap();
                let own: u64 = on.iter().filter(|(target, _)| topology.own[rank as usize].contains(target)).map(|t| t.1).sum();
                assert_eq!(own, access.bytes(), "{name}, rank {rank}");
            }
        }
    }

    #[test]
    fn a_fitted_strip_is_on_no_writers_own_target() {
        let topology = topology(4, 1);
        for rank in 0..4 {
            let access = pattern::named("part").unwrap().access(4, rank, 1 << 20, 1 << 20);
            let choice = named("stripe-fitted").unwrap().layout(&topology, &access).unwrap();
            let on = bytes_on_targets(&choice, &access).unwrap();
            assert_eq!(on.iter().filter(|t| t.1 > 0).collect::<Vec<_>>(), [&((rank + 1) % 4, 1 << 20)]);
        }
    }

    #[test]
    fn every_layout_is_one_and_holds_every_byte() {
        let topology = topology(4, 2);
        for series in SERIES.iter().filter(|s| !s.is_local()) {
            for rank in 0..4 {
                let access = pattern::named("part").unwrap().access(4, rank, 3 << 20, 1 << 20);
                let choice = series.layout(&topology, &access).unwrap();
                let bytes: u64 = bytes_on_targets(&choice, &access).unwrap().iter().map(|t| t.1).sum();
                assert_eq!(bytes, 3 << 20, "{}", series.name);
            }
        }
    }

    #[test]
    fn a_node_without_targets_is_an_error_that_names_it() {
        let map = StoreMap { store: 1, servers: Vec::new(), targets: Vec::new() };
        let error = Topology::new(&map, &["x".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("node x has no target"), "{error}");
    }
}
