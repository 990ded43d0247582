//! Converts the library's records to rows of the trace.

use super::shared::{LISTEN, LOOK, OBJECT, OpenRun, RECORD_BYTES, RUN, Record, SPAN, STATUS, TCP, known};
use super::sharing::Sharing;
use crate::proc::calls::{Call, Calls};
use crate::proc::diagnostics::plain;
use crate::proc::files::{Objects, Opened};
use crate::proc::listeners::datagrams_to;
use crate::proc::processes::started_at;
use crate::proc::quotas::Quotas;
use crate::proc::strangers::Tracks;
use crate::starting::is_of_starting;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::PoisonError;
use thalweg_trace::WakerContext;
use thalweg_trace::{
    Event, HostId, Mark, MarkKind, ObjectId, ObjectKind, Role, Span, SpanId, SpanKind, TcpInfo, Time, TraceHandle, Track, TrackId,
    TrackKind,
};

/// The context of a wait for something another thread held.
const HOLDER: u8 = 4;
/// The context of what the library infers from the time between two calls.
const BETWEEN: u8 = 5;
const CLASS_FILE: u8 = 1;
const CLASS_TCP: u8 = 2;
const CLASS_SOCKET: u8 = 3;
const CLASS_PIPE: u8 = 4;
const CLASS_TERMINAL: u8 = 5;
const CLASS_DATAGRAMS: u8 = 8;
/// How a file was opened: the access mode, and a bit for O_DIRECT.
const WAY: u8 = 3;
const DIRECT: u8 = 4;
/// Length of the kernel's `struct sockaddr_storage`.
const ADDRESS_BYTES: usize = 128;

/// The thread that a record belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadContext<'a> {
    pub pid: u32,
    pub track: TrackId,
    pub objects: &'a HashMap<u32, ObjectId>,
}

/// Makes rows.
#[derive(Debug)]
pub(super) struct Translator {
    trace: TraceHandle,
    pub host: HostId,
    pub objects: Objects,
    pub quotas: Quotas,
    /// Threads by number; a reused number refers to the newer thread.
    threads: HashMap<u32, TrackId>,
    /// Main threads of processes that executed another program, until its file is found: the thread is the same.
    pub became_another: HashMap<u32, TrackId>,
    /// Users of pipes and Unix sockets.
    pub sharing: Sharing,
    /// Threads that another recorder has tracks for: all of them, or those that only /proc shows.
    strangers: Tracks,
    /// Another recorder has the switches of all threads, and wants to know of calls.
    pub calls: Option<Calls>,
    /// Retransmissions and timeouts of each connection, as last recorded.
    troubles: HashMap<ObjectId, (u32, u16)>,
}

/// Converts the library's number of a kind.
fn span_kind(kind: u8) -> Option<SpanKind> {
    const KINDS: [SpanKind; 19] = [
        SpanKind::FileOpen,
        SpanKind::FileRead,
        SpanKind::FileWrite,
        SpanKind::FileSync,
        SpanKind::FileStat,
        SpanKind::FileList,
        SpanKind::FileClose,
        SpanKind::FileOther,
        SpanKind::NetConnect,
        SpanKind::NetSend,
        SpanKind::NetReceive,
        SpanKind::WaitNetwork,
        SpanKind::WaitLock,
        SpanKind::WaitTimer,
        SpanKind::WaitDisk,
        SpanKind::WaitOther,
        SpanKind::AppOther,
        SpanKind::WaitRunqueue,
        SpanKind::CpuRun,
    ];
    KINDS.get(usize::from(kind).checked_sub(1)?).copied()
}

fn moves_bytes(kind: SpanKind) -> bool {
    matches!(kind, SpanKind::FileRead | SpanKind::FileWrite | SpanKind::FileSync | SpanKind::NetSend | SpanKind::NetReceive)
}

fn time(ns: u64) -> Option<Time> {
    i64::try_from(ns).ok().map(Time::from_monotonic_ns)
}

impl Translator {
    pub(crate) fn new(trace: TraceHandle, host: HostId, strangers: Tracks) -> Translator {
        Translator {
            sharing: Sharing::default(),
            strangers,
            calls: None,
            objects: Objects::new(trace.clone(), host),
            quotas: Quotas::default(),
            trace,
            host,
            threads: HashMap::new(),
            became_another: HashMap::new(),
            troubles: HashMap::new(),
        }
    }

    /// Emits the row of a thread; `known`: again, with another name.
    pub(crate) fn track(&mut self, known: Option<TrackId>, pid: u32, tid: u32, name: &str, out: &mut Vec<Event>) -> Option<TrackId> {
        let track = match &self.calls {
            // The other recorder names threads; it may not have seen this one yet.
            Some(_) => known.or_else(|| self.stranger(tid))?,
            None => known.or_else(|| TrackId::new(self.trace.fresh()))?,
        };
        self.threads.insert(tid, track);
        self.sharing.thread(track, pid);
        if self.calls.is_some() {
            return Some(track);
        }
        let (pid, tid, name) = (Some(pid), Some(tid), name.to_owned());
        out.push(Event::Track(Track { track, host: self.host, kind: TrackKind::Thread, role: Role::Client, pid, tid, name }));
        Some(track)
    }

    /// Returns the object named by a record of this thread.
    pub(crate) fn object(&mut self, track: TrackId, record: &Record, more: &[Record]) -> Option<ObjectId> {
        let bytes: Vec<u8> = more.iter().flat_map(|record| record.0).collect();
        let text = || -> Option<String> {
            let length = usize::try_from(record.size()).ok()?;
            Some(String::from_utf8_lossy(bytes.get(..length)?).into_owned())
        };
        match record.kind() {
            CLASS_PIPE => {
                let inode = known(record.offset())?;
                let object = self.objects.other(ObjectKind::Pipe, &format!("pipe:[{inode}]"))?;
                self.sharing.pipe(track, object, inode, Opened::from_way(record.context() & WAY));
                Some(object)
            }
            CLASS_SOCKET => {
                let inode = known(record.offset())?;
                let object = self.objects.other(ObjectKind::Socket, &format!("unix:[{inode}]"))?;
                self.sharing.socket(track, object, inode);
                Some(object)
            }
            CLASS_DATAGRAMS => {
                let inode = known(record.offset())?;
                let named = usize::try_from(record.size()).ok()?.next_multiple_of(RECORD_BYTES);
                let sent_to = bytes.get(named..).and_then(address);
                if let Some(peer) = sent_to {
                    self.objects.datagrams_to.insert(inode, peer);
                }
                let peer = sent_to.or_else(|| datagrams_to(std::process::id(), inode))?;
                self.objects.other(ObjectKind::Socket, &format!("udp:{peer}"))
            }
            CLASS_TERMINAL => self.objects.other(ObjectKind::Terminal, &text()?),
            CLASS_FILE => {
                let path = text()?;
                let opened = Opened::from_way(record.context() & WAY);
                self.objects.file(path.trim_end_matches(" (deleted)"), None, opened, record.context() & DIRECT != 0)
            }
            CLASS_TCP => {
                let (local, peer) = (address(&bytes)?, address(bytes.get(ADDRESS_BYTES..)?)?);
                let accepted = match record.context() {
                    1 => Some(false),
                    2 => Some(true),
                    _ => None,
                };
                self.objects.connection(local, peer, accepted)
            }
            _ => None,
        }
    }

    fn fresh(&self, track: TrackId, kind: SpanKind, start: Time, duration_ns: u64) -> Option<Span> {
        Some(Span::bare(SpanId::new(self.trace.fresh())?, track, kind, start, duration_ns))
    }

    /// Translates one record; `false` if it is invalid.
    pub(crate) fn record(&mut self, thread: ThreadContext<'_>, record: &Record, more: &[Record], out: &mut Vec<Event>) -> bool {
        match record.kind_of_record() {
            SPAN | RUN if self.calls.is_some() => {
                let inferred = record.context() == BETWEEN;
                let merged = record.kind_of_record() == RUN;
                let call = |span| Call { span, of_both: record.is_of_both(), merged };
                inferred || self.span(thread, record).map(|span| self.calls.iter().for_each(|calls| calls.add(call(span)))).is_some()
            }
            SPAN | RUN => self.span(thread, record).map(|span| self.emit(thread, span, out)).is_some(),
            OBJECT => true,
            TCP => self.tcp(thread, record, more, out).is_some(),
            // (A name may be of a kind that is not recorded.)
            LOOK => self.look(thread, record, more, out).is_some() || i64::try_from(record.start_ns()).is_ok(),
            STATUS => {
                i32::try_from(record.size()).map(|status| self.calls.iter().for_each(|calls| calls.ended(record.waker(), status))).is_ok()
            }
            LISTEN => u16::try_from(record.size()).map(|port| self.objects.listening.insert(port)).is_ok(),
            _ => false,
        }
    }

    /// Emits a span. The throttled part of its runnable time becomes a separate wait at its end, after whatever it
    /// was blocked on.
    fn emit(&mut self, thread: ThreadContext<'_>, span: Span, out: &mut Vec<Event>) {
        let queued_ns = span.runqueue_ns.unwrap_or(0).min(span.duration_ns);
        let quota = self.quotas.took(thread.pid, thread.track, span.start, queued_ns);
        let Some(((group, took_ns), id)) = quota.zip(SpanId::new(self.trace.fresh())) else { return out.push(Event::Span(span)) };
        let duration_ns = span.duration_ns - took_ns;
        let stopped = Span::bare(id, thread.track, SpanKind::WaitRunqueue, span.start.plus_ns(duration_ns as i64), took_ns);
        if duration_ns > 0 || span.kind != SpanKind::WaitRunqueue {
            out.push(Event::Span(Span { duration_ns, runqueue_ns: Some(queued_ns - took_ns), ..span }));
        }
        out.push(Event::Span(Span { object: Some(group), cpu_ns: Some(0), runqueue_ns: Some(took_ns), ..stopped }));
    }

    fn span(&mut self, thread: ThreadContext<'_>, record: &Record) -> Option<Span> {
        let kind = span_kind(record.kind())?;
        let start = time(record.start_ns())?;
        i64::try_from(record.duration_ns()).ok()?;
        let merged = record.kind_of_record() == RUN;
        let object = thread.objects.get(&record.object()).copied();
        // A lock wait on a file is for a lock on that file.
        let lock = object.filter(|_| kind == SpanKind::WaitLock).and_then(|object| self.objects.lock_on(object));
        let mutex = if record.context() == HOLDER { self.objects.other(ObjectKind::Lock, "mutex") } else { None };
        let object = mutex.or(lock).or(object);
        let waker = match record.waker() {
            0 => object.filter(|_| !merged && kind == SpanKind::WaitLock).and_then(|object| self.sharing.other_side(object, thread.track)),
            tid => self.threads.get(&tid).copied().or_else(|| self.stranger(tid)).filter(|waker| *waker != thread.track),
        };
        let context = match record.context() {
            0 | 1 | HOLDER if waker.is_some() => Some(WakerContext::Task),
            2 => Some(WakerContext::Timer),
            3 => Some(WakerContext::Softirq),
            _ => None,
        };
        let size = record.size();
        Some(Span {
            count: record.count().max(1),
            object,
            offset_bytes: known(record.offset()),
            size_bytes: u64::try_from(size).ok().filter(|_| moves_bytes(kind)),
            result: (size < 0 || (!merged && moves_bytes(kind))).then_some(size),
            waker_track: waker,
            waker_context: context,
            cpu_ns: known(record.cpu_ns()),
            runqueue_ns: known(record.runqueue_ns()),
            ..self.fresh(thread.track, kind, start, record.duration_ns())?
        })
    }

    /// Emits a call that found nothing, or then did, as a span without a length.
    fn look(&mut self, thread: ThreadContext<'_>, record: &Record, more: &[Record], out: &mut Vec<Event>) -> Option<()> {
        const ADDRESSES: u8 = 1;
        let (kind, at) = (span_kind(record.kind())?, time(record.start_ns())?);
        let bytes: Vec<u8> = more.iter().flat_map(|record| record.0).collect();
        let name = || -> Option<String> {
            let length = usize::try_from(record.offset()).ok()?;
            Some(String::from_utf8_lossy(bytes.get(..length)?).into_owned())
        };
        let object = match kind {
            SpanKind::NetConnect if record.context() == ADDRESSES => {
                self.objects.connection(address(&bytes)?, address(bytes.get(ADDRESS_BYTES..)?)?, Some(false))
            }
            SpanKind::NetConnect => self.objects.other(ObjectKind::Socket, &format!("unix:{}", name()?)),
            SpanKind::WaitLock => thread.objects.get(&record.object()).copied().and_then(|file| self.objects.lock_on(file)),
            _ => {
                let path = name().filter(|path| !is_of_starting(path))?;
                self.objects.file(&path, None, Opened::Unknown, false)
            }
        };
        let object = Some(object?);
        let (result, cpu_ns) = (Some(record.size().min(0)), Some(0));
        let span = self.fresh(thread.track, kind, at, 0)?;
        out.push(Event::Span(Span { object, result, cpu_ns, ..span }));
        Some(())
    }

    /// Returns the track of a thread that only /proc shows: a child that was waited for.
    fn stranger(&self, tid: u32) -> Option<TrackId> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner).get(&tid).copied()
    }

    fn tcp(&mut self, thread: ThreadContext<'_>, record: &Record, more: &[Record], out: &mut Vec<Event>) -> Option<()> {
        let bytes: Vec<u8> = more.iter().flat_map(|record| record.0).collect();
        let length = usize::try_from(record.duration_ns()).ok()?;
        let info = TcpInfo::parse(bytes.get(..length)?)?;
        // Its name may not have fitted into the ring.
        let Some(object) = thread.objects.get(&record.object()).copied() else { return Some(()) };
        let at = time(record.start_ns())?;
        info.counters(object, at, u32::try_from(record.offset()).ok(), u32::try_from(record.size()).ok(), out);
        let timeouts = info.total_timeouts.unwrap_or(0);
        let (retransmits_before, timeouts_before) = self.troubles.insert(object, (info.total_retransmits, timeouts)).unwrap_or_default();
        let again = i64::from(info.total_retransmits.saturating_sub(retransmits_before)) * i64::from(info.segment_bytes);
        let mut mark =
            |kind, value| out.push(Event::Mark(Mark { track: thread.track, kind, at, object: Some(object), value: Some(value) }));
        if again > 0 {
            mark(MarkKind::TcpRetransmit, again);
        }
        if timeouts > timeouts_before {
            mark(MarkKind::TcpTimeout, i64::from(timeouts - timeouts_before));
        }
        Some(())
    }

    /// Emits a thread's start or end.
    pub(crate) fn life(&self, kind: MarkKind, track: TrackId, at_ns: u64, out: &mut Vec<Event>) {
        if self.calls.is_some() {
            return;
        }
        out.extend(time(at_ns).map(|at| Event::Mark(Mark { track, kind, at, object: None, value: None })));
    }

    /// Emits a process's start, in clock ticks since boot, and its parent.
    pub(crate) fn born(&self, track: TrackId, ticks: u64, parent: u32, out: &mut Vec<Event>) {
        if self.calls.is_some() {
            return;
        }
        let value = self.threads.get(&parent).and_then(|by| i64::try_from(by.number()).ok());
        let at = started_at(ticks);
        out.push(Event::Mark(Mark { track, kind: MarkKind::ThreadStart, at, object: None, value }));
    }

    /// Emits the loss of records that did not fit.
    pub(crate) fn lost(&self, track: TrackId, many: u64, at: Time, out: &mut Vec<Event>) {
        let value = Some(i64::try_from(many).unwrap_or(i64::MAX));
        out.push(Event::Mark(Mark { track, kind: MarkKind::Lost, at, object: None, value }));
    }

    /// Emits merged calls that the thread had not passed on.
    pub(crate) fn open_run(&self, thread: ThreadContext<'_>, run: &OpenRun, start_ns: u64, duration_ns: u64, out: &mut Vec<Event>) {
        let (Some(kind), Some(start)) = (span_kind(run.kind), time(start_ns)) else { return };
        let Some(span) = self.fresh(thread.track, kind, start, duration_ns) else { return };
        out.push(Event::Span(Span {
            count: run.count.max(1),
            object: thread.objects.get(&run.object).copied(),
            offset_bytes: known(run.offset),
            size_bytes: (moves_bytes(kind) && run.error == 0).then_some(run.bytes).filter(|bytes| i64::try_from(*bytes).is_ok()),
            result: (run.error != 0).then(|| -i64::from(run.error)),
            cpu_ns: Some(duration_ns),
            ..span
        }));
    }

    /// Emits a call that never returned.
    pub(crate) fn unfinished(
        &self,
        thread: ThreadContext<'_>,
        kind: u8,
        object: u32,
        start_ns: u64,
        duration_ns: u64,
        out: &mut Vec<Event>,
    ) {
        let (Some(kind), Some(start)) = (span_kind(kind), time(start_ns)) else { return };
        let object = thread.objects.get(&object).copied();
        let Some(span) = self.fresh(thread.track, kind, start, duration_ns).map(|span| Span { object, ..span }) else { return };
        match &self.calls {
            Some(calls) => calls.add(Call { span, of_both: false, merged: false }),
            None => out.push(Event::Span(span)),
        }
    }
}

/// Parses the kernel's form of an address.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip: IpAddr = match i32::from(family) {
        libc::AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?).into(),
        _ => return None,
    };
    Some(plain(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;
    use thalweg_trace::{IdSpace, Memory, Sink};

    fn translator() -> Translator {
        let sink = Arc::new(Memory::new(10_000)) as Arc<dyn Sink>;
        Translator::new(TraceHandle::on(sink, HostId(0), Role::Client, IdSpace(1)), HostId(0), Tracks::default())
    }

    /// Makes a record as the library writes it.
    fn record(heads: [u8; 4], words: [u32; 3], longs: [u64; 6]) -> Record {
        let mut bytes = [0; 64];
        bytes[..4].copy_from_slice(&heads);
        words.iter().enumerate().for_each(|(n, word)| bytes[4 + 4 * n..8 + 4 * n].copy_from_slice(&word.to_ne_bytes()));
        longs.iter().enumerate().for_each(|(n, long)| bytes[16 + 8 * n..24 + 8 * n].copy_from_slice(&long.to_ne_bytes()));
        Record(bytes)
    }

    #[test]
    fn a_wait_for_a_lock_names_the_thread_that_had_it() {
        let (mut translator, mut out) = (translator(), Vec::new());
        let track = translator.track(None, 10, 10, "program", &mut out).expect("on");
        let holder = translator.track(None, 10, 11, "program/holder", &mut out).expect("on");
        let objects = HashMap::new();
        let absent = u64::MAX;
        let wait = record([SPAN, 13, 1, 0], [1, 0, 11], [5_000, 70_000, absent, 0, 0, 900]);
        out.clear();
        assert!(translator.record(ThreadContext { pid: 10, track, objects: &objects }, &wait, &[], &mut out));
        let [Event::Span(span)] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!((span.kind, span.waker_track, span.waker_context), (SpanKind::WaitLock, Some(holder), Some(WakerContext::Task)));
        assert_eq!((span.start.ns(), span.duration_ns, span.cpu_ns, span.runqueue_ns), (5_000, 70_000, Some(0), Some(900)));
        assert_eq!((span.offset_bytes, span.size_bytes, span.result), (None, None, None));
    }

    #[test]
    fn a_fruitless_receive_has_its_errno_and_no_size() {
        let (mut translator, mut out) = (translator(), Vec::new());
        let track = translator.track(None, 10, 10, "program", &mut out).expect("on");
        let objects = HashMap::new();
        let run = record([RUN, 11, 0, 0], [7, 0, 0], [5_000, 800, u64::MAX, (-11_i64) as u64, 800, u64::MAX]);
        out.clear();
        assert!(translator.record(ThreadContext { pid: 10, track, objects: &objects }, &run, &[], &mut out));
        let [Event::Span(span)] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!((span.kind, span.count, span.result, span.size_bytes), (SpanKind::NetReceive, 7, Some(-11), None));
    }

    #[test]
    fn a_look_is_a_moment_with_its_name_and_error_unless_every_program_looks_there() {
        let (mut translator, mut out) = (translator(), Vec::new());
        let track = translator.track(None, 10, 10, "program", &mut out).expect("on");
        let (objects, absent) = (HashMap::new(), u64::MAX);
        let mut look = |path: &str, kind: u8, error: i64| {
            let mut more = Record([0; 64]);
            more.0[..path.len()].copy_from_slice(path.as_bytes());
            let first = record([LOOK, kind, 0, 0], [1, 0, 0], [5_000, 0, path.len() as u64, error as u64, absent, absent]);
            out.clear();
            assert!(translator.record(ThreadContext { pid: 10, track, objects: &objects }, &first, &[more], &mut out));
            out.iter().find_map(|event| if let Event::Span(span) = event { Some(*span) } else { None })
        };
        let span = look("/run/job.lock", 1, -17).expect("recorded");
        assert_eq!((span.kind, span.duration_ns, span.result), (SpanKind::FileOpen, 0, Some(-17)));
        assert!(span.object.is_some());
        assert_eq!(look("/run/late.socket", 9, -2).map(|span| span.kind), Some(SpanKind::NetConnect));
        assert_eq!(look("/etc/ld.so.preload", 5, -2), None);
    }

    proptest! {
        #[test]
        fn nonsense_in_a_ring_is_refused_or_harmless(bytes in prop::collection::vec(any::<[u8; 32]>(), 2..16), small in any::<[u8; 4]>()) {
            let (mut translator, mut out) = (translator(), Vec::new());
            let track = translator.track(None, 1, 1, "program", &mut out).expect("on");
            let objects = HashMap::new();
            let mut records: Vec<Record> = bytes.chunks_exact(2).map(|halves| {
                let mut whole = [0; 64];
                whole[..32].copy_from_slice(&halves[0]);
                whole[32..].copy_from_slice(&halves[1]);
                Record(whole)
            }).collect();
            // Known types and kinds, so that more than the first check is reached.
            records[0].0[0] = small[0] % 9;
            records[0].0[1] = small[1] % 20;
            let (first, more) = records.split_at(1);
            translator.object(track, &first[0], more);
            translator.record(ThreadContext { pid: 10, track, objects: &objects }, &first[0], more, &mut out);
            for event in out {
                if let Event::Span(span) = event {
                    prop_assert!(span.count > 0);
                    prop_assert!(i64::try_from(span.duration_ns).is_ok());
                }
            }
        }
    }
}
