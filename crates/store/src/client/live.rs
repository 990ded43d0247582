//! The live numbers of a store's client: of the connections that read-ahead and write-behind of all its files share.
//!
//! Both directions have one number of connections and one depth: a tuner that turned them apart would need twice the windows, and a mount that
//! both reads and writes would hardly ever have two that can be compared.

use super::data::{DataClient, FAR_DEPTH, NEAR_DEPTH, is_near};
use super::engine::stages::StageClock;
use crate::controller::{Controller, Decision, Notes, Parameter, Stages, check};
use crate::error::Result;
use crate::limits;
use crate::protocol::metadata::StoreMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use thalweg_trace::TraceHandle;

/// See the module's page.
pub(super) struct Live {
    pub(super) depth: Arc<AtomicU32>,
    pub(super) streams: Arc<AtomicU32>,
    pub(super) stages: Arc<StageClock>,
    /// Bytes that read-ahead and write-behind have moved.
    pub(super) moved_bytes: Arc<AtomicU64>,
    notes: Notes,
}

/// Most connections to a server for each direction: a mount's windows are not large enough to keep more of them busy.
const MOST_STREAMS: u64 = 32;
/// Most flow buffers in flight on one.
const MOST_DEPTH: u64 = 64;

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

impl DataClient {
    /// No decision is noted any more; those that were become a part of the recording.
    pub fn end_tuning(&self, mode: &TraceHandle) {
        self.live().notes.end(mode);
    }
}

impl Controller for DataClient {
    fn parameters(&self) -> Vec<Parameter> {
        let value = |of: &AtomicU32| Some(u64::from(of.load(Ordering::Relaxed)));
        vec![
            Parameter { name: "depth", value: value(&self.live().depth), least: 1, most: MOST_DEPTH, live: true },
            Parameter { name: "streams", value: value(&self.live().streams), least: 1, most: MOST_STREAMS, live: true },
        ]
    }

    fn set(&self, name: &str, value: u64) -> Result<()> {
        check(&self.parameters(), name, value)?;
        let of = if name == "depth" { &self.live().depth } else { &self.live().streams };
        of.store(value as u32, Ordering::Relaxed);
        // Threads that are one too many end when they look next; those that are wanted are started when there is something to do.
        self.engines().for_each(|engine| engine.adjust());
        Ok(())
    }

    fn moved_bytes(&self) -> u64 {
        self.live().moved_bytes.load(Ordering::Relaxed)
    }

    fn stages(&self) -> Stages {
        self.live().stages.read()
    }

    fn memory_bytes(&self, name: &str, value: u64) -> u64 {
        let of = |wanted: &str, own: &AtomicU32| if name == wanted { value } else { u64::from(own.load(Ordering::Relaxed)) };
        let connections = of("streams", &self.live().streams).saturating_mul(2 * self.links().len().max(1) as u64);
        of("depth", &self.live().depth).saturating_mul(connections).saturating_mul(limits::CONNECTION_MEMORY_BYTES)
    }

    fn may_rest(&self) -> bool {
        true
    }

    fn note(&self, decision: Decision) {
        self.live().notes.note(decision);
    }
}
