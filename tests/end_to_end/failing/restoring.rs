//! Backups of the metadata by the command: taken while the store runs, restored, refused, and checked.

use super::lost::{Store, copy_tree};
use crate::bounded::Bounded;
use crate::common::{CREDENTIAL, CommandOutput, content, file, run, text, thalweg};
use std::fs;
use std::path::{Path, PathBuf};

const KIB: usize = 1 << 10;

fn description(store: &Store) -> PathBuf {
    store.directories[0].join("store.toml")
}

fn metadata(store: &Store) -> PathBuf {
    store.directories[0].join("metadata")
}

fn verb(store: &Store, words: &[&str]) -> CommandOutput {
    run(["metadata"].iter().chain(words).copied().chain(["--store", text(&description(store))]))
}

fn backup(store: &Store, to: &Path) -> CommandOutput {
    verb(store, &["backup", "--json", text(to)])
}

fn put(store: &Store, name: &str, bytes: &[u8]) {
    let source = file(store.here.path(), "source", bytes);
    let datafiles = store.directories.len().min(2).to_string();
    let layout = ["--layout", "simple_stripe,strip_size=16Ki", "--datafiles", &datafiles];
    store.cp(&[&["--force", "--sync"], &layout[..], &[text(&source), &format!("thal:/{name}")]].concat()).done();
}

fn reads(store: &Store, name: &str) -> Vec<u8> {
    let back = store.here.path().join("back");
    store.cp(&["--force", &format!("thal:/{name}"), text(&back)]).done();
    fs::read(&back).unwrap()
}

/// Lists the files below a directory, with their contents.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push((entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    found.sort();
    found
}

#[test]
fn a_store_is_restored_to_its_backup_and_says_what_was_made_since_and_where_it_is() {
    let mut store = Store::new(3);
    let address = |store: &Store, path: &str| format!("{}{path}", store.address);
    for n in 0..12 {
        put(&store, &format!("kept-{n}"), &content(n, (n as usize + 1) * 20 * KIB));
    }
    run(["mkdir", &address(&store, "/directory")]).done();
    put(&store, "directory/grows", &content(50, 30 * KIB));
    put(&store, "goes", &content(51, 30 * KIB));
    let made = |name: &str| {
        let path = store.here.path().join(name);
        run(["credential", "create", name, "-o", text(&path), "--store", text(&description(&store))]).done();
        path
    };
    let (early, late) = (made("early"), made("late"));
    let saved = store.here.path().join("names.backup");
    let said = backup(&store, &saved).done().json();
    assert_eq!((&said["schema"], said["names"].as_u64()), (&"thalweg.metadata-backup/1".into(), Some(15)), "{said}");
    // After it: made, grown, removed, renamed, revoked.
    put(&store, "directory/new", &content(60, 90 * KIB));
    put(&store, "directory/grows", &content(61, 70 * KIB));
    run(["rm", &address(&store, "/goes")]).done();
    run(["mv", &address(&store, "/kept-0"), &address(&store, "/renamed")]).done();
    run(["credential", "revoke", "late", "--store", text(&description(&store))]).done();
    store.stop();
    // A start of which the targets are notified.
    store.start(&[]);
    put(&store, "newer", &content(62, 10 * KIB));
    let running = verb(&store, &["restore", text(&saved)]);
    running.failed(1, &["in use by a running metadata service", "stop the store first"]);
    store.stop();
    let before = files(&metadata(&store));

    let said = verb(&store, &["restore", "--json", text(&saved)]).done().json();
    assert_eq!((said["names"].as_u64(), said["removed_since"].as_u64()), (Some(15), Some(2)), "{said}");
    let created: Vec<(&str, usize, u64)> = said["created_since"]
        .as_array()
        .unwrap()
        .iter()
        .map(|made| {
            let datafiles = made["datafiles"].as_array().unwrap();
            let there = |datafile: &serde_json::Value| fs::metadata(datafile["path"].as_str().unwrap()).unwrap().len();
            assert!(datafiles.iter().all(|datafile| datafile["bytes"].as_u64() == Some(there(datafile))), "{made}");
            (made["paths"][0].as_str().unwrap(), datafiles.len(), datafiles.iter().map(there).sum())
        })
        .collect();
    assert!(created.contains(&("/directory/new", 2, 90 * KIB as u64)) && created.contains(&("/newer", 1, 10 * KIB as u64)), "{created:?}");
    // The database that was there is kept as it was.
    let kept: Vec<Vec<u8>> = files(Path::new(said["before"].as_str().unwrap())).into_iter().map(|(_, bytes)| bytes).collect();
    assert!(before.iter().filter(|(path, _)| !path.ends_with("reserve")).count() == kept.len(), "{kept:?}");

    store.start(&[]);
    for n in 1..12 {
        assert!(reads(&store, &format!("kept-{n}")) == content(n, (n as usize + 1) * 20 * KIB), "kept-{n}");
    }
    assert!(reads(&store, "kept-0") == content(0, 20 * KIB), "it has its old name");
    run(["stat", &address(&store, "/renamed")]).failed(1, &["renamed"]);
    run(["stat", &address(&store, "/directory/new")]).failed(1, &["new"]);
    // Their bytes are gone, by a copy over one and the removal of the other: an error, never zeros.
    for name in ["goes", "directory/grows"] {
        store.cp(&["--force", &format!("thal:/{name}"), text(&store.here.path().join("gone"))]).failed(1, &["lost", name]);
    }
    for (credential, accepted) in [(&early, true), (&late, false)] {
        let listed = run(["ls", "--credential", text(credential), &address(&store, "/")]);
        assert_eq!(listed.code == Some(0), accepted, "{credential:?}: {}", listed.err);
    }
    verb(&store, &["check"]).done();
    // New files get numbers of their own, and all goes on over a kill.
    put(&store, "after", &content(70, 100 * KIB));
    store.process.as_mut().unwrap().kill();
    store.start(&[]);
    assert!(reads(&store, "after") == content(70, 100 * KIB) && reads(&store, "kept-5") == content(5, 120 * KIB));
    store.stop();
    verb(&store, &["check"]).done();
    // Once more, from the same backup.
    let again = verb(&store, &["restore", text(&saved)]).done();
    assert!(again.out.contains("before-restore-2") && again.out.contains("/after") && again.out.contains("datafiles/"), "{}", again.out);
    store.start(&[]);
    assert!(reads(&store, "kept-7") == content(7, 160 * KIB));
}

#[test]
fn a_backup_that_is_damaged_or_of_another_store_is_refused_before_anything_is_touched() {
    let mut store = Store::new(1);
    put(&store, "f", &content(1, 10 * KIB));
    let here = store.here.path().to_owned();
    let (saved, damaged) = (here.join("saved"), here.join("damaged"));
    backup(&store, &saved).done();
    backup(&store, &saved).failed(1, &["exists", "another name"]);
    let other = Store::new(1);
    let foreign = here.join("foreign");
    backup(&other, &foreign).done();
    store.stop();
    let (before, whole) = (files(&store.directories[0]), fs::read(&saved).unwrap());
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    for (bytes, says) in [
        (&whole[..whole.len() - 1], "cut off"),
        (&whole[..whole.len() / 2], "cut off"),
        (&[][..], "does not begin like a backup"),
        (&flipped[..], "does not match its checksum"),
    ] {
        fs::write(&damaged, bytes).unwrap();
        verb(&store, &["restore", text(&damaged)]).failed(1, &[text(&damaged), says, "nothing was changed"]);
        verb(&store, &["check", text(&damaged)]).failed(1, &[says]);
    }
    verb(&store, &["restore", text(&foreign)]).failed(1, &["a backup of store", "give a backup of this store"]);
    verb(&store, &["restore", text(&here.join("absent"))]).failed(1, &["absent"]);
    run(["metadata", "restore", text(&saved), "--store", "thal://127.0.0.1:1"]).failed(2, &["store.toml"]);
    assert!(files(&store.directories[0]) == before, "nothing was touched");
    verb(&store, &["check", text(&saved)]).done();
    // The whole one is restored, also where the database is lost or damaged.
    let mut redb = fs::read(metadata(&store).join("metadata.redb")).unwrap();
    redb[4096..].fill(0xa5);
    fs::write(metadata(&store).join("metadata.redb"), redb).unwrap();
    let checked = verb(&store, &["check"]);
    assert!(checked.code == Some(3) && checked.out.contains("metadata.redb"), "{} {}", checked.out, checked.err);
    let said = verb(&store, &["restore", text(&saved)]).done();
    assert!(said.out.contains("could not be read") && said.out.contains("before-restore-1"), "{}", said.out);
    store.start(&[]);
    assert!(reads(&store, "f") == content(1, 10 * KIB));
    store.stop();
    fs::remove_dir_all(metadata(&store)).unwrap();
    let checked = verb(&store, &["check"]);
    assert!(checked.code == Some(3) && checked.out.contains("holds no metadata"), "{} {}", checked.out, checked.err);
    let said = verb(&store, &["restore", text(&saved)]).done();
    assert!(said.out.contains("there was no database"), "{}", said.out);
    store.start(&[]);
    assert!(reads(&store, "f") == content(1, 10 * KIB));
}

#[test]
fn only_the_stores_own_credential_reads_a_backup() {
    let store = Store::new(1);
    let ana = store.here.path().join("ana");
    run(["credential", "create", "ana", "-o", text(&ana), "--store", text(&description(&store))]).done();
    let to = store.here.path().join("b");
    for credential in [ana, store.directories[0].join("read-only.credential")] {
        for words in [&["metadata", "backup", text(&to)][..], &["metadata", "check"]] {
            let mut command = thalweg(words.iter().copied().chain(["--store", &store.address]));
            let said: CommandOutput = command.env(CREDENTIAL, &credential).output_in_time().unwrap().into();
            said.failed(1, &["with the store's own credential; this credential is"]);
        }
    }
    let left: Vec<_> = fs::read_dir(store.here.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with('b')), "{left:?}");
    // Nobody else can read the file, and it has no secret.
    backup(&store, &to).done();
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = fs::read_to_string(store.directories[0].join("store.credential")).unwrap();
    let bytes = fs::read(&to).unwrap();
    let words = secret.split(|c: char| !c.is_ascii_hexdigit()).filter(|word| word.len() >= 32);
    let has = |word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
    assert!(words.clone().count() > 0 && !words.into_iter().any(has));
}

#[test]
fn a_copy_of_the_metadata_that_is_put_back_by_hand_is_still_found_to_be_older_after_a_restore() {
    let mut store = Store::new(2);
    put(&store, "f", &content(1, 10 * KIB));
    let saved = store.here.path().join("saved");
    backup(&store, &saved).done();
    put(&store, "g", &content(2, 10 * KIB));
    store.stop();
    verb(&store, &["restore", text(&saved)]).done();
    store.start(&[]);
    put(&store, "h", &content(3, 10 * KIB));
    let copy = store.here.path().join("copy");
    copy_tree(&metadata(&store), &copy);
    put(&store, "i", &content(4, 10 * KIB));
    store.process.as_mut().unwrap().kill();
    fs::remove_dir_all(metadata(&store)).unwrap();
    copy_tree(&copy, &metadata(&store));
    run(store.up(&[])).failed(1, &["older than the datafiles", "--accept-older-metadata"]);
}
