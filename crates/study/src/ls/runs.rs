//! Runs of the study: the store of each batch, its contents, and one run of each kind.

use super::bars::judged;
use super::choice::Choice;
use super::document::Document;
use super::plan::{self, BESIDE, ListingCase, Method, OUR_COPY};
use super::sample::{LinkSample, Listing, ListingPoint, NamesSample, Point, Sample, Subject, WritesSample};
use super::serving::{Serving, remove};
use crate::worker::protocol::{Answer, NamesPoint, Order, strange};
use crate::worker::{self, Nodes};
use crate::{Error, RAW, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use thalweg_client::wire::address::without_pin;
use thalweg_measure::{Batch, Failure, Host, Machine, MeasuredBy, Observer, Subjects, cpu_time_of, measure};

/// The directory that is listed.
const LISTED: &str = "/listed";
/// Bytes of a small file that is written beside listings.
const WRITTEN_BYTES: u64 = 4096;
/// Duration of a link's measurement.
const LINK_S: f64 = 1.0;
/// Name of a second mount, for names made through the first.
const SECOND_MOUNT: &str = "mount-2";
/// Name of the worker that writes beside the crowd: a separate process at the nearest location.
const WRITER: &str = "writer";
/// Name of the worker that runs the crowd of listings, likewise.
const CROWD: &str = "crowd";
/// Prefix for the crowd: it stands for other machines, so it gets only idle CPU time.
const CROWD_IS_NICE: &str = "nice -n 19";

/// Runs the study, or resumes it; `so_far` gets the result so far after each batch.
///
/// # Errors
/// The choice is invalid, a location cannot be reached, or the observer asked to stop. A case that fails is left out.
pub fn run(choice: &Choice, observer: &dyn Observer, so_far: &dyn Fn(&Document)) -> Result<Document> {
    choice.scale.check()?;
    choice.stage.check()?;
    std::fs::create_dir_all(&choice.out).map_err(Error::file(&choice.out, "making the directory of results"))?;
    let raw = choice.out.join(RAW);
    // Checked before the workers are started.
    thalweg_measure::check_log(&raw, choice.resume)?;
    let machine = Machine::describe(&[&choice.directory]);
    let cancelled = || observer.cancelled();
    let nodes = start(choice, &cancelled)?;
    let mut stage = Stage { choice, nodes, serving: None, machine, so_far, tree: None, no_mount: None, runs: 0 };
    let measured = measure(&plan::plan(choice), Some((&raw, choice.resume)), &mut stage, observer)?;
    Ok(judged(Document::new(choice, &measured, stage.machine.clone())))
}

/// Starts the workers at all locations, then the writer and the crowd.
fn start<'a>(choice: &Choice, cancelled: &'a dyn Fn() -> bool) -> Result<Nodes<'a>> {
    let near = choice.stage.locations[choice.stage.nearest()].run_on.clone();
    let crowd = [near.as_deref().unwrap_or_default(), CROWD_IS_NICE].join(" ");
    let host = |name: &str, run_on: Option<String>| Host { name: name.to_owned(), run_on };
    let locations = choice.stage.locations.iter().map(|location| host(&location.name, location.run_on.clone()));
    worker::start(
        &choice.program,
        choice.timeout_s,
        locations.chain([host(WRITER, near), host(CROWD, Some(crowd.trim().into()))]),
        cancelled,
    )
}

/// The workers, and the store of the current batch.
struct Stage<'a> {
    choice: &'a Choice,
    nodes: Nodes<'a>,
    serving: Option<Serving>,
    machine: Machine,
    so_far: &'a dyn Fn(&Document),
    /// The tree to copy in.
    tree: Option<Tree>,
    /// Why names cannot be measured through a mount.
    no_mount: Option<String>,
    /// Counter for unique names of runs.
    runs: u64,
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // The store first: that releases workers waiting for it.
        self.serving = None;
        self.remove_peers_files();
    }
}

impl Subjects for Stage<'_> {
    type Point = Point;
    type Subject = Subject;
    type Sample = Sample;

    fn name(&self, case: &ListingCase) -> String {
        let scale = &self.choice.scale;
        match &case.point {
            Point::Link(location) => format!("the link to {location}"),
            Point::Copy => format!("{} files of {} bytes by {}", scale.copied_files, scale.copied_bytes, case.subject),
            Point::Writes if case.subject == BESIDE => format!("small writes beside {} listings", scale.listings),
            Point::Writes => "small writes alone".into(),
            Point::Names(point) => name_of_names(point),
            Point::Listing(point) => {
                let f = &point.fixture;
                let on = format!("{} datafiles, {} files, {} × {} targets", f.datafiles, f.files, f.servers, f.targets);
                format!("{} from {}, {on}", case.subject, point.location)
            }
        }
    }

    fn set_up(&mut self, batch: &Batch<Point, Subject>, observer: &dyn Observer) -> std::result::Result<(), Failure> {
        let made = self.make(batch, observer);
        if made.is_err() {
            (self.serving, self.tree) = (None, None);
            self.remove_peers_files();
        }
        Ok(made?)
    }

    fn take_down(&mut self, _batch: &Batch<Point, Subject>) -> std::result::Result<(), Failure> {
        let unmounted = [self.choice.stage.nearest(), self.writer()].map(|node| self.took(node, &Order::Unmount));
        (self.serving, self.tree) = (None, None);
        self.remove_peers_files();
        unmounted.into_iter().try_for_each(|unmounted| Ok(unmounted.map(drop)?))
    }

    fn run(&mut self, case: &ListingCase, _repeat: usize) -> std::result::Result<Sample, Failure> {
        self.runs += 1;
        Ok(match &case.point {
            Point::Link(location) => Sample::Link(self.link(location)?),
            Point::Copy => Sample::Copy(self.copy(&case.subject)?),
            Point::Writes => Sample::Writes(self.writes(case.subject == BESIDE)?),
            Point::Names(point) => Sample::Names(self.names(point)?),
            Point::Listing(point) => Sample::Listing(self.listing(point, &case.subject)?),
        })
    }

    /// Restarts a worker that ended or hung, and unmounts its mount.
    fn recover(&mut self) -> std::result::Result<(), Failure> {
        let revived = self.nodes.revive()?;
        if !revived.is_empty() {
            for node in [self.choice.stage.nearest(), self.writer()] {
                let _ = Command::new("umount").arg("--lazy").arg(self.mount_point(node)).output();
            }
        }
        let service = self.serving.as_ref().map(|serving| serving.service().to_owned());
        for (node, store) in revived.into_iter().zip(service.into_iter().cycle()) {
            // If the store is gone, the next run fails.
            let _ = self.nodes.one(node, &connect(store, self.choice.timeout_s));
        }
        Ok(())
    }

    fn so_far(&mut self, measured: &MeasuredBy<Self>) {
        (self.so_far)(&judged(Document::new(self.choice, measured, self.machine.clone())));
    }
}

fn connect(store: String, timeout_s: f64) -> Order {
    Order::Connect { store, node: "study".into(), timeout_s, credential: None }
}

impl Stage<'_> {
    fn writer(&self) -> usize {
        self.choice.stage.locations.len()
    }

    fn crowd(&self) -> usize {
        self.choice.stage.locations.len() + 1
    }

    fn ask(&mut self, node: usize, order: &Order) -> Result<Answer> {
        Ok(self.nodes.one(node, order)?)
    }

    fn took(&mut self, node: usize, order: &Order) -> Result<f64> {
        self.ask(node, order)?.seconds()
    }

    fn serving(&self) -> Result<&Serving> {
        self.serving.as_ref().ok_or_else(|| Error::Choice("a run without a store: a bug".into()))
    }

    /// Returns the index of a location.
    fn location(&self, name: &str) -> Result<usize> {
        let at = self.choice.stage.locations.iter().position(|location| location.name == name);
        at.ok_or_else(|| Error::Choice(format!("no location is called `{name}`: a bug")))
    }

    /// Starts the batch's store, connects the workers, and creates the contents.
    fn make(&mut self, batch: &Batch<Point, Subject>, observer: &dyn Observer) -> Result<()> {
        let scale = &self.choice.scale;
        let (servers, targets) = match &batch.cases[0].point {
            Point::Listing(point) => (point.fixture.servers, point.fixture.targets),
            _ => (scale.servers, scale.targets),
        };
        let serving = Serving::start(self.choice, servers, targets)?;
        let (store, timeout_s) = (serving.service().to_owned(), self.choice.timeout_s);
        self.serving = Some(serving);
        self.nodes.each(|_| connect(store.clone(), timeout_s))?;
        match &batch.cases[0].point {
            Point::Link(_) => Ok(()),
            Point::Copy => self.make_tree(),
            Point::Writes => self.make_listed(),
            Point::Names(_) => {
                self.no_mount = self.mount(self.choice.stage.nearest()).err().map(|error| error.to_string());
                Ok(())
            }
            Point::Listing(point) => self.fixture(point, batch, observer),
        }
    }

    /// Makes the directory to list, also on peers.
    fn fixture(&mut self, point: &ListingPoint, batch: &Batch<Point, Subject>, observer: &dyn Observer) -> Result<()> {
        let (files, datafiles) = (point.fixture.files, point.fixture.datafiles);
        let near = self.choice.stage.nearest();
        let seconds = self.took(near, &Order::Populate { directory: LISTED.into(), files, datafiles })?;
        observer.doing(&format!("  made in {seconds:.1} s"));
        for case in &batch.cases {
            if let (Point::Listing(point), Some(method @ Method::Peer(peer, _))) = (&case.point, Method::named(self.choice, &case.subject))
            {
                let entries = method.most(self.choice, point).unwrap_or(files);
                populate_local(&self.choice.stage.peers[peer].directory.join(directory_of(entries)), entries)?;
            }
        }
        self.serving()?.settle()
    }

    /// Measures the link between a location and the servers. Listings come from the servers, but the stream goes the other way, over
    /// symmetric links.
    fn link(&mut self, location: &str) -> Result<LinkSample> {
        let (at, near) = (self.location(location)?, self.choice.stage.nearest());
        let host = without_pin(self.serving()?.service()).rsplit_once(':').map_or("127.0.0.1", |(host, _)| host).to_owned();
        let round_trip_us = self.took(at, &Order::RoundTrip)? * 1e6;
        let carried = worker::stream(&mut self.nodes, at, near, &host, LINK_S);
        Ok(LinkSample { round_trip_us, bytes_per_s: carried.ok().filter(|rate| *rate > 0.0) })
    }

    /// Mounts the store at a location.
    fn mount(&mut self, at: usize) -> Result<()> {
        let (store, mount_point) = (self.serving()?.address.clone(), self.mount_point(at));
        self.took(at, &Order::Mount { store, mount_point }).map(drop)
    }

    /// Returns a node's mount point: each node has at most one mount, and only one location at a time.
    fn mount_point(&self, node: usize) -> PathBuf {
        let path = self.choice.out.join(if node == self.writer() { SECOND_MOUNT } else { "mount" });
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Runs one listing, with the CPU time of all processes involved.
    fn listing(&mut self, point: &ListingPoint, subject: &str) -> Result<Listing> {
        let method = Method::named(self.choice, subject).ok_or_else(|| Error::Choice(format!("no method is called `{subject}`: a bug")))?;
        let at = self.location(&point.location)?;
        let most = method.most(self.choice, point);
        let link = &self.choice.stage.locations[at].link_pids;
        if method == Method::Mount {
            self.mount(at)?;
        }
        let order = match method {
            Method::Walk(mode) => {
                let bytes_each = u64::from(point.fixture.datafiles);
                Order::Walk { directory: LISTED.into(), mode: mode.name().into(), most, bytes_each }
            }
            _ => Order::Run { argv: self.argv(at, method, most.unwrap_or(point.fixture.files))?, counted: true },
        };
        let (before, link_before) = (self.servers_cpu_s(method), cpu_s(link));
        let answer = self.ask(at, &order);
        let (after, link_after) = (self.servers_cpu_s(method), cpu_s(link));
        if method == Method::Mount {
            self.took(at, &Order::Unmount)?;
        }
        let grown = |before: Option<f64>, after: Option<f64>| before.zip(after).map(|(before, after)| after - before);
        let listing = listed(method, most, point.fixture.files, answer?)?;
        let link_cpu_s = if link.is_empty() { None } else { grown(link_before, link_after) };
        Ok(Listing { server_cpu_s: grown(before, after), link_cpu_s, ..listing })
    }

    /// Returns the CPU time so far of the servers that a method uses.
    fn servers_cpu_s(&self, method: Method) -> Option<f64> {
        match method {
            Method::Peer(peer, _) => cpu_s(&self.choice.stage.peers[peer].pids),
            _ => self.serving.as_ref()?.cpu_s(),
        }
    }

    /// Returns the command that lists a directory.
    fn argv(&self, at: usize, method: Method, entries: u64) -> Result<Vec<String>> {
        Ok(match method {
            Method::Peer(peer, window) => {
                let directory = directory_of(entries);
                let fill = |word: &str| word.replace("{directory}", &directory).replace("{window}", &window.to_string());
                self.choice.stage.peers[peer].list.split_whitespace().map(fill).collect()
            }
            Method::Mount => ["ls".to_owned(), "-Uln".to_owned(), format!("{}{LISTED}", self.mount_point(at).display())].into(),
            Method::Command | Method::Walk(_) => {
                let program = self.choice.program.to_string_lossy().into_owned();
                [program, "ls".into(), "-lU".into(), format!("{}{LISTED}", self.serving()?.address)].into()
            }
        })
    }

    fn remove_peers_files(&self) {
        for peer in &self.choice.stage.peers {
            let made = std::fs::read_dir(&peer.directory).into_iter().flatten().flatten();
            made.filter(|entry| entry.file_name().to_string_lossy().starts_with(PEER_DIRECTORY)).for_each(|entry| remove(&entry.path()));
        }
    }
}

/// Runs other than listings: names created, read and removed; small writes beside listings; and trees copied.
impl Stage<'_> {
    /// Runs all `mdtest` phases of one point, in their own directory.
    fn names(&mut self, point: &NamesPoint) -> Result<NamesSample> {
        let near = self.choice.stage.nearest();
        if let (true, Some(problem)) = (point.mounted, &self.no_mount) {
            return Err(Error::Choice(format!("cannot mount the store: {problem}")));
        }
        // Only while it is used: the service notifies a second client of the first one's changes.
        let has_second = point.phases().any(|phase| point.is_elsewhere(phase));
        if has_second {
            // The writer is idle, and a separate client.
            self.mount(self.writer())?;
        }
        let inside = format!("/names-{}", self.runs);
        let each = self.choice.scale.names_of_each(point.workers, point.batch);
        let mut seconds = BTreeMap::new();
        for phase in point.phases() {
            let node = if point.is_elsewhere(phase) { self.writer() } else { near };
            let below = if point.mounted { format!("{}{inside}", self.mount_point(node).display()) } else { inside.clone() };
            let order = Order::Names { point: point.clone(), phase, below, each };
            seconds.insert(phase, self.took(node, &order)?);
        }
        if has_second {
            self.took(self.writer(), &Order::Unmount)?;
        }
        Ok(NamesSample { each, seconds })
    }

    /// Makes the directory that the crowd lists.
    fn make_listed(&mut self) -> Result<()> {
        let (writer, files) = (self.writer(), self.choice.scale.listed_files);
        self.took(writer, &Order::Populate { directory: LISTED.into(), files, datafiles: 1 })?;
        self.serving()?.settle()
    }

    /// Runs small writes, alone or beside listings.
    fn writes(&mut self, is_beside: bool) -> Result<WritesSample> {
        let (writer, crowd) = (self.writer(), self.crowd());
        let listings = if is_beside { self.choice.scale.listings } else { 0 };
        if is_beside {
            self.took(crowd, &Order::BeginListings { directory: LISTED.into(), listings })?;
        }
        let begun = Instant::now();
        let directory = format!("/written-{}", self.runs);
        let wrote = self.ask(writer, &Order::Write { directory, files: self.choice.scale.writes, bytes: WRITTEN_BYTES });
        let seconds = begun.elapsed().as_secs_f64();
        let listed = if is_beside { self.ask(crowd, &Order::EndListings) } else { Ok(Answer::Listed(0)) };
        let (Answer::Wrote(mut took), Answer::Listed(listed)) = (wrote?, listed?) else { return Err(strange()) };
        took.sort_unstable_by(f64::total_cmp);
        let at = |part: f64| took[((part * took.len() as f64) as usize).min(took.len() - 1)];
        Ok(WritesSample { listings, writes: took.len() as u64, p50_s: at(0.5), p99_s: at(0.99), most_s: at(1.0), listed, seconds })
    }

    /// Makes the tree to copy, and the mount to copy it onto.
    fn make_tree(&mut self) -> Result<()> {
        let scale = &self.choice.scale;
        self.tree = Some(Tree::make(&self.choice.directory, scale.copied_files, scale.copied_bytes)?);
        self.mount(self.choice.stage.nearest())
    }

    /// Copies the tree in, by `thalweg cp` or by the stock `cp` onto the mount; returns the time in seconds.
    fn copy(&mut self, subject: &str) -> Result<f64> {
        let tree = self.tree.as_ref().ok_or_else(|| Error::Choice("a copy of no tree: a bug".into()))?;
        let source = tree.0.display().to_string();
        let argv = if subject == OUR_COPY {
            let program = self.choice.program.to_string_lossy().into_owned();
            let target = format!("{}/ours-{}", self.serving()?.address, self.runs);
            vec![program, "cp".into(), "-r".into(), "--quiet".into(), source, target]
        } else {
            let target = self.mount_point(self.choice.stage.nearest()).join(format!("stock-{}", self.runs));
            vec!["cp".into(), "-r".into(), source, target.display().to_string()]
        };
        let answer = self.ask(self.choice.stage.nearest(), &Order::Run { argv, counted: false })?;
        let Answer::Ran { seconds, .. } = answer else { return Err(strange()) };
        self.serving()?.settle()?;
        Ok(seconds)
    }
}

/// Returns the CPU time of processes so far; `None` if one is gone.
fn cpu_s(pids: &[u32]) -> Option<f64> {
    pids.iter().map(|pid| cpu_time_of(*pid).map(|time| time.as_secs_f64())).sum()
}

/// Converts the worker's answer to a listing; rejects an incomplete one.
fn listed(method: Method, most: Option<u64>, files: u64, answer: Answer) -> Result<Listing> {
    let (server_cpu_s, link_cpu_s) = (None, None);
    match answer {
        Answer::Walked { entries, seconds, cpu_s: client_cpu_s, bytes, counters } => {
            if most.is_none() && entries != files {
                return Err(Error::Choice(format!("{entries} entries were listed of {files}")));
            }
            Ok(Listing { entries, seconds, counters: Some(counters), client_cpu_s, server_cpu_s, link_cpu_s, bytes })
        }
        Answer::Ran { seconds, cpu_s: client_cpu_s, bytes, lines, last } => {
            let (entries, seconds) = listed_by_command(method, most, files, seconds, lines, &last)?;
            Ok(Listing { entries, seconds, counters: None, client_cpu_s, server_cpu_s, link_cpu_s, bytes })
        }
        _ => Err(strange()),
    }
}

/// Prefix of a peer's directories.
const PEER_DIRECTORY: &str = "thalweg-ls-";

fn directory_of(entries: u64) -> String {
    format!("{PEER_DIRECTORY}{entries}")
}

/// Makes files of one byte on a peer's own disk, unless they exist.
fn populate_local(directory: &Path, files: u64) -> Result<()> {
    if directory.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(directory).map_err(Error::file(directory, "making it"))?;
    (0..files).try_for_each(|number| {
        let path = directory.join(format!("file-{number:08}"));
        std::fs::write(&path, "x").map_err(Error::file(&path, "writing it"))
    })
}

/// Returns the entries that a command listed, and the time: from its lines of output, or from a peer client's report. A peer that lists
/// few files is timed by its own clock from its connection on, like walks that stop early.
fn listed_by_command(method: Method, most: Option<u64>, files: u64, seconds: f64, lines: u64, last: &str) -> Result<(u64, f64)> {
    let expected = most.unwrap_or(files);
    let (entries, seconds) = if let Method::Peer(..) = method {
        let said: serde_json::Value =
            serde_json::from_str(last).map_err(|e| Error::Choice(format!("its last line is not JSON ({e}): {last}")))?;
        let own = said["seconds"].as_f64().filter(|_| most.is_some());
        (said["files"].as_u64().unwrap_or(0), own.unwrap_or(seconds))
    } else {
        // `ls -l` prints a line with the total.
        (lines.saturating_sub(u64::from(method == Method::Mount)), seconds)
    };
    if entries == expected { Ok((entries, seconds)) } else { Err(Error::Choice(format!("{entries} entries were listed of {expected}"))) }
}

/// A tree of small files, removed on drop.
struct Tree(PathBuf);

impl Drop for Tree {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

impl Tree {
    /// Makes the tree, with 100 files per directory.
    fn make(below: &Path, files: u64, bytes: u64) -> Result<Tree> {
        let tree = Tree(below.join(format!("thalweg-ls-tree-{}", std::process::id())));
        let data = vec![b'x'; bytes as usize];
        for number in 0..files {
            let directory = tree.0.join(format!("directory-{:04}", number / 100));
            if number % 100 == 0 {
                std::fs::create_dir_all(&directory).map_err(Error::file(&directory, "making it"))?;
            }
            let path = directory.join(format!("file-{number:08}"));
            std::fs::write(&path, &data).map_err(Error::file(&path, "writing it"))?;
        }
        Ok(tree)
    }
}

/// Returns the name of a run of names, for progress.
fn name_of_names(point: &NamesPoint) -> String {
    let through = if point.mounted { "the mount" } else { "the library" };
    let directory = if point.shared { "one directory" } else { "directories of their own" };
    let files = match point.bytes {
        0 => String::new(),
        bytes => format!(", files of {bytes} bytes that others read"),
    };
    format!("names by {} workers in {directory} through {through}, {} in a request{files}", point.workers, point.batch)
}
