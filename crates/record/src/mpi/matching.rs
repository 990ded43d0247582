//! Request numbers that all ranks of a message or collective derive independently.
//!
//! MPI does not let messages overtake each other: the nth message from one rank to another, with one tag in one
//! communicator, is taken by the nth matching receive in posting order. So a message's number is derived from the
//! job, the communicator (whose name is the same on all its ranks), both ranks, the tag, and n. Which message a
//! wildcard receive took is known only when it ends, so a rank's file is read twice: the first time to learn that. A
//! collective's number is derived from the name of its communicator or file and the number of collectives before it.

use super::file::{ANY, COLLECTIVE, POSTED, RECEIVE, Record, SEND};
use std::collections::HashMap;
use thalweg_trace::RequestId;

/// Mixes two numbers into one.
pub(super) fn mixed(one: u64, other: u64) -> u64 {
    let mut x = one.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ other.wrapping_add(0x2545_F491_4F6C_DD1D);
    for _ in 0..2 {
        x ^= x >> 32;
        x = x.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }
    x ^ x >> 32
}

/// Hashes a text.
pub(super) fn of_text(text: &str) -> u64 {
    text.bytes().fold(text.len() as u64, |sum, byte| mixed(sum, byte.into()))
}

/// The peer, the communicator and the tag of messages.
type Lane = (u64, i32, i32);

/// Messages in one rank's records.
#[derive(Debug)]
pub(super) struct Messages {
    job: u64,
    rank: i32,
    /// Names of communicators and files common to all ranks, by their number in this one.
    names: HashMap<u32, u64>,
    /// The message received by each posted receive, by serial.
    came: HashMap<u64, Lane>,
    /// Requests of everything that was posted and has a number, by serial.
    numbers: HashMap<u64, RequestId>,
    sent: HashMap<Lane, u64>,
    received: HashMap<Lane, u64>,
}

impl Messages {
    /// Creates an empty state for a rank of a job.
    pub(crate) fn new(job: u64, rank: i32) -> Messages {
        Messages {
            job,
            rank,
            names: HashMap::new(),
            came: HashMap::new(),
            numbers: HashMap::new(),
            sent: HashMap::new(),
            received: HashMap::new(),
        }
    }

    /// First reading: notes the name of a communicator or file.
    pub(crate) fn named(&mut self, record: &Record) {
        if record.serial != 0 {
            self.names.insert(record.object, record.serial);
        }
    }

    /// First reading: notes the end of a posted operation.
    pub(crate) fn completed(&mut self, record: &Record) {
        if record.flags & RECEIVE != 0
            && let Some(lane) = self.lane(record)
        {
            self.came.insert(record.serial, lane);
        }
    }

    fn lane(&self, record: &Record) -> Option<Lane> {
        let name = *self.names.get(&record.object)?;
        (record.peer >= 0 && record.tag != ANY).then_some((name, record.peer, record.tag))
    }

    fn message(&self, communicator: u64, from: i32, to: i32, tag: i32, nth: u64) -> RequestId {
        let ranks = u64::from(from as u32) << 32 | u64::from(to as u32);
        let what = mixed(mixed(self.job, communicator), mixed(ranks, u64::from(tag as u32)));
        RequestId::common(mixed(what, nth))
    }

    /// Second reading, in record order: returns the request that a record began (or performed), `None` if it has
    /// none.
    pub(crate) fn number(&mut self, record: &Record) -> Option<RequestId> {
        let number = if record.flags & COLLECTIVE != 0 {
            let name = *self.names.get(&record.object)?;
            Some(RequestId::common(mixed(mixed(self.job, name), record.sequence)))
        } else if record.flags & SEND != 0 {
            let lane = self.lane(record)?;
            let nth = next(&mut self.sent, lane);
            Some(self.message(lane.0, self.rank, lane.1, lane.2, nth))
        } else if record.flags & RECEIVE != 0 {
            let posted = record.flags & POSTED != 0;
            let lane = if posted { self.came.get(&record.serial).copied().or_else(|| self.lane(record))? } else { self.lane(record)? };
            let nth = next(&mut self.received, lane);
            Some(self.message(lane.0, lane.1, self.rank, lane.2, nth))
        } else {
            None
        };
        if let Some(number) = number
            && record.flags & POSTED != 0
        {
            self.numbers.insert(record.serial, number);
        }
        number
    }

    /// Returns the request of a serial.
    pub(crate) fn number_of(&self, serial: u64) -> Option<RequestId> {
        self.numbers.get(&serial).copied()
    }
}

fn next(counts: &mut HashMap<Lane, u64>, lane: Lane) -> u64 {
    let count = counts.entry(lane).or_default();
    *count += 1;
    *count - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(flags: u8, peer: i32, tag: i32, serial: u64) -> Record {
        Record { flags, peer, tag, serial, object: 1, ..Record::default() }
    }

    fn rank(number: i32) -> Messages {
        let mut messages = Messages::new(7, number);
        messages.named(&Record { object: 1, serial: 1, ..Record::default() });
        messages
    }

    #[test]
    fn both_ends_of_a_message_arrive_at_one_number() {
        let (mut a, mut b) = (rank(0), rank(1));
        let sent: Vec<_> = (0..3).map(|_| a.number(&record(SEND, 1, 5, 0)).unwrap()).collect();
        let received: Vec<_> = (0..3).map(|_| b.number(&record(RECEIVE, 0, 5, 0)).unwrap()).collect();
        assert_eq!(sent, received);
        assert!(sent[0] != sent[1] && sent.iter().all(|number| number.is_common()));
        assert_ne!(a.number(&record(SEND, 1, 6, 0)), b.number(&record(RECEIVE, 0, 5, 0)), "another tag is another message");
    }

    #[test]
    fn receives_that_would_take_any_message_are_numbered_as_they_were_posted() {
        let (mut a, mut b) = (rank(0), rank(1));
        // Two wildcard receives are posted; the program sees the second message complete first.
        b.completed(&record(RECEIVE, 0, 5, 12));
        b.completed(&record(RECEIVE, 0, 5, 11));
        let first = b.number(&record(RECEIVE | POSTED, ANY, ANY, 11));
        let second = b.number(&record(RECEIVE | POSTED, ANY, ANY, 12));
        assert_eq!([first, second], [a.number(&record(SEND, 1, 5, 0)), a.number(&record(SEND, 1, 5, 0))]);
        assert_eq!(b.number_of(12), second);
        assert_eq!(b.number(&record(RECEIVE | POSTED, ANY, ANY, 13)), None, "what never came has no number");
    }

    #[test]
    fn a_collective_is_one_of_its_communicator_and_a_message_to_nobody_is_none() {
        let (mut a, mut b) = (rank(0), rank(1));
        let nth = |n| Record { sequence: n, ..record(COLLECTIVE, -1, -1, 0) };
        assert_eq!(a.number(&nth(3)), b.number(&nth(3)));
        assert_ne!(a.number(&nth(3)), b.number(&nth(4)));
        assert_eq!(a.number(&record(SEND, -1, 5, 0)), None);
        assert_eq!(a.number(&Record { object: 9, ..nth(1) }), None, "a communicator without a name");
    }
}
