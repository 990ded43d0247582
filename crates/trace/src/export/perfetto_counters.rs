//! Counters: those of a thread under the thread, those of a connection (or another object) in a group of its own, within the process that
//! used it. Both ends of a connection may have been recorded: they are two groups.

use super::perfetto_messages::{COUNTER, CounterDescriptor, TrackDescriptor, TrackEvent};
use super::perfetto_tracks::Tracks;
use super::perfetto_writer::Writer;
use crate::{CounterName, CounterOf, ObjectId, Source, Span, SpanKind, TraceError};
use std::collections::{HashMap, HashSet};

/// The process that used each object: host and process id.
pub(super) struct Owners {
    of_tracks: HashMap<u64, (u16, u32)>,
    hosts: HashMap<ObjectId, u16>,
    owners: HashMap<ObjectId, (u16, u32)>,
}

impl Owners {
    pub(super) fn new(source: &dyn Source) -> Owners {
        let of_tracks = source.tracks().iter().filter_map(|track| Some((track.track.number(), (track.host.0, track.pid?)))).collect();
        let hosts = source.objects().iter().map(|object| (object.object, object.host.0)).collect();
        Owners { of_tracks, hosts, owners: HashMap::new() }
    }

    /// Takes in a span.
    pub(super) fn see(&mut self, span: &Span) {
        let used = matches!(span.kind, SpanKind::NetSend | SpanKind::NetReceive);
        if let Some((object, process)) = span.object.filter(|_| used).zip(self.of_tracks.get(&span.track.number()))
            && self.hosts.get(&object) == Some(&process.0)
        {
            self.owners.entry(object).or_insert(*process);
        }
    }
}

/// Writes all counters.
pub(super) fn write(source: &dyn Source, owners: &Owners, tracks: &mut Tracks, writer: &mut Writer) -> Result<(), TraceError> {
    let mut groups = Groups { source, owners, made: HashMap::new(), names: HashSet::new() };
    for &name in CounterName::ALL {
        let mut uuids: HashMap<CounterOf, u64> = HashMap::new();
        for counter in source.counters(name)? {
            let uuid = match uuids.get(&counter.of) {
                Some(&uuid) => uuid,
                None => {
                    let parent_uuid = match counter.of {
                        CounterOf::Track(track) => tracks.known(track),
                        CounterOf::Object(object) => Some(groups.of(object, tracks, writer)?),
                    };
                    let uuid = tracks.new_uuid();
                    let unit = Some(CounterDescriptor { unit_name: unit(name).map(str::to_owned) });
                    writer.describe(TrackDescriptor {
                        uuid: Some(uuid),
                        name: Some(name.name().to_owned()),
                        counter: unit,
                        parent_uuid,
                        ..TrackDescriptor::default()
                    })?;
                    uuids.insert(counter.of, uuid);
                    uuid
                }
            };
            let event =
                TrackEvent { kind: Some(COUNTER), track_uuid: Some(uuid), counter_value: Some(counter.value), ..TrackEvent::default() };
            writer.event(counter.at, event)?;
        }
    }
    Ok(())
}

/// The tracks that hold the counters of one object each.
struct Groups<'a> {
    source: &'a dyn Source,
    owners: &'a Owners,
    made: HashMap<ObjectId, u64>,
    names: HashSet<(Option<u64>, String)>,
}

impl Groups<'_> {
    /// Returns the group of an object. Perfetto joins tracks of one name within one process, so a second group of a name says which it is.
    fn of(&mut self, object: ObjectId, tracks: &mut Tracks, writer: &mut Writer) -> Result<u64, TraceError> {
        if let Some(&uuid) = self.made.get(&object) {
            return Ok(uuid);
        }
        let row = self.source.objects().iter().find(|row| row.object == object);
        let parent_uuid = self.owners.owners.get(&object).and_then(|&(host, pid)| tracks.process(host, pid));
        let mut name = row.map_or_else(|| format!("object {}", object.number()), |row| row.name.clone());
        let end = row.and_then(|row| row.attributes.iter().find(|(name, _)| name == "end"));
        if let Some((_, end)) = end.filter(|_| parent_uuid.is_none() || self.names.contains(&(parent_uuid, name.clone()))) {
            name = format!("{name} (the {end}'s end)");
        }
        if !self.names.insert((parent_uuid, name.clone())) {
            name = format!("{name} ({})", object.number());
        }
        let uuid = tracks.new_uuid();
        writer.describe(TrackDescriptor { uuid: Some(uuid), name: Some(name), parent_uuid, ..TrackDescriptor::default() })?;
        self.made.insert(object, uuid);
        Ok(uuid)
    }
}

fn unit(name: CounterName) -> Option<&'static str> {
    use CounterName::{CpuAllowed, FileCreates, FileListed, FileOpens, FileReads, FileRemoves, FileRenames, FileStats};
    use CounterName::{Event0, Event1, Event2, Event3, Event4, Event5, IoReadCalls, IoWriteCalls, RpcPending, RpcWindow};
    match name {
        RpcPending | RpcWindow | FileOpens | FileCreates | FileStats | FileRemoves | FileRenames | FileListed | FileReads => None,
        CpuAllowed | Event0 | Event1 | Event2 | Event3 | Event4 | Event5 | IoReadCalls | IoWriteCalls => None,
        name if name.name().ends_with("_us") => Some("us"),
        name if name.name().ends_with("_ns") => Some("ns"),
        _ => Some("bytes"),
    }
}
