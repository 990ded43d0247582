//! I/O servers on loopback with names in memory: a store for tests of the data path.
#![allow(dead_code, reason = "examples use some of it")]

#[path = "../../../../tests/content.rs"]
mod content;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use thalweg_client::{DataClient, FileHandle, Names, Store};
use thalweg_layout::Layout;
use thalweg_store::config::{MetadataConfig, ServerConfig, StoreConfig};
use thalweg_store::start::{RunningStore, StartOptions, serve};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::metadata::{
    Attributes, End, Existing, FileId, FileKind, FileLayout, LayoutChoice, ServerEntry, StoreMap, TargetEntry, TargetId,
};
use thalweg_wire::trust::{Credential, Credentials, Gate};
use thalweg_wire::{Connect, Connection, ServeOptions};
use thalweg_wire::{Error, ErrorKind, Result};

pub const STORE: u64 = 7;

/// Equal in every process of these tests.
static CREDENTIAL: LazyLock<Credential> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("credential");
    Credential::new_store(STORE).write(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, _) = text.split_once("secret").unwrap();
    std::fs::write(&path, format!("{before}secret = \"{}\"\n", "5e".repeat(32))).unwrap();
    Credential::read(&path).unwrap()
});

/// Returns options for clients with the store's own credential.
pub fn connect() -> Connect {
    Connect { credentials: Credentials::given(CREDENTIAL.clone()), ..Connect::default() }
}

/// Returns options for servers with the store's own credential.
#[allow(dead_code, reason = "examples serve stores")]
pub fn serving(name: &str) -> ServeOptions {
    ServeOptions::new(name, "here", Arc::new(Gate::new(&CREDENTIAL).unwrap()))
}

/// Servers in this process.
pub struct Servers {
    running: Vec<Option<RunningStore>>,
    pub map: StoreMap,
}

/// Starts `servers` servers with `targets` targets each, under `directory`.
pub fn servers(directory: &Path, servers: u32, targets: u32) -> Servers {
    let mut running = Vec::new();
    let mut map = StoreMap { store: STORE, servers: Vec::new(), targets: Vec::new() };
    for server in 0..servers {
        let name = format!("io{server}");
        let numbers = server * targets..(server + 1) * targets;
        let handle = start(directory, &name, "127.0.0.1:0", numbers.clone());
        map.servers.push(ServerEntry { address: handle.listens(&name).unwrap().to_string(), name, node: "here".into() });
        for n in numbers {
            map.targets.push(TargetEntry { target: TargetId(n), server, directory: format!("t{n}") });
        }
        running.push(Some(handle));
    }
    Servers { running, map }
}

/// Starts one server with these targets, creating missing ones.
pub fn start(directory: &Path, name: &str, address: &str, targets: impl IntoIterator<Item = u32>) -> RunningStore {
    let targets = targets.into_iter().map(|n| (TargetId(n), directory.join(format!("t{n}")))).collect();
    let config = StoreConfig {
        path: directory.join("store.toml"),
        store: STORE,
        metadata: MetadataConfig {
            address: String::new(),
            directory: directory.join("metadata"),
            database: None,
            standby: Vec::new(),
            node: None,
            key: None,
        },
        servers: vec![ServerConfig { name: name.to_owned(), node: "here".into(), address: address.to_owned(), targets, key: None }],
        credential: directory.join("store.credential"),
        plain: false,
    };
    std::fs::create_dir_all(directory).unwrap();
    CREDENTIAL.write(&config.credential).unwrap();
    serve(&config, name, StartOptions { initialise: true, ..StartOptions::default() }).unwrap()
}

impl Servers {
    /// Returns the number of recordings that clients have requested from them.
    pub fn recordings(&self) -> u64 {
        self.running.iter().flatten().map(RunningStore::recordings).sum()
    }

    /// Stops a server.
    pub fn stop(&mut self, server: usize) {
        drop(self.running[server].take());
    }

    /// Starts a server again, at the same address with the same targets.
    pub fn start(&mut self, server: usize, directory: &Path) {
        let entry = &self.map.servers[server];
        let targets = self.map.targets.iter().filter(|t| t.server as usize == server).map(|t| t.target.0);
        self.running[server] = Some(start(directory, &entry.name, &entry.address, targets));
    }
}

/// Names in memory.
pub struct InMemory {
    files: Mutex<(HashMap<String, Attributes>, u64)>,
    targets: u32,
    data: Arc<DataClient>,
}

/// Returns a store over these servers.
pub fn store(map: &StoreMap, timeout: Duration) -> (Store, Arc<InMemory>) {
    let data = Arc::new(DataClient::new(map.clone(), &Connect { timeout, ..connect() }));
    let names = Arc::new(InMemory { files: Mutex::new((HashMap::new(), 100)), targets: map.targets.len() as u32, data: Arc::clone(&data) });
    (Store { names: names.clone(), data }, names)
}

impl InMemory {
    /// Returns the names, in order.
    pub fn list(&self) -> Vec<String> {
        let mut names: Vec<String> = self.files.lock().unwrap().0.keys().cloned().collect();
        names.sort();
        names
    }

    fn expect(files: &HashMap<String, Attributes>, path: &str, file: FileId) -> Result<()> {
        match files.get(path) {
            Some(found) if found.id != file => Err(Error::new(ErrorKind::Busy, "another file's by now").on_file(path)),
            _ => Ok(()),
        }
    }

    fn missing(path: &str) -> Error {
        Error::new(ErrorKind::NotFound, "there is no such file").on_file(path)
    }
}

impl Names for InMemory {
    fn create(&self, _: &mut Tracer, path: &str, mode: u32, existing: Existing, layout: &LayoutChoice) -> Result<Attributes> {
        let mut files = self.files.lock().unwrap();
        if files.0.contains_key(path) && existing == Existing::Refuse {
            return Err(Error::new(ErrorKind::Exists, "exists").on_file(path));
        }
        let spec = layout.spec.clone().unwrap_or_default();
        let made =
            Layout::new(&spec, layout.datafiles, self.targets).map_err(|e| Error::new(ErrorKind::Invalid, e.to_string()).on_file(path))?;
        files.1 += 1;
        let id = FileId(files.1);
        let first = files.1 as u32;
        let targets = (0..made.num_datafiles()).map(|n| TargetId((first + n) % self.targets)).collect();
        let attributes = Attributes {
            id,
            kind: FileKind::File,
            mode,
            uid: 0,
            gid: 0,
            links: 1,
            accessed_ns: 0,
            modified_ns: 0,
            changed_ns: 0,
            created_ns: 0,
            change: 0,
            device: 0,
            target_bytes: 0,
            extended_bytes: 0,
            target: None,
            size_bytes: None,
            settled: None,
            lost: None,
            layout: Some(Arc::new(FileLayout { spec: made.spec(), targets, lot: None })),
            default_layout: None,
        };
        files.0.insert(path.to_owned(), attributes.clone());
        Ok(attributes)
    }

    fn stat(&self, _: &mut Tracer, path: &str) -> Result<Attributes> {
        self.files.lock().unwrap().0.get(path).cloned().ok_or_else(|| InMemory::missing(path))
    }

    fn open(&self, tracer: &mut Tracer, path: &str, _: bool) -> Result<Attributes> {
        self.stat(tracer, path)
    }

    fn rename(&self, _: &mut Tracer, file: FileId, from: &str, to: &str, replace: bool, _: Option<End>) -> Result<()> {
        let mut files = self.files.lock().unwrap();
        InMemory::expect(&files.0, from, file)?;
        if files.0.contains_key(to) && !replace {
            return Err(Error::new(ErrorKind::Exists, "exists").on_file(to));
        }
        let attributes = files.0.remove(from).ok_or_else(|| InMemory::missing(from))?;
        files.0.insert(to.to_owned(), attributes);
        Ok(())
    }

    fn unlink(&self, tracer: &mut Tracer, file: FileId, path: &str) -> Result<()> {
        let mut files = self.files.lock().unwrap();
        InMemory::expect(&files.0, path, file)?;
        let attributes = files.0.remove(path).ok_or_else(|| InMemory::missing(path))?;
        drop(files);
        let _ = self.data.remove(tracer, &FileHandle::from_attributes(path, &attributes)?);
        Ok(())
    }

    fn sync(&self, _: &mut Tracer) -> Result<()> {
        Ok(())
    }

    fn with_connection(&self, _: &mut dyn FnMut(&mut Connection) -> Result<()>) -> Result<()> {
        Ok(())
    }
}

/// Returns the checksum of a message's payload.
pub fn crc32c(bytes: &[u8]) -> u32 {
    thalweg_bulk::crc32c(bytes)
}

/// Returns bytes without repetition.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    content::content(seed, length)
}

/// A small file system, unmounted when dropped.
pub struct SmallDisk {
    pub path: PathBuf,
}

impl SmallDisk {
    /// Mounts it; `None` if mounting is not permitted here.
    pub fn mount(at: &Path, size: &str) -> Option<SmallDisk> {
        std::fs::create_dir_all(at).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then(|| SmallDisk { path: at.to_owned() })
    }

    /// Fills the remaining space; returns the file that takes it.
    pub fn fill(&self) -> PathBuf {
        let filler = self.path.join("filler");
        let mut file = std::fs::File::options().create(true).append(true).open(&filler).unwrap();
        for size in [1 << 16, 4096, 1] {
            while std::io::Write::write_all(&mut file, &vec![1; size]).is_ok() {}
        }
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
