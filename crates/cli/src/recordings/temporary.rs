//! A directory for a recording that nobody asked to keep.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory in `TMPDIR`, removed with all that is in it when this is dropped, or when a signal ends us while it is guarded.
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    /// Makes one that only this user can look into.
    pub(crate) fn new() -> Result<Temporary, Failure> {
        use std::os::unix::fs::DirBuilderExt;
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!("thalweg-{}-{}-recording", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                // Of a process that had our number, or has it in another namespace.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::failed(format!("{}: cannot be made, for the recording: {error}", path.display()))),
                Ok(()) => return Ok(Temporary(path)),
            }
        }
    }

    /// Where a recording goes in it.
    pub(crate) fn recording(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// From now on a signal that ends this process removes the directory first. Not while a command runs: then signals are the command's.
    pub(crate) fn guard(&self) {
        let path = self.0.clone();
        let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
        let watch = move || {
            if let Some(signal) = signals.forever().next() {
                remove(&path);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        // Without the thread the directory stays behind where a signal ends us; nothing else is lost.
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
