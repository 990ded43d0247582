//! Threads: their tracks and names, and the state of each.
//!
//! A thread is identified by its serial, which is never reused, so a reused process id does no harm. Exited threads
//! are forgotten after a while: other records may still name them as wakers.

use super::output::Output;
use super::samples::{Accounted, Piece, Prices};
use super::sites::Site;
use super::spins::Spins;
use crate::bpf::raw::{self, FdObject, Totals};
use crate::kernel::ring::text;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::{Index, IndexMut};
use thalweg_trace::{CounterName, CounterOf, MarkKind, Role, SpanId, SpanKind, TrackId, TrackKind};

/// Maximum exited threads remembered.
const MOST_DEAD: usize = 20_000;

/// An unfinished call with a recorded wait in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockedCall {
    /// Its span.
    pub span: SpanId,
    /// Its kind.
    pub kind: SpanKind,
    /// Start of its first wait.
    pub waited_from_ns: u64,
    /// Its time off the CPU so far.
    pub off_ns: u64,
}

/// One thread.
#[derive(Debug)]
pub(crate) struct Thread {
    /// Its track; recorded when something first refers to it.
    pub track: TrackId,
    emitted_name: Option<(String, u32)>,
    /// Process and thread number.
    pub process: (u32, u32),
    role: u32,
    name: String,
    /// Whether it is a kernel thread, recorded or not.
    of_kernel: bool,
    /// Start of the run that is not yet recorded.
    pub run_ns: u64,
    /// The recorded part of its totals; `None` if their starting point is unknown.
    pub accounted: Option<Accounted>,
    /// Sends and receives of the current run.
    pub pieces: Vec<Piece>,
    /// The file it was last seen to read.
    pub reads: Option<FdObject>,
    /// The file it was last seen to write.
    pub writes: Option<FdObject>,
    /// Whether it was seen to read, and to write, in the current run.
    pub seen_now: [bool; 2],
    /// Whether unrecorded bytes may belong to another file: from earlier runs in which none was seen, or from a file
    /// seen earlier in this run.
    pub unsure: [bool; 2],
    exited: bool,
    /// Its process's exit status, as in wait(2), once its exit has begun.
    pub code: Option<u32>,
    /// When its exit began, if that is not recorded.
    ending_ns: Option<u64>,
    /// When it last woke another thread.
    seen_ns: u64,
    /// Sampled time of the current run, by kind of work.
    pub sampled_ns: [u64; 4],
    /// The prices of its work.
    pub prices: Prices,
    /// The call it is in, if a wait in it was recorded (tier `syscall`).
    pub call: Option<BlockedCall>,
    /// End of the runs of calls placed so far (tier `syscall`).
    pub laid_until_ns: u64,
    /// When it was last woken from a looked-up site, and the site's class.
    pub site: Option<(u64, Site)>,
    /// The path given to the call it waits in, and the start of the wait.
    pub waits_at: Option<(u64, String)>,
    /// Number of CPUs it may use, if reported.
    pub allowed: Option<u32>,
    /// Its busy waits.
    pub spins: Spins,
    /// How its process can be contacted, as far as recorded for this thread.
    called: i64,
}

impl Thread {
    /// Creates a thread about which nothing else is known; it last ran at `run_ns`.
    fn new(track: TrackId, process: (u32, u32), role: u32, name: String, run_ns: u64) -> Thread {
        Thread {
            track,
            emitted_name: None,
            process,
            role,
            name,
            of_kernel: false,
            run_ns,
            accounted: None,
            pieces: Vec::new(),
            reads: None,
            writes: None,
            seen_now: [false; 2],
            unsure: [false; 2],
            exited: false,
            code: None,
            ending_ns: None,
            seen_ns: 0,
            sampled_ns: [0; 4],
            prices: Prices::default(),
            call: None,
            laid_until_ns: 0,
            site: None,
            waits_at: None,
            allowed: None,
            spins: Spins::default(),
            called: 0,
        }
    }

    /// Returns its process's exit status, in a shell's form, if this is the process's first thread.
    fn status(&self) -> Option<i64> {
        let code = self.code.filter(|_| self.process.0 == self.process.1)?;
        let (status, signal) = (code >> 8 & 0xff, code & 0x7f);
        Some(i64::from(if signal == 0 { status } else { 128 + signal }))
    }
}

/// A thread's position: found once per record, and valid only for that long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

/// The threads met.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// By serial.
    known: HashMap<u32, Slot>,
    all: Vec<Thread>,
    /// Slots of forgotten threads.
    free: Vec<Slot>,
    dead: VecDeque<u32>,
    /// The command name of each process.
    commands: HashMap<u32, String>,
    /// Files that a process has open for reading and for writing, assumed for its threads if nothing better is known.
    guesses: HashMap<u32, [Option<FdObject>; 2]>,
    /// Display names of processes, replacing their command names.
    pub names: BTreeMap<u32, String>,
    /// Number of CPUs; 0 if unknown.
    pub processors: u32,
    /// The reader's own thread, which has a track from the start.
    pub reader: Option<(u32, TrackId)>,
    /// Watched processes not yet examined.
    pub fresh: Vec<u32>,
    /// Processes that were reached and whose kind is still unknown.
    pub reached: Vec<Reached>,
}

/// A process recorded because a recorded thread interacts with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    /// Its process id.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Its role, as reported by the kernel.
    pub role: u32,
    /// Its distance, in threads.
    pub depth: u32,
}

fn role(number: u32) -> Role {
    match number {
        raw::ROLE_CLIENT => Role::Client,
        raw::ROLE_SERVER => Role::Server,
        raw::ROLE_KERNEL => Role::Kernel,
        raw::ROLE_RECORDER => Role::Recorder,
        _ => Role::None,
    }
}

/// Whether intervals of threads with this role are recorded.
fn is_recorded(role: u32) -> bool {
    matches!(role, raw::ROLE_CLIENT | raw::ROLE_SERVER | raw::ROLE_KERNEL)
}

impl Index<Slot> for Threads {
    type Output = Thread;

    fn index(&self, slot: Slot) -> &Thread {
        &self.all[slot.0]
    }
}

impl IndexMut<Slot> for Threads {
    fn index_mut(&mut self, slot: Slot) -> &mut Thread {
        &mut self.all[slot.0]
    }
}

impl Threads {
    /// Returns the slot of the thread with this serial, if it was met.
    pub(crate) fn find(&self, serial: u32) -> Option<Slot> {
        self.known.get(&serial).copied()
    }

    /// Returns the slot of the thread with this serial, creating a placeholder if its record was lost.
    pub(crate) fn slot(&mut self, serial: u32, output: &mut Output) -> Slot {
        self.find(serial)
            .unwrap_or_else(|| self.insert(serial, Thread::new(output.track_id(), (0, 0), raw::ROLE_NONE, "unknown thread".to_owned(), 0)))
    }

    fn insert(&mut self, serial: u32, thread: Thread) -> Slot {
        let slot = self.free.pop().unwrap_or(Slot(self.all.len()));
        match self.all.get_mut(slot.0) {
            Some(place) => *place = thread,
            None => self.all.push(thread),
        }
        self.known.insert(serial, slot);
        slot
    }

    /// Iterates over all known threads, in no order.
    fn iter(&self) -> impl Iterator<Item = (Slot, &Thread)> {
        self.known.values().map(|slot| (*slot, &self[*slot]))
    }

    /// Handles the kernel's first or repeated report of a thread.
    pub(crate) fn met(&mut self, record: &raw::Thread, output: &mut Output) {
        let name = text(&record.name);
        if record.tid == record.pid {
            if self.commands.len() > 4 * MOST_DEAD {
                self.commands.clear();
            }
            self.commands.insert(record.pid, name.clone());
        }
        if matches!(record.role, raw::ROLE_CLIENT | raw::ROLE_SERVER) && record.tid == record.pid {
            self.fresh.push(record.pid);
        }
        let known = self.find(record.head.thread);
        let is_new = known.is_none_or(|slot| !is_recorded(self[slot].role));
        if record.depth != 0 && is_new {
            let (pid, parent, role, depth) = (record.pid, record.parent_pid, record.role, record.depth);
            self.reached.push(Reached { pid, parent, role, depth });
        }
        let slot = match known {
            Some(slot) => self.known_anew(slot, record, name, output),
            None => self.known_first(record, name, output),
        };
        if is_recorded(record.role) {
            self.may_use(slot, record.allowed, record.head.at_ns, output);
            if is_new {
                self.begin(slot, record, output);
            }
        }
    }

    /// Records the number of CPUs a thread may use, if it is new and fewer than the machine has.
    pub(crate) fn may_use(&mut self, slot: Slot, allowed: u32, at_ns: u64, output: &mut Output) {
        let most = self.processors;
        let before = self[slot].allowed.unwrap_or(most);
        if allowed == 0 || allowed.min(most) == before.min(most) {
            return;
        }
        self[slot].allowed = Some(allowed);
        let track = self.track_at(slot, output);
        output.counter(CounterOf::Track(track), CounterName::CpuAllowed, at_ns, allowed.min(most).into());
    }

    /// Begins recording a thread's intervals.
    fn begin(&mut self, slot: Slot, record: &raw::Thread, output: &mut Output) {
        let maker = self.track(record.parent, output);
        let track = self.track_at(slot, output);
        let (kind, value) = match maker {
            Some(maker) => (MarkKind::ThreadStart, i64::try_from(maker.number()).ok()),
            None => (MarkKind::ThreadSeen, i64::try_from(record.slept_ns).ok().filter(|ns| *ns > 0)),
        };
        output.mark(track, kind, record.head.at_ns, None, value);
        self[slot].run_ns = record.head.at_ns;
    }

    /// Updates a known thread.
    fn known_anew(&mut self, slot: Slot, record: &raw::Thread, name: String, output: &mut Output) -> Slot {
        let thread = &mut self.all[slot.0];
        // A new program starts: the old one's reads and writes say nothing about it.
        if thread.name != name {
            (thread.reads, thread.writes) = (None, None);
            self.guesses.remove(&record.pid);
        }
        thread.name = name;
        // For a thread recorded only as the holder of a CPU, the role is not repeated.
        if record.role != raw::ROLE_NONE {
            thread.role = record.role;
        }
        thread.process = (record.pid, record.tid);
        if thread.emitted_name.is_some() {
            self.emit(slot, output);
        }
        slot
    }

    /// Adds a new thread.
    fn known_first(&mut self, record: &raw::Thread, name: String, output: &mut Output) -> Slot {
        let of_reader = self.reader.filter(|(tid, _)| *tid == record.tid).map(|(_, track)| track);
        let thread = Thread {
            of_kernel: record.task_flags & raw::FLAG_OF_KERNEL != 0,
            // The accounting of a thread created while watched starts at 0.
            accounted: (record.parent != 0).then(Accounted::default),
            ..Thread::new(of_reader.unwrap_or_else(|| output.track_id()), (record.pid, record.tid), record.role, name, record.head.at_ns)
        };
        let slot = self.insert(record.head.thread, thread);
        if record.role == raw::ROLE_NONE {
            // Its exit will not be reported.
            self.exited(slot, record.head.thread);
        }
        slot
    }

    /// Returns the thread with this serial.
    pub(crate) fn get(&mut self, serial: u32, output: &mut Output) -> &mut Thread {
        let slot = self.slot(serial, output);
        &mut self[slot]
    }

    /// Records a thread's track, if its name is new.
    fn emit(&mut self, slot: Slot, output: &mut Output) {
        let thread = &mut self.all[slot.0];
        let (pid, tid) = thread.process;
        let called = self.names.get(&pid);
        let command = called.or_else(|| self.commands.get(&pid)).map_or(thread.name.as_str(), String::as_str);
        let full = match called {
            Some(name) if pid == tid => name.clone(),
            _ if pid == tid || thread.role == raw::ROLE_KERNEL => thread.name.clone(),
            _ => format!("{command}/{}", thread.name),
        };
        if thread.emitted_name.as_ref().is_none_or(|t| t.0 != full || t.1 != thread.role) {
            let process = (pid != 0).then_some((pid, tid));
            let role = if thread.role == raw::ROLE_NONE && thread.of_kernel { Role::Kernel } else { role(thread.role) };
            output.track(thread.track, TrackKind::Thread, role, process, &full);
            thread.emitted_name = Some((full, thread.role));
        }
    }

    /// Returns a thread's track, recording it if needed.
    pub(crate) fn track_at(&mut self, slot: Slot, output: &mut Output) -> TrackId {
        if self[slot].emitted_name.is_none() {
            self.emit(slot, output);
        }
        self[slot].track
    }

    /// Returns a thread's track by its serial; `None` for 0.
    pub(crate) fn track(&mut self, serial: u32, output: &mut Output) -> Option<TrackId> {
        let slot = (serial != 0).then(|| self.slot(serial, output))?;
        Some(self.track_at(slot, output))
    }

    /// Sets its name, unless it is a placeholder.
    pub(crate) fn named(&mut self, slot: Slot, name: String, output: &mut Output) {
        let thread = &mut self.all[slot.0];
        if !name.is_empty() && thread.name != name && thread.process.1 != 0 {
            thread.name.clone_from(&name);
            if thread.process.0 == thread.process.1 {
                self.commands.insert(thread.process.0, name);
            }
            self.emit(slot, output);
        }
    }

    /// Notes an open file of a process, assumed for its threads if nothing better is known.
    pub(crate) fn process_has(&mut self, pid: u32, fd: &FdObject) {
        if self.guesses.len() > MOST_DEAD {
            self.guesses.clear();
        }
        for (guess, bit) in self.guesses.entry(pid).or_default().iter_mut().zip([1, 2]) {
            // The standard descriptors are the least likely.
            if fd.access & bit != 0 && (fd.fd > 2 || guess.is_none()) {
                *guess = Some(*fd);
            }
        }
    }

    /// Returns what a process may be reading and writing, judging by its open files.
    pub(crate) fn guess(&self, pid: u32) -> [Option<FdObject>; 2] {
        self.guesses.get(&pid).copied().unwrap_or_default()
    }

    /// Whether a thread is not a kernel thread.
    pub(crate) fn is_of_user(&self, slot: Slot) -> bool {
        matches!(self[slot].role, raw::ROLE_CLIENT | raw::ROLE_SERVER)
    }

    /// Whether a known thread is a kernel thread whose name begins with `name`.
    pub(crate) fn is_called(&self, serial: u32, name: &str) -> bool {
        self.find(serial).is_some_and(|slot| self[slot].of_kernel && self[slot].name.starts_with(name))
    }

    /// Returns the process of a known thread.
    pub(crate) fn process_of(&self, serial: u32) -> Option<u32> {
        self.find(serial).and_then(|slot| self[slot].pid())
    }

    /// Returns a thread's process, and the name of its program.
    pub(crate) fn program_of(&self, slot: Slot) -> Option<(u32, &str)> {
        let pid = self[slot].pid()?;
        Some((pid, self.commands.get(&pid).map_or("", String::as_str)))
    }

    /// Returns the main thread of a known process.
    fn main(&self, pid: u32) -> Option<Slot> {
        self.iter().find(|(_, thread)| thread.process == (pid, pid)).map(|(slot, _)| slot)
    }

    /// Returns the main track of a known process.
    pub(crate) fn main_track(&mut self, pid: u32, output: &mut Output) -> Option<TrackId> {
        let slot = self.main(pid)?;
        Some(self.track_at(slot, output))
    }

    /// Notes how a known process can be contacted.
    pub(crate) fn can_be_called(&mut self, pid: u32, by: i64, at_ns: u64, output: &mut Output) {
        if let Some(slot) = self.main(pid) {
            self.called(slot, by, at_ns, output);
        }
    }

    /// Records how a thread's process was, or can be, contacted, if that is new for the thread.
    pub(crate) fn called(&mut self, slot: Slot, by: i64, at_ns: u64, output: &mut Output) {
        let thread = &mut self[slot];
        if !is_recorded(thread.role) || thread.called & by == by {
            return;
        }
        thread.called |= by;
        let track = self.track_at(slot, output);
        output.mark(track, MarkKind::ProcessCalled, at_ns, None, Some(by));
    }

    /// Returns the main tracks of those processes that are recorded and have not ended.
    pub(crate) fn recorded_main_tracks(&mut self, pids: &BTreeSet<u32>, output: &mut Output) -> BTreeMap<u32, TrackId> {
        if pids.is_empty() {
            return BTreeMap::new();
        }
        let is_main = |thread: &Thread| thread.process.0 == thread.process.1 && is_recorded(thread.role) && !thread.exited;
        let mains = self.iter().filter(|(_, thread)| is_main(thread) && pids.contains(&thread.process.0));
        let found: Vec<(u32, Slot)> = mains.map(|(slot, thread)| (thread.process.0, slot)).collect();
        found.into_iter().map(|(pid, slot)| (pid, self.track_at(slot, output))).collect()
    }

    /// Returns the numbers of known threads and of allocated slots.
    #[cfg(test)]
    pub(super) fn len(&self) -> [usize; 2] {
        [self.known.len(), self.all.len()]
    }

    /// Makes a process a server, including its ended threads.
    pub(crate) fn serves(&mut self, pid: u32, output: &mut Output) {
        let own = self.iter().filter(|(_, thread)| thread.process.0 == pid && thread.role == raw::ROLE_CLIENT);
        for slot in own.map(|(slot, _)| slot).collect::<Vec<_>>() {
            self[slot].role = raw::ROLE_SERVER;
            self.emit(slot, output);
        }
    }

    /// Notes that it woke another thread then.
    pub(crate) fn woke(&mut self, slot: Slot, at_ns: u64) {
        self[slot].seen_ns = self[slot].seen_ns.max(at_ns);
    }

    /// Notes that its exit has begun; it may still wait.
    pub(crate) fn ending(&mut self, slot: Slot, at_ns: u64) {
        self[slot].ending_ns = Some(at_ns);
    }

    /// Handles the recorded end of the thread with this serial.
    pub(crate) fn ended(&mut self, slot: Slot, serial: u32, at_ns: u64, output: &mut Output) {
        let status = self[slot].status();
        let track = self.track_at(slot, output);
        output.mark(track, MarkKind::ThreadExit, at_ns, None, status);
        self.exited(slot, serial);
    }

    /// Returns threads in a call that has waited and not returned: their tracks, and when they were last seen.
    pub(crate) fn in_calls(&self) -> Vec<(Slot, TrackId, u64)> {
        let seen = |call: &BlockedCall, thread: &Thread| thread.run_ns.max(call.waited_from_ns + call.off_ns);
        let mut waiting: Vec<_> = self.known.iter().filter(|(_, slot)| self[**slot].call.is_some()).collect();
        waiting.sort_unstable_by_key(|(serial, _)| **serial);
        let found = |slot: Slot| self[slot].call.as_ref().map(|call| (slot, self[slot].track, seen(call, &self[slot])));
        waiting.into_iter().filter_map(|(_, slot)| found(*slot)).collect()
    }

    /// Ends the recording: threads whose exit had begun end where they were last seen.
    pub(crate) fn end(&mut self, output: &mut Output) {
        let mut last: Vec<(u64, TrackId, Option<i64>)> = Vec::new();
        for slot in self.known.values() {
            let thread = &mut self.all[slot.0];
            let ending_ns = thread.ending_ns.take().filter(|_| !thread.exited);
            last.extend(ending_ns.map(|at_ns| (at_ns.max(thread.run_ns).max(thread.seen_ns), thread.track, thread.status())));
        }
        last.sort_unstable_by_key(|(at_ns, track, _)| (*at_ns, track.number()));
        last.into_iter().for_each(|(at_ns, track, status)| output.mark(track, MarkKind::ThreadExit, at_ns, None, status));
    }

    /// Marks it as exited.
    fn exited(&mut self, slot: Slot, serial: u32) {
        self.dead.push_back(serial);
        let thread = &mut self[slot];
        thread.pieces = Vec::new();
        thread.exited = thread.role != raw::ROLE_NONE;
        while self.dead.len() > MOST_DEAD {
            let old = self.dead.pop_front().and_then(|old| Some((old, self.find(old)?)));
            if let Some((serial, slot)) = old.filter(|(_, slot)| !self[*slot].is_recorded() || self[*slot].exited) {
                self.known.remove(&serial);
                self.free.push(slot);
            }
        }
    }
}

impl Thread {
    /// Returns its process, if known.
    pub(crate) fn pid(&self) -> Option<u32> {
        Some(self.process.0).filter(|pid| *pid != 0)
    }

    /// Whether its end is recorded.
    fn is_recorded(&self) -> bool {
        is_recorded(self.role) || self.role == raw::ROLE_RECORDER
    }

    /// Notes what it was seen to read or write.
    pub(crate) fn saw(&mut self, fd: &FdObject, reading: bool) {
        if fd.mode != 0 {
            let way = usize::from(!reading);
            let last = if reading { &mut self.reads } else { &mut self.writes };
            // It is unknown which of the two has moved bytes since then.
            self.unsure[way] |= last.is_some_and(|last| (last.id, last.device) != (fd.id, fd.device));
            self.seen_now[way] = true;
            *last = Some(*fd);
        }
    }

    /// Starts its totals here, if their starting point was unknown.
    pub(crate) fn accounted(&mut self, io: &Totals) -> &mut Accounted {
        self.accounted.get_or_insert_with(|| Accounted::up_to(io))
    }
}
