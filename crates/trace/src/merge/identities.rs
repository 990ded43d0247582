//! New identifiers for merged recordings: an identifier means different things in different recordings, and an object
//! that two recordings of one machine saw must become one.
//!
//! Spans and requests are too many for a table: an identifier is `space << 40 | n`, and each recording's spaces are
//! renumbered, so that spans can be streamed without being remembered.

use crate::{
    Counter, CounterOf, Event, Host, HostId, Mark, MarkKind, Object, ObjectId, RequestId, Role, Sample, Source, Span, SpanId, SpanKind,
    TraceError, Track, TrackId, TrackKind,
};
use std::collections::{HashMap, HashSet};

const SPACE_SHIFT: u32 = 40;
const WITHIN_SPACE: u64 = (1 << SPACE_SHIFT) - 1;

/// Maximum spans of a device that are compared when two recordings saw it.
const MOST_COMPARED: usize = 4 << 20;

/// Rows of the merged recording, by identity.
#[derive(Debug, Default)]
pub(super) struct Identities {
    hosts: Vec<Host>,
    host_numbers: HashMap<(String, String, String), HostId>,
    tracks: Vec<Track>,
    threads: HashMap<Identity, KnownTrack>,
    objects: Vec<Object>,
    object_numbers: HashMap<(String, u8, String, String), usize>,
    spaces: u64,
    /// Spans read so far of devices that more than one recording saw.
    device_spans: HashSet<(u64, i64, u64)>,
    recordings: usize,
    /// Threads with spans in two recordings.
    twice: Vec<String>,
}

/// The identity of a track across recordings: the machine's boot, and the thread's number or the device's name.
type Identity = (String, TrackKind, Option<u32>, Option<u32>, String);

/// A thread or device already in the merged recording.
#[derive(Clone, Copy, Debug)]
struct KnownTrack {
    row: usize,
    /// The recording whose spans of this track are kept.
    spans_of: Option<usize>,
}

/// Maps one recording's identifiers to the merged ones.
#[derive(Debug, Default)]
pub(super) struct Pass {
    number: usize,
    /// Its clock differs from another recording's clock of the same name.
    apart: bool,
    hosts: HashMap<HostId, HostId>,
    /// Hosts that an earlier recording already added.
    hosts_known: HashSet<HostId>,
    tracks: HashMap<u64, TrackId>,
    /// Tracks whose spans another recording provides.
    silent: HashSet<u64>,
    /// Devices that another recording saw too.
    shared_devices: HashSet<u64>,
    objects: HashMap<u64, ObjectId>,
    spaces: HashMap<u64, u64>,
}

/// Results of one pass over the spans.
#[derive(Default)]
struct Survey {
    spaces: HashSet<u64>,
    with_spans: HashSet<u64>,
    /// Threads that sent or received on the accepting end of a connection.
    accepting: HashSet<u64>,
}

impl Survey {
    fn of(source: &dyn Source) -> Result<Survey, TraceError> {
        let accepting_ends: HashSet<u64> = source
            .objects()
            .iter()
            .filter(|object| object.attributes.iter().any(|(name, value)| name == "end" && value == "server"))
            .map(|object| object.object.number())
            .collect();
        let mut survey = Survey::default();
        // Most spans resemble the previous one; the sets are consulted only on a change.
        let (mut last_track, mut last_spaces) = (0, [u64::MAX; 3]);
        for batch in source.spans_backward() {
            let batch = batch?;
            for row in 0..batch.len() {
                let request = if batch.request[row] >= RequestId::COMMON { 0 } else { batch.request[row] };
                let spaces = [batch.span[row], request, batch.parent[row]].map(|number| number >> SPACE_SHIFT);
                if spaces != last_spaces {
                    survey.spaces.extend(spaces);
                    last_spaces = spaces;
                }
                if batch.track[row] != last_track {
                    survey.with_spans.insert(batch.track[row]);
                    last_track = batch.track[row];
                }
                let net = matches!(batch.kind[row], SpanKind::NetSend | SpanKind::NetReceive | SpanKind::WaitNetwork);
                if net && accepting_ends.contains(&batch.object[row]) {
                    survey.accepting.insert(batch.track[row]);
                }
            }
        }
        Ok(survey)
    }
}

impl Identities {
    /// Adds one recording's rows. `apart`: its clock differs from another recording's clock of the same name.
    pub(super) fn add(&mut self, source: &dyn Source, first: bool, apart: bool) -> Result<Pass, TraceError> {
        let survey = Survey::of(source)?;
        let mut pass = Pass { number: self.recordings, apart, ..Pass::default() };
        self.recordings += 1;
        self.add_hosts(source, &mut pass);
        self.add_tracks(source, &survey, first, &mut pass);
        self.add_objects(source, &mut pass);
        let mut spaces: Vec<u64> = survey.spaces.into_iter().collect();
        spaces.sort_unstable();
        for space in spaces {
            self.spaces += 1;
            pass.spaces.insert(space, self.spaces);
        }
        Ok(pass)
    }

    fn add_hosts(&mut self, source: &dyn Source, pass: &mut Pass) {
        for host in source.hosts() {
            let key = (axis_of(source, host.host, pass), host.name.clone(), host.node.clone());
            let next = HostId(self.hosts.len() as u16);
            let number = *self.host_numbers.entry(key).or_insert(next);
            if number == next {
                self.hosts.push(Host { host: number, ..host.clone() });
            } else if pass.number > 0 {
                pass.hosts_known.insert(host.host);
            }
            pass.hosts.insert(host.host, number);
        }
    }

    fn add_tracks(&mut self, source: &dyn Source, survey: &Survey, first: bool, pass: &mut Pass) {
        let accepting: HashSet<(HostId, Option<u32>)> =
            source.tracks().iter().filter(|t| survey.accepting.contains(&t.track.number())).map(|t| (t.host, t.pid)).collect();
        // Two rows of one recording are distinct, whatever their names.
        let mut taken = HashSet::new();
        for track in source.tracks() {
            let number = track.track.number();
            let has_spans = survey.with_spans.contains(&number);
            let serves = !first && track.role == Role::Client && track.pid.is_some() && accepting.contains(&(track.host, track.pid));
            let role = if serves { Role::Server } else { track.role };
            let identity = identity(source, track, pass);
            let known = identity.as_ref().and_then(|key| self.threads.get(key).copied()).filter(|known| taken.insert(known.row));
            let row = match known {
                Some(known) => {
                    self.meet(known, track, role, has_spans, pass);
                    known.row
                }
                None => {
                    let id = TrackId::new(self.tracks.len() as u64 + 1).expect("not 0");
                    self.tracks.push(Track { track: id, host: pass.host(track.host), role, ..track.clone() });
                    self.tracks.len() - 1
                }
            };
            taken.insert(row);
            if let Some(key) = identity {
                let spans_of = known.and_then(|known| known.spans_of).or(has_spans.then_some(pass.number));
                self.threads.insert(key, KnownTrack { row, spans_of });
            }
            pass.tracks.insert(number, self.tracks[row].track);
        }
    }

    /// Merges a track that an earlier recording also has.
    fn meet(&mut self, known: KnownTrack, track: &Track, role: Role, has_spans: bool, pass: &mut Pass) {
        let number = track.track.number();
        let row = &mut self.tracks[known.row];
        if rank(role) > rank(row.role) {
            row.role = role;
        }
        if row.name.is_empty() || (known.spans_of.is_none() && has_spans) {
            row.name.clone_from(&track.name);
        }
        if !has_spans || known.spans_of.is_none_or(|other| other == pass.number) {
            return;
        }
        if track.kind == TrackKind::Device {
            pass.shared_devices.insert(number);
        } else {
            pass.silent.insert(number);
            self.twice.push(row.name.clone());
        }
    }

    fn add_objects(&mut self, source: &dyn Source, pass: &mut Pass) {
        let mut taken = HashSet::new();
        for object in source.objects() {
            let clock = axis_of(source, object.host, pass);
            let end = object.attributes.iter().find(|(name, _)| name == "end").map_or(String::new(), |(_, value)| value.clone());
            let key = (clock, object.kind as u8, object.name.clone(), end);
            let known = self.object_numbers.get(&key).copied().filter(|row| taken.insert(*row));
            let row = known.unwrap_or_else(|| {
                let id = ObjectId::new(self.objects.len() as u64 + 1).expect("not 0");
                self.objects.push(Object { object: id, host: pass.host(object.host), ..object.clone() });
                self.objects.len() - 1
            });
            for (name, value) in &object.attributes {
                let attributes = &mut self.objects[row].attributes;
                if attributes.iter().all(|(known, _)| known != name) {
                    attributes.push((name.clone(), value.clone()));
                }
            }
            taken.insert(row);
            self.object_numbers.entry(key).or_insert(row);
            pass.objects.insert(object.object.number(), self.objects[row].object);
        }
    }

    /// Returns the rows of hosts, tracks and objects.
    pub(super) fn rows(&self) -> Vec<Event> {
        let hosts = self.hosts.iter().cloned().map(Event::Host);
        hosts.chain(self.tracks.iter().cloned().map(Event::Track)).chain(self.objects.iter().cloned().map(Event::Object)).collect()
    }

    /// Returns notes for the user on threads recorded twice.
    pub(super) fn notes(&self) -> Vec<String> {
        let threads: std::collections::BTreeSet<&String> = self.twice.iter().collect();
        match threads.len() {
            0 => Vec::new(),
            n => vec![format!("{n} threads are in more than one recording; only the first recording's spans of them were kept.")],
        }
    }
}

/// Returns the clock of a host's times as its recording yields them. Times moved to the recording's reference host's
/// clock are on a clock that no other recording has.
fn axis_of(source: &dyn Source, host: HostId, pass: &Pass) -> String {
    let clock = source.hosts().iter().find(|row| row.host == host).map_or("", |row| row.clock.as_str());
    let moved = source.clocks().iter().any(|row| row.host == host && (row.offset_ns != 0 || row.drift_ppb != 0));
    if moved || pass.apart { format!("{clock} in {}", pass.number) } else { clock.to_owned() }
}

fn identity(source: &dyn Source, track: &Track, pass: &Pass) -> Option<Identity> {
    let clock = axis_of(source, track.host, pass);
    match track.kind {
        TrackKind::Thread => Some((clock, track.kind, Some(track.pid?), Some(track.tid?), String::new())),
        TrackKind::Device | TrackKind::Cpu | TrackKind::Link => Some((clock, track.kind, None, None, track.name.clone())),
        TrackKind::Connection => None,
    }
}

/// Ranks roles by how much they say about a thread; the higher one is kept.
fn rank(role: Role) -> u8 {
    match role {
        Role::None => 0,
        Role::Kernel => 1,
        Role::Recorder => 2,
        Role::Client => 3,
        Role::Server => 4,
    }
}

impl Pass {
    /// Returns a host's new number.
    pub(super) fn host(&self, host: HostId) -> HostId {
        self.hosts.get(&host).copied().unwrap_or(HostId(0))
    }

    /// Whether an earlier recording has the host.
    pub(super) fn knows_host_from_before(&self, host: HostId) -> bool {
        self.hosts_known.contains(&host)
    }

    fn number(&self, number: u64) -> u64 {
        let space = self.spaces.get(&(number >> SPACE_SHIFT)).copied().unwrap_or(0);
        space << SPACE_SHIFT | number & WITHIN_SPACE
    }

    fn request(&self, request: RequestId) -> Option<RequestId> {
        if request.is_common() { Some(request) } else { RequestId::new(self.number(request.number())) }
    }

    fn track(&self, track: TrackId) -> Option<TrackId> {
        self.tracks.get(&track.number()).copied()
    }

    fn object(&self, object: ObjectId) -> Option<ObjectId> {
        self.objects.get(&object.number()).copied()
    }

    /// Returns a span with its new identifiers; `None` if another recording provides it.
    pub(super) fn span(&self, identities: &mut Identities, span: Span, first_stack: u32) -> Option<Span> {
        let number = span.track.number();
        if self.silent.contains(&number) {
            return None;
        }
        let track = self.track(span.track)?;
        let (start_ns, offset) = (span.start.ns(), span.offset_bytes.unwrap_or(u64::MAX));
        let seen = &mut identities.device_spans;
        if self.shared_devices.contains(&number) {
            if seen.contains(&(track.number(), start_ns, offset)) {
                return None;
            }
        } else if matches!(span.kind, SpanKind::DiskRead | SpanKind::DiskWrite | SpanKind::DiskFlush) && seen.len() < MOST_COMPARED {
            seen.insert((track.number(), start_ns, offset));
        }
        Some(Span {
            span: SpanId::new(self.number(span.span.number()))?,
            track,
            object: span.object.and_then(|object| self.object(object)),
            parent: span.parent.and_then(|parent| SpanId::new(self.number(parent.number()))),
            request: span.request.and_then(|request| self.request(request)),
            waker_track: span.waker_track.and_then(|track| self.track(track)),
            stack: span.stack.map(|stack| stack.saturating_add(first_stack)),
            ..span
        })
    }

    /// Returns a mark with its new identifiers.
    pub(super) fn mark(&self, mark: Mark) -> Option<Mark> {
        // The value of a `thread.start` is the track of the thread's creator.
        let maker = |value: i64| self.track(TrackId::new(u64::try_from(value).ok()?)?).and_then(|maker| i64::try_from(maker.number()).ok());
        let value = if mark.kind == MarkKind::ThreadStart { mark.value.and_then(maker) } else { mark.value };
        Some(Mark { track: self.track(mark.track)?, object: mark.object.and_then(|object| self.object(object)), value, ..mark })
    }

    /// Returns the new identifier of a counter's track or object.
    pub(super) fn counter_of(&self, of: CounterOf) -> Option<CounterOf> {
        match of {
            CounterOf::Track(track) => self.track(track).map(CounterOf::Track),
            CounterOf::Object(object) => self.object(object).map(CounterOf::Object),
        }
    }

    /// Returns a counter with its new identifiers.
    pub(super) fn counter(&self, counter: Counter) -> Option<Counter> {
        Some(Counter { of: self.counter_of(counter.of)?, ..counter })
    }

    /// Returns a sample with its new identifiers.
    pub(super) fn sample(&self, sample: Sample, first_stack: u32) -> Sample {
        Sample {
            host: self.host(sample.host),
            track: sample.track.and_then(|track| self.track(track)),
            stack: sample.stack.map(|stack| stack.saturating_add(first_stack)),
            ..sample
        }
    }
}
