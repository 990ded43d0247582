//! Cached answers about free space, for programs that ask before each file they write.

use crate::errors::HandlerResult;
use crate::fuse::reply;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;
use thalweg_client::wire::protocol::metadata::{FileId, LotId};

/// Bound: answers cached per kind.
const MOST: usize = 1024;

/// Recent answers.
#[derive(Default)]
pub(crate) struct Spaces {
    /// Lots of files and directories.
    pub lots: Recent<FileId, Option<LotId>>,
    /// Space in a lot, or outside any.
    pub spaces: Recent<Option<LotId>, reply::Space>,
}

/// A cache of recent answers.
pub(crate) struct Recent<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Recent<K, V> {
        Recent(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    /// Returns the cached answer if younger than `lifetime`; otherwise calls `ask`.
    pub(crate) fn get(&self, key: K, lifetime: Duration, ask: impl FnOnce() -> HandlerResult<V>) -> HandlerResult<V> {
        let known = self.0.lock().get(&key).filter(|(asked, _)| asked.elapsed() < lifetime).map(|(_, value)| value.clone());
        if let Some(value) = known {
            return Ok(value);
        }
        let (asked, value) = (Instant::now(), ask()?);
        let mut all = self.0.lock();
        if all.len() >= MOST {
            all.retain(|_, (asked, _)| asked.elapsed() < lifetime);
        }
        if all.len() < MOST && !lifetime.is_zero() {
            all.insert(key, (asked, value.clone()));
        }
        Ok(value)
    }
}
