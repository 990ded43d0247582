//! The locks of all files and the requests waiting for them; no clock, socket or thread.
//!
//! **Fairness.** Conflicting requests for a file are granted in order of arrival: a request that conflicts only with an earlier
//! waiting request waits behind it, so that a stream of readers does not starve a writer. That wait is bounded by
//! [`crate::limits::LOCK_COURTESY`], because the earlier request may depend on the later one in a way that a lock table cannot
//! see (programs that share a lock with their children do so). A non-blocking request never waits for fairness.
//!
//! **Deadlocks** are detected among record locks, as POSIX allows: the search follows the request's blockers, what each of them
//! waits for, and so on; a cycle back to the requester is refused. Whole-file locks are not searched: `flock` never promised
//! that, and its owner is an open file, not a process.
//!
//! **Turns** to append end: once one has lasted [`crate::limits::APPEND_TURN`], the next client to ask for it gets it. The former
//! holder learns of the loss when it gives the turn back, which is refused; its bytes overlap no other's
//! ([`crate::protocol::io::IoRequest::Append`]). (The service's own turns end by themselves.)
//!
//! A `flock` that changes its kind and has to wait first gives up the lock it had, as on other systems.

use super::ranges::{Holder, Ranges, exclude, overlap};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::protocol::locks::{HeldLock, LockKind, LockRange, LockRequest, LockSpace};
use crate::protocol::metadata::FileId;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Instant;

/// A waiting request, by its client's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// The client.
    pub client: u64,
    /// The client's number for the request.
    pub number: u64,
}

/// The outcome of a lock request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lock is held.
    Granted,
    /// The request waits.
    Queued,
}

/// The client number of the service itself, for its own turns.
pub const SERVICE: u64 = 0;

type LockKey = (FileId, LockSpace);

/// The lock table; the module documentation has its rules.
#[derive(Debug, Default)]
pub struct Table {
    locks: HashMap<LockKey, Locks>,
    waits: HashMap<Ticket, Wait>,
    waiting: HashMap<Holder, Vec<Ticket>>,
    clients: HashMap<u64, Client>,
}

/// The locks of one file in one space.
#[derive(Debug, Default)]
struct Locks {
    ranges: Ranges,
    queue: VecDeque<Ticket>,
    /// When the current turn began, in the space of turns.
    turn_since: Option<Instant>,
}

#[derive(Debug)]
struct Wait {
    request: LockRequest,
    since: Instant,
}

/// A client's locks and waits, so that ending a client costs no more than it holds.
#[derive(Debug, Default)]
struct Client {
    ranges: usize,
    keys: BTreeSet<LockKey>,
    waits: BTreeSet<u64>,
}

fn key_of(range: &LockRange) -> LockKey {
    (range.file, range.space)
}

fn holder(client: u64, range: &LockRange) -> Holder {
    Holder { client, owner: range.owner }
}

/// Converts a request to the lock it becomes.
pub fn as_held(client: u64, request: &LockRequest) -> HeldLock {
    let range = &request.range;
    HeldLock { client, owner: range.owner, pid: request.pid, kind: request.kind, start: range.start, end: range.end }
}

fn checked(range: &LockRange) -> Result<()> {
    if range.start > range.end {
        return Err(Error::new(ErrorKind::Invalid, format!("a lock from byte {} to {} ends before it begins", range.start, range.end)));
    }
    Ok(())
}

/// Checks a lock request; a turn to append must be exclusive and for the whole file.
fn checked_lock(request: &LockRequest) -> Result<()> {
    let LockRange { file, space, owner, .. } = request.range;
    let is_turn = request.range == LockRange::whole(file, space, owner) && request.kind == LockKind::Exclusive;
    if space == LockSpace::Append && !is_turn {
        return Err(Error::new(ErrorKind::Invalid, "a turn to append must cover the whole file and be exclusive"));
    }
    checked(&request.range)
}

fn too_many(what: &str, most: usize) -> Error {
    Error::new(ErrorKind::TooMany, format!("{most} {what}: free some"))
}

impl Table {
    /// Requests a lock. With a ticket, waits if it must; tickets granted in passing are appended to `granted`.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] without a ticket, [`ErrorKind::Deadlock`], [`ErrorKind::TooMany`], [`ErrorKind::Invalid`].
    pub fn lock(
        &mut self,
        client: u64,
        request: &LockRequest,
        ticket: Option<u64>,
        now: Instant,
        granted: &mut Vec<Ticket>,
    ) -> Result<Outcome> {
        checked_lock(request)?;
        self.end_overdue_turn(client, key_of(&request.range), now, granted);
        let number = ticket.map(|number| Ticket { client, number });
        if number.is_some_and(|ticket| self.waits.contains_key(&ticket)) {
            return Ok(Outcome::Queued);
        }
        let held = as_held(client, request);
        let range = &request.range;
        let in_the_way = self.in_the_way(client, request);
        let held_back = number.is_some() && self.held_back(client, request, now, now, usize::MAX);
        if in_the_way.is_none() && !held_back {
            self.room_for_range(client, key_of(range), &held, true)?;
            self.set(client, key_of(range), &held, true);
            self.begin_turn(key_of(range), now);
            self.grant(key_of(range), now, granted);
            return Ok(Outcome::Granted);
        }
        let Some(ticket) = number else {
            let by = in_the_way.expect("what does not wait is never held back");
            return Err(Error::new(ErrorKind::WouldBlock, format!("process {} of another owner holds a lock there", by.pid)));
        };
        if range.space == LockSpace::Record && self.leads_back(client, request) {
            return Err(Error::new(ErrorKind::Deadlock, "its holder is waiting for a lock that this owner holds"));
        }
        self.room_to_wait(client, key_of(range))?;
        if range.space == LockSpace::Flock {
            self.set(client, key_of(range), &HeldLock { start: 0, end: u64::MAX, ..held }, false);
        }
        self.waits.insert(ticket, Wait { request: *request, since: now });
        self.waiting.entry(holder(client, range)).or_default().push(ticket);
        self.locks.entry(key_of(range)).or_default().queue.push_back(ticket);
        self.clients.entry(client).or_default().waits.insert(ticket.number);
        self.grant(key_of(range), now, granted);
        Ok(Outcome::Queued)
    }

    /// Restores a lock held before a restart. Returns `false` if another owner's lock conflicts.
    ///
    /// # Errors
    /// [`ErrorKind::TooMany`], [`ErrorKind::Invalid`].
    pub fn claim(&mut self, client: u64, request: &LockRequest, now: Instant) -> Result<bool> {
        checked_lock(request)?;
        if self.in_the_way(client, request).is_some() {
            return Ok(false);
        }
        let held = as_held(client, request);
        self.room_for_range(client, key_of(&request.range), &held, true)?;
        self.set(client, key_of(&request.range), &held, true);
        self.begin_turn(key_of(&request.range), now);
        Ok(true)
    }

    /// Whether the client holds the whole range in this kind.
    pub fn has(&self, client: u64, request: &LockRequest) -> bool {
        let range = &request.range;
        let locks = self.locks.get(&key_of(range));
        locks.is_some_and(|locks| locks.ranges.covers(holder(client, range), request.kind, range.start, range.end))
    }

    /// Frees an owner's locks in a range.
    ///
    /// # Errors
    /// [`ErrorKind::TooMany`] when a lock would be split and there are too many; [`ErrorKind::Invalid`]; [`ErrorKind::Restarted`]
    /// for a turn that was taken away.
    pub fn unlock(&mut self, client: u64, range: &LockRange, now: Instant, granted: &mut Vec<Ticket>) -> Result<()> {
        checked(range)?;
        let key = key_of(range);
        if range.space == LockSpace::Append && !self.has_any(client, range) {
            let seconds = limits::APPEND_TURN.as_secs();
            let problem = format!("its turn to append took longer than {seconds} s and went to another client");
            return Err(Error::new(ErrorKind::Restarted, problem));
        }
        let kind = LockKind::Shared;
        let freed = HeldLock { client, owner: range.owner, pid: 0, kind, start: range.start, end: range.end };
        if !self.locks.contains_key(&key) {
            return Ok(());
        }
        self.room_for_range(client, key, &freed, false)?;
        self.set(client, key, &freed, false);
        self.grant(key, now, granted);
        self.forget_idle(client);
        Ok(())
    }

    /// Cancels a waiting request. Returns whether it was waiting.
    pub fn cancel(&mut self, ticket: Ticket, now: Instant, granted: &mut Vec<Ticket>) -> bool {
        let Some(key) = self.stop_waiting(ticket) else { return false };
        self.grant(key, now, granted);
        self.forget_idle(ticket.client);
        true
    }

    /// Drops a client with all its locks and waiting requests.
    pub fn forget(&mut self, client: u64, now: Instant, granted: &mut Vec<Ticket>) {
        let Some(gone) = self.clients.get(&client) else { return };
        let mut keys = gone.keys.clone();
        let waits: Vec<u64> = gone.waits.iter().copied().collect();
        for number in waits {
            keys.extend(self.stop_waiting(Ticket { client, number }));
        }
        self.clients.remove(&client);
        for key in keys {
            if let Some(locks) = self.locks.get_mut(&key) {
                locks.ranges.free(|held| held.client == client);
            }
            self.grant(key, now, granted);
        }
    }

    /// Whether a client holds no locks and waits for none.
    pub fn is_idle(&self, client: u64) -> bool {
        self.clients.get(&client).is_none_or(|known| known.ranges == 0 && known.waits.is_empty())
    }

    /// Returns a lock that conflicts with this request, if any.
    pub fn test(&self, client: u64, request: &LockRequest) -> Option<HeldLock> {
        self.in_the_way(client, request)
    }

    /// Returns when one of the client's requests may pass earlier ones, or a turn it waits for ends; `None`: time alone changes
    /// nothing.
    pub fn next_end(&self, client: u64, now: Instant) -> Option<Instant> {
        let waits = &self.clients.get(&client)?.waits;
        let waits = waits.iter().filter_map(|number| self.waits.get(&Ticket { client, number: *number }));
        let ends = waits.flat_map(|wait| {
            let turn = self.locks.get(&key_of(&wait.request.range)).and_then(|locks| locks.turn_since);
            [Some(wait.since + limits::LOCK_COURTESY), turn.map(|since| since + limits::APPEND_TURN)]
        });
        ends.flatten().filter(|end| *end > now).min()
    }

    /// Grants a client's requests whose time has come.
    pub fn time_passed(&mut self, client: u64, now: Instant, granted: &mut Vec<Ticket>) {
        let Some(known) = self.clients.get(&client) else { return };
        let waits = known.waits.iter().filter_map(|number| self.waits.get(&Ticket { client, number: *number }));
        let keys: BTreeSet<LockKey> = waits.map(|wait| key_of(&wait.request.range)).collect();
        for key in keys {
            self.end_overdue_turn(client, key, now, granted);
            self.grant(key, now, granted);
        }
    }

    /// Notes when a turn began, in the space of turns.
    fn begin_turn(&mut self, key: LockKey, now: Instant) {
        if key.1 == LockSpace::Append
            && let Some(locks) = self.locks.get_mut(&key)
        {
            locks.turn_since = Some(now);
        }
    }

    /// Ends an overdue turn for a client that asks for one; never the client's own turn, which waits for its own threads.
    fn end_overdue_turn(&mut self, asks: u64, key: LockKey, now: Instant, granted: &mut Vec<Ticket>) {
        let Some(locks) = self.locks.get(&key).filter(|_| key.1 == LockSpace::Append) else { return };
        let is_over = locks.turn_since.is_some_and(|since| now.saturating_duration_since(since) >= limits::APPEND_TURN);
        let Some(holder) = locks.ranges.iter().next().copied().filter(|held| is_over && held.client != asks && held.client != SERVICE)
        else {
            return;
        };
        self.set(holder.client, key, &holder, false);
        self.grant(key, now, granted);
        self.forget_idle(holder.client);
    }

    /// Whether the client holds any part of this range.
    fn has_any(&self, client: u64, range: &LockRange) -> bool {
        let overlaps =
            |held: &HeldLock| (held.client, held.owner) == (client, range.owner) && held.start <= range.end && range.start <= held.end;
        self.locks.get(&key_of(range)).is_some_and(|locks| locks.ranges.iter().any(overlaps))
    }

    /// Returns the numbers of locked ranges and of waiting requests.
    pub fn counts(&self) -> (usize, usize) {
        (self.clients.values().map(|c| c.ranges).sum(), self.waits.len())
    }

    /// Returns the locks of a file in a space.
    #[cfg(test)]
    pub(crate) fn held(&self, file: FileId, space: LockSpace) -> Vec<HeldLock> {
        self.locks.get(&(file, space)).map(|locks| locks.ranges.iter().copied().collect()).unwrap_or_default()
    }

    fn in_the_way(&self, client: u64, request: &LockRequest) -> Option<HeldLock> {
        let range = &request.range;
        let ranges = &self.locks.get(&key_of(range))?.ranges;
        ranges.conflicts(holder(client, range), request.kind, range.start, range.end).next().copied()
    }

    /// Whether one of the first `before` waiting requests conflicts with this one, waiting since `since`.
    fn held_back(&self, client: u64, request: &LockRequest, since: Instant, now: Instant, before: usize) -> bool {
        if now.saturating_duration_since(since) >= limits::LOCK_COURTESY {
            return false;
        }
        let range = &request.range;
        let Some(locks) = self.locks.get(&key_of(range)) else { return false };
        locks.queue.iter().take(before).any(|ticket| {
            let earlier = &self.waits[ticket].request;
            holder(ticket.client, &earlier.range) != holder(client, range)
                && exclude(earlier.kind, request.kind)
                && overlap((earlier.range.start, earlier.range.end), (range.start, range.end))
        })
    }

    /// Whether waiting for this lock would close a cycle back to the requester.
    fn leads_back(&self, client: u64, request: &LockRequest) -> bool {
        let asks = holder(client, &request.range);
        let in_the_way = |client: u64, request: &LockRequest| -> Vec<Holder> {
            let range = &request.range;
            let Some(locks) = self.locks.get(&key_of(range)) else { return Vec::new() };
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

    fn room_for_range(&self, client: u64, key: LockKey, held: &HeldLock, locked: bool) -> Result<()> {
        let none = Ranges::default();
        let ranges = self.locks.get(&key).map_or(&none, |locks| &locks.ranges);
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

    fn room_to_wait(&self, client: u64, key: LockKey) -> Result<()> {
        if self.locks.get(&key).map_or(0, |locks| locks.queue.len()) >= limits::LOCK_WAITS_OF_FILE {
            return Err(too_many("requests wait for locks on this file", limits::LOCK_WAITS_OF_FILE));
        }
        if self.clients.get(&client).map_or(0, |c| c.waits.len()) >= limits::LOCK_WAITS_OF_CLIENT {
            return Err(too_many("requests of this client wait for locks", limits::LOCK_WAITS_OF_CLIENT));
        }
        Ok(())
    }

    fn set(&mut self, client: u64, key: LockKey, held: &HeldLock, locked: bool) {
        let locks = self.locks.entry(key).or_default();
        let before = locks.ranges.len();
        locks.ranges.set(held, locked);
        let known = self.clients.entry(client).or_default();
        known.ranges = known.ranges + locks.ranges.len() - before;
        if locked {
            known.keys.insert(key);
        } else if !locks.ranges.iter().any(|held| held.client == client) {
            known.keys.remove(&key);
        }
    }

    fn forget_idle(&mut self, client: u64) {
        if self.is_idle(client) {
            self.clients.remove(&client);
        }
    }

    /// Removes a waiting request; returns the file and space for which it waited.
    fn stop_waiting(&mut self, ticket: Ticket) -> Option<LockKey> {
        let wait = self.waits.remove(&ticket)?;
        let key = key_of(&wait.request.range);
        if let Some(locks) = self.locks.get_mut(&key) {
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
        Some(key)
    }

    /// Grants every request that can be granted on one file and space, in order; drops the entry once empty.
    fn grant(&mut self, key: LockKey, now: Instant, granted: &mut Vec<Ticket>) {
        let mut at = 0;
        while let Some(ticket) = self.locks.get(&key).and_then(|locks| locks.queue.get(at).copied()) {
            let wait = &self.waits[&ticket];
            let (request, since) = (wait.request, wait.since);
            let blocked = self.in_the_way(ticket.client, &request).is_some() || self.held_back(ticket.client, &request, since, now, at);
            let held = as_held(ticket.client, &request);
            if blocked || self.room_for_range(ticket.client, key, &held, true).is_err() {
                at += 1;
                continue;
            }
            self.stop_waiting(ticket);
            let ranges = &self.locks[&key].ranges;
            let weaker = held.kind == LockKind::Shared && ranges.iter().any(|h| (h.client, h.owner) == (held.client, held.owner));
            self.set(ticket.client, key, &held, true);
            self.begin_turn(key, now);
            granted.push(ticket);
            // A lock that became weaker may let an earlier request pass.
            if weaker {
                at = 0;
            }
        }
        if self.locks.get(&key).is_some_and(|locks| locks.ranges.is_empty() && locks.queue.is_empty()) {
            self.locks.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn turn(owner: u64) -> LockRequest {
        LockRequest { range: LockRange::whole(FileId(7), LockSpace::Append, owner), kind: LockKind::Exclusive, pid: 1 }
    }

    #[test]
    fn a_turn_to_append_ends_when_it_has_lasted_long_and_another_client_waits() {
        let (mut table, began, mut granted) = (Table::default(), Instant::now(), Vec::new());
        let later = |turns: f64| began + limits::APPEND_TURN.mul_f64(turns);
        assert_eq!(table.lock(1, &turn(10), Some(1), began, &mut granted).unwrap(), Outcome::Granted);
        // No client waits: the turn is not limited.
        assert_eq!(table.lock(2, &turn(20), Some(2), later(0.5), &mut granted).unwrap(), Outcome::Queued);
        assert_eq!(table.next_end(2, later(0.5) + limits::LOCK_COURTESY), Some(later(1.0)));
        table.time_passed(2, later(0.9), &mut granted);
        assert!(granted.is_empty());
        table.time_passed(2, later(1.0), &mut granted);
        assert_eq!(granted, [Ticket { client: 2, number: 2 }]);
        let refused = table.unlock(1, &turn(10).range, later(1.1), &mut granted).unwrap_err();
        assert!(refused.kind() == ErrorKind::Restarted && refused.message().contains("went to another client"), "{refused}");
        assert!(table.has(2, &turn(20)), "the next one keeps its turn");
        table.unlock(2, &turn(20).range, later(1.2), &mut granted).unwrap();
        assert!(table.locks.is_empty() && table.clients.is_empty());
    }

    #[test]
    fn threads_of_one_client_wait_for_each_others_turns_and_so_does_everybody_for_the_services() {
        let (mut table, began, mut granted) = (Table::default(), Instant::now(), Vec::new());
        let late = began + limits::APPEND_TURN * 3;
        for holder in [1, SERVICE] {
            table.lock(holder, &turn(10), Some(1), began, &mut granted).unwrap();
            let asks = if holder == SERVICE { 2 } else { 1 };
            assert_eq!(table.lock(asks, &turn(20), Some(2), late, &mut granted).unwrap(), Outcome::Queued);
            table.unlock(holder, &turn(10).range, late, &mut granted).unwrap();
            table.unlock(asks, &turn(20).range, late + Duration::from_secs(1), &mut granted).unwrap();
        }
    }

    #[test]
    fn what_is_no_turn_is_refused_where_turns_are() {
        let (mut table, now) = (Table::default(), Instant::now());
        let part = LockRequest { range: LockRange { end: 9, ..turn(1).range }, ..turn(1) };
        for request in [part, LockRequest { kind: LockKind::Shared, ..turn(1) }] {
            assert_eq!(table.lock(1, &request, None, now, &mut Vec::new()).unwrap_err().kind(), ErrorKind::Invalid);
            assert_eq!(table.claim(1, &request, now).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
}
