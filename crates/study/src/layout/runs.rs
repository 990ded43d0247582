//! One run: all nodes simultaneously write a file with a subject's layout, possibly rewrite it, and read it.

use super::document::{Bonnie, Document, Facts};
use super::job::{self, Ran};
use super::plan::{Choice, LayoutCase, Method, Peer, Via, cases, plan};
use super::sample::{Moved, Operation, Point, Sample, Subject};
use super::series::Topology;
use crate::access::Sharing;
use crate::worker::protocol::{Answer, At, Digest, Order, Task, strange};
use crate::worker::{self, Nodes};
use crate::{Error, RAW, Result};
use std::path::{Path, PathBuf};
use thalweg_base::numbers;
use thalweg_client::wire::protocol::metadata::{LayoutChoice, Placement, StoreMap, TargetEntry};
use thalweg_measure::{CacheState, Failure, Header, Host, Machine, Observer, Subjects, check_log, measure, median};

/// Subdirectory of the results under which nodes mount the store.
const MOUNTS: &str = "mounts";
/// Duration of a link's measurement.
const LINK_S: f64 = 1.5;

/// Runs the study, or resumes it.
///
/// # Errors
/// The choice is invalid, a node cannot be reached, or the observer asked to stop. A subject that fails at a point is left out there and
/// reported to the observer.
pub fn run(choice: &Choice, observer: &dyn Observer) -> Result<Document> {
    let cases = cases(choice)?;
    let cancelled = || observer.cancelled();
    let mut stage = Stage::set(choice, &cancelled)?;
    std::fs::create_dir_all(&choice.out).map_err(Error::file(&choice.out, "making the directory of results"))?;
    let store = format!("{:016x}", stage.map.store);
    let header = Header::new("layout", &choice.label).of("store", store).of("nodes", &stage.names);
    let raw = choice.out.join(RAW);
    // Checked before the links are measured.
    check_log(&raw, choice.resume)?;
    let facts = stage.facts(observer)?;
    let plan = plan(cases, header);
    let measured = measure(&plan, Some((&raw, choice.resume)), &mut stage, observer)?;
    drop(stage);
    // The parent of the mount points, which are unmounted and removed.
    let _ = std::fs::remove_dir(choice.out.join(MOUNTS));
    Ok(Document::new(choice, &plan.batches[0].cases, &measured, facts))
}

/// The connected nodes and their store.
struct Stage<'a> {
    choice: &'a Choice,
    names: Vec<String>,
    nodes: Nodes<'a>,
    map: StoreMap,
    topology: Topology,
    runs: u64,
}

impl Subjects for Stage<'_> {
    type Point = Point;
    type Subject = Subject;
    type Sample = Sample;

    fn name(&self, case: &LayoutCase) -> String {
        let (point, subject) = (&case.point, &case.subject);
        format!("{} through {}, {} of {}", subject.series, subject.via, point.pattern, numbers::size(point.part_bytes))
    }

    fn run(&mut self, case: &LayoutCase, _repeat: usize) -> std::result::Result<Sample, Failure> {
        let method = Method::of(self.choice, case)?;
        self.runs += 1;
        let name = format!("study-{}-{}", std::process::id(), self.runs);
        let done = self.operations(&method, &name);
        // The file is removed whatever happened; the first error is reported.
        let removed = self.remove(&method, &name);
        let sample = done?;
        removed?;
        Ok(sample)
    }
}

impl<'a> Stage<'a> {
    /// Starts the workers on the nodes, and connects them to the store.
    fn set(choice: &'a Choice, cancelled: &'a dyn Fn() -> bool) -> Result<Stage<'a>> {
        let names = choice.nodes.clone();
        if names.is_empty() {
            return Err(Error::Choice("no nodes: give --nodes".into()));
        }
        let hosts = names.iter().map(|name| Host { name: name.clone(), run_on: choice.run_on.clone() });
        let mut nodes = worker::start(&choice.program, choice.timeout_s, hosts, cancelled)?;
        let connected = nodes.each(|node| Order::Connect {
            store: choice.store.clone(),
            node: names[node].clone(),
            timeout_s: choice.timeout_s,
            credential: choice.credential.clone(),
        })?;
        let Some(Answer::Connected(map)) = connected.into_iter().next() else { return Err(strange()) };
        let topology = Topology::new(&map, &names)?;
        let mut stage = Stage { choice, names, nodes, map, topology, runs: 0 };
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

    /// Measures the links, and the local disk with bonnie++, once.
    fn facts(&mut self, observer: &dyn Observer) -> Result<Facts> {
        let link = match self.choice.link_bytes_per_s {
            Some(given) => Some(given),
            None if self.names.len() < 2 => None,
            None => match self.link() {
                Ok(rate) => Some(rate),
                Err(error) if observer.cancelled() => return Err(error),
                Err(error) => {
                    observer.trouble(&format!("links not measured: {error}"));
                    None
                }
            },
        };
        let bonnie = if self.choice.bonnie { self.bonnie().map_err(|e| observer.trouble(&format!("bonnie++: {e}"))).ok() } else { None };
        let local: Vec<PathBuf> = (0..self.names.len()).map(|node| self.local_directory(node)).collect();
        let machine = Machine::describe(&local.iter().filter_map(|path| path.parent()).collect::<Vec<_>>());
        Ok(Facts { machine, topology: self.topology.clone(), link_bytes_per_s: link, bonnie })
    }

    /// Measures a link: each node streams to the next, one after the other; returns the median rate.
    fn link(&mut self) -> Result<f64> {
        let mut rates = Vec::new();
        for from in 0..self.names.len() {
            let to = (from + 1) % self.names.len();
            let server = self.map.servers.iter().find(|s| s.node == self.names[to]);
            let host = server.and_then(|s| s.address.rsplit_once(':')).map_or("127.0.0.1", |(host, _)| host);
            rates.push(worker::stream(&mut self.nodes, from, to, host, LINK_S)?);
        }
        median(&rates).filter(|rate| *rate > 0.0).ok_or_else(|| Error::Choice("no bytes arrived over the links".into()))
    }

    /// Runs bonnie++ on the first node's disk. It syncs its writes; its reads come from memory, unless the file is larger.
    fn bonnie(&mut self) -> Result<Bonnie> {
        let directory = self.local_directory(0);
        let largest = self.choice.sizes.iter().copied().max().unwrap_or(0);
        let megabytes = (largest >> 20).max(64);
        let mut argv: Vec<String> = ["bonnie++", "-d"].map(String::from).to_vec();
        argv.push(directory.display().to_string());
        argv.extend(["-u", "0", "-q", "-f", "-n", "0", "-r", "0", "-s"].map(String::from));
        argv.push(megabytes.to_string());
        self.nodes.one(0, &Order::Prepare(Task::Command { argv, bytes: megabytes << 20 }))?;
        let Answer::Moved { output: Some(output), .. } = self.nodes.one(0, &Order::Go)? else { return Err(strange()) };
        let (write, read) =
            bonnie_rates(&output).ok_or_else(|| Error::Choice(format!("unexpected output of bonnie++: {}", output.trim())))?;
        let node = self.names[0].clone();
        Ok(Bonnie { node, size_bytes: megabytes << 20, write_bytes_per_s: write, cached_read_bytes_per_s: read })
    }

    /// Returns the directory of a node's local files, on the disk of its first target.
    fn local_directory(&self, node: usize) -> PathBuf {
        let own = self.topology.own[node][0];
        let target = self.map.targets.iter().find(|t| t.target.0 == own);
        PathBuf::from(target.map_or("", |t| t.directory.as_str()))
    }

    /// Writes, possibly rewrites, and reads; returns the times of each operation on each node.
    fn operations(&mut self, method: &Method<'_>, name: &str) -> Result<Sample> {
        let settled: Vec<Vec<PathBuf>> = (0..self.names.len()).map(|node| self.disks(node)).collect();
        let memory_bytes = 2 * method.point.part_bytes + (16 << 20);
        self.nodes.each(|node| Order::Settle { directories: settled[node].clone(), memory_bytes })?;
        let datafiles = self.make(method, name)?;
        let mut sample = Sample::new();
        for &operation in method.operations() {
            let cache = match (operation, method.series.is_cached()) {
                (Operation::Read, false) => Some(self.evict(method, name, &datafiles)?),
                _ => None,
            };
            let (ran, mut explanations) = match method.via.is_some_and(Via::is_mpi) {
                true => (job::run(self.choice, method, name, operation, &self.names)?, Vec::new()),
                false => self.at_once(method, name, operation)?,
            };
            explanations.resize(ran.len(), None);
            for ((node, ran), explanation) in self.names.iter().zip(ran).zip(explanations) {
                let Ran { transfer_s, sync_s, bytes } = ran;
                sample.push(Moved { operation, node: node.clone(), bytes, transfer_s, sync_s, cache: cache.clone(), explanation });
            }
        }
        Ok(sample)
    }

    /// Runs one operation on all workers simultaneously; returns the times of each, and the explanations if recorded.
    fn at_once(&mut self, method: &Method<'_>, name: &str, operation: Operation) -> Result<(Vec<Ran>, Vec<Option<Digest>>)> {
        let many = self.names.len() as u32;
        let works: Vec<Task> = (0..self.names.len()).map(|node| self.work(method, name, node, operation)).collect();
        self.nodes.each(|node| Order::Prepare(works[node].clone()))?;
        let answers = self.nodes.each(|_| Order::Go)?;
        let explanations = if self.choice.explain && method.via == Some(Via::Library) { self.explained()? } else { Vec::new() };
        let ran = |(node, answer): (usize, Answer)| {
            let Answer::Moved { transfer_s, sync_s, bytes, .. } = answer else { return Err(strange()) };
            Ok(Ran { transfer_s, sync_s, bytes: bytes.min(method.access(many, node as u32).bytes()) })
        };
        Ok((answers.into_iter().enumerate().map(ran).collect::<Result<_>>()?, explanations))
    }

    fn explained(&mut self) -> Result<Vec<Option<Digest>>> {
        let answers = self.nodes.each(|_| Order::Explain)?;
        let digest = |answer| if let Answer::Explained(digest) = answer { Ok(digest) } else { Err(strange()) };
        answers.into_iter().map(digest).collect()
    }

    /// Returns the directories whose file systems a node syncs before a run.
    fn disks(&self, node: usize) -> Vec<PathBuf> {
        let own = |target: &&TargetEntry| self.topology.own[node].contains(&target.target.0);
        self.map.targets.iter().filter(own).map(|target| PathBuf::from(&target.directory)).collect()
    }

    /// Returns the file from a node's point of view.
    fn at(&self, method: &Method<'_>, name: &str, node: usize) -> At {
        let own_file = method.access(self.names.len() as u32, 0).sharing == Sharing::PerRank;
        let name = if own_file { format!("{name}.{node}") } else { name.to_owned() };
        match (method.peer, method.via) {
            (Some(peer), _) => At::Path(PathBuf::from(peer.path.replace("{file}", &format!("{name}.{node}")))),
            (None, None) => At::Path(self.local_directory(node).join(name)),
            (None, Some(Via::Library)) => At::Store(format!("/{name}")),
            (None, Some(_)) => At::Path(mount_point(&self.choice.out, &self.names[node]).join(name)),
        }
    }

    /// Makes the file, or a file for each node; returns the paths of datafiles on each node.
    fn make(&mut self, method: &Method<'_>, name: &str) -> Result<Vec<Vec<PathBuf>>> {
        let mut datafiles = vec![Vec::new(); self.names.len()];
        if let Some(peer) = method.peer {
            let on = self.peer_node(peer)?;
            for node in 0..self.names.len() {
                if let At::Path(path) = self.at(method, name, node) {
                    datafiles[on].push(path);
                }
            }
            return Ok(datafiles);
        }
        let many = self.names.len() as u32;
        let shared = method.access(many, 0).sharing == Sharing::Shared;
        for node in 0..if shared { 1 } else { self.names.len() } {
            let layout = method.series.layout(&self.topology, &method.access(many, node as u32));
            let order = Order::Make { at: self.at(method, name, node), layout: layout.clone() };
            let Answer::Made(number) = self.nodes.one(node, &order)? else { return Err(strange()) };
            match (number, layout, self.at(method, name, node)) {
                (Some(number), Some(layout), _) => self.add_datafiles(number, &layout, &mut datafiles)?,
                (_, _, At::Path(path)) => datafiles[node].push(path),
                _ => return Err(strange()),
            }
        }
        Ok(datafiles)
    }

    /// Adds the paths of a file's datafiles, as the I/O server names them.
    fn add_datafiles(&self, number: u64, layout: &LayoutChoice, datafiles: &mut [Vec<PathBuf>]) -> Result<()> {
        let Some(Placement::Targets(targets)) = &layout.placement else { return Err(strange()) };
        for (index, target) in targets.iter().enumerate() {
            let entry = self.map.targets.iter().find(|t| t.target == *target);
            let (Some(entry), Some(node)) = (entry, self.topology.rank_of_target(target.0)) else { return Err(strange()) };
            let file = format!("datafiles/{:02x}/{number:016x}.{index}", number & 0xff);
            datafiles[node].push(Path::new(&entry.directory).join(file));
        }
        Ok(())
    }

    fn work(&self, method: &Method<'_>, name: &str, node: usize, operation: Operation) -> Task {
        let access = method.access(self.names.len() as u32, node as u32);
        let read = operation == Operation::Read;
        if let Some(peer) = method.peer {
            let words = if read { &peer.read } else { &peer.write };
            let filled = words.split_whitespace().map(|word| {
                word.replace("{file}", &format!("{name}.{node}"))
                    .replace("{bytes}", &access.bytes().to_string())
                    .replace("{node}", &self.names[node])
            });
            return Task::Command { argv: filled.collect(), bytes: access.bytes() };
        }
        let record = self.choice.explain && method.via == Some(Via::Library);
        Task::Move { at: self.at(method, name, node), access, read, in_flight: self.choice.in_flight, record }
    }

    /// Evicts the file from all page caches; returns the state that the kernels report.
    fn evict(&mut self, method: &Method<'_>, name: &str, datafiles: &[Vec<PathBuf>]) -> Result<CacheState> {
        let mut files = datafiles.to_vec();
        if method.via.is_some_and(Via::is_mounted) {
            // The client's kernel caches it too.
            for (node, files) in files.iter_mut().enumerate() {
                if let At::Path(path) = self.at(method, name, node) {
                    files.insert(0, path);
                }
            }
        }
        let mut state = None;
        for (node, answer) in self.nodes.each(|node| Order::Evict(files[node].clone()))?.into_iter().enumerate() {
            let Answer::Evicted(found) = answer else { return Err(strange()) };
            // A node without any part of the file has nothing of it cached.
            if !files[node].is_empty() && (found.is_verified() || state.is_none() || is_more_than_nothing(&found)) {
                let worse = state.as_ref().is_none_or(CacheState::is_verified);
                if worse {
                    state = Some(found);
                }
            }
        }
        Ok(state.unwrap_or(CacheState::NotVerified { why: "no node has any part of it".into() }))
    }

    /// Removes the files of a run. All workers are sent the order before the first is waited for, so that a stop leaves
    /// nothing behind.
    fn remove(&mut self, method: &Method<'_>, name: &str) -> Result<()> {
        let ats: Vec<At> = (0..self.names.len()).map(|node| self.at(method, name, node)).collect();
        if let Some(peer) = method.peer {
            let on = self.peer_node(peer)?;
            let removed: Vec<_> = ats.into_iter().map(|at| self.nodes.one(on, &Order::Remove(at))).collect();
            removed.into_iter().collect::<thalweg_measure::Result<Vec<_>>>()?;
        } else if method.access(self.names.len() as u32, 0).sharing == Sharing::Shared {
            self.nodes.one(0, &Order::Remove(ats[0].clone()))?;
        } else {
            self.nodes.each(|node| Order::Remove(ats[node].clone()))?;
        }
        Ok(())
    }

    fn peer_node(&self, peer: &Peer) -> Result<usize> {
        let at = self.names.iter().position(|name| *name == peer.node);
        at.ok_or_else(|| Error::Choice(format!("peer {}: its node {} is not in the study", peer.name, peer.node)))
    }
}

/// Whether pages stayed in the cache, as opposed to no file having been given.
fn is_more_than_nothing(state: &CacheState) -> bool {
    matches!(state, CacheState::NotVerified { why } if why != "no file was named")
}

/// Returns a node's mount point.
fn mount_point(out: &Path, node: &str) -> PathBuf {
    let out = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
    out.join(MOUNTS).join(node)
}

/// Parses the block write and read rates, in bytes per second, from bonnie++'s CSV line. It prints `+++++` for phases shorter than half a
/// second.
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
