//! Records of the ring in, events of the trace out. Nothing here touches the kernel: what only the system knows comes
//! through [`Facts`], so that each rule can be tested with synthetic records.
//!
//! A record of an off-CPU interval holds two things: what the thread did in the run before (with its sends and
//! receives), and what it then waited for. All other records translate independently.

mod asks;
mod calls;
mod classes;
mod connections;
mod counts;
mod devices;
pub(crate) mod facts;
mod files;
mod links;
mod looks;
mod lookups;
mod objects;
mod output;
mod pauses;
mod samples;
mod sites;
mod spins;
mod stack_lines;
mod syscalls;
mod task_locks;
#[cfg(test)]
mod tests;
mod things;
mod threads;
mod waits;
pub(crate) mod words;

use crate::bpf::raw::{self, FdObject, Off, Record, Totals};
use crate::kernel::clock::now_ns;
use crate::kernel::ring::text;
use asks::Asks;
use connections::Connections;
pub(crate) use connections::Unanswered;
use devices::Devices;
use facts::{Facts, Leaf};
pub(crate) use files::OpenFile;
use files::{Files, is_file};
use lookups::Lookups;
use output::{NewSpan, Output};
use pauses::Pauses;
pub(crate) use samples::Class;
use samples::{Piece, Prices, WorkKind, place};
use sites::Site;
pub(crate) use syscalls::Calls;
use syscalls::{Call, OUT_FIRST};
use task_locks::TaskLocks;
use thalweg_trace::{CounterOf, HostId, IdSpace, MarkKind, ObjectId, ObjectKind, SpanKind, TrackId, WakerContext, called};
use things::Things;
pub(crate) use threads::Reached;
use threads::{BlockedCall, Slot, Thread, Threads};
use waits::classify;
use words::Words;

/// A shorter wait for a CPU is part of the wait before it.
const RUNQUEUE_NS: u64 = 20_000;

/// A longer run is recorded in parts.
const PART_NS: u64 = 10_000_000;

/// Maximum sends and receives of a run kept before they are recorded.
const MOST_PIECES: usize = 256;

/// Reads of an ended thread whose file is unknown: recorded without a file from this size on.
const WORTH_RECORDING_BYTES: u64 = 64 << 10;

/// Translates records to events.
pub(crate) struct Translator {
    /// Events not yet taken.
    pub output: Output,
    /// Threads met.
    pub threads: Threads,
    /// Files met.
    pub files: Files,
    /// Connections met.
    pub connections: Connections,
    devices: Devices,
    things: Things,
    /// Plaintext HTTP requests.
    pub asks: Asks,
    /// Name lookups.
    pub lookups: Lookups,
    /// The command's last output.
    pub words: Words,
    pub task_locks: TaskLocks,
    /// Sleeps by choice of recorded threads.
    pub pauses: Pauses,
    /// Number of polling calls recorded.
    pub looks: u64,
    /// Number of samples.
    pub samples: u64,
    calls: Calls,
    prices: Prices,
    /// Tier `syscall`: calls show what a thread did, so runs need not.
    traces_calls: bool,
    /// Number of invalid records.
    pub refused: u64,
    /// A thread used io_uring, whose bytes the accounting lacks.
    pub used_uring: bool,
    /// A thread spliced from a connection, which the socket layer does not report.
    pub spliced_in: bool,
}

impl std::fmt::Debug for Translator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Translator").field("refused", &self.refused).finish_non_exhaustive()
    }
}

fn context(number: u32) -> Option<WakerContext> {
    match number {
        raw::CONTEXT_TASK => Some(WakerContext::Task),
        raw::CONTEXT_SOFTIRQ => Some(WakerContext::Softirq),
        raw::CONTEXT_HARDIRQ => Some(WakerContext::Hardirq),
        raw::CONTEXT_TIMER => Some(WakerContext::Timer),
        _ => None,
    }
}

fn span_of(work: WorkKind) -> SpanKind {
    match work {
        WorkKind::Read => SpanKind::FileRead,
        WorkKind::Write => SpanKind::FileWrite,
        WorkKind::Send => SpanKind::NetSend,
        WorkKind::Receive => SpanKind::NetReceive,
    }
}

/// Returns what a thread has read and written and is not yet recorded, with its file if known: calls and bytes.
fn file_work(
    thread: &mut Thread,
    guesses: [Option<FdObject>; 2],
    io: &Totals,
    last: bool,
) -> Vec<(WorkKind, Option<FdObject>, (u64, u64))> {
    let accounted = *thread.accounted(io);
    let mut found = Vec::new();
    for (work, seen, done) in
        [(WorkKind::Read, thread.reads, accounted.unread(io)), (WorkKind::Write, thread.writes, accounted.unwritten(io))]
    {
        let guess = guesses[usize::from(work == WorkKind::Write)].filter(|fd| done.1 >= WORTH_RECORDING_BYTES && (last || fd.fd > 2));
        let seen = seen.or(guess);
        // While the file is unknown, the bytes are kept.
        let waits = seen.is_none() && !(last && done.1 >= WORTH_RECORDING_BYTES);
        thread.unsure[usize::from(work == WorkKind::Write)] |= waits && done.1 > 0;
        // A long call is counted when it ends; until then only samples show it.
        let under_way = done == (0, 0) && thread.sampled_ns[work as usize] != 0;
        if (done != (0, 0) || under_way) && !waits {
            found.push((work, seen, done));
        }
    }
    found
}

/// Makes the span of an interval in which a thread polled a connection for bytes at full speed.
fn busy_wait(track: TrackId, (from_ns, to_ns): (u64, u64), object: ObjectId) -> NewSpan {
    let mut span = NewSpan::new(track, SpanKind::NetReceive, from_ns, to_ns);
    span.object = Some(object);
    span.size_bytes = Some(0);
    span.result = Some(spins::NOTHING_YET);
    span.cpu_ns = Some(to_ns.saturating_sub(from_ns));
    span
}

impl Translator {
    /// Creates an empty translator. `tick_us`: length of the kernel's tick.
    pub(crate) fn new(host: HostId, space: IdSpace, tick_us: u64, traces_calls: bool) -> Translator {
        Translator {
            output: Output::new(host, space),
            threads: Threads::default(),
            files: Files::default(),
            connections: Connections::new(tick_us),
            devices: Devices::default(),
            things: Things::default(),
            asks: Asks::default(),
            lookups: Lookups::default(),
            words: Words::default(),
            task_locks: TaskLocks::default(),
            pauses: Pauses::default(),
            looks: 0,
            samples: 0,
            calls: Calls::default(),
            prices: Prices::default(),
            traces_calls,
            refused: 0,
            used_uring: false,
            spliced_in: false,
        }
    }

    /// Returns the thread with this serial, looked up once per record, and its track; `None` for 0.
    fn thread(&mut self, serial: u32) -> Option<(Slot, TrackId)> {
        let slot = (serial != 0).then(|| self.threads.slot(serial, &mut self.output))?;
        Some((slot, self.threads.track_at(slot, &mut self.output)))
    }

    /// Translates one record of the ring.
    pub(crate) fn record(&mut self, bytes: &[u8], facts: &mut dyn Facts) {
        match Record::parse(bytes) {
            None => self.refused += 1,
            Some(Record::Thread(thread)) => self.threads.met(&thread, &mut self.output),
            Some(Record::Off(off)) => self.off(&off, facts),
            Some(Record::Net(net)) => self.net(&net),
            Some(Record::Connection(connection)) => self.connections.met(&connection, facts),
            Some(Record::Tcp(tcp)) => self.connections.tcp(&tcp, &mut self.output),
            Some(Record::TcpMark(mark)) => {
                let asker = self.threads.track(mark.head.thread, &mut self.output);
                self.connections.mark(&mark, asker, &mut self.output);
            }
            Some(Record::Wire(wire)) => self.connections.wire(&wire, &mut self.output),
            Some(Record::Link(link)) => self.connections.links.moved(&link, &mut self.output),
            Some(Record::Block(block)) => self.devices.completed(&block, facts, &mut self.threads, &mut self.output),
            Some(Record::Sample(sample)) => self.sample(&sample, facts),
            Some(Record::Exit(exit)) => self.exit(&exit, facts),
            Some(Record::File(file, parts)) => self.files.path(&file, parts, facts, &mut self.output),
            Some(Record::Call(call)) => self.call(&call, facts),
            Some(Record::Peer(peer)) if peer.flags & raw::PEER_ASKED != 0 => self.asked(&peer),
            Some(Record::Peer(peer)) => self.things.sends_to(&peer),
            Some(Record::Site(site)) => self.site(&site, facts),
            Some(Record::Names(names)) => self.names(&names),
            Some(Record::Look(look, path)) => self.look(&look, path, facts),
            Some(Record::Ask(ask, text)) => {
                if let Some(server) = self.connections.server_of(ask.connection) {
                    self.asks.asked(server, text);
                }
            }
            Some(Record::Question(question, text)) => {
                let track = self.threads.track(question.head.thread, &mut self.output);
                self.lookups.message(&question, text, track, &mut self.output);
            }
            Some(Record::Signal(signal)) => self.signal(&signal),
            Some(Record::Unix(unix, path)) => self.things.calls(unix.inode, path),
            Some(Record::TaskLock(lock)) => {
                let serial = lock.head.thread;
                if let (Some(pid), Some(track)) = (self.threads.process_of(serial), self.threads.track(serial, &mut self.output)) {
                    self.task_locks.met(&lock, pid, track, &mut self.output);
                }
            }
            Some(Record::Words(words, text)) => {
                if let Some(pid) = self.threads.process_of(words.head.thread) {
                    self.words.wrote(&words, text, pid);
                }
            }
        }
    }

    /// Notes an open file of a watched process: its threads are assumed to read or write it if nothing better is
    /// known.
    pub(crate) fn open_file(&mut self, pid: u32, file: &OpenFile, facts: &mut dyn Facts) {
        let fd = &file.object;
        self.files.named(fd.device, fd.id, fd.mode, fd.access, file.path.clone(), facts, &mut self.output);
        self.threads.process_has(pid, fd);
    }

    /// Handles a datagram's arrival at a socket that had sent none: its process was contacted.
    fn asked(&mut self, peer: &raw::Peer) {
        let chosen = if peer.flags & raw::PEER_CHOSEN != 0 { called::CHOSEN_PORT } else { 0 };
        let slot = self.threads.slot(peer.head.thread, &mut self.output);
        self.threads.called(slot, called::DATAGRAM | chosen, peer.head.at_ns, &mut self.output);
    }

    /// Notes how a watched process can be contacted.
    pub(crate) fn can_be_called(&mut self, pid: u32, by: i64) {
        self.threads.can_be_called(pid, by, now_ns(), &mut self.output);
    }

    /// Adds a thread's sends or receives to its current run.
    fn net(&mut self, net: &raw::Net) {
        let work = if net.direction == 0 { WorkKind::Send } else { WorkKind::Receive };
        let Some((slot, track)) = self.thread(net.head.thread) else { return };
        let calls = u64::from(net.count);
        let Some((object, end)) = self.connections.used(net.connection, track, net.direction == 0, net.end_bytes, &mut self.output) else {
            self.refused += 1;
            return;
        };
        let thread = &mut self.threads[slot];
        thread.prices.done(work, calls, net.bytes);
        self.prices.done(work, calls, net.bytes);
        if self.traces_calls {
            return;
        }
        let fruitless = net.result != 0;
        let piece = Piece {
            kind: span_of(work),
            object: Some(object),
            calls,
            bytes: net.bytes,
            offset_bytes: (!fruitless).then(|| end.saturating_sub(net.bytes)),
            result: fruitless.then(|| i64::from(net.result)),
            want_ns: 0,
            begun_ns: Some(net.first_ns),
            ended_ns: Some(net.head.at_ns),
        };
        // More than a run normally has: merged into the last of its kind.
        let full = thread.pieces.len() >= MOST_PIECES;
        match thread.pieces.iter_mut().rev().find(|p| full && p.kind == piece.kind && p.object == piece.object && p.result == piece.result)
        {
            Some(last) => {
                last.calls += piece.calls;
                last.bytes += piece.bytes;
                last.ended_ns = piece.ended_ns;
            }
            None => thread.pieces.push(piece),
        }
    }

    /// Records what a thread did since the last recorded instant up to `end_ns`, where its totals were `io`.
    fn run(&mut self, slot: Slot, end_ns: u64, io: &Totals, last: bool, facts: &mut dyn Facts) {
        let guesses = self.threads.guess(self.threads[slot].process.0);
        let thread = &mut self.threads[slot];
        let track = thread.track;
        let start_ns = std::mem::replace(&mut thread.run_ns, end_ns).min(end_ns);
        let mut pieces = std::mem::take(&mut thread.pieces);
        let file_work = if self.traces_calls { Vec::new() } else { file_work(thread, guesses, io, last) };
        let (connections, moved_files) = (&self.connections, !file_work.is_empty());
        let (before, within) =
            thread.spins.ran((start_ns, end_ns), &pieces, moved_files, |object, by_ns| connections.came_ns(object, by_ns));
        pieces.extend(within);
        for (from_ns, to_ns, object) in before {
            self.output.span(busy_wait(track, (from_ns, to_ns), object));
        }
        for (work, seen, (calls, bytes)) in file_work {
            let way = usize::from(work == WorkKind::Write);
            let unsure = std::mem::take(&mut thread.unsure[way]);
            let seen_now = std::mem::take(&mut thread.seen_now[way]) && !unsure;
            match work {
                WorkKind::Read => thread.accounted(io).account_read(io),
                _ => thread.accounted(io).account_written(io),
            }
            // For objects other than files (a terminal) nothing is recorded; for a pipe, the total.
            if let Some(fd) = seen.filter(|fd| !is_file(fd)) {
                self.things.wrote(&fd, if work == WorkKind::Write { bytes } else { 0 });
                continue;
            }
            thread.prices.done(work, calls, bytes);
            self.prices.done(work, calls, bytes);
            let object = seen.and_then(|fd| self.files.of(&fd, facts, &mut self.output));
            // What was not seen in this run may belong to other files than the last one seen; if one was seen in it,
            // the result is the mean per call.
            let result = (seen_now && object.is_some()).then(|| i64::try_from(bytes / calls.max(1)).unwrap_or(i64::MAX));
            pieces.push(Piece { result, ..Piece::somewhere(span_of(work), object, calls, bytes) });
        }
        let sampled_ns = std::mem::take(&mut thread.sampled_ns);
        if pieces.is_empty() {
            return;
        }
        for piece in &mut pieces {
            let work = match piece.kind {
                SpanKind::FileRead => WorkKind::Read,
                SpanKind::FileWrite => WorkKind::Write,
                SpanKind::NetSend => WorkKind::Send,
                _ => WorkKind::Receive,
            };
            piece.want_ns = if piece.want_ns != 0 {
                continue;
            } else if piece.bytes == 0 && piece.ended_ns.is_none() {
                sampled_ns[work as usize]
            } else {
                thread.prices.cost_ns(&self.prices, work, piece.calls, piece.bytes)
            };
        }
        for placed in place(start_ns, end_ns, &mut pieces) {
            let piece = placed.piece;
            let mut span = NewSpan::new(track, piece.kind, placed.start_ns, placed.end_ns);
            span.count = u32::try_from(piece.calls.max(1)).unwrap_or(u32::MAX);
            span.object = piece.object;
            span.offset_bytes = piece.offset_bytes;
            span.size_bytes = Some(piece.bytes);
            span.result = piece.result;
            span.cpu_ns = Some(placed.end_ns - placed.start_ns);
            // The bytes that a busy wait polled for have come.
            span.waker_context = piece.ends_wait().then_some(WakerContext::Softirq);
            self.output.span(span);
        }
        pieces.clear();
        thread.pieces = pieces;
    }

    /// Notes what a call's descriptors show about what a thread reads and writes.
    fn saw_call(&mut self, slot: Slot, call: i32, files: &[FdObject; 2]) {
        let thread = &mut self.threads[slot];
        match self.calls.of(call) {
            Call::Read => thread.saw(&files[0], true),
            Call::Write => thread.saw(&files[0], false),
            Call::IoUring => self.used_uring = true,
            kind @ (Call::SendFile | Call::Between) => {
                self.spliced_in |= kind == Call::Between && raw::socket_is_tcp(&files[0]);
                let out_first = self.calls.flags(call) & OUT_FIRST != 0;
                let (from, to) = if out_first { (1, 0) } else { (0, 1) };
                thread.saw(&files[from], true);
                thread.saw(&files[to], false);
            }
            _ => {}
        }
    }

    /// Translates an interval in which a thread was off the CPU, and the run before it.
    fn off(&mut self, off: &Off, facts: &mut dyn Facts) {
        let Some((slot, track)) = self.thread(off.head.thread) else { return };
        let (out_ns, in_ns) = (off.out_ns, off.head.at_ns.max(off.out_ns));
        if off.flags & raw::OFF_NEW == 0 {
            let thread = &mut self.threads[slot];
            // Part of the run may have been recorded already; a later start replaces the recorded one.
            thread.run_ns = thread.run_ns.max(off.run_ns);
            self.saw_call(slot, off.call, &off.file);
            self.run(slot, out_ns, &off.io, false, facts);
        }
        let thread = &mut self.threads[slot];
        thread.run_ns = in_ns;
        if off.state != 0 {
            thread.spins.slept(in_ns);
        }
        let holder = self.threads.track(off.holder, &mut self.output);
        if off.state == 0 || off.flags & raw::OFF_NEW != 0 {
            if in_ns > out_ns {
                let quota = if off.flags & raw::OFF_QUOTA != 0 { self.quota_of(slot, facts) } else { None };
                self.runqueue(track, (out_ns, in_ns), holder, quota, None);
            }
            return;
        }
        let woken_ns = if off.wake_ns == 0 { in_ns } else { off.wake_ns.clamp(out_ns, in_ns) };
        let queued_ns = in_ns - woken_ns;
        let until_ns = if queued_ns >= RUNQUEUE_NS { woken_ns } else { in_ns };
        let site = self.threads[slot].site.take().filter(|(at_ns, _)| *at_ns >= out_ns);
        let waker = if off.context == raw::CONTEXT_TASK { self.threads.find(off.waker) } else { None };
        let by_user = off.wake_device == 0 && waker.is_some_and(|waker| self.threads.is_of_user(waker));
        let site =
            site.map(|(_, site)| site).filter(|site| *site != Site::Unknown || (by_user && off.state & raw::STATE_UNINTERRUPTIBLE != 0));
        let (kind, on) = sites::corrected(classify(off, &self.calls), site);
        self.pauses.note(off, self.calls.of(off.call));
        let mut span = NewSpan::new(track, kind, out_ns, until_ns);
        span.cpu_ns = Some(0);
        span.runqueue_ns = Some(if queued_ns >= RUNQUEUE_NS { 0 } else { queued_ns });
        span.object = self.object_of(off, slot, on, facts);
        span.waker_context = context(off.context);
        span.waker_track = self.waker(off, waker, facts);
        if off.state & raw::STATE_STOPPED != 0 {
            span.result = Some(-i64::from(if off.stop_signal == 0 { 19 } else { off.stop_signal }));
        }
        if self.traces_calls
            && let Some(kind) = self.kind_of_call(off.call, &off.file)
        {
            let fresh = BlockedCall { span: self.output.span_id(), kind, waited_from_ns: out_ns, off_ns: 0 };
            let call = self.threads[slot].call.get_or_insert(fresh);
            call.off_ns += in_ns - out_ns;
            span.parent = Some(call.span);
        }
        self.output.span(span);
        if queued_ns >= RUNQUEUE_NS {
            self.runqueue(track, (woken_ns, in_ns), holder, None, span.parent);
        }
        if off.flags & raw::OFF_OPEN != 0 {
            self.cut_call(slot, track, in_ns);
        }
    }

    /// Records the unfinished call in which a thread waits at the end of the recording, as parent of its waits.
    fn cut_call(&mut self, slot: Slot, track: TrackId, end_ns: u64) {
        if let Some(call) = self.threads[slot].call.take() {
            self.output.span_with(call.span, NewSpan::new(track, call.kind, call.waited_from_ns, end_ns));
        }
    }

    /// Notes where in the kernel a thread slept when it was woken.
    fn site(&mut self, site: &raw::Site, facts: &mut dyn Facts) {
        let names: Vec<String> = site.function.iter().take_while(|a| **a != 0).map(|a| facts.function(*a).to_owned()).collect();
        let place = sites::of_functions(names.iter().map(String::as_str));
        self.threads.get(site.head.thread, &mut self.output).site = Some((site.head.at_ns, place));
    }

    /// Returns the control group whose quota throttles a thread.
    fn quota_of(&mut self, slot: Slot, facts: &mut dyn Facts) -> Option<ObjectId> {
        let group = facts.quota_group(self.threads[slot].pid()?)?;
        Some(self.things.object(ObjectKind::Cgroup, &group, &mut self.output))
    }

    fn runqueue(
        &mut self,
        track: TrackId,
        (from_ns, to_ns): (u64, u64),
        holder: Option<TrackId>,
        quota: Option<ObjectId>,
        parent: Option<thalweg_trace::SpanId>,
    ) {
        let mut span = NewSpan::new(track, SpanKind::WaitRunqueue, from_ns, to_ns);
        span.object = quota;
        span.cpu_ns = Some(0);
        span.runqueue_ns = Some(to_ns.saturating_sub(from_ns));
        // A thread throttled by a quota was not kept waiting by the one that ran meanwhile.
        span.waker_track = holder.filter(|_| quota.is_none());
        span.parent = parent;
        self.output.span(span);
    }

    /// Returns who ended a wait: the device, or the thread; in an interrupt never the interrupted thread.
    fn waker(&mut self, off: &Off, waker: Option<Slot>, facts: &mut dyn Facts) -> Option<TrackId> {
        match (self.devices.track(off.wake_device, facts, &mut self.output), waker) {
            (Some(device), _) => Some(device),
            (None, Some(waker)) => {
                self.threads.woke(waker, off.wake_ns);
                Some(self.threads.track_at(waker, &mut self.output))
            }
            // A thread that was never recorded.
            (None, None) if off.context == raw::CONTEXT_TASK => self.threads.track(off.waker, &mut self.output),
            (None, None) => None,
        }
    }

    /// Handles a sample.
    fn sample(&mut self, sample: &raw::Sample, facts: &mut dyn Facts) {
        let Some((slot, track)) = self.thread(sample.head.thread) else { return };
        self.saw_call(slot, sample.call, &sample.file);
        let (class, work) = self.class_of(sample);
        self.samples += 1;
        let thread = &mut self.threads[slot];
        thread.spins.sampled(class == Class::Poll);
        if let Some(work) = work {
            thread.prices.sampled(work, sample.period_ns);
            thread.sampled_ns[work as usize] += sample.period_ns;
            self.prices.sampled(work, sample.period_ns);
        }
        let leaf = self.leaf(sample, slot, facts);
        self.output.sample(sample.head.at_ns, sample.head.cpu, track, (class as u16, leaf), sample.period_ns);
        let thread = &mut self.threads[slot];
        thread.run_ns = thread.run_ns.max(sample.run_ns);
        thread.accounted(&sample.io);
        // A thread that came back unseen waited for part of this time: its activity is placed when its next switch
        // out gives the wait's length.
        if sample.run_ns != 0 && sample.head.at_ns.saturating_sub(thread.run_ns) >= PART_NS {
            self.run(slot, sample.head.at_ns, &sample.io, false, facts);
        }
    }

    /// Returns the row of `stacks` for a sample's innermost address.
    fn leaf(&self, sample: &raw::Sample, thread: Slot, facts: &mut dyn Facts) -> Option<u32> {
        let in_user = sample.flags & raw::SAMPLE_USER != 0;
        let (pid, command) = if in_user { self.threads.program_of(thread)? } else { (0, "") };
        facts.leaf(&Leaf { pid, command, address: sample.address, in_user, weight_ns: sample.period_ns })
    }

    /// Handles a thread's last run.
    fn exit(&mut self, exit: &raw::Exit, facts: &mut dyn Facts) {
        let slot = self.threads.slot(exit.head.thread, &mut self.output);
        self.threads.named(slot, text(&exit.name), &mut self.output);
        let track = self.threads.track_at(slot, &mut self.output);
        self.threads.may_use(slot, exit.allowed, exit.head.at_ns, &mut self.output);
        let thread = &mut self.threads[slot];
        thread.run_ns = thread.run_ns.max(exit.run_ns);
        thread.code = Some(exit.code);
        self.run(slot, exit.head.at_ns, &exit.io, true, facts);
        if exit.flags & raw::OFF_EXITING != 0 {
            self.threads.ending(slot, exit.head.at_ns);
            return;
        }
        self.cut_call(slot, track, exit.head.at_ns);
        if exit.flags & raw::OFF_OPEN == 0 {
            self.threads.ended(slot, exit.head.thread, exit.head.at_ns, &mut self.output);
        }
    }

    /// Handles a signal sent to a thread by a process or, without an object, by the kernel.
    fn signal(&mut self, signal: &raw::Signal) {
        let Some(track) = self.threads.track(signal.head.thread, &mut self.output) else { return };
        let sender = format!("{} (process {})", text(&signal.sender), signal.sender_pid);
        let by = (signal.by_kernel == 0).then(|| self.things.object(ObjectKind::Process, &sender, &mut self.output));
        self.output.mark(track, MarkKind::Signal, signal.head.at_ns, by, Some(i64::from(signal.signal)));
    }

    /// Handles a thread's file and name counts.
    fn names(&mut self, names: &raw::Names) {
        let Some(track) = self.threads.track(names.head.thread, &mut self.output) else { return };
        for (name, count) in counts::of(&names.count).into_iter().filter(|(_, count)| *count != 0) {
            self.output.counter(CounterOf::Track(track), name, names.head.at_ns, count);
        }
    }

    /// Ends the recording: calls whose return was not seen end where their threads were last seen, and written files
    /// get their final size.
    pub(crate) fn end(&mut self, facts: &mut dyn Facts) {
        self.files.end(facts, &mut self.output);
        self.things.end(&mut self.output);
        for (slot, track, seen_ns) in self.threads.in_calls() {
            self.cut_call(slot, track, seen_ns);
        }
        self.threads.end(&mut self.output);
    }
}
