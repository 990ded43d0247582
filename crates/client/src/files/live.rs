//! The live numbers of a store's client: of the connections that read-ahead and write-behind of all its files share.
//!
//! Both directions have one number of connections and one depth: a tuner that turned them apart would need twice the windows, and a mount that
//! both reads and writes would hardly ever have two that can be compared.

use crate::controller::Notes;
use crate::stages::StageClock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use thalweg_wire::protocol::metadata::StoreMap;

/// See the module's page.
pub(super) struct Live {
    pub(super) depth: Arc<AtomicU32>,
    pub(super) streams: Arc<AtomicU32>,
    pub(super) stages: Arc<StageClock>,
    /// Bytes that read-ahead and write-behind have moved.
    pub(super) moved_bytes: Arc<AtomicU64>,
    pub(super) notes: Notes,
}

/// Flow buffers in flight on a connection over loopback: one is worked on and one waits. More only leave the cache.
pub(crate) const NEAR_DEPTH: u32 = 2;
/// Over a network: enough to fill 10 Gb/s over 6 ms to each server.
pub(crate) const FAR_DEPTH: u32 = 8;

/// Whether all servers are on this machine.
pub(super) fn is_near(map: &StoreMap) -> bool {
    map.servers.iter().all(|server| server.address.starts_with("127."))
}

impl Live {
    pub(super) fn new(map: &StoreMap) -> Live {
        let depth = if is_near(map) { NEAR_DEPTH } else { FAR_DEPTH };
        // One connection's thread computes checksums on one processor.
        let streams = if map.servers.len() == 1 { 2 } else { 1 };
        Live {
            depth: Arc::new(AtomicU32::new(depth)),
            streams: Arc::new(AtomicU32::new(streams)),
            stages: Arc::default(),
            moved_bytes: Arc::default(),
            notes: Notes::default(),
        }
    }
}
