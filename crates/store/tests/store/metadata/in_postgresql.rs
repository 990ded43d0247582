//! A store whose names are in a PostgreSQL database: its service and the database server are killed at work.

use super::process::Served;
use crate::postgresql::Server;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use thalweg_client::metadata::MetadataClient;
use thalweg_store::config::{StoreAddress, StoreConfig};
use thalweg_store::start::{UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::protocol::metadata::{Existing, FileKind, FilePath, LayoutChoice, Owner, SetAttributes};

const OWNER: Owner = Owner { mode: 0o644, uid: 1, gid: 2 };

pub(super) fn options(directory: &Path, database: String) -> UpOptions {
    UpOptions { servers: Some(2), node: Some("n0".into()), database: Some(database), ..UpOptions::new([directory]) }
}

fn connect(address: &StoreAddress) -> MetadataClient {
    let options = Connect { node: "n0".into(), timeout: Duration::from_secs(40), ..Connect::default() };
    MetadataClient::connect(&mut Tracer::off(), &address.service().unwrap(), &options).unwrap()
}

fn make(names: &MetadataClient, path: &str) -> bool {
    let (place, choice) = (FilePath::at(path), LayoutChoice::default());
    names.make_file(&mut Tracer::off(), &place, OWNER, Existing::Refuse, &choice).is_ok()
}

fn names_in(names: &MetadataClient, path: &str) -> Vec<String> {
    let entries = names.entries(&mut Tracer::off(), &FilePath::at(path), true).unwrap();
    let shown = |entry: &thalweg_wire::protocol::metadata::DirectoryEntry| {
        assert_eq!(entry.attributes.as_ref().map(|found| found.kind), Some(FileKind::File));
        String::from_utf8(entry.name.to_vec()).unwrap()
    };
    entries.iter().map(shown).collect()
}

#[test]
fn a_new_store_keeps_its_names_in_postgresql_and_a_refused_one_leaves_nothing() {
    let Some(server) = Server::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (directory.path().join("one"), directory.path().join("other"));
    let refused = up(&options(&one, server.address("absent"))).err().unwrap().to_string();
    assert!(refused.contains("\"absent\" does not exist"), "{refused}");
    assert!(!one.exists(), "nothing was made");

    let store = up(&options(&one, server.address("names"))).unwrap();
    let names = connect(&store.address());
    names.make_directory(&mut Tracer::off(), &FilePath::at("/d"), OWNER, false).unwrap();
    assert!((0..20).all(|i| make(&names, &format!("/d/{i:02}"))));
    assert!(!make(&names, "/d/07"), "it is there");
    names.rename(&mut Tracer::off(), &FilePath::at("/d/00"), &FilePath::at("/d/99"), false, &SetAttributes::default()).unwrap();
    let refused = up(&options(&other, server.address("names"))).err().unwrap().to_string();
    assert!(refused.contains("belongs to the store") && !other.exists(), "{refused}");
    drop(names);
    store.stop().unwrap();
    assert!(!one.join("metadata").exists(), "there is no second database");

    // store.toml has the address.
    let store = up(&UpOptions { database: None, ..options(&one, String::new()) }).unwrap();
    let found = names_in(&connect(&store.address()), "/d");
    assert_eq!((found.len(), found[0].as_str(), found[19].as_str()), (20, "01", "99"));
    store.stop().unwrap();
    let moved = up(&options(&one, server.address("postgres"))).err().unwrap().to_string();
    assert!(moved.contains("holds no metadata"), "{moved}");
}

#[test]
fn no_name_that_was_answered_is_lost_when_the_service_or_postgresql_is_killed() {
    let Some(mut server) = Server::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let store = up(&options(directory.path(), server.address("names"))).unwrap();
    let path = store.config().path.clone();
    store.stop().unwrap();
    let config = StoreConfig::read(&path).unwrap();
    let address = StoreAddress::Service(config.service());
    let (mut kept, mut next) = (0, 0);
    for round in 0..4 {
        let served = Served::start(&path);
        let (stopped, made) = (AtomicBool::new(false), AtomicUsize::new(next));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let names = connect(&address);
                while !stopped.load(Ordering::SeqCst) && make(&names, &format!("/{:06}", made.load(Ordering::SeqCst))) {
                    made.fetch_add(1, Ordering::SeqCst);
                }
            });
            let reached = |count: usize| {
                let begun = std::time::Instant::now();
                while made.load(Ordering::SeqCst) < count {
                    assert!(begun.elapsed() < Duration::from_secs(60), "names are not made any more");
                    std::thread::sleep(Duration::from_millis(2));
                }
            };
            reached(next + 60);
            if round % 2 == 0 {
                // The service recovers by itself, with everything that it has answered.
                server.kill();
                server.begin();
                reached(made.load(Ordering::SeqCst) + 60);
            }
            match round % 2 {
                0 => stopped.store(true, Ordering::SeqCst),
                _ => served.signal(rustix::process::Signal::KILL),
            }
        });
        served.kill();
        let again = Served::start(&path);
        let found = names_in(&connect(&address), "/");
        kept = made.load(Ordering::SeqCst);
        assert!((kept..=kept + 1).contains(&found.len()), "round {round}: {} of {kept}", found.len());
        assert!(found.iter().enumerate().all(|(at, name)| *name == format!("{at:06}")), "round {round}");
        again.kill();
        next = found.len();
    }
    assert!(kept > 200);
}
