//! Servers with addresses of their own: each in its own network namespace, as on machines of their own.

use crate::bounded::Bounded;
use crate::common::{Running, Said, content, file, is_root, scratch, skipped, text, thalweg};
use std::path::Path;
use std::process::Command;

/// Namespaces joined by a bridge, `10.77.0.N` each; taken down with their owner.
struct Network {
    names: Vec<String>,
}

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split_ascii_whitespace()).output_in_time().is_ok_and(|o| o.status.success())
}

impl Network {
    /// `None` where it cannot be made.
    fn of(machines: usize) -> Option<Network> {
        let tag = std::process::id();
        let mut network = Network { names: vec![format!("thw{tag}x")] };
        let switch = network.names[0].clone();
        let mut made = ip(&format!("netns add {switch}"))
            && ip(&format!("-n {switch} link add name hub type bridge"))
            && ip(&format!("-n {switch} link set hub up"));
        for i in 0..machines {
            let name = format!("thw{tag}m{i}");
            network.names.push(name.clone());
            made = made
                && ip(&format!("netns add {name}"))
                && ip(&format!("-n {name} link add eth0 type veth peer name port{i} netns {switch}"))
                && ip(&format!("-n {switch} link set port{i} master hub up"))
                && ip(&format!("-n {name} addr add {}/24 dev eth0", Network::address(i)))
                && ip(&format!("-n {name} link set eth0 up"))
                && ip(&format!("-n {name} link set lo up"));
        }
        made.then_some(network)
    }

    fn address(machine: usize) -> String {
        format!("10.77.0.{}", machine + 1)
    }

    /// The command, on this machine.
    fn on(&self, machine: usize, arguments: &[&str]) -> Command {
        let inner = thalweg(arguments);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[machine + 1]]).arg(inner.get_program()).args(inner.get_args());
        command.env_remove("THALWEG_STORE").env("NO_COLOR", "1").env("THALWEG_NODE", format!("node{machine}"));
        command
    }

    fn run(&self, machine: usize, arguments: &[&str]) -> Said {
        self.on(machine, arguments).output_in_time().expect("ip runs").into()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

/// Metadata on machine 0, an I/O server on each of the next; the client is the last.
fn description(directory: &Path, servers: usize) -> String {
    let mut text = format!(
        "store = \"00000000000000a1\"\n\n[metadata]\naddress = \"{}:7000\"\ndirectory = \"{}\"\n",
        Network::address(0),
        directory.join("metadata").display()
    );
    for i in 1..=servers {
        let (address, target) = (Network::address(i), directory.join(format!("io{i}")));
        text.push_str(&format!(
            "\n[[servers]]\nname = \"io{i}\"\nnode = \"node{i}\"\naddress = \"{address}:7001\"\ntargets = [\"{}\"]\n",
            target.display()
        ));
    }
    text
}

#[test]
fn a_store_over_several_machines_copies_explains_and_places_data_locally() {
    if !is_root() {
        return skipped("network namespaces need root");
    }
    let Some(network) = Network::of(4) else {
        return skipped("network namespaces cannot be made here");
    };
    let here = scratch();
    let store = file(here.path(), "store.toml", description(here.path(), 2).as_bytes());
    let mut servers = Vec::new();
    for (machine, name) in [(0, "metadata"), (1, "io1"), (2, "io2")] {
        let mut server =
            Running::start(network.on(machine, &["serve", "--beyond-loopback", "--initialise", "--store", text(&store), "--name", name]));
        assert!(!server.line().is_empty(), "{name} did not start");
        servers.push(server);
    }
    let bytes = content(1, 20_000_001);
    let source = file(here.path(), "source", &bytes);
    let recording = here.path().join("copy.thw");
    let (store, out) = (text(&store), here.path().join("out"));
    network.run(3, &["cp", "--quiet", "--store", store, "--record", text(&recording), text(&source), "thal:/f"]).done();
    network.run(3, &["cp", "--quiet", "--store", store, "thal:/f", text(&out)]).done();
    assert!(std::fs::read(&out).unwrap() == bytes);
    let document = network.run(3, &["explain", "--json", text(&recording)]).done().json();
    let connections: Vec<&str> = document["channels"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    assert!(connections.iter().any(|name| name.contains("10.77.0.2:7001")), "{connections:?}");
    // A writer on the machine of io2 keeps its data there.
    network.run(2, &["cp", "--quiet", "--store", store, "--place", "local", text(&source), "thal:/local"]).done();
    let shown = network.run(3, &["layout", "show", "--json", "--store", store, "/local"]).done().json();
    let on: Vec<&str> = shown["datafiles"].as_array().unwrap().iter().filter_map(|d| d["server"].as_str()).collect();
    assert_eq!(on, ["io2"]);
    drop(servers);
}
