//! Moments, restored databases and the check, over each database, and a namespace over them.

use super::parts::Parts;
use super::{Check, Checked, Order, Restored, Restoring, each_row};
use crate::database::embedded::{self, Embedded, Options};
use crate::database::in_memory::InMemory;
use crate::database::tests::{commit, everything};
use crate::database::{Database, Rebuild, Table, Unwatched};
use crate::inode::{Entry, encode, entry_key, id_key};
use crate::lineage::WitnessReports;
use crate::lots::tests::simulated::{OWNER, map};
use crate::namespace::Namespace;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thalweg_wire::protocol::common::Witnessed;
use thalweg_wire::protocol::metadata::*;

/// So short that checkpoints and new segments are common.
const SHORT: Options = Options { segment_bytes: 4 << 10, cache_bytes: 1 << 20, drop_damaged: false };

fn open(directory: &Path) -> Arc<dyn Database> {
    Arc::new(Embedded::open(directory, SHORT).unwrap())
}

fn namespace(database: &Arc<dyn Database>, servers: Vec<(String, Witnessed)>) -> thalweg_wire::Result<Namespace> {
    Namespace::open(Arc::clone(database), map(), OWNER, &WitnessReports { servers, accepts_older: false })
}

fn make(names: &Namespace, path: &str) -> FileId {
    let made = names.for_store().create(&mut Unwatched, &FilePath::at(path), OWNER, Existing::Refuse, &LayoutChoice::default(), "n");
    made.unwrap().0.id
}

/// Reads a whole backup of the present moment.
fn parts(names: &Namespace) -> (Witnessed, Vec<Vec<u8>>) {
    let mut parts = Parts::begin(names, &Arc::default()).unwrap();
    let (of, mut all) = (parts.of, Vec::new());
    loop {
        let mut part = Vec::new();
        let more = parts.read(&mut part).unwrap();
        all.push(part);
        if !more {
            return (of, all);
        }
    }
}

fn checked(rows: &[Vec<u8>]) -> Checked {
    let (mut check, mut order) = (Check::default(), Order::default());
    for part in rows {
        each_row(part, &mut order, |table, key, value| {
            check.row(table, key, value);
            Ok(())
        })
        .unwrap();
    }
    check.finish()
}

fn restored(directory: &Path, (of, parts): &(Witnessed, Vec<Vec<u8>>), seen: &[Witnessed]) -> (Restored, Vec<String>) {
    let (moment, _) = embedded::stopped(directory).unwrap().unwrap();
    let mut restoring = Restoring::begin(embedded::rebuild(directory).unwrap(), *of);
    parts.iter().for_each(|part| restoring.part(part, &|_| false).unwrap());
    let (created, _) = restoring.compare(&*moment.view).unwrap();
    drop(moment);
    let paths = created.into_iter().flat_map(|created| created.paths).map(|path| String::from_utf8(path).unwrap()).collect();
    (restoring.finish(seen).unwrap(), paths)
}

/// Transactions of four threads keep two tables equal, and count up. A moment has both tables alike, nothing that was not settled before it
/// ended, everything that was settled before it began, and stays as it is.
/// Ends writers, also when a test fails.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn moments_are_consistent(database: &dyn Database, moments: usize) {
    let (stop, settled) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 4]);
    std::thread::scope(|scope| {
        for (writer, settled) in settled.iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || {
                for i in 1.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let key = [&[writer as u8][..], &(i % 50_u64).to_be_bytes()].concat();
                    commit(database, |t| {
                        for table in [Table::Extended, Table::Drafts] {
                            t.put(table, &key, i.to_le_bytes().to_vec());
                            t.put(table, &[writer as u8], i.to_le_bytes().to_vec());
                            t.delete(table, &[&[writer as u8][..], &((i + 7) % 50).to_be_bytes()].concat());
                        }
                    });
                    settled.store(i, Ordering::SeqCst);
                }
            });
        }
        let _stopping = Stopping(&stop);
        for _ in 0..moments {
            let before: Vec<u64> = settled.iter().map(|s| s.load(Ordering::SeqCst)).collect();
            let moment = database.moment().unwrap();
            let read = || {
                [Table::Extended, Table::Drafts].map(|table| {
                    let mut rows = Vec::new();
                    moment
                        .view
                        .scan(table, &[], None, &mut |key, value| {
                            rows.push((key.to_vec(), value.to_vec()));
                            true
                        })
                        .unwrap();
                    rows
                })
            };
            let [one, other] = read();
            assert!(one == other, "the tables are of one moment");
            for (writer, before) in before.iter().enumerate() {
                let found = one
                    .iter()
                    .find(|(key, _)| key[..] == [writer as u8])
                    .map_or(0, |(_, value)| u64::from_le_bytes(value[..].try_into().unwrap()));
                assert!(found >= *before, "what was settled before it is in it: {found} {before}");
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(read() == [one, other], "it stays as it is");
        }
    });
}

#[test]
fn a_moment_of_the_embedded_database_is_one_state_of_it_and_stays_so() {
    let directory = tempfile::tempdir().unwrap();
    moments_are_consistent(&*open(directory.path()), 40);
    moments_are_consistent(&InMemory::default(), 20);
}

#[cfg(feature = "postgresql")]
#[test]
fn a_moment_of_the_database_in_postgresql_is_one_state_of_it_and_stays_so() {
    use crate::database::postgresql::{Options, Server as Address, open};
    let Some(server) = crate::database::tests::postgresql::Server::start() else { return };
    let options =
        Options { store: 1, initialise: true, take_over: None, cache_bytes: 1 << 20, segment_bytes: 4 << 10, holder: "a test".into() };
    let database = open(Address::parse(&server.address("names")).unwrap(), &options).unwrap();
    moments_are_consistent(&*database, 15);
}

#[test]
fn what_was_made_after_a_backup_is_named_and_its_number_is_not_given_again() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let names = namespace(&database, Vec::new()).unwrap();
    let old: Vec<FileId> = (0..300).map(|i| make(&names, &format!("/old-{i:03}"))).collect();
    let backup = parts(&names);
    names.for_store().make_directory(&mut Unwatched, &FilePath::at("/d"), OWNER, false).unwrap();
    let new: Vec<FileId> = (0..3).map(|i| make(&names, &format!("/d/new-{i}"))).collect();
    database.sync(&mut Unwatched).unwrap();
    let first = Witnessed { start: names.service_start(), change: database.synced() };
    database.close().unwrap();
    drop((names, database));
    // A later start, which another target has witnessed.
    let database = open(directory.path());
    let names = namespace(&database, Vec::new()).unwrap();
    make(&names, "/later");
    database.sync(&mut Unwatched).unwrap();
    let second = Witnessed { start: names.service_start(), change: database.synced() };
    database.close().unwrap();
    drop((names, database));
    let present = everything(&*open(directory.path()));

    let (done, created) = restored(directory.path(), &backup, &[]);
    assert_eq!(created, ["/d", "/d/new-0", "/d/new-1", "/d/new-2", "/later"]);
    assert_eq!((done.names, done.inodes, done.next), (300, 301, second.start.epoch + 1));
    // The database that was there is whole.
    assert!(everything(&*open(Path::new(&done.before.unwrap()))) == present, "it is kept as it was");
    // The servers that witnessed the history that was given up are accepted, now or later; what comes after it is not.
    let database = open(directory.path());
    let names = namespace(&database, vec![("io0".into(), first), ("io1".into(), second)]).unwrap();
    assert_eq!((names.service_start().epoch, names.told().len()), (done.next, 2));
    assert!(names.accepted().is_empty());
    assert!(names.meets("io2", second).unwrap(), "a server that was away");
    let now = Witnessed { start: names.service_start(), change: 1 };
    assert!(!names.meets("io0", now).unwrap(), "one that has gone on");
    let number = make(&names, "/d-again");
    assert!(!new.contains(&number) && !old.contains(&number) && number.epoch() == done.next);
    let listed = names.list(&FilePath::at("/"), None, 1000, Detail::Names).unwrap().0;
    assert_eq!(listed.len(), 301);
    assert_eq!(checked(&parts(&names).1).findings, []);
    let third = Witnessed { start: names.service_start(), change: database.synced() + 1 };
    drop((names, database));
    let older = namespace(&open(directory.path()), vec![("io0".into(), third)]).err().unwrap().to_string();
    assert!(older.contains("older than the datafiles"), "later losses are found as before: {older}");
}

#[test]
fn a_restore_that_is_not_finished_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let names = namespace(&database, Vec::new()).unwrap();
    make(&names, "/f");
    let (of, parts) = parts(&names);
    let held = embedded::stopped(directory.path()).err().unwrap();
    assert!(held.held && held.problem.contains("stop the store first"), "{held}");
    drop((names, database));
    let files = || {
        let mut files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        files.sort();
        files
    };
    let (before, content) = (files(), everything(&*open(directory.path())));
    let mut restoring = Restoring::begin(embedded::rebuild(directory.path()).unwrap(), of);
    parts.iter().for_each(|part| restoring.part(part, &|_| false).unwrap());
    drop(restoring);
    // (Opening the database may begin or end a file of its log.)
    let left: Vec<_> = files().into_iter().filter(|name| !before.contains(name)).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("restor")), "{left:?}");
    assert!(everything(&*open(directory.path())) == content, "the database is as it was");
    // One that is begun while the store is started is refused at its end.
    let mut making: Box<dyn Rebuild> = embedded::rebuild(directory.path()).unwrap();
    making.put(Table::State, b"x", Some(b"y")).unwrap();
    let running = open(directory.path());
    assert!(making.finish(7).unwrap_err().held);
    assert!(everything(&*running) == content);
}

/// A damage: what is said of it, and the row that is set or removed.
type Damage = (&'static str, Table, Vec<u8>, Option<Vec<u8>>);

fn row(database: &dyn Database, table: Table, key: &[u8]) -> Vec<u8> {
    let mut value = None;
    database
        .read(&mut |view| {
            value = view.get(table, key)?;
            Ok(())
        })
        .unwrap();
    value.unwrap()
}

/// Returns one of each kind, for a namespace with these files and directories.
fn damages(database: &dyn Database, [file, d, e, other]: [FileId; 4]) -> Vec<Damage> {
    let row = |table: Table, key: &[u8]| row(database, table, key);
    let entry = |id: FileId, kind: FileKind| encode(&Entry { id, kind });
    let absent = FileId::new(1, 9_999);
    vec![
        ("has no inode", Table::Inodes, id_key(file).to_vec(), None),
        ("cannot be read", Table::Inodes, id_key(file).to_vec(), Some(row(Table::Inodes, &id_key(file))[..9].to_vec())),
        ("its number is of start 77", Table::Inodes, id_key(FileId::new(77, 1)).to_vec(), Some(row(Table::Inodes, &id_key(file)))),
        ("link count is 2, and what was counted is 1", Table::Entries, entry_key(other, b"g"), None),
        ("link count is 2, and what was counted is 3", Table::Entries, entry_key(other, b"h"), Some(entry(file, FileKind::File))),
        ("which has no inode", Table::Entries, entry_key(other, b"h"), Some(entry(absent, FileKind::File))),
        ("is a Directory", Table::Entries, entry_key(other, b"g"), Some(entry(file, FileKind::Directory))),
        ("is no directory", Table::Entries, entry_key(file, b"x"), Some(entry(file, FileKind::File))),
        ("a directory with 0 names", Table::Entries, entry_key(d, b"e"), None),
        ("a directory with 2 names", Table::Entries, entry_key(other, b"e"), Some(entry(e, FileKind::Directory))),
        ("extended attributes have 0 bytes, and it says 11", Table::Extended, entry_key(file, b"user.a"), None),
        ("of a file that has no inode", Table::Extended, entry_key(absent, b"user.a"), Some(encode(&b"v".to_vec()))),
        ("target 2 is missing", Table::Targets, 2_u32.to_be_bytes().to_vec(), None),
        ("it is a draft without a file", Table::Drafts, id_key(d).to_vec(), Some(encode(&(d, b"x".to_vec(), None::<i64>)))),
        ("which store this is", Table::State, b"namespace.store".to_vec(), None),
        ("numbers from being given twice", Table::State, b"namespace.epoch".to_vec(), None),
        ("8 were expected", Table::State, b"namespace.epoch".to_vec(), Some(vec![1; 3])),
        ("the root directory is missing", Table::Inodes, id_key(FileId::ROOT).to_vec(), None),
        ("cannot be read", Table::Credentials, vec![1; 16], Some(vec![1, 2, 3])),
        ("cannot be read", Table::Lots, vec![0, 0, 0, 1], Some(vec![9])),
        ("cannot be read", Table::Answers, vec![0; 10], Some(vec![1])),
        ("its key is no number", Table::Inodes, b"abc".to_vec(), Some(row(Table::Inodes, &id_key(file)))),
    ]
}

#[test]
fn each_kind_of_damage_is_found_and_a_whole_namespace_has_none() {
    let database: Arc<dyn Database> = Arc::new(InMemory::default());
    let names = namespace(&database, Vec::new()).unwrap();
    let caller = names.for_store();
    for path in ["/d", "/d/e", "/other"] {
        caller.make_directory(&mut Unwatched, &FilePath::at(path), OWNER, false).unwrap();
    }
    let file = make(&names, "/d/f");
    let set = SetExtended::Either;
    caller.set_extended(&mut Unwatched, &FilePath::at("/d/f"), b"user.a", b"value", set).unwrap();
    caller.link(&mut Unwatched, &FilePath::at("/d/f"), &FilePath::at("/other/g")).unwrap();
    let at = |path: &str| names.stat(&FilePath::at(path)).unwrap().id;
    let (d, e, other) = (at("/d"), at("/d/e"), at("/other"));
    let whole = checked(&parts(&names).1);
    assert_eq!((whole.findings.as_slice(), whole.store, whole.more), (&[][..], Some(1), 0));
    assert!(whole.rows.contains(&("entries", 5)) && whole.rows.contains(&("inodes", 5)), "{:?}", whole.rows);

    let cases = damages(&*database, [file, d, e, other]);
    let many = cases.len();
    for (expected, table, key, value) in cases {
        let change = |value: Option<Vec<u8>>| {
            commit(&*database, |t| match &value {
                Some(value) => t.put(table, &key, value.clone()),
                None => t.delete(table, &key),
            });
        };
        let mut before = None;
        database
            .read(&mut |view| {
                before = view.get(table, &key)?;
                Ok(())
            })
            .unwrap();
        change(value);
        let found = checked(&parts(&names).1).findings;
        assert!(found.iter().any(|finding| finding.problem.contains(expected)), "{expected}: {found:?}");
        change(before);
        assert_eq!(checked(&parts(&names).1).findings, [], "{expected}: as before");
    }
    assert_eq!(many, 22);
    // Two directories that are in each other.
    let directory = |id: FileId| crate::inode::decode_inode(&id_key(id), &row(&*database, Table::Inodes, &id_key(id))).unwrap();
    let mut of = directory(d);
    of.node = crate::inode::Node::Directory { parent: e, default_layout: None };
    commit(&*database, |t| {
        t.put(Table::Inodes, &id_key(d), crate::inode::encode_inode(&of));
        t.delete(Table::Entries, &entry_key(FileId::ROOT, b"d"));
        t.put(Table::Entries, &entry_key(e, b"d"), encode(&Entry { id: d, kind: FileKind::Directory }));
    });
    let found = checked(&parts(&names).1).findings;
    assert!(found.iter().any(|finding| finding.problem.contains("in itself")), "{found:?}");
}

#[test]
fn few_backups_are_read_at_a_time_and_one_that_ends_makes_room() {
    let database: Arc<dyn Database> = Arc::new(InMemory::default());
    let names = namespace(&database, Vec::new()).unwrap();
    let running = Arc::default();
    let mut begun: Vec<Parts> = (0..thalweg_wire::limits::BACKUPS).map(|_| Parts::begin(&names, &running).unwrap()).collect();
    assert_eq!(Parts::begin(&names, &running).err().unwrap().kind(), thalweg_wire::ErrorKind::Busy);
    begun.pop();
    Parts::begin(&names, &running).unwrap();
}
