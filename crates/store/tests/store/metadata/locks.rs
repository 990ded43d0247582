//! Locks and append turns over the wire: between clients, across their deaths and the service's restarts.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_client::locks::{Cancel, LockClient, Wait};
use thalweg_client::metadata::MetadataClient;
use thalweg_client::{DataClient, FileHandle, StoreFile};
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::locks::{LockKind, LockOperation, LockRange, LockReply, LockRequest, LockSpace};
use thalweg_wire::protocol::metadata::{Existing, FileId, FilePath, LayoutChoice, MetadataReply, MetadataRequest, Operation, Owner};
use thalweg_wire::trust::Credentials;
use thalweg_wire::{Connect, Connection, Kind};

const OWNER: Owner = Owner { mode: 0o644, uid: 7, gid: 8 };
const FILE: FileId = FileId(77);

fn off() -> Tracer {
    Tracer::off()
}

fn options(directory: &Path) -> UpOptions {
    UpOptions { servers: Some(2), ..UpOptions::new([directory]) }
}

fn patient() -> Connect {
    Connect { timeout: Duration::from_secs(20), ..Connect::default() }
}

fn locks(store: &RunningStore) -> LockClient {
    LockClient::new(&store.address().service().unwrap(), &patient())
}

fn connect(store: &RunningStore) -> MetadataClient {
    MetadataClient::connect(&mut off(), &store.address().service().unwrap(), &patient()).unwrap()
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < patience, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn record(owner: u64, kind: LockKind, start: u64, end: u64) -> LockRequest {
    LockRequest { range: LockRange { file: FILE, space: LockSpace::Record, owner, start, end }, kind, pid: 4242 }
}

fn flock(owner: u64, kind: LockKind) -> LockRequest {
    LockRequest { range: LockRange::whole(FILE, LockSpace::Flock, owner), kind, pid: 4242 }
}

fn refused(result: Result<(), thalweg_wire::Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn a_lock_keeps_others_out_until_it_is_freed() {
    use LockKind::{Exclusive, Shared};
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let (one, two) = (locks(&store), locks(&store));
    let t = &mut off();
    one.lock(t, &record(1, Exclusive, 10, 19), Wait::No).unwrap();
    assert_eq!(refused(two.lock(t, &record(1, Shared, 15, 30), Wait::No)), ErrorKind::WouldBlock, "owners of two clients are two");
    two.lock(t, &record(1, Exclusive, 20, 29), Wait::No).unwrap();
    let held = two.test(t, &record(1, Exclusive, 0, u64::MAX)).unwrap().unwrap();
    assert_eq!((held.client, held.pid, held.start, held.end, held.kind), (one.number(), 4242, 10, 19, Exclusive));
    two.lock(t, &flock(1, Exclusive), Wait::No).unwrap();
    // The middle is freed, both ends stay locked.
    one.unlock(t, &record(1, Exclusive, 12, 14).range).unwrap();
    two.lock(t, &record(1, Shared, 12, 14), Wait::No).unwrap();
    assert_eq!(refused(two.lock(t, &record(1, Shared, 11, 14), Wait::No)), ErrorKind::WouldBlock);
    one.unlock_all(t, FILE, 1).unwrap();
    two.lock(t, &record(1, Shared, 0, 100), Wait::No).unwrap();
    one.lock(t, &record(1, Shared, 0, 100), Wait::No).unwrap();
    assert_eq!(refused(one.lock(t, &record(1, Exclusive, 50, 50), Wait::No)), ErrorKind::WouldBlock, "an upgrade among sharers");
}

#[test]
fn who_waits_is_granted_when_the_holder_frees_dies_or_shares() {
    use LockKind::{Exclusive, Shared};
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let (waiter, names) = (locks(&store), connect(&store));
    let held_then = |end: &dyn Fn(LockClient)| {
        let holder = locks(&store);
        holder.lock(&mut off(), &flock(1, Exclusive), Wait::No).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| waiter.lock(&mut off(), &flock(9, Shared), Wait::Until(&Cancel::new())));
            eventually("waiting", || names.status(&mut off()).unwrap().lock_waits == 1);
            end(holder);
            waits.join().unwrap().unwrap();
        });
        waiter.unlock_all(&mut off(), FILE, 9).unwrap();
    };
    held_then(&|holder| holder.unlock(&mut off(), &flock(1, Exclusive).range).unwrap());
    held_then(&|holder| drop(holder));
    let kept = Mutex::new(None);
    held_then(&|holder| {
        holder.lock(&mut off(), &flock(1, Shared), Wait::No).unwrap();
        *kept.lock().unwrap() = Some(holder);
    });
}

#[test]
fn waiting_is_ended_on_request_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let (holder, waiter, names) = (locks(&store), locks(&store), connect(&store));
    holder.lock(&mut off(), &flock(1, LockKind::Exclusive), Wait::No).unwrap();
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| waiter.lock(&mut off(), &flock(1, LockKind::Exclusive), Wait::Until(&cancel)));
        eventually("waiting", || names.status(&mut off()).unwrap().lock_waits == 1);
        cancel.fire();
        assert_eq!(refused(waits.join().unwrap()), ErrorKind::Cancelled);
    });
    holder.unlock_all(&mut off(), FILE, 1).unwrap();
    locks(&store).lock(&mut off(), &flock(1, LockKind::Exclusive), Wait::No).unwrap();
}

#[test]
fn record_locks_that_wait_for_each_other_are_reported() {
    use LockKind::Exclusive;
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let (one, two, names) = (locks(&store), locks(&store), connect(&store));
    let cancel = Cancel::new();
    one.lock(&mut off(), &record(1, Exclusive, 0, 0), Wait::No).unwrap();
    two.lock(&mut off(), &record(1, Exclusive, 1, 1), Wait::No).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| one.lock(&mut off(), &record(1, Exclusive, 1, 1), Wait::Until(&cancel)));
        eventually("waiting", || names.status(&mut off()).unwrap().lock_waits == 1);
        let reported = two.lock(&mut off(), &record(1, Exclusive, 0, 0), Wait::Until(&Cancel::new()));
        assert_eq!(refused(reported), ErrorKind::Deadlock);
        two.unlock_all(&mut off(), FILE, 1).unwrap();
        waits.join().unwrap().unwrap();
    });
}

#[test]
fn many_who_wait_get_it_one_after_the_other() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let clients: Vec<LockClient> = (0..4).map(|_| locks(&store)).collect();
    let inside = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (owner, client) in (0_u64..).zip(clients.iter().cycle().take(16)) {
            let (inside, done) = (&inside, &done);
            scope.spawn(move || {
                for _ in 0..20 {
                    client.lock(&mut off(), &flock(owner, LockKind::Exclusive), Wait::Until(&Cancel::new())).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                    inside.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                    client.unlock(&mut off(), &flock(owner, LockKind::Exclusive).range).unwrap();
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 320);
}

#[test]
fn locks_are_claimed_again_when_the_service_is_back() {
    use LockKind::Exclusive;
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let (holder, other, third, names) = (locks(&store), locks(&store), locks(&store), connect(&store));
    holder.lock(&mut off(), &flock(1, Exclusive), Wait::No).unwrap();
    holder.lock(&mut off(), &record(1, Exclusive, 5, 9), Wait::No).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| other.lock(&mut off(), &flock(1, Exclusive), Wait::Until(&Cancel::new())));
        eventually("waiting", || names.status(&mut off()).unwrap().lock_waits == 1);
        store.stop().unwrap();
        let again = up(&options(directory.path())).unwrap();
        // Clients without locks wait until those with locks have reclaimed them.
        assert_eq!(refused(third.lock(&mut off(), &flock(1, Exclusive), Wait::No)), ErrorKind::WouldBlock);
        assert_eq!(refused(third.lock(&mut off(), &record(1, Exclusive, 9, 9), Wait::No)), ErrorKind::WouldBlock);
        holder.check(FILE).unwrap();
        // Requests that waited before the restart wait after it.
        holder.unlock_all(&mut off(), FILE, 1).unwrap();
        waits.join().unwrap().unwrap();
        drop(again);
    });
}

/// Passes connections on until it is cut.
struct Proxy {
    address: String,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn to(target: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let kept = Arc::clone(&streams);
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(to) = TcpStream::connect(&target) else { continue };
                let pairs = [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)];
                for (mut from, mut to) in pairs {
                    kept.lock().unwrap().push(from.try_clone().unwrap());
                    std::thread::spawn(move || {
                        let mut buffer = [0; 4096];
                        while let Ok(n @ 1..) = from.read(&mut buffer) {
                            if to.write_all(&buffer[..n]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Proxy { address, streams }
    }

    fn cut(&self) {
        self.streams.lock().unwrap().drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

#[test]
fn a_lock_that_another_may_have_had_meanwhile_is_lost_and_that_is_said() {
    use LockKind::Exclusive;
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let proxy = Proxy::to(store.address().service().unwrap());
    let (cut_off, other) = (LockClient::new(&proxy.address, &patient()), locks(&store));
    cut_off.lock(&mut off(), &flock(1, Exclusive), Wait::No).unwrap();
    cut_off.lock(&mut off(), &record(2, Exclusive, 0, 9), Wait::No).unwrap();
    proxy.cut();
    // The service considers it dead; another client locked the file, changed it, and left.
    other.lock(&mut off(), &flock(1, Exclusive), Wait::Until(&Cancel::new())).unwrap();
    other.unlock_all(&mut off(), FILE, 1).unwrap();
    eventually("the loss", || cut_off.check(FILE).is_err());
    assert_eq!(refused(cut_off.lock(&mut off(), &record(1, Exclusive, 50, 60), Wait::No)), ErrorKind::Restarted);
    assert_eq!(refused(cut_off.unlock(&mut off(), &record(2, Exclusive, 0, 4).range)), ErrorKind::Restarted);
    cut_off.check(FileId(78)).unwrap();
    // Closing the file clears the error.
    cut_off.unlock_all(&mut off(), FILE, 1).unwrap();
    assert_eq!(cut_off.check(FILE).unwrap_err().kind(), ErrorKind::Restarted, "another owner has not");
    cut_off.unlock_all(&mut off(), FILE, 2).unwrap();
    cut_off.lock(&mut off(), &flock(1, Exclusive), Wait::No).unwrap();
}

fn speak(connection: &mut Connection, operation: LockOperation) -> LockReply {
    let request = MetadataRequest::of(Operation::Lock(operation));
    match connection.call(&mut off(), Kind::Metadata, &request).unwrap() {
        MetadataReply::Lock(reply) => reply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_who_had_a_lock_before_a_restart_may_claim_one() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let mut connection = Connection::connect(&store.address().service().unwrap(), &patient()).unwrap();
    let request = MetadataRequest::of(Operation::Lock(LockOperation::Unlock { range: flock(1, LockKind::Shared).range }));
    let error = connection.call::<_, MetadataReply>(&mut off(), Kind::Metadata, &request).unwrap_err();
    assert!(error.to_string().contains("must say hello before it locks"), "{error}");
    assert_eq!(speak(&mut connection, LockOperation::Hello { client: 5 }), LockReply::Done);
    let claim = LockOperation::Claim { locks: vec![flock(1, LockKind::Exclusive)], last: true };
    assert_eq!(speak(&mut connection, claim), LockReply::Refused(vec![flock(1, LockKind::Exclusive).range]));
    // A repeated request is granted once; a newer connection of the same name keeps it.
    let lock = LockOperation::Lock { request: flock(1, LockKind::Exclusive), ticket: Some(1) };
    assert_eq!(speak(&mut connection, lock.clone()), LockReply::Done);
    assert_eq!(speak(&mut connection, lock), LockReply::Done);
    let mut younger = Connection::connect(&store.address().service().unwrap(), &patient()).unwrap();
    assert_eq!(speak(&mut younger, LockOperation::Hello { client: 5 }), LockReply::Done);
    drop(connection);
    let claim = LockOperation::Claim { locks: vec![flock(1, LockKind::Exclusive)], last: true };
    assert_eq!(speak(&mut younger, claim), LockReply::Refused(Vec::new()));
    assert_eq!(refused(locks(&store).lock(&mut off(), &flock(1, LockKind::Shared), Wait::No)), ErrorKind::WouldBlock);
}

fn file_of(store: &RunningStore) -> (MetadataClient, StoreFile) {
    let names = connect(store);
    let place = FilePath::at("/log");
    let opened = names
        .create(&mut off(), &place, OWNER, Existing::Refuse, &LayoutChoice::default())
        .or_else(|_| names.open(&mut off(), &place, true))
        .unwrap();
    let handle = FileHandle::from_attributes("/log", &opened.attributes).unwrap();
    let data = Arc::new(DataClient::new((*names.map()).clone(), &patient()));
    (names, StoreFile::new(data, handle))
}

/// Appends a line with its writer and its number, of a length that depends on them.
fn append(locks: &LockClient, file: &StoreFile, writer: u64, number: u64) {
    let line = format!("{writer}:{number}{}\n", ".".repeat((writer * 37 + number * 11) as usize % 500));
    let appended = locks.append(&mut off(), file.handle().id(), |tracer| {
        let end = file.size_traced(tracer)?;
        file.write_traced(tracer, line.as_bytes(), end)
    });
    appended.unwrap();
}

#[test]
fn appends_of_many_clients_never_overlap_and_leave_no_holes() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let (names, file) = file_of(&store);
    let id = file.handle().id();
    // A client that dies in the middle of its turn.
    let mut dies = Connection::connect(&store.address().service().unwrap(), &patient()).unwrap();
    let turn = LockRequest { range: LockRange::whole(id, LockSpace::Append, 1), kind: LockKind::Exclusive, pid: 1 };
    assert_eq!(speak(&mut dies, LockOperation::Hello { client: 99 }), LockReply::Done);
    assert_eq!(speak(&mut dies, LockOperation::Lock { request: turn, ticket: None }), LockReply::Done);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let (locks, (_names, file)) = (locks(store), file_of(store));
                (0..25).for_each(|number| append(&locks, &file, writer, number));
            });
        }
        file.write_at(b"dead:", 0).unwrap();
        drop(dies);
    });
    let size = file.size().unwrap() as usize;
    let mut bytes = vec![0; size];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), size);
    let text = String::from_utf8(bytes).unwrap();
    let text = text.strip_prefix("dead:").expect("what the dead one wrote is not overwritten");
    let mut next = [0_u64; 4];
    for line in text.lines() {
        let (writer, number) = line.trim_end_matches('.').split_once(':').expect("a whole line");
        let writer: usize = writer.parse().unwrap();
        assert_eq!(number.parse::<u64>().unwrap(), next[writer], "each writer's lines in order: {line}");
        next[writer] += 1;
    }
    assert_eq!(next, [25; 4]);
    drop(names);
}

#[test]
fn a_truncation_waits_for_the_turn_of_an_appender() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let (names, file) = file_of(&store);
    let locks = locks(&store);
    file.write_at(b"0123456789", 0).unwrap();
    std::thread::scope(|scope| {
        let truncating = locks
            .append(&mut off(), file.handle().id(), |tracer| {
                let truncating = scope.spawn(|| names.truncate(&mut off(), &FilePath::at("/log"), 3).unwrap());
                eventually("waiting", || names.status(&mut off()).unwrap().lock_waits == 1);
                let end = file.size_traced(tracer)?;
                assert_eq!(end, 10);
                // Regardless of the duration, the end does not move.
                for n in 0..20 {
                    file.write_traced(tracer, b"x", end + n)?;
                    assert_eq!(file.size_traced(tracer)?, end + n + 1);
                }
                assert!(!truncating.is_finished());
                Ok(truncating)
            })
            .unwrap();
        truncating.join().unwrap();
    });
    assert_eq!(file.size().unwrap(), 3);
    append(&locks, &file, 1, 1);
    assert!(file.size().unwrap() > 3);
}

#[test]
fn a_turn_is_given_back_by_an_error_and_by_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let (one, two) = (locks(&store), locks(&store));
    let fails = one.append(&mut off(), FILE, |_| Err::<(), _>(thalweg_wire::Error::new(ErrorKind::NoSpace, "full")));
    assert_eq!(fails.unwrap_err().kind(), ErrorKind::NoSpace);
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        one.append(&mut off(), FILE, |_| -> Result<(), _> { panic!("on purpose") })
    }));
    assert!(panics.is_err());
    two.append(&mut off(), FILE, |_| Ok(())).unwrap();
}

/// Returns a read-only client.
fn reading(store: &RunningStore) -> LockClient {
    let credentials = Credentials::given(store.credential().read_only().unwrap());
    LockClient::new(&store.address().service().unwrap(), &Connect { credentials, ..patient() })
}

#[test]
fn locks_of_a_reading_client_hold_up_its_own_programs_and_no_writer() {
    use LockKind::{Exclusive, Shared};
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let (reader, writer, t) = (reading(&store), locks(&store), &mut off());
    for request in [record(1, Shared, 0, 9), flock(1, Exclusive)] {
        reader.lock(t, &request, Wait::No).unwrap();
    }
    assert_eq!(refused(reader.lock(t, &flock(2, Shared), Wait::No)), ErrorKind::WouldBlock, "another program of its own");
    for request in [record(1, Exclusive, 0, u64::MAX), flock(1, Exclusive)] {
        writer.lock(t, &request, Wait::No).unwrap();
    }
    // A writer's lock conflicts with a reader's: the reader sees it, is refused, or waits.
    reader.unlock_all(t, FILE, 1).unwrap();
    assert_eq!(refused(reader.lock(t, &record(3, Shared, 5, 5), Wait::No)), ErrorKind::WouldBlock);
    assert_eq!(reader.test(t, &record(3, Shared, 5, 5)).unwrap().unwrap().client, writer.number());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| reader.lock(&mut off(), &record(3, Shared, 5, 5), Wait::Until(&Cancel::new())));
        writer.unlock_all(t, FILE, 1).unwrap();
        waits.join().unwrap().unwrap();
    });
    writer.lock(t, &record(1, Exclusive, 0, u64::MAX), Wait::No).unwrap();
    let status = connect(&store).status(t).unwrap();
    assert_eq!((status.locks, status.lock_waits), (1, 0), "only the writer's stands at the service");
    let turn = reader.append(t, FILE, |_| Ok(())).unwrap_err();
    assert!(turn.kind() == ErrorKind::Access && turn.message().contains("for reading only"), "{turn}");
}

#[test]
fn a_turn_to_append_is_waited_for_no_longer_than_the_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path())).unwrap();
    let (stalled, t) = (locks(&store), &mut off());
    let impatient = Connect { timeout: Duration::from_millis(600), ..patient() };
    let waits = LockClient::new(&store.address().service().unwrap(), &impatient);
    stalled
        .append(t, FILE, |t| {
            let refused = waits.append(t, FILE, |_| -> Result<(), thalweg_wire::Error> { panic!("it is not its turn") }).unwrap_err();
            assert!(refused.kind() == ErrorKind::TimedOut && refused.message().contains("within 0.6 s"), "{refused}");
            Ok(())
        })
        .unwrap();
    // It no longer waits: the next turn is free immediately.
    waits.append(t, FILE, |_| Ok(())).unwrap();
}
