//! Servers with separate addresses: each in its own network namespace, as on separate machines.

use crate::common::{Network, Running, content, description, file, is_root, scratch, skipped, text};

#[test]
fn a_store_over_several_machines_copies_explains_and_places_data_locally() {
    if !is_root() {
        return skipped("network namespaces need root");
    }
    let Some(network) = Network::of(4) else {
        return skipped("network namespaces cannot be made here");
    };
    let here = scratch();
    let store = file(here.path(), "store.toml", description(here.path(), 2, "").as_bytes());
    let mut servers = Vec::new();
    for (machine, name) in [(0, "metadata"), (1, "io1"), (2, "io2")] {
        let mut server =
            Running::start(network.on(machine, ["serve", "--beyond-loopback", "--initialise", "--store", text(&store), "--name", name]));
        assert!(!server.line().is_empty(), "{name} did not start");
        servers.push(server);
    }
    let bytes = content(1, 20_000_001);
    let source = file(here.path(), "source", &bytes);
    let recording = here.path().join("copy.thw");
    let (store, out) = (text(&store), here.path().join("out"));
    network.run(3, ["cp", "--quiet", "--store", store, "--record", text(&recording), text(&source), "thal:/f"]).done();
    network.run(3, ["cp", "--quiet", "--store", store, "thal:/f", text(&out)]).done();
    assert!(std::fs::read(&out).unwrap() == bytes);
    let document = network.run(3, ["explain", "--json", text(&recording)]).done().json();
    let connections: Vec<&str> = document["channels"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    assert!(connections.iter().any(|name| name.contains("10.77.0.2:7001")), "{connections:?}");
    // A writer on the machine of io2 places its data there.
    network.run(2, ["cp", "--quiet", "--store", store, "--place", "local", text(&source), "thal:/local"]).done();
    let shown = network.run(3, ["layout", "show", "--json", "--store", store, "/local"]).done().json();
    let on: Vec<&str> = shown["datafiles"].as_array().unwrap().iter().filter_map(|d| d["server"].as_str()).collect();
    assert_eq!(on, ["io2"]);
    drop(servers);
}
