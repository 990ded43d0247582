//! Devices: a track for each, with a span for each request from issue to completion, and the requesting thread.

use super::facts::Facts;
use super::output::{NewSpan, Output};
use super::threads::Threads;
use crate::bpf::raw::{BLOCK_OPERATION, BLOCK_WRITEBACK, Block};
use std::collections::HashMap;
use thalweg_trace::{ObjectId, ObjectKind, Role, SpanKind, TrackId, TrackKind};

/// Bytes of a sector, the block layer's unit.
const SECTOR_BYTES: u64 = 512;

/// Name prefix of the kernel threads that do writeback, among much else.
const WORKERS: &str = "kworker";

/// The track that stands for all of them.
const WRITEBACK: &str = "writeback";

/// The devices met.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    known: HashMap<u32, (TrackId, ObjectId)>,
    writeback: Option<TrackId>,
}

impl Devices {
    fn of(&mut self, number: u32, facts: &mut dyn Facts, output: &mut Output) -> (TrackId, ObjectId) {
        if let Some(known) = self.known.get(&number) {
            return *known;
        }
        let name = facts.disk_name(number).unwrap_or_else(|| format!("{}:{}", number >> 20, number & 0xf_ffff));
        let (track, object) = (output.track_id(), output.object_id());
        output.track(track, TrackKind::Device, Role::None, None, &name);
        output.object(object, ObjectKind::Device, &name, &[]);
        self.known.insert(number, (track, object));
        (track, object)
    }

    /// Returns the track of the device with this number; `None` for 0.
    pub(crate) fn track(&mut self, number: u32, facts: &mut dyn Facts, output: &mut Output) -> Option<TrackId> {
        (number != 0).then(|| self.of(number, facts, output).0)
    }

    /// Returns the requesting thread's track; `None` if unknown.
    fn asked_by(&mut self, block: &Block, threads: &mut Threads, output: &mut Output) -> Option<TrackId> {
        if block.operation & BLOCK_WRITEBACK == 0 || !threads.is_called(block.head.thread, WORKERS) {
            return threads.track(block.head.thread, output);
        }
        Some(*self.writeback.get_or_insert_with(|| {
            let track = output.track_id();
            output.track(track, TrackKind::Thread, Role::Kernel, None, WRITEBACK);
            track
        }))
    }

    /// Handles a completed request.
    pub(crate) fn completed(&mut self, block: &Block, facts: &mut dyn Facts, threads: &mut Threads, output: &mut Output) {
        let kind = match block.operation & BLOCK_OPERATION {
            0 => SpanKind::DiskRead,
            1 => SpanKind::DiskWrite,
            2 => SpanKind::DiskFlush,
            _ => return,
        };
        let (track, object) = self.of(block.device, facts, output);
        let mut span = NewSpan::new(track, kind, block.issue_ns, block.head.at_ns);
        span.object = Some(object);
        span.waker_track = self.asked_by(block, threads, output);
        if kind != SpanKind::DiskFlush {
            span.offset_bytes = block.sector.checked_mul(SECTOR_BYTES).filter(|o| *o <= i64::MAX as u64);
            span.size_bytes = Some(u64::from(block.bytes));
        }
        span.result = (block.error != 0).then(|| -i64::from(block.error).abs());
        output.span(span);
    }
}
