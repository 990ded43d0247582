//! Exports a recording as a Perfetto trace, for ui.perfetto.dev or Perfetto's trace processor.
//!
//! Processes are named by command ([`super::perfetto_names`]). Spans are slices with their fields as annotations; overlapping spans of a
//! track get lanes of their own ([`super::perfetto_lanes`]); waits carry the stack that waited, innermost function first. Arrows lead from
//! wakers to the woken, and from requests to replies ([`super::perfetto_arrows`]). Threads have states ([`super::perfetto_states`]). Marks
//! are instants; counters are counter tracks ([`super::perfetto_counters`]); the critical path is a track of its own
//! ([`super::perfetto_path`]); samples with stacks are a profile ([`super::perfetto_samples`]). Times are the reference host's monotonic
//! clock.
//!
//! Perfetto orders packets by time and, at one instant, by their position in the file; a slice's end closes whichever
//! slice is innermost then. So packets are written in order: at one instant first ends, then begins from the longest
//! to the shortest. Spans arrive backward, so they are sorted, on disk if there are many.

use super::perfetto_arrows::{ArrowEnd, Arrows, What};
use super::perfetto_counters::Owners;
use super::perfetto_lanes::Lanes;
use super::perfetto_messages::{DebugAnnotation, INSTANT, SLICE_BEGIN, SLICE_END, TrackEvent};
pub use super::perfetto_path::{CriticalPath, PathInterval};
use super::perfetto_states::States;
use super::perfetto_tracks::Tracks;
use super::perfetto_writer::{ANNOTATIONS, ARROW_NAMES, MARK_NAMES, Writer};
use crate::recording::{Key, Sortable, Sorter, for_sorting};
use crate::{Mark, Source, Span, Tied, Time, TraceError, TrackId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::Path;

/// Writes the trace of `source`, with its critical path if there is one, to the file `out`.
pub fn export(source: &dyn Source, path: &CriticalPath, out: &Path) -> Result<(), TraceError> {
    let directory = for_sorting()?;
    let many_hosts = Tracks::are_many_hosts(source);
    let mut sorter = Sorter::new(directory.path(), "slices");
    let mut states = States::new(source, &directory, |host, tid| Tracks::pid(many_hosts, host.0, tid));
    let (mut lanes, mut arrows, mut owners) = (Lanes::default(), Arrows::new(source), Owners::new(source));
    let mut last_lanes: BTreeMap<u64, usize> = BTreeMap::new();
    let mut of_waits: HashSet<u32> = HashSet::new();
    each_span_backward(source, |span| {
        let (lane, depth) = lanes.place(&span);
        let lane = u32::try_from(lane).unwrap_or(u32::MAX);
        let last = last_lanes.entry(span.track.number()).or_default();
        *last = (*last).max(lane as usize);
        of_waits.extend(span.stack);
        owners.see(&span);
        states.see(&span)?;
        arrows.see(&span).try_for_each(|end| sorter.push(Edge::Arrow(end)))?;
        sorter.push(Edge::Begin { span, lane, depth: depth.min(255) as u8 })?;
        sorter.push(Edge::End { at: span.end(), duration_ns: span.duration_ns, span: span.span.number(), track: span.track, lane })
    })?;
    for mark in source.marks()? {
        last_lanes.entry(mark.track.number()).or_default();
        sorter.push(Edge::Mark(mark))?;
    }
    let mut tracks = Tracks::of(source, last_lanes);
    let mut writer = Writer::create(out)?;
    writer.preamble(source)?;
    writer.stacks_of_waits(source, &of_waits)?;
    super::perfetto_path::write(path, source, tracks.new_uuid(), &mut writer)?;
    tracks.describe(source, &mut writer)?;
    sorter.drain(|edge| writer.edge(&edge, &tracks, &arrows))?;
    super::perfetto_counters::write(source, &owners, &mut tracks, &mut writer)?;
    super::perfetto_samples::samples(source, &mut writer, |host, pid| Tracks::pid(many_hosts, host.0, pid))?;
    states.write(source, |at, packet| writer.at(at, packet))?;
    writer.out.flush().map_err(|e| TraceError::new(out, format!("cannot be written: {e}")))
}

/// Yields spans backward; those with the same end from longest to shortest, so that parents precede their children.
fn each_span_backward(source: &dyn Source, mut each: impl FnMut(Span) -> Result<(), TraceError>) -> Result<(), TraceError> {
    let mut tied = Tied::default();
    for batch in source.spans_backward() {
        let batch = batch?;
        for span in (0..batch.len()).filter_map(|row| batch.row(row)) {
            tied.push(span, &mut each)?;
        }
    }
    tied.finish(each)
}

/// A pending packet with its sort key.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Edge {
    Begin { span: Span, lane: u32, depth: u8 },
    End { at: Time, duration_ns: u64, span: u64, track: TrackId, lane: u32 },
    Mark(Mark),
    Arrow(ArrowEnd),
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
            Edge::Arrow(end) => (0, end.at.ns(), rank(2, end.what as u64)),
            Edge::Mark(mark) => (0, mark.at.ns(), rank(2, What::ALL.len() as u64)),
        }
    }
}

impl Writer {
    fn edge(&mut self, edge: &Edge, tracks: &Tracks, arrows: &Arrows) -> Result<(), TraceError> {
        match edge {
            Edge::End { at, track, lane, .. } => {
                self.event(*at, TrackEvent { kind: Some(SLICE_END), track_uuid: Some(tracks.uuid(*track, *lane)), ..TrackEvent::default() })
            }
            Edge::Begin { span, lane, .. } => {
                let flow_ids = arrows.through(span).into_iter().collect();
                let event = self.slice(span, tracks.uuid(span.track, *lane), flow_ids);
                self.event(span.start, event)
            }
            Edge::Arrow(end) if !arrows.is_known(end) => Ok(()),
            Edge::Arrow(end) => {
                let (begins, ends) = if end.what == What::Wakes { (vec![end.flow], vec![]) } else { (vec![], vec![end.flow]) };
                let event = TrackEvent {
                    kind: Some(INSTANT),
                    name_iid: Some(ARROW_NAMES + end.what as u64),
                    track_uuid: Some(tracks.uuid(end.track, 0)),
                    flow_ids: begins,
                    terminating_flow_ids: ends,
                    ..TrackEvent::default()
                };
                self.event(end.at, event)
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

    fn slice(&self, span: &Span, track_uuid: u64, flow_ids: Vec<u64>) -> TrackEvent {
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
        TrackEvent {
            kind: Some(SLICE_BEGIN),
            name_iid: Some(span.kind as u64 + 1),
            category_iids: vec![self.category_of_kind[span.kind as usize]],
            track_uuid: Some(track_uuid),
            debug_annotations: notes,
            flow_ids,
            ..TrackEvent::default()
        }
    }
}

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
