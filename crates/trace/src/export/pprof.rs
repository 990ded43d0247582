//! Exports a profile for pprof: the protobuf message `perftools.profiles.Profile` in a gzip file, as `go tool pprof`
//! and related tools read it.
//!
//! Values are samples and CPU time; labels are the program and, with several machines, the machine. The gzip blocks
//! are stored uncompressed: each stack is written once, so the file is small, and no compression library is needed.

use super::stacks::{Function, Stacks};
use crate::{Source, TraceError};
use crc_fast::{CrcAlgorithm, checksum};
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// `profile.proto`'s top message. Message and field numbers are stable.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<NamedFunction>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct NamedFunction {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// The string table that messages refer to by number; number 0 is the empty string.
struct Strings {
    all: Vec<String>,
    numbers: HashMap<String, i64>,
}

impl Strings {
    fn new() -> Strings {
        Strings { all: vec![String::new()], numbers: HashMap::from([(String::new(), 0)]) }
    }

    fn number(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// Writes the stacks of `source` to the file `out`.
///
/// # Errors
/// The recording cannot be read, or the file not written.
pub fn export(source: &dyn Source, out: &Path) -> Result<(), TraceError> {
    let profile = profile(source, &Stacks::counted(source)?);
    std::fs::write(out, gzip(&profile.encode_to_vec())).map_err(|e| TraceError::new(out, format!("cannot be written: {e}")))
}

fn profile(source: &dyn Source, stacks: &Stacks) -> Profile {
    let mut strings = Strings::new();
    let mut value = |kind: &str, unit: &str| ValueType { kind: strings.number(kind), unit: strings.number(unit) };
    let sample_type = vec![value("samples", "count"), value("cpu", "nanoseconds")];
    let period_type = Some(value("cpu", "nanoseconds"));
    let (mapping, mappings) = mappings(&stacks.functions, &mut strings);
    let (mut location, mut function) = (Vec::new(), Vec::new());
    for (number, of) in stacks.functions.iter().enumerate() {
        let id = number as u64 + 1;
        let (name, filename) = (strings.number(&of.name), strings.number(&of.module));
        function.push(NamedFunction { id, name, system_name: name, filename });
        let mapping_id = mappings.get(&(of.module.as_str(), of.build_id.as_deref())).copied().unwrap_or(0);
        location.push(Location { id, mapping_id, line: vec![Line { function_id: id }] });
    }
    let (program_key, host_key) = (strings.number("program"), strings.number("host"));
    let mut sample = Vec::new();
    for ((host, program, stack), counted) in &stacks.counted {
        let mut label = vec![Label { key: program_key, text: strings.number(program) }];
        if let (true, Some(host)) = (source.hosts().len() > 1, source.hosts().iter().find(|h| h.host == *host)) {
            label.push(Label { key: host_key, text: strings.number(&host.name) });
        }
        let value = [counted.samples, counted.ns].map(|v| i64::try_from(v).unwrap_or(i64::MAX)).to_vec();
        sample.push(Sample { location_id: stacks.frames(*stack).iter().map(|number| u64::from(*number) + 1).collect(), value, label });
    }
    let meta = source.meta();
    let attribute = |wanted: &str| meta.attributes.iter().find(|(name, _)| name == wanted).and_then(|(_, value)| value.parse::<i64>().ok());
    Profile {
        sample_type,
        sample,
        mapping,
        location,
        function,
        string_table: strings.all,
        time_nanos: attribute("realtime_ns").map_or(0, |ahead| meta.start.ns().saturating_add(ahead)),
        duration_nanos: meta.end.map_or(0, |end| end.since(meta.start)).try_into().unwrap_or(i64::MAX),
        period_type,
        period: attribute("profile.period_ns").unwrap_or(0),
    }
}

/// Module numbers, by name and build identifier.
type Numbers<'a> = BTreeMap<(&'a str, Option<&'a str>), u64>;

/// Returns the modules, and each one's number by name and build identifier.
fn mappings<'a>(functions: &'a [Function], strings: &mut Strings) -> (Vec<Mapping>, Numbers<'a>) {
    let (mut mapping, mut numbers) = (Vec::new(), BTreeMap::new());
    for function in functions.iter().filter(|function| !function.module.is_empty()) {
        let key = (function.module.as_str(), function.build_id.as_deref());
        numbers.entry(key).or_insert_with(|| {
            let id = mapping.len() as u64 + 1;
            let (filename, build_id) = (strings.number(key.0), strings.number(key.1.unwrap_or_default()));
            mapping.push(Mapping { id, filename, build_id, has_functions: true });
            id
        });
    }
    (mapping, numbers)
}

/// Wraps bytes in a gzip file (RFC 1952) of stored blocks (RFC 1951).
fn gzip(bytes: &[u8]) -> Vec<u8> {
    const MOST: usize = 0xffff;
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let count = bytes.len().div_ceil(MOST).max(1);
    for block in 0..count {
        let block_bytes = &bytes[block * MOST..bytes.len().min((block + 1) * MOST)];
        let length = block_bytes.len() as u16;
        file.push(u8::from(block + 1 == count));
        file.extend(length.to_le_bytes());
        file.extend((!length).to_le_bytes());
        file.extend(block_bytes);
    }
    file.extend((checksum(CrcAlgorithm::Crc32IsoHdlc, bytes) as u32).to_le_bytes());
    file.extend((bytes.len() as u32).to_le_bytes());
    file
}
