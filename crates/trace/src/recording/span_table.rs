//! The table `spans`: rows to columns in order of ascending end, and back, column by column, in descending order.
//! Encodings are chosen for decoding speed, which bounds how fast a large recording is explained: dictionaries for
//! names, tracks and objects, deltas for times and identifiers.

use super::leaf::{Leaf, names, numbers, optional, optional_names, signed};
use super::parquet_file::properties;
use super::row_group::RowGroup;
use super::small_tables::Placed;
use super::sorter::{Key, Sortable};
use crate::{
    ABSENT, ABSENT_CONTEXT, ABSENT_RESULT, ObjectId, RequestId, Span, SpanBatch, SpanId, SpanKind, TraceError, TrackId, WakerContext,
};
use parquet::basic::Encoding;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

pub(super) const NAME: &str = "spans";

impl Sortable for Placed<Span> {
    fn key(&self) -> Key {
        (self.host.0, self.row.end().ns(), self.row.span.number())
    }
}

pub(super) const SCHEMA: &str = "message spans {
    required int64 span (integer(64, false));
    required int64 track (integer(64, false));
    required binary kind (string);
    required int64 start_ns;
    required int64 duration_ns;
    required int32 count (integer(32, false));
    optional int64 object (integer(64, false));
    optional int64 offset_bytes;
    optional int64 size_bytes;
    optional int64 result;
    optional int64 parent (integer(64, false));
    optional int64 request (integer(64, false));
    optional int64 waker_track (integer(64, false));
    optional binary waker_context (string);
    optional int64 cpu_ns;
    optional int64 runqueue_ns;
    optional int32 stack (integer(32, false));
}";

/// Columns with many distinct values: bit-packed deltas decode faster than a dictionary that does not pay.
const DIFFERENCES: [&str; 8] = ["span", "start_ns", "duration_ns", "offset_bytes", "parent", "request", "cpu_ns", "runqueue_ns"];

pub(super) fn spans_properties(row_group_rows: usize) -> WriterProperties {
    let mut properties = properties().set_max_row_group_row_count(Some(row_group_rows));
    for name in DIFFERENCES {
        let column = ColumnPath::from(name);
        properties =
            properties.set_column_dictionary_enabled(column.clone(), false).set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    properties.set_dictionary_page_size_limit(64 << 10).build()
}

/// Converts spans to columns.
pub(super) fn spans_columns(rows: &[Span]) -> Vec<Leaf> {
    let kinds: Vec<&'static str> = SpanKind::ALL.iter().map(|kind| kind.name()).collect();
    let contexts: Vec<&'static str> = WakerContext::ALL.iter().map(|context| context.name()).collect();
    vec![
        numbers(rows.iter().map(|r| r.span.number())),
        numbers(rows.iter().map(|r| r.track.number())),
        names(&kinds, rows.iter().map(|r| r.kind as u8)),
        numbers(rows.iter().map(|r| r.start.ns())),
        numbers(rows.iter().map(|r| signed(r.duration_ns))),
        numbers(rows.iter().map(|r| r.count)),
        optional(rows.iter().map(|r| r.object.map(ObjectId::number))),
        optional(rows.iter().map(|r| r.offset_bytes.map(signed))),
        optional(rows.iter().map(|r| r.size_bytes.map(signed))),
        optional(rows.iter().map(|r| r.result)),
        optional(rows.iter().map(|r| r.parent.map(SpanId::number))),
        optional(rows.iter().map(|r| r.request.map(RequestId::number))),
        optional(rows.iter().map(|r| r.waker_track.map(TrackId::number))),
        optional_names(&contexts, rows.iter().map(|r| r.waker_context.map(|c| c as u8))),
        optional(rows.iter().map(|r| r.cpu_ns.map(signed))),
        optional(rows.iter().map(|r| r.runqueue_ns.map(signed))),
        optional(rows.iter().map(|r| r.stack)),
    ]
}

/// Reads the spans of a row group, last first, on their host's own clock. An end beyond the axis is clamped.
pub(super) fn spans_backward(rows: &RowGroup<'_>) -> Result<SpanBatch, TraceError> {
    let id = |name| rows.u64s_backward(name, 0);
    let number = |name| rows.i64s_backward(name, ABSENT, |value| value as u64);
    let start_ns = rows.i64s_backward("start_ns", 0, |value| value)?;
    let duration_ns = rows.i64s_backward("duration_ns", 0, |value| value)?;
    let end_ns = start_ns.iter().zip(duration_ns).map(|(start, duration)| start.saturating_add(duration)).collect();
    Ok(SpanBatch {
        span: id("span")?,
        track: id("track")?,
        kind: rows.names_backward("kind", None, SpanKind::from_name)?,
        end_ns,
        start_ns,
        count: rows.u32s_backward("count", 1)?,
        object: id("object")?,
        offset_bytes: number("offset_bytes")?,
        size_bytes: number("size_bytes")?,
        result: rows.i64s_backward("result", ABSENT_RESULT, |value| value)?,
        parent: id("parent")?,
        request: id("request")?,
        waker_track: id("waker_track")?,
        waker_context: rows.names_backward("waker_context", Some(ABSENT_CONTEXT), |name| WakerContext::from_name(name).map(|c| c as u8))?,
        cpu_ns: number("cpu_ns")?,
        runqueue_ns: number("runqueue_ns")?,
        // Recordings older than stacks of waits lack this column.
        stack: if rows.has("stack") { rows.u32s_backward("stack", 0)? } else { vec![0; rows.len()] },
    })
}
