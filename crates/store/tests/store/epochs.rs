//! Clients' claims about starts of the metadata service are neither believed nor stored.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::common::{ServiceStart, Witnessed};
use thalweg_wire::protocol::io::{Allocate, DatafileId, Durability, FileId, IoReply, IoRequest, TargetId};
use thalweg_wire::protocol::metadata::{Existing, FilePath, LayoutChoice, MetadataReply, MetadataRequest, Operation, Owner};
use thalweg_wire::trust::Credentials;
use thalweg_wire::{Connect, Connection, Kind};

const NEVER: u64 = 0xff_ffff;

fn connect(store: &RunningStore, name: &str, service_start: Option<ServiceStart>) -> thalweg_wire::Result<Connection> {
    let credentials = Credentials::given(store.credential().clone());
    let options = Connect { timeout: Duration::from_secs(20), service_start, credentials, ..Connect::default() };
    Connection::connect(&store.listens(name).unwrap().to_string(), &options)
}

/// Reads every file below a directory.
fn everything(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(everything(&path));
            found.insert(path, Vec::new());
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

fn write(connection: &mut Connection, datafile: DatafileId, durability: Durability) -> thalweg_wire::Result<()> {
    let request = IoRequest::Write { datafile, offset: 0, durability };
    connection.call_with::<_, IoReply>(&mut Tracer::off(), Kind::Io, &request, b"x").map(drop)
}

fn ask(connection: &mut Connection, operation: Operation) -> thalweg_wire::Result<MetadataReply> {
    connection.call(&mut Tracer::off(), Kind::Metadata, &MetadataRequest::of(operation))
}

/// Creates a file; returns its number.
fn create(store: &RunningStore, path: &str) -> FileId {
    let place = FilePath { from: FileId::ROOT, path: path.into() };
    let owner = Owner { mode: 0o600, uid: 0, gid: 0 };
    let layout = LayoutChoice::default();
    let operation = Operation::MakeFile { place, owner, existing: Existing::Refuse, layout, node: "here".into() };
    match ask(&mut connect(store, "metadata", None).unwrap(), operation).unwrap() {
        MetadataReply::Attributes(made) => made.id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_that_makes_an_epoch_up_is_refused_and_nothing_of_it_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let [io0, io1] = ["io0", "io1"].map(|name| directory.path().join(name));
    let start = || up(&UpOptions::new([&io0, &io1])).unwrap();
    let store = start();
    let file = create(&store, "real");
    let real = |file| DatafileId { file, index: 0, target: TargetId(1), lot: None };
    write(&mut connect(&store, "io1", None).unwrap(), real(file), Durability::Synced).unwrap();
    let now = connect(&store, "metadata", None).unwrap().hello().service_start;
    assert_eq!(file.epoch(), now.epoch);
    let before = everything(&io1);
    // Clients that claim a start that never happened, and one that claims none.
    let starts = [(NEVER, 1), (now.epoch + 1, 1), (NEVER, 0)].map(|(epoch, start)| Some(ServiceStart { epoch, start }));
    for service_start in starts.into_iter().chain([None]) {
        let mut connection = connect(&store, "io1", service_start).unwrap();
        for epoch in [NEVER, now.epoch + 1] {
            let bogus = real(FileId::new(epoch, 1));
            for durability in [Durability::Returned, Durability::Underway, Durability::Synced] {
                let error = write(&mut connection, bogus, durability).unwrap_err();
                assert!(error.kind() == ErrorKind::Invalid && error.message().contains("in start"), "{error}");
            }
            let requests = [
                IoRequest::Truncate { datafiles: vec![(bogus, 7)] },
                IoRequest::Allocate { datafiles: vec![(bogus, 0, 7)], how: Allocate::Extend },
                IoRequest::Allocate { datafiles: vec![(bogus, 0, 7)], how: Allocate::ZeroRange },
            ];
            for request in requests {
                connection.call::<_, IoReply>(&mut Tracer::off(), Kind::Io, &request).unwrap_err();
            }
            let many = IoRequest::WriteMany { writes: vec![(bogus, 0, 1)], durability: Durability::Returned };
            let (reply, _) = connection.call_with::<_, IoReply>(&mut Tracer::off(), Kind::Io, &many, b"x").unwrap();
            assert!(matches!(reply, IoReply::WrittenMany { each, .. } if each[0].is_err()));
            // Requests that create nothing are answered, and change nothing.
            for request in [IoRequest::Sync { datafiles: vec![bogus] }, IoRequest::Remove { datafiles: vec![bogus] }, IoRequest::SyncAll] {
                connection.call::<_, IoReply>(&mut Tracer::off(), Kind::Io, &request).unwrap();
            }
        }
    }
    assert_eq!(everything(&io1), before);
    // Nor does the service believe a client that claims to be an I/O server.
    let mut connection = connect(&store, "metadata", None).unwrap();
    for (server, start) in [("io1", ServiceStart { epoch: NEVER, start: 1 }), ("io7", now)] {
        let seen = Witnessed { start, change: u64::MAX };
        ask(&mut connection, Operation::Witness { server: server.into(), seen, revision: 0 }).unwrap_err();
    }
    drop(connection);
    store.stop().unwrap();
    let store = start();
    let mut connection = connect(&store, "io1", None).unwrap();
    let read = IoRequest::Read { datafile: real(file), offset: 0, length: 8 };
    assert_eq!(connection.call_with::<_, IoReply>(&mut Tracer::off(), Kind::Io, &read, &[]).unwrap().1, b"x");
    let next = create(&store, "next");
    assert!(next.epoch() > file.epoch());
    write(&mut connection, real(next), Durability::Synced).unwrap();
}

#[test]
fn a_server_whose_service_is_away_serves_what_it_knows_and_refuses_the_rest_in_bounded_time() {
    let directory = tempfile::tempdir().unwrap();
    let io0 = directory.path().join("io0");
    let mut options = UpOptions::new([&io0]);
    options.servers = None;
    let store = up(&options).unwrap();
    let file = create(&store, "f");
    let id = |file| DatafileId { file, index: 0, target: TargetId(0), lot: None };
    write(&mut connect(&store, "io0", None).unwrap(), id(file), Durability::Synced).unwrap();
    let config = store.config().clone();
    store.stop().unwrap();
    // Started alone, as if it were the first to return after a crash.
    let alone = thalweg_store::start::serve(&config, "io0", Default::default()).unwrap();
    let mut connection = connect(&alone, "io0", None).unwrap();
    write(&mut connection, id(file), Durability::Synced).unwrap();
    let begun = Instant::now();
    let error = write(&mut connection, id(FileId::new(file.epoch() + 1, 1)), Durability::Returned).unwrap_err();
    assert!(error.message().contains("cannot be asked"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    drop(connection);
    alone.stop().unwrap();
}

#[test]
fn a_sync_of_names_does_not_wait_for_servers_that_are_away_nor_for_one_that_never_answers() {
    let directory = tempfile::tempdir().unwrap();
    let [io0, io1] = ["io0", "io1"].map(|name| directory.path().join(name));
    let mut store = up(&UpOptions::new([&io0, &io1])).unwrap();
    let mut client = connect(&store, "metadata", None).unwrap();
    create(&store, "a");
    ask(&mut client, Operation::Sync).unwrap();
    // Claims to be io1, and takes an answer without a further request.
    let mut strange = connect(&store, "metadata", None).unwrap();
    let start = strange.hello().service_start;
    store.stop_server("io1");
    create(&store, "b");
    let operation = Operation::Witness { server: "io1".into(), seen: Witnessed { start, change: 0 }, revision: 0 };
    ask(&mut strange, operation).unwrap();
    let begun = Instant::now();
    for n in 0..20 {
        create(&store, &format!("c{n}"));
        ask(&mut client, Operation::Sync).unwrap();
    }
    // It is waited for once.
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    store.stop_server("io0");
    let begun = Instant::now();
    for n in 0..20 {
        create(&store, &format!("d{n}"));
        ask(&mut client, Operation::Sync).unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    drop((client, strange));
    store.stop().unwrap();
}
