//! Credentials that expire or are revoked while in use.

use super::derived;
use crate::bounded::BoundedChild;
use crate::common::{CommandOutput, Servers, Up, content, run, scratch, stored_bytes, text, thalweg, wait_until};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn a_copy_whose_credential_expires_ends_with_one_clear_error_and_what_it_made_is_not_taken_for_whole() {
    let (store, here) = (Up::start(2), scratch());
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let credential = derived(&store.credential(), "ana", Some(now_s + 3), here.path().join("ana"));
    let mut command = thalweg(["cp", "--quiet", "--credential", text(&credential), "-", &store.path("/f")]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let writer = writes_slowly(child.stdin.take().unwrap());
    wait_until("it writes", || stored_bytes(store.directory.path()) > 0);
    let said: CommandOutput = child.output_in_time().unwrap().into();
    crate::bounded::joined(writer);
    let said = said.failed(1, &["the credential of `ana`", "has expired"]);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    // No file has the requested name: only a partial copy exists, as after a killed client.
    let listed = run(["ls", &store.path("/")]).done().out;
    assert!(["", "f.partial\n"].contains(&listed.as_str()), "{listed}");
    let said = run(["ls", "--credential", text(&credential), &store.path("/")]);
    said.failed(1, &["the credential of `ana` has expired"]);
    run(["cp", "--quiet", text(&store.credential()), &store.path("/f")]).done();
}

/// Uses a process per server, so that a revocation has to reach them.
#[test]
fn a_credential_that_is_revoked_is_refused_at_once_by_every_server_on_open_connections_and_after_a_start() {
    let mut servers = Servers::start(2);
    let (store, here) = (servers.directory().join("store.toml"), scratch());
    let (store, credential) = (text(&store), here.path().join("ana.credential"));
    let made = run(["credential", "create", "ana", "--output", text(&credential), "--store", store]).done();
    assert_eq!(made.out.trim(), text(&credential));
    let again = run(["credential", "create", "ana", "--output", text(&credential), "--store", store]);
    again.failed(1, &["exists already"]);
    let mut command = thalweg(["cp", "--quiet", "--credential", text(&credential), "--store", store, "-", "thal:/f"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let writer = writes_slowly(child.stdin.take().unwrap());
    wait_until("it writes", || stored_bytes(servers.directory()) > 0);
    run(["credential", "revoke", "ana", "--store", store]).done();
    let said: CommandOutput = child.output_in_time().unwrap().into();
    crate::bounded::joined(writer);
    // The server's error is lost if bytes of the copy were in flight when it closed the connection.
    let refused = ["the credential of `ana` was revoked", "connection lost while a request was sent"];
    assert!(said.code == Some(1) && refused.iter().any(|words| said.err.contains(words)), "{}", said.err);
    let listed = run(["ls", "--credential", text(&credential), "--store", store, "thal:/"]);
    listed.failed(1, &["the credential of `ana` was revoked"]);
    let listed = run(["credential", "ls", "--json", "--store", store]).done().json();
    assert!(listed["credentials"][0]["owner"] == "ana" && listed["credentials"][0]["revoked"].is_string(), "{listed}");
    run(["credential", "revoke", "bob", "--store", store]).failed(1, &["no credential of `bob`"]);
    // Each server by itself, also after a start without the metadata service.
    for name in ["metadata", "io0", "io1"] {
        servers.kill(name);
    }
    servers.serve("io0");
    let options =
        thalweg_wire::Connect { credentials: thalweg_wire::trust::Credentials::file(&credential), ..thalweg_wire::Connect::default() };
    let config = thalweg_store::config::StoreConfig::read(&servers.directory().join("store.toml")).unwrap();
    let error = thalweg_wire::Connection::connect(&config.servers[0].address, &options).err().unwrap();
    assert!(error.message().contains("was revoked"), "{error}");
}

/// Writes a little at a time until the reader is gone.
fn writes_slowly(mut pipe: impl Write + Send + 'static) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let piece = content(1, 64 << 10);
        while pipe.write_all(&piece).is_ok() {
            // Slows the writer.
            std::thread::sleep(Duration::from_millis(5));
        }
    })
}
