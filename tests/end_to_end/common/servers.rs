//! Stores under test: in one process, or with a process per server.

use super::{Running, scratch, text, thalweg};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

/// A store in one process, in its own directory.
pub struct Up {
    /// The process.
    pub process: Running,
    /// `thal://HOST:PORT`.
    pub address: String,
    /// Dropped after the process, whose field precedes it.
    pub directory: tempfile::TempDir,
}

impl Up {
    /// Starts a store of this many servers with one target each.
    #[track_caller]
    pub fn start(servers: u32) -> Up {
        Up::start_with(servers, 1, &[])
    }

    /// Starts a store of this many servers with this many targets each.
    #[track_caller]
    pub fn start_with(servers: u32, targets: u32, more: &[&str]) -> Up {
        let directory = scratch();
        let (servers, targets) = (servers.to_string(), targets.to_string());
        let mut arguments = vec!["up", "--print-address", "--servers", &servers, "--targets", &targets];
        arguments.extend_from_slice(more);
        arguments.push(text(directory.path()));
        let mut process = Running::start(thalweg(arguments));
        let address = process.line();
        assert!(address.starts_with("thal://"), "the first line is the address: `{address}`");
        Up { process, address, directory }
    }

    /// Starts it again, after its process has ended.
    #[track_caller]
    pub fn again(self) -> Up {
        self.again_with(&[])
    }

    /// Starts it again with these arguments.
    #[track_caller]
    pub fn again_with(self, more: &[&str]) -> Up {
        let Up { process, directory, .. } = self;
        drop(process);
        let entries = std::fs::read_dir(directory.path()).expect("its directory").flatten();
        let servers = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("io")).count().to_string();
        let arguments = [&["up", "--print-address", "--servers", &servers, "--targets", "1"][..], more, &[text(directory.path())]].concat();
        let mut process = Running::start(thalweg(arguments));
        let address = process.line();
        assert!(address.starts_with("thal://"), "the first line is the address: `{address}`");
        Up { process, address, directory }
    }

    /// Returns the store path of a file.
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// Returns the path of its `store.toml`.
    pub fn description(&self) -> PathBuf {
        self.directory.path().join("store.toml")
    }

    /// Returns the path of the store's own credential.
    pub fn credential(&self) -> PathBuf {
        self.directory.path().join("store.credential")
    }

    /// Returns the path of the read-only credential.
    pub fn read_only(&self) -> PathBuf {
        self.directory.path().join("read-only.credential")
    }
}

/// A store described by a `store.toml`, with a process per server, on its own loopback address.
pub struct Servers {
    /// The path of its `store.toml`.
    pub store: PathBuf,
    processes: BTreeMap<String, Running>,
    /// The servers whose targets or metadata exist.
    made: BTreeSet<String>,
    directory: tempfile::TempDir,
}

/// Returns an address in 127.0.0.0/8 unique to this store of the test program, so that fixed ports cannot collide.
fn own_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let (process, store) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("127.{}.{}.{}", 1 + (process >> 8) % 250, process % 250, store)
}

impl Servers {
    /// Starts the metadata service and this many I/O servers with one target each.
    #[track_caller]
    pub fn start(servers: usize) -> Servers {
        let mut store = Servers::describe(servers, |directory, i| vec![directory.join(format!("io{i}"))]);
        store.serve("metadata");
        for i in 0..servers {
            store.serve(&format!("io{i}"));
        }
        store
    }

    /// Writes the description only; `targets` returns each server's target directories.
    pub fn describe(servers: usize, targets: impl Fn(&Path, usize) -> Vec<PathBuf>) -> Servers {
        let directory = scratch();
        let host = own_address();
        let mut description = format!(
            "store = \"00000000000000a1\"\n\n[metadata]\naddress = \"{host}:7000\"\ndirectory = \"{}\"\n",
            text(&directory.path().join("metadata"))
        );
        for i in 0..servers {
            let targets: Vec<String> = targets(directory.path(), i).iter().map(|t| format!("\"{}\"", text(t))).collect();
            description.push_str(&format!(
                "\n[[servers]]\nname = \"io{i}\"\nnode = \"node{i}\"\naddress = \"{host}:{}\"\ntargets = [{}]\n",
                7001 + i,
                targets.join(", ")
            ));
        }
        let store = directory.path().join("store.toml");
        std::fs::write(&store, description).expect("a file can be written");
        Servers { store, processes: BTreeMap::new(), made: BTreeSet::new(), directory }
    }

    /// Starts a server, and waits until it reports that it serves.
    #[track_caller]
    pub fn serve(&mut self, name: &str) {
        let mut command = thalweg(["serve", "--store", text(&self.store), "--name", name]);
        command.stderr(Stdio::inherit());
        if self.made.insert(name.to_owned()) {
            command.arg("--initialise");
        }
        let mut process = Running::start(command);
        let line = process.line();
        assert!(!line.is_empty(), "server {name} did not start");
        self.processes.insert(name.to_owned(), process);
    }

    /// Returns a server's process.
    pub fn process(&mut self, name: &str) -> &mut Running {
        self.processes.get_mut(name).expect("a server of this name was started")
    }

    /// Kills a server.
    pub fn kill(&mut self, name: &str) {
        self.process(name).kill();
    }

    /// Returns the path of the store's own credential.
    pub fn credential(&self) -> PathBuf {
        self.directory().join("store.credential")
    }

    /// Returns the path of the read-only credential.
    pub fn read_only(&self) -> PathBuf {
        self.directory().join("read-only.credential")
    }

    /// Returns the directory of all files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}
