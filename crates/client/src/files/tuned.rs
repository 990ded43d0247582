//! Implements [`Controller`] for a store's client: see [`super::live`].

use super::data::DataClient;
use crate::controller::{Controller, Decision, Parameter, check};
use crate::stages::Stages;
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg_trace::TraceHandle;
use thalweg_wire::Result;
use thalweg_wire::limits;

/// Bound: connections per server and direction: a mount's windows cannot keep more of them busy.
const MOST_STREAMS: u64 = 32;
/// Bound: flow buffers in flight per connection.
const MOST_DEPTH: u64 = 64;

impl DataClient {
    /// Stops collecting decisions and writes those collected to the recording.
    pub fn end_tuning(&self, trace: &TraceHandle) {
        self.live().notes.end(trace, trace.thread("tuner").track());
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
        // Surplus threads end on their own; missing ones are started on demand.
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
