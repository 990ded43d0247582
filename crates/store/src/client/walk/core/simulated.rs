//! The core in a network, in a store and in a time that are made up.
//!
//! Requests and answers take times of their own, servers work one request after the other, answers of one server come in order and
//! those of different servers in any; a server can be silent, or close its connection and be back. Meanwhile files are made,
//! written, cut off and removed, in one directory or in a datafile after the other. Every state that each file ever had is kept with its time, so that
//! whatever comes out can be held against all that was true between the question and the answer.

use super::*;
use crate::client::walk::{Size, WalkEntry};
use crate::error::ErrorKind;
use crate::protocol::metadata::{FileKind, FileLayout, ServerEntry, TargetEntry, TargetId};
use proptest::prelude::*;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;
use thalweg_layout::{Distribution, Layout, Spec};

const MS: u64 = 1_000_000;
const STRIP: u64 = 100;

/// Numbers that look like chance.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        if most == 0 { 0 } else { self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % most }
    }
}

/// A file that is or was.
struct File {
    name: Vec<u8>,
    attributes: Attributes,
    /// Sizes of its datafiles, each with when it was changed last.
    datafiles: Vec<(u64, u64)>,
    /// Every size it had, from when on.
    sizes: Vec<(u64, u64)>,
    made_ns: u64,
    unlinked_ns: Option<u64>,
    /// Datafiles still to be removed.
    to_remove: Vec<usize>,
    /// The service can prove its size.
    is_settled: bool,
}

impl File {
    fn size(&self) -> u64 {
        let sizes: Vec<u64> = self.datafiles.iter().map(|(size, _)| *size).collect();
        layout(self.datafiles.len() as u32).logical_file_size(&sizes).unwrap()
    }

    /// Whether it had this size at some moment of the interval.
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

/// What happens when.
enum Event {
    /// A request has arrived at a server, of this connection.
    Arrives(u64, Request),
    /// An answer has arrived here.
    Answers(Peer, u64, u64, Result<Answer>),
    /// A connection was lost.
    Breaks(Peer, u64, ErrorKind),
    /// The store is used by others.
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
    /// Half of a round trip, in nanoseconds, and how much more it may take.
    way_ns: u64,
    jitter_ns: u64,
    /// What an entry, and a datafile, costs a server.
    work_ns: u64,
    /// Changes by others, of which kinds.
    changes: u32,
    /// The server that is silent from some time on, or closes its connection once.
    silent: Option<(u32, u64)>,
    closes: Option<(u32, u64)>,
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
    /// When each peer is free to work, and when its last answer arrives here.
    free_ns: BTreeMap<Peer, (u64, u64)>,
    /// Connections by peer: their number, and since when it is up.
    connection: BTreeMap<Peer, u64>,
    /// When the oldest unanswered request of each peer began to be waited for.
    waited_ns: BTreeMap<Peer, (u64, u32)>,
    in_flight: BTreeMap<Peer, u32>,
    most_in_flight: u32,
    requests: Vec<(Peer, usize)>,
    most_held: (usize, usize),
    dead_answers: u64,
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
            dead_answers: 0,
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
        let attributes =
            Attributes { id, kind, layout: (datafiles > 0).then(|| Arc::new(FileLayout { spec: spec(), targets })), ..plain_attributes() };
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

    /// Somebody else uses the store.
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
            // Nobody may see this: it has no name any more.
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
                // Cut off: the service keeps others away from a size of which one datafile knows and another does not.
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

    /// Sends what the core wants to send.
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
            // One connection keeps the order.
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
        !matches!((peer, self.setting.silent), (Peer::Io(server), Some((silent, from))) if server as u32 == silent && self.now_ns >= from)
    }

    /// A server works on a request.
    fn arrives(&mut self, connection: u64, request: Request) {
        let peer = request.peer;
        if self.connection.get(&peer) != Some(&connection) || !self.is_up(peer) {
            return;
        }
        if let (Peer::Io(server), Some((closes, from))) = (peer, self.setting.closes)
            && server as u32 == closes
            && self.now_ns >= from
        {
            self.setting.closes = None;
            let way = self.setting.way_ns;
            return self.push(self.now_ns + way, Event::Breaks(peer, connection, ErrorKind::Reset));
        }
        let (answer, units) = self.answer(&request.ask);
        let way = self.setting.way_ns + self.chance.below(self.setting.jitter_ns + 1);
        let (_, answered) = self.free_ns.entry(peer).or_insert((0, 0));
        let at = (self.now_ns + way + units * self.setting.work_ns).max(*answered);
        *answered = at;
        self.push(at, Event::Answers(peer, connection, request.token, answer));
    }

    fn answer(&mut self, ask: &Ask) -> (Result<Answer>, u64) {
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
            Ask::List { after, most, detail, .. } => {
                let mut there: Vec<&File> = self
                    .files
                    .iter()
                    .filter(|file| file.unlinked_ns.is_none() && after.as_ref().is_none_or(|after| file.name > *after))
                    .collect();
                there.sort_by(|a, b| a.name.cmp(&b.name));
                let more = there.len() > *most as usize;
                let entry = |file: &&File| DirectoryEntry {
                    name: file.name.clone(),
                    id: file.attributes.id,
                    kind: file.attributes.kind,
                    attributes: (*detail != Detail::Names).then(|| self.attributes(file, *detail == Detail::Sizes)),
                };
                let page: Vec<_> = there.iter().take(*most as usize).map(entry).collect();
                let many = page.len() as u64;
                (Ok(Answer::Page(page, more)), many)
            }
        }
    }

    fn attributes(&self, file: &File, sizes: bool) -> Attributes {
        let proved = sizes && file.is_settled && file.attributes.kind == FileKind::File;
        Attributes { size_bytes: proved.then(|| file.size()), ..file.attributes.clone() }
    }

    /// The next thing happens. `false`: nothing can happen any more.
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

    /// Reads one entry or more, however long it takes.
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
        let walk = self.core.open(Place::at("/"), None, group, 0);
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

    /// What was read is what was there: each name at most once, in order; what was there throughout, once; and each size is one
    /// that the file had between the question and the answer.
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
                    // One that is written all the time is asked three times, and then the answer is the last one.
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
        size_bytes: None,
        layout: None,
        default_layout: None,
        target: None,
    }
}

fn options() -> impl Strategy<Value = WalkOptions> {
    let modes = prop::sample::select(WalkMode::ALL.to_vec());
    let details = prop::sample::select(vec![Detail::Names, Detail::Attributes, Detail::Sizes, Detail::Sizes, Detail::Sizes]);
    (modes, details, 1_u32..40, 1_u32..200, 1_u32..100, 1_u32..6, 1_u32..60).prop_map(
        |(mode, detail, window_start, window_most, page_names, requests_per_server, datafiles_per_request)| WalkOptions {
            mode,
            detail,
            window_start,
            window_most,
            page_names,
            requests_per_server,
            datafiles_per_request,
            timeout: None,
        },
    )
}

fn settings() -> impl Strategy<Value = Setting> {
    let network = (1000_u64..20 * MS, 0_u64..20 * MS, 0_u64..50_000);
    let store = (0_u32..150, 1_u32..5, 1_u32..9, 0_u32..80);
    (any::<u64>(), store, network, options()).prop_map(
        |(seed, (files, servers, datafiles, changes), (way_ns, jitter_ns, work_ns), options)| Setting {
            seed,
            files,
            servers,
            datafiles,
            way_ns,
            jitter_ns,
            work_ns,
            changes,
            silent: None,
            closes: None,
            timeout_ns: 10_000 * MS,
            options,
        },
    )
}

/// Held memory is what the window allows, and no request or question is larger than its bound.
fn within_bounds(world: &World, walks: usize) -> Result<(), TestCaseError> {
    let options = &world.core.options;
    prop_assert!(world.most_in_flight <= options.requests_per_server, "{} in flight", world.most_in_flight);
    prop_assert!(world.requests.iter().all(|(_, many)| *many <= options.datafiles_per_request as usize));
    let window = walks * options.window_most as usize;
    prop_assert!(world.most_held.0 <= window, "{} items in a window of {window}", world.most_held.0);
    let most = window * (1 + world.setting.datafiles as usize) + 64;
    prop_assert!(world.most_held.1 <= most, "{} held for {most}", world.most_held.1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_tells_what_was_there_whatever_changes_under_it(setting in settings()) {
        let mut world = World::new(setting);
        let begun = world.now_ns;
        let (read, _) = world.list_all();
        world.check(&read, begun, None)?;
        within_bounds(&world, 1)?;
        let counters = world.core.counters();
        prop_assert_eq!(counters.entries, read.len() as u64);
        prop_assert_eq!(counters.hits + counters.misses, counters.entries);
        prop_assert_eq!(counters.requests, world.requests.len() as u64);
        prop_assert_eq!(world.core.held(), (0, 0), "nothing is left of a walk that was read to its end");
    }

    #[test]
    fn a_silent_server_costs_one_timeout_and_its_files_their_sizes(setting in settings(), server in 0_u32..5, at in 0_u64..100) {
        let mut setting = Setting { changes: 0, ..setting };
        let server = server % setting.servers;
        // A timeout is much longer than all else.
        setting.timeout_ns *= 1000;
        setting.silent = Some((server, 10_000 * MS + at * setting.way_ns / 4));
        let mut world = World::new(setting);
        let begun = world.now_ns;
        let (read, took) = world.list_all();
        world.check(&read, begun, Some(server))?;
        prop_assert!(took < 2 * world.setting.timeout_ns, "{} ms", took / MS);
        prop_assert!(world.connection.values().map(|count| count - 1).sum::<u64>() <= 1, "the server was asked again");
        within_bounds(&world, 1)?;
    }

    #[test]
    fn a_connection_that_is_closed_once_is_not_noticed(setting in settings(), server in 0_u32..5, at in 0_u64..100) {
        let mut setting = setting;
        setting.closes = Some((server % setting.servers, 10_000 * MS + at * setting.way_ns / 4));
        let mut world = World::new(setting);
        let begun = world.now_ns;
        let (read, _) = world.list_all();
        world.check(&read, begun, None)?;
    }

    #[test]
    fn walks_that_are_left_leave_nothing_behind_and_single_files_join_them(
        setting in settings(),
        deeds in prop::collection::vec((0_u8..8, any::<u16>()), 1..60),
    ) {
        let mut world = World::new(Setting { timeout_ns: 1000 * setting.timeout_ns, ..setting });
        let mut walks: Vec<(WalkId, Vec<u8>)> = Vec::new();
        let mut tickets = Vec::new();
        let mut most = 0;
        for (deed, number) in deeds {
            match deed {
                0 | 1 if walks.len() < 4 => {
                    let group = world.core.new_group();
                    let walk = world.core.open(Place::at("/"), None, group, 0);
                    if deed == 1 {
                        world.core.start(walk, u32::from(number));
                    }
                    walks.push((walk, Vec::new()));
                    most = most.max(walks.len());
                }
                2 | 3 if !walks.is_empty() => {
                    let at = usize::from(number) % walks.len();
                    let some = world.read(walks[at].0, usize::from(number % 50) + 1).unwrap();
                    for entry in some {
                        prop_assert!(entry.name > walks[at].1);
                        walks[at].1 = entry.name;
                    }
                }
                4 if !walks.is_empty() => world.core.close(walks.swap_remove(usize::from(number) % walks.len()).0),
                5 if !world.files.is_empty() => {
                    let file = usize::from(number) % world.files.len();
                    tickets.push((world.core.stat(world.files[file].attributes.id, world.now_ns), file, world.now_ns));
                }
                6 => world.now_ns += u64::from(number) * MS / 10,
                _ => {
                    world.send();
                    world.step();
                }
            }
            world.send();
        }
        for (ticket, file, begun) in tickets {
            let known = loop {
                if let Some(known) = world.core.stat_outcome(ticket) {
                    break known;
                }
                world.send();
                prop_assert!(world.step(), "a single file is never answered");
            };
            let file = &world.files[file];
            match known {
                Ok(known) => {
                    prop_assert_eq!(known.attributes.id, file.attributes.id);
                    let from = begun.saturating_sub(STALE_NS).min(known.asked.duration_since(world.epoch).as_nanos() as u64);
                    let is_calm = file.sizes.iter().filter(|(at, _)| *at >= from).count() <= 1;
                    if let (Some(size), true) = (known.size, is_calm) {
                        prop_assert!(file.had(size.size_bytes, from, world.now_ns));
                    }
                }
                Err(error) => prop_assert!(file.unlinked_ns.is_some(), "{}", error),
            }
        }
        walks.iter().for_each(|(walk, _)| world.core.close(*walk));
        while world.step() {
            world.send();
        }
        prop_assert_eq!(world.core.held(), (0, 0));
        prop_assert!(world.core.flights.is_empty() && !world.core.has_requests());
        prop_assert_eq!(world.core.groups.len(), 0);
        within_bounds(&world, most + 64)?;
    }
}

/// Round trips that a walk of so many files took, in whole ones of 1 ms.
fn round_trips(files: u32, datafiles: u32, options: WalkOptions) -> (f64, WalkCounters) {
    let mut world = World::new(Setting { options, ..Setting::plain(files, datafiles) });
    let (read, took) = world.list_all();
    assert_eq!(read.len(), files as usize);
    (took as f64 / MS as f64, world.core.counters())
}

#[test]
fn one_file_at_a_time_takes_two_round_trips_for_each_and_one_for_each_page() {
    let options = WalkOptions { mode: WalkMode::Synchronous, page_names: 100, ..WalkOptions::default() };
    for datafiles in [1, 8] {
        let mut world = World::new(Setting { options: options.clone(), ..Setting::plain(500, datafiles) });
        let files = world.files.iter().filter(|file| file.attributes.kind == FileKind::File).count() as u64;
        let (_, took) = world.list_all();
        let counters = world.core.counters();
        let directories = 500 - files;
        // Pages of names are read ahead, but the first.
        assert_eq!(took / MS, 1 + 2 * files + directories, "{datafiles} datafiles");
        assert_eq!((counters.hits, counters.misses), (0, 500));
        assert_eq!(counters.round_trips, 1 + 2 * files + directories);
    }
}

#[test]
fn ahead_of_the_reader_round_trips_are_those_of_windows_and_32_datafiles_cost_no_more_than_1() {
    for window in [8_u32, 32, 128, 1024] {
        let options = WalkOptions { mode: WalkMode::GlimpseAhead, window_start: window, window_most: window, ..WalkOptions::default() };
        let (one, _) = round_trips(4000, 1, options.clone());
        let (many, counters) = round_trips(4000, 32, options);
        // Half a window is asked for while the other half is read: one round trip for each half, and one for its sizes in the end.
        let halves = 4000.0 / f64::from(window / 2);
        assert!(one <= 2.0 * halves + 4.0 && one >= halves, "{one} round trips with a window of {window}");
        assert!((many - one).abs() <= 2.0, "{many} round trips with 32 datafiles, {one} with one");
        assert!((counters.round_trips as f64 - many).abs() <= 2.0, "{} counted, {many} taken", counters.round_trips);
    }
}

#[test]
fn a_window_grows_until_pages_are_large_and_sizes_that_are_proved_cost_nothing() {
    let (took, counters) = round_trips(10_000, 4, WalkOptions { mode: WalkMode::GlimpseAhead, ..WalkOptions::default() });
    assert!(took <= 24.0, "{took} round trips");
    assert_eq!(counters.window, WalkOptions::default().window_most);
    assert_eq!(counters.misses, 1, "the first one");
    let mut world = World::new(Setting::plain(10_000, 4));
    world.files.iter_mut().for_each(|file| file.is_settled = true);
    let (_, took) = world.list_all();
    assert!(took / MS <= 16, "{} round trips", took / MS);
    assert_eq!(world.core.counters().glimpsed, 0);
}

#[test]
fn the_first_entry_comes_after_two_round_trips_however_many_there_are() {
    let mut world = World::new(Setting {
        options: WalkOptions { mode: WalkMode::GlimpseAhead, ..WalkOptions::default() },
        ..Setting::plain(10_000, 4)
    });
    let group = world.core.new_group();
    let walk = world.core.open(Place::at("/"), None, group, 0);
    let begun = world.now_ns;
    world.read(walk, 1).unwrap();
    assert!(world.now_ns - begun <= 2 * MS);
    assert!(world.most_held.0 <= 8);
}

#[test]
fn what_a_reader_has_left_for_long_is_asked_for_again_and_comes_once() {
    let mut world = World::new(Setting::plain(1000, 2));
    let group = world.core.new_group();
    let walk = world.core.open(Place::at("/"), None, group, 0);
    let mut names = Vec::new();
    loop {
        let some = world.read(walk, 10).unwrap();
        if some.is_empty() {
            break;
        }
        for entry in some {
            assert!(world.now_ns - world.asked_ns(&entry) < STALE_NS, "it is older than a reader may be away");
            names.push(entry.name);
        }
        if names.len() % 100 < 10 {
            world.now_ns += STALE_NS + MS;
        }
    }
    assert_eq!(names.len(), 1000);
    assert!(names.is_sorted());
    assert!(world.core.counters().wasted > 0);
}
