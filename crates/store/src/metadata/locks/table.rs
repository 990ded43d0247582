//! The locks of all files and the requests that wait for them; no clock, no socket, no thread.
//!
//! **Fairness.** Requests for a file are granted in the order in which they came, as far as they exclude each other: a
//! request that nothing is in the way of but an earlier one that waits is held back, so that a stream of readers does not
//! starve a writer. Held back, but not for good: the earlier request may wait for something that the one held back would
//! do next (programs that share a lock with their children do so), and no table of locks can see that. So the courtesy ends
//! after [`crate::limits::LOCK_COURTESY`]. A request that does not wait is never held back.
//!
//! **Deadlocks** are looked for among record locks, as POSIX allows: a request would wait for its holders, each of them for
//! the owners in the way of what it waits for, and so on; if that leads back to who asks, it is refused. Locks of whole
//! files are not looked at: `flock` has never promised that, and an owner there is an open file, not a process.
//!
//! A `flock` that changes its kind and has to wait gives up what it had first, as everywhere.

use super::ranges::{Holder, Ranges, exclude, overlap};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::protocol::locks::{HeldLock, LockKind, LockRange, LockRequest, LockSpace};
use crate::protocol::metadata::FileId;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Instant;

/// A request that waits, as its client calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket {
    /// The client.
    pub client: u64,
    /// Its number for it.
    pub number: u64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The lock is held.
    Granted,
    /// It waits.
    Queued,
}

type Place = (FileId, LockSpace);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Table {
    places: HashMap<Place, Locks>,
    waits: HashMap<Ticket, Wait>,
    waiting: HashMap<Holder, Vec<Ticket>>,
    clients: HashMap<u64, Client>,
}

/// The locks of one file in one space.
#[derive(Debug, Default)]
struct Locks {
    ranges: Ranges,
    queue: VecDeque<Ticket>,
}

#[derive(Debug)]
struct Wait {
    request: LockRequest,
    since: Instant,
}

/// What a client has, so that its end costs no more than that.
#[derive(Debug, Default)]
struct Client {
    ranges: usize,
    places: BTreeSet<Place>,
    waits: BTreeSet<u64>,
}

fn place_of(range: &LockRange) -> Place {
    (range.file, range.space)
}

fn holder(client: u64, range: &LockRange) -> Holder {
    Holder { client, owner: range.owner }
}

/// A request as the lock it becomes.
pub(crate) fn as_held(client: u64, request: &LockRequest) -> HeldLock {
    let range = &request.range;
    HeldLock { client, owner: range.owner, pid: request.pid, kind: request.kind, start: range.start, end: range.end }
}

fn checked(range: &LockRange) -> Result<()> {
    if range.start > range.end {
        return Err(Error::new(ErrorKind::Invalid, format!("a lock from byte {} to {}: it ends before it begins", range.start, range.end)));
    }
    Ok(())
}

fn too_many(what: &str, most: usize) -> Error {
    Error::new(ErrorKind::TooMany, format!("{most} {what}: free some"))
}

impl Table {
    /// Asks for a lock. With a ticket it waits if it must; the tickets that are granted by the way are added to `granted`.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] without a ticket, [`ErrorKind::Deadlock`], [`ErrorKind::TooMany`], [`ErrorKind::Invalid`].
    pub(crate) fn lock(
        &mut self,
        client: u64,
        request: &LockRequest,
        ticket: Option<u64>,
        now: Instant,
        granted: &mut Vec<Ticket>,
    ) -> Result<Outcome> {
        checked(&request.range)?;
        let number = ticket.map(|number| Ticket { client, number });
        if number.is_some_and(|ticket| self.waits.contains_key(&ticket)) {
            return Ok(Outcome::Queued);
        }
        let held = as_held(client, request);
        let range = &request.range;
        let in_the_way = self.in_the_way(client, request);
        let held_back = number.is_some() && self.held_back(client, request, now, now, usize::MAX);
        if in_the_way.is_none() && !held_back {
            self.room_for_range(client, place_of(range), &held, true)?;
            self.set(client, place_of(range), &held, true);
            self.grant(place_of(range), now, granted);
            return Ok(Outcome::Granted);
        }
        let Some(ticket) = number else {
            let by = in_the_way.expect("what does not wait is never held back");
            return Err(Error::new(ErrorKind::WouldBlock, format!("process {} of another owner holds a lock there", by.pid)));
        };
        if range.space == LockSpace::Record && self.leads_back(client, request) {
            return Err(Error::new(ErrorKind::Deadlock, "its holder waits for one of this owner's"));
        }
        self.room_to_wait(client, place_of(range))?;
        if range.space == LockSpace::Flock {
            self.set(client, place_of(range), &HeldLock { start: 0, end: u64::MAX, ..held }, false);
        }
        self.waits.insert(ticket, Wait { request: *request, since: now });
        self.waiting.entry(holder(client, range)).or_default().push(ticket);
        self.places.entry(place_of(range)).or_default().queue.push_back(ticket);
        self.clients.entry(client).or_default().waits.insert(ticket.number);
        self.grant(place_of(range), now, granted);
        Ok(Outcome::Queued)
    }

    /// Gives a lock that was held before a restart. Whether nobody else was in the way.
    ///
    /// # Errors
    /// [`ErrorKind::TooMany`], [`ErrorKind::Invalid`].
    pub(crate) fn claim(&mut self, client: u64, request: &LockRequest) -> Result<bool> {
        checked(&request.range)?;
        if self.in_the_way(client, request).is_some() {
            return Ok(false);
        }
        let held = as_held(client, request);
        self.room_for_range(client, place_of(&request.range), &held, true)?;
        self.set(client, place_of(&request.range), &held, true);
        Ok(true)
    }

    /// Whether the client holds all of this.
    pub(crate) fn has(&self, client: u64, request: &LockRequest) -> bool {
        let range = &request.range;
        let locks = self.places.get(&place_of(range));
        locks.is_some_and(|locks| locks.ranges.covers(holder(client, range), request.kind, range.start, range.end))
    }

    /// Frees what an owner holds of a range.
    ///
    /// # Errors
    /// [`ErrorKind::TooMany`] when a lock would be divided and there are too many; [`ErrorKind::Invalid`].
    pub(crate) fn unlock(&mut self, client: u64, range: &LockRange, now: Instant, granted: &mut Vec<Ticket>) -> Result<()> {
        checked(range)?;
        let place = place_of(range);
        let kind = LockKind::Shared;
        let freed = HeldLock { client, owner: range.owner, pid: 0, kind, start: range.start, end: range.end };
        if !self.places.contains_key(&place) {
            return Ok(());
        }
        self.room_for_range(client, place, &freed, false)?;
        self.set(client, place, &freed, false);
        self.grant(place, now, granted);
        self.forget_idle(client);
        Ok(())
    }

    /// A request waits no longer. Whether it did.
    pub(crate) fn cancel(&mut self, ticket: Ticket, now: Instant, granted: &mut Vec<Ticket>) -> bool {
        let Some(place) = self.stop_waiting(ticket) else { return false };
        self.grant(place, now, granted);
        self.forget_idle(ticket.client);
        true
    }

    /// A client is gone, and with it all it held and waited for.
    pub(crate) fn forget(&mut self, client: u64, now: Instant, granted: &mut Vec<Ticket>) {
        let Some(gone) = self.clients.get(&client) else { return };
        let mut places = gone.places.clone();
        let waits: Vec<u64> = gone.waits.iter().copied().collect();
        for number in waits {
            places.extend(self.stop_waiting(Ticket { client, number }));
        }
        self.clients.remove(&client);
        for place in places {
            if let Some(locks) = self.places.get_mut(&place) {
                locks.ranges.free(|held| held.client == client);
            }
            self.grant(place, now, granted);
        }
    }

    /// Whether a client neither holds nor waits for anything.
    pub(crate) fn is_idle(&self, client: u64) -> bool {
        self.clients.get(&client).is_none_or(|known| known.ranges == 0 && known.waits.is_empty())
    }

    /// Who is in the way of a lock.
    pub(crate) fn test(&self, client: u64, request: &LockRequest) -> Option<HeldLock> {
        self.in_the_way(client, request)
    }

    /// When a request of this client's may pass those it is held back for; `None`: nothing changes by time alone.
    pub(crate) fn courtesy_ends(&self, client: u64, now: Instant) -> Option<Instant> {
        let waits = &self.clients.get(&client)?.waits;
        let ends =
            waits.iter().filter_map(|number| Some(self.waits.get(&Ticket { client, number: *number })?.since + limits::LOCK_COURTESY));
        ends.filter(|end| *end > now).min()
    }

    /// Grants what the passing of time has made possible for a client.
    pub(crate) fn courtesy_ended(&mut self, client: u64, now: Instant, granted: &mut Vec<Ticket>) {
        let Some(known) = self.clients.get(&client) else { return };
        let waits = known.waits.iter().filter_map(|number| self.waits.get(&Ticket { client, number: *number }));
        let places: BTreeSet<Place> = waits.map(|wait| place_of(&wait.request.range)).collect();
        places.into_iter().for_each(|place| self.grant(place, now, granted));
    }

    /// Locked ranges, and requests that wait.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.clients.values().map(|c| c.ranges).sum(), self.waits.len())
    }

    /// The locks of a file in a space.
    #[cfg(test)]
    pub(crate) fn held(&self, file: FileId, space: LockSpace) -> Vec<HeldLock> {
        self.places.get(&(file, space)).map(|locks| locks.ranges.iter().copied().collect()).unwrap_or_default()
    }

    fn in_the_way(&self, client: u64, request: &LockRequest) -> Option<HeldLock> {
        let range = &request.range;
        let ranges = &self.places.get(&place_of(range))?.ranges;
        ranges.conflicts(holder(client, range), request.kind, range.start, range.end).next().copied()
    }

    /// Whether one of the first `before` requests that wait excludes this one, which has waited since `since` only.
    fn held_back(&self, client: u64, request: &LockRequest, since: Instant, now: Instant, before: usize) -> bool {
        if now.saturating_duration_since(since) >= limits::LOCK_COURTESY {
            return false;
        }
        let range = &request.range;
        let Some(locks) = self.places.get(&place_of(range)) else { return false };
        locks.queue.iter().take(before).any(|ticket| {
            let earlier = &self.waits[ticket].request;
            holder(ticket.client, &earlier.range) != holder(client, range)
                && exclude(earlier.kind, request.kind)
                && overlap((earlier.range.start, earlier.range.end), (range.start, range.end))
        })
    }

    /// Whether waiting for this lock would be waiting for oneself.
    fn leads_back(&self, client: u64, request: &LockRequest) -> bool {
        let asks = holder(client, &request.range);
        let in_the_way = |client: u64, request: &LockRequest| -> Vec<Holder> {
            let range = &request.range;
            let Some(locks) = self.places.get(&place_of(range)) else { return Vec::new() };
            let conflicts = locks.ranges.conflicts(holder(client, range), request.kind, range.start, range.end);
            conflicts.map(|held| Holder { client: held.client, owner: held.owner }).collect()
        };
        let mut open = in_the_way(client, request);
        let mut seen: HashSet<Holder> = HashSet::new();
        while let Some(blocker) = open.pop() {
            if blocker == asks {
                return true;
            }
            if !seen.insert(blocker) {
                continue;
            }
            for ticket in self.waiting.get(&blocker).into_iter().flatten() {
                let waits_for = &self.waits[ticket].request;
                if waits_for.range.space == LockSpace::Record {
                    open.extend(in_the_way(ticket.client, waits_for));
                }
            }
        }
        false
    }

    fn room_for_range(&self, client: u64, place: Place, held: &HeldLock, locked: bool) -> Result<()> {
        let none = Ranges::default();
        let ranges = self.places.get(&place).map_or(&none, |locks| &locks.ranges);
        let growth = ranges.growth(held, locked);
        let of_client = self.clients.get(&client).map_or(0, |c| c.ranges);
        if growth > 0 && ranges.len() + growth as usize > limits::LOCKS_OF_FILE {
            return Err(too_many("locked ranges in this file", limits::LOCKS_OF_FILE));
        }
        if growth > 0 && of_client + growth as usize > limits::LOCKS_OF_CLIENT {
            return Err(too_many("locked ranges of this client", limits::LOCKS_OF_CLIENT));
        }
        Ok(())
    }

    fn room_to_wait(&self, client: u64, place: Place) -> Result<()> {
        if self.places.get(&place).map_or(0, |locks| locks.queue.len()) >= limits::LOCK_WAITS_OF_FILE {
            return Err(too_many("requests wait for locks on this file", limits::LOCK_WAITS_OF_FILE));
        }
        if self.clients.get(&client).map_or(0, |c| c.waits.len()) >= limits::LOCK_WAITS_OF_CLIENT {
            return Err(too_many("requests of this client wait for locks", limits::LOCK_WAITS_OF_CLIENT));
        }
        Ok(())
    }

    fn set(&mut self, client: u64, place: Place, held: &HeldLock, locked: bool) {
        let locks = self.places.entry(place).or_default();
        let before = locks.ranges.len();
        locks.ranges.set(held, locked);
        let known = self.clients.entry(client).or_default();
        known.ranges = known.ranges + locks.ranges.len() - before;
        if locked {
            known.places.insert(place);
        } else if !locks.ranges.iter().any(|held| held.client == client) {
            known.places.remove(&place);
        }
    }

    fn forget_idle(&mut self, client: u64) {
        if self.is_idle(client) {
            self.clients.remove(&client);
        }
    }

    /// Takes a waiting request out; where it waited.
    fn stop_waiting(&mut self, ticket: Ticket) -> Option<Place> {
        let wait = self.waits.remove(&ticket)?;
        let place = place_of(&wait.request.range);
        if let Some(locks) = self.places.get_mut(&place) {
            locks.queue.retain(|other| *other != ticket);
        }
        let who = holder(ticket.client, &wait.request.range);
        if let Some(tickets) = self.waiting.get_mut(&who) {
            tickets.retain(|other| *other != ticket);
            if tickets.is_empty() {
                self.waiting.remove(&who);
            }
        }
        if let Some(client) = self.clients.get_mut(&ticket.client) {
            client.waits.remove(&ticket.number);
        }
        Some(place)
    }

    /// Grants whatever can be granted in one place, in order; forgets the place if nothing is left in it.
    fn grant(&mut self, place: Place, now: Instant, granted: &mut Vec<Ticket>) {
        let mut at = 0;
        while let Some(ticket) = self.places.get(&place).and_then(|locks| locks.queue.get(at).copied()) {
            let wait = &self.waits[&ticket];
            let (request, since) = (wait.request, wait.since);
            let blocked = self.in_the_way(ticket.client, &request).is_some() || self.held_back(ticket.client, &request, since, now, at);
            let held = as_held(ticket.client, &request);
            if blocked || self.room_for_range(ticket.client, place, &held, true).is_err() {
                at += 1;
                continue;
            }
            self.stop_waiting(ticket);
            let ranges = &self.places[&place].ranges;
            let weaker = held.kind == LockKind::Shared && ranges.iter().any(|h| (h.client, h.owner) == (held.client, held.owner));
            self.set(ticket.client, place, &held, true);
            granted.push(ticket);
            // What became weaker may let an earlier one pass.
            if weaker {
                at = 0;
            }
        }
        if self.places.get(&place).is_some_and(|locks| locks.ranges.is_empty() && locks.queue.is_empty()) {
            self.places.remove(&place);
        }
    }
}
