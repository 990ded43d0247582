//! The live parameters of a store's client: those of the connections shared by read-ahead and write-behind of all its files.
//!
//! Both directions share the number of connections and the depth. Tuning them separately would take twice the measurement windows, and on
//! a mount that both reads and writes hardly two of them would be comparable.

use crate::controller::Notes;
use crate::stages::StageClock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use thalweg_wire::protocol::metadata::StoreMap;

/// Live parameters of a client; see the module documentation.
pub(super) struct Live {
    pub(super) depth: Arc<AtomicU32>,
    pub(super) streams: Arc<AtomicU32>,
    pub(super) stages: Arc<StageClock>,
    /// Bytes moved by read-ahead and write-behind.
    pub(super) moved_bytes: Arc<AtomicU64>,
    pub(super) notes: Notes,
}

/// Flow buffers in flight per connection over loopback: one in progress and one waiting. More would leave the cache.
pub(crate) const NEAR_DEPTH: u32 = 2;
/// Flow buffers in flight per connection over a network: fills 10 Gb/s at a round trip of 6 ms to each server.
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
