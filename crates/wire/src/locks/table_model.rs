//! Tests the lock table against a model that stores the holder and kind of every byte.

use crate::error::ErrorKind;
use crate::limits;
use crate::locks::ranges::Holder;
use crate::locks::table::{Outcome, Table, Ticket};
use crate::protocol::locks::{HeldLock, LockKind, LockRange, LockRequest, LockSpace};
use crate::protocol::metadata::FileId;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Bytes of the model's files; the last one represents everything behind it.
const BYTES: u64 = 8;

#[derive(Clone, Debug)]
enum Step {
    Lock {
        client: u64,
        request: LockRequest,
        waits: bool,
    },
    Unlock {
        client: u64,
        range: LockRange,
    },
    /// Cancels the n-th waiting request.
    Cancel(usize),
    Forget(u64),
    /// Lets the courtesy time pass.
    TimePasses,
}

/// The holder and kind of each byte, and the waiting requests in order.
#[derive(Default)]
struct Model {
    bytes: BTreeMap<(FileId, LockSpace, u64), BTreeMap<Holder, LockKind>>,
    waits: Vec<(Ticket, LockRequest, Instant)>,
}

fn holder(client: u64, request: &LockRange) -> Holder {
    Holder { client, owner: request.owner }
}

fn last_byte(range: &LockRange) -> u64 {
    range.end.min(BYTES - 1)
}

fn excludes(one: LockKind, other: LockKind) -> bool {
    (one, other) != (LockKind::Shared, LockKind::Shared)
}

impl Model {
    fn blockers(&self, client: u64, request: &LockRequest) -> BTreeSet<Holder> {
        let range = &request.range;
        let mut found = BTreeSet::new();
        for byte in range.start..=last_byte(range) {
            let holders = self.bytes.get(&(range.file, range.space, byte)).into_iter().flatten();
            found.extend(holders.filter(|(h, kind)| **h != holder(client, range) && excludes(**kind, request.kind)).map(|(h, _)| *h));
        }
        found
    }

    fn set(&mut self, client: u64, range: &LockRange, kind: Option<LockKind>) {
        for byte in range.start..=last_byte(range) {
            let holders = self.bytes.entry((range.file, range.space, byte)).or_default();
            match kind {
                Some(kind) => holders.insert(holder(client, range), kind),
                None => holders.remove(&holder(client, range)),
            };
        }
    }

    /// Whether an earlier waiting request excludes this one.
    fn behind(&self, client: u64, request: &LockRequest, before: usize) -> bool {
        self.waits[..before].iter().any(|(ticket, earlier, _)| {
            let (one, other) = (&earlier.range, &request.range);
            (one.file, one.space) == (other.file, other.space)
                && holder(ticket.client, one) != holder(client, other)
                && excludes(earlier.kind, request.kind)
                && one.start <= other.end
                && other.start <= one.end
        })
    }

    /// Whether waiting would close a cycle.
    fn deadlock(&self, client: u64, request: &LockRequest) -> bool {
        let asks = holder(client, &request.range);
        let mut reached = self.blockers(client, request);
        loop {
            let mut more = reached.clone();
            for (ticket, waiting, _) in &self.waits {
                if waiting.range.space == LockSpace::Record && reached.contains(&holder(ticket.client, &waiting.range)) {
                    more.extend(self.blockers(ticket.client, waiting));
                }
            }
            if more == reached {
                return reached.contains(&asks);
            }
            reached = more;
        }
    }

    /// Checks that everything the table granted was possible, one after another.
    fn grant(&mut self, granted: &[Ticket], now: Instant) {
        for ticket in granted {
            let at = self.waits.iter().position(|(waiting, ..)| waiting == ticket).expect("only what waits is granted");
            let (_, request, since) = self.waits[at];
            assert!(self.blockers(ticket.client, &request).is_empty(), "{ticket:?} was granted what others hold");
            let patient = now - since < limits::LOCK_COURTESY;
            assert!(!patient || !self.behind(ticket.client, &request, at), "{ticket:?} passed one that has waited longer");
            self.waits.remove(at);
            self.set(ticket.client, &request.range, Some(request.kind));
        }
        for (at, (ticket, request, since)) in self.waits.iter().enumerate() {
            let blocked = !self.blockers(ticket.client, request).is_empty();
            let held_back = now - *since < limits::LOCK_COURTESY && self.behind(ticket.client, request, at);
            assert!(blocked || held_back, "{ticket:?} waits for nothing: {request:?}");
        }
    }

    fn same(&self, table: &Table) {
        for file in [FileId(1), FileId(2)] {
            for space in [LockSpace::Flock, LockSpace::Record] {
                let held = table.held(file, space);
                let mut bytes: BTreeMap<u64, BTreeMap<Holder, LockKind>> = BTreeMap::new();
                for lock in &held {
                    for byte in lock.start..=lock.end.min(BYTES - 1) {
                        let who = Holder { client: lock.client, owner: lock.owner };
                        let twice = bytes.entry(byte).or_default().insert(who, lock.kind);
                        assert_eq!(twice, None, "a holder's ranges do not overlap: {held:?}");
                    }
                }
                for byte in 0..BYTES {
                    let expected = self.bytes.get(&(file, space, byte)).cloned().unwrap_or_default();
                    assert_eq!(bytes.remove(&byte).unwrap_or_default(), expected, "byte {byte} of {file} in {space:?}: {held:?}");
                }
                let touch = |one: &HeldLock, other: &HeldLock| {
                    (one.client, one.owner, one.kind) == (other.client, other.owner, other.kind)
                        && one.end.checked_add(1) == Some(other.start)
                };
                assert!(!held.iter().any(|one| held.iter().any(|other| touch(one, other))), "neighbours are one range: {held:?}");
            }
        }
    }
}

fn range() -> impl Strategy<Value = LockRange> {
    let end = prop_oneof![3 => 0..BYTES - 1, 1 => Just(u64::MAX)];
    (1_u64..3, any::<bool>(), 0_u64..2, 0..BYTES, end).prop_map(|(file, record, owner, start, end)| {
        let file = FileId(file);
        if record {
            LockRange { file, space: LockSpace::Record, owner, start: start.min(end), end }
        } else {
            LockRange::whole(file, LockSpace::Flock, owner)
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(LockKind::Shared), Just(LockKind::Exclusive)];
    let request = (range(), kind).prop_map(|(range, kind)| LockRequest { range, kind, pid: 9 });
    prop_oneof![
        8 => (1_u64..4, request, any::<bool>()).prop_map(|(client, request, waits)| Step::Lock { client, request, waits }),
        4 => (1_u64..4, range()).prop_map(|(client, range)| Step::Unlock { client, range }),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => (1_u64..4).prop_map(Step::Forget),
        1 => Just(Step::TimePasses),
    ]
}

fn play(steps: &[Step]) {
    let mut table = Table::default();
    let mut model = Model::default();
    let begun = Instant::now();
    let mut now = begun;
    for (number, step) in (0_u64..).zip(steps) {
        now += Duration::from_millis(1);
        let mut granted = Vec::new();
        match step {
            Step::Lock { client, request, waits } => {
                let blocked = !model.blockers(*client, request).is_empty();
                let behind = *waits && model.behind(*client, request, model.waits.len());
                let deadlock =
                    *waits && (blocked || behind) && request.range.space == LockSpace::Record && model.deadlock(*client, request);
                match table.lock(*client, request, waits.then_some(number), now, &mut granted) {
                    Ok(Outcome::Granted) => {
                        assert!(!blocked && !behind, "{step:?}");
                        model.set(*client, &request.range, Some(request.kind));
                    }
                    Ok(Outcome::Queued) => {
                        assert!(*waits && (blocked || behind) && !deadlock, "{step:?}");
                        if request.range.space == LockSpace::Flock {
                            model.set(*client, &request.range, None);
                        }
                        model.waits.push((Ticket { client: *client, number }, *request, now));
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => assert!(!*waits && blocked, "{step:?}: {error}"),
                    Err(error) if error.kind() == ErrorKind::Deadlock => assert!(deadlock, "{step:?}: {error}"),
                    Err(error) => panic!("{step:?}: {error}"),
                }
            }
            Step::Unlock { client, range } => {
                table.unlock(*client, range, now, &mut granted).unwrap();
                model.set(*client, range, None);
            }
            Step::Cancel(n) => {
                if model.waits.is_empty() {
                    continue;
                }
                let (ticket, ..) = model.waits.remove(n % model.waits.len());
                assert!(table.cancel(ticket, now, &mut granted));
                assert!(!table.cancel(ticket, now, &mut granted), "once");
            }
            Step::Forget(client) => {
                table.forget(*client, now, &mut granted);
                model.waits.retain(|(ticket, ..)| ticket.client != *client);
                model.bytes.values_mut().for_each(|holders| holders.retain(|h, _| h.client != *client));
            }
            Step::TimePasses => {
                now += limits::LOCK_COURTESY;
                (1..4).for_each(|client| table.time_passed(client, now, &mut granted));
            }
        }
        model.grant(&granted, now);
        model.same(&table);
        let waiting = model.waits.len();
        assert_eq!(table.counts().1, waiting);
    }
    // A forgotten client leaves no state.
    let mut granted = Vec::new();
    (1..4).for_each(|client| table.forget(client, now, &mut granted));
    assert_eq!(table.counts(), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_held_by_whom_it_should_be(steps in prop::collection::vec(step(), 1..60)) {
        play(&steps);
    }
}

fn whole(owner: u64, kind: LockKind) -> LockRequest {
    LockRequest { range: LockRange::whole(FileId(1), LockSpace::Flock, owner), kind, pid: 1 }
}

#[test]
fn a_writer_is_not_starved_by_readers_that_come_after_it() {
    let mut table = Table::default();
    let (now, mut granted) = (Instant::now(), Vec::new());
    assert_eq!(table.lock(1, &whole(1, LockKind::Shared), Some(1), now, &mut granted).unwrap(), Outcome::Granted);
    assert_eq!(table.lock(2, &whole(1, LockKind::Exclusive), Some(1), now, &mut granted).unwrap(), Outcome::Queued);
    assert_eq!(table.lock(3, &whole(1, LockKind::Shared), Some(1), now, &mut granted).unwrap(), Outcome::Queued, "held back");
    assert_eq!(table.lock(3, &whole(2, LockKind::Shared), None, now, &mut granted).unwrap(), Outcome::Granted, "who does not wait is not");
    table.unlock(3, &whole(2, LockKind::Shared).range, now, &mut granted).unwrap();
    assert!(granted.is_empty());
    table.unlock(1, &whole(1, LockKind::Shared).range, now, &mut granted).unwrap();
    assert_eq!(granted, [Ticket { client: 2, number: 1 }], "the writer first");
}

#[test]
fn a_reader_is_held_back_for_a_writer_only_so_long() {
    let mut table = Table::default();
    let (now, mut granted) = (Instant::now(), Vec::new());
    table.lock(1, &whole(1, LockKind::Shared), Some(1), now, &mut granted).unwrap();
    table.lock(2, &whole(1, LockKind::Exclusive), Some(1), now, &mut granted).unwrap();
    table.lock(1, &whole(2, LockKind::Shared), Some(2), now, &mut granted).unwrap();
    let ends = table.next_end(1, now).unwrap();
    table.time_passed(1, ends - Duration::from_millis(1), &mut granted);
    assert!(granted.is_empty());
    table.time_passed(1, ends, &mut granted);
    assert_eq!(granted, [Ticket { client: 1, number: 2 }], "a program may share a lock with its child before it frees its own");
    assert_eq!(table.next_end(1, ends), None);
}

#[test]
fn locks_and_waits_are_bounded() {
    let mut table = Table::default();
    let (now, mut granted) = (Instant::now(), Vec::new());
    let byte = |n: u64| LockRequest {
        range: LockRange { file: FileId(1), space: LockSpace::Record, owner: 1, start: 2 * n, end: 2 * n },
        kind: LockKind::Exclusive,
        pid: 1,
    };
    // Setting a range costs the number of ranges: a few are enough to reach the limit on waits.
    assert_eq!(table.lock(1, &byte(0), None, now, &mut granted).unwrap(), Outcome::Granted);
    let other = |n: u64| LockRequest { range: LockRange { owner: 2 + n, ..byte(0).range }, ..byte(0) };
    for n in 0..limits::LOCK_WAITS_OF_FILE as u64 {
        assert_eq!(table.lock(2 + n % 2, &other(n), Some(n), now, &mut granted).unwrap(), Outcome::Queued);
    }
    let error = table.lock(9, &other(1 << 40), Some(1), now, &mut granted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooMany);
    table.forget(2, now, &mut granted);
    table.forget(3, now, &mut granted);
    assert_eq!(table.counts(), (1, 0));
    let backwards = LockRequest { range: LockRange { start: 5, end: 4, ..byte(0).range }, ..byte(0) };
    assert_eq!(table.lock(1, &backwards, None, now, &mut granted).unwrap_err().kind(), ErrorKind::Invalid);
}
