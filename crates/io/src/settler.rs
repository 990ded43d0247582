//! The thread of a server that does what is due for the checksums of its targets.

use super::target::Target;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_wire::limits;
use thalweg_wire::protocol::io::TargetId;
use thalweg_wire::{Error, Result};

/// The thread, and whether it is to end.
#[derive(Default)]
pub(super) struct Settler {
    state: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Settler {
    /// Starts the thread for these targets.
    pub(super) fn start(&self, server: &str, targets: &Arc<BTreeMap<TargetId, Target>>) -> Result<()> {
        let (state, targets) = (Arc::clone(&self.state), Arc::clone(targets));
        let work = move || {
            let (is_over, changed) = &*state;
            loop {
                let mut over = is_over.lock();
                if !*over {
                    changed.wait_for(&mut over, limits::SUMS_ROUND);
                }
                if *over {
                    return;
                }
                drop(over);
                for target in targets.values() {
                    target.settle_until(limits::SUMS_AFTER, &|| *is_over.lock());
                }
            }
        };
        let thread = std::thread::Builder::new().name(format!("{server} checksums")).spawn(work);
        *self.thread.lock() = Some(thread.map_err(|e| Error::system("starting a thread", e))?);
        Ok(())
    }

    /// Stops the thread, after at most one step of its work.
    pub(super) fn stop(&self) {
        *self.state.0.lock() = true;
        self.state.1.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}
