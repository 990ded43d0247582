//! A store whose servers are separate processes: this test program again, running one of its tests.

use super::{Client, SERVERS};
use crate::bounded::{BoundedChild, LIMIT, Lines};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use thalweg_store::config::StoreConfig;
use thalweg_store::start::{StartOptions, serve};
use thalweg_wire::trust::Credential;

/// Names to the restarted test program the server to run, and its store.
const SERVED: &str = "THALWEG_TEST_LOTS";

#[test]
fn a_server_of_a_store_runs_until_it_is_killed() {
    let Ok(text) = std::env::var(SERVED) else { return };
    let (name, config) = text.split_once('@').unwrap();
    let config = StoreConfig::read(Path::new(config)).unwrap();
    let _store = serve(&config, name, StartOptions { initialise: true, ..StartOptions::default() }).unwrap();
    println!("\nserving {name}");
    // Ends with the test: its input closes if the test is killed.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A store's processes, killed when dropped.
pub struct Processes {
    pub directory: PathBuf,
    config: PathBuf,
    running: BTreeMap<String, (Child, Lines)>,
}

impl Processes {
    /// Starts a store in `directory` with all its servers.
    pub fn start(directory: &Path) -> Processes {
        let listeners: Vec<TcpListener> = (0..=SERVERS).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let address = |n: usize| listeners[n].local_addr().unwrap();
        let mut text = format!("store = \"00000000000000ab\"\n[metadata]\naddress = \"{}\"\ndirectory = \"metadata\"\n", address(SERVERS));
        for n in 0..SERVERS {
            text.push_str(&format!("[[servers]]\nname = \"io{n}\"\naddress = \"{}\"\ntargets = [\"io{n}\"]\n", address(n)));
        }
        drop(listeners);
        let config = directory.join("store.toml");
        std::fs::write(&config, text).unwrap();
        let mut processes = Processes { directory: directory.to_owned(), config, running: BTreeMap::new() };
        processes.start_all();
        processes
    }

    pub fn start_all(&mut self) {
        self.run("metadata");
        (0..SERVERS).for_each(|n| self.run(&format!("io{n}")));
    }

    /// Starts a stopped server.
    pub fn run(&mut self, name: &str) {
        if self.running.contains_key(name) {
            return;
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lots::processes::a_server_of_a_store_runs_until_it_is_killed", "--nocapture"])
            .env(SERVED, format!("{name}@{}", self.config.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = Lines::new(child.stdout.take().unwrap());
        let ready = std::iter::from_fn(|| lines.next(LIMIT).ok()).take(100).any(|line| line.contains("serving "));
        assert!(ready, "{name} did not start: {:?}", child.wait_in_time(LIMIT));
        self.running.insert(name.to_owned(), (child, lines));
    }

    pub fn kill(&mut self, name: &str) {
        if let Some((mut child, _)) = self.running.remove(name) {
            child.kill().unwrap();
            child.wait_in_time(LIMIT).unwrap();
        }
    }

    /// Kills all servers.
    pub fn kill_all(&mut self) {
        self.running.values_mut().for_each(|(child, _)| child.kill().unwrap());
        while let Some((_, (mut child, _))) = self.running.pop_first() {
            child.wait_in_time(LIMIT).unwrap();
        }
    }

    pub fn credential(&self) -> Credential {
        Credential::read(&StoreConfig::read(&self.config).unwrap().credential).unwrap()
    }

    pub fn connect(&self) -> Client {
        let address = StoreConfig::read(&self.config).unwrap().metadata.address;
        Client::connect(&address, &self.credential()).unwrap()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (child, _) in self.running.values_mut() {
            let _ = child.kill();
            let _ = child.wait_in_time(LIMIT);
        }
    }
}
