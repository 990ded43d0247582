//! The embedded database against an ordered map, and against every possible state of its log.

use super::*;
use crate::database::embedded::{Embedded, Options};
use crate::database::in_memory::InMemory;
use crate::database::{Database, DatabaseError, Table, Transaction, Unwatched, Verdict, write};
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Puts (`Some`) and deletes, committed or abandoned.
    Transaction(Vec<(u8, Vec<u8>, Option<u8>)>, bool),
    Scan(u8, Vec<u8>, Option<Vec<u8>>, usize),
    Checkpoint,
    Sync,
    /// Reopened after a kill.
    Kill,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0_u8..3, 0..4)
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let change = (0_u8..3, key(), prop::option::of(any::<u8>()));
    prop_oneof![
        8 => (prop::collection::vec(change, 0..6), any::<bool>()).prop_map(|(c, keep)| Step::Transaction(c, keep)),
        4 => (0_u8..3, key(), prop::option::of(key()), 1_usize..9).prop_map(|(t, p, a, n)| Step::Scan(t, p, a, n)),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Sync),
        1 => Just(Step::Kill),
    ]
}

pub(super) fn play(database: &dyn Database, changes: &[(u8, Vec<u8>, Option<u8>)], keep: bool) {
    let ordered = database.order(&mut |t| {
        for (table, key, value) in changes {
            let table = Table::ALL[usize::from(*table)];
            match value {
                Some(value) => t.put(table, key, vec![*value; 20]),
                None => t.delete(table, key),
            }
            assert_eq!(t.get(table, key).unwrap(), value.map(|v| vec![v; 20]), "a transaction sees its own changes");
        }
        Ok(if keep { Verdict::Commit } else { Verdict::Abandon })
    });
    database.settle(&ordered.unwrap(), &mut Unwatched).unwrap();
}

/// Applies the steps to a database and to an ordered map, which is returned, and compares every read and the final state. `open` also runs
/// after a kill.
pub(super) fn follows<D: Database>(steps: &[Step], open: impl Fn() -> D, checkpoint: impl Fn(&D)) -> Result<InMemory, TestCaseError> {
    let (mut opened, model) = (Some(open()), InMemory::default());
    for step in steps {
        let database = opened.as_ref().unwrap();
        match step {
            Step::Transaction(changes, keep) => {
                play(database, changes, *keep);
                play(&model, changes, *keep);
            }
            Step::Scan(table, prefix, after, most) => {
                let table = Table::ALL[usize::from(*table)];
                let ask = |d: &dyn Database| {
                    let mut found = rows(d, table, prefix, after.as_deref(), usize::MAX);
                    found.retain(|row| !row.0.starts_with(b"database."));
                    found.truncate(*most);
                    found
                };
                prop_assert_eq!(ask(database), ask(&model));
                // A scan that stops early has returned the beginning of the full one.
                let mut all = rows(database, table, prefix, after.as_deref(), usize::MAX);
                all.truncate(*most);
                prop_assert_eq!(rows(database, table, prefix, after.as_deref(), *most), all);
            }
            Step::Checkpoint => checkpoint(database),
            Step::Sync => database.sync(&mut Unwatched).unwrap(),
            Step::Kill => {
                drop(opened.take());
                opened = Some(open());
            }
        }
    }
    prop_assert_eq!(everything(opened.as_ref().unwrap()), everything(&model));
    Ok(model)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_embedded_database_is_an_ordered_map(steps in prop::collection::vec(step(), 1..40)) {
        let directory = scratch();
        let model = follows(&steps, || Embedded::open(directory.path(), SMALL).unwrap(), |embedded| embedded.checkpoint().unwrap())?;
        prop_assert_eq!(everything(&Embedded::open(directory.path(), LARGE).unwrap()), everything(&model));
    }
}

#[test]
fn a_log_cut_at_any_byte_leaves_a_state_that_once_was() {
    let (killed, log, bytes) = killed_after_thirty();
    let mut before = 10;
    // Every byte of the header and the first records, then every fifth.
    for cut in (0..400).chain((400..bytes.len()).step_by(5)).chain([bytes.len()]) {
        let copy = copy_of(killed.path());
        std::fs::write(copy.path().join(log.file_name().unwrap()), &bytes[..cut]).unwrap();
        let database = open_copy(copy.path());
        let count = prefix_length(&database);
        assert!(count == before || count == before + 1, "{count} transactions after {before} with {cut} bytes of log");
        let found = database.recovery();
        assert_eq!(found.replayed, count - 10);
        assert_eq!(found.note().is_some(), found.dropped_bytes > 0, "what is dropped is noted");
        let kept: Vec<_> = found.aside.iter().map(|path| std::fs::read(path).unwrap()).collect();
        assert_eq!(kept, if found.dropped_bytes > 0 { vec![bytes[..cut].to_vec()] } else { vec![] }, "and kept");
        before = count;
        if cut % 97 == 0 {
            // Later transactions succeed, and survive the next kill.
            (count..count + 3).for_each(|i| history(&database, i));
            let again = copy_of(copy.path());
            assert_eq!(prefix_length(&open_copy(again.path())), count + 3);
        }
    }
    assert_eq!(before, 30, "a whole log loses nothing");
}

#[test]
fn garbage_after_the_log_is_dropped() {
    let (killed, log, bytes) = killed_after_thirty();
    for garbage in [vec![0; 4096], vec![0xff; 100], bytes.clone()] {
        let copy = copy_of(killed.path());
        let mut long = bytes.clone();
        long.extend_from_slice(&garbage);
        std::fs::write(copy.path().join(log.file_name().unwrap()), &long).unwrap();
        let database = open_copy(copy.path());
        assert_eq!(prefix_length(&database), 30);
        assert_eq!(database.recovery().dropped_bytes, garbage.len() as u64);
    }
}

#[test]
fn what_was_synced_survives_the_loss_of_everything_that_was_not() {
    let directory = scratch();
    let database = Embedded::open(directory.path(), LARGE).unwrap();
    let mut next = 0;
    for round in 1..12 {
        if round % 3 == 0 {
            database.checkpoint().unwrap();
        }
        let synced = next + 1 + round * 3 % 11;
        (next..synced).for_each(|i| history(&database, i));
        database.sync(&mut Unwatched).unwrap();
        let log = segments(directory.path()).pop().unwrap();
        let on_media = log.metadata().unwrap().len();
        next = synced + round % 4;
        (synced..next).for_each(|i| history(&database, i));
        let copy = copy_of(directory.path());
        let log = std::fs::File::options().write(true).open(copy.path().join(log.file_name().unwrap())).unwrap();
        log.set_len(on_media).unwrap();
        assert_eq!(prefix_length(&open_copy(copy.path())), synced);
    }
}

#[test]
fn a_log_of_another_database_or_a_newer_version_is_refused() {
    let (killed, log, _) = killed_after_thirty();
    let (other, other_log, other_bytes) = killed_after_thirty();
    drop(other);
    assert_eq!(log.file_name(), other_log.file_name());
    let copy = copy_of(killed.path());
    std::fs::write(copy.path().join(log.file_name().unwrap()), &other_bytes).unwrap();
    let error = Embedded::open(copy.path(), LARGE).unwrap_err().to_string();
    assert!(error.contains("belongs to the database"), "{error}");
}

#[test]
fn one_process_at_a_time() {
    let directory = scratch();
    let _first = Embedded::open(directory.path(), LARGE).unwrap();
    let error = Embedded::open(directory.path(), LARGE).unwrap_err().to_string();
    assert!(error.contains("in use by another process"), "{error}");
}

#[test]
fn transactions_of_many_threads_are_serial_and_all_there_after_a_kill() {
    let directory = scratch();
    let database = Arc::new(Embedded::open(directory.path(), Options { segment_bytes: 20_000, ..LARGE }).unwrap());
    const THREADS: u64 = 6;
    const EACH: u64 = 200;
    let number =
        |t: &dyn Transaction, key: &[u8]| t.get(Table::State, key).unwrap().map_or(0, |v| u64::from_le_bytes(v.try_into().unwrap()));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let database = &database;
            scope.spawn(move || {
                for i in 0..EACH {
                    commit(&**database, |t| {
                        let total = number(t, b"total") + 1;
                        t.put(Table::State, b"total", total.to_le_bytes().to_vec());
                        t.put(Table::Entries, format!("{thread} {i}").as_bytes(), total.to_le_bytes().to_vec());
                    });
                    if i % 50 == 0 {
                        database.sync(&mut Unwatched).unwrap();
                    }
                }
            });
        }
    });
    let copy = copy_of(directory.path());
    drop(database);
    for directory in [directory.path(), copy.path()] {
        let database = open_copy(directory);
        let mut totals: Vec<u64> = rows(&database, Table::Entries, b"", None, usize::MAX)
            .into_iter()
            .map(|(_, v)| u64::from_le_bytes(v.try_into().unwrap()))
            .collect();
        totals.sort_unstable();
        assert!(totals.into_iter().eq(1..=THREADS * EACH));
    }
}

#[test]
fn a_full_disk_is_an_error_and_nothing_else_until_there_is_room() {
    let Some(mounted) = SmallDisk::mount(4 << 20) else {
        println!("SKIPPED: mounting a small file system needs root");
        return;
    };
    let directory = mounted.path.join("database");
    let database = Embedded::open(&directory, LARGE).unwrap();
    history(&database, 0);
    let filler = mounted.path.join("filler");
    std::fs::write(&filler, vec![1; 64 << 10]).unwrap();
    let mut filled = std::fs::File::options().append(true).open(&filler).unwrap();
    while std::io::Write::write_all(&mut filled, &[1; 4096]).is_ok() {}
    let big = |t: &mut dyn Transaction| -> Result<(), DatabaseError> {
        t.put(Table::Extended, b"big", vec![7; 200_000]);
        Ok(())
    };
    let error = write(&database, &mut Unwatched, big).unwrap_err();
    assert!(error.full, "{error}");
    assert_eq!(rows(&database, Table::Extended, b"", None, 9).len(), 0);
    drop(filled);
    std::fs::remove_file(&filler).unwrap();
    write(&database, &mut Unwatched, big).unwrap();
    history(&database, 1);
    drop(database);
    let database = Embedded::open(&directory, LARGE).unwrap();
    assert_eq!(rows(&database, Table::Extended, b"", None, 9).len(), 1);
    assert_eq!(rows(&database, Table::Entries, b"", None, 9).len(), 2);
}

fn name(i: u64) -> Vec<u8> {
    format!("kept {i:04}").into_bytes()
}

/// Fills a disk.
fn fill(filler: &std::path::Path) {
    let mut file = std::fs::File::options().create(true).append(true).open(filler).unwrap();
    for size in [1 << 16, 4096, 1] {
        while std::io::Write::write_all(&mut file, &vec![1; size]).is_ok() {}
    }
}

#[test]
fn a_database_on_a_full_disk_opens_for_reading_and_removing_and_goes_on_when_there_is_room() {
    let Some(mounted) = SmallDisk::mount(6 << 20) else {
        println!("SKIPPED: mounting a small file system needs root");
        return;
    };
    let (directory, filler) = (mounted.path.join("database"), mounted.path.join("filler"));
    let database = Embedded::open(&directory, LARGE).unwrap();
    assert_eq!(database.full_disk(), None);
    // More than the reserve can hold in the database's file.
    for i in 0..100 {
        commit(&database, |t| t.put(Table::Entries, &name(i), vec![b'x'; 10_000]));
    }
    drop(database);
    let before = std::fs::read_dir(&directory).unwrap().count();
    let mut left = 100;
    for round in 0..3 {
        fill(&filler);
        let database = Embedded::open(&directory, LARGE).unwrap_or_else(|e| panic!("{round}: {e}"));
        let says = database.full_disk().expect("it says so");
        assert!(says.contains("is full: until there is room, files can only be read and removed"), "{says}");
        assert_eq!(rows(&database, Table::Entries, b"kept", None, 200).len(), left);
        let refused = write(&database, &mut Unwatched, |t| -> Result<(), DatabaseError> {
            t.put(Table::Entries, b"new", vec![1]);
            Ok(())
        });
        let refused = refused.unwrap_err();
        assert!(refused.full && refused.to_string().contains("can only be read and removed"), "{refused}");
        for _ in 0..20 {
            left -= 1;
            commit(&database, |t| t.delete(Table::Entries, &name(left as u64)));
        }
        drop(database);
    }
    let database = Embedded::open(&directory, LARGE).unwrap();
    assert_eq!(rows(&database, Table::Entries, b"kept", None, 200).len(), left);
    std::fs::remove_file(&filler).unwrap();
    commit(&database, |t| t.put(Table::Entries, b"new", vec![1]));
    assert_eq!(database.full_disk(), None);
    database.checkpoint().unwrap();
    drop(database);
    assert!(std::fs::read_dir(&directory).unwrap().count() <= before, "the log has gone into the file");
    let database = Embedded::open(&directory, LARGE).unwrap();
    assert_eq!(rows(&database, Table::Entries, b"", None, 200).len(), left + 1);
    drop(database);

    // The state of an earlier release.
    std::fs::remove_file(directory.join("reserve")).unwrap();
    fill(&filler);
    let error = Embedded::open(&directory, LARGE).unwrap_err();
    assert!(error.full && error.to_string().contains("the disk is full") && error.to_string().contains("free 1 MiB"), "{error}");
}

#[test]
fn starting_on_a_full_disk_uses_nothing_up_however_often() {
    // A small log, and one too large for the reserve to hold in the database's file.
    for kept in [1, 100] {
        let Some(mounted) = SmallDisk::mount(6 << 20) else {
            println!("SKIPPED: mounting a small file system needs root");
            return;
        };
        let (directory, filler) = (mounted.path.join("database"), mounted.path.join("filler"));
        let database = Embedded::open(&directory, LARGE).unwrap();
        for i in 0..kept {
            commit(&database, |t| t.put(Table::Entries, &name(i), vec![b'x'; 10_000]));
        }
        drop(database);
        let reserve = || std::fs::metadata(directory.join("reserve")).unwrap().len();
        let mut left = Vec::new();
        for start in 0..60_u64 {
            fill(&filler);
            let database = Embedded::open(&directory, LARGE).unwrap_or_else(|e| panic!("start {start} of {kept}: {e}"));
            fill(&filler);
            // A start records that it began, as the service's does.
            commit(&database, |t| t.put(Table::State, b"starts", vec![start as u8; 5000]));
            assert_eq!(rows(&database, Table::Entries, b"kept", None, 200).len() as u64, kept);
            if start % 2 == 1 {
                fill(&filler);
                database.close().unwrap();
            }
            drop(database);
            left.push(reserve());
        }
        assert!(left[0] >= 400 << 10, "{left:?}");
        assert_eq!(left[59], left[2], "{left:?}");
        // Makes room for the removals.
        let database = Embedded::open(&directory, LARGE).unwrap();
        (0..kept).for_each(|i| commit(&database, |t| t.delete(Table::Entries, &name(i))));
        std::fs::remove_file(&filler).unwrap();
        drop(database);
        let database = Embedded::open(&directory, LARGE).unwrap();
        assert_eq!(rows(&database, Table::State, b"starts", None, 1), [(b"starts".to_vec(), vec![59; 5000])]);
        assert!(rows(&database, Table::Entries, b"kept", None, 200).is_empty());
        assert_eq!(database.full_disk(), None);
    }
}

#[test]
fn a_disk_that_fills_while_the_database_is_open_leaves_room_for_removing() {
    let Some(mounted) = SmallDisk::mount(6 << 20) else {
        println!("SKIPPED: mounting a small file system needs root");
        return;
    };
    let database = Embedded::open(&mounted.path.join("database"), LARGE).unwrap();
    (0..50).for_each(|i| history(&database, i));
    fill(&mounted.path.join("filler"));
    // The log's last block may have room for some.
    for (i, row) in rows(&database, Table::Entries, b"name", None, 50).into_iter().enumerate() {
        let removed = write(&database, &mut Unwatched, |t| -> Result<(), DatabaseError> {
            t.delete(Table::Entries, &row.0);
            t.put(Table::State, b"count", vec![0; 2000]);
            Ok(())
        });
        removed.unwrap_or_else(|e| panic!("{i}: {e}"));
    }
    assert!(rows(&database, Table::Entries, b"name", None, 50).is_empty());
}
