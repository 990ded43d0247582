//! The state of a walker, as a state machine without I/O or clock: what is known, requested, and to be requested next.
//!
//! Its owner takes requests out ([`Core::next_request`]), passes answers and failures in, and lets readers take entries; so a test can
//! drive it through a simulated network ([`super::simulated`]) in simulated time.
//!
//! **Items.** Every entry listed and not yet read is an [`Item`]: it lacks attributes, or a size, or is complete. A walk's items are in
//! directory order, and only the first can be read; the items form the *window*. A request for a single file is an item without a walk. A
//! table maps files to items, so that concurrent requests for one file share one item.
//!
//! **Glimpses.** Each server has a queue of datafiles to ask for, filled as items' attributes arrive. A request takes as many datafiles as
//! fit, of any walk. Requests are never delayed to make them larger: pages are large, so requests are, and the queue grows while the
//! server's limit of requests in flight is reached.
//!
//! **Consistent sizes.** Datafiles answer at different times, so their sizes need not have coexisted: while a file is being written, the
//! combination may be a size the file never had. But a server reports for each datafile whether it has been quiet for longer than the
//! requests took ([`QUIET_NS`]): if all were, the file had this size when the requests began. Otherwise all are asked again; when two
//! rounds agree and nothing shrank, the file had this size between them. A file being removed loses its datafiles one by one, after its
//! name. So if a datafile is missing and was not quiet, the attributes are requested again, and a removed file is dropped from the
//! listing.

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
use thalweg_wire::protocol::metadata::{After, Attributes, DirectoryEntry, FileId, FilePath, StoreMap};
use thalweg_wire::{Error, Result};

/// Bound: pages in flight per walk: while the reader processes one and one is in transit, the service works on the others.
const PAGES: u32 = 4;
/// Windows smaller than this are requested in two pages: more requests would not pay off.
const SMALL_WINDOW: u32 = 512;
/// Bound: places per request for attributes.
const STAT_PLACES: usize = 512;
/// Age at which prefetched data of an absent reader is requested again: a size was true when requested, not when a slow reader reaches it.
pub(super) const STALE_NS: u64 = 2_000_000_000;

/// Recipient of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The metadata service.
    Metadata,
    /// An I/O server, by index in the map.
    Io(usize),
}

/// Content of a request.
#[derive(Clone, Debug)]
pub enum Ask {
    /// A page of a directory.
    List {
        /// Walk it is for.
        walk: WalkId,
        /// The directory.
        place: FilePath,
        /// Position it begins at.
        after: After,
        /// Maximum names.
        most: u32,
        /// Detail per entry.
        detail: Detail,
    },
    /// Attributes.
    Stat {
        /// Places.
        places: Vec<FilePath>,
        /// Whether to include sizes the service can prove.
        sizes: bool,
    },
    /// Sizes of datafiles.
    Glimpse {
        /// Datafiles.
        datafiles: Vec<DatafileId>,
    },
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct Request {
    /// Token to return the answer with.
    pub token: u64,
    /// Recipient.
    pub peer: Peer,
    /// Content.
    pub ask: Ask,
}

/// Content of an answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A page of a directory, and whether there are more.
    Page(Vec<DirectoryEntry>, bool),
    /// Attributes or errors, for the first of the places requested.
    Stats(Vec<Result<Attributes>>),
    /// Sizes, in request order.
    Sizes(Vec<DatafileSize>),
}

/// A datafile to glimpse.
#[derive(Clone, Copy, Debug)]
struct PendingGlimpse {
    key: Key,
    id: DatafileId,
    depth: u32,
}

/// State of an I/O server.
#[derive(Default)]
struct Server {
    wants: VecDeque<PendingGlimpse>,
    in_flight: u32,
    /// Depth of the last answer that freed a slot for a waiting request.
    freed_depth: u32,
    was_full: bool,
    /// Whether requests unanswered when its connection broke were retried.
    asked_again: bool,
}

/// State of the metadata service.
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
    of: AnswerFor,
}

/// Recipients of an answer.
enum AnswerFor {
    List { walk: WalkId, generation: u32, most: u32 },
    Stat(Vec<Key>),
    Glimpse(Vec<PendingGlimpse>),
}

/// Progress of a walk through its directory.
enum Listing {
    /// There may be more entries.
    Open,
    /// All entries were listed.
    Ended,
    /// Listing failed: the reader gets the error after the entries already listed.
    Failed(Error),
}

/// State of one walk.
struct WalkState {
    place: FilePath,
    group: u32,
    /// Last name listed.
    cursor: Option<Vec<u8>>,
    /// Last name read.
    read: Option<Vec<u8>>,
    items: VecDeque<Item>,
    /// Number of the first item.
    first: u64,
    /// Next item number; numbers are never reused.
    given: u64,
    listing: Listing,
    /// Whether the next page is requested as soon as the service has a free slot.
    is_queued: bool,
    /// Pages in flight, and the maximum names in them.
    pages: u32,
    names_asked: u32,
    /// Incremented when pages in flight become invalid.
    generation: u32,
    /// Items ahead of the reader.
    window: u32,
    /// Whether the reader had to wait since the last page was requested.
    is_late: bool,
    /// Items read since then.
    read_since: u32,
    /// Whether the reader needed an item before it was requested.
    is_first_missed: bool,
    /// Whether the reader waits.
    is_awaited: bool,
    /// Depth of the last page.
    depth: u32,
    /// Depth of the entries read.
    read_depth: u32,
    /// When the reader last called.
    attended_ns: u64,
}

impl WalkState {
    /// Returns the number of names for the next page.
    fn page(&self) -> u32 {
        match self.window {
            // Before the first page arrives there is nothing to read, so use the full size.
            first if self.given == 0 => first,
            small @ 0..SMALL_WINDOW => small.div_ceil(2),
            large => large / PAGES,
        }
    }

    /// Whether there is room for the next page; avoids small pages.
    fn has_room(&self) -> bool {
        self.items.len() as u32 + self.names_asked + self.page() <= self.window
    }

    /// Invalidates pages in flight.
    fn let_pages_go(&mut self) {
        self.generation += 1;
        (self.is_queued, self.pages, self.names_asked) = (false, 0, 0);
    }

    /// Ends the listing with an error.
    fn fail(&mut self, error: Error) {
        self.let_pages_go();
        self.listing = Listing::Failed(error);
    }
}

/// A request for a single file.
struct SingleFile {
    item: Item,
    outcome: Option<Result<super::FileInfo>>,
}

/// Servers that failed in a group of walks: the group does not ask them again.
#[derive(Default)]
struct Group {
    walks: u32,
    dead: BTreeMap<usize, Error>,
}

/// A walker's state machine; see the module documentation.
pub struct Core {
    options: WalkOptions,
    /// Time 0.
    epoch: Instant,
    layouts: Layouts,
    servers: Vec<Server>,
    metadata: Metadata,
    walks: Numbered<WalkId, WalkState>,
    groups: Numbered<u32, Group>,
    loose: Numbered<u64, SingleFile>,
    table: Numbered<FileId, Key>,
    flights: Numbered<u64, Flight>,
    /// Completed items requested as single files.
    to_notify: Vec<Key>,
    last_walk: WalkId,
    last_group: u32,
    last_number: u64,
    /// Initial window of the next walk.
    start_window: u32,
    counters: WalkCounters,
    read_depth: u32,
}

impl Core {
    /// Starts with no walks.
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

    /// Returns the counters.
    pub fn counters(&self) -> WalkCounters {
        self.counters
    }

    /// Whether [`Core::next_request`] has a request to send.
    pub(super) fn has_requests(&self) -> bool {
        let most = self.options.requests_per_server;
        let metadata = self.metadata.in_flight < most && !(self.metadata.stats.is_empty() && self.metadata.lists.is_empty());
        metadata || self.servers.iter().any(|server| server.in_flight < most && !server.wants.is_empty())
    }

    /// Returns the next request, as windows and limits allow.
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

    fn send(&mut self, peer: Peer, depth: u32, of: AnswerFor, ask: Ask, now_ns: u64) -> Request {
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
            places.push(FilePath::of(item.entry.id));
            depth = depth.max(item.depth);
            keys.push(key);
        }
        let sizes = self.options.mode == WalkMode::SizesFromMetadata && self.options.detail == Detail::Sizes;
        (!keys.is_empty()).then(|| self.send(Peer::Metadata, depth + 1, AnswerFor::Stat(keys), Ask::Stat { places, sizes }, now_ns))
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
        // Room depends on what was read; the previous page need not have arrived.
        let (after, depth) = match walk.pages {
            0 => (After::name(walk.cursor.as_deref()), walk.depth.max(walk.read_depth) + 1),
            _ => (After::Page, walk.read_depth + 1),
        };
        walk.is_queued = false;
        walk.pages += 1;
        walk.names_asked += most;
        let ask = Ask::List { walk: id, place: walk.place.clone(), after, most, detail };
        let of = AnswerFor::List { walk: id, generation: walk.generation, most };
        let request = self.send(Peer::Metadata, depth, of, ask, now_ns);
        self.plan(id);
        Some(request)
    }

    fn glimpse_request(&mut self, server: usize, now_ns: u64) -> Request {
        let here = &mut self.servers[server];
        let many = here.wants.len().min(self.options.datafiles_per_request as usize);
        let wants: Vec<PendingGlimpse> = here.wants.drain(..many).collect();
        let needed = wants.iter().map(|want| want.depth).max().unwrap_or(0);
        let freed = if std::mem::take(&mut here.was_full) { here.freed_depth } else { 0 };
        here.was_full = here.in_flight + 1 >= self.options.requests_per_server;
        let datafiles = wants.iter().map(|want| want.id).collect();
        self.counters.glimpsed += many as u64;
        self.send(Peer::Io(server), needed.max(freed) + 1, AnswerFor::Glimpse(wants), Ask::Glimpse { datafiles }, now_ns)
    }

    fn moment(&self, now_ns: u64) -> Instant {
        self.epoch + Duration::from_nanos(now_ns)
    }

    fn item_mut(&mut self, key: Key) -> Option<&mut Item> {
        item_of(&mut self.walks, &mut self.loose, key)
    }
}

/// Returns the item of this key, unless it was read or dropped.
fn item_of<'a>(walks: &'a mut Numbered<WalkId, WalkState>, loose: &'a mut Numbered<u64, SingleFile>, key: Key) -> Option<&'a mut Item> {
    if key.walk == 0 {
        return loose.get_mut(&key.number).map(|loose| &mut loose.item);
    }
    let walk = walks.get_mut(&key.walk)?;
    let at = key.number.checked_sub(walk.first)?;
    walk.items.get_mut(usize::try_from(at).ok()?)
}
