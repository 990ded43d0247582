//! Conducting: every run on all nodes at once, in the order of the plan, each line kept as soon as it is known.

use crate::access::Sharing;
use crate::document::{Bonnie, Document, Facts};
use crate::log::Log;
use crate::nodes::{Nodes, Start};
use crate::plan::{Cell, Choice, Known, Peer, Via, cells, order};
use crate::protocol::{Answer, At, Order, Work};
use crate::raw::{Digest, Header, Line, SCHEMA, Way};
use crate::series::Ground;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use thalweg_measure::{CacheState, Machine, median};
use thalweg_store::protocol::metadata::{LayoutChoice, Placement, StoreMap};

/// The file of raw times in the directory of results.
pub const RAW: &str = "raw.jsonl";
/// Where in it nodes mount the store.
const MOUNTS: &str = "mounts";
/// How long a link is streamed over.
const LINK_S: f64 = 1.5;

/// Sees how far a study is, and can stop it.
pub trait Observer {
    /// So many runs of so many are done; this one is next.
    fn next(&self, _progress: &Progress<'_>) {}
    /// Something went wrong, and the study goes on.
    fn trouble(&self, _what: &str) {}
    /// Whether to stop.
    fn cancelled(&self) -> bool {
        false
    }
}

/// How far a study is.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Runs done.
    pub done: usize,
    /// Runs in all.
    pub runs: usize,
    /// How long still, if that can be told.
    pub left: Option<Duration>,
    /// What is next.
    pub cell: &'a Cell,
    /// Its repetition.
    pub repeat: usize,
}

/// What one rank took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ran {
    pub transfer_s: f64,
    pub sync_s: Option<f64>,
    pub bytes: u64,
}

/// A store on nodes that answer.
struct Stage<'a> {
    choice: &'a Choice,
    names: Vec<String>,
    nodes: Nodes<'a>,
    map: StoreMap,
    ground: Ground,
    runs: u64,
}

/// Makes the study, or goes on with it.
///
/// # Errors
/// The choice, a node that cannot be reached, or [`Error::Stopped`]. A single point that fails is left out, and told to the observer.
pub fn run(choice: &Choice, observer: &dyn Observer) -> Result<Document> {
    let cells = cells(choice)?;
    let cancelled = || observer.cancelled();
    let mut stage = Stage::set(choice, &cancelled)?;
    let header = Header {
        schema: SCHEMA.into(),
        store: format!("{:016x}", stage.map.store),
        nodes: stage.names.clone(),
        label: choice.label.clone(),
    };
    std::fs::create_dir_all(&choice.out).map_err(Error::file(&choice.out, "making the directory of results"))?;
    let (mut log, lines) = Log::open(&choice.out.join(RAW), &header, choice.resume)?;
    let mut known = Known::new(lines);
    let facts = stage.facts(observer)?;
    let todo: Vec<(usize, &Cell)> = order(cells.len(), choice.repeat).into_iter().map(|(repeat, at)| (repeat, &cells[at])).collect();
    let todo: Vec<(usize, &Cell)> = todo.into_iter().filter(|(repeat, cell)| !known.has(cell, *repeat, &stage.names)).collect();
    let mut broken: BTreeMap<String, String> = BTreeMap::new();
    let begun = Instant::now();
    let weight = |cell: &Cell| (cell.point.part_bytes + (8 << 20)) as f64 * cell.ways().len() as f64;
    let all: f64 = todo.iter().map(|(_, cell)| weight(cell)).sum();
    let mut weighed = 0.0;
    for (done, (repeat, cell)) in todo.iter().enumerate() {
        let left = (done > 2).then(|| begun.elapsed().mul_f64((all - weighed) / weighed.max(1.0)));
        weighed += weight(cell);
        let name = format!("{} through {}, {}", cell.point.series, cell.point.via, cell.point.pattern);
        if broken.contains_key(&name) {
            continue;
        }
        observer.next(&Progress { done, runs: todo.len(), left, cell, repeat: *repeat });
        if observer.cancelled() {
            return Err(Error::Stopped);
        }
        match stage.measure(cell, *repeat) {
            Ok(lines) => {
                for line in lines {
                    log.add(&line)?;
                    known.add(line);
                }
            }
            Err(Error::Stopped) => return Err(Error::Stopped),
            Err(error) => {
                observer.trouble(&format!("{name}: {error}"));
                broken.insert(name, error.to_string());
            }
        }
    }
    drop(stage);
    // Where the nodes had their mounts; they are taken down, and their directories gone.
    let _ = std::fs::remove_dir(choice.out.join(MOUNTS));
    let problems = broken.into_iter().map(|(name, problem)| format!("{name}: {problem}")).collect();
    Ok(Document::new(choice, &cells, &known, facts, problems))
}

impl<'a> Stage<'a> {
    /// Starts the nodes' processes, and connects them to the store.
    fn set(choice: &'a Choice, cancelled: &'a dyn Fn() -> bool) -> Result<Stage<'a>> {
        let names = choice.nodes.clone();
        if names.is_empty() {
            return Err(Error::Choice("no nodes: name them with --nodes".into()));
        }
        let run_on = choice.run_on.as_deref();
        let start = Start { program: &choice.program, timeout_s: choice.timeout_s };
        let mut nodes = Nodes::start(&start, names.iter().map(|name| (name.as_str(), run_on)), cancelled)?;
        let connected =
            nodes.each(|node| Order::Connect { store: choice.store.clone(), node: names[node].clone(), timeout_s: choice.timeout_s })?;
        let Some(Answer::Connected(map)) = connected.into_iter().next() else { return Err(strange()) };
        let ground = Ground::new(&map, &names)?;
        let mut stage = Stage { choice, names, nodes, map, ground, runs: 0 };
        let local: Vec<PathBuf> = (0..stage.names.len()).map(|node| stage.local_directory(node)).collect();
        if let Some(taken) = local.iter().enumerate().find(|(n, path)| local[..*n].contains(path)) {
            return Err(Error::Choice(format!("{}: two nodes' targets are one directory: a bug", taken.1.display())));
        }
        if choice.vias.iter().any(|via| via.is_mounted()) {
            let store = format!("thal://{}", choice.store);
            stage.nodes.each(|node| Order::Mount { store: store.clone(), mount_point: mount_point(&choice.out, &choice.nodes[node]) })?;
        }
        Ok(stage)
    }

    /// What is measured once: the links, and bonnie++'s view of the local disk.
    fn facts(&mut self, observer: &dyn Observer) -> Result<Facts> {
        let link = match self.choice.link_bytes_per_s {
            Some(given) => Some(given),
            None if self.names.len() < 2 => None,
            None => match self.link() {
                Ok(rate) => Some(rate),
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error) => {
                    observer.trouble(&format!("the links were not measured: {error}"));
                    None
                }
            },
        };
        let bonnie = if self.choice.bonnie { self.bonnie().map_err(|e| observer.trouble(&format!("bonnie++: {e}"))).ok() } else { None };
        let local: Vec<PathBuf> = (0..self.names.len()).map(|node| self.local_directory(node)).collect();
        let machine = Machine::describe(&local.iter().filter_map(|path| path.parent()).collect::<Vec<_>>());
        Ok(Facts { machine, ground: self.ground.clone(), link_bytes_per_s: link, bonnie })
    }

    /// What a link carries: each node streams to the next, one after the other; the median.
    fn link(&mut self) -> Result<f64> {
        let mut rates = Vec::new();
        for from in 0..self.names.len() {
            let to = (from + 1) % self.names.len();
            let server = self.map.servers.iter().find(|s| s.node == self.names[to]);
            let host = server.and_then(|s| s.address.rsplit_once(':')).map_or("127.0.0.1", |(host, _)| host);
            let Answer::Listening(address) = self.nodes.one(to, &Order::Listen(format!("{host}:0")))? else { return Err(strange()) };
            let Answer::Streamed(rate) = self.nodes.one(from, &Order::Stream { to: address, seconds: LINK_S })? else {
                return Err(strange());
            };
            rates.push(rate);
        }
        median(&rates).filter(|rate| *rate > 0.0).ok_or_else(|| Error::Choice("nothing arrived over the links".into()))
    }

    /// What bonnie++ says of the first node's disk. It syncs what it has written; what it reads is in memory still, unless the file is
    /// larger than that.
    fn bonnie(&mut self) -> Result<Bonnie> {
        let directory = self.local_directory(0);
        let largest = self.choice.sizes.iter().copied().max().unwrap_or(0);
        let megabytes = (largest >> 20).max(64);
        let mut argv: Vec<String> = ["bonnie++", "-d"].map(String::from).to_vec();
        argv.push(directory.display().to_string());
        argv.extend(["-u", "0", "-q", "-f", "-n", "0", "-r", "0", "-s"].map(String::from));
        argv.push(megabytes.to_string());
        self.nodes.one(0, &Order::Prepare(Work::Command { argv, bytes: megabytes << 20 }))?;
        let Answer::Ran { output: Some(output), .. } = self.nodes.one(0, &Order::Go)? else { return Err(strange()) };
        let (write, read) =
            bonnie_rates(&output).ok_or_else(|| Error::Choice(format!("bonnie++ said what is not understood: {}", output.trim())))?;
        let node = self.names[0].clone();
        Ok(Bonnie { node, size_bytes: megabytes << 20, write_bytes_per_s: write, cached_read_bytes_per_s: read })
    }

    /// Where a node's local files are: on the disk of its first target.
    fn local_directory(&self, node: usize) -> PathBuf {
        let own = self.ground.own[node][0];
        let target = self.map.targets.iter().find(|t| t.target.0 == own);
        PathBuf::from(target.map_or("", |t| t.directory.as_str()))
    }

    /// One run of a cell: written, perhaps again, and read; a line for each node and way.
    fn measure(&mut self, cell: &Cell, repeat: usize) -> Result<Vec<Line>> {
        self.runs += 1;
        let name = format!("study-{}-{}", std::process::id(), self.runs);
        let done = self.ways(cell, repeat, &name);
        // Whatever happened, nothing is left; what went wrong first is what is told.
        let removed = self.remove(cell, &name);
        let lines = done?;
        removed.map(|()| lines)
    }

    fn ways(&mut self, cell: &Cell, repeat: usize, name: &str) -> Result<Vec<Line>> {
        let many = self.names.len() as u32;
        let settled: Vec<Vec<PathBuf>> = (0..self.names.len()).map(|node| self.disks(node)).collect();
        let memory_bytes = 2 * cell.point.part_bytes + (16 << 20);
        self.nodes.each(|node| Order::Settle { directories: settled[node].clone(), memory_bytes })?;
        let datafiles = self.make(cell, name)?;
        let mut lines = Vec::new();
        for &way in cell.ways() {
            let cache = match (way, cell.series.is_cached()) {
                (Way::Read, false) => Some(self.evict(cell, name, &datafiles)?),
                _ => None,
            };
            if cell.via.is_some_and(Via::is_mpi) {
                let ran = crate::job::run(self.choice, cell, name, way, &self.names)?;
                lines.extend(ran.into_iter().enumerate().map(|(node, ran)| self.line(cell, way, repeat, node, ran, cache.clone(), None)));
                continue;
            }
            let works: Vec<Work> = (0..self.names.len()).map(|node| self.work(cell, name, node, way)).collect();
            self.nodes.each(|node| Order::Prepare(works[node].clone()))?;
            let ran = self.nodes.each(|_| Order::Go)?;
            let told = if self.choice.explain && cell.via == Some(Via::Library) { self.explained()? } else { Vec::new() };
            for (node, ran) in ran.into_iter().enumerate() {
                let Answer::Ran { transfer_s, sync_s, bytes, .. } = ran else { return Err(strange()) };
                let ran = Ran { transfer_s, sync_s, bytes: bytes.min(cell.access(many, node as u32).bytes()) };
                lines.push(self.line(cell, way, repeat, node, ran, cache.clone(), told.get(node).cloned().flatten()));
            }
        }
        Ok(lines)
    }

    #[allow(clippy::too_many_arguments)]
    fn line(
        &self,
        cell: &Cell,
        way: Way,
        repeat: usize,
        node: usize,
        ran: Ran,
        cache: Option<CacheState>,
        explanation: Option<Digest>,
    ) -> Line {
        Line {
            point: cell.point.clone(),
            way,
            repeat,
            node: self.names[node].clone(),
            bytes: ran.bytes,
            transfer_s: ran.transfer_s,
            sync_s: ran.sync_s,
            cache,
            explanation,
            at_unix_s: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        }
    }

    fn explained(&mut self) -> Result<Vec<Option<Digest>>> {
        let answers = self.nodes.each(|_| Order::Explain)?;
        let digest = |answer| if let Answer::Explained(digest) = answer { Ok(digest) } else { Err(strange()) };
        answers.into_iter().map(digest).collect()
    }

    /// The directories whose file systems a node is to settle.
    fn disks(&self, node: usize) -> Vec<PathBuf> {
        let own = |target: &&thalweg_store::protocol::metadata::TargetEntry| self.ground.own[node].contains(&target.target.0);
        self.map.targets.iter().filter(own).map(|target| PathBuf::from(&target.directory)).collect()
    }

    /// The file as a node sees it.
    fn at(&self, cell: &Cell, name: &str, node: usize) -> At {
        let own_file = cell.access(self.names.len() as u32, 0).sharing == Sharing::PerRank;
        let name = if own_file { format!("{name}.{node}") } else { name.to_owned() };
        match (cell.peer, cell.via) {
            (Some(peer), _) => At::Path(PathBuf::from(self.choice.peers[peer].path.replace("{file}", &format!("{name}.{node}")))),
            (None, None) => At::Path(self.local_directory(node).join(name)),
            (None, Some(Via::Library)) => At::Store(format!("/{name}")),
            (None, Some(_)) => At::Path(mount_point(&self.choice.out, &self.names[node]).join(name)),
        }
    }

    /// Makes the file, or a file for each node; the datafiles that each node's disks will have of it.
    fn make(&mut self, cell: &Cell, name: &str) -> Result<Vec<Vec<PathBuf>>> {
        let mut datafiles = vec![Vec::new(); self.names.len()];
        if let Some(peer) = cell.peer {
            let peer = &self.choice.peers[peer];
            let on = self.peer_node(peer)?;
            for node in 0..self.names.len() {
                if let At::Path(path) = self.at(cell, name, node) {
                    datafiles[on].push(path);
                }
            }
            return Ok(datafiles);
        }
        let many = self.names.len() as u32;
        let shared = cell.access(many, 0).sharing == Sharing::Shared;
        for node in 0..if shared { 1 } else { self.names.len() } {
            let layout = cell.series.layout(&self.ground, &cell.access(many, node as u32));
            let order = Order::Make { at: self.at(cell, name, node), layout: layout.clone() };
            let Answer::Made(number) = self.nodes.one(node, &order)? else { return Err(strange()) };
            match (number, layout, self.at(cell, name, node)) {
                (Some(number), Some(layout), _) => self.add_datafiles(number, &layout, &mut datafiles)?,
                (_, _, At::Path(path)) => datafiles[node].push(path),
                _ => return Err(strange()),
            }
        }
        Ok(datafiles)
    }

    /// Where the datafiles of a file are, as the I/O server names them.
    fn add_datafiles(&self, number: u64, layout: &LayoutChoice, datafiles: &mut [Vec<PathBuf>]) -> Result<()> {
        let Some(Placement::Targets(targets)) = &layout.placement else { return Err(strange()) };
        for (index, target) in targets.iter().enumerate() {
            let entry = self.map.targets.iter().find(|t| t.target == *target);
            let (Some(entry), Some(node)) = (entry, self.ground.rank_of_target(target.0)) else { return Err(strange()) };
            let file = format!("datafiles/{:02x}/{number:016x}.{index}", number & 0xff);
            datafiles[node].push(Path::new(&entry.directory).join(file));
        }
        Ok(())
    }

    fn work(&self, cell: &Cell, name: &str, node: usize, way: Way) -> Work {
        let access = cell.access(self.names.len() as u32, node as u32);
        let read = way == Way::Read;
        if let Some(peer) = cell.peer {
            let peer = &self.choice.peers[peer];
            let words = if read { &peer.read } else { &peer.write };
            let filled = words.split_whitespace().map(|word| {
                word.replace("{file}", &format!("{name}.{node}"))
                    .replace("{bytes}", &access.bytes().to_string())
                    .replace("{node}", &self.names[node])
            });
            return Work::Command { argv: filled.collect(), bytes: access.bytes() };
        }
        let record = self.choice.explain && cell.via == Some(Via::Library);
        Work::Move { at: self.at(cell, name, node), access, read, in_flight: self.choice.in_flight, record }
    }

    /// Puts the file out of every cache there is, and says what the kernels answer.
    fn evict(&mut self, cell: &Cell, name: &str, datafiles: &[Vec<PathBuf>]) -> Result<CacheState> {
        let mut files = datafiles.to_vec();
        if cell.via.is_some_and(Via::is_mounted) {
            // The client's own kernel has a cache too.
            for (node, files) in files.iter_mut().enumerate() {
                if let At::Path(path) = self.at(cell, name, node) {
                    files.insert(0, path);
                }
            }
        }
        let mut state = None;
        for (node, answer) in self.nodes.each(|node| Order::Evict(files[node].clone()))?.into_iter().enumerate() {
            let Answer::Evicted(found) = answer else { return Err(strange()) };
            // A node that has nothing of the file has nothing of it in memory.
            if !files[node].is_empty() && (found.is_verified() || state.is_none() || is_more_than_nothing(&found)) {
                let worse = state.as_ref().is_none_or(CacheState::is_verified);
                if worse {
                    state = Some(found);
                }
            }
        }
        Ok(state.unwrap_or(CacheState::NotVerified { why: "no node has anything of it".into() }))
    }

    /// Removes what a cell made. All are told before any is waited for, so that nothing stays when somebody wants to stop.
    fn remove(&mut self, cell: &Cell, name: &str) -> Result<()> {
        let ats: Vec<At> = (0..self.names.len()).map(|node| self.at(cell, name, node)).collect();
        if let Some(peer) = cell.peer {
            let on = self.peer_node(&self.choice.peers[peer])?;
            let removed: Vec<Result<Answer>> = ats.into_iter().map(|at| self.nodes.one(on, &Order::Remove(at))).collect();
            return removed.into_iter().collect::<Result<Vec<_>>>().map(drop);
        }
        if cell.access(self.names.len() as u32, 0).sharing == Sharing::Shared {
            return self.nodes.one(0, &Order::Remove(ats[0].clone())).map(drop);
        }
        self.nodes.each(|node| Order::Remove(ats[node].clone())).map(drop)
    }

    fn peer_node(&self, peer: &Peer) -> Result<usize> {
        let at = self.names.iter().position(|name| *name == peer.node);
        at.ok_or_else(|| Error::Choice(format!("peer {}: its node {} is none of the study's", peer.name, peer.node)))
    }
}

/// Whether pages stayed, and not only no file was there.
fn is_more_than_nothing(state: &CacheState) -> bool {
    matches!(state, CacheState::NotVerified { why } if why != "no file was named")
}

/// Where a node mounts the store.
fn mount_point(out: &Path, node: &str) -> PathBuf {
    let out = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
    out.join(MOUNTS).join(node)
}

fn strange() -> Error {
    Error::Choice("an answer that does not belong to the order: a bug".into())
}

/// Writing and reading in blocks, in bytes per second, from bonnie++'s line of comma-separated values. It says nothing (`+++++`) of
/// what took it less than half a second.
fn bonnie_rates(output: &str) -> Option<(Option<f64>, Option<f64>)> {
    let line = output.lines().rev().find(|line| line.starts_with("1.") && line.contains(','))?;
    let fields: Vec<&str> = line.split(',').collect();
    let kib = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).map(|kib| kib * 1024.0);
    (fields.len() > 17).then(|| (kib(11), kib(17)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bonnies_line_is_read_from_where_it_speaks_of_blocks() {
        let line = "1.98,2.00a,vm,1,1795312290,64M,,8192,5,,,60182,27,+++++,+++,,,40960,3,+++++,+++,,,,,,,,,,,,,,,,,,,8976us,4205us,,911us,24422us,,,,,,\n";
        assert_eq!(bonnie_rates(line), Some((Some(60182.0 * 1024.0), Some(40960.0 * 1024.0))));
        assert_eq!(bonnie_rates(&line.replace("40960", "+++++")), Some((Some(60182.0 * 1024.0), None)));
        assert!(bonnie_rates("nothing\n").is_none());
    }
}
