//! Conducting: ground after ground, all points of one interleaved, each line kept as soon as it is known.
//!
//! A point that fails is left out from then on and told; the others go on. A ground that cannot be made is told, and the next is made.

mod others;

use super::choice::Choice;
use super::document::{Document, Facts};
use super::plan::{Cell, Ground, How, Lot, few, lots, order};
use super::protocol::{Answer, Order};
use super::raw::{Header, Line, LinkLine, Listing, SCHEMA};
use super::serving::{Serving, remove};
use crate::log::Log;
use crate::nodes::{Nodes, Start};
use crate::{Error, Result, protocol};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use thalweg_measure::{Machine, cpu_time_of};

/// The file of raw times in the directory of results.
pub const RAW: &str = "raw.jsonl";
/// The directory that is listed.
const LISTED: &str = "/listed";
/// How long a link is streamed over.
const LINK_S: f64 = 1.0;
/// What the writer beside the crowd is, and the crowd: processes of their own at the nearest place.
const WRITER: &str = "writer";
/// See [`WRITER`].
const CROWD: &str = "crowd";
/// The crowd's processors are other machines': it gets what nobody else wants.
const CROWD_IS_NICE: &str = "nice -n 19";

/// Sees how far a study is, and can stop it.
pub trait Observer {
    /// This is being done now.
    fn doing(&self, _what: &str) {}
    /// Something went wrong, and the study goes on.
    fn trouble(&self, _what: &str) {}
    /// A ground or a part is done; what has come of the study so far.
    fn so_far(&self, _document: &Document) {}
    /// Whether to stop.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Everything that is known, and where more of it goes.
struct Notes<'a> {
    log: Log,
    lines: Vec<Line>,
    broken: BTreeMap<String, String>,
    observer: &'a dyn Observer,
}

impl Notes<'_> {
    fn add(&mut self, line: Line) -> Result<()> {
        self.log.add(&line)?;
        self.lines.push(line);
        Ok(())
    }

    /// What came of a thing: its line; or that it failed, which others of its name need not try again.
    fn keep(&mut self, name: &str, done: Result<Line>) -> Result<()> {
        match done {
            Ok(line) => self.add(line),
            Err(Error::Stopped) => Err(Error::Stopped),
            Err(error) => {
                self.observer.trouble(&format!("{name}: {error}"));
                self.broken.insert(name.to_owned(), error.to_string());
                Ok(())
            }
        }
    }

    fn doing(&self, what: &str) -> Result<()> {
        self.observer.doing(what);
        if self.observer.cancelled() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// What has come of it so far.
    fn document(&self, choice: &Choice, machine: &Machine) -> Document {
        let problems = self.broken.iter().map(|(name, problem)| format!("{name}: {problem}")).collect();
        Document::new(choice, &self.lines, Facts { machine: machine.clone() }, problems)
    }

    fn is_broken(&self, name: &str) -> bool {
        self.broken.contains_key(name)
    }

    fn has_listing(&self, cell: &Cell, repeat: usize) -> bool {
        self.lines.iter().any(|line| matches!(line, Line::Listing(l) if l.point == cell.point && l.repeat == repeat))
    }
}

/// Makes the study, or goes on with it.
///
/// # Errors
/// The choice, a place that cannot be reached, or [`Error::Stopped`]; a point that fails is left out.
pub fn run(choice: &Choice, observer: &dyn Observer) -> Result<Document> {
    choice.scale.check()?;
    choice.stage.check()?;
    let places: Vec<String> = choice.stage.places.iter().map(|place| place.name.clone()).collect();
    let header = Header { schema: SCHEMA.into(), label: choice.stage.label.clone(), places };
    std::fs::create_dir_all(&choice.out).map_err(Error::file(&choice.out, "making the directory of results"))?;
    let (log, lines) = Log::open(&choice.out.join(RAW), &header, choice.resume)?;
    let mut notes = Notes { log, lines, broken: BTreeMap::new(), observer };
    let machine = Machine::describe(&[&choice.directory]);
    let cancelled = || observer.cancelled();
    let mut conductor = Conductor { choice, nodes: start(choice, &cancelled)? };
    // First: a file system that has just lost millions of files (ext4 passes over each of their inodes for minutes, when it makes one)
    // would be measured with that.
    conductor.others(&mut notes)?;
    observer.so_far(&notes.document(choice, &machine));
    let lots = lots(choice);
    for (at, lot) in lots.iter().enumerate() {
        conductor.lot(lot, &format!("ground {} of {}", at + 1, lots.len()), &mut notes)?;
        observer.so_far(&notes.document(choice, &machine));
    }
    drop(conductor);
    Ok(notes.document(choice, &machine))
}

/// The processes at all places; then the writer and the crowd.
fn start<'a>(choice: &Choice, cancelled: &'a dyn Fn() -> bool) -> Result<Nodes<'a>> {
    let start = Start { program: &choice.program, timeout_s: choice.timeout_s };
    let near = choice.stage.places[choice.stage.nearest()].run_on.clone();
    let crowd = [near.as_deref().unwrap_or_default(), CROWD_IS_NICE].join(" ");
    let places = choice.stage.places.iter().map(|place| (place.name.as_str(), place.run_on.as_deref()));
    let more = [(WRITER, near.as_deref()), (CROWD, Some(crowd.trim()))];
    Nodes::start(&start, places.chain(more), cancelled)
}

/// Who conducts.
struct Conductor<'a> {
    choice: &'a Choice,
    nodes: Nodes<'a>,
}

impl Drop for Conductor<'_> {
    fn drop(&mut self) {
        self.remove_peers_files();
    }
}

impl Conductor<'_> {
    fn writer(&self) -> usize {
        self.choice.stage.places.len()
    }

    fn crowd(&self) -> usize {
        self.choice.stage.places.len() + 1
    }

    fn ask(&mut self, node: usize, order: Order) -> Result<Answer> {
        match self.nodes.one(node, &protocol::Order::Ls(order))? {
            protocol::Answer::Ls(answer) => Ok(answer),
            _ => Err(strange()),
        }
    }

    fn took(&mut self, node: usize, order: Order) -> Result<f64> {
        if let Answer::Took(seconds) = self.ask(node, order)? { Ok(seconds) } else { Err(strange()) }
    }

    /// A store, with everybody connected to it.
    fn serve(&mut self, servers: u32, targets: u32) -> Result<Serving> {
        let serving = Serving::start(self.choice, servers, targets)?;
        let store = serving.service().to_owned();
        let timeout_s = self.choice.timeout_s;
        self.nodes.each(|_| protocol::Order::Connect { store: store.clone(), node: "study".into(), timeout_s })?;
        Ok(serving)
    }

    /// After something failed: a process that ended or hung is started anew, and what it had mounted is taken away.
    fn recover(&mut self, serving: &Serving) -> Result<()> {
        let revived = self.nodes.revive()?;
        if !revived.is_empty() {
            let _ = Command::new("umount").arg("--lazy").arg(self.mount_point()).output();
        }
        for node in revived {
            let store = serving.service().to_owned();
            let order = protocol::Order::Connect { store, node: "study".into(), timeout_s: self.choice.timeout_s };
            // A store that is gone is the next point's error.
            let _ = self.nodes.one(node, &order);
        }
        Ok(())
    }

    /// One ground and all that is measured on it.
    fn lot(&mut self, lot: &Lot, which: &str, notes: &mut Notes<'_>) -> Result<()> {
        let todo: Vec<(usize, &Cell)> = order(&lot.cells).into_iter().filter(|(repeat, cell)| !notes.has_listing(cell, *repeat)).collect();
        if todo.is_empty() {
            return Ok(());
        }
        let Ground { servers, targets, files, datafiles } = lot.ground;
        let name = format!("{files} files of {datafiles} datafiles on {servers} × {targets} targets");
        notes.doing(&format!("{which}: making {name}"))?;
        let made = self.ground(lot, notes);
        let serving = match made {
            Ok(serving) => serving,
            Err(Error::Stopped) => return Err(Error::Stopped),
            Err(error) => {
                notes.keep(&format!("making {name}"), Err(error))?;
                return self.nodes.revive().map(drop);
            }
        };
        for (repeat, cell) in todo {
            let what = format!(
                "{} from {}, {datafiles} datafiles, {files} files, {servers} × {targets} targets",
                cell.point.how, cell.point.place
            );
            if notes.is_broken(&what) {
                continue;
            }
            notes.doing(&format!("{which}: {what}, repetition {repeat}"))?;
            let done = self.listing(&serving, cell, repeat).map(Line::Listing);
            let has_failed = done.is_err();
            notes.keep(&what, done)?;
            if has_failed {
                self.recover(&serving)?;
            }
        }
        self.remove_peers_files();
        Ok(())
    }

    fn ground(&mut self, lot: &Lot, notes: &mut Notes<'_>) -> Result<Serving> {
        let serving = self.serve(lot.ground.servers, lot.ground.targets)?;
        let (files, datafiles) = (lot.ground.files, lot.ground.datafiles);
        let near = self.choice.stage.nearest();
        let seconds = self.took(near, Order::Populate { directory: LISTED.into(), files, datafiles })?;
        notes.observer.doing(&format!("  made in {seconds:.1} s"));
        for cell in &lot.cells {
            if let How::Peer(peer, _) = cell.how {
                let entries = cell.most.unwrap_or(files);
                populate_local(&self.choice.stage.peers[peer].directory.join(directory_of(entries)), entries)?;
            }
        }
        serving.settle()?;
        self.links(&serving, notes)?;
        Ok(serving)
    }

    /// What lies between each place and the servers, once.
    fn links(&mut self, serving: &Serving, notes: &mut Notes<'_>) -> Result<()> {
        if notes.lines.iter().any(|line| matches!(line, Line::Link(_))) {
            return Ok(());
        }
        let near = self.choice.stage.nearest();
        let host = serving.service().rsplit_once(':').map_or("127.0.0.1", |(host, _)| host).to_owned();
        for at in 0..self.choice.stage.places.len() {
            let round_trip_us = self.took(at, Order::RoundTrip)? * 1e6;
            let mut carried = || -> Result<f64> {
                // Listings come from the servers: the stream goes the other way, over links that are the same both ways.
                let protocol::Answer::Listening(to) = self.nodes.one(near, &protocol::Order::Listen(format!("{host}:0")))? else {
                    return Err(strange());
                };
                let protocol::Answer::Streamed(rate) = self.nodes.one(at, &protocol::Order::Stream { to, seconds: LINK_S })? else {
                    return Err(strange());
                };
                Ok(rate)
            };
            let bytes_per_s = carried().ok().filter(|rate| *rate > 0.0);
            let place = &self.choice.stage.places[at];
            let line = LinkLine { place: place.name.clone(), asked_us: place.round_trip_us, round_trip_us, bytes_per_s };
            notes.add(Line::Link(line))?;
        }
        Ok(())
    }

    /// One listing.
    fn listing(&mut self, serving: &Serving, cell: &Cell, repeat: usize) -> Result<Listing> {
        let ground = &cell.point.ground;
        let (peer, link) = (self.peer_pids(cell), self.choice.stage.places[cell.place].link_pids.clone());
        let of = |pids: &[u32]| pids.iter().map(|pid| cpu_time_of(*pid).map(|time| time.as_secs_f64())).sum::<Option<f64>>();
        let servers = |serving: &Serving| if let Some(pids) = &peer { of(pids) } else { serving.cpu_s() };
        if cell.how == How::Mount {
            let mount_point = std::path::absolute(self.choice.out.join("mount")).map_err(Error::file(&self.choice.out, "its path"))?;
            self.took(cell.place, Order::Mount { store: serving.address.clone(), mount_point })?;
        }
        let (before, link_before) = (servers(serving), of(&link));
        let bytes_each = u64::from(ground.datafiles);
        let answer = match cell.how {
            How::Walk(mode) => {
                self.ask(cell.place, Order::Walk { directory: LISTED.into(), mode: mode.name().into(), most: cell.most, bytes_each })
            }
            _ => self.ask(cell.place, Order::Run { argv: self.argv(serving, cell), counted: true }),
        };
        let (after, link_after) = (servers(serving), of(&link));
        if cell.how == How::Mount {
            self.took(cell.place, Order::Unmount)?;
        }
        let (entries, seconds, client_cpu_s, bytes, counters) = match answer? {
            Answer::Walked { entries, seconds, cpu_s, bytes, counters } => {
                if cell.most.is_none() && entries != ground.files {
                    return Err(Error::Choice(format!("{entries} entries were listed, and there are {}", ground.files)));
                }
                (entries, seconds, cpu_s, bytes, Some(counters))
            }
            Answer::Ran { seconds, cpu_s, bytes, lines, last } => {
                let (entries, seconds) = listed_by_command(cell, seconds, lines, &last)?;
                (entries, seconds, cpu_s, bytes, None)
            }
            _ => return Err(strange()),
        };
        let grown = |before: Option<f64>, after: Option<f64>| before.zip(after).map(|(before, after)| after - before);
        Ok(Listing {
            point: cell.point.clone(),
            repeat,
            entries,
            seconds,
            counters,
            client_cpu_s,
            server_cpu_s: grown(before, after),
            link_cpu_s: if link.is_empty() { None } else { grown(link_before, link_after) },
            bytes,
            at_unix_s: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        })
    }

    fn peer_pids(&self, cell: &Cell) -> Option<Vec<u32>> {
        if let How::Peer(peer, _) = cell.how { Some(self.choice.stage.peers[peer].pids.clone()) } else { None }
    }

    /// What lists a directory as a command.
    fn argv(&self, serving: &Serving, cell: &Cell) -> Vec<String> {
        match cell.how {
            How::Peer(peer, window) => {
                let directory = directory_of(cell.most.unwrap_or(cell.point.ground.files));
                let fill = |word: &str| word.replace("{directory}", &directory).replace("{window}", &window.to_string());
                self.choice.stage.peers[peer].list.split_whitespace().map(fill).collect()
            }
            How::Mount => ["ls".to_owned(), "-Uln".to_owned(), format!("{}{LISTED}", self.mount_point().display())].to_vec(),
            How::Command | How::Walk(_) => {
                let program = self.choice.program.to_string_lossy().into_owned();
                [program, "ls".into(), "-lU".into(), format!("{}{LISTED}", serving.address)].to_vec()
            }
        }
    }

    fn mount_point(&self) -> PathBuf {
        std::path::absolute(self.choice.out.join("mount")).unwrap_or_else(|_| self.choice.out.join("mount"))
    }

    fn remove_peers_files(&self) {
        for peer in &self.choice.stage.peers {
            let made = std::fs::read_dir(&peer.directory).into_iter().flatten().flatten();
            made.filter(|entry| entry.file_name().to_string_lossy().starts_with(PEER_DIRECTORY)).for_each(|entry| remove(&entry.path()));
        }
    }
}

/// With what a peer's directories begin.
const PEER_DIRECTORY: &str = "thalweg-ls-";

fn directory_of(entries: u64) -> String {
    format!("{PEER_DIRECTORY}{entries}")
}

/// Files of one byte on a peer's own disk, if they are not there already.
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

/// What a command has listed: its lines, or what a peer's client says of itself. A peer that lists few files is timed by
/// its own clock, from when it is connected, as our walks that stop early are.
fn listed_by_command(cell: &Cell, seconds: f64, lines: u64, last: &str) -> Result<(u64, f64)> {
    let expected = cell.most.unwrap_or(cell.point.ground.files);
    let (entries, seconds) = if let How::Peer(..) = cell.how {
        let said: serde_json::Value =
            serde_json::from_str(last).map_err(|e| Error::Choice(format!("its last line is no JSON ({e}): {last}")))?;
        let own = said["seconds"].as_f64().filter(|_| cell.most.is_some());
        (said["files"].as_u64().unwrap_or(0), own.unwrap_or(seconds))
    } else {
        // `ls -l` has a line for the total.
        (lines.saturating_sub(u64::from(cell.how == How::Mount)), seconds)
    };
    if entries == expected {
        Ok((entries, seconds))
    } else {
        Err(Error::Choice(format!("{entries} entries were listed, and there are {expected}")))
    }
}

/// How many files a run of this kind lists, for whoever explains it.
pub fn listed_at_most(choice: &Choice, place: usize, trips: f64) -> u64 {
    few(&choice.stage.places[place], trips, choice.scale.slow_s, choice.scale.files)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn strange() -> Error {
    Error::Choice("an answer that does not belong to the order: a bug".into())
}
