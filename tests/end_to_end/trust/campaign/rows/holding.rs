//! Requests that make others wait.

use super::super::asking::ProbedFile;
use super::Outcome::{Failed, HoldsUp, Outside, Refused};
use super::{Asker, Attempts, Outcome, Row, Who, World, all};
use thalweg_wire::ErrorKind;
use thalweg_wire::limits;
use thalweg_wire::protocol::common::random_u64;
use thalweg_wire::protocol::locks::{LockKind, LockOperation, LockRange, LockReply, LockRequest, LockSpace};
use thalweg_wire::protocol::metadata::{MetadataReply, Operation};

pub(super) const LOCKS: Row = Row { name: "delay others with locks", says: of_locks, attempt: locks };

fn of_locks(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    let but_theirs = [HoldsUp, HoldsUp, Refused, HoldsUp, HoldsUp, Refused];
    match (cell, who) {
        ("yes", _) => all(HoldsUp, 6),
        ("yes, except on files in others' lots", _) => Some(but_theirs.to_vec()),
        ("no: its locks hold only between programs of one mount", _) => all(Refused, 6),
        ("no", Who::Nobody) => all(Outside, 6),
        _ => None,
    }
}

fn locks(world: &World, asker: &mut Asker) -> Attempts {
    let files = world.three_files();
    let said = say_hello(asker);
    let mut outcomes = Vec::new();
    for space in [LockSpace::Flock, LockSpace::Record] {
        let each = files.each_ref().map(|file| said.unwrap_or_else(|| locked(world, asker, file, space)));
        outcomes.extend(["a file in no lot", "one in the owner's lot", "one in another's lot"].into_iter().zip(each));
    }
    outcomes
}

pub(super) const TURNS: Row = Row { name: "delay others with append turns", says: of_turns, attempt: turns };

fn of_turns(cell: &str, who: Who) -> Option<Vec<Outcome>> {
    let not_for_ever = format!("yes, for at most {} s while another client waits", limits::APPEND_TURN.as_secs());
    match (cell, who) {
        (cell, _) if cell == not_for_ever => all(HoldsUp, 3),
        ("yes, except on files in others' lots", _) => Some(vec![HoldsUp, HoldsUp, Refused]),
        ("no", Who::Nobody) => all(Outside, 3),
        ("no", _) => all(Refused, 3),
        _ => None,
    }
}

fn turns(world: &World, asker: &mut Asker) -> Attempts {
    let said = say_hello(asker);
    let each = world.three_files().map(|file| said.unwrap_or_else(|| locked(world, asker, &file, LockSpace::Append)));
    ["a file in no lot", "one in the owner's lot", "one in another's lot"].into_iter().zip(each).collect()
}

/// Starts a client that locks; returns the refusal, if any.
fn say_hello(asker: &mut Asker) -> Option<Outcome> {
    asker.ask(Operation::Lock(LockOperation::Hello { client: random_u64() })).err()
}

/// Locks a whole file, and checks whether another client has to wait.
fn locked(world: &World, asker: &mut Asker, file: &ProbedFile, space: LockSpace) -> Outcome {
    let request = LockRequest { range: LockRange::whole(file.datafile.file, space, 1), kind: LockKind::Exclusive, pid: 1 };
    let lock = Operation::Lock(LockOperation::Lock { request, ticket: None });
    match asker.ask(lock.clone()) {
        Ok(reply) => assert_eq!(reply, MetadataReply::Lock(LockReply::Done)),
        Err(outcome) => return outcome,
    }
    let mut other = world.as_store();
    assert_eq!(say_hello(&mut other), None);
    assert_eq!(other.try_to(lock), Failed(ErrorKind::WouldBlock), "another client has to wait");
    HoldsUp
}
