//! Limits on what strangers with access to a port can do to a store: they cannot stop it.

use crate::bounded::{Bounded, rest};
use crate::common::{CREDENTIAL, CommandOutput, Running, Servers, content, run, scratch, skipped, text, thalweg, wait_until};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// Raises this process's descriptor limit; returns false without permission.
fn descriptors(many: u64) -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let enough = before.maximum.is_none_or(|most| most >= many);
    if enough {
        let current = before.current.map(|now| now.max(many));
        setrlimit(Resource::Nofile, Rlimit { current, maximum: before.maximum }).unwrap();
    } else {
        skipped("this process may not have enough descriptors");
    }
    enough
}

/// Returns the listening addresses of the servers of a store.toml.
fn addresses(store: &Path) -> Vec<String> {
    let description = fs::read_to_string(store).unwrap();
    let address = |line: &str| line.trim().strip_prefix("address = ").map(|address| address.trim_matches('"').to_owned());
    description.lines().filter_map(address).collect()
}

/// Opens connections to each of these that send these bytes and nothing more.
fn strangers(addresses: &[String], each: usize, say: &[u8]) -> Vec<TcpStream> {
    let mut all = Vec::new();
    for address in addresses {
        for _ in 0..each {
            let mut stream = TcpStream::connect(address).unwrap();
            let _ = stream.write_all(say);
            all.push(stream);
        }
    }
    all
}

/// Copies a file in, lists it, and copies it out.
fn serves(store: &str, name: &str) {
    let here = scratch();
    let bytes = content(3, 5 << 20);
    fs::write(here.path().join("in"), &bytes).unwrap();
    run(["cp", "--quiet", "--timeout", "20s", "--store", store, text(&here.path().join("in")), &format!("thal:/{name}")]).done();
    assert!(run(["ls", "-l", "--timeout", "20s", "--store", store, "thal:/"]).done().out.contains(name));
    run(["cp", "--quiet", "--timeout", "20s", "--store", store, &format!("thal:/{name}"), text(&here.path().join("out"))]).done();
    assert!(fs::read(here.path().join("out")).unwrap() == bytes);
}

#[test]
fn two_thousand_sockets_that_say_nothing_or_half_a_hello_keep_no_client_from_being_served() {
    if !descriptors(7000) {
        return;
    }
    let servers = Servers::start(2);
    let addresses = addresses(&servers.store);
    assert_eq!(addresses.len(), 3);
    for say in [&b""[..], b"TLWG"] {
        let idle = strangers(&addresses, 2000, say);
        serves(text(&servers.store), &format!("f{}", say.len()));
        drop(idle);
    }
}

#[test]
fn a_server_raises_its_limit_of_descriptors_and_serves_within_it() {
    if !descriptors(4500) {
        return;
    }
    let directory = scratch();
    let mut command = Command::new("sh");
    let up = "ulimit -Sn 256 && ulimit -Hn 4096 && exec \"$0\" up --print-address --servers 2 --targets 2 \"$1\"";
    command.args(["-c", up, crate::common::THALWEG, text(directory.path())]);
    let mut process = Running::start(command);
    let store = process.line();
    let limits = fs::read_to_string(format!("/proc/{}/limits", process.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("4096"), "{line}");
    // More files than it may have descriptors, each with an open datafile, and more connections than it may have at first.
    let tree = scratch();
    (0..5000).for_each(|n| fs::write(tree.path().join(format!("f{n}")), [n as u8; 10]).unwrap());
    run(["cp", "-r", "--quiet", "--store", &store, text(tree.path()), "thal:/t"]).done();
    let mut idle = strangers(&addresses(&directory.path().join("store.toml")), 1200, b"");
    serves(&store, "f");
    assert_eq!(run(["ls", "--store", &store, "thal:/t"]).done().out.lines().count(), 5000);
    let open = fs::read_dir(format!("/proc/{}/fd", process.pid())).unwrap().count();
    assert!(open < 4096 - 256, "{open} descriptors are in use");
    idle.clear();
}

#[test]
fn a_server_that_has_run_out_of_descriptors_does_not_spin_and_serves_when_there_are_some_again() {
    let directory = scratch();
    let mut process = Running::start(thalweg(["up", "--print-address", "--servers", "1", text(directory.path())]));
    let store = process.line();
    serves(&store, "before");
    let used = fs::read_dir(format!("/proc/{}/fd", process.pid())).unwrap().count() as u64;
    let limit = |most: u64| {
        let pid = rustix::process::Pid::from_raw(process.pid());
        let limit = rustix::process::Rlimit { current: Some(most), maximum: Some(100_000.min(hard())) };
        rustix::process::prlimit(pid, rustix::process::Resource::Nofile, limit).unwrap();
    };
    limit(used);
    let idle = strangers(&addresses(&directory.path().join("store.toml")), 50, b"");
    let ticks = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<u64> = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2).map(|f| f.parse().unwrap()).collect();
        fields[0] + fields[1]
    };
    let before = ticks(process.pid());
    // Busy waiting shows while the server is idle.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let spent = ticks(process.pid()) - before;
    assert!(spent < 50, "{spent} ticks of 200 were spent on nothing");
    drop(idle);
    limit(hard().min(100_000));
    wait_until("it serves again", || run(["ls", "--store", &store, "thal:/"]).code == Some(0));
    serves(&store, "after");
}

fn hard() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(1 << 20)
}

/// Runs a client with this credential, or none, and an empty environment.
fn client<'a>(credential: Option<&Path>, arguments: impl IntoIterator<Item = &'a str>) -> CommandOutput {
    let mut command = thalweg(arguments);
    command.env_clear().envs(credential.map(|path| (CREDENTIAL, path)));
    command.output_in_time().expect("the command starts").into()
}

#[test]
fn a_client_of_another_store_is_refused_and_one_without_a_credential_may_do_nothing() {
    use thalweg_wire::trust::Credentials;
    use thalweg_wire::{Connect, Connection};
    let servers = Servers::start(1);
    for address in addresses(&servers.store) {
        let credentials = Credentials::file(servers.credential());
        let meant = |store| Connection::connect(&address, &Connect { store, credentials: credentials.clone(), ..Connect::default() });
        meant(None).unwrap();
        let error = meant(Some(1)).err().unwrap();
        assert!(error.to_string().contains("0000000000000001"), "{error}");
    }
    let here = scratch();
    let (source, out) = (here.path().join("in"), here.path().join("out"));
    fs::write(&source, content(1, 100_000)).unwrap();
    run(["cp", "--quiet", "--store", text(&servers.store), text(&source), "thal:/theirs"]).done();
    let path = |name: &str| format!("thal://{}/{name}", addresses(&servers.store)[0]);
    let (theirs, ours, root) = (path("theirs"), path("ours"), path(""));
    for verb in [
        &["ls", &root][..],
        &["cat", &theirs],
        &["stat", &theirs],
        &["cp", "--quiet", &theirs, text(&out)],
        &["cp", "--quiet", text(&source), &ours],
        &["mv", &theirs, &ours],
        &["mkdir", &ours],
        &["rm", &theirs],
        &["df", &root],
    ] {
        let said = client(None, verb.iter().copied()).failed(1, &["no credential for store 00000000000000a1", "--credential"]);
        assert_eq!((said.out.as_str(), said.err.lines().count()), ("", 1), "{verb:?}: {said:?}");
    }
    assert!(!out.exists());
    // The same client with a credential.
    let credential = servers.credential();
    assert!(client(Some(&credential), ["cat", &theirs]).done().out.len() > 50_000);
    assert_eq!(client(Some(&credential), ["ls", &root]).done().out, "theirs\n");
}

/// Starts a store beyond loopback with these flags; returns its output until it ends.
fn started_beyond(directory: &Path, flags: &[&str]) -> String {
    let arguments =
        [&["up", "--print-address", "--host", "0.0.0.0", "--beyond-loopback", "--servers", "1"], flags, &[text(directory)]].concat();
    let mut command = thalweg(arguments);
    command.stderr(std::process::Stdio::piped());
    let mut process = Running::start(command);
    assert!(process.line().starts_with("thal://"));
    process.signal(libc::SIGTERM);
    rest(process.child().stderr.take().unwrap())
}

#[test]
fn what_listens_beyond_loopback_encrypts_and_says_so_when_it_does_not() {
    let directory = scratch();
    let said = started_beyond(directory.path(), &[]);
    assert!(!said.contains("clear"), "{said}");
    let said = started_beyond(directory.path(), &["--plain"]);
    assert!(said.contains("traffic beyond loopback is not encrypted (--plain)"), "{said}");
    let refused = run(["up", "--host", "0.0.0.0", "--servers", "1", text(directory.path())]);
    refused.failed(1, &["not a loopback address"]);
    for verb in ["up", "serve"] {
        let help = run([verb, "--help"]).done().out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("Clients need a credential") && help.contains("Traffic beyond loopback is encrypted"), "{help}");
    }
}
