//! A store in this process, with one or more mounts in separate directories. Everything is removed again, also when a test fails.
#![allow(dead_code)]

#[path = "../../../../tests/bounded.rs"]
pub mod bounded;
#[path = "../../../../tests/content.rs"]
mod content;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use thalweg_mount::{Mount, Options};
use thalweg_store::config::StoreAddress;
use thalweg_store::start::{RunningStore, UpOptions, up};

/// Whether a store can be mounted here; if not, prints the reason.
pub fn can_mount() -> bool {
    let there = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    let allowed = rustix::process::geteuid().is_root();
    if !(there && allowed) {
        println!("SKIPPED: a store cannot be mounted here (needs root and /dev/fuse)");
    }
    there && allowed
}

/// Returns from the test where mounting is impossible.
#[macro_export]
macro_rules! needs_mounts {
    () => {
        if !$crate::stand::can_mount() {
            return;
        }
    };
}

/// A store of servers in this process.
pub struct Stand {
    store: Mutex<Option<RunningStore>>,
    options: UpOptions,
    pub address: String,
    pub directory: TempDir,
}

impl Stand {
    /// Starts a store with this many servers.
    pub fn new(servers: usize) -> Stand {
        Stand::over(servers, |_| {})
    }

    /// Starts a store; `prepare` is called with the first server's target directory before it is created.
    pub fn over(servers: usize, prepare: impl FnOnce(&Path)) -> Stand {
        let directory = tempfile::tempdir().unwrap();
        prepare(&directory.path().join("store/io0"));
        let options = UpOptions { servers: Some(servers), node: Some("here".into()), ..UpOptions::new([directory.path().join("store")]) };
        let store = up(&options).unwrap();
        let StoreAddress::Service(address) = store.address() else { panic!("a store that runs has an address") };
        Stand { store: Mutex::new(Some(store)), options, address, directory }
    }

    /// Mounts it as `name` with default options.
    pub fn mount(&self, name: &str) -> Mounted {
        self.mount_with(name, |_| {})
    }

    /// Mounts it as `name`, strict.
    pub fn mount_strictly(&self, name: &str) -> Mounted {
        self.mount_with(name, |options| options.strict = true)
    }

    /// Mounts it as `name` with changed options.
    pub fn mount_with(&self, name: &str, change: impl FnOnce(&mut Options)) -> Mounted {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let mut options = Options::new(&self.address, &path);
        options.node = "here".into();
        options.timeout = Duration::from_secs(10);
        change(&mut options);
        let mount = Mount::start(options).unwrap();
        Mounted { mount: Some(mount), path }
    }

    /// Returns the datafiles on all servers.
    pub fn datafiles(&self) -> Vec<PathBuf> {
        let (mut found, mut look) = (Vec::new(), vec![self.directory.path().join("store")]);
        while let Some(directory) = look.pop() {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => look.push(entry.path()),
                    false if entry.path().components().any(|part| part.as_os_str() == "datafiles") => found.push(entry.path()),
                    false => {}
                }
            }
        }
        found
    }

    pub fn store(&self) -> MutexGuard<'_, Option<RunningStore>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops one I/O server.
    pub fn stop_server(&self, name: &str) {
        assert!(self.store().as_mut().unwrap().stop_server(name));
    }

    /// Stops all servers.
    pub fn stop(&self) {
        self.store().take().unwrap().stop().unwrap();
    }

    /// Restarts all servers at their previous addresses.
    pub fn start(&self) {
        let port = self.address.rsplit_once(':').unwrap().1.parse().unwrap();
        *self.store() = Some(up(&UpOptions { port: Some(port), ..self.options.clone() }).unwrap());
    }
}

/// A mount, unmounted when dropped.
pub struct Mounted {
    mount: Option<Mount>,
    path: PathBuf,
}

impl Mounted {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn mount(&self) -> &Mount {
        self.mount.as_ref().unwrap()
    }

    /// Returns a counter, by JSON pointer in the document of counters.
    pub fn counter(&self, place: &str) -> u64 {
        let mut value = vec![0; 64 << 10];
        let length = rustix::fs::getxattr(&self.path, "user.thalweg.counters", &mut value).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&value[..length]).unwrap();
        document.pointer(place).and_then(serde_json::Value::as_u64).unwrap_or_else(|| panic!("no {place} in {document}"))
    }

    /// Unmounts it and waits for its end.
    pub fn unmount(mut self) -> thalweg_mount::Result<()> {
        let mount = self.mount.take().unwrap();
        mount.unmount(false)?;
        end_of(mount).expect("a mount that was taken away ends")
    }
}

/// Waits for a mount's end; `None`: timeout.
fn end_of(mount: Mount) -> Option<thalweg_mount::Result<()>> {
    let (give, take) = std::sync::mpsc::channel();
    std::thread::spawn(move || give.send(mount.wait()));
    take.recv_timeout(Duration::from_secs(60)).ok()
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take() {
            let _ = mount.unmount(true);
            let _ = end_of(mount);
        }
    }
}

/// Waits for a condition; fails after a minute.
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited a minute for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns pseudo-random bytes.
pub fn bytes(length: usize, seed: u64) -> Vec<u8> {
    content::content(seed, length)
}
