//! A temporary directory for a recording that is not kept.

use crate::failure::Failure;
use crate::output;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use thalweg_base::temporary::TemporaryDirectory;

/// A directory in `TMPDIR`, removed with its contents on drop, and by a terminating signal once guarded.
pub(crate) struct Temporary(TemporaryDirectory);

impl Temporary {
    /// Creates one that only this user can access.
    pub(crate) fn new() -> Result<Temporary, Failure> {
        TemporaryDirectory::new("-recording").map(Temporary).map_err(|problem| Failure::failed(format!("the recording: {problem}")))
    }

    /// Returns the path for a recording in it.
    pub(crate) fn recording(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes terminating signals remove the directory from now on, and notes if it is not in `TMPDIR`. Not to be called while a command runs:
    /// signals, and standard error, are the command's then.
    pub(crate) fn guard(&self) {
        if let Some(instead_of) = self.0.instead_of() {
            output::note(&format!("thalweg: the recording is not where temporary files belong ({instead_of})"));
        }
        let path = self.0.path().to_owned();
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
