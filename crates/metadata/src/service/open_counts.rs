//! Open files per credential, over all its connections.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};
use thalweg_base::sync::Mutex;
use thalweg_wire::trust::CredentialId;

/// The number of open files per credential.
#[derive(Default)]
pub(super) struct OpenCounts(Mutex<HashMap<CredentialId, Weak<AtomicUsize>>>);

impl OpenCounts {
    /// Returns a credential's counter, which exists while it is held.
    pub(super) fn of(&self, credential: CredentialId) -> Arc<AtomicUsize> {
        let mut counts = self.0.lock();
        if let Some(count) = counts.get(&credential).and_then(Weak::upgrade) {
            return count;
        }
        counts.retain(|_, count| count.strong_count() > 0);
        let count = Arc::default();
        counts.insert(credential, Arc::downgrade(&count));
        count
    }
}
