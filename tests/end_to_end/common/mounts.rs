//! Mounts of a store, and whether mounting is possible.

use super::{CommandOutput, Up, is_root, run, skipped, text};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns whether a store can be mounted here; otherwise prints why not.
pub fn can_mount() -> bool {
    let can = fs::File::options().read(true).write(true).open("/dev/fuse").is_ok() && is_root();
    if !can {
        skipped("a store cannot be mounted here (needs root and /dev/fuse)");
    }
    can
}

/// A mount, removed when dropped.
pub struct Mounted(pub PathBuf);

impl Mounted {
    /// Mounts at this directory, creating it.
    pub fn new(store: &Up, at: &Path, more: &[&str]) -> Mounted {
        fs::create_dir_all(at).unwrap();
        let mounted = Mounted(at.to_owned());
        run([&["mount", &store.address, text(at)], more].concat()).done();
        mounted
    }
    /// Returns a path in it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    /// Unmounts it.
    pub fn umount(&self) -> CommandOutput {
        run(["umount", text(&self.0)])
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if listed(&self.0).is_some() {
            let _ = run(["umount", "--lazy", text(&self.0)]);
        }
    }
}

/// Returns its line in /proc/mounts, if mounted.
pub fn listed(at: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    mounts.lines().find(|line| line.split(' ').nth(1) == Some(text(at))).map(str::to_owned)
}
