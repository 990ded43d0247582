//! I/O servers in a process of their own: the example started once more, as `EXAMPLE serve DIR SERVERS`.

use super::loopback;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use thalweg_wire::protocol::metadata::{ServerEntry, StoreMap, TargetEntry, TargetId};

/// Serves until standard input ends, and says at which addresses.
pub fn serve(directory: &Path, servers: u32) {
    let servers = loopback::servers(directory, servers, 1);
    for server in &servers.map.servers {
        println!("{}", server.address);
    }
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

/// Starts `program serve`; the process, and who is who.
pub fn start(program: &str, directory: &Path, servers: u32) -> (Child, StoreMap) {
    let mut child = Command::new(program)
        .arg("serve")
        .arg(directory)
        .arg(servers.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("servers");
    let mut map = StoreMap { store: loopback::STORE, servers: Vec::new(), targets: Vec::new() };
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    for (server, address) in (0..servers).zip(lines) {
        map.servers.push(ServerEntry { name: format!("io{server}"), node: "here".into(), address: address.expect("address") });
        map.targets.push(TargetEntry { target: TargetId(server), server, directory: format!("t{server}") });
    }
    (child, map)
}
