//! Metadata that is older than what its targets witnessed, and targets that witnessed what never existed: a start reports it, and continues
//! once the operator accepts it.

use super::lost::{Store, copy_tree};
use crate::common::{CommandOutput, Servers, THALWEG, content, file, run, scratch, text, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const KIB: usize = 1 << 10;

/// Starts and expects a failure; a start that succeeds is ended, and fails the test.
fn fails_to_start(store: &Store, more: &[&str]) -> CommandOutput {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "30", THALWEG]).args(store.up(more)).env_remove("THALWEG_STORE").env("NO_COLOR", "1");
    command.output().unwrap().into()
}

fn metadata(store: &Store) -> PathBuf {
    store.directories[0].join("metadata")
}

/// Restores a copy of the metadata.
fn put_back(store: &Store, copy: &Path) {
    fs::remove_dir_all(metadata(store)).unwrap();
    copy_tree(copy, &metadata(store));
}

fn reads(store: &Store, name: &str, bytes: &[u8]) {
    let back = store.here.path().join("back");
    store.cp(&["--force", &format!("thal:/{name}"), text(&back)]).done();
    assert!(fs::read(&back).unwrap() == bytes, "{name} has its bytes");
}

/// How a store ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Orderly,
    Killed,
}

#[test]
fn an_older_copy_of_the_same_start_is_refused_and_once_accepted_the_targets_go_on_from_it() {
    for end in [End::Orderly, End::Killed] {
        let mut store = Store::new(3);
        let source = file(store.here.path(), "source", &content(1, 40 * KIB));
        let copy = store.here.path().join("copy");
        store.cp(&["--sync", text(&source), "thal:/first"]).done();
        copy_tree(&metadata(&store), &copy);
        // Synced, except before an orderly end, which leaves nothing unsynced.
        let sync: &[&str] = if end == End::Killed { &["--sync"] } else { &[] };
        store.cp(&[sync, &[text(&source), "thal:/second"]].concat()).done();
        match end {
            End::Orderly => store.stop(),
            End::Killed => store.process.as_mut().unwrap().kill(),
        }
        let newest = store.here.path().join("newest");
        copy_tree(&metadata(&store), &newest);
        put_back(&store, &copy);
        for _ in 0..2 {
            let said = fails_to_start(&store, &[]);
            said.failed(1, &["was notified of change", "in start 1", "this metadata ends at change", "of it", "--accept-older-metadata"]);
        }
        // The newest copy is still accepted.
        put_back(&store, &newest);
        store.start(&[]);
        reads(&store, "second", &content(1, 40 * KIB));
        store.stop();
        put_back(&store, &copy);
        fails_to_start(&store, &[]).failed(1, &["older than the datafiles", "--accept-older-metadata"]);
        store.start(&["--accept-older-metadata"]);
        reads(&store, "first", &content(1, 40 * KIB));
        let back = store.here.path().join("none");
        store.cp(&["thal:/second", text(&back)]).failed(1, &["second"]);
        let other = file(store.here.path(), "other", &content(2, 50 * KIB));
        store.cp(&["--sync", text(&other), "thal:/third"]).done();
        store.process.as_mut().unwrap().kill();
        store.start(&[]);
        reads(&store, "first", &content(1, 40 * KIB));
        reads(&store, "third", &content(2, 50 * KIB));
        store.stop();
        // Now the formerly newest copy belongs to another history.
        put_back(&store, &newest);
        fails_to_start(&store, &[]).failed(1, &["older than the datafiles"]);
    }
}

#[test]
fn a_copy_taken_while_the_store_was_down_is_taken_when_nothing_was_done_since() {
    let mut store = Store::new(2);
    let source = file(store.here.path(), "source", &content(3, 20 * KIB));
    store.cp(&["--sync", text(&source), "thal:/f"]).done();
    store.stop();
    let copy = store.here.path().join("copy");
    copy_tree(&metadata(&store), &copy);
    put_back(&store, &copy);
    store.start(&[]);
    reads(&store, "f", &content(3, 20 * KIB));
    store.stop();
    // Started since, and only read from.
    put_back(&store, &copy);
    store.start(&[]);
    reads(&store, "f", &content(3, 20 * KIB));
    store.cp(&["--sync", text(&source), "thal:/g"]).done();
    store.process.as_mut().unwrap().kill();
    put_back(&store, &copy);
    fails_to_start(&store, &[]).failed(1, &["older than the datafiles"]);
}

#[test]
fn names_that_were_synced_without_any_bytes_are_not_forgotten_by_an_older_copy_either() {
    let mut store = Store::new(2);
    let source = file(store.here.path(), "empty", b"");
    store.cp(&["--sync", text(&source), "thal:/one"]).done();
    let copy = store.here.path().join("copy");
    copy_tree(&metadata(&store), &copy);
    store.cp(&["--sync", text(&source), "thal:/two"]).done();
    store.process.as_mut().unwrap().kill();
    put_back(&store, &copy);
    fails_to_start(&store, &[]).failed(1, &["was notified of change", "this metadata ends at change"]);
}

#[test]
fn a_target_that_was_told_of_an_epoch_that_never_was_is_put_right_by_accepting_it() {
    let mut store = Store::new(2);
    let bytes = content(4, 300 * KIB);
    let source = file(store.here.path(), "source", &bytes);
    store.cp(&["--sync", "--datafiles", "2", text(&source), "thal:/f"]).done();
    store.stop();
    // As a server of an earlier release stored a client's claim.
    let target = &store.directories[1];
    fs::write(target.join("thalweg-epoch.toml"), "epoch = 16777215\n").unwrap();
    let _ = fs::remove_file(target.join("thalweg-witness"));
    let bogus = target.join("datafiles/01/ffffff0000000001.0");
    fs::create_dir_all(bogus.parent().unwrap()).unwrap();
    fs::write(&bogus, b"bogus").unwrap();
    let aside = target.join("set-aside/ffffff0000000001.0");
    fails_to_start(&store, &[]).failed(1, &["io1", "16777215", "--accept-older-metadata"]);
    store.start(&["--accept-older-metadata"]);
    reads(&store, "f", &bytes);
    assert_eq!((fs::read(&aside).unwrap().as_slice(), bogus.exists()), (&b"bogus"[..], false));
    store.cp(&["--sync", "--datafiles", "2", text(&source), "thal:/g"]).done();
    for end in [End::Orderly, End::Killed] {
        match end {
            End::Orderly => store.stop(),
            End::Killed => store.process.as_mut().unwrap().kill(),
        }
        store.start(&[]);
        reads(&store, "f", &bytes);
        reads(&store, "g", &bytes);
    }
}

#[test]
fn a_server_that_comes_after_older_metadata_refuses_its_clients_until_that_is_accepted() {
    let mut servers = Servers::start(2);
    let store = text(&servers.store).to_owned();
    let here = scratch();
    let source = file(here.path(), "source", &content(5, 200 * KIB));
    let cp = |to: &str| run(["cp", "--quiet", "--force", "--sync", "--store", &store, "--datafiles", "2", text(&source), to]);
    cp("thal:/f").done();
    let (metadata, older) = (servers.directory().join("metadata"), servers.directory().join("older"));
    copy_tree(&metadata, &older);
    cp("thal:/g").done();
    for name in ["metadata", "io0", "io1"] {
        servers.kill(name);
    }
    fs::remove_dir_all(&metadata).unwrap();
    fs::rename(&older, &metadata).unwrap();
    // It starts first: no server can report that it is old.
    servers.serve("metadata");
    servers.serve("io0");
    servers.serve("io1");
    wait_until("the servers have asked the service", || cp("thal:/h").code == Some(1));
    cp("thal:/h").failed(1, &["was notified of change", "this metadata ends at change", "--accept-older-metadata"]);
    let mut command = Command::new(THALWEG);
    command.args(["serve", "--store", &store, "--name", "metadata", "--accept-older-metadata"]);
    servers.process("metadata").signal(libc::SIGTERM);
    servers.process("metadata").wait();
    let mut accepting = crate::common::Running::start(command);
    assert!(!accepting.line().is_empty(), "it starts");
    cp("thal:/h").done();
    cp("thal:/f").done();
}
