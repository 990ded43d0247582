//! Converts a rank's records to rows of the trace.

use super::file::{FRUITLESS, POSTED, RECEIVE, Record, Records, SEND};
use super::matching::{Messages, of_text};
use super::rank::Rank;
use super::threads::Threads;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_trace::{
    Event, HostId, IdSpace, Object, ObjectId, ObjectKind, RequestId, Role, Sink, Span, SpanId, SpanKind, Time, Track, TrackId, TrackKind,
};

/// Events passed on together.
const BATCH: usize = 4096;
/// Attributes of files in a mounted store.
const ATTRIBUTES: [&str; 4] = ["store", "layout", "map", "local"];
/// EAGAIN, the result of a test that found nothing.
const EAGAIN: i64 = 11;

/// Ranks' main threads, by job and rank: track and name.
type Ranks = HashMap<(u32, i32), (TrackId, String)>;

/// Key of an object: kind, name and attributes.
type ObjectKey = (ObjectKind, String, Vec<(String, String)>);

/// Makes rows.
pub(super) struct Translator {
    host: HostId,
    space: IdSpace,
    next: u64,
    sink: Arc<dyn Sink>,
    batch: Vec<Event>,
    objects: HashMap<ObjectKey, ObjectId>,
}

/// One communicator or file of a rank.
#[derive(Clone, Debug, Default)]
struct Group {
    /// A file's path, or empty.
    path: String,
    view: Option<String>,
    size: u32,
    /// Attributes of a file in a mounted store.
    said: Vec<(String, String)>,
    /// Its name in objects: `world`, `self`, or a number.
    called: String,
}

/// State while reading one rank's file.
struct Reading<'a> {
    rank: &'a Rank,
    ranks: &'a Ranks,
    threads: &'a Threads,
    messages: Messages,
    groups: HashMap<u32, Group>,
    /// By a file's number: its attributes when it was closed.
    said: HashMap<u32, Vec<(String, String)>>,
    tracks: HashMap<u32, TrackId>,
    /// Per thread: operations completed in the wait whose record comes next.
    ended: HashMap<u32, Vec<Record>>,
    /// Posted operations by serial: the number of their call.
    posted: HashMap<u64, usize>,
    /// The kind of each call's spans, by the call's number.
    kinds: Vec<Option<SpanKind>>,
}

impl Translator {
    pub(crate) fn new(host: HostId, space: IdSpace, sink: Arc<dyn Sink>) -> Translator {
        Translator { host, space, next: 1, sink, batch: Vec::new(), objects: HashMap::new() }
    }

    pub(crate) fn host(&self) -> HostId {
        self.host
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        u64::from(self.space.0) << 40 | (self.next - 1)
    }

    pub(crate) fn fresh_track(&mut self) -> TrackId {
        TrackId::new(self.fresh()).expect("numbers begin at 1")
    }

    pub(crate) fn emit(&mut self, event: Event) {
        self.batch.push(event);
        if self.batch.len() >= BATCH {
            self.sink.take(&mut self.batch);
        }
    }

    /// Passes on the remaining events.
    pub(crate) fn end(&mut self) {
        self.sink.take(&mut self.batch);
    }

    fn object(&mut self, kind: ObjectKind, name: String, attributes: Vec<(String, String)>) -> ObjectId {
        let key = (kind, name, attributes);
        if let Some(known) = self.objects.get(&key) {
            return *known;
        }
        let object = ObjectId::new(self.fresh()).expect("numbers begin at 1");
        let (_, name, attributes) = key.clone();
        self.emit(Event::Object(Object { object, host: self.host, kind, name, attributes }));
        self.objects.insert(key, object);
        object
    }

    /// Translates a rank's file; returns how many of its calls were lost.
    pub(crate) fn rank(&mut self, rank: &Rank, ranks: &Ranks, threads: &Threads) -> std::io::Result<u64> {
        let header = &rank.header;
        let job = super::matching::mixed(of_text(&header.job), u64::from(if header.job.is_empty() { rank.job } else { 0 }));
        let mut reading = Reading {
            rank,
            ranks,
            threads,
            messages: Messages::new(job, header.rank),
            groups: HashMap::new(),
            said: HashMap::new(),
            tracks: HashMap::new(),
            ended: HashMap::new(),
            posted: HashMap::new(),
            kinds: header.calls.iter().map(|name| kind_of(name)).collect(),
        };
        let call = |record: &Record| header.calls.get(record.call).map_or("", String::as_str);
        let mut records = Records::open(&rank.path, header)?;
        while let Some(record) = records.next()? {
            match call(&record) {
                "communicator" | "file" => reading.messages.named(&record),
                "completed" => reading.messages.completed(&record),
                name if ATTRIBUTES.contains(&name) => {
                    reading.said.entry(record.object).or_default().push((name.to_owned(), record.text));
                }
                _ => {}
            }
        }
        let mut records = Records::open(&rank.path, header)?;
        while let Some(record) = records.next()? {
            match call(&record) {
                "communicator" | "file" | "view" => reading.describe(call(&record), &record),
                name if ATTRIBUTES.contains(&name) => {}
                "completed" => reading.ended.entry(record.tid).or_default().push(record),
                name => self.call(&mut reading, name, &record),
            }
        }
        Ok(header.lost_records)
    }

    fn call(&mut self, reading: &mut Reading<'_>, name: &str, record: &Record) {
        let Some(kind) = reading.kinds.get(record.call).copied().flatten() else { return };
        let track = reading.track(self, record.tid);
        let request = if name.ends_with("_end") { reading.messages.number_of(record.serial) } else { reading.messages.number(record) };
        let receive_posted = record.flags & (POSTED | RECEIVE) == (POSTED | RECEIVE);
        if record.flags & POSTED != 0 {
            reading.posted.insert(record.serial, record.call);
        }
        let kind = match record.flags {
            flags if receive_posted && flags & SEND == 0 => SpanKind::MpiMessage,
            flags if flags & (SEND | POSTED) == (SEND | POSTED) => SpanKind::MpiSend,
            // The parts of a call that both sends and receives.
            flags if flags & SEND != 0 => SpanKind::MpiSend,
            flags if flags & RECEIVE != 0 => SpanKind::MpiReceive,
            _ => kind,
        };
        let object = reading.object(self, kind, name, record);
        let request = if kind == SpanKind::MpiMessage { None } else { request };
        let within = self.span(track, kind, record, object, request, None);
        let ended = reading.ended.remove(&record.tid).unwrap_or_default();
        if kind == SpanKind::MpiWait {
            for part in ended {
                self.ended(reading, track, within, &part);
            }
        }
    }

    /// Adds an operation completed by a wait as part of it.
    fn ended(&mut self, reading: &mut Reading<'_>, track: TrackId, wait: SpanId, part: &Record) {
        let Some(call) = reading.posted.remove(&part.serial) else { return };
        let name = reading.rank.header.calls.get(call).cloned().unwrap_or_default();
        let kind = match part.flags {
            flags if flags & RECEIVE != 0 => SpanKind::MpiReceive,
            flags if flags & SEND != 0 => SpanKind::MpiSend,
            _ => reading.kinds.get(call).copied().flatten().unwrap_or(SpanKind::MpiOther),
        };
        let request = reading.messages.number_of(part.serial);
        let object = reading.object(self, kind, &name, part);
        self.span(track, kind, part, object, request, Some(wait));
    }

    fn span(
        &mut self,
        track: TrackId,
        kind: SpanKind,
        record: &Record,
        object: Option<ObjectId>,
        request: Option<RequestId>,
        parent: Option<SpanId>,
    ) -> SpanId {
        let span = SpanId::new(self.fresh()).expect("numbers begin at 1");
        let result = match record.result {
            _ if record.flags & FRUITLESS != 0 => Some(-EAGAIN),
            0 => None,
            class => Some(-i64::from(class)),
        };
        let moves = !matches!(kind, SpanKind::MpiWait | SpanKind::MpiIo | SpanKind::MpiOther);
        let start = Time::from_monotonic_ns(i64::try_from(record.start_ns).unwrap_or(i64::MAX));
        self.emit(Event::Span(Span {
            count: record.count.max(1),
            object,
            offset_bytes: record.offset_bytes.filter(|&offset| offset <= i64::MAX as u64),
            size_bytes: (moves && record.size_bytes <= i64::MAX as u64).then_some(record.size_bytes),
            result,
            parent,
            request,
            ..Span::bare(span, track, kind, start, record.end_ns - record.start_ns)
        }));
        span
    }
}

impl Reading<'_> {
    fn describe(&mut self, what: &str, record: &Record) {
        if what == "view" {
            if let Some(group) = self.groups.get_mut(&record.object) {
                group.view = Some(record.text.clone());
            }
            return;
        }
        let path = if what == "file" { self.path(&record.text) } else { String::new() };
        let said = self.said.get(&record.object).cloned().unwrap_or_default();
        let called = match record.serial {
            1 if what == "communicator" => "world".to_owned(),
            0 => format!("communicator {} of rank {}", record.object, self.rank.header.rank),
            name => format!("communicator {:08x}", name >> 32),
        };
        self.groups.insert(record.object, Group { path, view: None, size: record.count, said, called });
    }

    /// Returns a file's path, resolving the rank's working directory and implementation prefixes.
    fn path(&self, given: &str) -> String {
        let plain = match given.split_once(':') {
            Some((prefix, rest)) if !prefix.contains('/') && !prefix.is_empty() => rest,
            _ => given,
        };
        let directory = &self.rank.header.directory;
        if plain.starts_with('/') || directory.is_empty() { plain.to_owned() } else { format!("{directory}/{plain}") }
    }

    fn track(&mut self, translator: &mut Translator, tid: u32) -> TrackId {
        if let Some(track) = self.tracks.get(&tid) {
            return *track;
        }
        let header = &self.rank.header;
        let own = self.ranks.get(&(self.rank.job, header.rank));
        let track = match own {
            Some((track, _)) if tid == header.tid => *track,
            _ => self.threads.get(header.pid, tid).map_or_else(
                || {
                    let track = translator.fresh_track();
                    let name = format!("{}/{tid}", own.map_or("rank", |(_, name)| name));
                    let (host, kind, role) = (translator.host, TrackKind::Thread, Role::Client);
                    translator.emit(Event::Track(Track { track, host, kind, role, pid: Some(header.pid), tid: Some(tid), name }));
                    track
                },
                |known| known.track,
            ),
        };
        self.tracks.insert(tid, track);
        track
    }

    /// Returns the name of a rank, even one not recorded here.
    fn name_of(&self, rank: i32) -> String {
        let known = self.ranks.get(&(self.rank.job, rank)).map(|(_, name)| name.clone());
        known.unwrap_or_else(|| format!("rank {rank}"))
    }

    fn object(&self, translator: &mut Translator, kind: SpanKind, name: &str, record: &Record) -> Option<ObjectId> {
        let group = self.groups.get(&record.object)?;
        let attribute = |name: &str, value: String| (name.to_owned(), value);
        if !group.path.is_empty() {
            let mut attributes = group.said.clone();
            attributes.extend(group.view.clone().map(|view| attribute("view", view)));
            return Some(translator.object(ObjectKind::File, group.path.clone(), attributes));
        }
        let mut attributes = vec![attribute("call", name.to_owned()), attribute("communicator", group.called.clone())];
        attributes.push(attribute("size", group.size.to_string()));
        let peer = (record.peer >= 0).then(|| self.name_of(record.peer));
        let own = self.name_of(self.rank.header.rank);
        let called = match (kind, peer) {
            (SpanKind::MpiCollective | SpanKind::MpiIo | SpanKind::MpiOther, root) => {
                attributes.extend(root.map(|root| attribute("root", root)));
                format!("{name} on {}", group.called)
            }
            (_, None) if record.flags & (SEND | RECEIVE) != 0 => format!("{name}: any rank, {}", group.called),
            (_, None) => format!("{name} on {}", group.called),
            (kind, Some(peer)) => {
                let (from, to) = if kind == SpanKind::MpiSend { (own, peer) } else { (peer, own) };
                let called = format!("{from} > {to}");
                attributes.extend([attribute("from", from), attribute("to", to)]);
                called
            }
        };
        Some(translator.object(ObjectKind::Communicator, called, attributes))
    }
}

/// Returns the kind of a call's spans; `None` if it has none.
fn kind_of(name: &str) -> Option<SpanKind> {
    let rest = name.strip_prefix("MPI_")?;
    if let Some(file) = rest.strip_prefix("File_") {
        let data = file.strip_prefix('i').unwrap_or(file);
        return Some(match data {
            data if data.starts_with("read") => SpanKind::MpiRead,
            data if data.starts_with("write") => SpanKind::MpiWrite,
            _ => SpanKind::MpiIo,
        });
    }
    Some(match rest {
        "Send" | "Ssend" | "Bsend" | "Rsend" | "Isend" | "Issend" | "Ibsend" | "Irsend" | "Sendrecv" | "Sendrecv_replace" => {
            SpanKind::MpiSend
        }
        "Start" | "Startall" => SpanKind::MpiMessage,
        "Recv" | "Mrecv" => SpanKind::MpiReceive,
        "Irecv" | "Imrecv" => SpanKind::MpiMessage,
        rest if rest.starts_with("Wait") || rest.starts_with("Test") => SpanKind::MpiWait,
        "Probe" | "Iprobe" | "Mprobe" | "Improbe" => SpanKind::MpiWait,
        "Init" | "Init_thread" | "Finalize" | "Abort" => SpanKind::MpiOther,
        _ => SpanKind::MpiCollective,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_of_the_kind_that_they_are() {
        for (name, kind) in [
            ("MPI_File_iread_at_all", SpanKind::MpiRead),
            ("MPI_File_write_ordered_begin", SpanKind::MpiWrite),
            ("MPI_File_sync", SpanKind::MpiIo),
            ("MPI_Ialltoallw", SpanKind::MpiCollective),
            ("MPI_Comm_split", SpanKind::MpiCollective),
            ("MPI_Testsome", SpanKind::MpiWait),
            ("MPI_Init_thread", SpanKind::MpiOther),
        ] {
            assert_eq!(kind_of(name), Some(kind), "{name}");
        }
        assert_eq!(kind_of("communicator"), None);
    }
}
