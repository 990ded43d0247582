//! Exports a recording as a Perfetto trace, for ui.perfetto.dev or Perfetto's trace processor.
//!
//! Spans are slices with their fields as annotations; overlapping spans of a track get lanes of their own
//! ([`super::perfetto_lanes`]); waits carry the stack that waited, innermost function first; a flow joins both ends
//! of an RPC; marks are instants; counters are counter tracks; samples with stacks are a profile
//! ([`super::perfetto_samples`]). Times are the reference host's monotonic clock.
//!
//! Perfetto orders packets by time and, at one instant, by their position in the file; a slice's end closes whichever
//! slice is innermost then. So packets are written in order: at one instant first ends, then begins from the longest
//! to the shortest. Spans arrive backward, so they are sorted, on disk if there are many.

use super::perfetto_lanes::Lanes;
use super::perfetto_messages::{
    ClockReading, ClockSnapshot, CounterDescriptor, DebugAnnotation, InternedData, InternedName, Packet, ProcessDescriptor,
    ThreadDescriptor, TrackDescriptor, TrackEvent,
};
use crate::recording::{Key, Sortable, Sorter, TemporaryDirectory};
use crate::{CounterName, CounterOf, Frame, Mark, MarkKind, ObjectId, Source, Span, SpanKind, Time, TraceError, TrackId};
use prost::Message;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;
/// Perfetto's id of `CLOCK_MONOTONIC`.
const MONOTONIC: u32 = 3;
const SEQUENCE: u32 = 1;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;

/// Annotations, in the order of their interned ids (from 1).
const ANNOTATIONS: [&str; 13] = [
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

/// Writes the trace of `source` to the file `out`.
pub fn export(source: &dyn Source, out: &Path) -> Result<(), TraceError> {
    let directory = TemporaryDirectory::new()?;
    let mut sorter = Sorter::new(directory.path(), "slices");
    let mut lanes = Lanes::default();
    let mut many_lanes: BTreeMap<u64, usize> = BTreeMap::new();
    let mut of_waits: HashSet<u32> = HashSet::new();
    each_span_backward(source, |span| {
        let (lane, depth) = lanes.place(&span);
        let lane = u32::try_from(lane).unwrap_or(u32::MAX);
        let most = many_lanes.entry(span.track.number()).or_default();
        *most = (*most).max(lane as usize);
        of_waits.extend(span.stack);
        sorter.push(Edge::Begin { span, lane, depth: depth.min(255) as u8 })?;
        sorter.push(Edge::End { at: span.end(), duration_ns: span.duration_ns, span: span.span.number(), track: span.track, lane })
    })?;
    for mark in source.marks()? {
        many_lanes.entry(mark.track.number()).or_default();
        sorter.push(Edge::Mark(mark))?;
    }
    let tracks = Tracks::of(source, &many_lanes);
    let mut writer = Writer::create(out)?;
    writer.preamble(source)?;
    writer.stacks_of_waits(source, &of_waits)?;
    tracks.describe(source, &many_lanes, &mut writer)?;
    sorter.drain(|edge| writer.edge(&edge, &tracks))?;
    counters(source, &tracks, &mut writer)?;
    super::perfetto_samples::samples(source, &mut writer, |host, pid| tracks.pid(host.0, pid))?;
    writer.out.flush().map_err(|e| TraceError::new(out, format!("cannot be written: {e}")))
}

/// Yields spans backward; those with the same end from longest to shortest, so that parents precede their children.
fn each_span_backward(source: &dyn Source, mut each: impl FnMut(Span) -> Result<(), TraceError>) -> Result<(), TraceError> {
    let mut tied: Vec<Span> = Vec::new();
    let mut hand_over = |tied: &mut Vec<Span>| {
        tied.sort_by_key(|span| (span.start, span.span));
        tied.drain(..).try_for_each(&mut each)
    };
    for batch in source.spans_backward() {
        let batch = batch?;
        for span in (0..batch.len()).filter_map(|row| batch.row(row)) {
            if tied.first().is_some_and(|first| first.end() != span.end()) {
                hand_over(&mut tied)?;
            }
            tied.push(span);
        }
    }
    hand_over(&mut tied)
}

/// A pending packet with its sort key.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Edge {
    Begin { span: Span, lane: u32, depth: u8 },
    End { at: Time, duration_ns: u64, span: u64, track: TrackId, lane: u32 },
    Mark(Mark),
}

impl Sortable for Edge {
    fn key(&self) -> Key {
        let cut = |ns: u64| ns.min((1 << 52) - 1);
        let rank = |rank: u64, within: u64| (rank << 60) | within;
        match *self {
            // A zero-length span: its end directly follows its beginning, after everything else at that instant.
            Edge::Begin { span, .. } if span.duration_ns == 0 => (0, span.start.ns(), rank(3, (span.span.number() << 1) & ((1 << 60) - 1))),
            Edge::End { at, duration_ns: 0, span, .. } => (0, at.ns(), rank(3, (span << 1) & ((1 << 60) - 1) | 1)),
            Edge::End { at, duration_ns, .. } => (0, at.ns(), rank(0, cut(duration_ns))),
            Edge::Begin { span, depth, .. } => {
                (0, span.start.ns(), rank(1, (((1 << 51) - span.duration_ns.min(1 << 51)) << 8) | u64::from(depth)))
            }
            Edge::Mark(mark) => (0, mark.at.ns(), rank(2, 0)),
        }
    }
}

/// Maps our tracks to Perfetto's: ids from 1, each track's lanes consecutive.
struct Tracks {
    lanes: HashMap<u64, u64>,
    processes: BTreeMap<(u16, u32), u64>,
    many_hosts: bool,
    next: u64,
}

impl Tracks {
    fn of(source: &dyn Source, many_lanes: &BTreeMap<u64, usize>) -> Tracks {
        let mut tracks = Tracks { lanes: HashMap::new(), processes: BTreeMap::new(), many_hosts: false, next: 1 };
        for track in source.tracks() {
            tracks.add(track.track.number(), many_lanes);
            tracks.many_hosts |= track.host.0 != 0;
            if let Some(pid) = track.pid
                && !tracks.processes.contains_key(&(track.host.0, pid))
            {
                tracks.processes.insert((track.host.0, pid), tracks.next);
                tracks.next += 1;
            }
        }
        // Spans of a track whose row was lost still get a track.
        for &track in many_lanes.keys() {
            tracks.add(track, many_lanes);
        }
        tracks
    }

    fn add(&mut self, track: u64, many_lanes: &BTreeMap<u64, usize>) {
        let lanes = many_lanes.get(&track).copied().unwrap_or(0) as u64 + 1;
        if !self.lanes.contains_key(&track) {
            self.lanes.insert(track, self.next);
            self.next += lanes;
        }
    }

    fn uuid(&self, track: TrackId, lane: u32) -> u64 {
        self.lanes.get(&track.number()).copied().unwrap_or(0) + u64::from(lane)
    }

    /// Process ids of different hosts must not collide.
    fn pid(&self, host: u16, pid: u32) -> i32 {
        let pid = pid & 0x3f_ffff;
        if self.many_hosts { ((u32::from(host) & 0x1ff) << 22 | pid) as i32 } else { pid as i32 }
    }

    fn describe(&self, source: &dyn Source, many_lanes: &BTreeMap<u64, usize>, writer: &mut Writer) -> Result<(), TraceError> {
        let host_name = |host: u16| source.hosts().iter().find(|h| h.host.0 == host).map_or(format!("host {host}"), |h| h.name.clone());
        for (&(host, pid), &uuid) in &self.processes {
            let of_process = |t: &&crate::Track| t.host.0 == host && t.pid == Some(pid);
            let roles: std::collections::BTreeSet<&str> = source.tracks().iter().filter(of_process).map(|t| t.role.name()).collect();
            let name = format!("{} ({})", host_name(host), roles.into_iter().collect::<Vec<_>>().join(", "));
            let process = Some(ProcessDescriptor { pid: Some(self.pid(host, pid)), process_name: Some(name) });
            writer.describe(TrackDescriptor { uuid: Some(uuid), process, ..TrackDescriptor::default() })?;
        }
        let mut threads = HashSet::new();
        for track in source.tracks() {
            let uuid = self.uuid(track.track, 0);
            let parent_uuid = track.pid.and_then(|pid| self.processes.get(&(track.host.0, pid)).copied());
            // A thread may have been traced twice: only the first track becomes the thread itself.
            let thread = track.pid.zip(track.tid).filter(|&ids| threads.insert((track.host, ids))).map(|(pid, tid)| ThreadDescriptor {
                pid: Some(self.pid(track.host.0, pid)),
                tid: Some(self.pid(track.host.0, tid)),
                thread_name: Some(track.name.clone()),
            });
            let name = thread.is_none().then(|| track.name.clone());
            writer.describe(TrackDescriptor { uuid: Some(uuid), name, thread, parent_uuid, ..TrackDescriptor::default() })?;
            describe_lanes(uuid, &track.name, many_lanes.get(&track.track.number()), writer)?;
        }
        let known: HashSet<u64> = source.tracks().iter().map(|track| track.track.number()).collect();
        for (&track, &uuid) in self.lanes.iter().filter(|(track, _)| !known.contains(track)) {
            let name = format!("track {track}, whose row was lost");
            writer.describe(TrackDescriptor { uuid: Some(uuid), name: Some(name.clone()), ..TrackDescriptor::default() })?;
            describe_lanes(uuid, &name, many_lanes.get(&track), writer)?;
        }
        Ok(())
    }
}

fn describe_lanes(uuid: u64, name: &str, last: Option<&usize>, writer: &mut Writer) -> Result<(), TraceError> {
    for lane in 1..=last.copied().unwrap_or(0) {
        let (lane_uuid, name) = (Some(uuid + lane as u64), Some(format!("{name} ({})", lane + 1)));
        writer.describe(TrackDescriptor { uuid: lane_uuid, name, parent_uuid: Some(uuid), ..TrackDescriptor::default() })?;
    }
    Ok(())
}

fn counters(source: &dyn Source, tracks: &Tracks, writer: &mut Writer) -> Result<(), TraceError> {
    let objects: HashMap<ObjectId, &str> = source.objects().iter().map(|o| (o.object, o.name.as_str())).collect();
    let mut next = tracks.next;
    for &name in CounterName::ALL {
        let mut uuids: HashMap<CounterOf, u64> = HashMap::new();
        for counter in source.counters(name)? {
            let uuid = match uuids.get(&counter.of) {
                Some(&uuid) => uuid,
                None => {
                    let (label, parent_uuid) = match counter.of {
                        CounterOf::Track(track) => (name.name().to_owned(), tracks.lanes.get(&track.number()).copied()),
                        CounterOf::Object(object) => (format!("{} {}", name.name(), objects.get(&object).unwrap_or(&"")), None),
                    };
                    next += 1;
                    let unit = Some(CounterDescriptor { unit_name: unit(name).map(str::to_owned) });
                    writer.describe(TrackDescriptor {
                        uuid: Some(next),
                        name: Some(label),
                        counter: unit,
                        parent_uuid,
                        ..TrackDescriptor::default()
                    })?;
                    uuids.insert(counter.of, next);
                    next
                }
            };
            let event =
                TrackEvent { kind: Some(COUNTER), track_uuid: Some(uuid), counter_value: Some(counter.value), ..TrackEvent::default() };
            writer.event(counter.at, event)?;
        }
    }
    Ok(())
}

fn unit(name: CounterName) -> Option<&'static str> {
    use CounterName::{CpuRunNs, CpuRunqueueNs, RpcPending, RpcWindow, TcpSrttUs};
    use CounterName::{FileCreates, FileListed, FileOpens, FileReads, FileRemoves, FileRenames, FileStats};
    match name {
        TcpSrttUs => Some("us"),
        CpuRunNs | CpuRunqueueNs => Some("ns"),
        RpcPending | RpcWindow | FileOpens | FileCreates | FileStats | FileRemoves | FileRenames | FileListed | FileReads => None,
        _ => Some("bytes"),
    }
}

fn interned(names: impl Iterator<Item = (u64, String)>) -> Vec<InternedName> {
    names.map(|(iid, name)| InternedName { iid: Some(iid), name: Some(name) }).collect()
}

/// Returns the categories: the part of a kind's name before the dot.
fn categories() -> Vec<&'static str> {
    let mut categories: Vec<&str> = SpanKind::ALL.iter().filter_map(|kind| kind.name().split('.').next()).collect();
    categories.dedup();
    categories
}

struct Writer {
    path: PathBuf,
    out: BufWriter<File>,
    bytes: Vec<u8>,
    category_of_kind: Vec<u64>,
    object_iids: HashMap<ObjectId, u64>,
    stack_iids: HashMap<u32, u64>,
}

impl super::perfetto_samples::Packets for Writer {
    fn intern(&mut self, names: InternedData) -> Result<(), TraceError> {
        self.packet(Packet { interned_data: Some(names), ..Packet::default() })
    }

    fn sample(&mut self, at: Time, packet: Packet) -> Result<(), TraceError> {
        self.packet(Packet { timestamp: Some(nanoseconds(at)), timestamp_clock_id: Some(MONOTONIC), ..packet })
    }
}

impl Writer {
    fn create(path: &Path) -> Result<Writer, TraceError> {
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
    fn preamble(&mut self, source: &dyn Source) -> Result<(), TraceError> {
        let start = nanoseconds(source.meta().start);
        let clocks = vec![ClockReading { clock_id: Some(MONOTONIC), timestamp: Some(start) }];
        let clock_snapshot = Some(ClockSnapshot { clocks, primary_trace_clock: Some(MONOTONIC as i32) });
        let marks = MarkKind::ALL.iter().map(|kind| (MARK_NAMES + *kind as u64, kind.name().to_owned()));
        let kinds = SpanKind::ALL.iter().map(|kind| (*kind as u64 + 1, kind.name().to_owned()));
        let numbered = |names: &[&str]| interned(names.iter().enumerate().map(|(i, name)| (i as u64 + 1, (*name).to_owned())));
        let names = InternedData {
            event_categories: numbered(&categories()),
            event_names: interned(kinds.chain(marks)),
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
    fn stacks_of_waits(&mut self, source: &dyn Source, of_waits: &HashSet<u32>) -> Result<(), TraceError> {
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

    fn describe(&mut self, track: TrackDescriptor) -> Result<(), TraceError> {
        self.packet(Packet { track_descriptor: Some(track), ..Packet::default() })
    }

    fn event(&mut self, at: Time, event: TrackEvent) -> Result<(), TraceError> {
        let (timestamp, timestamp_clock_id) = (Some(nanoseconds(at)), Some(MONOTONIC));
        self.packet(Packet { timestamp, timestamp_clock_id, track_event: Some(event), ..Packet::default() })
    }

    fn edge(&mut self, edge: &Edge, tracks: &Tracks) -> Result<(), TraceError> {
        match edge {
            Edge::End { at, track, lane, .. } => {
                self.event(*at, TrackEvent { kind: Some(SLICE_END), track_uuid: Some(tracks.uuid(*track, *lane)), ..TrackEvent::default() })
            }
            Edge::Begin { span, lane, .. } => {
                let event = self.slice(span, tracks.uuid(span.track, *lane));
                self.event(span.start, event)
            }
            Edge::Mark(mark) => {
                let mut notes = Vec::new();
                annotate(&mut notes, "value", mark.value.map(Note::Signed));
                annotate(&mut notes, "object", mark.object.and_then(|o| self.object_iids.get(&o)).map(|&iid| Note::Name(iid)));
                let event = TrackEvent {
                    kind: Some(INSTANT),
                    name_iid: Some(MARK_NAMES + mark.kind as u64),
                    track_uuid: Some(tracks.uuid(mark.track, 0)),
                    debug_annotations: notes,
                    ..TrackEvent::default()
                };
                self.event(mark.at, event)
            }
        }
    }

    fn slice(&self, span: &Span, track_uuid: u64) -> TrackEvent {
        let mut notes = Vec::with_capacity(8);
        annotate(&mut notes, "object", span.object.and_then(|o| self.object_iids.get(&o)).map(|&iid| Note::Name(iid)));
        annotate(&mut notes, "size_bytes", span.size_bytes.map(Note::Number));
        annotate(&mut notes, "offset_bytes", span.offset_bytes.map(Note::Number));
        annotate(&mut notes, "request", span.request.map(|r| Note::Number(r.number())));
        annotate(&mut notes, "cpu_ns", span.cpu_ns.map(Note::Number));
        annotate(&mut notes, "runqueue_ns", span.runqueue_ns.map(Note::Number));
        annotate(&mut notes, "result", span.result.map(Note::Signed));
        annotate(&mut notes, "count", (span.count > 1).then_some(Note::Number(u64::from(span.count))));
        annotate(&mut notes, "waker_track", span.waker_track.map(|t| Note::Number(t.number())));
        annotate(&mut notes, "span", Some(Note::Number(span.span.number())));
        annotate(&mut notes, "parent", span.parent.map(|p| Note::Number(p.number())));
        annotate(&mut notes, "stack", span.stack.and_then(|s| self.stack_iids.get(&s)).map(|&iid| Note::Name(iid)));
        let joined = matches!(span.kind, SpanKind::RpcCall | SpanKind::RpcServe);
        TrackEvent {
            kind: Some(SLICE_BEGIN),
            name_iid: Some(span.kind as u64 + 1),
            category_iids: vec![self.category_of_kind[span.kind as usize]],
            track_uuid: Some(track_uuid),
            debug_annotations: notes,
            flow_ids: span.request.filter(|_| joined).map(|request| request.number()).into_iter().collect(),
            counter_value: None,
        }
    }
}

/// Interned ids of mark names begin here, after those of span kinds.
const MARK_NAMES: u64 = 1_000;

enum Note {
    Number(u64),
    Signed(i64),
    Name(u64),
}

fn annotate(notes: &mut Vec<DebugAnnotation>, name: &str, note: Option<Note>) {
    let Some(note) = note else { return };
    let name_iid = ANNOTATIONS.iter().position(|n| *n == name).map(|i| i as u64 + 1);
    let mut annotation = DebugAnnotation { name_iid, ..DebugAnnotation::default() };
    match note {
        Note::Number(number) => annotation.uint_value = Some(number),
        Note::Signed(number) => annotation.int_value = Some(number),
        Note::Name(iid) => annotation.string_value_iid = Some(iid),
    }
    notes.push(annotation);
}

/// Perfetto's times are unsigned: instants before the host's boot become 0.
fn nanoseconds(at: Time) -> u64 {
    u64::try_from(at.ns()).unwrap_or(0)
}
