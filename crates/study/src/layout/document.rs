//! What came of a study: medians with intervals, ratios to the ceiling in pairs, predictions, explanations.
//!
//! A point's figure is bytes per second of one node: the bytes of a part over the time that the node took for it, the sync included
//! where there was one. Figures of all nodes and repetitions are pooled for the curve; each node's own stand beside it. The ratio to
//! the local disk is taken node by node within a repetition, so that what slowed the machine for a while slowed both.

use crate::pattern::{self, mean_over_types, mean_over_ways};
use crate::plan::{Cell, Choice, Known};
use crate::predict::{self, Flow, Rates};
use crate::raw::{Digest, Line, Point, Way};
use crate::series::{CEILING, Ground, bytes_on_targets};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thalweg_measure::{CacheState, Estimate, Machine, median, median_interval, paired_ratio};

/// The version of the document.
pub const SCHEMA: &str = "thalweg.layout-study-result/1";
/// Equal seeds give equal intervals.
const SEED: u64 = 1;
/// What a part on its writer's own disk must reach of that disk, on every node.
pub const LOCAL_BAR: f64 = 0.95;
/// How near to its prediction a striped layout must be.
pub const PREDICTED_BAR: (f64, f64) = (0.85, 1.10);

/// What is known besides the times.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Where the study was conducted from, and the file systems of the local directories it can see.
    pub machine: Machine,
    /// Nodes and targets.
    pub ground: Ground,
    /// What a link carries.
    pub link_bytes_per_s: Option<f64>,
    /// bonnie++'s view of a disk.
    pub bonnie: Option<Bonnie>,
}

/// bonnie++ on the first node's disk. What took it less than half a second is absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bonnie {
    /// The node.
    pub node: String,
    /// The file's size.
    pub size_bytes: u64,
    /// Blocks written, its own sync included.
    pub write_bytes_per_s: Option<f64>,
    /// Blocks read, out of the page cache.
    pub cached_read_bytes_per_s: Option<f64>,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// What the store is.
    pub label: String,
    /// Where the study was conducted from.
    pub machine: Machine,
    /// The nodes, in the order of ranks.
    pub nodes: Vec<String>,
    /// Repetitions of each point.
    pub repeat: usize,
    /// What a link carries, measured or given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link_bytes_per_s: Option<f64>,
    /// What the disks are said to give, if that was said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disk_bytes_per_s: Option<f64>,
    /// The check of the ceiling.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bonnie: Option<Bonnie>,
    /// All points.
    pub points: Vec<PointResult>,
    /// The means of `b_eff_io`'s patterns, by series.
    pub means: Vec<Mean>,
    /// How many times as fast as other systems, at the largest parts.
    #[serde(default)]
    pub against_peers: Vec<Against>,
    /// What was promised, and whether it was kept.
    pub bars: Vec<Bar>,
    /// What could not be measured, and why.
    pub problems: Vec<String>,
}

/// One point, one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// Which.
    #[serde(flatten)]
    pub point: Point,
    /// The series' name in a legend.
    pub title: String,
    /// Which way.
    pub way: Way,
    /// One node's bytes per second, sync included, over nodes and repetitions.
    pub rate_bytes_per_s: Estimate,
    /// The same with the time of the transfers alone; absent for what is not synced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unsynced_bytes_per_s: Option<Estimate>,
    /// What disks and links allow.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub predicted_bytes_per_s: Option<f64>,
    /// The rate as a part of the local disk's, in pairs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_local: Option<Estimate>,
    /// The state of the caches before it was read: the worst there was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<CacheState>,
    /// What held it up: of the run nearest the median.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub explanation: Option<Digest>,
    /// Each node's own.
    pub nodes: Vec<NodeResult>,
}

/// One node's figures at a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeResult {
    /// The node.
    pub node: String,
    /// Its rate, sync included.
    pub rate_bytes_per_s: Estimate,
    /// The same as a part of its local disk's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_local: Option<Estimate>,
    /// What disks and links allow it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub predicted_bytes_per_s: Option<f64>,
}

/// `b_eff_io`'s means for a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// The series' name.
    pub series: String,
    /// Through what.
    pub via: String,
    /// Over the types, by way: write, rewrite, read; bytes per second of one node.
    pub ways: BTreeMap<String, f64>,
    /// Over the ways.
    pub all: f64,
}

/// A layout beside another system: how many times as fast, node by node within a repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// The series' name in a legend.
    pub title: String,
    /// Through what.
    pub via: String,
    /// The other system.
    pub peer: String,
    /// Which way.
    pub way: Way,
    /// The parts' size.
    pub part_bytes: u64,
    /// The ratio.
    pub ratio: Estimate,
}

/// A promise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// What.
    pub what: String,
    /// What was found.
    pub found: Estimate,
    /// From here on it is kept.
    pub least: f64,
    /// Up to here; absent: more is better.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub most: Option<f64>,
    /// Whether it was.
    pub kept: bool,
}

/// The lines of one point and way.
type Group<'a> = Vec<&'a Line>;

impl Document {
    /// Puts it together.
    pub fn new(choice: &Choice, cells: &[Cell], known: &Known, facts: Facts, problems: Vec<String>) -> Document {
        let mut groups: BTreeMap<(Point, Way), Group<'_>> = BTreeMap::new();
        for line in known.lines() {
            groups.entry((line.point.clone(), line.way)).or_default().push(line);
        }
        let local = |point: &Point, way: Way| -> Option<&Group<'_>> {
            let at = Point { series: CEILING.into(), via: "posix".into(), ..point.clone() };
            groups.get(&(at, way))
        };
        let mut points = Vec::new();
        for cell in cells {
            for &way in cell.ways() {
                if let Some(lines) = groups.get(&(cell.point.clone(), way)) {
                    points.extend(point_result(choice, &facts, cell, way, lines, local(&cell.point, way)));
                }
            }
        }
        let mut document = Document {
            schema: SCHEMA.into(),
            label: choice.label.clone(),
            machine: facts.machine,
            nodes: facts.ground.nodes,
            repeat: choice.repeat,
            link_bytes_per_s: facts.link_bytes_per_s,
            disk_bytes_per_s: choice.disk_bytes_per_s,
            bonnie: facts.bonnie,
            means: means(&points),
            points,
            against_peers: against_peers(cells, &groups),
            bars: Vec::new(),
            problems,
        };
        document.bars = document.judged();
        document
    }

    /// The document as JSON, indented, with a newline at its end.
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers, strings and lists always serialise");
        text.push('\n');
        text
    }

    /// The sizes of parts that were measured, and the largest of them.
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.points.iter().filter(|p| p.point.pattern == "part").map(|p| p.point.part_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// What was promised of the largest parts: their writers' own disks give each node what the disk gives, and striping what disks
    /// and links allow.
    fn judged(&self) -> Vec<Bar> {
        let Some(largest) = self.sizes().last().copied() else { return Vec::new() };
        let at_largest = self.points.iter().filter(|p| p.point.pattern == "part" && p.point.part_bytes == largest);
        let mut bars = Vec::new();
        for p in at_largest {
            let way = p.way.name();
            if p.point.series == "varstrip-local" && p.point.via == "library" {
                for node in &p.nodes {
                    let Some(found) = node.of_local else { continue };
                    let what = format!("{way}: {} on its own disk through the library, of the disk", node.node);
                    bars.push(Bar { what, found, least: LOCAL_BAR, most: None, kept: found.median >= LOCAL_BAR });
                }
            }
            if let ("stripe-64k", "library", Some(predicted)) = (p.point.series.as_str(), p.point.via.as_str(), p.predicted_bytes_per_s) {
                let r = p.rate_bytes_per_s;
                let found = Estimate { median: r.median / predicted, low: r.low / predicted, high: r.high / predicted, values: r.values };
                let (least, most) = PREDICTED_BAR;
                let kept = (least..=most).contains(&found.median);
                bars.push(Bar { what: format!("{way}: {} of what disks and links allow", p.title), found, least, most: Some(most), kept });
            }
        }
        bars
    }
}

/// Every layout at the largest parts beside every peer.
fn against_peers(cells: &[Cell], groups: &BTreeMap<(Point, Way), Group<'_>>) -> Vec<Against> {
    let largest = cells.iter().filter(|cell| cell.pattern.name == "part").map(|cell| cell.point.part_bytes).max();
    let at_largest = || cells.iter().filter(|cell| cell.pattern.name == "part" && Some(cell.point.part_bytes) == largest);
    let mut all = Vec::new();
    for peer in at_largest().filter(|cell| cell.peer.is_some()) {
        for cell in at_largest().filter(|cell| cell.peer.is_none() && !cell.series.is_local()) {
            for &way in cell.ways() {
                let lines = |cell: &Cell| groups.get(&(cell.point.clone(), way));
                let (Some(of), Some(to)) = (lines(cell), lines(peer)) else { continue };
                let Some(ratio) = ratio(&seconds(of, None), &seconds(to, None)) else { continue };
                let (title, via, peer) = (cell.title(), cell.point.via.clone(), peer.title());
                all.push(Against { title, via, peer, way, part_bytes: cell.point.part_bytes, ratio });
            }
        }
    }
    all
}

/// Seconds by repetition and node.
fn seconds<'a>(lines: &'a [&Line], node: Option<&'a str>) -> BTreeMap<(usize, &'a str), f64> {
    let of = lines.iter().filter(|line| node.is_none_or(|node| line.node == node));
    // Per byte: a local part and a part of a shared file may differ by a last block.
    of.map(|line| ((line.repeat, line.node.as_str()), line.synced_s() / line.bytes.max(1) as f64)).collect()
}

fn ratio(of: &BTreeMap<(usize, &str), f64>, to: &BTreeMap<(usize, &str), f64>) -> Option<Estimate> {
    let pairs: Vec<(f64, f64)> = of.iter().filter_map(|(at, of)| Some((*of, *to.get(at)?))).collect();
    let (of, to): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    paired_ratio(&of, &to, SEED).map(|(ratio, _)| ratio)
}

fn rates(lines: &[&Line], seconds: impl Fn(&Line) -> f64) -> Option<Estimate> {
    let rates: Vec<f64> = lines.iter().map(|line| line.bytes as f64 / seconds(line).max(1e-9)).collect();
    median_interval(&rates, SEED)
}

fn point_result(choice: &Choice, facts: &Facts, cell: &Cell, way: Way, lines: &[&Line], local: Option<&Group<'_>>) -> Option<PointResult> {
    // With caches on, what they end is not waited for.
    let took = |line: &Line| if cell.series.is_cached() { line.transfer_s } else { line.synced_s() };
    let rate = rates(lines, took)?;
    let synced = lines.iter().any(|line| line.sync_s.is_some()) && !cell.series.is_cached();
    let predicted = predicted(choice, facts, cell, local);
    let compare = |node: Option<&str>| {
        let local = local.filter(|_| !cell.series.is_local())?;
        ratio(&seconds(lines, node), &seconds(local, node))
    };
    let node = |(rank, name): (usize, &String)| {
        let own: Vec<&Line> = lines.iter().copied().filter(|line| line.node == *name).collect();
        Some(NodeResult {
            node: name.clone(),
            rate_bytes_per_s: rates(&own, took)?,
            of_local: compare(Some(name)),
            predicted_bytes_per_s: predicted.as_ref().and_then(|all| all.get(rank).copied()),
        })
    };
    let caches: Vec<&CacheState> = lines.iter().filter_map(|line| line.cache.as_ref()).collect();
    let worst = caches.iter().find(|state| !state.is_verified()).or(caches.first());
    Some(PointResult {
        point: cell.point.clone(),
        title: cell.title(),
        way,
        rate_bytes_per_s: rate,
        unsynced_bytes_per_s: if synced { rates(lines, |line| line.transfer_s) } else { None },
        predicted_bytes_per_s: predicted.as_ref().and_then(|all| median(all)),
        of_local: compare(None),
        cache: worst.map(|state| (*state).clone()),
        explanation: nearest_the_median(lines, took),
        nodes: facts.ground.nodes.iter().enumerate().filter_map(node).collect(),
    })
}

/// The explanation of the run whose time is nearest the median's.
fn nearest_the_median(lines: &[&Line], took: impl Fn(&Line) -> f64) -> Option<Digest> {
    let middle = median(&lines.iter().map(|line| took(line)).collect::<Vec<_>>())?;
    let explained = lines.iter().filter(|line| line.explanation.is_some());
    let nearest = explained.min_by(|a, b| (took(a) - middle).abs().total_cmp(&(took(b) - middle).abs()))?;
    nearest.explanation.clone()
}

/// Bytes per second that disks and links allow each rank: the disks as they are said to be, or as the local series found them.
fn predicted(choice: &Choice, facts: &Facts, cell: &Cell, local: Option<&Group<'_>>) -> Option<Vec<f64>> {
    let disk = match choice.disk_bytes_per_s {
        Some(given) => given,
        None => rates(local?, Line::synced_s)?.median,
    };
    let rates = Rates { disk_bytes_per_s: disk, link_bytes_per_s: facts.link_bytes_per_s };
    let ranks = facts.ground.nodes.len();
    let mut flows = Vec::new();
    for rank in 0..ranks {
        let access = cell.access(ranks as u32, rank as u32);
        if let Some(peer) = cell.peer {
            let on = facts.ground.nodes.iter().position(|node| *node == choice.peers[peer].node)?;
            flows.push(Flow { rank, on, bytes: access.bytes() as f64 });
            continue;
        }
        let layout = cell.series.layout(&facts.ground, &access)?;
        for (target, bytes) in bytes_on_targets(&layout, &access).ok()? {
            flows.push(Flow { rank, on: facts.ground.rank_of_target(target)?, bytes: bytes as f64 });
        }
    }
    let seconds = predict::seconds(ranks, &flows, &rates);
    let bytes = |rank: usize| cell.access(ranks as u32, rank as u32).bytes() as f64;
    Some(seconds.iter().enumerate().map(|(rank, s)| bytes(rank) / s).collect())
}

fn means(points: &[PointResult]) -> Vec<Mean> {
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for p in points.iter().filter(|p| pattern::named(&p.point.pattern).is_some_and(|found| found.weight.is_some())) {
        let kind = (p.point.series.as_str(), p.point.via.as_str());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let of = |(series, via): (&str, &str)| {
        let figure = |way: Way| {
            mean_over_types(|pattern| {
                let found = points
                    .iter()
                    .find(|p| p.point.pattern == pattern.name && p.point.series == series && p.point.via == via && p.way == way);
                found.map(|p| p.rate_bytes_per_s.median)
            })
        };
        let (write, rewrite, read) = (figure(Way::Write)?, figure(Way::Rewrite)?, figure(Way::Read)?);
        let ways = [(Way::Write, write), (Way::Rewrite, rewrite), (Way::Read, read)];
        Some(Mean {
            series: series.into(),
            via: via.into(),
            ways: ways.into_iter().map(|(way, rate)| (way.name().to_owned(), rate)).collect(),
            all: mean_over_ways(write, rewrite, read),
        })
    };
    kinds.into_iter().filter_map(of).collect()
}
