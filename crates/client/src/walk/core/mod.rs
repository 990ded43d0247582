//! What is known, what is asked, and what is to be asked next: a state machine without I/O and without a clock.
//!
//! Its owner takes requests out ([`Core::next_request`]), brings answers and failures in, and lets readers take what is there;
//! so a test can drive it through a network that is made up ([`super::simulated`]), in a time that is made up.
//!
//! **Items.** Every entry that was listed and that nobody has read is an [`Item`]: it lacks attributes, or a size, or is done. A
//! walk's items are in the order of the directory, and only the first can be read: the rest is the *window*. A single file that
//! somebody asks for is an item without a walk. One table says which item a file is, so that asking for a file twice is asking once.
//!
//! **Glimpses.** Each server has a queue of datafiles to be asked for, filled whenever an item's attributes come. A question takes
//! as many of them as it may hold, whosever they are. Nothing is held back to make questions larger: pages are large, so are
//! questions, and while as many are in flight as a server may have, the queue grows.
//!
//! **A size of one moment.** Datafiles answer at different moments, so their sizes need not have existed together: with a writer
//! at work, the largest end of one moment and the largest of another may be a size that the file never had. But a server says of
//! each datafile whether it has been quiet for longer than we have been asking ([`QUIET_NS`]): if all have, the file had this size
//! when we began to ask. If not, all are asked again: when two rounds agree, and nothing shrank, the file had this size between them.
//! A file that is being removed loses one datafile after the other; its name went before, so a caller that found a
//! datafile missing that was not quiet asks for its attributes once more, and a file that is gone is no entry.

mod answers;
mod failures;
mod item;
mod layouts;
mod numbered;
mod reader;
#[cfg(test)]
mod simulated;

use super::{Detail, WalkCounters, WalkMode, WalkOptions};
pub use item::WalkId;
use item::{Item, Key};
use layouts::Layouts;
use numbered::Numbered;
pub use reader::Taken;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};
use thalweg_wire::limits;
use thalweg_wire::protocol::io::{DatafileId, DatafileSize};
use thalweg_wire::protocol::metadata::{After, Attributes, DirectoryEntry, FileId, Place, StoreMap};
use thalweg_wire::{Error, Result};

/// Pages in flight of one walk at most: while the reader works on one and one is on its way, the service works on the others.
const PAGES: u32 = 4;
/// Windows below this many entries are two pages large: more would be more requests than they are worth.
const SMALL_WINDOW: u32 = 512;
/// Places in one question for attributes.
const STAT_PLACES: usize = 512;
/// What was fetched for a reader that has been away for this long is asked for again: a size was true when it was asked for, not
/// when a slow reader gets to it.
pub(super) const STALE_NS: u64 = 2_000_000_000;

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The metadata service.
    Metadata,
    /// An I/O server, by its place in the map.
    Io(usize),
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum Ask {
    /// A page of a directory.
    List {
        /// Whose.
        walk: WalkId,
        /// The directory.
        place: Place,
        /// Where it begins.
        after: After,
        /// Names at most.
        most: u32,
        /// How much of each.
        detail: Detail,
    },
    /// Attributes.
    Stat {
        /// Of which.
        places: Vec<Place>,
        /// With sizes that can be proved.
        sizes: bool,
    },
    /// Sizes of datafiles.
    Glimpse {
        /// Of which.
        datafiles: Vec<DatafileId>,
    },
}

/// A request to be sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// What its answer is brought back with.
    pub token: u64,
    /// To whom.
    pub peer: Peer,
    /// What.
    pub ask: Ask,
}

/// What was answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A page of a directory, and whether there are more.
    Page(Vec<DirectoryEntry>, bool),
    /// Attributes, or why not, of the first of those asked for.
    Stats(Vec<Result<Attributes>>),
    /// Sizes, in the order asked.
    Sizes(Vec<DatafileSize>),
}

/// A datafile to be asked for.
#[derive(Clone, Copy, Debug)]
struct Want {
    key: Key,
    id: DatafileId,
    depth: u32,
}

/// An I/O server.
#[derive(Default)]
struct Server {
    wants: VecDeque<Want>,
    in_flight: u32,
    /// Depth of the last answer that made room for a question that had to wait for it.
    freed_depth: u32,
    was_full: bool,
    /// What was unanswered when its connection broke has been asked again once.
    asked_again: bool,
}

/// The metadata service.
#[derive(Default)]
struct Metadata {
    stats: VecDeque<Key>,
    lists: VecDeque<WalkId>,
    in_flight: u32,
    asked_again: bool,
}

/// A request in flight.
struct Flight {
    peer: Peer,
    depth: u32,
    sent_ns: u64,
    of: Of,
}

/// Whom its answer is for.
enum Of {
    List { walk: WalkId, generation: u32, most: u32 },
    Stat(Vec<Key>),
    Glimpse(Vec<Want>),
}

/// Where a walk stands with its directory.
enum Listing {
    /// There may be more.
    Open,
    /// There are no more.
    Ended,
    /// It could not be had: the reader is notified when it has read what was there.
    Failed(Error),
}

/// One walk.
struct WalkState {
    place: Place,
    group: u32,
    /// The last name that was listed.
    cursor: Option<Vec<u8>>,
    /// The last name that was read.
    read: Option<Vec<u8>>,
    items: VecDeque<Item>,
    /// The number of the first item.
    first: u64,
    /// The number after the last one that was ever given: none is given twice.
    given: u64,
    listing: Listing,
    /// The next page is asked for as soon as the service has room for a request.
    is_queued: bool,
    /// Pages in flight, and names in them at most.
    pages: u32,
    names_asked: u32,
    /// Changes when what is in flight is of no more use.
    generation: u32,
    /// Items ahead of the reader.
    window: u32,
    /// The reader has found nothing to read since the last page was asked for.
    is_late: bool,
    /// Items read since then.
    read_since: u32,
    /// The reader wanted an item before it was even asked for.
    is_first_missed: bool,
    /// The reader waits.
    is_awaited: bool,
    /// Depth of the last page.
    depth: u32,
    /// Depth of what was read.
    read_depth: u32,
    /// When its reader last came.
    attended_ns: u64,
}

impl WalkState {
    /// Names in the next page.
    fn page(&self) -> u32 {
        match self.window {
            // While the first page comes there is nothing to read: nothing is gained by leaving room.
            first if self.given == 0 => first,
            small @ 0..SMALL_WINDOW => small.div_ceil(2),
            large => large / PAGES,
        }
    }

    /// Whether the next page may be asked for: pages are not to become small.
    fn has_room(&self) -> bool {
        self.items.len() as u32 + self.names_asked + self.page() <= self.window
    }

    /// Pages in flight are of no more use.
    fn let_pages_go(&mut self) {
        self.generation += 1;
        (self.is_queued, self.pages, self.names_asked) = (false, 0, 0);
    }

    /// The directory cannot be read on.
    fn fail(&mut self, error: Error) {
        self.let_pages_go();
        self.listing = Listing::Failed(error);
    }
}

/// A file that somebody asks for by itself.
struct Loose {
    item: Item,
    outcome: Option<Result<super::Known>>,
}

/// Servers that have failed in walks that belong together: they are not asked again there.
#[derive(Default)]
struct Group {
    walks: u32,
    dead: BTreeMap<usize, Error>,
}

/// See the module.
pub struct Core {
    options: WalkOptions,
    /// Time 0.
    epoch: Instant,
    layouts: Layouts,
    servers: Vec<Server>,
    metadata: Metadata,
    walks: Numbered<WalkId, WalkState>,
    groups: Numbered<u32, Group>,
    loose: Numbered<u64, Loose>,
    table: Numbered<FileId, Key>,
    flights: Numbered<u64, Flight>,
    /// Items that became done and that somebody has asked for by themselves.
    to_notify: Vec<Key>,
    last_walk: WalkId,
    last_group: u32,
    last_number: u64,
    /// What the next walk begins with.
    start_window: u32,
    counters: WalkCounters,
    read_depth: u32,
}

impl Core {
    /// Nothing is asked yet.
    pub fn new(map: &StoreMap, options: WalkOptions, epoch: Instant) -> Core {
        let mut options = options;
        options.window_most = options.window_most.max(1);
        options.window_start = options.window_start.clamp(1, options.window_most);
        options.page_names = options.page_names.max(1);
        options.requests_per_server = options.requests_per_server.max(1);
        options.datafiles_per_request = options.datafiles_per_request.clamp(1, limits::BATCH as u32);
        if options.mode == WalkMode::Synchronous {
            options.window_start = options.window_most;
        }
        Core {
            epoch,
            layouts: Layouts::new(map),
            servers: map.servers.iter().map(|_| Server::default()).collect(),
            metadata: Metadata::default(),
            walks: HashMap::default(),
            groups: HashMap::default(),
            loose: HashMap::default(),
            table: HashMap::default(),
            flights: HashMap::default(),
            to_notify: Vec::new(),
            last_walk: 0,
            last_group: 0,
            last_number: 0,
            start_window: options.window_start,
            counters: WalkCounters { window: options.window_start, ..WalkCounters::default() },
            read_depth: 0,
            options,
        }
    }

    /// What was done so far.
    pub fn counters(&self) -> WalkCounters {
        self.counters
    }

    /// Whether [`Core::next_request`] has something to send.
    pub(super) fn has_requests(&self) -> bool {
        let most = self.options.requests_per_server;
        let metadata = self.metadata.in_flight < most && !(self.metadata.stats.is_empty() && self.metadata.lists.is_empty());
        metadata || self.servers.iter().any(|server| server.in_flight < most && !server.wants.is_empty())
    }

    /// The next request to send, as far as windows and caps allow.
    pub fn next_request(&mut self, now_ns: u64) -> Option<Request> {
        let most = self.options.requests_per_server;
        while self.metadata.in_flight < most && !(self.metadata.stats.is_empty() && self.metadata.lists.is_empty()) {
            let request = self.stat_request(now_ns).or_else(|| self.list_request(now_ns));
            if request.is_some() {
                return request;
            }
        }
        for server in 0..self.servers.len() {
            if self.servers[server].in_flight < most && !self.servers[server].wants.is_empty() {
                return Some(self.glimpse_request(server, now_ns));
            }
        }
        None
    }

    fn send(&mut self, peer: Peer, depth: u32, of: Of, ask: Ask, now_ns: u64) -> Request {
        self.last_number += 1;
        let token = self.last_number;
        self.counters.requests += 1;
        self.counters.round_trips = self.counters.round_trips.max(depth.into());
        match peer {
            Peer::Metadata => self.metadata.in_flight += 1,
            Peer::Io(server) => self.servers[server].in_flight += 1,
        }
        self.flights.insert(token, Flight { peer, depth, sent_ns: now_ns, of });
        Request { token, peer, ask }
    }

    fn stat_request(&mut self, now_ns: u64) -> Option<Request> {
        let (mut keys, mut places, mut depth) = (Vec::new(), Vec::new(), 0);
        while places.len() < STAT_PLACES {
            let Some(key) = self.metadata.stats.pop_front() else { break };
            let asked = self.moment(now_ns);
            let Some(item) = self.item_mut(key) else { continue };
            item.ask_began(now_ns, asked);
            places.push(Place::of(item.entry.id));
            depth = depth.max(item.depth);
            keys.push(key);
        }
        let sizes = self.options.mode == WalkMode::SizesFromMetadata && self.options.detail == Detail::Sizes;
        (!keys.is_empty()).then(|| self.send(Peer::Metadata, depth + 1, Of::Stat(keys), Ask::Stat { places, sizes }, now_ns))
    }

    fn list_request(&mut self, now_ns: u64) -> Option<Request> {
        let id = self.metadata.lists.pop_front()?;
        let walk = self.walks.get_mut(&id).filter(|walk| walk.is_queued)?;
        let most = walk.page().min(self.options.page_names);
        let detail = match (self.options.mode, self.options.detail) {
            (WalkMode::Synchronous, _) | (_, Detail::Names) => Detail::Names,
            (WalkMode::SizesFromMetadata, Detail::Sizes) => Detail::Sizes,
            _ => Detail::Attributes,
        };
        // What is read makes room; the page before need not have come.
        let (after, depth) = match walk.pages {
            0 => (After::name(walk.cursor.as_deref()), walk.depth.max(walk.read_depth) + 1),
            _ => (After::Page, walk.read_depth + 1),
        };
        walk.is_queued = false;
        walk.pages += 1;
        walk.names_asked += most;
        let ask = Ask::List { walk: id, place: walk.place.clone(), after, most, detail };
        let of = Of::List { walk: id, generation: walk.generation, most };
        let request = self.send(Peer::Metadata, depth, of, ask, now_ns);
        self.plan(id);
        Some(request)
    }

    fn glimpse_request(&mut self, server: usize, now_ns: u64) -> Request {
        let here = &mut self.servers[server];
        let many = here.wants.len().min(self.options.datafiles_per_request as usize);
        let wants: Vec<Want> = here.wants.drain(..many).collect();
        let needed = wants.iter().map(|want| want.depth).max().unwrap_or(0);
        let freed = if std::mem::take(&mut here.was_full) { here.freed_depth } else { 0 };
        here.was_full = here.in_flight + 1 >= self.options.requests_per_server;
        let datafiles = wants.iter().map(|want| want.id).collect();
        self.counters.glimpsed += many as u64;
        self.send(Peer::Io(server), needed.max(freed) + 1, Of::Glimpse(wants), Ask::Glimpse { datafiles }, now_ns)
    }

    fn moment(&self, now_ns: u64) -> Instant {
        self.epoch + Duration::from_nanos(now_ns)
    }

    fn item_mut(&mut self, key: Key) -> Option<&mut Item> {
        item_of(&mut self.walks, &mut self.loose, key)
    }
}

/// The item of this key, unless it was read or let go.
fn item_of<'a>(walks: &'a mut Numbered<WalkId, WalkState>, loose: &'a mut Numbered<u64, Loose>, key: Key) -> Option<&'a mut Item> {
    if key.walk == 0 {
        return loose.get_mut(&key.number).map(|loose| &mut loose.item);
    }
    let walk = walks.get_mut(&key.walk)?;
    let at = key.number.checked_sub(walk.first)?;
    walk.items.get_mut(usize::try_from(at).ok()?)
}
