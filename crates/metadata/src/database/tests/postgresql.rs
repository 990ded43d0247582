//! The database on PostgreSQL against an ordered map, and against failures, each on a real server.

#[path = "../../../../../tests/postgresql.rs"]
mod server;

use super::model::{follows, step};
use super::*;
pub(super) use crate::database::postgresql::Options as Settings;
use crate::database::postgresql::{CACHE_BYTES, Postgresql, Server as Address};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
pub(crate) use server::Server;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The store that the test databases belong to.
const STORE: u64 = 7;

pub(super) fn settings(cache_bytes: usize) -> Settings {
    // (Slightly more than one transaction of the histories, so that checkpoints run continuously.)
    let segment_bytes = 300;
    let holder = format!("a test, process {}", std::process::id());
    Settings { store: STORE, initialise: true, take_over: None, cache_bytes, segment_bytes, holder }
}

/// Opens a database of a test server.
pub(crate) fn open(server: &Server, name: &str, cache_bytes: usize) -> Result<Postgresql, DatabaseError> {
    open_with(server, name, &settings(cache_bytes))
}

pub(super) fn open_with(server: &Server, name: &str, settings: &Settings) -> Result<Postgresql, DatabaseError> {
    Postgresql::open(Address::parse(&server.address(name))?, settings)
}

pub(super) fn refusal(address: &str, settings: &Settings) -> String {
    let error = Address::parse(address).and_then(|address| Postgresql::open(address, settings)).unwrap_err().to_string();
    assert!(error.starts_with("metadata database postgresql://") && error.lines().count() == 1, "{error}");
    error
}

#[test]
fn the_database_in_postgresql_is_an_ordered_map() {
    let Some(server) = Server::start() else { return };
    let number = AtomicU64::new(0);
    let mut runner = TestRunner::new(ProptestConfig { cases: 8, ..ProptestConfig::default() });
    let steps = (prop::collection::vec(step(), 1..40), prop_oneof![Just(0), Just(CACHE_BYTES)]);
    let played = runner.run(&steps, |(steps, cache_bytes)| {
        let name = format!("case{}", number.fetch_add(1, Ordering::Relaxed));
        server.create(&name);
        let again = || open(&server, &name, cache_bytes).unwrap();
        let model = follows(&steps, again, |database| database.checkpoint().unwrap())?;
        prop_assert_eq!(everything(&open(&server, &name, cache_bytes).unwrap()), everything(&model));
        server.sql("postgres", &format!("DROP DATABASE {name} WITH (FORCE)"));
        Ok(())
    });
    played.unwrap_or_else(|failed| panic!("{failed}"));
}

#[test]
fn what_was_returned_survives_the_end_of_the_service_and_a_crash_of_postgresql() {
    let Some(mut server) = Server::start() else { return };
    let mut database = open(&server, "names", 0).unwrap();
    let mut next = 0;
    for round in 0..6 {
        (next..next + 40).for_each(|i| history(&database, i));
        next += 40;
        if round % 2 == 0 {
            server.kill();
            server.begin();
            // The server has lost what was not on stable storage, and gets it again from the service, with the first read, change or sync.
            if round == 2 {
                history(&database, next);
                next += 1;
            }
            if round == 4 {
                database.sync(&mut Unwatched).unwrap();
            }
        } else {
            drop(database);
            database = open(&server, "names", 0).unwrap();
        }
        assert_eq!(prefix_length(&database), next, "round {round}");
    }
}

#[test]
fn what_was_synced_survives_the_end_of_both_and_the_rest_is_lost_newest_first() {
    let Some(mut server) = Server::start() else { return };
    let (mut next, mut lost, mut synced_number) = (0, 0, 0);
    for round in 0..5 {
        let database = open(&server, "names", CACHE_BYTES).unwrap();
        assert!(database.synced() >= synced_number, "changes have numbers that grow");
        let found = prefix_length(&database);
        let synced = found + 10;
        (found..synced).for_each(|i| history(&database, i));
        database.sync(&mut Unwatched).unwrap();
        synced_number = database.synced();
        next = synced + 30;
        (synced..next).for_each(|i| history(&database, i));
        server.kill();
        drop(database);
        server.begin();
        let database = open(&server, "names", CACHE_BYTES).unwrap();
        let left = prefix_length(&database);
        assert!((synced..=next).contains(&left), "round {round}: {left} of {next}, {synced} synced");
        lost += next - left;
    }
    assert!(lost > 0, "a crash that loses nothing shows nothing: {next}");
}

#[test]
fn transactions_of_many_threads_are_serial_in_postgresql() {
    let Some(server) = Server::start() else { return };
    let database = open(&server, "names", CACHE_BYTES).unwrap();
    const THREADS: u64 = 6;
    const EACH: u64 = 60;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let database = &database;
            scope.spawn(move || {
                for i in 0..EACH {
                    commit(database, |t| {
                        let total = t.get(Table::State, b"total").unwrap().map_or(0, |v| u64::from_le_bytes(v.try_into().unwrap())) + 1;
                        t.put(Table::State, b"total", total.to_le_bytes().to_vec());
                        t.put(Table::Entries, format!("{thread} {i}").as_bytes(), total.to_le_bytes().to_vec());
                    });
                    // The names always match the total: a read sees a single state.
                    read::<_, DatabaseError>(database, |view| {
                        let mut names = 0;
                        let total = view.get(Table::State, b"total")?.map(|v| u64::from_le_bytes(v.try_into().unwrap()));
                        view.scan(Table::Entries, b"", None, &mut |_, _| {
                            names += 1;
                            true
                        })?;
                        assert_eq!(total, Some(names));
                        Ok(())
                    })
                    .unwrap();
                    if i % 20 == 0 {
                        database.sync(&mut Unwatched).unwrap();
                    }
                }
            });
        }
    });
    drop(database);
    let database = open(&server, "names", 0).unwrap();
    let mut totals: Vec<u64> = rows(&database, Table::Entries, b"", None, usize::MAX)
        .into_iter()
        .map(|(_, v)| u64::from_le_bytes(v.try_into().unwrap()))
        .collect();
    totals.sort_unstable();
    assert!(totals.into_iter().eq(1..=THREADS * EACH));
}

#[test]
fn a_transaction_is_one_round_trip_where_its_rows_are_known() {
    let Some(server) = Server::start() else { return };
    let database = open(&server, "names", CACHE_BYTES).unwrap();
    history(&database, 0);
    let before = database.round_trips();
    (1..50).for_each(|i| history(&database, i));
    assert_eq!(database.round_trips() - before, 49);
    rows(&database, Table::Entries, b"name", None, usize::MAX);
    let before = database.round_trips();
    assert!(!rows(&database, Table::Entries, b"name 0003", None, usize::MAX).is_empty());
    assert_eq!(database.round_trips(), before, "what was read is known");
    drop(database);
    let database = open(&server, "names", CACHE_BYTES).unwrap();
    commit(&database, |t| {
        let old = t.get(Table::Entries, b"name 0003").unwrap().unwrap();
        t.put(Table::Entries, b"name 0003", old);
    });
    assert_eq!(database.round_trips(), 2, "one for the row, one for the change");
}

#[test]
fn a_database_that_is_not_this_stores_is_refused_in_one_sentence() {
    let Some(server) = Server::start() else { return };
    let names = server.address("names");
    let empty = refusal(&names, &Settings { initialise: false, ..settings(0) });
    assert!(empty.contains("holds no metadata") && empty.contains("--initialise"), "{empty}");
    let of_schema = "SELECT count(*) FROM pg_namespace WHERE nspname = 'thalweg'";
    assert_eq!(server.sql("names", of_schema), "0", "nothing was made");

    drop(open(&server, "names", 0).unwrap());
    let other = refusal(&names, &Settings { store: 8, ..settings(0) });
    assert!(other.contains("belongs to the store 0000000000000007, not to 0000000000000008"), "{other}");
    server.sql("names", "UPDATE thalweg.owner SET version = 2");
    let newer = refusal(&names, &settings(0));
    assert!(newer.contains("names of format 2") && newer.contains("reads up to format 1"), "{newer}");
    server.sql("names", "UPDATE thalweg.owner SET version = 1");

    let active = open(&server, "names", 0).unwrap();
    let second = refusal(&names, &settings(0));
    assert!(second.contains("in use by another metadata service, a test, process"), "{second}");
    history(&active, 0);
    drop(active);

    server.sql("names", "DROP TABLE thalweg.lots");
    let damaged = refusal(&names, &settings(0));
    assert!(damaged.contains("its table `lots` is gone"), "{damaged}");
    server.sql("names", "DELETE FROM thalweg.owner");
    let nobody = refusal(&names, &settings(0));
    assert!(nobody.contains("its table `owner` is empty"), "{nobody}");

    let missing = refusal(&server.address("absent"), &settings(0));
    assert!(missing.contains("\"absent\" does not exist") && missing.contains("createdb"), "{missing}");
}

#[test]
fn a_database_that_takes_no_changes_is_refused_and_left_as_it_was() {
    let Some(mut server) = Server::start() else { return };
    let of_schema = "SELECT count(*) FROM pg_namespace WHERE nspname = 'thalweg'";
    server.sql("names", "ALTER DATABASE names SET default_transaction_read_only = on");
    let read_only = refusal(&server.address("names"), &settings(0));
    assert!(read_only.contains("is read-only"), "{read_only}");
    server.sql("postgres", "ALTER DATABASE names RESET default_transaction_read_only; CREATE ROLE guest LOGIN");
    assert_eq!(server.sql("names", of_schema), "0", "nothing was made");
    let guest = refusal(&server.address_of("guest", "names"), &settings(0));
    assert!(guest.contains("the user guest lacks rights there (CREATE on the database)"), "{guest}");
    assert_eq!(server.sql("names", of_schema), "0", "nothing was made");
    let unknown = refusal(&server.address_of("nobody", "names"), &settings(0));
    assert!(unknown.contains("check the user"), "{unknown}");

    drop(open(&server, "names", 0).unwrap());
    server.sql("names", "GRANT USAGE ON SCHEMA thalweg TO guest; GRANT SELECT ON ALL TABLES IN SCHEMA thalweg TO guest");
    let epoch = server.sql("names", "SELECT epoch FROM thalweg.owner");
    let guest = refusal(&server.address_of("guest", "names"), &settings(0));
    assert!(guest.contains("the user guest lacks rights there") && guest.contains("INSERT on inodes"), "{guest}");
    server.sql("names", "ALTER DATABASE names SET default_transaction_read_only = on");
    let read_only = refusal(&server.address("names"), &settings(0));
    assert!(read_only.contains("is read-only"), "{read_only}");
    assert_eq!(server.sql("names", "SELECT epoch FROM thalweg.owner"), epoch);
    server.kill();
    let away = refusal(&server.address("names"), &settings(0));
    assert!(away.contains("cannot be reached"), "{away}");
}

#[test]
fn a_postgresql_that_stays_away_is_an_error_that_names_it() {
    let Some(mut server) = Server::start() else { return };
    let address = Address::parse(&server.address("names")).unwrap().with_patience(Duration::from_millis(600));
    let database = Postgresql::open(address, &settings(CACHE_BYTES)).unwrap();
    history(&database, 0);
    assert_eq!(rows(&database, Table::Entries, b"name", None, 9).len(), 1);
    server.kill();
    assert_eq!(rows(&database, Table::Entries, b"name", None, 9).len(), 1, "what is known is still read, for a while");
    let begun = Instant::now();
    let change = |t: &mut dyn Transaction| -> Result<(), DatabaseError> {
        t.put(Table::Entries, b"more", vec![1]);
        Ok(())
    };
    let lost = write(&database, &mut Unwatched, change).unwrap_err().to_string();
    assert!(lost.contains("PostgreSQL was lost and is not back after") && lost.contains("postgresql://"), "{lost}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    // The outcome of that change is unknown: nothing further is answered.
    assert!(database.read(&mut |_| Ok(())).unwrap_err().to_string().contains("PostgreSQL was lost"));
    assert!(database.is_usable().is_err());
    drop(database);
    server.begin();
    let left = prefix_length_of(&open(&server, "names", 0).unwrap());
    assert!(left <= 1);
}

/// Returns the names of [`history`] that exist.
fn prefix_length_of(database: &dyn Database) -> usize {
    rows(database, Table::Entries, b"name", None, usize::MAX).len()
}

#[test]
fn a_service_that_another_one_took_over_from_changes_nothing_any_more() {
    let Some(server) = Server::start() else { return };
    let old = open(&server, "names", CACHE_BYTES).unwrap();
    history(&old, 0);
    // As when its machine was unreachable for so long that another service has taken over.
    let epoch: i64 = server.sql("names", "SELECT epoch FROM thalweg.owner").parse().unwrap();
    let taker = Settings { take_over: Some(epoch), ..settings(CACHE_BYTES) };
    let new = Postgresql::open(Address::parse(&server.address("names")).unwrap(), &taker).unwrap();
    history(&new, 1);
    new.checkpoint().unwrap();
    let refused = write(&old, &mut Unwatched, |t| -> Result<(), DatabaseError> {
        t.put(Table::Entries, b"late", vec![1]);
        Ok(())
    });
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("another metadata service has taken over"), "{refused}");
    assert!(old.read(&mut |_| Ok(())).is_err() && old.sync(&mut Unwatched).is_err());
    drop(old);
    assert_eq!(prefix_length(&new), 2);
    drop(new);
    assert_eq!(prefix_length(&open(&server, "names", CACHE_BYTES).unwrap()), 2);
}
