//! Writes packets of a Perfetto trace, and the names that they refer to.

use super::perfetto_arrows::What;
use super::perfetto_messages::{ClockReading, ClockSnapshot, InternedData, InternedName, Packet, TrackDescriptor, TrackEvent};
use crate::{Frame, MarkKind, ObjectId, Source, SpanKind, Time, TraceError};
use prost::Message;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Perfetto's id of `CLOCK_MONOTONIC`.
const MONOTONIC: u32 = 3;
const SEQUENCE: u32 = 1;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;

/// Annotations, in the order of their interned ids (from 1).
pub(super) const ANNOTATIONS: [&str; 13] = [
    "object",
    "size_bytes",
    "offset_bytes",
    "request",
    "cpu_ns",
    "runqueue_ns",
    "result",
    "count",
    "waker_track",
    "span",
    "value",
    "parent",
    "stack",
];

/// Maximum objects named in one packet.
const OBJECTS_PER_PACKET: usize = 4_096;

/// Interned ids of mark names begin here, after those of span kinds.
pub(super) const MARK_NAMES: u64 = 1_000;
/// Those of the ends of arrows, after those of marks.
pub(super) const ARROW_NAMES: u64 = 2_000;

fn interned(names: impl Iterator<Item = (u64, String)>) -> Vec<InternedName> {
    names.map(|(iid, name)| InternedName { iid: Some(iid), name: Some(name) }).collect()
}

/// Returns the categories: the part of a kind's name before the dot.
fn categories() -> Vec<&'static str> {
    let mut categories: Vec<&str> = SpanKind::ALL.iter().filter_map(|kind| kind.name().split('.').next()).collect();
    categories.dedup();
    categories
}

/// Writes packets.
pub(super) struct Writer {
    path: PathBuf,
    pub(super) out: BufWriter<File>,
    bytes: Vec<u8>,
    pub(super) category_of_kind: Vec<u64>,
    pub(super) object_iids: HashMap<ObjectId, u64>,
    pub(super) stack_iids: HashMap<u32, u64>,
}

impl super::perfetto_samples::Packets for Writer {
    fn intern(&mut self, names: InternedData) -> Result<(), TraceError> {
        self.packet(Packet { interned_data: Some(names), ..Packet::default() })
    }

    fn sample(&mut self, at: Time, packet: Packet) -> Result<(), TraceError> {
        self.at(at, packet)
    }
}

impl Writer {
    /// Creates the file.
    pub(super) fn create(path: &Path) -> Result<Writer, TraceError> {
        let file = File::create(path).map_err(|e| TraceError::new(path, format!("cannot be created: {e}")))?;
        let categories = categories();
        let of_kind =
            |kind: &SpanKind| categories.iter().position(|c| kind.name().split('.').next() == Some(c)).map_or(0, |i| i as u64 + 1);
        let category_of_kind = SpanKind::ALL.iter().map(of_kind).collect();
        Ok(Writer {
            path: path.to_owned(),
            out: BufWriter::with_capacity(1 << 18, file),
            bytes: Vec::new(),
            category_of_kind,
            object_iids: HashMap::new(),
            stack_iids: HashMap::new(),
        })
    }

    /// Writes one packet: field 1 of the message `Trace`, so that packets can be concatenated.
    fn packet(&mut self, mut packet: Packet) -> Result<(), TraceError> {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        packet.sequence_flags.get_or_insert(NEEDS_STATE);
        self.bytes.clear();
        self.bytes.push(0x0a);
        packet.encode_length_delimited(&mut self.bytes).map_err(|e| TraceError::new(&self.path, e))?;
        self.out.write_all(&self.bytes).map_err(|e| TraceError::new(&self.path, format!("cannot be written: {e}")))
    }

    /// Writes the clock and the interned names that events refer to.
    pub(super) fn preamble(&mut self, source: &dyn Source) -> Result<(), TraceError> {
        let start = nanoseconds(source.meta().start);
        let clocks = vec![ClockReading { clock_id: Some(MONOTONIC), timestamp: Some(start) }];
        let clock_snapshot = Some(ClockSnapshot { clocks, primary_trace_clock: Some(MONOTONIC as i32) });
        let marks = MarkKind::ALL.iter().map(|kind| (MARK_NAMES + *kind as u64, kind.name().to_owned()));
        let arrows = What::ALL.iter().map(|what| (ARROW_NAMES + *what as u64, what.name().to_owned()));
        let kinds = SpanKind::ALL.iter().map(|kind| (*kind as u64 + 1, kind.name().to_owned()));
        let numbered = |names: &[&str]| interned(names.iter().enumerate().map(|(i, name)| (i as u64 + 1, (*name).to_owned())));
        let names = InternedData {
            event_categories: numbered(&categories()),
            event_names: interned(kinds.chain(marks).chain(arrows)),
            debug_annotation_names: numbered(&ANNOTATIONS),
            ..InternedData::default()
        };
        self.packet(Packet { clock_snapshot, sequence_flags: Some(STATE_CLEARED), interned_data: Some(names), ..Packet::default() })?;
        for (chunk, objects) in source.objects().chunks(OBJECTS_PER_PACKET).enumerate() {
            let mut values = Vec::new();
            for (i, object) in objects.iter().enumerate() {
                let iid = (chunk * OBJECTS_PER_PACKET + i) as u64 + 1;
                self.object_iids.insert(object.object, iid);
                values.push((iid, object.name.clone()));
            }
            let names = InternedData { debug_annotation_string_values: interned(values.into_iter()), ..InternedData::default() };
            super::perfetto_samples::Packets::intern(self, names)?;
        }
        Ok(())
    }

    /// Interns the stacks of waits as text.
    pub(super) fn stacks_of_waits(&mut self, source: &dyn Source, of_waits: &HashSet<u32>) -> Result<(), TraceError> {
        if of_waits.is_empty() {
            return Ok(());
        }
        let first = self.object_iids.values().max().map_or(1, |last| last + 1);
        let mut values = Vec::new();
        for stack in source.stacks()?.into_iter().filter(|stack| of_waits.contains(&stack.stack)) {
            let iid = first + values.len() as u64;
            self.stack_iids.insert(stack.stack, iid);
            let functions: Vec<String> = stack.frames.iter().map(|frame| Frame::parse(frame).function()).collect();
            values.push((iid, functions.join(" < ")));
        }
        for chunk in values.chunks(OBJECTS_PER_PACKET) {
            let names = InternedData { debug_annotation_string_values: interned(chunk.iter().cloned()), ..InternedData::default() };
            super::perfetto_samples::Packets::intern(self, names)?;
        }
        Ok(())
    }

    /// Describes a track.
    pub(super) fn describe(&mut self, track: TrackDescriptor) -> Result<(), TraceError> {
        self.packet(Packet { track_descriptor: Some(track), ..Packet::default() })
    }

    /// Writes the packet of an instant.
    pub(super) fn at(&mut self, at: Time, packet: Packet) -> Result<(), TraceError> {
        self.packet(Packet { timestamp: Some(nanoseconds(at)), timestamp_clock_id: Some(MONOTONIC), ..packet })
    }

    /// Writes an event on a track.
    pub(super) fn event(&mut self, at: Time, event: TrackEvent) -> Result<(), TraceError> {
        self.at(at, Packet { track_event: Some(event), ..Packet::default() })
    }
}

/// Perfetto's times are unsigned: instants before the host's boot become 0.
fn nanoseconds(at: Time) -> u64 {
    u64::try_from(at.ns()).unwrap_or(0)
}
