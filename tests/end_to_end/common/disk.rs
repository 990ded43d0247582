//! File systems for single tests.

use crate::bounded::Bounded;
use std::path::Path;
use std::process::Command;

/// A small file system, unmounted when dropped.
pub struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// Mounts it; `None` without permission.
    pub fn mount(at: &Path, size: &str) -> Option<SmallDisk> {
        std::fs::create_dir_all(at).ok()?;
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(at)
            .output_in_time()
            .ok()?
            .status
            .success();
        done.then(|| SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status_in_time();
    }
}
