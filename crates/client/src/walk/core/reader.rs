//! The readers' operations: begin walks, take entries, request single files, close walks.

use super::item::{Item, Key, Stage};
use super::{Core, Listing, PAGES, STALE_NS, SingleFile, WalkId, WalkState};
use crate::walk::{Detail, FileInfo, WalkEntry, WalkMode};
use std::collections::VecDeque;
use thalweg_wire::protocol::metadata::{FileId, FileKind, FilePath};
use thalweg_wire::{Error, Result};

/// Result of an attempt to take entries.
#[derive(Debug)]
pub enum Taken {
    /// At least one entry was taken.
    Some,
    /// No entry yet; what is missing was requested.
    Wait,
    /// End of the directory.
    End,
    /// The directory could not be listed to its end.
    Failed(Error),
}

/// A request for a single file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl Core {
    /// Creates a group of walks: a server that fails in one of them is not asked again by any.
    pub fn new_group(&mut self) -> u32 {
        self.last_group += 1;
        self.last_group
    }

    /// Keeps a group until [`Core::let_group_go`], also while it has no walks.
    pub(crate) fn hold_group(&mut self, group: u32) {
        self.groups.entry(group).or_default().walks += 1;
    }

    /// Releases a group; see [`Core::hold_group`].
    pub(crate) fn let_group_go(&mut self, group: u32) {
        if let Some(held) = self.groups.get_mut(&group) {
            held.walks -= 1;
            if held.walks == 0 {
                self.groups.remove(&group);
            }
        }
    }

    /// Begins a walk after a name; `depth` is the number of consecutive round trips that led to it. Nothing is requested before
    /// [`Core::start`] or [`Core::take`].
    pub fn open(&mut self, place: FilePath, after: Option<Vec<u8>>, group: u32, depth: u32) -> WalkId {
        self.last_walk += 1;
        self.hold_group(group);
        let walk = WalkState {
            place,
            group,
            read: after.clone(),
            cursor: after,
            items: VecDeque::new(),
            first: 0,
            given: 0,
            listing: Listing::Open,
            is_queued: false,
            pages: 0,
            names_asked: 0,
            generation: 0,
            window: self.start_window,
            is_late: false,
            read_since: 0,
            is_first_missed: false,
            is_awaited: false,
            depth,
            read_depth: depth,
            attended_ns: 0,
        };
        self.walks.insert(self.last_walk, walk);
        self.last_walk
    }

    /// Returns the number of consecutive round trips behind the last entry read, in any walk.
    pub(crate) fn read_depth(&self) -> u32 {
        self.read_depth
    }

    /// Requests the next page, if there is room. Before the first page arrives it is unknown whether there is a second.
    pub(super) fn plan(&mut self, id: WalkId) {
        let is_ahead = self.options.mode != WalkMode::Synchronous;
        let Some(walk) = self.walks.get_mut(&id) else { return };
        let most = if is_ahead && walk.given > 0 { PAGES } else { 1 };
        if !matches!(walk.listing, Listing::Open) || walk.is_queued || walk.pages >= most || !walk.has_room() {
            return;
        }
        if walk.read_since > 0 {
            // Grow the window: faster if the reader had to wait.
            let factor = if walk.is_late { 8 } else { 2 };
            walk.window = walk.window.saturating_mul(factor).min(self.options.window_most);
            self.counters.window = walk.window;
        }
        (walk.read_since, walk.is_late) = (0, false);
        walk.is_queued = true;
        if walk.is_awaited {
            self.metadata.lists.push_front(id);
        } else {
            self.metadata.lists.push_back(id);
        }
    }

    /// Takes up to `most` available entries. If there are none, requests what the first one lacks.
    pub fn take(&mut self, id: WalkId, most: usize, into: &mut VecDeque<WalkEntry>, now_ns: u64) -> Taken {
        let before = into.len();
        self.go_back_if_stale(id, now_ns);
        let Some(walk) = self.walks.get_mut(&id) else { return Taken::End };
        while into.len() - before < most
            && let Some(item) = walk.items.pop_front_if(|item| item.is_done())
        {
            let key = Key { walk: id, number: walk.first };
            walk.first += 1;
            if self.table.get(&item.entry.id) == Some(&key) {
                self.table.remove(&item.entry.id);
            }
            walk.read_depth = walk.read_depth.max(item.depth);
            if item.stage == Stage::Gone {
                continue;
            }
            *(if item.is_missed { &mut self.counters.misses } else { &mut self.counters.hits }) += 1;
            walk.read_since += 1;
            into.push_back(item.entry);
        }
        self.read_depth = self.read_depth.max(walk.read_depth);
        if into.len() > before {
            self.counters.entries += (into.len() - before) as u64;
            walk.read = into.back().map(|entry| entry.name.clone());
            walk.is_awaited = false;
            self.plan(id);
            return Taken::Some;
        }
        let wanted = self.want(id, now_ns);
        self.notify();
        if matches!(wanted, Taken::Some) { self.take(id, most, into, now_ns) } else { wanted }
    }

    /// Requests what the first item lacks: the reader waits for it.
    fn want(&mut self, id: WalkId, now_ns: u64) -> Taken {
        let Some(walk) = self.walks.get_mut(&id) else { return Taken::End };
        walk.is_awaited = true;
        if let Some(item) = walk.items.front() {
            let key = Key { walk: id, number: walk.first };
            match item.stage {
                Stage::LacksAttributes | Stage::LacksSize => self.advance(key, true, now_ns),
                _ => walk.is_late = true,
            }
            // It may have been completed immediately: an I/O server known to be dead.
            return if self.item_mut(key).is_some_and(|item| item.is_done()) { Taken::Some } else { Taken::Wait };
        }
        match &walk.listing {
            Listing::Ended => {
                if walk.read_since > 0 || walk.first > 0 {
                    // Fully read: the next walk may begin with this one's final window.
                    self.start_window = self.start_window.max(walk.window.min(self.options.window_most / 4));
                }
                Taken::End
            }
            Listing::Failed(_) => match std::mem::replace(&mut walk.listing, Listing::Ended) {
                Listing::Failed(error) => Taken::Failed(error),
                _ => Taken::End,
            },
            Listing::Open if walk.is_queued || walk.pages > 0 => {
                walk.is_late = true;
                Taken::Wait
            }
            Listing::Open => {
                walk.is_first_missed = true;
                self.plan(id);
                Taken::Wait
            }
        }
    }

    /// Discards entries that the reader left for too long, and requests them again with a smaller window.
    fn go_back_if_stale(&mut self, id: WalkId, now_ns: u64) {
        let Some(walk) = self.walks.get_mut(&id) else { return };
        let away_ns = now_ns.saturating_sub(std::mem::replace(&mut walk.attended_ns, now_ns));
        let is_something_there = !walk.items.is_empty() || walk.pages > 0;
        let is_stale = away_ns > STALE_NS && !walk.is_awaited && is_something_there && self.options.detail != Detail::Names;
        if let (true, Some(read)) = (is_stale, walk.read.clone()) {
            self.go_back(id, read, 0);
        }
    }

    /// Requests everything after this name again. `unread`: entries that were taken but not read.
    pub(crate) fn go_back(&mut self, id: WalkId, after: Vec<u8>, unread: u64) {
        self.unread(unread);
        self.forget_items(id, 0);
        let Some(walk) = self.walks.get_mut(&id) else { return };
        walk.window = (walk.window / 2).max(self.options.window_start);
        walk.let_pages_go();
        walk.read = Some(after);
        (walk.cursor, walk.listing) = (walk.read.clone(), Listing::Open);
        (walk.read_since, walk.is_late) = (0, false);
        self.metadata.lists.retain(|walk| *walk != id);
    }

    /// Closes a walk. Its pending answers are discarded.
    pub(crate) fn close(&mut self, id: WalkId) {
        let left = self.forget_items(id, 0);
        let Some(walk) = self.walks.remove(&id) else { return };
        if left * 2 > walk.window as usize {
            self.start_window = (self.start_window / 2).max(self.options.window_start);
        }
        self.let_group_go(walk.group);
        self.metadata.lists.retain(|walk| *walk != id);
    }

    /// Counts entries that were taken but not read.
    pub(crate) fn unread(&mut self, many: u64) {
        self.counters.entries = self.counters.entries.saturating_sub(many);
        self.counters.hits = self.counters.hits.saturating_sub(many);
        self.counters.wasted += many;
    }

    /// Drops a walk's items from number `from` on; returns how many.
    pub(super) fn forget_items(&mut self, id: WalkId, from: u64) -> usize {
        let Some(walk) = self.walks.get_mut(&id) else { return 0 };
        let first = from.max(walk.first);
        let items = walk.items.split_off((first - walk.first).min(walk.items.len() as u64) as usize);
        if walk.items.is_empty() {
            walk.first = walk.given;
        }
        if items.is_empty() {
            return 0;
        }
        self.counters.wasted += items.len() as u64;
        let is_let_go = |key: &Key| key.walk == id && key.number >= first;
        for server in &mut self.servers {
            server.wants.retain(|want| !is_let_go(&want.key));
        }
        self.metadata.stats.retain(|key| !is_let_go(key));
        for (number, item) in (first..).zip(&items) {
            if self.table.get(&item.entry.id) == Some(&Key { walk: id, number }) {
                self.table.remove(&item.entry.id);
            }
        }
        // Callers that had joined request the file separately now.
        for number in items.iter().flat_map(|item| item.joined.iter().copied()) {
            self.ask_for(number);
        }
        items.len()
    }

    /// Requests a single file, or joins a request for it.
    pub(crate) fn stat(&mut self, id: FileId, now_ns: u64) -> Ticket {
        self.last_number += 1;
        let number = self.last_number;
        let moment = self.moment(now_ns);
        let entry = WalkEntry { name: Vec::new(), id, kind: FileKind::File, attributes: None, size: None, asked: moment };
        let mut item = Item::new(entry, Stage::AwaitsAttributes, self.read_depth, u64::MAX);
        item.is_missed = true;
        self.loose.insert(number, SingleFile { item, outcome: None });
        let key = self.table.get(&id).copied();
        let Some((key, there)) = key.and_then(|key| Some((key, self.item_mut(key)?))) else {
            self.ask_for(number);
            return Ticket(number);
        };
        if there.is_done() {
            if there.stage == Stage::Done && now_ns.saturating_sub(there.asked_ns) <= STALE_NS {
                let known = there.known();
                self.loose.entry(number).and_modify(|loose| loose.outcome = Some(known));
            } else {
                self.ask_for(number);
            }
            return Ticket(number);
        }
        there.joined.push(number);
        if matches!(there.stage, Stage::LacksAttributes | Stage::LacksSize) {
            self.advance(key, true, now_ns);
            self.notify();
        }
        Ticket(number)
    }

    fn ask_for(&mut self, number: u64) {
        let key = Key { walk: 0, number };
        if let Some(loose) = self.loose.get_mut(&number) {
            loose.item.stage = Stage::AwaitsAttributes;
            self.table.insert(loose.item.entry.id, key);
            self.metadata.stats.push_back(key);
        }
    }

    /// Takes the answer, once available; the ticket is then used up.
    pub(crate) fn stat_outcome(&mut self, ticket: Ticket) -> Option<Result<FileInfo>> {
        self.loose.get(&ticket.0)?.outcome.as_ref()?;
        self.loose.remove(&ticket.0)?.outcome
    }

    /// Drops the ticket: its answer is not needed.
    pub(crate) fn stat_dropped(&mut self, ticket: Ticket) {
        self.loose.remove(&ticket.0);
    }

    /// Passes results to callers that requested single files.
    pub(super) fn notify(&mut self) {
        while let Some(key) = self.to_notify.pop() {
            let Some(item) = self.item_mut(key) else { continue };
            let (known, joined, id) = (item.known(), std::mem::take(&mut item.joined), item.entry.id);
            if key.walk == 0 {
                if self.table.get(&id) == Some(&key) {
                    self.table.remove(&id);
                }
                if let Some(loose) = self.loose.get_mut(&key.number) {
                    loose.outcome = Some(known.clone());
                }
            }
            for number in joined {
                if let Some(loose) = self.loose.get_mut(&number) {
                    loose.outcome = Some(known.clone());
                }
            }
        }
    }

    /// Requests the first page of a walk, of at most `most` entries, before there is a reader.
    pub(crate) fn start(&mut self, id: WalkId, most: u32) {
        if let Some(walk) = self.walks.get_mut(&id) {
            walk.window = walk.window.min(most.max(1));
        }
        self.plan(id);
    }

    /// Returns whether a walk's first page has arrived, and the number of its items.
    pub(crate) fn standing(&self, id: WalkId) -> (bool, usize) {
        self.walks.get(&id).map_or((true, 0), |walk| (!walk.is_queued && walk.pages == 0, walk.items.len()))
    }

    /// Returns the directories among a walk's items from number `from` on, each with its round trips, and the next number.
    pub(crate) fn directories(&self, id: WalkId, from: u64) -> (Vec<(FileId, u32)>, u64) {
        let Some(walk) = self.walks.get(&id) else { return (Vec::new(), from) };
        let skip = from.saturating_sub(walk.first) as usize;
        let directories = walk.items.iter().skip(skip).filter(|item| item.entry.kind == FileKind::Directory);
        (directories.map(|item| (item.entry.id, item.depth)).collect(), walk.first + walk.items.len() as u64)
    }

    /// Returns the memory held, as counts of entries and datafiles, for tests of the bounds.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize) {
        let items = self.walks.values().map(|walk| walk.items.len()).sum::<usize>() + self.loose.len();
        let wants = self.servers.iter().map(|server| server.wants.len()).sum::<usize>();
        (items, wants + self.table.len() + self.flights.len())
    }
}
