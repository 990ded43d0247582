//! What an observer of every packet between the machines of a store can see.

use super::packets::Packets;
use super::{Needle, derived, found};
use crate::common::{CommandOutput, Mounted, Network, Running, can_mount, description, file, is_root, scratch, skipped, text};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

const NAME: &str = "qzname-of-a-file";
const OWNER: &str = "qzowner-of-all";
const CONTENT: &[u8] = b"qzcontent-that-nobody-else-sees.";
/// The client's machine, after metadata and two I/O servers.
const CLIENT: usize = 3;

/// A store on three machines.
struct Store {
    network: Network,
    servers: Vec<(usize, &'static str, Running)>,
    file: PathBuf,
    here: tempfile::TempDir,
}

impl Store {
    fn start(network: Network, plain: bool) -> Store {
        let here = scratch();
        let more = if plain { "plain = true\n" } else { "" };
        let file = file(here.path(), "store.toml", description(here.path(), 2, more).as_bytes());
        let mut store = Store { network, servers: Vec::new(), file, here };
        for (machine, name) in [(0, "metadata"), (1, "io1"), (2, "io2")] {
            store.serve(machine, name, &["--initialise"]);
        }
        store
    }

    fn serve(&mut self, machine: usize, name: &'static str, flags: &[&str]) {
        let arguments = [&["serve", "--beyond-loopback", "--store", text(&self.file), "--name", name], flags].concat();
        let mut server = Running::start(self.network.on(machine, arguments));
        assert!(!server.line().is_empty(), "{name} did not start");
        self.servers.push((machine, name, server));
    }

    fn say<'a>(&'a self, words: impl IntoIterator<Item = &'a str>) -> CommandOutput {
        let mut arguments: Vec<&str> = words.into_iter().collect();
        arguments.extend(["--store", text(&self.file)]);
        self.network.run(CLIENT, arguments)
    }

    /// Restarts all servers, one after another.
    fn restart(&mut self) {
        for (machine, name, server) in std::mem::take(&mut self.servers) {
            drop(server);
            self.serve(machine, name, &[]);
        }
    }

    fn own(&self) -> PathBuf {
        self.here.path().join("store.credential")
    }
}

/// Runs every verb that uses a store.
fn verbs(store: &Store, owner: &str) {
    let here = scratch();
    let (content, tree) = (CONTENT.repeat(20_000), here.path().join(format!("{NAME}-tree")));
    let source = file(here.path(), NAME, &content);
    fs::create_dir_all(tree.join("below")).unwrap();
    (0..20).for_each(|n| drop(file(&tree.join("below"), &format!("{NAME}-{n}"), &content[..n * 3000])));
    let (place, moved) = (format!("/d/{NAME}"), format!("/d/{NAME}-moved"));
    let at = |name: &str| format!("{}/{name}", here.path().display());
    let (at_out, at_tree, at_recording) = (at("out"), at("tree-out"), at("recorded.thw"));
    for words in [
        &["mkdir", "/d"][..],
        &["cp", "--quiet", "--layout", "simple_stripe,strip_size=4Ki", text(&source), &place],
        &["cp", "--quiet", "--force", "--sync", "--streams", "3", "--credential", owner, text(&source), &place],
        &["cp", "-r", "--quiet", text(&tree), "/tree"],
        &["ls", "-lR", "/"],
        &["find", "/", "-name", NAME],
        &["du", "-a", "/"],
        &["stat", &place],
        &["mv", &place, &moved],
        &["cat", &moved],
        &["layout", "show", &moved],
        &["df"],
        &["cp", "--quiet", "--credential", owner, &moved, &at_out],
        &["cp", "-r", "--quiet", "/tree", &at_tree],
        &["cp", "--explain", "--record", &at_recording, "--force", &moved, &at_out],
        &["cp", "--quiet", "--force", "--tune", &moved, &at_out],
        &["rm", "-r", "/tree"],
    ] {
        let said = store.say(in_store(words, here.path()).iter().map(String::as_str));
        assert_eq!(said.code, Some(0), "{words:?}: {}{}", said.out, said.err);
    }
    assert!(fs::read(here.path().join("out")).unwrap() == content);
}

/// Marks the store's paths where they could be local.
fn in_store(words: &[&str], here: &Path) -> Vec<String> {
    let is_ours = |word: &str| word.starts_with('/') && !Path::new(word).starts_with(here) && !Path::new(word).is_file();
    words.iter().map(|word| if is_ours(word) { format!("thal:{word}") } else { (*word).to_owned() }).collect()
}

/// Writes, reads, locks and lists through a mount while the servers are restarted.
fn mounted(store: &mut Store) {
    if !can_mount() {
        return;
    }
    let here = scratch();
    let at = here.path().join("m");
    fs::create_dir(&at).unwrap();
    store.say(["mount", text(&at)]).done();
    let _mounted = Mounted(at.clone());
    let path = at.join(format!("{NAME}-mounted"));
    let mut file = fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    let content = CONTENT.repeat(100_000);
    file.write_all(&content).unwrap();
    file.sync_all().unwrap();
    store.restart();
    fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
    file.write_all(CONTENT).unwrap();
    file.sync_all().unwrap();
    fcntl_lock(&file, FlockOperation::Unlock).unwrap();
    drop(file);
    fs::rename(&path, at.join(NAME)).unwrap();
    assert!(fs::read_dir(&at).unwrap().flatten().any(|entry| entry.file_name() == NAME));
    assert!(fs::read(at.join(NAME)).unwrap().len() == content.len() + CONTENT.len());
    fs::remove_file(at.join(NAME)).unwrap();
    store.network.run(CLIENT, ["umount", text(&at)]).done();
}

/// Runs typical work on a store on several machines, and on one started by `up`; returns the secrets seen in packets.
fn a_day(plain: bool) -> Option<BTreeSet<&'static str>> {
    let network = Network::of(4)?;
    let packets = Packets::of(network.switch());
    let mut store = Store::start(network, plain);
    let owner = derived(&store.own(), OWNER, None, store.here.path().join("owner.credential"));
    verbs(&store, text(&owner));
    mounted(&mut store);
    let whole = scratch();
    let mut up = vec!["up", "--print-address", "--host", "10.77.0.1", "--beyond-loopback", "--servers", "2"];
    up.extend(if plain { &["--plain"][..] } else { &[] });
    let mut process = Running::start(store.network.on(0, up.into_iter().chain([text(whole.path())])));
    let address = process.line();
    let source = file(store.here.path(), NAME, &CONTENT.repeat(5000));
    store.network.run(CLIENT, ["cp", "--quiet", text(&source), &format!("{address}/{NAME}")]).done();
    store.network.run(CLIENT, ["cat", &format!("{address}/{NAME}")]).done();
    let mut needles = vec![Needle::new("a name", NAME), Needle::new("content", CONTENT), Needle::new("an owner", OWNER)];
    for credential in [&store.own(), &owner, &whole.path().join("store.credential"), &whole.path().join("read-only.credential")] {
        needles.extend(Needle::secrets(credential));
    }
    drop(process);
    let Store { servers, network, .. } = store;
    drop(servers);
    let packets = packets.end();
    drop(network);
    let bytes: usize = packets.iter().map(Vec::len).sum();
    assert!(bytes > 10_000_000, "{bytes} bytes of packets were seen: not all of what was copied");
    Some(packets.iter().flat_map(|packet| found(&needles, packet)).collect())
}

#[test]
fn between_machines_no_name_no_content_no_owner_and_no_secret_goes_in_clear() {
    if !is_root() {
        return skipped("network namespaces and reading packets need root");
    }
    let Some(seen) = a_day(false) else { return skipped("network namespaces cannot be made here") };
    assert_eq!(seen, BTreeSet::new());
}

#[test]
fn with_plain_names_and_content_go_in_clear_and_still_no_secret() {
    if !is_root() {
        return skipped("network namespaces and reading packets need root");
    }
    let Some(seen) = a_day(true) else { return skipped("network namespaces cannot be made here") };
    assert_eq!(seen, BTreeSet::from(["a name", "an owner", "content"]));
}
