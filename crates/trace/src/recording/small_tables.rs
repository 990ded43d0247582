//! The tables other than `spans`: schema, rows to columns, columns to rows.

use super::leaf::{Leaf, lists, maps, names, numbers, optional, signed, texts};
use super::row_group::RowGroup;
use super::sorter::{Key, Sortable};
use crate::{Clock, Counter, CounterName, CounterOf, Host, HostId, Mark, MarkKind, Object, ObjectId, ObjectKind, Role, Sample, Stack};
use crate::{Time, TraceError, Track, TrackId, TrackKind};
use serde::{Deserialize, Serialize};
use std::mem::take;

/// A table whose rows are converted to columns in one piece. The host is in the path, not in a column.
pub(super) trait Table: Sized {
    const NAME: &'static str;
    /// The schema, in Parquet's schema language.
    const SCHEMA: &'static str;
    fn columns(rows: &[Self]) -> Vec<Leaf>;
    fn rows(host: HostId, columns: &RowGroup<'_>) -> Result<Vec<Self>, TraceError>;
}

/// The names of a closed set, in order of number.
macro_rules! all_names {
    ($set:ident) => {
        $set::ALL.iter().map(|member| member.name()).collect::<Vec<&'static str>>()
    };
}

impl Table for Host {
    const NAME: &'static str = "hosts";
    const SCHEMA: &'static str = "message hosts {
        required binary name (string);
        required binary node (string);
        required binary clock (string);
        required binary kernel (string);
        required int32 cpus (integer(32, false));
    }";

    fn columns(rows: &[Host]) -> Vec<Leaf> {
        vec![
            texts(rows.iter().map(|r| r.name.as_str())),
            texts(rows.iter().map(|r| r.node.as_str())),
            texts(rows.iter().map(|r| r.clock.as_str())),
            texts(rows.iter().map(|r| r.kernel.as_str())),
            numbers(rows.iter().map(|r| r.cpus)),
        ]
    }

    fn rows(host: HostId, columns: &RowGroup<'_>) -> Result<Vec<Host>, TraceError> {
        let (mut name, mut node, mut clock) = (columns.texts("name")?, columns.texts("node")?, columns.texts("clock")?);
        let (mut kernel, cpus) = (columns.texts("kernel")?, columns.u32s("cpus")?);
        let row = |i: usize| {
            Ok(Host {
                host,
                name: take(&mut name[i]),
                node: take(&mut node[i]),
                clock: take(&mut clock[i]),
                kernel: take(&mut kernel[i]),
                cpus: columns.present("cpus", cpus[i])?,
            })
        };
        (0..cpus.len()).map(row).collect()
    }
}

impl Table for Clock {
    const NAME: &'static str = "clocks";
    const SCHEMA: &'static str = "message clocks {
        required int64 from_ns;
        required int64 offset_ns;
        required int64 drift_ppb;
        required int64 error_ns;
    }";

    fn columns(rows: &[Clock]) -> Vec<Leaf> {
        vec![
            numbers(rows.iter().map(|r| r.from_ns)),
            numbers(rows.iter().map(|r| r.offset_ns)),
            numbers(rows.iter().map(|r| r.drift_ppb)),
            numbers(rows.iter().map(|r| signed(r.error_ns))),
        ]
    }

    fn rows(host: HostId, columns: &RowGroup<'_>) -> Result<Vec<Clock>, TraceError> {
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
    const SCHEMA: &'static str = "message tracks {
        required int64 track (integer(64, false));
        required binary kind (string);
        required binary role (string);
        optional int32 pid (integer(32, false));
        optional int32 tid (integer(32, false));
        required binary name (string);
    }";

    fn columns(rows: &[Track]) -> Vec<Leaf> {
        vec![
            numbers(rows.iter().map(|r| r.track.number())),
            names(&all_names!(TrackKind), rows.iter().map(|r| r.kind as u8)),
            names(&all_names!(Role), rows.iter().map(|r| r.role as u8)),
            optional(rows.iter().map(|r| r.pid)),
            optional(rows.iter().map(|r| r.tid)),
            texts(rows.iter().map(|r| r.name.as_str())),
        ]
    }

    fn rows(host: HostId, columns: &RowGroup<'_>) -> Result<Vec<Track>, TraceError> {
        let (track, kind) = (columns.u64s("track")?, columns.names("kind", TrackKind::from_name)?);
        let (role, mut name) = (columns.names("role", Role::from_name)?, columns.texts("name")?);
        let (pid, tid) = (columns.u32s("pid")?, columns.u32s("tid")?);
        let row = |i: usize| {
            Ok(Track {
                track: columns.present("track", track[i].and_then(TrackId::new))?,
                host,
                kind: columns.present("kind", kind[i])?,
                role: columns.present("role", role[i])?,
                pid: pid[i],
                tid: tid[i],
                name: take(&mut name[i]),
            })
        };
        (0..track.len()).map(row).collect()
    }
}

impl Table for Object {
    const NAME: &'static str = "objects";
    const SCHEMA: &'static str = "message objects {
        required int64 object (integer(64, false));
        required binary kind (string);
        required binary name (string);
        required group attributes (map) { repeated group key_value { required binary key (string); required binary value (string); } }
    }";

    fn columns(rows: &[Object]) -> Vec<Leaf> {
        let [names_of_attributes, values] = maps(rows.iter().map(|r| &r.attributes));
        vec![
            numbers(rows.iter().map(|r| r.object.number())),
            names(&all_names!(ObjectKind), rows.iter().map(|r| r.kind as u8)),
            texts(rows.iter().map(|r| r.name.as_str())),
            names_of_attributes,
            values,
        ]
    }

    fn rows(host: HostId, columns: &RowGroup<'_>) -> Result<Vec<Object>, TraceError> {
        let (object, kind) = (columns.u64s("object")?, columns.names("kind", ObjectKind::from_name)?);
        let (mut name, mut attributes) = (columns.texts("name")?, columns.maps("attributes")?);
        let row = |i: usize| {
            Ok(Object {
                object: columns.present("object", object[i].and_then(ObjectId::new))?,
                host,
                kind: columns.present("kind", kind[i])?,
                name: take(&mut name[i]),
                attributes: take(&mut attributes[i]),
            })
        };
        (0..object.len()).map(row).collect()
    }
}

impl Table for Stack {
    const NAME: &'static str = "stacks";
    const SCHEMA: &'static str = "message stacks {
        required int32 stack (integer(32, false));
        required group frames (list) { repeated group list { required binary element (string); } }
    }";

    fn columns(rows: &[Stack]) -> Vec<Leaf> {
        vec![numbers(rows.iter().map(|r| r.stack)), lists(rows.iter().map(|r| r.frames.iter().map(String::as_str)))]
    }

    fn rows(_: HostId, columns: &RowGroup<'_>) -> Result<Vec<Stack>, TraceError> {
        let stack = columns.u32s("stack")?;
        let pairs = stack.into_iter().zip(columns.lists("frames")?);
        pairs.map(|(stack, frames)| Ok(Stack { stack: columns.present("stack", stack)?, frames })).collect()
    }
}

/// A row with its host, which its own columns lack.
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
    const SCHEMA: &'static str = "message marks {
        required int64 track (integer(64, false));
        required binary kind (string);
        required int64 at_ns;
        optional int64 object (integer(64, false));
        optional int64 value;
    }";

    fn columns(rows: &[Self]) -> Vec<Leaf> {
        vec![
            numbers(rows.iter().map(|r| r.row.track.number())),
            names(&all_names!(MarkKind), rows.iter().map(|r| r.row.kind as u8)),
            numbers(rows.iter().map(|r| r.row.at.ns())),
            optional(rows.iter().map(|r| r.row.object.map(ObjectId::number))),
            optional(rows.iter().map(|r| r.row.value)),
        ]
    }

    fn rows(host: HostId, columns: &RowGroup<'_>) -> Result<Vec<Self>, TraceError> {
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
    const SCHEMA: &'static str = "message counters {
        optional int64 track (integer(64, false));
        optional int64 object (integer(64, false));
        required binary name (string);
        required int64 at_ns;
        required int64 value;
    }";

    fn columns(rows: &[Self]) -> Vec<Leaf> {
        let track = |of| if let CounterOf::Track(track) = of { Some(track.number()) } else { None };
        let object = |of| if let CounterOf::Object(object) = of { Some(object.number()) } else { None };
        vec![
            optional(rows.iter().map(|r| track(r.row.of))),
            optional(rows.iter().map(|r| object(r.row.of))),
            names(&all_names!(CounterName), rows.iter().map(|r| r.row.name as u8)),
            numbers(rows.iter().map(|r| r.row.at.ns())),
            numbers(rows.iter().map(|r| r.row.value)),
        ]
    }

    fn rows(host: HostId, columns: &RowGroup<'_>) -> Result<Vec<Self>, TraceError> {
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
    const SCHEMA: &'static str = "message samples {
        required int64 at_ns;
        required int32 cpu (integer(32, false));
        optional int64 track (integer(64, false));
        required int32 class (integer(32, false));
        optional int32 stack (integer(32, false));
        required int64 weight_ns;
    }";

    fn columns(rows: &[Self]) -> Vec<Leaf> {
        vec![
            numbers(rows.iter().map(|r| r.at.ns())),
            numbers(rows.iter().map(|r| r.cpu)),
            optional(rows.iter().map(|r| r.track.map(TrackId::number))),
            numbers(rows.iter().map(|r| u32::from(r.class))),
            optional(rows.iter().map(|r| r.stack)),
            numbers(rows.iter().map(|r| signed(r.weight_ns))),
        ]
    }

    fn rows(host: HostId, columns: &RowGroup<'_>) -> Result<Vec<Self>, TraceError> {
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
