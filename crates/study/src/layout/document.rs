//! The result of a layout study: medians with intervals, paired ratios to the ceiling, predictions, explanations.
//!
//! A point's figure is bytes per second of one node: the bytes of a part over the node's time for it, including the sync if there was one.
//! Figures of all nodes and repetitions are pooled for the curve; each node's own figures are kept too. The ratio to the local disk is
//! taken node by node within a repetition, so that a temporary slowdown of the machine affects both.

use super::pattern::{self, mean_over_operations, mean_over_types};
use super::plan::{Choice, LayoutCase, Method, POSIX};
use super::predict::{self, Flow, Rates};
use super::sample::{Moved, Operation, Point, Sample, Subject};
use super::series::{CEILING, Topology, bytes_on_targets};
use crate::bar::Bar;
use crate::worker::protocol::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thalweg_measure::{CacheState, Estimate, Machine, Measured, Runs, median};

/// The version of the document.
const SCHEMA: &str = "thalweg.layout-study-result/2";
/// Minimum of a part on its writer's own disk, as a part of that disk's rate, on every node.
const LOCAL_BAR: f64 = 0.95;
/// Permitted range of a striped layout's rate over its prediction.
const PREDICTED_BAR: (f64, f64) = (0.85, 1.10);

/// Facts known besides the times.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// The machine that ran the study, and the file systems of its local directories.
    pub(super) machine: Machine,
    /// Nodes and targets.
    pub(super) topology: Topology,
    /// Rate of a link.
    pub(super) link_bytes_per_s: Option<f64>,
    /// bonnie++'s result for a disk.
    pub(super) bonnie: Option<Bonnie>,
}

/// bonnie++'s result for the first node's disk. Rates are absent for phases shorter than half a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bonnie {
    /// The node.
    pub node: String,
    /// The file's size.
    pub size_bytes: u64,
    /// Block write rate, including bonnie++'s own sync.
    pub write_bytes_per_s: Option<f64>,
    /// Block read rate from the page cache.
    pub cached_read_bytes_per_s: Option<f64>,
}

/// The result of a layout study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// Description of the store.
    pub label: String,
    /// The machine that ran the study.
    pub machine: Machine,
    /// The nodes, in the order of ranks.
    pub nodes: Vec<String>,
    /// Repetitions of each point.
    pub repeat: usize,
    /// Rate of a link, measured or given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link_bytes_per_s: Option<f64>,
    /// Rate of the disks, if given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disk_bytes_per_s: Option<f64>,
    /// bonnie++'s check of the ceiling.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bonnie: Option<Bonnie>,
    /// All points.
    pub points: Vec<PointResult>,
    /// The means of `b_eff_io`'s patterns, by series.
    pub means: Vec<Mean>,
    /// Speed relative to other systems, at the largest parts.
    #[serde(default)]
    pub against_peers: Vec<Against>,
    /// Targets, and whether they are met.
    pub bars: Vec<Bar>,
    /// Reasons why something could not be measured.
    pub problems: Vec<String>,
}

/// The figures of one operation of one subject at one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// The subject.
    #[serde(flatten)]
    pub subject: Subject,
    /// The series' name in a legend.
    pub title: String,
    /// The operation.
    pub operation: Operation,
    /// One node's bytes per second, sync included, over nodes and repetitions.
    pub rate_bytes_per_s: Estimate,
    /// The rate over the time of the transfers alone; absent if there is no sync.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unsynced_bytes_per_s: Option<Estimate>,
    /// The rate that disks and links allow.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub predicted_bytes_per_s: Option<f64>,
    /// The rate as a part of the local disk's, in pairs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_local: Option<Estimate>,
    /// The worst state of the caches before reading.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<CacheState>,
    /// The explanation of the run nearest the median.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub explanation: Option<Digest>,
    /// Each node's figures.
    pub nodes: Vec<NodeResult>,
}

/// One node's figures at a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeResult {
    /// The node.
    pub node: String,
    /// Its rate, sync included.
    pub rate_bytes_per_s: Estimate,
    /// Its rate as a part of its local disk's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_local: Option<Estimate>,
    /// The rate that disks and links allow it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub predicted_bytes_per_s: Option<f64>,
}

/// `b_eff_io`'s means for a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// The series' name.
    pub series: String,
    /// The interface used.
    pub via: String,
    /// Mean over the types, by operation (write, rewrite, read), in bytes per second of one node.
    pub operations: BTreeMap<String, f64>,
    /// Mean over the operations.
    pub all: f64,
}

/// A layout's speed relative to another system, node by node within a repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// The series' name in a legend.
    pub title: String,
    /// The interface used.
    pub via: String,
    /// The other system.
    pub peer: String,
    /// The operation.
    pub operation: Operation,
    /// Size of the parts.
    pub part_bytes: u64,
    /// The ratio.
    pub ratio: Estimate,
}

impl Document {
    /// Computes the result.
    pub(super) fn new(choice: &Choice, cases: &[LayoutCase], measured: &Measured<Point, Subject, Sample>, facts: Facts) -> Document {
        let methods: Vec<Method<'_>> = cases.iter().filter_map(|case| Method::of(choice, case).ok()).collect();
        let figures = Figures { choice, facts: &facts, runs: &measured.runs };
        let of_each = |method| Method::operations(method).iter().filter_map(move |operation| figures.point(method, *operation));
        let points: Vec<PointResult> = methods.iter().flat_map(of_each).collect();
        let against_peers = figures.against_peers(&methods);
        let mut document = Document {
            schema: SCHEMA.into(),
            label: choice.label.clone(),
            machine: facts.machine,
            nodes: facts.topology.nodes,
            repeat: choice.repeat,
            link_bytes_per_s: facts.link_bytes_per_s,
            disk_bytes_per_s: choice.disk_bytes_per_s,
            bonnie: facts.bonnie,
            means: means(&points),
            points,
            against_peers,
            bars: Vec::new(),
            problems: measured.problems(),
        };
        document.bars = document.judged();
        document
    }

    /// Formats the document as indented JSON, ending in a newline.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers, strings and lists always serialise");
        text.push('\n');
        text
    }

    /// Returns the sizes of parts measured, in ascending order.
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.points.iter().filter(|p| p.point.pattern == "part").map(|p| p.point.part_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Checks the targets for the largest parts: local layouts reach each node's disk rate, and striping reaches what disks and links
    /// allow.
    fn judged(&self) -> Vec<Bar> {
        let Some(largest) = self.sizes().last().copied() else { return Vec::new() };
        let at_largest = self.points.iter().filter(|p| p.point.pattern == "part" && p.point.part_bytes == largest);
        let mut bars = Vec::new();
        for p in at_largest {
            let operation = p.operation.name();
            if p.subject.series == "varstrip-local" && p.subject.via == "library" {
                for node in &p.nodes {
                    let Some(found) = node.of_local else { continue };
                    let what = format!("{operation}: {} on its own disk through the library, of the disk", node.node);
                    bars.push(Bar { what, found, least: LOCAL_BAR, most: None, kept: found.median >= LOCAL_BAR });
                }
            }
            if let ("stripe-64k", "library", Some(predicted)) = (p.subject.series.as_str(), p.subject.via.as_str(), p.predicted_bytes_per_s)
            {
                let r = p.rate_bytes_per_s;
                let found = Estimate { median: r.median / predicted, low: r.low / predicted, high: r.high / predicted, values: r.values };
                let (least, most) = PREDICTED_BAR;
                let kept = (least..=most).contains(&found.median);
                bars.push(Bar {
                    what: format!("{operation}: {} of what disks and links allow", p.title),
                    found,
                    least,
                    most: Some(most),
                    kept,
                });
            }
        }
        bars
    }
}

/// The data that figures are computed from.
#[derive(Clone, Copy)]
struct Figures<'a> {
    choice: &'a Choice,
    facts: &'a Facts,
    runs: &'a Runs<Point, Subject, Sample>,
}

/// Returns one operation in a sample, of all nodes or of one.
fn of<'a>(sample: &'a Sample, operation: Operation, node: Option<&'a str>) -> impl Iterator<Item = &'a Moved> {
    sample.iter().filter(move |moved| moved.operation == operation && node.is_none_or(|node| moved.node == node))
}

/// Returns seconds per byte, since a local part and a part of a shared file may differ by a last block.
fn seconds_of(sample: &Sample, operation: Operation, node: Option<&str>) -> Vec<f64> {
    of(sample, operation, node).map(|moved| moved.synced_s() / moved.bytes.max(1) as f64).collect()
}

impl Figures<'_> {
    /// Compares every layout with every peer, at the largest parts.
    fn against_peers(&self, methods: &[Method<'_>]) -> Vec<Against> {
        let parts = || methods.iter().filter(|method| method.pattern.name == "part");
        let largest = parts().map(|method| method.point.part_bytes).max();
        let at_largest = || parts().filter(|method| Some(method.point.part_bytes) == largest);
        let mut all = Vec::new();
        for peer in at_largest().filter(|method| method.peer.is_some()) {
            for method in at_largest().filter(|method| method.peer.is_none() && !method.series.is_local()) {
                for &operation in method.operations() {
                    let Some(ratio) = self.ratio(method, peer.subject, operation, None) else { continue };
                    let (title, via, peer) = (method.title(), method.subject.via.clone(), peer.title());
                    all.push(Against { title, via, peer, operation, part_bytes: method.point.part_bytes, ratio });
                }
            }
        }
        all
    }

    /// Returns a method's speed relative to another subject at its point, node by node.
    fn ratio(&self, method: &Method<'_>, to: &Subject, operation: Operation, node: Option<&str>) -> Option<Estimate> {
        let seconds = |sample: &Sample| seconds_of(sample, operation, node);
        Some(self.runs.ratio(method.point, method.subject, to, seconds)?.0)
    }

    fn rate(
        &self,
        point: &Point,
        subject: &Subject,
        figure: impl Fn(&Moved) -> f64,
        operation: Operation,
        node: Option<&str>,
    ) -> Option<Estimate> {
        let rate = |moved: &Moved| moved.bytes as f64 / figure(moved).max(1e-9);
        self.runs.estimate(point, subject, |sample| of(sample, operation, node).map(rate).collect::<Vec<f64>>())
    }

    fn point(&self, method: &Method<'_>, operation: Operation) -> Option<PointResult> {
        // With caches on, the sync is not waited for.
        let is_cached = method.series.is_cached();
        let took = move |moved: &Moved| if is_cached { moved.transfer_s } else { moved.synced_s() };
        let rate = |node: Option<&str>| self.rate(method.point, method.subject, took, operation, node);
        let runs = self.runs.of(method.point, method.subject);
        let moved: Vec<&Moved> = runs.iter().flat_map(|(_, sample)| of(sample, operation, None)).collect();
        let is_synced = moved.iter().any(|moved| moved.sync_s.is_some()) && !is_cached;
        let alone = || self.rate(method.point, method.subject, |moved| moved.transfer_s, operation, None);
        let predicted = self.predicted(method, operation);
        let of_local = |node: Option<&str>| if method.series.is_local() { None } else { self.ratio(method, &ceiling(), operation, node) };
        let node = |(rank, name): (usize, &String)| {
            Some(NodeResult {
                node: name.clone(),
                rate_bytes_per_s: rate(Some(name))?,
                of_local: of_local(Some(name)),
                predicted_bytes_per_s: predicted.as_ref().and_then(|all| all.get(rank).copied()),
            })
        };
        let caches = || moved.iter().filter_map(|moved| moved.cache.as_ref());
        Some(PointResult {
            point: method.point.clone(),
            subject: method.subject.clone(),
            title: method.title(),
            operation,
            rate_bytes_per_s: rate(None)?,
            unsynced_bytes_per_s: if is_synced { alone() } else { None },
            predicted_bytes_per_s: predicted.as_ref().and_then(|all| median(all)),
            of_local: of_local(None),
            cache: caches().find(|state| !state.is_verified()).or_else(|| caches().next()).cloned(),
            explanation: nearest_the_median(&moved, took),
            nodes: self.facts.topology.nodes.iter().enumerate().filter_map(node).collect(),
        })
    }

    /// Returns the bytes per second that disks and links allow each rank, with the disk rate given or measured by the local series.
    fn predicted(&self, method: &Method<'_>, operation: Operation) -> Option<Vec<f64>> {
        let disk = match self.choice.disk_bytes_per_s {
            Some(given) => given,
            None => self.rate(method.point, &ceiling(), Moved::synced_s, operation, None)?.median,
        };
        let topology = &self.facts.topology;
        let rates = Rates { disk_bytes_per_s: disk, link_bytes_per_s: self.facts.link_bytes_per_s };
        let ranks = topology.nodes.len();
        let mut flows = Vec::new();
        for rank in 0..ranks {
            let access = method.access(ranks as u32, rank as u32);
            if let Some(peer) = method.peer {
                let on = topology.nodes.iter().position(|node| *node == peer.node)?;
                flows.push(Flow { rank, on, bytes: access.bytes() as f64 });
                continue;
            }
            let layout = method.series.layout(topology, &access)?;
            for (target, bytes) in bytes_on_targets(&layout, &access).ok()? {
                flows.push(Flow { rank, on: topology.rank_of_target(target)?, bytes: bytes as f64 });
            }
        }
        let seconds = predict::seconds(ranks, &flows, &rates);
        let bytes = |rank: usize| method.access(ranks as u32, rank as u32).bytes() as f64;
        Some(seconds.iter().enumerate().map(|(rank, s)| bytes(rank) / s).collect())
    }
}

/// Returns the subject that all others are compared with.
fn ceiling() -> Subject {
    Subject { series: CEILING.into(), via: POSIX.into() }
}

/// Returns the explanation of the run whose time is nearest the median.
fn nearest_the_median(moved: &[&Moved], took: impl Fn(&Moved) -> f64) -> Option<Digest> {
    let middle = median(&moved.iter().map(|moved| took(moved)).collect::<Vec<_>>())?;
    let explained = moved.iter().filter(|moved| moved.explanation.is_some());
    let nearest = explained.min_by(|a, b| (took(a) - middle).abs().total_cmp(&(took(b) - middle).abs()))?;
    nearest.explanation.clone()
}

fn means(points: &[PointResult]) -> Vec<Mean> {
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for p in points.iter().filter(|p| pattern::named(&p.point.pattern).is_some_and(|found| found.weight.is_some())) {
        let kind = (p.subject.series.as_str(), p.subject.via.as_str());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let of = |(series, via): (&str, &str)| {
        let figure = |operation: Operation| {
            mean_over_types(|pattern| {
                let found = points.iter().find(|p| {
                    p.point.pattern == pattern.name && p.subject.series == series && p.subject.via == via && p.operation == operation
                });
                found.map(|p| p.rate_bytes_per_s.median)
            })
        };
        let (write, rewrite, read) = (figure(Operation::Write)?, figure(Operation::Rewrite)?, figure(Operation::Read)?);
        let operations = [(Operation::Write, write), (Operation::Rewrite, rewrite), (Operation::Read, read)];
        Some(Mean {
            series: series.into(),
            via: via.into(),
            operations: operations.into_iter().map(|(operation, rate)| (operation.name().to_owned(), rate)).collect(),
            all: mean_over_operations(write, rewrite, read),
        })
    };
    kinds.into_iter().filter_map(of).collect()
}
