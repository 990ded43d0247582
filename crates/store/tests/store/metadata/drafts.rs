//! Drafts of copies at the metadata service: what is a draft, what ends it, and which clients are waited for.

use std::path::Path;
use std::time::Duration;
use thalweg_client::Names;
use thalweg_client::metadata::MetadataClient;
use thalweg_store::start::{RunningStore, UpOptions, up};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::metadata::{Existing, FilePath, LayoutChoice, Owner, SetAttributes};

const OWNER: Owner = Owner { mode: 0o644, uid: 7, gid: 8 };

fn off() -> Tracer {
    Tracer::off()
}

fn connect(store: &RunningStore) -> MetadataClient {
    MetadataClient::connect(&mut off(), &store.address().service().unwrap(), &Connect::default()).unwrap()
}

/// Starts a store on a fixed address, which it keeps across restarts.
fn store_in(directory: &Path) -> RunningStore {
    let process = std::process::id();
    let host = format!("127.{}.{}.78", 1 + (process >> 8) % 250, process % 250);
    up(&UpOptions { servers: Some(1), targets: Some(1), host, ..UpOptions::new([directory]) }).unwrap()
}

fn make(names: &MetadataClient, path: &str) {
    Names::create(names, &mut off(), path, 0o644, Existing::Draft, &LayoutChoice::default()).unwrap();
}

/// Returns each draft's path, and whether it is abandoned.
fn drafts(names: &MetadataClient) -> Vec<(String, bool)> {
    let drafts = names.drafts(&mut off()).unwrap();
    drafts.into_iter().map(|d| (String::from_utf8(d.path.unwrap()).unwrap(), d.abandoned_for_ns.is_some())).collect()
}

#[track_caller]
fn eventually(mut holds: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(std::time::Instant::now() < until);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_draft_is_one_until_it_has_another_name_and_takes_the_place_of_drafts_only() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(directory.path());
    let (names, t) = (connect(&store), &mut off());
    names.make_directory(t, &FilePath::at("/a"), OWNER, false).unwrap();
    names.make_directory(t, &FilePath::at("/a/b"), OWNER, false).unwrap();
    for name in ["renamed", "linked", "exchanged", "removed", "stays"] {
        make(&names, &format!("/a/b/{name}.partial"));
    }
    let create = |path: &str, existing| names.make_file(&mut off(), &FilePath::at(path), OWNER, existing, &LayoutChoice::default());
    create("/own.partial", Existing::Refuse).unwrap();
    assert_eq!(create("/own.partial", Existing::Draft).unwrap_err().kind(), ErrorKind::Exists);
    make(&names, "/a/b/stays.partial");
    assert_eq!(drafts(&names).len(), 5);
    let at = |name: &str| FilePath::at(format!("/a/b/{name}"));
    MetadataClient::rename(&names, t, &at("renamed.partial"), &at("renamed"), false, &SetAttributes::default()).unwrap();
    names.link(t, &at("linked.partial"), &at("linked")).unwrap();
    names.exchange(t, &at("exchanged.partial"), &FilePath::at("/own.partial")).unwrap();
    MetadataClient::unlink(&names, t, &at("removed.partial")).unwrap();
    // A parent directory may move.
    MetadataClient::rename(&names, t, &FilePath::at("/a"), &FilePath::at("/c"), false, &SetAttributes::default()).unwrap();
    assert_eq!(drafts(&names), [("/c/b/stays.partial".to_owned(), false)]);
}

#[test]
fn nobody_removes_a_draft_whose_maker_is_there_or_has_been_until_lately() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(directory.path());
    let (names, maker) = (connect(&store), connect(&store));
    make(&maker, "/f.partial");
    let id = names.drafts(&mut off()).unwrap()[0].file;
    let remove = |age| names.remove_draft(&mut off(), id, age).map_err(|e| e.kind());
    assert_eq!(remove(Duration::ZERO), Err(ErrorKind::Busy));
    drop(maker);
    eventually(|| drafts(&names) == [("/f.partial".to_owned(), true)]);
    assert_eq!(remove(Duration::from_secs(3600)), Err(ErrorKind::Busy));
    assert_eq!(remove(Duration::ZERO), Ok(()));
    assert_eq!(remove(Duration::ZERO), Err(ErrorKind::NotFound));
    assert!(drafts(&names).is_empty() && names.entries(&mut off(), &FilePath::at("/"), false).unwrap().is_empty());
}

#[test]
fn the_maker_of_a_draft_comes_back_after_a_restart_without_having_anything_to_ask() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(directory.path());
    let (maker, gone) = (connect(&store), connect(&store));
    make(&maker, "/f.partial");
    make(&gone, "/gone.partial");
    let id = maker.drafts(&mut off()).unwrap()[0].file;
    drop(gone);
    eventually(|| drafts(&maker).contains(&("/gone.partial".to_owned(), true)));
    store.stop().unwrap();
    let store = store_in(directory.path());
    let names = connect(&store);
    let expected = [("/f.partial".to_owned(), false), ("/gone.partial".to_owned(), true)];
    assert_eq!(drafts(&names), expected, "whose maker is not known to be gone is waited for");
    assert_eq!(names.remove_draft(&mut off(), id, Duration::ZERO).unwrap_err().kind(), ErrorKind::Busy);
    eventually(|| names.status(&mut off()).unwrap().open_files == 1);
    assert_eq!(drafts(&names), expected);
    drop(maker);
    eventually(|| drafts(&names).iter().all(|(_, is_abandoned)| *is_abandoned));
}

#[test]
fn a_client_that_asks_for_nothing_says_what_it_has_open_after_a_restart_and_reports_what_it_has_closed() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(directory.path());
    let (reader, names) = (connect(&store), connect(&store));
    let made = |path: &str| names.make_file(&mut off(), &FilePath::at(path), OWNER, Existing::Refuse, &LayoutChoice::default()).unwrap().id;
    let id = made("/f");
    made("/g");
    let open = reader.open_by_id(&mut off(), id, false).unwrap();
    MetadataClient::unlink(&names, &mut off(), &FilePath::at("/f")).unwrap();
    store.stop().unwrap();
    let store = store_in(directory.path());
    let names = connect(&store);
    let pending = || names.status(&mut off()).unwrap().pending_intents;
    eventually(|| names.status(&mut off()).unwrap().open_files == 1);
    assert_eq!(pending(), 1, "its bytes stay");
    open.ended(thalweg_wire::protocol::metadata::End::Read);
    eventually(|| pending() == 0);
    // If no file was open when the service stopped, the next start waits for no client.
    drop(reader);
    eventually(|| names.status(&mut off()).unwrap().open_files == 0);
    store.stop().unwrap();
    let store = store_in(directory.path());
    let names = connect(&store);
    let begun = std::time::Instant::now();
    MetadataClient::unlink(&names, &mut off(), &FilePath::at("/g")).unwrap();
    eventually(|| names.status(&mut off()).unwrap().pending_intents == 0);
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}
