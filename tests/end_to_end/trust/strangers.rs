//! Clients without a credential of a store, or with a wrong one: one clear error each, and a line at the server that counts them.

use super::derived;
use crate::bounded::Bounded;
use crate::common::{CommandOutput, Running, Up, credential_of, file, is_root, scratch, skipped, text, thalweg, wait_until};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use thalweg_wire::trust::Credential;

/// A store whose notes go to a file.
struct Store {
    process: Running,
    address: String,
    notes: PathBuf,
    directory: tempfile::TempDir,
}

impl Store {
    fn start(more: &[&str]) -> Store {
        let directory = scratch();
        let notes = directory.path().join("notes");
        let arguments = [&["up", "--print-address", "--servers", "1"], more, &[text(directory.path())]].concat();
        let mut command = thalweg(arguments);
        command.stderr(File::create(&notes).unwrap());
        let mut process = Running::start(command);
        let address = process.line();
        Store { process, address, notes, directory }
    }

    /// Returns the servers' lines on refused clients.
    fn refusals(&self) -> Vec<String> {
        let said = fs::read_to_string(&self.notes).unwrap();
        said.lines().filter(|line| line.contains("refused a connection")).map(str::to_owned).collect()
    }

    fn own(&self) -> PathBuf {
        self.directory.path().join("store.credential")
    }

    fn number(&self) -> u64 {
        Credential::read(&self.own()).unwrap().store
    }
}

/// Runs a client with this credential, or none.
fn client(credential: Option<&Path>, words: &[&str]) -> CommandOutput {
    let mut command = thalweg(words);
    command.env_clear().envs(credential.map(|path| (crate::common::CREDENTIAL, path)));
    command.output_in_time().expect("the command starts").into()
}

/// Checks that it failed with one line that contains all of these.
#[track_caller]
fn refused(said: CommandOutput, says: &[&str]) {
    let said = said.failed(1, says);
    assert_eq!((said.out.as_str(), said.err.lines().count()), ("", 1), "{}", said.err);
}

/// Returns another address of the same server.
fn on_loopback(address: &str, pin: &str) -> String {
    let (place, _) = address.split_once('#').unwrap_or((address, ""));
    let port = place.rsplit_once(':').expect("a port").1;
    format!("thal://127.0.0.1:{port}{pin}/")
}

#[test]
fn who_has_no_credential_of_the_store_gets_one_clear_error_and_is_counted_in_one_line() {
    let (store, here) = (Store::start(&[]), scratch());
    let root = format!("{}/", store.address);
    let other = here.path().join("other");
    Credential::new_store(store.number()).write(&other).unwrap();
    let wrong = "does not prove that it belongs to store";
    let elsewhere = here.path().join("elsewhere");
    Credential::new_store(7).write(&elsewhere).unwrap();
    let old = derived(&store.own(), "ana", Some(1), here.path().join("old"));
    refused(client(Some(&other), &["ls", &root]), &[wrong]);
    refused(client(Some(&elsewhere), &["ls", &root]), &["0000000000000007", &format!("{:016x}", store.number())]);
    refused(client(Some(&old), &["ls", &root]), &["the credential of `ana` has expired"]);
    refused(client(None, &["ls", &root]), &["no credential for store", "--credential"]);
    // Credentials of another owner, or with more rights.
    let theirs = derived(&store.own(), "bob", None, here.path().join("theirs"));
    let forged = file(here.path(), "forged", fs::read_to_string(&theirs).unwrap().replace("bob", "eve").as_bytes());
    fs::set_permissions(&forged, Permissions::from_mode(0o600)).unwrap();
    refused(client(Some(&forged), &["ls", &root]), &["`eve`", wrong]);
    wait_until("one of them is reported", || !store.refusals().is_empty());
    assert_eq!(store.refusals().len(), 1, "{:?}", store.refusals());
    // The next line, after an interval, counts those since the first.
    let mut more = 0;
    wait_until("the others are reported", || {
        refused(client(Some(&other), &["ls", &root]), &[wrong]);
        more += 1;
        store.refusals().len() > 1
    });
    let lines = store.refusals();
    assert!(lines.iter().all(|line| line.contains("127.0.0.1")), "{lines:?}");
    let counted = lines[1].split_once('(').and_then(|(_, rest)| rest.split_once(' ')).map(|(many, _)| many.parse::<u32>().unwrap());
    assert!(counted.is_some_and(|counted| counted > more / 2 && counted <= more + 5), "{counted:?} of {more} and five: {lines:?}");
    client(Some(&theirs), &["ls", &root]).done();
}

#[test]
fn a_credential_that_others_can_read_is_refused_with_the_command_that_mends_it() {
    let (store, here) = (Up::start(1), scratch());
    let root = format!("{}/", store.address);
    let copy = here.path().join("copy");
    fs::copy(store.credential(), &copy).unwrap();
    for mode in [0o644, 0o640, 0o606, 0o602] {
        fs::set_permissions(&copy, Permissions::from_mode(mode)).unwrap();
        refused(client(Some(&copy), &["ls", &root]), &[&format!("{mode:o}"), &format!("chmod 600 {}", text(&copy))]);
    }
    fs::set_permissions(&copy, Permissions::from_mode(0o600)).unwrap();
    client(Some(&copy), &["ls", &root]).done();
    // Clients of the store's user check the same.
    drop(store.process);
    let own = store.directory.path().join("store.credential");
    fs::set_permissions(&own, Permissions::from_mode(0o644)).unwrap();
    refused(client(None, &["up", "--servers", "1", text(store.directory.path())]), &["chmod 600"]);
}

#[test]
fn a_place_that_may_not_be_read_is_passed_over_for_the_others_and_named_where_there_is_none() {
    use std::os::unix::process::CommandExt;
    const SOMEBODY: u32 = 65_534;
    if !is_root() {
        return skipped("only root can become another user");
    }
    let (store, here) = (Up::start(1), scratch());
    for directory in [store.directory.path(), here.path()] {
        fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    }
    let (theirs, locked) = (here.path().join("theirs"), here.path().join("locked"));
    for state in [&theirs, &locked] {
        fs::create_dir_all(state.join("thalweg")).unwrap();
    }
    fs::set_permissions(&locked, Permissions::from_mode(0o700)).unwrap();
    let copy = credential_of(&store.credential(), SOMEBODY, here.path());
    let number = Credential::read(&copy).unwrap().store;
    fs::rename(&copy, theirs.join(format!("thalweg/{number:016x}.credential"))).unwrap();
    let description = store.directory.path().join("store.toml");
    // The operator lets others read it.
    fs::set_permissions(&description, Permissions::from_mode(0o644)).unwrap();
    let ls = |state: &Path| -> CommandOutput {
        let mut command = thalweg(["ls", "--store", text(&description), "thal:/"]);
        command.env_clear().env("XDG_STATE_HOME", state).uid(SOMEBODY).gid(SOMEBODY).current_dir("/");
        command.output_in_time().unwrap().into()
    };
    // The store's own credential is beside store.toml, but not readable for them.
    ls(&theirs).done();
    let unread = |place: &Path| format!("{} (not readable by you)", text(place));
    let there = locked.join(format!("thalweg/{number:016x}.credential"));
    refused(ls(&locked), &["no credential for store", &unread(&store.credential()), &unread(&there), "--credential"]);
}

#[test]
fn neither_end_is_talked_out_of_encryption() {
    let (clear, encrypts) = (Store::start(&[]), Store::start(&["--host", "0.0.0.0", "--beyond-loopback"]));
    let credential = encrypts.own();
    let pin = &encrypts.address[encrypts.address.find('#').expect("its fingerprint is in its address")..];
    // An address that requires encryption, at a server without it.
    let there = on_loopback(&clear.address, pin);
    refused(client(Some(&clear.own()), &["ls", &there]), &["in clear"]);
    // An address without encryption, at a server that encrypts.
    refused(client(Some(&credential), &["ls", &on_loopback(&encrypts.address, "#plain")]), &["requires encryption", "#plain"]);
    // Another key than in the address.
    let other = format!("{}{}", if pin.as_bytes()[1] == b'a' { "#b" } else { "#a" }, &pin[2..]);
    refused(client(Some(&credential), &["ls", &on_loopback(&encrypts.address, &other)]), &["key"]);
    for (store, name) in [(&clear, "that speaks in clear"), (&encrypts, "that encrypts")] {
        wait_until(&format!("the server {name} has counted that"), || !store.refusals().is_empty());
        assert_eq!(store.refusals().len(), 1, "{:?}", store.refusals());
    }
    client(Some(&credential), &["ls", &on_loopback(&encrypts.address, pin)]).done();
    client(Some(&credential), &["ls", &on_loopback(&encrypts.address, "")]).done();
    client(Some(&clear.own()), &["ls", &on_loopback(&clear.address, "#plain")]).done();
    drop((clear.process, encrypts.process));
}
