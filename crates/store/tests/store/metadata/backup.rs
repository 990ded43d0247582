//! Backups of a store while eight clients make names, restored, in redb and in PostgreSQL, and from one to the other.

use super::in_postgresql::options;
use crate::postgresql::Server;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thalweg_client::metadata::MetadataClient;
use thalweg_store::backup::{self, Source};
use thalweg_store::config::StoreConfig;
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::metadata::{Existing, FilePath, LayoutChoice, Owner};
use thalweg_wire::trust::Credentials;
use thalweg_wire::{Connect, ErrorKind};

const OWNER: Owner = Owner { mode: 0o644, uid: 1, gid: 2 };
const CLIENTS: usize = 8;

fn own(store: &RunningStore) -> Connect {
    Connect { node: "n0".into(), credentials: Credentials::given(store.credential().clone()), ..Connect::default() }
}

fn connect(store: &RunningStore) -> MetadataClient {
    MetadataClient::connect(&mut Tracer::off(), &store.address().service().unwrap(), &own(store)).unwrap()
}

fn names_in(names: &MetadataClient, path: &str) -> Vec<String> {
    let entries = names.entries(&mut Tracer::off(), &FilePath::at(path), true).unwrap();
    entries.iter().map(|entry| String::from_utf8(entry.name.to_vec()).unwrap()).collect()
}

/// Eight clients make numbered names, each in its directory, while a backup is taken. Returns how many each had made before and after it.
fn backed_up(store: &RunningStore, file: &Path, least: u64) -> Vec<(u64, u64)> {
    let (stop, made) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; CLIENTS]);
    let counts = || -> Vec<u64> { made.iter().map(|made| made.load(Ordering::SeqCst)).collect() };
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        for (client, made) in made.iter().enumerate() {
            let (names, stop) = (connect(store), &stop);
            scope.spawn(move || {
                let (off, choice) = (&mut Tracer::off(), LayoutChoice::default());
                names.make_directory(off, &FilePath::at(format!("/{client}")), OWNER, true).unwrap();
                let before = names_in(&names, &format!("/{client}")).len() as u64;
                made.store(before, Ordering::SeqCst);
                for n in before.. {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    names.make_file(off, &FilePath::at(format!("/{client}/{n:06}")), OWNER, Existing::Refuse, &choice).unwrap();
                    made.store(n + 1, Ordering::SeqCst);
                }
            });
        }
        let begun = std::time::Instant::now();
        while counts().iter().any(|made| *made < least) {
            assert!(begun.elapsed().as_secs() < 120, "names are not made");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let before = counts();
        backup::take(&store.address().service().unwrap(), &own(store), file, 1, &|_| ()).unwrap();
        let after = counts();
        let until = |at: u64| counts().iter().all(|made| *made > at);
        while !until(*after.iter().max().unwrap()) {
            assert!(begun.elapsed().as_secs() < 240, "names are not made");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        stop.store(true, Ordering::SeqCst);
        // A name may be in the backup before its answer is counted.
        seen = before.into_iter().zip(after).map(|(before, after)| (before, after + 1)).collect();
    });
    seen
}

/// Checks that each directory has names without gaps, as many as at one moment of the backup; returns how many in all.
fn is_one_moment(store: &RunningStore, seen: &[(u64, u64)]) -> u64 {
    let names = connect(store);
    let mut all = 0;
    for (client, (before, after)) in seen.iter().enumerate() {
        let found = names_in(&names, &format!("/{client}"));
        assert!((*before..=*after).contains(&(found.len() as u64)), "{client}: {} of {before} to {after}", found.len());
        assert!((0..).zip(&found).all(|(n, name): (u64, _)| *name == format!("{n:06}")), "{client} has no gaps");
        all += found.len() as u64;
    }
    all
}

fn found_in(source: &Source<'_>) -> Vec<String> {
    let (checked, _) = backup::check(source).unwrap();
    checked.findings.into_iter().map(|finding| format!("{} {}: {}", finding.table, finding.key, finding.problem)).collect()
}

fn restores(directory: &Path, begin: &dyn Fn() -> RunningStore) {
    let file = directory.join("backup");
    let store = begin();
    let seen = backed_up(&store, &file, 40);
    let (address, options) = (store.address().service().unwrap(), own(&store));
    assert_eq!(found_in(&Source::Running(&address, &options)), Vec::<String>::new());
    let config = StoreConfig::read(&store.config().path).unwrap();
    let running = backup::restore(&config, &file).unwrap_err();
    assert!(running.to_string().contains("stop the store first"), "{running}");
    let running = backup::check(&Source::Stopped(&config)).unwrap_err();
    assert!(running.to_string().contains("stop the store first"), "{running}");
    store.stop().unwrap();
    assert_eq!(found_in(&Source::Stopped(&config)), Vec::<String>::new());
    assert_eq!(found_in(&Source::File(&file)), Vec::<String>::new());
    let done = backup::restore(&config, &file).unwrap();
    assert!(done.restored.before.is_some() && done.unreadable.is_none());
    let made = done.since.made.len() as u64;
    assert_eq!(found_in(&Source::Stopped(&config)), Vec::<String>::new());
    let store = begin();
    let all = is_one_moment(&store, &seen);
    assert!(done.restored.names == all + CLIENTS as u64 && made > 0, "{} {all} {made}", done.restored.names);
    // It goes on as a store does: names can be made, backed up and restored again.
    let again = directory.join("again");
    let seen = backed_up(&store, &again, 60);
    store.stop().unwrap();
    backup::restore(&config, &again).unwrap();
    let store = begin();
    is_one_moment(&store, &seen);
    assert_eq!(backup::restore(&config, &directory.join("none")).unwrap_err().kind(), ErrorKind::NotFound);
    store.stop().unwrap();
}

#[test]
fn a_backup_of_a_busy_store_is_one_moment_and_is_restored() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("store");
    restores(directory.path(), &|| up(&UpOptions { servers: Some(2), node: Some("n0".into()), ..UpOptions::new([&place]) }).unwrap());
}

#[test]
fn a_backup_of_a_busy_store_in_postgresql_is_one_moment_and_is_restored() {
    let Some(server) = Server::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("store");
    restores(directory.path(), &|| up(&options(&place, server.address("names"))).unwrap());
    let kept = server.sql("names", "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'thalweg_before_restore_%'");
    assert_eq!(kept, "2", "the schemas that were there");
}

#[test]
fn a_backup_from_redb_is_restored_to_postgresql_and_back() {
    let Some(server) = Server::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("store");
    let begin = |database: Option<String>| {
        let options = UpOptions { servers: Some(2), node: Some("n0".into()), database, ..UpOptions::new([&place]) };
        up(&options).unwrap()
    };
    let store = begin(None);
    let one = directory.path().join("one");
    let seen = backed_up(&store, &one, 20);
    let path = store.config().path.clone();
    store.stop().unwrap();
    let mut config = StoreConfig::read(&path).unwrap();
    config.metadata.database = Some(server.address("names"));
    assert_eq!(backup::restore(&config, &one).unwrap().restored.before, None, "there was no schema");
    let store = begin(Some(server.address("names")));
    let all = is_one_moment(&store, &seen);
    let other = directory.path().join("other");
    backup::take(&store.address().service().unwrap(), &own(&store), &other, 1, &|_| ()).unwrap();
    store.stop().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.lines().filter(|line| !line.starts_with("database")).map(|line| format!("{line}\n")).collect::<String>())
        .unwrap();
    let config = StoreConfig::read(&path).unwrap();
    assert_eq!(config.metadata.database, None);
    backup::restore(&config, &other).unwrap();
    let store = begin(None);
    assert_eq!(is_one_moment(&store, &seen), all);
    store.stop().unwrap();
}
