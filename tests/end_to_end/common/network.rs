//! Machines with separate addresses: network namespaces joined by a bridge.

use super::{CREDENTIAL, CommandOutput, thalweg};
use crate::bounded::Bounded;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Namespaces joined by a bridge, `10.77.0.N` each; removed when dropped.
pub struct Network {
    names: Vec<String>,
}

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split_ascii_whitespace()).output_in_time().is_ok_and(|o| o.status.success())
}

impl Network {
    /// Creates them; `None` without permission.
    pub fn of(machines: usize) -> Option<Network> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tag = format!("{}n{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
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

    /// Returns a machine's address.
    pub fn address(machine: usize) -> String {
        format!("10.77.0.{}", machine + 1)
    }

    /// Returns the namespace of the bridge, which every packet between machines passes.
    pub fn switch(&self) -> String {
        format!("/run/netns/{}", self.names[0])
    }

    /// Returns a machine's namespace, for `nsenter --net`.
    pub fn namespace(&self, machine: usize) -> String {
        format!("/run/netns/{}", self.names[machine + 1])
    }

    /// Returns the command, to be run on this machine. Mounts are shared by all.
    pub fn on<'a>(&self, machine: usize, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let inner = thalweg(arguments);
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespace(machine))).arg(inner.get_program()).args(inner.get_args());
        command.env_remove("THALWEG_STORE").env_remove(CREDENTIAL).env("NO_COLOR", "1").env("THALWEG_NODE", format!("node{machine}"));
        command
    }

    /// Runs the command on this machine to its end.
    pub fn run<'a>(&self, machine: usize, arguments: impl IntoIterator<Item = &'a str>) -> CommandOutput {
        self.on(machine, arguments).output_in_time().expect("nsenter runs").into()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

/// Writes a `store.toml` with metadata on machine 0 and an I/O server on each of the next; `more`: lines at the top.
pub fn description(directory: &Path, servers: usize, more: &str) -> String {
    let mut text = format!(
        "store = \"00000000000000a1\"\n{more}\n[metadata]\naddress = \"{}:7000\"\ndirectory = \"{}\"\n",
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
