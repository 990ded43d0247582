//! The critical path as a track of its own. Whoever explains the recording gives it as intervals: this crate explains nothing.

use super::perfetto_messages::{DebugAnnotation, SLICE_BEGIN, SLICE_END, TrackDescriptor, TrackEvent};
use super::perfetto_writer::Writer;
use crate::{Source, Time, TraceError, TrackId};

/// The critical path of a recording, for the export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CriticalPath {
    /// One sentence on the whole of it: the track's description. May be empty.
    pub sentence: String,
    /// Its intervals, in order of time; each begins where the one before ends.
    pub intervals: Vec<PathInterval>,
}

/// A stretch of the critical path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathInterval {
    /// Its start.
    pub start: Time,
    /// Its end.
    pub end: Time,
    /// Its cause: the slice's name.
    pub cause: String,
    /// The place of the cause.
    pub place: String,
    /// The track on which the path runs, if it is on one.
    pub track: Option<TrackId>,
}

/// Writes the path on the track `uuid`. Neighbours that differ in nothing are one slice; empty intervals are left out.
pub(super) fn write(path: &CriticalPath, source: &dyn Source, uuid: u64, writer: &mut Writer) -> Result<(), TraceError> {
    if path.intervals.is_empty() {
        return Ok(());
    }
    let description = Some(path.sentence.clone()).filter(|sentence| !sentence.is_empty());
    writer.describe(TrackDescriptor { uuid: Some(uuid), name: Some("critical path".into()), description, ..TrackDescriptor::default() })?;
    let mut merged: Vec<PathInterval> = Vec::new();
    for interval in path.intervals.iter().filter(|interval| interval.start < interval.end) {
        match merged.last_mut() {
            Some(last) if (&last.cause, &last.place, last.track) == (&interval.cause, &interval.place, interval.track) => {
                last.end = interval.end
            }
            _ => merged.push(interval.clone()),
        }
    }
    for interval in merged {
        let thread = source.tracks().iter().find(|track| Some(track.track) == interval.track).map(|track| track.name.clone());
        let note = |name: &str, value: String| DebugAnnotation {
            name: Some(name.into()),
            string_value: Some(value),
            ..DebugAnnotation::default()
        };
        let place = Some(interval.place).filter(|place| !place.is_empty());
        let debug_annotations =
            [("place", place), ("on", thread)].into_iter().filter_map(|(name, value)| Some(note(name, value?))).collect();
        let (track_uuid, name) = (Some(uuid), Some(interval.cause));
        writer
            .event(interval.start, TrackEvent { kind: Some(SLICE_BEGIN), track_uuid, name, debug_annotations, ..TrackEvent::default() })?;
        writer.event(interval.end, TrackEvent { kind: Some(SLICE_END), track_uuid, ..TrackEvent::default() })?;
    }
    Ok(())
}
