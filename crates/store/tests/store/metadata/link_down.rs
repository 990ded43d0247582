//! The network link of a metadata service's machine goes down silently: the service is in a network namespace, and reaches PostgreSQL and
//! clients over a link each.

use super::failover::{Service, connect_within, is_followed_in_silence, make, names_of, store_on, works_on};
use crate::bounded::Bounded;
use crate::postgresql::Server;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use thalweg_store::config::StoreConfig;

/// Runs `ip`; returns whether it succeeded.
fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split_whitespace()).stderr(Stdio::null()).status_in_time().is_ok_and(|status| status.success())
}

/// A network namespace with two links to this one, removed when dropped.
struct Machine {
    name: String,
    /// This end of each link.
    ends: [String; 2],
    /// The network prefix of each link.
    nets: [String; 2],
}

const DATABASE: usize = 0;
const CLIENTS: usize = 1;

impl Machine {
    /// Creates it; `None`, with the reason printed, if that is not permitted.
    fn new() -> Option<Machine> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: network namespaces need root");
            return None;
        }
        let (process, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let name = format!("thwm{process}x{number}");
        let ends = ["d", "c"].map(|end| format!("t{process}x{number}{end}"));
        // Distinct between tests and processes that run concurrently.
        let nets = [0, 1].map(|link| format!("10.{}.{}", 112 + process % 100, (process / 100 % 64) * 4 + number % 2 * 2 + link));
        let machine = Machine { name, ends, nets };
        if !machine.is_made() {
            println!("SKIPPED: `ip netns` and `ip link add ... type veth` do not work here");
            return None;
        }
        Some(machine)
    }

    fn is_made(&self) -> bool {
        let name = &self.name;
        let made = ip(&format!("netns add {name}")) && ip(&format!("-n {name} link set lo up"));
        made && self.ends.iter().zip(&self.nets).zip(["database", "clients"]).all(|((end, net), far)| {
            ip(&format!("link add {end} type veth peer name {far} netns {name}"))
                && ip(&format!("address add {net}.1/24 dev {end}"))
                && ip(&format!("-n {name} address add {net}.2/24 dev {far}"))
                && ip(&format!("link set {end} up"))
                && ip(&format!("-n {name} link set {far} up"))
        })
    }

    fn set(&self, links: &[usize], state: &str) {
        assert!(links.iter().all(|link| ip(&format!("link set {} {state}", self.ends[*link]))), "the links cannot be set {state}");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.ends.iter().for_each(|end| {
            ip(&format!("link delete {end}"));
        });
        ip(&format!("netns delete {}", self.name));
    }
}

/// Starts a PostgreSQL server that the machine reaches over TCP.
fn server_for(machine: &Machine, directory: &std::path::Path) -> Option<Server> {
    let rules = directory.join("pg_hba.conf");
    std::fs::write(&rules, format!("local all all trust\nhost all all {}.0/24 trust\n", machine.nets[DATABASE])).unwrap();
    // The server's user must be able to read the directory.
    std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let listens = format!("listen_addresses={}.1", machine.nets[DATABASE]);
    let rules = format!("hba_file={}", rules.display());
    Server::start_in(&std::env::temp_dir(), &["max_connections=60", &listens, &rules])
}

/// Takes a service's `links` down while clients work, and checks the takeover.
fn followed_when_they_go_down(links: &[usize]) {
    let Some(machine) = Machine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let Some(server) = server_for(&machine, directory.path()) else { return };
    let store = directory.path().join("store");
    std::fs::create_dir(&store).unwrap();
    let mut config = store_on(&server, &store);
    let port = config.metadata.address.rsplit_once(':').unwrap().1;
    config.metadata.address = format!("{}.2:{port}", machine.nets[CLIENTS]);
    config.write().unwrap();
    let config = StoreConfig::read(&config.path).unwrap();

    let database = format!("postgresql://thalweg@{}.1/names", machine.nets[DATABASE]);
    let mut active = Service::start_in(Some(&machine.name), "metadata", &config.path, Some(&database));
    active.says("serving");
    let mut standby = Service::start("standby1", &config.path);
    standby.says("standing by");
    // Then a call in progress waits for the service first.
    let connect = || connect_within(&config, Duration::from_secs(5));
    let names = connect();
    make(&names, "/before").unwrap();
    let goes_down = || {
        machine.set(links, "down");
        is_followed_in_silence(&names, "/after", &mut standby);
    };
    works_on(connect, 1, goes_down);
    machine.set(links, "up");
    let ended = active.says("ended: ");
    assert!(ended.contains("another metadata service has taken over"), "{ended}");
    let found = names_of(&names);
    assert!(found.contains(&"before".to_owned()) && found.contains(&"after".to_owned()), "{found:?}");
}

#[test]
fn a_service_whose_link_to_its_database_goes_down_is_followed_by_another_and_ends_when_it_is_back() {
    followed_when_they_go_down(&[DATABASE]);
}

#[test]
fn a_service_whose_machine_is_cut_off_from_everybody_is_followed_by_another_and_ends_when_it_is_back() {
    followed_when_they_go_down(&[DATABASE, CLIENTS]);
}
