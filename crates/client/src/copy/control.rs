//! The live parameters of a copy, and of a tree's copy.

use crate::controller::{Controller, Decision, Notes, Parameter, check};
use crate::stages::{StageClock, Stages};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use thalweg_trace::{TraceHandle, TrackId};
use thalweg_wire::Result;
use thalweg_wire::limits;

/// The live parameters of a running copy; 0: the copy chooses. See [`Controller`].
#[derive(Debug, Default)]
pub struct Control {
    pub(super) requests: Arc<AtomicU32>,
    pub(super) depth: Arc<AtomicU32>,
    pub(super) streams: Arc<AtomicU32>,
    pub(super) buffer_bytes: Arc<AtomicU64>,
    pub(super) socket_buffer_bytes: Arc<AtomicU64>,
    pub(super) moved_bytes: Arc<AtomicU64>,
    /// Bytes in holes, which are not moved.
    pub(super) hole_bytes: AtomicU64,
    /// Bytes of the source; 0: unknown.
    pub(super) data_bytes: AtomicU64,
    pub(super) stages: Arc<StageClock>,
    /// Servers that hold part of the file.
    pub(super) servers: Arc<AtomicU32>,
    /// Memory per request, in bytes; 0: the direct data path, whose requests have no memory.
    pub(super) request_memory_bytes: Arc<AtomicU64>,
    /// Batches of small files in progress; 0: not a tree.
    pub(super) workers: AtomicU32,
    notes: Notes,
}

/// Maximum requests in flight, connections per server, and flow buffers in flight per connection.
pub(super) const MOST: u32 = 256;

impl Control {
    /// Returns the control of one large file of a tree, sharing the tree's parameters.
    pub(super) fn part_of(tree: &Control) -> Control {
        Control {
            requests: Arc::clone(&tree.requests),
            depth: Arc::clone(&tree.depth),
            streams: Arc::clone(&tree.streams),
            buffer_bytes: Arc::clone(&tree.buffer_bytes),
            socket_buffer_bytes: Arc::clone(&tree.socket_buffer_bytes),
            stages: Arc::clone(&tree.stages),
            servers: Arc::clone(&tree.servers),
            request_memory_bytes: Arc::clone(&tree.request_memory_bytes),
            ..Control::default()
        }
    }

    /// Stops collecting decisions and writes those collected to the recording.
    pub(super) fn end(&self, trace: &TraceHandle, track: Option<TrackId>) {
        self.notes.end(trace, track);
    }
}

impl Controller for Control {
    fn parameters(&self) -> Vec<Parameter> {
        let some = |value: u64| (value != 0).then_some(value);
        let number = |of: &AtomicU32| some(u64::from(of.load(Ordering::Relaxed)));
        let most = u64::from(MOST);
        let buffer_bytes = some(self.buffer_bytes.load(Ordering::Relaxed));
        let socket_buffer_bytes = some(self.socket_buffer_bytes.load(Ordering::Relaxed));
        let largest = limits::PAYLOAD_BYTES;
        vec![
            Parameter { name: "requests", value: number(&self.requests), least: 1, most, live: true },
            Parameter { name: "depth", value: number(&self.depth), least: 1, most, live: true },
            Parameter { name: "buffer", value: buffer_bytes, least: 4096, most: largest, live: true },
            Parameter { name: "streams", value: number(&self.streams), least: 1, most, live: true },
            Parameter { name: "socket-buffer", value: socket_buffer_bytes, least: 4096, most: 1 << 30, live: false },
            Parameter { name: "workers", value: number(&self.workers), least: 1, most, live: true },
        ]
    }

    fn set(&self, name: &str, value: u64) -> Result<()> {
        check(&self.parameters(), name, value)?;
        match name {
            "requests" => self.requests.store(value as u32, Ordering::Relaxed),
            "depth" => self.depth.store(value as u32, Ordering::Relaxed),
            "streams" => self.streams.store(value as u32, Ordering::Relaxed),
            "workers" => self.workers.store(value as u32, Ordering::Relaxed),
            "buffer" => self.buffer_bytes.store(value, Ordering::Relaxed),
            _ => self.socket_buffer_bytes.store(value, Ordering::Relaxed),
        }
        Ok(())
    }

    fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    fn left_bytes(&self) -> Option<u64> {
        let data_bytes = self.data_bytes.load(Ordering::Relaxed);
        let gone = self.moved_bytes() + self.hole_bytes.load(Ordering::Relaxed);
        (data_bytes > 0).then(|| data_bytes.saturating_sub(gone))
    }

    fn stages(&self) -> Stages {
        self.stages.read()
    }

    fn memory_bytes(&self, name: &str, value: u64) -> u64 {
        let of = |wanted: &str, own: u64| if name == wanted { value } else { own.max(1) };
        let number = |of: &AtomicU32| u64::from(of.load(Ordering::Relaxed));
        let each = of("depth", number(&self.depth)).saturating_mul(of("buffer", self.buffer_bytes.load(Ordering::Relaxed)));
        let connections = of("streams", number(&self.streams)).saturating_mul(number(&self.servers).max(1));
        let requests = of("requests", number(&self.requests)).saturating_mul(self.request_memory_bytes.load(Ordering::Relaxed));
        let workers = if name == "workers" { value } else { number(&self.workers) };
        let batches = workers.saturating_mul(limits::MANY_BYTES);
        each.saturating_mul(connections).saturating_add(requests).saturating_add(batches)
    }

    fn note(&self, decision: Decision) {
        self.notes.note(decision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::ErrorKind;

    #[test]
    fn a_controller_takes_what_it_says_it_takes_and_nothing_else() {
        let control = Control::default();
        for parameter in control.parameters() {
            assert_eq!(parameter.value, None, "{}", parameter.name);
            for value in [parameter.least, parameter.most] {
                control.set(parameter.name, value).unwrap();
                let now = control.parameters().into_iter().find(|p| p.name == parameter.name).unwrap();
                assert_eq!(now.value, Some(value));
            }
            for value in [parameter.least - 1, parameter.most + 1] {
                let error = control.set(parameter.name, value).unwrap_err();
                assert!(error.kind() == ErrorKind::Invalid && error.message().starts_with(parameter.name), "{error}");
            }
        }
        assert_eq!(control.set("speed", 1).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn memory_is_what_flow_buffers_in_flight_hold_at_all_servers() {
        let control = Control::default();
        for (name, value) in [("depth", 8), ("buffer", 1 << 20), ("streams", 2)] {
            control.set(name, value).unwrap();
        }
        control.servers.store(4, Ordering::Relaxed);
        assert_eq!(control.memory_bytes("streams", 2), 64 << 20);
        assert_eq!(control.memory_bytes("streams", 4), 128 << 20);
        assert_eq!(control.memory_bytes("depth", 1), 8 << 20);
        assert_eq!(control.memory_bytes("depth", u64::MAX), u64::MAX, "no number overflows it");
    }
}
