//! Files of servers are private to their user, whatever the umask.

use crate::bounded::Bounded;
use crate::common::{CommandOutput, Running, THALWEG, file, is_root, run, scratch, text, thalweg, wait_until};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the command with this umask.
fn under(umask: &str, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh", THALWEG]).args(words);
    command
}

/// Starts a store with this umask and the user's state directory.
fn up(store: &Path, state: &Path, umask: &str) -> (Running, String) {
    let mut command = under(umask, &["up", "--print-address", "--servers", "2", text(store)]);
    command.env_remove("XDG_RUNTIME_DIR").env("XDG_STATE_HOME", state);
    let mut running = Running::start(command);
    let address = running.line();
    (running, address)
}

/// Returns everything below and including a directory that other users have permissions on, with these bits.
fn open_to_others(directory: &Path) -> Vec<(PathBuf, u32)> {
    let about = std::fs::symlink_metadata(directory).expect("it is there");
    let mut found = vec![(directory.to_owned(), about.mode() & 0o077)];
    if about.is_dir() {
        std::fs::read_dir(directory).expect("a directory of ours").flatten().for_each(|entry| found.extend(open_to_others(&entry.path())));
    }
    found.retain(|(_, others)| *others != 0);
    found
}

/// Makes servers write: files, lots, removed names, a credential and a revoked one.
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

/// Records a copy at both ends into this directory, and moves a password out of a `store.toml` there.
fn of_clients(store: &Path, address: &str, here: &Path, umask: &str) {
    let credential = store.join("store.credential");
    let (source, recording, other) = (file(here, "recorded", &[8; 300_000]), here.join("copy.thw"), here.join("store.toml"));
    let to = format!("{address}/recorded");
    let copy = ["cp", "--quiet", "--record", text(&recording), "--credential", text(&credential), text(&source), &to];
    CommandOutput::from(under(umask, &copy).output_in_time().unwrap()).done();
    let described = std::fs::read_to_string(store.join("store.toml")).unwrap();
    let with_password = described.replace("[metadata]\n", "[metadata]\ndatabase = \"postgresql://ana:beech@127.0.0.1/names\"\n");
    std::fs::write(&other, with_password).unwrap();
    std::fs::set_permissions(&other, PermissionsExt::from_mode(0o600)).unwrap();
    CommandOutput::from(under(umask, &["credential", "password", text(&other)]).output_in_time().unwrap()).done();
    assert_eq!(std::fs::read_to_string(here.join("database.password")).unwrap().trim(), "beech");
    for made in [&recording, &other, &here.join("database.password")] {
        assert_eq!(reached(open_to_others(made)), [], "umask {umask}");
    }
}

/// Drops what is below a directory that others cannot enter.
fn reached(mut found: Vec<(PathBuf, u32)>) -> Vec<(PathBuf, u32)> {
    let is_closed = |path: &Path| path.ancestors().skip(1).any(|above| above.metadata().is_ok_and(|about| about.mode() & 0o077 == 0));
    found.retain(|(path, _)| !is_closed(path));
    found
}

/// Checks what another user can open of a store whose parent directory is accessible, and the store's answer to that user.
fn another_user_gets_nothing(store: &Path, address: &str) {
    const SOMEBODY: u32 = 65_534;
    if !is_root() {
        return;
    }
    // (A temporary directory is private, and would hide the store.)
    for directory in [store, store.parent().expect("it is in one")] {
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let all = everything(store);
    assert!(all.len() > 20, "{all:?}");
    let mut find = Command::new("find");
    find.args(&all).args(["-maxdepth", "0", "(", "-readable", "-o", "-writable", ")", "-print"]);
    let opened = find.uid(SOMEBODY).gid(SOMEBODY).current_dir("/").output_in_time().unwrap();
    assert_eq!(String::from_utf8_lossy(&opened.stdout), "", "user {SOMEBODY} may open these");
    let mut ls = thalweg(["ls", &format!("{address}/")]);
    ls.env_clear().uid(SOMEBODY).gid(SOMEBODY).current_dir("/");
    CommandOutput::from(ls.output_in_time().unwrap()).failed(1, &["no credential for store"]);
    std::fs::set_permissions(store, PermissionsExt::from_mode(0o700)).unwrap();
}

/// Lists everything below a directory.
fn everything(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for path in std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        all.extend(if path.is_dir() { everything(&path) } else { Vec::new() });
        all.push(path);
    }
    all
}

#[test]
fn what_servers_make_is_closed_to_other_users_whatever_the_umask() {
    for umask in ["000", "077"] {
        let (scratch, here) = (scratch(), scratch());
        let (store, state) = (scratch.path().join("store"), scratch.path().join("state"));
        let (mut running, address) = up(&store, &state, umask);
        work(&address, text(&store.join("store.credential")), here.path());
        std::fs::set_permissions(here.path(), PermissionsExt::from_mode(0o755)).unwrap();
        of_clients(&store, &address, here.path(), umask);
        assert_eq!(open_to_others(&store), [], "umask {umask}");
        assert_eq!(open_to_others(&state.join("thalweg")), [], "umask {umask}");
        another_user_gets_nothing(&store, &address);
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
