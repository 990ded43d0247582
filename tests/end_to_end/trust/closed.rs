//! What servers make is closed to the other users of the machine, whatever the umask.

use crate::common::{Running, THALWEG, file, run, scratch, text, wait_until};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A store that is started with this umask, its credentials among those of a user with this state directory.
fn up(store: &Path, state: &Path, umask: &str) -> (Running, String) {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh", THALWEG, "up", "--print-address", "--servers", "2", text(store)]);
    command.env_remove("XDG_RUNTIME_DIR").env("XDG_STATE_HOME", state);
    let mut running = Running::start(command);
    let address = running.line();
    (running, address)
}

/// Everything below a directory and itself, with the bits of its mode that let others in.
fn open_to_others(directory: &Path) -> Vec<(PathBuf, u32)> {
    let about = std::fs::symlink_metadata(directory).expect("it is there");
    let mut found = vec![(directory.to_owned(), about.mode() & 0o077)];
    if about.is_dir() {
        std::fs::read_dir(directory).expect("a directory of ours").flatten().for_each(|entry| found.extend(open_to_others(&entry.path())));
    }
    found.retain(|(_, others)| *others != 0);
    found
}

/// Files, lots, removed names, a credential and one that is taken back: whatever makes servers write.
fn work(address: &str, credential: &str, here: &Path) {
    let run = |words: &[&str]| run(words.iter().copied().chain(["--credential", credential])).done();
    let source = file(here, "source", &[7; 300_000]);
    let at = |path: &str| format!("{address}{path}");
    run(&["mkdir", &at("/d")]);
    for name in ["/d/a", "/d/b"] {
        run(&["cp", text(&source), &at(name)]);
    }
    run(&["lot", "create", "run", "--size", "8Mi", "--for", "1h", "--store", address]);
    run(&["cp", "--lot", "run", text(&source), &at("/d/c")]);
    run(&["rm", &at("/d/b")]);
    let output = here.join("ana.credential");
    run(&["credential", "create", "ana", "-o", text(&output), "--store", address]);
    run(&["credential", "revoke", "ana", "--store", address]);
    std::fs::remove_file(output).unwrap();
}

#[test]
fn what_servers_make_is_closed_to_other_users_whatever_the_umask() {
    for umask in ["000", "077"] {
        let (scratch, here) = (scratch(), scratch());
        let (store, state) = (scratch.path().join("store"), scratch.path().join("state"));
        let (mut running, address) = up(&store, &state, umask);
        work(&address, text(&store.join("store.credential")), here.path());
        assert_eq!(open_to_others(&store), [], "umask {umask}");
        assert_eq!(open_to_others(&state.join("thalweg")), [], "umask {umask}");
        running.signal(libc::SIGTERM);
        running.wait();
        let (mut running, _) = up(&store, &state, umask);
        assert_eq!(open_to_others(&store), [], "after another start, umask {umask}");
        running.signal(libc::SIGTERM);
        running.wait();
    }
}

#[test]
fn a_store_that_an_earlier_release_left_open_is_closed_at_its_next_start() {
    let scratch = scratch();
    let (store, state) = (scratch.path().join("store"), scratch.path().join("state"));
    let (mut running, _) = up(&store, &state, "022");
    running.signal(libc::SIGTERM);
    running.wait();
    let metadata = store.join("metadata");
    let opened = [metadata.clone(), metadata.join("metadata.redb"), store.join("io0/thalweg-target.toml")];
    for path in &opened {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is there");
    }
    let (mut running, _) = up(&store, &state, "022");
    assert_eq!(opened.each_ref().map(|path| path.metadata().unwrap().mode() & 0o077), [0; 3]);
    running.signal(libc::SIGTERM);
    running.wait();
}

#[test]
fn a_credential_that_a_killed_store_left_with_its_user_is_taken_away() {
    let scratch = scratch();
    let (one, other, state) = (scratch.path().join("one"), scratch.path().join("other"), scratch.path().join("state"));
    let published = || open_credentials(&state);
    let (mut killed, _) = up(&one, &state, "022");
    assert_eq!(published().len(), 1);
    killed.kill();
    killed.wait();
    let (mut running, _) = up(&other, &state, "022");
    wait_until("the other store's is there alone", || published().len() == 1);
    running.signal(libc::SIGTERM);
    running.wait();
    assert_eq!(published(), Vec::<PathBuf>::new());
}

fn open_credentials(state: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(state.join("thalweg")).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
