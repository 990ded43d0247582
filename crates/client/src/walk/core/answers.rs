//! Handling of answers.

use super::item::{Item, Key, RoundOutcome, SizeGather, Stage};
use super::{Answer, AnswerFor, Core, Flight, Listing, Peer, PendingGlimpse, item_of};
use crate::walk::{Detail, Size, SizeFrom, WalkEntry, WalkMode};
use thalweg_wire::protocol::io::{DatafileId, DatafileSize};
use thalweg_wire::protocol::metadata::{Attributes, DirectoryEntry, FileKind, Lost};
use thalweg_wire::{Error, ErrorKind, Result};

impl Core {
    /// Handles the answer to a request, or the service's refusal. (For a failed connection: [`Core::peer_failed`].)
    pub fn answered(&mut self, token: u64, answer: Result<Answer>, now_ns: u64) {
        let Some(flight) = self.flights.remove(&token) else { return };
        match flight.peer {
            Peer::Metadata => {
                self.metadata.in_flight -= 1;
                self.metadata.asked_again = false;
            }
            Peer::Io(server) => {
                let server = &mut self.servers[server];
                server.in_flight -= 1;
                server.freed_depth = flight.depth;
                server.asked_again = false;
            }
        }
        let Flight { depth, of, sent_ns, .. } = flight;
        match (of, answer) {
            (AnswerFor::List { walk, generation, most }, Ok(Answer::Page(entries, more))) => {
                self.page((walk, generation), (most, depth, sent_ns), entries, more, now_ns);
            }
            (AnswerFor::List { walk, generation, .. }, other) => self.list_failed(walk, generation, refused(other)),
            (AnswerFor::Stat(keys), Ok(Answer::Stats(found))) => self.stats_came(keys, found, depth, now_ns),
            (AnswerFor::Stat(keys), other) => {
                let error = refused(other);
                keys.into_iter().for_each(|key| self.attributes_came(key, Err(error.clone()), depth, now_ns));
            }
            (AnswerFor::Glimpse(wants), Ok(Answer::Sizes(sizes))) if sizes.len() == wants.len() => {
                self.sizes_came(&wants, &sizes, depth, now_ns)
            }
            (AnswerFor::Glimpse(wants), other) => {
                let error = refused(other);
                wants.iter().for_each(|want| self.glimpse_failed(want.key, None, &error, now_ns));
            }
        }
        self.notify();
    }

    pub(super) fn list_failed(&mut self, walk: u32, generation: u32, error: Error) {
        if let Some(walk) = self.walks.get_mut(&walk).filter(|walk| walk.generation == generation) {
            walk.fail(error);
        }
    }

    fn page(&mut self, walk: (u32, u32), asked: (u32, u32, u64), entries: Vec<DirectoryEntry>, more: bool, now_ns: u64) {
        let ((id, generation), (most, depth, sent_ns)) = (walk, asked);
        let moment = self.moment(sent_ns);
        let Some(walk) = self.walks.get_mut(&id).filter(|walk| walk.generation == generation) else {
            self.counters.wasted += entries.len() as u64;
            return;
        };
        if entries.len() > most as usize {
            return walk.fail(Error::new(ErrorKind::Protocol, "the reply has more names than were requested"));
        }
        walk.pages -= 1;
        walk.names_asked -= most;
        if !more || entries.is_empty() {
            // Pages still in flight are empty.
            walk.listing = Listing::Ended;
        }
        walk.depth = depth;
        let mut from = walk.first + walk.items.len() as u64;
        for listed in entries {
            let name = listed.name.into_bytes();
            if walk.cursor.as_ref().is_some_and(|cursor| *cursor >= name) {
                // Names are sorted and unique; one that does not follow the last is a repeat.
                walk.fail(Error::new(ErrorKind::Protocol, "the reply's names are not in order"));
                break;
            }
            match &mut walk.cursor {
                Some(cursor) => cursor.clone_from(&name),
                None => walk.cursor = Some(name.clone()),
            }
            let entry = WalkEntry { name, id: listed.id, kind: listed.kind, attributes: listed.attributes, size: None, asked: moment };
            let mut item = Item::new(entry, Stage::Done, depth, sent_ns);
            item.is_missed = std::mem::take(&mut walk.is_first_missed);
            if self.options.detail != Detail::Names {
                self.table.insert(item.entry.id, Key { walk: id, number: walk.first + walk.items.len() as u64 });
            }
            walk.items.push_back(item);
        }
        let until = walk.first + walk.items.len() as u64;
        walk.given = walk.given.max(until);
        while from < until {
            self.advance(Key { walk: id, number: from }, false, now_ns);
            from += 1;
        }
        self.plan(id);
    }

    /// Requests what an item lacks, or marks it done. `is_wanted`: its reader waits.
    pub(super) fn advance(&mut self, key: Key, is_wanted: bool, now_ns: u64) {
        let (mode, detail) = (self.options.mode, self.options.detail);
        let read_depth = self.walks.get(&key.walk).map_or(0, |walk| walk.read_depth);
        let Some(item) = item_of(&mut self.walks, &mut self.loose, key) else { return };
        let is_synchronous = mode == WalkMode::Synchronous && key.walk != 0;
        let Some(attributes) = &item.entry.attributes else {
            if detail == Detail::Names {
                item.stage = Stage::Done;
            } else if is_wanted || !is_synchronous {
                item.stage = Stage::AwaitsAttributes;
                item.is_missed |= is_wanted;
                item.depth = item.depth.max(read_depth);
                self.metadata.stats.push_back(key);
            } else {
                item.stage = Stage::LacksAttributes;
            }
            return;
        };
        if detail != Detail::Sizes || attributes.kind != FileKind::File || item.entry.size.is_some() {
            return self.done(key);
        }
        if let (Some(size_bytes), WalkMode::SizesFromMetadata) = (attributes.size_bytes, mode) {
            item.entry.size = Some(Ok(Size { size_bytes, allocated_bytes: None, from: SizeFrom::Metadata }));
            self.counters.from_metadata += 1;
            return self.done(key);
        }
        // A follow-up to an answer the reader waits for is requested immediately.
        if !(is_wanted || mode >= WalkMode::GlimpseAhead || key.walk == 0 || (is_synchronous && item.is_missed)) {
            item.stage = Stage::LacksSize;
            return;
        }
        if is_wanted {
            // The reader has consumed everything before this item and only now needs it.
            item.is_missed = true;
            item.depth = item.depth.max(read_depth);
        }
        match self.layouts.of(attributes) {
            Ok(placed) => {
                item.gather = Some(Box::new(SizeGather::new(placed, now_ns, item.there_ns.min(now_ns))));
                self.glimpse(key, now_ns);
            }
            Err(error) => {
                item.entry.size = Some(Err(error));
                self.done(key);
            }
        }
    }

    /// Queues all datafiles of an item at their servers.
    fn glimpse(&mut self, key: Key, now_ns: u64) {
        let group = self.walks.get(&key.walk).map(|walk| walk.group);
        let dead = group.and_then(|group| self.groups.get(&group)).map(|group| &group.dead).filter(|dead| !dead.is_empty());
        let Some(item) = item_of(&mut self.walks, &mut self.loose, key) else { return };
        let Some(gather) = &mut item.gather else { return };
        item.stage = Stage::AwaitsSize;
        if let Some(error) = dead.and_then(|dead| gather.placed.targets.iter().find_map(|(_, server)| dead.get(server))) {
            gather.error = Some(error.clone());
            item.due = 0;
        } else {
            item.due = gather.placed.targets.len() as u32;
            for (index, (target, server)) in (0..).zip(&gather.placed.targets) {
                let id = DatafileId { file: item.entry.id, index, target: *target, lot: gather.placed.lot };
                self.servers[*server].wants.push_back(PendingGlimpse { key, id, depth: item.depth });
            }
        }
        if item.due == 0 {
            self.round_ended(key, now_ns);
        }
    }

    fn sizes_came(&mut self, wants: &[PendingGlimpse], sizes: &[DatafileSize], depth: u32, now_ns: u64) {
        for (want, size) in wants.iter().zip(sizes) {
            let Some(item) = item_of(&mut self.walks, &mut self.loose, want.key) else { continue };
            let Some(gather) = item.gather.as_mut().filter(|_| item.due > 0) else { continue };
            gather.answered(want.id.index, size);
            item.depth = item.depth.max(depth);
            item.due -= 1;
            if item.due == 0 {
                self.round_ended(want.key, now_ns);
            }
        }
    }

    /// Handles a failed glimpse of this item. `dead`: a server that the affected walks must not ask again.
    pub(super) fn glimpse_failed(&mut self, key: Key, dead: Option<usize>, error: &Error, now_ns: u64) {
        let group = dead.and_then(|server| Some((server, self.walks.get(&key.walk)?.group)));
        if let Some((server, group)) = group.and_then(|(server, group)| Some((server, self.groups.get_mut(&group)?))) {
            group.dead.entry(server).or_insert_with(|| error.clone());
        }
        let Some(item) = item_of(&mut self.walks, &mut self.loose, key) else { return };
        let Some(gather) = &mut item.gather else { return };
        gather.error.get_or_insert_with(|| error.clone());
        item.due = item.due.saturating_sub(1);
        if item.due == 0 {
            self.round_ended(key, now_ns);
        }
    }

    fn round_ended(&mut self, key: Key, now_ns: u64) {
        let Some(item) = item_of(&mut self.walks, &mut self.loose, key) else { return };
        let Some(gather) = &mut item.gather else { return };
        match gather.round_ended(now_ns) {
            RoundOutcome::Size(size) => {
                let lost = item.entry.attributes.as_ref().and_then(|attributes| attributes.lost.as_deref());
                let end = lost.map_or(0, Lost::end_bytes);
                item.entry.size = Some(size.map(|size| Size { size_bytes: size.size_bytes.max(end), ..size }));
                self.done(key);
            }
            RoundOutcome::Again => self.glimpse(key, now_ns),
            RoundOutcome::Presence => {
                item.stage = Stage::AwaitsPresence;
                self.metadata.stats.push_back(key);
            }
        }
    }

    fn stats_came(&mut self, mut keys: Vec<Key>, found: Vec<Result<Attributes>>, depth: u32, now_ns: u64) {
        if found.is_empty() || found.len() > keys.len() {
            let error = Error::new(ErrorKind::Protocol, format!("{} answers to {} questions", found.len(), keys.len()));
            return keys.into_iter().for_each(|key| self.attributes_came(key, Err(error.clone()), depth, now_ns));
        }
        // The message could not hold all: request the rest next.
        let rest = keys.split_off(found.len());
        rest.into_iter().rev().for_each(|key| self.metadata.stats.push_front(key));
        for (key, found) in keys.into_iter().zip(found) {
            self.attributes_came(key, found, depth, now_ns);
        }
    }

    pub(super) fn attributes_came(&mut self, key: Key, found: Result<Attributes>, depth: u32, now_ns: u64) {
        let Some(item) = self.item_mut(key) else { return };
        item.depth = item.depth.max(depth);
        match (found, item.stage) {
            (Err(error), _) if error.is_gone() => {
                item.stage = Stage::Gone;
                self.finished(key);
            }
            (Err(error), _) if error.breaks_connection() && key.walk != 0 => self.walk_failed(key, error),
            (Err(error), _) => {
                item.entry.size = Some(Err(error));
                self.done(key);
            }
            (Ok(attributes), Stage::AwaitsPresence) => {
                let proved = attributes.size_bytes.map(|size_bytes| Size { size_bytes, allocated_bytes: None, from: SizeFrom::Metadata });
                item.entry.size = proved.map(Ok).or_else(|| item.gather.as_ref().map(|gather| gather.present()));
                self.done(key);
            }
            (Ok(attributes), _) => {
                item.entry.kind = attributes.kind;
                item.entry.attributes = Some(attributes);
                self.advance(key, false, now_ns);
            }
        }
    }

    /// Fails a walk because the metadata service is silent. Items before `key` can still be read; this item and later ones are not
    /// requested, to avoid one timeout each.
    fn walk_failed(&mut self, key: Key, error: Error) {
        self.forget_items(key.walk, key.number);
        if let Some(walk) = self.walks.get_mut(&key.walk) {
            walk.fail(error);
        }
        self.metadata.lists.retain(|walk| *walk != key.walk);
    }

    fn done(&mut self, key: Key) {
        if let Some(item) = self.item_mut(key) {
            item.stage = Stage::Done;
            item.gather = None;
            self.finished(key);
        }
    }

    /// Queues the notification of the caller that requested this file alone.
    fn finished(&mut self, key: Key) {
        let is_joined = self.item_mut(key).is_some_and(|item| !item.joined.is_empty());
        if key.walk == 0 || is_joined {
            self.to_notify.push(key);
        }
    }
}

/// Converts an unusable answer to an error.
fn refused(answer: Result<Answer>) -> Error {
    match answer {
        Err(error) => error,
        Ok(other) => Error::new(ErrorKind::Protocol, format!("the reply does not match the request: {other:.100?}")),
    }
}
