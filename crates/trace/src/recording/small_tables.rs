//! The tables besides `spans`: schema, rows to columns, columns to rows.

use super::columns::{Columns, i64s, lists, lists_type, maps, maps_type, names, names_type, schema, signed, texts, u32s, u64s};
use super::sorter::{Key, Sortable};
use crate::{Clock, Counter, CounterName, CounterOf, Host, HostId, Mark, MarkKind, Object, ObjectId, ObjectKind, Role, Sample, Stack};
use crate::{Time, TraceError, Track, TrackId, TrackKind};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use serde::{Deserialize, Serialize};

/// A table whose rows are put into columns all at once. The host is in the path, not in a column.
pub(super) trait Table: Sized {
    const NAME: &'static str;
    fn schema() -> SchemaRef;
    fn columns(rows: &[Self]) -> Vec<ArrayRef>;
    fn rows(host: HostId, columns: &Columns<'_>) -> Result<Vec<Self>, TraceError>;

    fn batch(rows: &[Self]) -> RecordBatch {
        RecordBatch::try_new(Self::schema(), Self::columns(rows)).expect("columns fit the table's own schema")
    }
}

/// The names of a closed set, in the order of its numbers.
macro_rules! all_names {
    ($set:ident) => {
        $set::ALL.iter().map(|member| member.name()).collect::<Vec<&'static str>>()
    };
}

impl Table for Host {
    const NAME: &'static str = "hosts";

    fn schema() -> SchemaRef {
        let text = |name| (name, DataType::Utf8, false);
        schema(vec![text("name"), text("node"), text("clock"), text("kernel"), ("cpus", DataType::UInt32, false)])
    }

    fn columns(rows: &[Host]) -> Vec<ArrayRef> {
        vec![
            texts(rows.iter().map(|r| r.name.as_str())),
            texts(rows.iter().map(|r| r.node.as_str())),
            texts(rows.iter().map(|r| r.clock.as_str())),
            texts(rows.iter().map(|r| r.kernel.as_str())),
            u32s(rows.iter().map(|r| Some(r.cpus))),
        ]
    }

    fn rows(host: HostId, columns: &Columns<'_>) -> Result<Vec<Host>, TraceError> {
        let (name, node, clock) = (columns.texts("name")?, columns.texts("node")?, columns.texts("clock")?);
        let (kernel, cpus) = (columns.texts("kernel")?, columns.u32s("cpus")?);
        let row = |i: usize| {
            Ok(Host {
                host,
                name: name.value(i).to_owned(),
                node: node.value(i).to_owned(),
                clock: clock.value(i).to_owned(),
                kernel: kernel.value(i).to_owned(),
                cpus: columns.present("cpus", cpus[i])?,
            })
        };
        (0..cpus.len()).map(row).collect()
    }
}

impl Table for Clock {
    const NAME: &'static str = "clocks";

    fn schema() -> SchemaRef {
        let number = |name| (name, DataType::Int64, false);
        schema(vec![number("from_ns"), number("offset_ns"), number("drift_ppb"), number("error_ns")])
    }

    fn columns(rows: &[Clock]) -> Vec<ArrayRef> {
        vec![
            i64s(rows.iter().map(|r| Some(r.from_ns))),
            i64s(rows.iter().map(|r| Some(r.offset_ns))),
            i64s(rows.iter().map(|r| Some(r.drift_ppb))),
            i64s(rows.iter().map(|r| Some(signed(r.error_ns)))),
        ]
    }

    fn rows(host: HostId, columns: &Columns<'_>) -> Result<Vec<Clock>, TraceError> {
        let (from, offset) = (columns.i64s("from_ns")?, columns.i64s("offset_ns")?);
        let (drift, error) = (columns.i64s("drift_ppb")?, columns.i64s("error_ns")?);
        let row = |i: usize| {
            Ok(Clock {
                host,
                from_ns: columns.present("from_ns", from[i])?,
                offset_ns: columns.present("offset_ns", offset[i])?,
                drift_ppb: columns.present("drift_ppb", drift[i])?,
                error_ns: columns.present("error_ns", error[i])?.unsigned_abs(),
            })
        };
        (0..from.len()).map(row).collect()
    }
}

impl Table for Track {
    const NAME: &'static str = "tracks";

    fn schema() -> SchemaRef {
        schema(vec![
            ("track", DataType::UInt64, false),
            ("kind", names_type(), false),
            ("role", names_type(), false),
            ("pid", DataType::UInt32, true),
            ("tid", DataType::UInt32, true),
            ("name", DataType::Utf8, false),
        ])
    }

    fn columns(rows: &[Track]) -> Vec<ArrayRef> {
        vec![
            u64s(rows.iter().map(|r| Some(r.track.number()))),
            names(&all_names!(TrackKind), rows.iter().map(|r| Some(r.kind as u8))),
            names(&all_names!(Role), rows.iter().map(|r| Some(r.role as u8))),
            u32s(rows.iter().map(|r| r.pid)),
            u32s(rows.iter().map(|r| r.tid)),
            texts(rows.iter().map(|r| r.name.as_str())),
        ]
    }

    fn rows(host: HostId, columns: &Columns<'_>) -> Result<Vec<Track>, TraceError> {
        let (track, kind) = (columns.u64s("track")?, columns.names("kind", TrackKind::from_name)?);
        let (role, name) = (columns.names("role", Role::from_name)?, columns.texts("name")?);
        let (pid, tid) = (columns.u32s("pid")?, columns.u32s("tid")?);
        let row = |i: usize| {
            Ok(Track {
                track: columns.present("track", track[i].and_then(TrackId::new))?,
                host,
                kind: columns.present("kind", kind[i])?,
                role: columns.present("role", role[i])?,
                pid: pid[i],
                tid: tid[i],
                name: name.value(i).to_owned(),
            })
        };
        (0..track.len()).map(row).collect()
    }
}

impl Table for Object {
    const NAME: &'static str = "objects";

    fn schema() -> SchemaRef {
        schema(vec![
            ("object", DataType::UInt64, false),
            ("kind", names_type(), false),
            ("name", DataType::Utf8, false),
            ("attributes", maps_type(), false),
        ])
    }

    fn columns(rows: &[Object]) -> Vec<ArrayRef> {
        vec![
            u64s(rows.iter().map(|r| Some(r.object.number()))),
            names(&all_names!(ObjectKind), rows.iter().map(|r| Some(r.kind as u8))),
            texts(rows.iter().map(|r| r.name.as_str())),
            maps(rows.iter().map(|r| &r.attributes)),
        ]
    }

    fn rows(host: HostId, columns: &Columns<'_>) -> Result<Vec<Object>, TraceError> {
        let (object, kind) = (columns.u64s("object")?, columns.names("kind", ObjectKind::from_name)?);
        let (name, mut attributes) = (columns.texts("name")?, columns.maps("attributes")?);
        let row = |i: usize| {
            Ok(Object {
                object: columns.present("object", object[i].and_then(ObjectId::new))?,
                host,
                kind: columns.present("kind", kind[i])?,
                name: name.value(i).to_owned(),
                attributes: std::mem::take(&mut attributes[i]),
            })
        };
        (0..object.len()).map(row).collect()
    }
}

impl Table for Stack {
    const NAME: &'static str = "stacks";

    fn schema() -> SchemaRef {
        schema(vec![("stack", DataType::UInt32, false), ("frames", lists_type(), false)])
    }

    fn columns(rows: &[Stack]) -> Vec<ArrayRef> {
        vec![u32s(rows.iter().map(|r| Some(r.stack))), lists(rows.iter().map(|r| &r.frames))]
    }

    fn rows(_: HostId, columns: &Columns<'_>) -> Result<Vec<Stack>, TraceError> {
        let stack = columns.u32s("stack")?;
        let pairs = stack.into_iter().zip(columns.lists("frames")?);
        pairs.map(|(stack, frames)| Ok(Stack { stack: columns.present("stack", stack)?, frames })).collect()
    }
}

/// A row with the host it belongs to, which its own columns do not say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Placed<R> {
    pub host: HostId,
    pub row: R,
}

impl Sortable for Placed<Mark> {
    fn key(&self) -> Key {
        (self.host.0, self.row.at.ns(), self.row.track.number())
    }
}

impl Table for Placed<Mark> {
    const NAME: &'static str = "marks";

    fn schema() -> SchemaRef {
        schema(vec![
            ("track", DataType::UInt64, false),
            ("kind", names_type(), false),
            ("at_ns", DataType::Int64, false),
            ("object", DataType::UInt64, true),
            ("value", DataType::Int64, true),
        ])
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            u64s(rows.iter().map(|r| Some(r.row.track.number()))),
            names(&all_names!(MarkKind), rows.iter().map(|r| Some(r.row.kind as u8))),
            i64s(rows.iter().map(|r| Some(r.row.at.ns()))),
            u64s(rows.iter().map(|r| r.row.object.map(ObjectId::number))),
            i64s(rows.iter().map(|r| r.row.value)),
        ]
    }

    fn rows(host: HostId, columns: &Columns<'_>) -> Result<Vec<Self>, TraceError> {
        let (track, kind) = (columns.u64s("track")?, columns.names("kind", MarkKind::from_name)?);
        let (at, object, value) = (columns.i64s("at_ns")?, columns.u64s("object")?, columns.i64s("value")?);
        let row = |i: usize| {
            let mark = Mark {
                track: columns.present("track", track[i].and_then(TrackId::new))?,
                kind: columns.present("kind", kind[i])?,
                at: Time::from_monotonic_ns(columns.present("at_ns", at[i])?),
                object: object[i].and_then(ObjectId::new),
                value: value[i],
            };
            Ok(Placed { host, row: mark })
        };
        (0..track.len()).map(row).collect()
    }
}

impl Sortable for Placed<Counter> {
    fn key(&self) -> Key {
        let of = match self.row.of {
            CounterOf::Track(track) => track.number(),
            CounterOf::Object(object) => object.number(),
        };
        (self.host.0, self.row.at.ns(), of)
    }
}

impl Table for Placed<Counter> {
    const NAME: &'static str = "counters";

    fn schema() -> SchemaRef {
        schema(vec![
            ("track", DataType::UInt64, true),
            ("object", DataType::UInt64, true),
            ("name", names_type(), false),
            ("at_ns", DataType::Int64, false),
            ("value", DataType::Int64, false),
        ])
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        let track = |of| if let CounterOf::Track(track) = of { Some(track.number()) } else { None };
        let object = |of| if let CounterOf::Object(object) = of { Some(object.number()) } else { None };
        vec![
            u64s(rows.iter().map(|r| track(r.row.of))),
            u64s(rows.iter().map(|r| object(r.row.of))),
            names(&all_names!(CounterName), rows.iter().map(|r| Some(r.row.name as u8))),
            i64s(rows.iter().map(|r| Some(r.row.at.ns()))),
            i64s(rows.iter().map(|r| Some(r.row.value))),
        ]
    }

    fn rows(host: HostId, columns: &Columns<'_>) -> Result<Vec<Self>, TraceError> {
        let (track, object) = (columns.u64s("track")?, columns.u64s("object")?);
        let (name, at, value) = (columns.names("name", CounterName::from_name)?, columns.i64s("at_ns")?, columns.i64s("value")?);
        let row = |i: usize| {
            let of_track = track[i].and_then(TrackId::new).map(CounterOf::Track);
            let of = of_track.or(object[i].and_then(ObjectId::new).map(CounterOf::Object));
            let counter = Counter {
                of: columns.present("track` or `object", of)?,
                name: columns.present("name", name[i])?,
                at: Time::from_monotonic_ns(columns.present("at_ns", at[i])?),
                value: columns.present("value", value[i])?,
            };
            Ok(Placed { host, row: counter })
        };
        (0..at.len()).map(row).collect()
    }
}

impl Sortable for Sample {
    fn key(&self) -> Key {
        (self.host.0, self.at.ns(), u64::from(self.cpu))
    }
}

impl Table for Sample {
    const NAME: &'static str = "samples";

    fn schema() -> SchemaRef {
        schema(vec![
            ("at_ns", DataType::Int64, false),
            ("cpu", DataType::UInt32, false),
            ("track", DataType::UInt64, true),
            ("class", DataType::UInt32, false),
            ("stack", DataType::UInt32, true),
            ("weight_ns", DataType::Int64, false),
        ])
    }

    fn columns(rows: &[Self]) -> Vec<ArrayRef> {
        vec![
            i64s(rows.iter().map(|r| Some(r.at.ns()))),
            u32s(rows.iter().map(|r| Some(r.cpu))),
            u64s(rows.iter().map(|r| r.track.map(TrackId::number))),
            u32s(rows.iter().map(|r| Some(u32::from(r.class)))),
            u32s(rows.iter().map(|r| r.stack)),
            i64s(rows.iter().map(|r| Some(signed(r.weight_ns)))),
        ]
    }

    fn rows(host: HostId, columns: &Columns<'_>) -> Result<Vec<Self>, TraceError> {
        let (at, cpu, track) = (columns.i64s("at_ns")?, columns.u32s("cpu")?, columns.u64s("track")?);
        let (class, stack, weight) = (columns.u32s("class")?, columns.u32s("stack")?, columns.i64s("weight_ns")?);
        let row = |i: usize| {
            Ok(Sample {
                at: Time::from_monotonic_ns(columns.present("at_ns", at[i])?),
                host,
                cpu: columns.present("cpu", cpu[i])?,
                track: track[i].and_then(TrackId::new),
                class: columns.present("class", class[i].and_then(|class| u16::try_from(class).ok()))?,
                stack: stack[i],
                weight_ns: columns.present("weight_ns", weight[i])?.unsigned_abs(),
            })
        };
        (0..at.len()).map(row).collect()
    }
}
