//! Tests of the core with a simulated network, store and clock.
//!
//! Requests and answers take individual times and servers work on one request at a time. Answers of one server come in order, those of
//! different servers in any; a server can be silent, or close its connection and come back. Meanwhile files are created, written,
//! truncated and removed, in one directory or one datafile after the other. Every state of each file is kept with its time, so that
//! results can be compared with all states between request and answer.

mod promises;

use super::item::QUIET_NS;
use super::*;
use crate::walk::{Size, WalkEntry};
use proptest::prelude::*;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;
use thalweg_layout::{Distribution, Layout, Spec};
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::metadata::{FileKind, FileLayout, Name, ServerEntry, TargetEntry, TargetId};

const MS: u64 = 1_000_000;
const STRIP: u64 = 100;

/// Pseudo-random numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        if most == 0 { 0 } else { self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % most }
    }
}

/// A file that exists or existed.
struct File {
    name: Vec<u8>,
    attributes: Attributes,
    /// Sizes of its datafiles, each with the time of its last change.
    datafiles: Vec<(u64, u64)>,
    /// Every size it had, with the time it began.
    sizes: Vec<(u64, u64)>,
    made_ns: u64,
    unlinked_ns: Option<u64>,
    /// Datafiles still to be removed.
    to_remove: Vec<usize>,
    /// Whether the service can prove its size.
    is_settled: bool,
}

impl File {
    fn size(&self) -> u64 {
        let sizes: Vec<u64> = self.datafiles.iter().map(|(size, _)| *size).collect();
        layout(self.datafiles.len() as u32).logical_file_size(&sizes).unwrap()
    }

    /// Whether it had this size at some time in the interval.
    fn had(&self, size: u64, from_ns: u64, to_ns: u64) -> bool {
        let ends = self.sizes.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
        self.sizes.iter().zip(ends).any(|((begin, had), end)| *had == size && *begin <= to_ns && end >= from_ns)
    }
}

fn layout(datafiles: u32) -> Layout {
    Layout::new(&spec(), Some(datafiles), datafiles).unwrap()
}

fn spec() -> Spec {
    Spec::new("simple_stripe").with("strip_size", STRIP)
}

/// Simulated events.
enum Event {
    /// A request arrives at a server, on this connection.
    Arrives(u64, Request),
    /// An answer arrives at the client.
    Answers(Peer, u64, u64, Result<Answer>),
    /// A connection is lost.
    Breaks(Peer, u64, ErrorKind),
    /// Another client uses the store.
    Use,
}

struct At(u64, u64, Event);

impl PartialEq for At {
    fn eq(&self, other: &At) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for At {}
impl PartialOrd for At {
    fn partial_cmp(&self, other: &At) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for At {
    fn cmp(&self, other: &At) -> std::cmp::Ordering {
        (other.0, other.1).cmp(&(self.0, self.1))
    }
}

#[derive(Clone, Debug)]
struct Setting {
    seed: u64,
    files: u32,
    servers: u32,
    datafiles: u32,
    /// One-way delay in ns, and its maximum jitter.
    way_ns: u64,
    jitter_ns: u64,
    /// Server time per entry and per datafile, in ns.
    work_ns: u64,
    /// Number of changes by other clients, and their kinds.
    changes: u32,
    /// Server that becomes silent at a time, or closes its connection once.
    silent: Option<(Peer, u64)>,
    closes: Option<(Peer, u64)>,
    timeout_ns: u64,
    options: WalkOptions,
}

impl Setting {
    fn plain(files: u32, datafiles: u32) -> Setting {
        Setting {
            seed: 1,
            files,
            servers: datafiles.clamp(1, 4),
            datafiles,
            way_ns: MS / 2,
            jitter_ns: 0,
            work_ns: 0,
            changes: 0,
            silent: None,
            closes: None,
            timeout_ns: 10_000 * MS,
            options: WalkOptions::default(),
        }
    }
}

struct World {
    setting: Setting,
    chance: Chance,
    now_ns: u64,
    events: BinaryHeap<At>,
    order: u64,
    files: Vec<File>,
    core: Core,
    epoch: Instant,
    /// When each peer is free, and when its last answer arrives at the client.
    free_ns: BTreeMap<Peer, (u64, u64)>,
    /// Connection number by peer.
    connection: BTreeMap<Peer, u64>,
    /// Since when each peer's oldest unanswered request is waited for.
    waited_ns: BTreeMap<Peer, (u64, u32)>,
    in_flight: BTreeMap<Peer, u32>,
    most_in_flight: u32,
    requests: Vec<(Peer, usize)>,
    most_held: (usize, usize),
    /// Position of the next page, per connection and walk, if there is one.
    continued: BTreeMap<(u64, WalkId), Option<Vec<u8>>>,
}

impl World {
    fn new(setting: Setting) -> World {
        let epoch = Instant::now();
        let map = StoreMap {
            store: 1,
            servers: (0..setting.servers)
                .map(|n| ServerEntry { name: format!("io{n}"), node: String::new(), address: String::new() })
                .collect(),
            targets: (0..setting.datafiles.max(1))
                .map(|n| TargetEntry { target: TargetId(n), server: n % setting.servers, directory: String::new() })
                .collect(),
        };
        let mut world = World {
            chance: Chance(setting.seed | 1),
            now_ns: 10_000 * MS,
            events: BinaryHeap::new(),
            order: 0,
            files: Vec::new(),
            core: Core::new(&map, setting.options.clone(), epoch),
            epoch,
            free_ns: BTreeMap::new(),
            connection: BTreeMap::new(),
            waited_ns: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            most_in_flight: 0,
            requests: Vec::new(),
            most_held: (0, 0),
            continued: BTreeMap::new(),
            setting,
        };
        for number in 0..world.setting.files {
            world.make(format!("f{number:07}").into_bytes(), 0);
        }
        for _ in 0..world.setting.changes {
            let at = world.now_ns + world.chance.below(60 * world.setting.way_ns.max(MS / 50));
            world.push(at, Event::Use);
        }
        world
    }

    fn make(&mut self, name: Vec<u8>, at_ns: u64) {
        let id = FileId(1000 + self.files.len() as u64);
        let is_directory = self.chance.below(10) == 0;
        let datafiles = if is_directory { 0 } else { self.setting.datafiles };
        let targets = (0..datafiles).map(TargetId).collect();
        let kind = if is_directory { FileKind::Directory } else { FileKind::File };
        let attributes = Attributes {
            id,
            kind,
            layout: (datafiles > 0).then(|| Arc::new(FileLayout { spec: spec(), targets, lot: None })),
            ..plain_attributes()
        };
        let datafiles = (0..datafiles).map(|_| (0, at_ns)).collect();
        let mut file = File {
            name,
            attributes,
            datafiles,
            sizes: vec![(0, 0)],
            made_ns: at_ns,
            unlinked_ns: None,
            to_remove: Vec::new(),
            is_settled: self.chance.below(2) == 0,
        };
        for (index, datafile) in file.datafiles.iter_mut().enumerate() {
            datafile.0 = if self.chance.below(4) == 0 { 0 } else { self.chance.below(500) * (index as u64 + 1) };
        }
        if kind == FileKind::File && self.setting.datafiles > 0 {
            file.sizes = vec![(0, file.size())];
        }
        self.files.push(file);
    }

    fn push(&mut self, at_ns: u64, event: Event) {
        self.order += 1;
        self.events.push(At(at_ns, self.order, event));
    }

    /// Another client uses the store.
    fn used(&mut self) {
        let now = self.now_ns;
        let which = self.chance.below(self.files.len() as u64) as usize;
        let what = self.chance.below(8);
        if self.files.is_empty() || what == 0 {
            let name = format!("f{:07}n{}", self.chance.below(u64::from(self.setting.files) + 1), self.files.len());
            return self.make(name.into_bytes(), now);
        }
        let file = &mut self.files[which];
        if !file.to_remove.is_empty() {
            let index = file.to_remove.remove(0);
            file.datafiles[index] = (0, now);
            let size = file.size();
            // Must not be observed: the file has no name any more.
            file.sizes.push((now, u64::MAX - size));
            let again = now + self.chance.below(self.setting.way_ns.max(1000));
            return self.push(again, Event::Use);
        }
        if file.unlinked_ns.is_some() || file.attributes.kind != FileKind::File || file.datafiles.is_empty() {
            return;
        }
        match what {
            1 => {
                file.unlinked_ns = Some(now);
                file.to_remove = (0..file.datafiles.len()).collect();
            }
            2 => {
                // Truncation: the service hides sizes of which only some datafiles know.
                file.is_settled = false;
                let to = self.chance.below(300);
                let many = file.datafiles.len() as u32;
                let sizes: Vec<u64> = layout(many).datafile_sizes(to).collect();
                for (datafile, size) in file.datafiles.iter_mut().zip(sizes) {
                    *datafile = (datafile.0.min(size), now);
                }
            }
            _ => {
                file.is_settled = false;
                let index = self.chance.below(file.datafiles.len() as u64) as usize;
                let end = self.chance.below(1000 * STRIP);
                file.datafiles[index] = (file.datafiles[index].0.max(end), now);
            }
        }
        if file.unlinked_ns.is_none() {
            let size = file.size();
            file.sizes.push((now, size));
        } else {
            for _ in 0..file.datafiles.len() {
                let later = now + self.chance.below(4 * self.setting.way_ns.max(1000));
                self.push(later, Event::Use);
            }
        }
    }

    /// Sends the core's requests.
    fn send(&mut self) {
        while let Some(request) = self.core.next_request(self.now_ns) {
            let peer = request.peer;
            let flying = self.in_flight.entry(peer).or_default();
            *flying += 1;
            self.most_in_flight = self.most_in_flight.max(*flying);
            let many = if let Ask::Glimpse { datafiles } = &request.ask { datafiles.len() } else { 0 };
            self.requests.push((peer, many));
            let waited = self.waited_ns.entry(peer).or_insert((self.now_ns, 0));
            if waited.1 == 0 {
                waited.0 = self.now_ns;
            }
            waited.1 += 1;
            let connection = self.connection.entry(peer).or_insert(1);
            let connection = *connection;
            let way = self.setting.way_ns + self.chance.below(self.setting.jitter_ns + 1);
            // A connection preserves order.
            let (free, answered) = self.free_ns.entry(peer).or_insert((0, 0));
            let arrives = (self.now_ns + way).max(*free);
            *free = arrives;
            let _ = answered;
            self.push(arrives, Event::Arrives(connection, request));
        }
        let held = self.core.held();
        self.most_held = (self.most_held.0.max(held.0), self.most_held.1.max(held.1));
    }

    fn is_up(&self, peer: Peer) -> bool {
        self.setting.silent.is_none_or(|(silent, from)| silent != peer || self.now_ns < from)
    }

    /// A server handles a request.
    fn arrives(&mut self, connection: u64, request: Request) {
        let peer = request.peer;
        if self.connection.get(&peer) != Some(&connection) || !self.is_up(peer) {
            return;
        }
        if self.setting.closes.is_some_and(|(closes, from)| closes == peer && self.now_ns >= from) {
            self.setting.closes = None;
            let way = self.setting.way_ns;
            return self.push(self.now_ns + way, Event::Breaks(peer, connection, ErrorKind::Reset));
        }
        let (answer, units) = self.answer(connection, &request.ask);
        let way = self.setting.way_ns + self.chance.below(self.setting.jitter_ns + 1);
        let (_, answered) = self.free_ns.entry(peer).or_insert((0, 0));
        let at = (self.now_ns + way + units * self.setting.work_ns).max(*answered);
        *answered = at;
        self.push(at, Event::Answers(peer, connection, request.token, answer));
    }

    fn answer(&mut self, connection: u64, ask: &Ask) -> (Result<Answer>, u64) {
        let now = self.now_ns;
        match ask {
            Ask::Glimpse { datafiles } => {
                let size = |id: &DatafileId| {
                    let (size_bytes, changed) = self.files[(id.file.0 - 1000) as usize].datafiles[id.index as usize];
                    DatafileSize { size_bytes, allocated_bytes: 0, quiet: now.saturating_sub(changed) >= QUIET_NS }
                };
                (Ok(Answer::Sizes(datafiles.iter().map(size).collect())), datafiles.len() as u64)
            }
            Ask::Stat { places, sizes } => {
                // Sometimes a message does not hold all of them.
                let many = if self.chance.below(4) == 0 { places.len().div_ceil(2) } else { places.len() };
                let found = places[..many].iter().map(|place| match self.files.get((place.from.0 - 1000) as usize) {
                    Some(file) if file.unlinked_ns.is_none() => Ok(self.attributes(file, *sizes)),
                    _ => Err(Error::new(ErrorKind::NotFound, "gone")),
                });
                (Ok(Answer::Stats(found.collect())), many as u64)
            }
            Ask::List { walk, after, most, detail, .. } => {
                let after = match (after, self.continued.get(&(connection, *walk))) {
                    (After::Nothing, _) => None,
                    (After::Name(name), _) => Some(name.clone()),
                    (After::Page, Some(Some(name))) => Some(name.clone()),
                    (After::Page, Some(None)) => return (Ok(Answer::Page(Vec::new(), false)), 0),
                    (After::Page, None) => return (Err(Error::new(ErrorKind::Invalid, "no page before")), 0),
                };
                let mut there: Vec<&File> = self
                    .files
                    .iter()
                    .filter(|file| file.unlinked_ns.is_none() && after.as_ref().is_none_or(|after| file.name > *after))
                    .collect();
                there.sort_by(|a, b| a.name.cmp(&b.name));
                let more = there.len() > *most as usize;
                let entry = |file: &&File| DirectoryEntry {
                    name: Name::new(file.name.clone()).unwrap(),
                    id: file.attributes.id,
                    kind: file.attributes.kind,
                    attributes: (*detail != Detail::Names).then(|| self.attributes(file, *detail == Detail::Sizes)),
                };
                let page: Vec<_> = there.iter().take(*most as usize).map(entry).collect();
                let many = page.len() as u64;
                let last = page.last().filter(|_| more).map(|last| last.name.to_vec());
                self.continued.insert((connection, *walk), last);
                (Ok(Answer::Page(page, more)), many)
            }
        }
    }

    fn attributes(&self, file: &File, sizes: bool) -> Attributes {
        let proved = sizes && file.is_settled && file.attributes.kind == FileKind::File;
        Attributes { size_bytes: proved.then(|| file.size()), ..file.attributes.clone() }
    }

    /// Processes the next event. `false`: no events left.
    fn step(&mut self) -> bool {
        let silent = self
            .waited_ns
            .iter()
            .filter(|(_, (_, many))| *many > 0)
            .map(|(peer, (since, _))| (since + self.setting.timeout_ns, *peer))
            .min();
        let next = self.events.peek().map(|at| at.0);
        if let Some((at, peer)) = silent.filter(|(at, _)| next.is_none_or(|next| *at <= next)) {
            self.now_ns = self.now_ns.max(at);
            self.lost(peer, ErrorKind::TimedOut);
            return true;
        }
        let Some(At(at, _, event)) = self.events.pop() else { return false };
        self.now_ns = self.now_ns.max(at);
        match event {
            Event::Use => self.used(),
            Event::Arrives(connection, request) => self.arrives(connection, request),
            Event::Answers(peer, connection, token, answer) => {
                if self.connection.get(&peer) != Some(&connection) {
                    return true;
                }
                *self.in_flight.entry(peer).or_default() -= 1;
                let (since, many) = self.waited_ns.entry(peer).or_insert((0, 0));
                (*since, *many) = (self.now_ns, *many - 1);
                self.core.answered(token, answer, self.now_ns);
            }
            Event::Breaks(peer, connection, kind) => {
                if self.connection.get(&peer) == Some(&connection) {
                    self.lost(peer, kind);
                }
            }
        }
        true
    }

    fn lost(&mut self, peer: Peer, kind: ErrorKind) {
        self.waited_ns.remove(&peer);
        self.in_flight.insert(peer, 0);
        *self.connection.entry(peer).or_insert(1) += 1;
        self.free_ns.insert(peer, (self.now_ns, self.now_ns));
        let error = Error::new(kind, "lost").at_server(format!("{peer:?}"));
        self.core.peer_failed(peer, &error, true, self.now_ns);
    }

    /// Reads at least one entry, however long it takes.
    fn read(&mut self, walk: WalkId, most: usize) -> Result<Vec<WalkEntry>> {
        let mut into = VecDeque::new();
        loop {
            let taken = self.core.take(walk, most, &mut into, self.now_ns);
            self.send();
            match taken {
                Taken::Some => return Ok(into.into()),
                Taken::End => return Ok(Vec::new()),
                Taken::Failed(error) => return Err(error),
                Taken::Wait => assert!(self.step(), "the reader waits, and nothing is on its way"),
            }
        }
    }

    fn list_all(&mut self) -> (Vec<(WalkEntry, u64)>, u64) {
        let group = self.core.new_group();
        let walk = self.core.open(FilePath::at("/"), None, group, 0);
        let (mut all, begun) = (Vec::new(), self.now_ns);
        loop {
            let some = self.read(walk, 64).unwrap();
            if some.is_empty() {
                self.core.close(walk);
                return (all, self.now_ns - begun);
            }
            let now = self.now_ns;
            all.extend(some.into_iter().map(|entry| (entry, now)));
        }
    }

    fn asked_ns(&self, entry: &WalkEntry) -> u64 {
        entry.asked.duration_since(self.epoch).as_nanos() as u64
    }

    /// Checks that the entries read are correct: each name at most once, in order; entries that existed throughout, exactly once; each
    /// size one that the file had between request and answer.
    fn check(&self, read: &[(WalkEntry, u64)], begun_ns: u64, dead: Option<u32>) -> Result<(), TestCaseError> {
        for pair in read.windows(2) {
            prop_assert!(pair[0].0.name < pair[1].0.name, "names come in order, each once");
        }
        let names: BTreeSet<&[u8]> = read.iter().map(|(entry, _)| entry.name.as_slice()).collect();
        for file in self.files.iter().filter(|file| file.made_ns < begun_ns && file.unlinked_ns.is_none()) {
            prop_assert!(names.contains(file.name.as_slice()), "{:?} was there all the time", String::from_utf8_lossy(&file.name));
        }
        let mut failed = 0;
        for (entry, at_ns) in read {
            let file = &self.files[(entry.id.0 - 1000) as usize];
            let is_sized = entry.kind == FileKind::File && self.setting.options.detail == Detail::Sizes;
            prop_assert_eq!(&file.name, &entry.name);
            prop_assert_eq!(entry.size.is_some(), is_sized);
            prop_assert_eq!(entry.attributes.is_some(), self.setting.options.detail != Detail::Names);
            match &entry.size {
                Some(Ok(Size { size_bytes, .. })) => {
                    let asked = self.asked_ns(entry);
                    prop_assert!(asked >= begun_ns && asked <= *at_ns);
                    // A file written continuously is asked three times, and the last answer is returned.
                    let is_calm = file.sizes.iter().filter(|(at, _)| (asked..=*at_ns).contains(at)).count() <= 1;
                    let why = format!("{size_bytes} of {:?}, asked at {asked}, read at {at_ns}: {:?}", file.name, file.sizes);
                    prop_assert!(!is_calm || file.had(*size_bytes, asked, *at_ns), "{}", why);
                }
                Some(Err(error)) => {
                    failed += 1;
                    prop_assert!(dead.is_some(), "{}", error);
                }
                None => {}
            }
        }
        prop_assert!(dead.is_some() || failed == 0);
        Ok(())
    }
}

fn plain_attributes() -> Attributes {
    Attributes {
        id: FileId(0),
        kind: FileKind::File,
        mode: 0o644,
        uid: 0,
        gid: 0,
        links: 1,
        accessed_ns: 0,
        modified_ns: 0,
        changed_ns: 0,
        created_ns: 0,
        change: 0,
        device: 0,
        target_bytes: 0,
        extended_bytes: 0,
        settled: None,
        lost: None,
        size_bytes: None,
        layout: None,
        default_layout: None,
        target: None,
    }
}
