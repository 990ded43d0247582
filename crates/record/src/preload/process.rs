//! The rings of one process.

use super::shared::{OBJECT, Record, SLOTS, Shared, State};
use super::translate::{ThreadContext, Translator};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use thalweg_trace::{Event, MarkKind, ObjectId, Time, TrackId};

/// An unfinished call shorter than this is dropped.
const WORTH_RECORDING_NS: u64 = 20_000;

/// A thread with a slot.
#[derive(Debug)]
struct Thread {
    slot: usize,
    attached_ns: u64,
    name: String,
    track: TrackId,
    head: u64,
    /// Since when it had been in a call when the fill level was noted.
    in_call: Option<Time>,
    lost: u64,
    ended: bool,
}

/// Returns since when the thread of a slot has been in a call, if it is in one.
fn in_call(shared: &Shared, slot: usize) -> Option<Time> {
    shared.call(slot).map(|(_, _, since)| Time::from_monotonic_ns(since.cast_signed()))
}

/// A process, from the library's start to its end.
#[derive(Debug)]
pub(super) struct Process {
    shared: Shared,
    pid: u32,
    pidfd: Option<OwnedFd>,
    /// The name of its main thread, or of the first one seen.
    name: Option<String>,
    /// The track of its main thread.
    main: Option<TrackId>,
    threads: Vec<Thread>,
    objects: HashMap<u32, ObjectId>,
    /// Number of invalid records.
    pub broken: u64,
}

impl Process {
    /// Maps the process's file.
    pub(crate) fn open(path: &Path, pid: u32) -> io::Result<Process> {
        let shared = Shared::open(path)?;
        let raw = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        let pidfd = raw.and_then(|raw| rustix::process::pidfd_open(raw, rustix::process::PidfdFlags::empty()).ok());
        Ok(Process { shared, pid, pidfd, name: None, main: None, threads: Vec::new(), objects: HashMap::new(), broken: 0 })
    }

    /// Readable when the process has ended; `None` if it had ended already.
    pub(crate) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Returns the bits of features in use that the library cannot see.
    pub(crate) fn unseen(&self) -> u32 {
        self.shared.unseen()
    }

    /// Returns the number of threads that are not recorded.
    pub(crate) fn untracked(&self) -> u32 {
        self.shared.untracked()
    }

    /// Notes the fill level of each ring: what this round takes.
    pub(crate) fn note_heads(&mut self) {
        for thread in &mut self.threads {
            thread.ended = self.shared.state(thread.slot) == State::Ended;
            // First the call, which may end meanwhile: then it is not among this round's records.
            thread.in_call = in_call(&self.shared, thread.slot);
            thread.head = self.shared.head(thread.slot);
        }
    }

    /// Finds new threads.
    pub(crate) fn find_threads(&mut self, translator: &mut Translator, out: &mut Vec<Event>) {
        for slot in 0..SLOTS {
            if self.shared.state(slot) == State::Free {
                continue;
            }
            let (tid, attached_ns, name) = self.shared.thread(slot);
            let known = self.threads.iter_mut().find(|thread| thread.slot == slot && thread.attached_ns == attached_ns);
            let renamed = match &known {
                Some(thread) => thread.name != name,
                None => true,
            };
            if !renamed {
                continue;
            }
            if self.name.is_none() || tid == self.pid {
                self.name = Some(name.clone());
            }
            let process_name = self.name.as_deref().unwrap_or(&name);
            let full = if tid == self.pid { name.clone() } else { format!("{process_name}/{name}") };
            let is_first = known.is_none() && tid == self.pid && !translator.became_another.contains_key(&self.pid);
            let before = || translator.became_another.remove(&self.pid).filter(|_| tid == self.pid);
            let track = known.as_ref().map(|thread| thread.track).or_else(before);
            let Some(track) = translator.track(track, self.pid, tid, &full, out) else { continue };
            if let Some((ticks, parent)) = self.shared.born().filter(|_| is_first) {
                translator.born(track, ticks, parent, out);
            }
            if tid == self.pid {
                self.main = Some(track);
            }
            if let Some(thread) = known {
                thread.name = name;
                continue;
            }
            if tid != self.pid {
                // A process gets its ring some time after its start.
                translator.life(MarkKind::ThreadStart, track, attached_ns, out);
            }
            let in_call = in_call(&self.shared, slot);
            let head = self.shared.head(slot);
            self.threads.push(Thread { slot, attached_ns, name, track, head, in_call, lost: self.lost_before(slot), ended: false });
        }
        if let Some(main) = self.main.filter(|_| self.shared.became_another()) {
            translator.became_another.insert(self.pid, main);
        }
    }

    /// Finds the control group whose quota applies to it.
    pub(crate) fn poll_quota(&self, translator: &mut Translator) {
        if let Some(track) = self.main.or_else(|| self.threads.first().map(|thread| thread.track)) {
            translator.quotas.poll(self.pid, track, &mut translator.objects);
        }
    }

    /// Returns the losses already reported for a slot's earlier threads; the slot's count includes them.
    fn lost_before(&self, slot: usize) -> u64 {
        self.threads.iter().filter(|thread| thread.slot == slot).map(|thread| thread.lost).max().unwrap_or(0)
    }

    /// Learns the objects named in any of its rings, even beyond this round's records.
    pub(crate) fn find_objects(&mut self, translator: &mut Translator) {
        for thread in &self.threads {
            let head = self.shared.head(thread.slot);
            let mut at = self.shared.tail(thread.slot, head);
            while at < head {
                let record = self.shared.record(thread.slot, at);
                let (shared, slot) = (&self.shared, thread.slot);
                if record.kind_of_record() == OBJECT && at + record.follows() < head && !self.objects.contains_key(&record.object()) {
                    let more: Vec<Record> = (1..=record.follows()).map(|n| shared.record(slot, at + n)).collect();
                    if let Some(object) = translator.object(thread.track, &record, &more) {
                        self.objects.insert(record.object(), object);
                    }
                }
                at = at.saturating_add(1 + record.follows());
            }
        }
    }

    /// Translates the records up to the noted fill levels.
    pub(crate) fn drain(&mut self, translator: &mut Translator, now: Time, out: &mut Vec<Event>) {
        let mut ended = Vec::new();
        for (index, thread) in self.threads.iter_mut().enumerate() {
            let mut at = self.shared.tail(thread.slot, thread.head);
            while at < thread.head {
                let record = self.shared.record(thread.slot, at);
                let next = at.saturating_add(1 + record.follows());
                if next > thread.head {
                    self.broken += 1;
                    break;
                }
                let more: Vec<Record> = (1..=record.follows()).map(|n| self.shared.record(thread.slot, at + n)).collect();
                if !translator.record(ThreadContext { pid: self.pid, track: thread.track, objects: &self.objects }, &record, &more, out) {
                    self.broken += 1;
                }
                at = next;
            }
            self.shared.set_tail(thread.slot, thread.head);
            if let Some(calls) = &translator.calls {
                calls.is_in(thread.track, thread.in_call);
            }
            let lost = self.shared.lost(thread.slot);
            if lost > thread.lost {
                translator.lost(thread.track, lost - thread.lost, now, out);
                thread.lost = lost;
            }
            if thread.ended && self.shared.head(thread.slot) == thread.head {
                ended.push(index);
            }
        }
        for index in ended.into_iter().rev() {
            let thread = self.threads.swap_remove(index);
            if let Some(calls) = &translator.calls {
                calls.is_in(thread.track, None);
            }
            translator.life(MarkKind::ThreadExit, thread.track, self.shared.covered_ns(thread.slot), out);
            self.shared.free(thread.slot);
        }
    }

    /// Records what threads had not passed on when they were killed: merged calls, and the call each is in.
    pub(crate) fn end(&mut self, translator: &mut Translator, now: Time, out: &mut Vec<Event>) {
        let now_ns = u64::try_from(now.ns()).unwrap_or(0);
        for thread in &self.threads {
            if thread.ended || self.shared.state(thread.slot) != State::Used {
                continue;
            }
            let context = ThreadContext { pid: self.pid, track: thread.track, objects: &self.objects };
            let covered_ns = self.shared.covered_ns(thread.slot).min(now_ns);
            let call = self.shared.call(thread.slot);
            let call = call.filter(|(_, _, since)| *since <= now_ns && now_ns - *since >= WORTH_RECORDING_NS);
            let mut end_ns = call.map_or(now_ns, |(_, _, since)| since.max(covered_ns));
            let call_start_ns = end_ns;
            for run in self.shared.runs(thread.slot) {
                let took_ns = run.took_ns.min(end_ns.saturating_sub(covered_ns));
                end_ns -= took_ns;
                translator.open_run(context, &run, end_ns, took_ns, out);
            }
            if let Some((kind, object, _)) = call {
                translator.unfinished(context, kind, object, call_start_ns, now_ns - call_start_ns, out);
            }
        }
    }
}
