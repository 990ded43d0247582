//! The table `spans`: rows to columns in order of ascending end, and back, column by column, in
//! descending order. Encodings are chosen for decoding speed, which bounds how fast a large recording
//! is explained: names, tracks and objects as dictionaries, times and identifiers as differences.

use super::columns::{Columns, i64s, names, names_type, schema, signed, u32s, u64s};
use super::parquet_file::properties;
use super::small_tables::Placed;
use super::sorter::{Key, Sortable};
use crate::{
    ABSENT, ABSENT_CONTEXT, ABSENT_RESULT, ObjectId, RequestId, Span, SpanBatch, SpanId, SpanKind, TraceError, TrackId, WakerContext,
};
use arrow_array::types::{ArrowPrimitiveType, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use parquet::basic::Encoding;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

pub(super) const NAME: &str = "spans";

impl Sortable for Placed<Span> {
    fn key(&self) -> Key {
        (self.host.0, self.row.end().ns(), self.row.span.number())
    }
}

pub(super) fn spans_schema() -> SchemaRef {
    let (id, ns) = (DataType::UInt64, DataType::Int64);
    schema(vec![
        ("span", id.clone(), false),
        ("track", id.clone(), false),
        ("kind", names_type(), false),
        ("start_ns", ns.clone(), false),
        ("duration_ns", ns.clone(), false),
        ("count", DataType::UInt32, false),
        ("object", id.clone(), true),
        ("offset_bytes", ns.clone(), true),
        ("size_bytes", ns.clone(), true),
        ("result", ns.clone(), true),
        ("parent", id.clone(), true),
        ("request", id.clone(), true),
        ("waker_track", id, true),
        ("waker_context", names_type(), true),
        ("cpu_ns", ns.clone(), true),
        ("runqueue_ns", ns, true),
    ])
}

/// Columns that hold many different values: differences, bit-packed, decode faster than a dictionary
/// that does not pay.
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

/// The columns of these spans.
pub(super) fn spans_batch(rows: &[Span]) -> RecordBatch {
    let kinds: Vec<&'static str> = SpanKind::ALL.iter().map(|kind| kind.name()).collect();
    let contexts: Vec<&'static str> = WakerContext::ALL.iter().map(|context| context.name()).collect();
    let columns = vec![
        u64s(rows.iter().map(|r| Some(r.span.number()))),
        u64s(rows.iter().map(|r| Some(r.track.number()))),
        names(&kinds, rows.iter().map(|r| Some(r.kind as u8))),
        i64s(rows.iter().map(|r| Some(r.start.ns()))),
        i64s(rows.iter().map(|r| Some(signed(r.duration_ns)))),
        u32s(rows.iter().map(|r| Some(r.count))),
        u64s(rows.iter().map(|r| r.object.map(ObjectId::number))),
        i64s(rows.iter().map(|r| r.offset_bytes.map(signed))),
        i64s(rows.iter().map(|r| r.size_bytes.map(signed))),
        i64s(rows.iter().map(|r| r.result)),
        u64s(rows.iter().map(|r| r.parent.map(SpanId::number))),
        u64s(rows.iter().map(|r| r.request.map(RequestId::number))),
        u64s(rows.iter().map(|r| r.waker_track.map(TrackId::number))),
        names(&contexts, rows.iter().map(|r| r.waker_context.map(|c| c as u8))),
        i64s(rows.iter().map(|r| r.cpu_ns.map(signed))),
        i64s(rows.iter().map(|r| r.runqueue_ns.map(signed))),
    ];
    RecordBatch::try_new(spans_schema(), columns).expect("columns fit the table's own schema")
}

/// Last row first, each value through `convert`, `absent` where there is none.
fn backward<T: ArrowPrimitiveType, V: Copy>(array: &PrimitiveArray<T>, absent: V, convert: impl Fn(T::Native) -> V) -> Vec<V> {
    let values = array.values();
    match array.nulls() {
        None => values.iter().rev().map(|&v| convert(v)).collect(),
        Some(nulls) if nulls.null_count() == values.len() => vec![absent; values.len()],
        Some(nulls) => {
            let valid = nulls.inner();
            (0..values.len()).rev().map(|i| if valid.value(i) { convert(values[i]) } else { absent }).collect()
        }
    }
}

/// The spans of a row group, last first, on their host's own clock. An end beyond the axis is its end.
pub(super) fn spans_backward(columns: &Columns<'_>) -> Result<SpanBatch, TraceError> {
    let id = |name| Ok::<_, TraceError>(backward(columns.primitive::<UInt64Type>(name)?, 0, |v| v));
    let number = |name| Ok::<_, TraceError>(backward(columns.primitive::<Int64Type>(name)?, ABSENT, |v: i64| v as u64));
    let start_ns = backward(columns.primitive::<Int64Type>("start_ns")?, 0, |v| v);
    let duration = columns.primitive::<Int64Type>("duration_ns")?;
    let end_ns = start_ns.iter().zip(duration.values().iter().rev()).map(|(start, duration)| start.saturating_add(*duration)).collect();
    let (kind_keys, kinds) = columns.dictionary("kind", SpanKind::from_name)?;
    let (context_keys, contexts) = columns.dictionary("waker_context", WakerContext::from_name)?;
    if kind_keys.null_count() > 0 {
        return Err(columns.error("column `kind` has an absent value where there must be one"));
    }
    Ok(SpanBatch {
        span: id("span")?,
        track: id("track")?,
        kind: backward(kind_keys, SpanKind::AppOther, |key| kinds[key as usize].unwrap_or(SpanKind::AppOther)),
        end_ns,
        start_ns,
        count: backward(columns.primitive::<UInt32Type>("count")?, 1, |v| v),
        object: id("object")?,
        offset_bytes: number("offset_bytes")?,
        size_bytes: number("size_bytes")?,
        result: backward(columns.primitive::<Int64Type>("result")?, ABSENT_RESULT, |v| v),
        parent: id("parent")?,
        request: id("request")?,
        waker_track: id("waker_track")?,
        waker_context: backward(context_keys, ABSENT_CONTEXT, |key| contexts[key as usize].map_or(ABSENT_CONTEXT, |c| c as u8)),
        cpu_ns: number("cpu_ns")?,
        runqueue_ns: number("runqueue_ns")?,
    })
}
