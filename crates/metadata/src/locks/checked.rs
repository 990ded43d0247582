//! The table of locks under a model checker: in every schedule at most one client holds a lock, and each of them gets it.

use super::keeper::Locks;
use crate::database::Database;
use crate::database::Unwatched;
use crate::database::in_memory::InMemory;
use crate::recovery::Recovery;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thalweg_base::sync::{explore, thread};
use thalweg_wire::locks::table::Outcome;
use thalweg_wire::protocol::locks::{LockKind, LockRange, LockRequest, LockSpace};
use thalweg_wire::protocol::metadata::FileId;
use thalweg_wire::trust::CredentialId;

const ANA: CredentialId = CredentialId([1; 16]);
const FILE: FileId = FileId(7);
/// Longer than a schedule takes, so that no client's wait times out.
const PATIENCE: Duration = Duration::from_secs(10);

fn exclusive() -> LockRequest {
    LockRequest { range: LockRange::whole(FILE, LockSpace::Flock, 1), kind: LockKind::Exclusive, pid: 1 }
}

/// The work of a thread.
type Job = Box<dyn FnOnce() + Send>;

/// The data that the lock protects.
#[derive(Default)]
struct Guarded(AtomicBool);

impl Guarded {
    fn touch(&self) {
        assert!(!self.0.swap(true, Ordering::SeqCst), "two hold one lock");
        thread::yield_now();
        self.0.store(false, Ordering::SeqCst);
    }
}

/// Returns a table without holders.
fn table() -> Arc<Locks> {
    let database: Arc<dyn Database> = Arc::new(InMemory::default());
    Locks::start(database, &Recovery::begin(Duration::ZERO)).unwrap()
}

/// Runs these in a thread each, and joins them.
fn run_concurrently(work: Vec<Job>) {
    let threads: Vec<_> = work.into_iter().map(thread::spawn).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// How a client releases its lock.
#[derive(Clone, Copy)]
enum End {
    Unlocks,
    Dies,
}

/// A client that waits for the lock, holds it, and releases it.
fn client(locks: Arc<Locks>, guarded: Arc<Guarded>, number: u64, end: End) -> Job {
    Box::new(move || {
        let life = locks.hello(number, ANA, &mut Unwatched).unwrap();
        if life.lock(&exclusive(), Some(1)).unwrap() == Outcome::Queued {
            while !locks.grants(number, ANA, PATIENCE).unwrap().contains(&1) {}
        }
        guarded.touch();
        match end {
            End::Unlocks => life.unlock(&exclusive().range).unwrap(),
            End::Dies => drop(life),
        }
    })
}

/// A client with a short timeout: it holds the lock only if its cancel came too late.
fn impatient(locks: Arc<Locks>, guarded: Arc<Guarded>, number: u64) -> Job {
    Box::new(move || {
        let life = locks.hello(number, ANA, &mut Unwatched).unwrap();
        if life.lock(&exclusive(), Some(1)).unwrap() == Outcome::Granted || life.cancel(1, &exclusive()) {
            guarded.touch();
            life.unlock(&exclusive().range).unwrap();
        }
    })
}

#[test]
fn one_client_holds_a_lock_and_each_that_waits_gets_it() {
    explore(|| {
        let (locks, guarded) = (table(), Arc::new(Guarded::default()));
        let of = |number, end| client(Arc::clone(&locks), Arc::clone(&guarded), number, end);
        run_concurrently(vec![of(1, End::Unlocks), of(2, End::Dies), of(3, End::Unlocks)]);
        assert_eq!(locks.counts(), (0, 0));
    });
}

#[test]
fn who_waits_no_longer_leaves_the_lock_to_the_next() {
    explore(|| {
        let (locks, guarded) = (table(), Arc::new(Guarded::default()));
        let of = |number, end| client(Arc::clone(&locks), Arc::clone(&guarded), number, end);
        run_concurrently(vec![of(1, End::Dies), impatient(Arc::clone(&locks), Arc::clone(&guarded), 2), of(3, End::Unlocks)]);
        assert_eq!(locks.counts(), (0, 0));
    });
}

#[test]
fn a_turn_of_the_services_own_waits_for_those_who_append_and_they_for_it() {
    explore(|| {
        let (locks, guarded) = (table(), Arc::new(Guarded::default()));
        let (theirs, ours) = ((Arc::clone(&locks), Arc::clone(&guarded)), (Arc::clone(&locks), Arc::clone(&guarded)));
        let appends = move || {
            let (locks, guarded) = theirs;
            let life = locks.hello(1, ANA, &mut Unwatched).unwrap();
            let range = LockRange::whole(FILE, LockSpace::Append, 1);
            let request = LockRequest { range, kind: LockKind::Exclusive, pid: 1 };
            if life.lock(&request, Some(1)).unwrap() == Outcome::Queued {
                while !locks.grants(1, ANA, PATIENCE).unwrap().contains(&1) {}
            }
            guarded.touch();
            life.unlock(&range).unwrap();
        };
        let truncates = move || {
            let (locks, guarded) = ours;
            for _ in 0..2 {
                let turn = locks.turn(FILE).unwrap();
                guarded.touch();
                drop(turn);
            }
        };
        run_concurrently(vec![Box::new(appends), Box::new(truncates)]);
        assert_eq!(locks.counts(), (0, 0));
    });
}
