//! A temporary directory, removed on drop.

use crate::TraceError;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory in `TMPDIR` that other users cannot enter, removed with its contents on drop.
pub(crate) struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Creates a temporary directory.
    pub(crate) fn new() -> Result<TemporaryDirectory, TraceError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!("thalweg-{}-{}.thw", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            // A recording is private to its user, whatever the umask.
            match DirBuilder::new().mode(0o700).create(&path) {
                // Left by a process with our process id, here or in another namespace.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(TraceError::new(&path, format!("cannot be created for sorting: {error}"))),
                Ok(()) => return Ok(TemporaryDirectory(path)),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
