//! A temporary directory for a recording that is not kept.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory in `TMPDIR`, removed with its contents on drop, and by a terminating signal once guarded.
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    /// Creates one that only this user can access.
    pub(crate) fn new() -> Result<Temporary, Failure> {
        use std::os::unix::fs::DirBuilderExt;
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!("thalweg-{}-{}-recording", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                // Left by an earlier process of this PID, or in use by one in another PID namespace.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Failure::failed(format!("{}: cannot create a directory for the recording: {error}", path.display())));
                }
                Ok(()) => return Ok(Temporary(path)),
            }
        }
    }

    /// Returns the path for a recording in it.
    pub(crate) fn recording(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes terminating signals remove the directory from now on. Not to be called while a command runs: signals are the command's then.
    pub(crate) fn guard(&self) {
        let path = self.0.clone();
        let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
        let watch = move || {
            if let Some(signal) = signals.forever().next() {
                remove(&path);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        // Without the thread, a signal leaves the directory behind; nothing else is lost.
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
    }
}

fn remove(path: &Path) {
    let _ = std::fs::remove_dir_all(path);
}

impl Drop for Temporary {
    fn drop(&mut self) {
        remove(&self.0);
    }
}
