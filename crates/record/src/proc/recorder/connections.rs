//! TCP connections of watched processes: their state, the bytes that they moved, and which of them ended a wait.

use super::exact_thread::{ExactThread, Off, only};
use super::sampler::{Came, Sampler, Watch};
use crate::proc::diagnostics::Socket;
use crate::proc::moved;
use std::collections::BTreeSet;
use std::rc::Rc;
use thalweg_trace::{Counter, CounterName, CounterOf, Event, ObjectId, TcpInfo, Time, TrackId};

/// What came on a connection came this long before or after a wait's end, at most: the kernel counts in ticks, of at
/// most 10 ms.
const TICK_MS: u64 = 10;

/// What a process has open is looked up again if that was as long ago.
const FRESH_NS: u64 = 20_000_000;

impl Sampler {
    pub(super) fn sample_sockets(&mut self, now: Time, slow: bool) {
        if self.watched.is_empty() || !slow && self.watched.values().all(|watch| watch.ends.sockets.is_empty()) {
            return;
        }
        self.ask_connections(now);
        let ours: BTreeSet<u64> = self.watched.values().flat_map(|watch| watch.ends.sockets.iter().copied()).collect();
        for inode in &ours {
            let Some(socket) = self.targets.sockets.get(inode).cloned() else { continue };
            let Some(object) = self.targets.objects.socket(&socket) else { continue };
            if let Some(info) = socket.info {
                info.counters(object, now, socket.send_buffer_bytes, Some(socket.unread_bytes), &mut self.batch);
                let of = CounterOf::Object(object);
                // (The connecting end's own SYN counts as one.)
                let positions = [(CounterName::TcpReceivedBytes, info.received_bytes), (CounterName::TcpAckedBytes, info.acked_bytes)];
                let known = positions.into_iter().filter_map(|(name, bytes)| Some((name, i64::try_from(bytes?).ok()?)));
                self.batch.extend(known.map(|(name, value)| Event::Counter(Counter { of, name, at: now, value })));
            }
        }
        self.note_asked_again(now);
        self.sample_other_ends(&ours, now);
        self.moved.retain(|inode, _| self.targets.sockets.contains_key(inode));
    }

    /// Asks the kernel for the connections' state, and records what they moved since the last time.
    fn ask_connections(&mut self, now: Time) {
        self.targets.read_connections();
        if self.exact.is_none() {
            return;
        }
        for pid in self.watched.keys().copied().collect::<Vec<_>>() {
            let Some(watch) = self.watched.remove(&pid) else { continue };
            let track = self.mover(pid, now).or(watch.track).filter(|_| !watch.has_calls && !watch.ends.sockets.is_empty());
            if let Some(track) = track {
                self.connections_moved(&watch, track, now);
            }
            self.watched.insert(pid, watch);
        }
        self.asked_at = now;
    }

    /// Returns the only thread of a process that ran since the connections were last asked for.
    fn mover(&self, pid: u32, now: Time) -> Option<TrackId> {
        let threads = self.exact.as_ref()?.threads.values();
        only(threads.filter(|thread| thread.pid == pid && thread.ran_between(self.asked_at, now))).map(|thread| thread.track)
    }

    pub(super) fn connections_moved(&mut self, watch: &Watch, track: TrackId, now: Time) {
        let since = if self.exact.is_some() { self.asked_at } else { self.sampled_at };
        for inode in &watch.ends.sockets {
            let Some(socket) = self.targets.sockets.get(inode) else { continue };
            let Some(object) = self.targets.objects.socket(socket) else { continue };
            let before = self.moved.get(inode).copied().unwrap_or_default();
            let current = moved::emit_connection((&self.trace, track, since, now), (object, socket), before, &mut self.batch);
            self.moved.insert(*inode, current);
        }
    }

    /// Finds the connection that ended a wait for any of several: the only one on which bytes, or else acknowledgements,
    /// came then.
    pub(super) fn find_what_came(&mut self, now: Time) {
        let Some(exact) = &mut self.exact else { return };
        let is_one = |thread: &mut ExactThread| thread.ended_by_connection().next().is_some();
        let waiters: Vec<u32> = exact.threads.iter_mut().filter_map(|(tid, thread)| is_one(thread).then_some(*tid)).collect();
        if waiters.is_empty() {
            return;
        }
        self.ask_connections(now);
        let sums = |info: TcpInfo| (info.received_bytes.unwrap_or(0), info.acked_bytes.unwrap_or(0));
        let came: Came = self.targets.sockets.iter().filter_map(|(inode, one)| Some((*inode, sums(one.info?)))).collect();
        let before = std::mem::replace(&mut self.came, came);
        for tid in waiters {
            let Some(thread) = self.exact.as_mut().and_then(|exact| exact.threads.get_mut(&tid)) else { continue };
            let waits: Vec<Off> = thread.ended_by_connection().map(|wait| *wait).collect();
            let ends = self.watched.get(&thread.pid).map(|watch| Rc::clone(&watch.ends)).unwrap_or_default();
            let several = waits.len() > 1;
            let found: Vec<Option<ObjectId>> =
                waits.iter().map(|wait| self.came_at(&ends.sockets, &before, (wait, now, several))).collect();
            let Some(thread) = self.exact.as_mut().and_then(|exact| exact.threads.get_mut(&tid)) else { continue };
            let is_missing = found.contains(&None);
            for (wait, object) in thread.ended_by_connection().zip(found) {
                (wait.connection, wait.sought) = (object, true);
            }
            if is_missing && now.since(self.slow_before) >= FRESH_NS {
                // It may be a connection that its process has only just made.
                self.slow_at = Time::from_monotonic_ns(0);
            }
        }
    }

    /// Returns the only one of these connections on which something came at the end of a wait, shortly before now; one of
    /// `several` waits since the kernel was last asked.
    fn came_at(&mut self, sockets: &BTreeSet<u64>, before: &Came, (wait, now, several): (&Off, Time, bool)) -> Option<ObjectId> {
        let age_ms = now.since(wait.to) / 1_000_000;
        let near = |came_ms: u32| u64::from(came_ms).abs_diff(age_ms) <= TICK_MS;
        let (mut data, mut room) = (Vec::new(), Vec::new());
        for inode in sockets {
            let Some(info) = self.targets.sockets.get(inode).and_then(|socket| socket.info) else { continue };
            let was = before.get(inode).copied().unwrap_or_default();
            data.extend((info.received_bytes.unwrap_or(0) > was.0 && near(info.data_came_ms)).then_some(*inode));
            room.extend((info.acked_bytes.unwrap_or(0) > was.1 && near(info.acknowledgement_came_ms)).then_some(*inode));
        }
        let candidates = if data.is_empty() { room } else { data };
        let inode = match candidates.as_slice() {
            [inode] if !several => *inode,
            // The kernel's ticks are coarse: of several, the one whose other end has just run.
            all => only(all.iter().copied().filter(|inode| self.other_end_ran(*inode, wait)))?,
        };
        let socket: Socket = self.targets.sockets.get(&inode)?.clone();
        self.targets.objects.socket(&socket)
    }

    /// Whether the process at a connection's other end may have sent something at the end of a wait: it ran then, or is
    /// not known.
    fn other_end_ran(&mut self, inode: u64, wait: &Off) -> bool {
        let (Some(other), Some(exact)) = (self.targets.other_side(inode), &self.exact) else { return true };
        let mut threads = exact.threads.values().filter(|thread| thread.ends.sockets.contains(&other)).peekable();
        threads.peek().is_none() || threads.any(|thread| thread.ran_between(wait.woken_since(wait.queued_ns), wait.to))
    }
}
