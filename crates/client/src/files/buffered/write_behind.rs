//! Write-behind: a write is copied and returns; servers get the bytes in full flow buffers, several in flight.
//!
//! Bytes are collected in *extents*, aligned parts of the file of two sizes: chunks ([`super::window::chunk_bytes`]) for large or
//! sequential writes, and small ones for scattered writes. An extent records which of its bytes were written; neighbours merge, and a byte
//! written twice is sent once. An extent is sent when it is full, when it reaches its maximum age, when its memory is needed, and on a
//! flush.
//!
//! **Order.** Tasks given to the connections' threads may arrive in any order. So an extent that overlaps one in flight, or one that waits
//! for such an extent, waits too; the thread that sees the earlier one arrive sends it. Two writes of one byte therefore arrive in the
//! order they were made, and no thread blocks for it.
//!
//! **Errors** are sticky: after the first, writes fail with it immediately, until a flush has reported it, once. A failed write is not
//! retried. Bytes that a server may have lost by restarting (its boot verifier changed) are such an error too, reported by the next flush
//! or [`StoreFile::sync`], whichever comes first.
//!
//! **Memory** comes from the budget that all windows share ([`crate::files::budget`]); without memory, a write is written through.

use super::extent::{Extent, SentExtent};
use super::window::{Sent, ask, chunk_bytes, spread};
use crate::files::budget::{Lent, Share, Window};
use crate::files::engine::flow::{Endpoint, Flow, Moving};
use crate::files::engine::memory::RequestMemory;
use crate::files::file::StoreFile;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use thalweg_base::ranges::overlap;
use thalweg_base::sync::{Condvar, Mutex, MutexGuard};
use thalweg_trace::{SpanFields, SpanKind, Tracer, TrackId};
use thalweg_wire::limits;
use thalweg_wire::patience;
use thalweg_wire::{Error, ErrorKind, Result};

/// Size of an extent for scattered small writes, in bytes.
const SMALL_BYTES: u64 = 64 << 10;

/// Write-behind options of a file.
#[derive(Clone, Debug)]
pub struct BehindOptions {
    /// Maximum bytes not yet on servers, at least two chunks. `None`: chosen by whether the servers are local or remote.
    pub window_bytes: Option<u64>,
    /// How long bytes wait for neighbours.
    pub age: Duration,
}

impl Default for BehindOptions {
    fn default() -> BehindOptions {
        BehindOptions { window_bytes: None, age: Duration::from_secs(1) }
    }
}

/// Write-behind of one open file. May be used by several threads at a time. When dropped, unflushed data is sent, and the result is not
/// reported.
pub struct WriteBehind {
    inner: Arc<Inner>,
}

struct Inner {
    file: Arc<StoreFile>,
    age: Duration,
    window_bytes: u64,
    chunk_bytes: u64,
    share: Share,
    state: Mutex<State>,
    /// Signalled when an extent has arrived.
    arrived: Condvar,
    /// For callbacks that run after the call has returned.
    this: Weak<Inner>,
}

#[derive(Default)]
struct State {
    /// Extents being filled, by start.
    open: BTreeMap<u64, Extent>,
    /// Extents in flight, or waiting for one they overlap, oldest first.
    sent: VecDeque<SentExtent>,
    /// Memory of all extents, in bytes.
    held_bytes: u64,
    /// Number of extents sent so far.
    number: u64,
    /// Flows for the thread that releases the lock to give to the connections' threads.
    to_ask: Vec<(Arc<Flow>, Result<Vec<Sent>>)>,
    error: Option<Error>,
    /// End of the last write.
    last_end: u64,
    /// Track that saw the last arrival.
    last: Option<TrackId>,
}

impl WriteBehind {
    /// Creates write-behind for a file.
    pub fn new(file: Arc<StoreFile>, options: &BehindOptions) -> Arc<WriteBehind> {
        let chunk_bytes = chunk_bytes(file.data(), file.handle());
        let by_distance = if file.data().is_near() { 16 << 20 } else { 64 << 20 };
        let window_bytes = options.window_bytes.unwrap_or(by_distance).max(2 * chunk_bytes);
        let budget = Arc::clone(file.data().budget());
        let inner = Arc::new_cyclic(|this: &Weak<Inner>| Inner {
            file,
            age: options.age,
            window_bytes,
            chunk_bytes,
            share: budget.share(this.clone()),
            state: Mutex::default(),
            arrived: Condvar::new(),
            this: this.clone(),
        });
        Arc::new(WriteBehind { inner })
    }

    /// Returns the file.
    pub fn file(&self) -> &Arc<StoreFile> {
        &self.inner.file
    }

    /// Writes `bytes` at `offset`. Returns once they are copied; blocks while the maximum is not yet on servers.
    ///
    /// # Errors
    /// An earlier write's error, naming server and file; this write's own only if it is written through.
    pub fn write(&self, tracer: &mut Tracer, bytes: &[u8], offset: u64) -> Result<()> {
        let inner = &*self.inner;
        inner.check_end(bytes.len(), offset)?;
        let whole = tracer.begin();
        let mut state = inner.state.lock();
        let is_sequential = offset == state.last_end;
        let (mut rest, mut at) = (bytes, offset);
        while !rest.is_empty() {
            state = inner.may_write(state, tracer)?;
            if let Some(taken) = state.fill(inner, rest, at) {
                (rest, at) = (&rest[taken..], at + taken as u64);
                continue;
            }
            let is_large = is_sequential || rest.len() as u64 >= SMALL_BYTES;
            let wanted = if is_large { inner.chunk_bytes } else { SMALL_BYTES };
            let has_room = state.held_bytes + wanted <= inner.window_bytes;
            let memory = has_room.then(|| inner.share.take(wanted as usize)).flatten();
            if let Some(memory) = memory {
                state.open(inner, at / wanted * wanted, memory);
            } else if !state.is_clean() {
                state = inner.make_room(state, tracer)?;
            } else {
                drop(state);
                inner.file.write_traced(tracer, rest, at)?;
                state = inner.state.lock();
                rest = &[];
            }
        }
        state.last_end = offset + bytes.len() as u64;
        drop(inner.let_go(state, tracer));
        let about = SpanFields { offset_bytes: Some(offset), size_bytes: Some(bytes.len() as u64), ..SpanFields::default() };
        tracer.end(whole, SpanKind::AppRequest, about);
        Ok(())
    }

    /// Writes the first `length` bytes of `memory` without copying: the memory must not be changed while others hold a reference. `false`:
    /// no room; the caller must write the bytes.
    ///
    /// # Errors
    /// As [`WriteBehind::write`].
    pub fn give(&self, tracer: &mut Tracer, memory: &Arc<RequestMemory>, length: usize, offset: u64) -> Result<bool> {
        let inner = &*self.inner;
        inner.check_end(length, offset)?;
        let whole = tracer.begin();
        let held_bytes = memory.len() as u64;
        let mut state = inner.state.lock();
        let lent = loop {
            state = inner.may_write(state, tracer)?;
            let has_room = state.held_bytes + held_bytes <= inner.window_bytes;
            if let Some(lent) = has_room.then(|| inner.share.lend(memory.len())).flatten() {
                break lent;
            }
            if state.is_clean() {
                return Ok(false);
            }
            state = inner.make_room(state, tracer)?;
        };
        let range = offset..offset + length as u64;
        // Of two writes of one byte, the older must be sent first.
        for start in state.open_in(&range) {
            state.send(inner, start);
        }
        state.held_bytes += held_bytes;
        state.last_end = range.end;
        state.send_pieces(inner, vec![range], (offset, Arc::clone(memory)), Some(lent));
        drop(inner.let_go(state, tracer));
        let about = SpanFields { offset_bytes: Some(offset), size_bytes: Some(length as u64), ..SpanFields::default() };
        tracer.end(whole, SpanKind::AppRequest, about);
        Ok(true)
    }

    /// Waits until all earlier writes are on the servers.
    ///
    /// # Errors
    /// The first error since the last flush, naming server and file. [`ErrorKind::Stale`]: a server has restarted and may have lost
    /// unsynced data.
    pub fn flush(&self, tracer: &mut Tracer) -> Result<()> {
        let inner = &*self.inner;
        let whole = tracer.begin();
        let mut state = inner.state.lock();
        state.send_all(inner);
        let last = state.number;
        state = inner.let_go(state, tracer);
        while state.sent.iter().any(|extent| extent.number <= last) {
            state = inner.wait(state, tracer);
        }
        let failed = state.error.take().map_or(Ok(()), Err);
        let _ = failed.as_ref().inspect_err(|error| patience::met(error));
        drop(state);
        tracer.end(whole, SpanKind::AppRequest, SpanFields::default());
        let lost = inner.file.verifiers().take_lost();
        failed.and(lost).map_err(|e| e.on_file(inner.file.handle().path()))
    }

    /// Waits until earlier writes to this range are on the servers or have failed; [`WriteBehind::flush`] reports the error.
    pub fn flush_range(&self, tracer: &mut Tracer, range: &Range<u64>) {
        let inner = &*self.inner;
        let mut state = inner.state.lock();
        for start in state.open_in(range) {
            state.send(inner, start);
        }
        let last = state.number;
        state = inner.let_go(state, tracer);
        while state.sent.iter().any(|extent| extent.number <= last && extent.overlaps(range)) {
            state = inner.wait(state, tracer);
        }
    }

    /// Returns the end of the last byte not known to be on a server, a lower bound of the file's size.
    pub fn dirty_end(&self) -> Option<u64> {
        let state = self.inner.state.lock();
        let ends = state.each().filter_map(|(pieces, ..)| pieces.last()).map(|piece| piece.end);
        ends.max()
    }

    /// Whether any byte of the range is not known to be on a server.
    pub fn is_dirty(&self, range: &Range<u64>) -> bool {
        let state = self.inner.state.lock();
        state.each().any(|(pieces, ..)| pieces.iter().any(|piece| !overlap(piece, range).is_empty()))
    }

    /// Discards the data that was not sent yet.
    pub fn discard(&self) {
        let mut state = self.inner.state.lock();
        let forgotten: u64 = state.open.values().map(|extent| extent.memory.len() as u64).sum();
        state.held_bytes -= forgotten;
        state.open.clear();
        drop(state);
        self.inner.arrived.notify_all();
    }

    /// Reads as [`StoreFile::read`], including data still in write-behind.
    ///
    /// # Errors
    /// Names server and file.
    pub fn read(&self, tracer: &mut Tracer, buffer: &mut [u8], offset: u64, known_size: Option<u64>) -> Result<usize> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        // Copied before the servers are asked: bytes that arrive meanwhile are also in their answer.
        let (own, end) = self.inner.state.lock().own(&range);
        if let [(start, bytes)] = &own[..]
            && *start == offset
            && bytes.len() == buffer.len()
        {
            buffer.copy_from_slice(bytes);
            return Ok(bytes.len());
        }
        let mut have = self.inner.file.read(tracer, buffer, offset, known_size)?;
        let reached = (end.saturating_sub(offset) as usize).min(buffer.len());
        if reached > have {
            buffer[have..reached].fill(0);
            have = reached;
        }
        for (start, bytes) in own {
            let at = (start - offset) as usize;
            buffer[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(have)
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        state.send_all(&self.inner);
        drop(self.inner.let_go(state, &mut Tracer::off()));
    }
}

impl State {
    /// Iterates over all data not on servers, oldest first: its pieces, and the memory with its start.
    fn each(&self) -> impl Iterator<Item = (&[Range<u64>], &Arc<RequestMemory>, u64)> {
        let sent = self.sent.iter().map(|e| (&e.pieces[..], &e.memory, e.start));
        sent.chain(self.open.values().map(|e| (&e.pieces[..], &e.memory, e.start)))
    }

    /// Returns the data of a range not yet on servers, oldest first, and the end of all such data.
    fn own(&self, range: &Range<u64>) -> (Vec<(u64, Vec<u8>)>, u64) {
        let (mut own, mut end) = (Vec::new(), 0);
        for (pieces, memory, start) in self.each() {
            for piece in pieces {
                end = end.max(piece.end);
                let part = overlap(piece, range);
                if !part.is_empty() {
                    // SAFETY: an open extent is only written by the holder of the state's lock, and a sent one is not written.
                    let bytes = unsafe { memory.part((part.start - start) as usize..(part.end - start) as usize) };
                    own.push((part.start, bytes.to_vec()));
                }
            }
        }
        (own, end)
    }

    /// Copies as much of `bytes` as fits into the open extent at `offset`, if there is one; returns the number of bytes.
    fn fill(&mut self, inner: &Inner, bytes: &[u8], offset: u64) -> Option<usize> {
        let (start, extent) = self.open.range_mut(..=offset).next_back().filter(|(_, extent)| offset < extent.end())?;
        let start = *start;
        let many = bytes.len().min((extent.end() - offset) as usize);
        extent.fill(&bytes[..many], offset);
        if extent.is_full() {
            self.send(inner, start);
        }
        Some(many)
    }

    /// Opens an extent. A chunk absorbs the small extents within it.
    fn open(&mut self, inner: &Inner, start: u64, memory: Arc<RequestMemory>) {
        let mut extent = Extent { start, memory, pieces: Vec::new(), since: Instant::now() };
        self.held_bytes += extent.memory.len() as u64;
        let inside: Vec<u64> = self.open.range(start..extent.end()).map(|(start, _)| *start).collect();
        for small in inside.into_iter().filter_map(|start| self.open.remove(&start)) {
            for piece in &small.pieces {
                let (from, to) = ((piece.start - small.start) as usize, (piece.end - small.start) as usize);
                // SAFETY: as in `own`.
                extent.fill(unsafe { small.memory.part(from..to) }, piece.start);
            }
            extent.since = extent.since.min(small.since);
            self.held_bytes -= small.memory.len() as u64;
        }
        let is_full = extent.is_full();
        self.open.insert(start, extent);
        if is_full {
            self.send(inner, start);
        }
    }

    fn send_all(&mut self, inner: &Inner) {
        while let Some(start) = self.open.keys().next().copied() {
            self.send(inner, start);
        }
    }

    /// Sends an extent, or queues it behind those it overlaps.
    fn send(&mut self, inner: &Inner, start: u64) {
        let Some(Extent { start, memory, pieces, .. }) = self.open.remove(&start) else { return };
        if pieces.is_empty() {
            self.held_bytes -= memory.len() as u64;
            return;
        }
        self.send_pieces(inner, pieces, (start, memory), None);
    }

    /// Sends pieces of a memory that begins at `start`, or queues them behind those they overlap.
    fn send_pieces(&mut self, inner: &Inner, pieces: Vec<Range<u64>>, (start, memory): (u64, Arc<RequestMemory>), lent: Option<Lent>) {
        self.number += 1;
        inner.file.changing();
        self.sent.push_back(SentExtent { number: self.number, start, pieces, memory, has_left: false, _lent: lent });
        self.leave(inner);
    }

    /// Whether everything is on servers.
    fn is_clean(&self) -> bool {
        self.sent.is_empty() && self.open.is_empty()
    }

    /// Returns the starts of open extents with bytes in this range.
    fn open_in(&self, range: &Range<u64>) -> Vec<u64> {
        let open = self.open.values().filter(|e| e.pieces.iter().any(|p| !overlap(p, range).is_empty()));
        open.map(|extent| extent.start).collect()
    }

    /// Sends every queued extent that overlaps no older one.
    fn leave(&mut self, inner: &Inner) {
        for n in 0..self.sent.len() {
            let extent = &self.sent[n];
            if extent.has_left || extent.pieces.iter().any(|piece| self.sent.iter().take(n).any(|older| older.overlaps(piece))) {
                continue;
            }
            let file = &inner.file;
            // On an error (targets not in the map), nothing of the file can be written.
            let tasks = spread(file.data(), file.handle(), &extent.pieces);
            let moving = Moving {
                file: Arc::clone(file.handle()),
                endpoint: Endpoint::FromMemory(Arc::clone(&extent.memory), extent.start),
                durability: file.durability(),
                verifiers: Arc::clone(file.verifiers()),
                request: None,
                moved_bytes: Arc::clone(&inner.file.data().live().moved_bytes),
            };
            let (number, inner) = (extent.number, inner.this.upgrade());
            let then = Box::new(move |how, by| {
                if let Some(inner) = inner {
                    inner.arrived(number, how, by);
                }
            });
            let flow = Flow::with_end(moving, tasks.as_ref().map_or(1, |tasks| tasks.len().max(1)), Some(then));
            self.to_ask.push((flow, tasks));
            self.sent[n].has_left = true;
        }
    }
}

impl Inner {
    /// Releases the lock while giving the flows in `to_ask` to the connections' threads.
    fn let_go<'a>(&'a self, mut state: MutexGuard<'a, State>, tracer: &mut Tracer) -> MutexGuard<'a, State> {
        while !state.to_ask.is_empty() {
            let to_ask = std::mem::take(&mut state.to_ask);
            drop(state);
            for (flow, tasks) in to_ask {
                match tasks {
                    Ok(tasks) if tasks.is_empty() => flow.done(Ok(0), None),
                    Ok(tasks) => ask(self.file.data().writing(), &flow, tasks, tracer.track()),
                    Err(error) => flow.done(Err(error), None),
                }
            }
            state = self.state.lock();
        }
        state
    }

    /// Checks that a write ends within the largest file.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`].
    fn check_end(&self, length: usize, offset: u64) -> Result<()> {
        if offset.checked_add(length as u64).is_none_or(|end| end > limits::FILE_BYTES) {
            let problem = format!("{length} bytes at {offset} end past the largest file (2^63 - 1 bytes)");
            return Err(Error::new(ErrorKind::TooLarge, problem).on_file(self.file.handle().path()));
        }
        Ok(())
    }

    /// Sends what is due, and fails if an earlier write did.
    ///
    /// # Errors
    /// An earlier write's error.
    fn may_write<'a>(&'a self, state: MutexGuard<'a, State>, tracer: &mut Tracer) -> Result<MutexGuard<'a, State>> {
        let state = self.let_go(state, tracer);
        match &state.error {
            Some(error) => Err(error.clone().on_file(self.file.handle().path())),
            None => Ok(state),
        }
    }

    /// Waits for an extent in flight; if none is, sends everything.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`]: the writing process was killed.
    fn make_room<'a>(&'a self, mut state: MutexGuard<'a, State>, tracer: &mut Tracer) -> Result<MutexGuard<'a, State>> {
        if state.sent.is_empty() {
            state.send_all(self);
            return Ok(state);
        }
        let state = self.wait(state, tracer);
        if patience::is_left() {
            // Later writes of others must not be overtaken by these bytes.
            return Err(Error::new(ErrorKind::Cancelled, "its writer was killed").on_file(self.file.handle().path()));
        }
        Ok(state)
    }

    /// Waits until an extent has arrived.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, tracer: &mut Tracer) -> MutexGuard<'a, State> {
        let mut state = self.let_go(state, tracer);
        if state.sent.is_empty() {
            return state;
        }
        let waiting = tracer.begin();
        self.arrived.wait(&mut state);
        tracer.end(waiting, SpanKind::WaitLock, SpanFields { waker_track: state.last, ..SpanFields::default() });
        state
    }

    /// Records that an extent is on its servers, or has failed.
    fn arrived(&self, number: u64, how: Result<()>, by: Option<TrackId>) {
        let mut state = self.state.lock();
        let place = state.sent.iter().position(|extent| extent.number == number);
        let gone = place.and_then(|place| state.sent.remove(place));
        if let Some(extent) = &gone {
            state.held_bytes -= extent.memory.len() as u64;
            self.file.changed(&extent.pieces, how.is_ok());
            self.note(extent, how.is_ok());
        }
        if let Err(error) = how {
            state.error.get_or_insert(error);
        }
        state.last = by;
        drop(gone);
        state.leave(self);
        drop(self.let_go(state, &mut Tracer::off()));
        self.arrived.notify_all();
    }

    /// Marks an extent's bytes as repaired if they have arrived, or as lost.
    fn note(&self, extent: &SentExtent, has_arrived: bool) {
        for piece in &extent.pieces {
            if has_arrived {
                self.file.mend(piece);
                continue;
            }
            let (from, to) = ((piece.start - extent.start) as usize, (piece.end - extent.start) as usize);
            // SAFETY: the flow has ended, and a sent extent is not written.
            self.file.lose(unsafe { extent.memory.part(from..to) }, piece.start);
        }
    }

    /// Sends open extents that are old enough, unless the lock is held.
    fn send_idle(&self, is_old: impl Fn(&Extent) -> bool) {
        let Some(mut state) = self.state.try_lock() else { return };
        let old: Vec<u64> = state.open.values().filter(|extent| is_old(extent)).map(|extent| extent.start).collect();
        for start in old {
            state.send(self, start);
        }
        drop(self.let_go(state, &mut Tracer::off()));
    }
}

impl Window for Inner {
    fn relieve(&self) {
        self.send_idle(|_| true);
    }

    fn look(&self, now: Instant) {
        self.send_idle(|extent| now.saturating_duration_since(extent.since) >= self.age);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file whose server accepts connections and never answers: sent data stays in flight.
    fn behind() -> (Arc<WriteBehind>, std::net::TcpListener) {
        use crate::files::{DataClient, FileHandle};
        use thalweg_wire::Connect;
        use thalweg_wire::protocol::io::{FileId, TargetId};
        use thalweg_wire::protocol::metadata::{ServerEntry, StoreMap, TargetEntry};
        use thalweg_wire::trust::{Credential, Credentials};
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = ServerEntry { name: "io0".into(), node: String::new(), address: silent.local_addr().unwrap().to_string() };
        let target = TargetEntry { target: TargetId(0), server: 0, directory: String::new() };
        let credentials = Credentials::given(Credential::new_store(1));
        let options = Connect { credentials, ..Connect::default() };
        let data = Arc::new(DataClient::new(StoreMap { store: 1, servers: vec![server], targets: vec![target] }, &options));
        let layout = thalweg_layout::Layout::new(&thalweg_layout::Spec::new("basic_dist"), None, 1).unwrap();
        let handle = FileHandle::new(FileId(1), "/file", layout, vec![TargetId(0)]).unwrap();
        (WriteBehind::new(Arc::new(StoreFile::new(data, handle)), &BehindOptions::default()), silent)
    }

    fn have_left(behind: &WriteBehind) -> Vec<bool> {
        behind.inner.state.lock().sent.iter().map(|extent| extent.has_left).collect()
    }

    #[test]
    fn what_overlaps_something_on_its_way_waits_for_it_and_nothing_else_does() {
        let (behind, _silent) = behind();
        let chunk = vec![1; behind.inner.chunk_bytes as usize];
        let mut off = Tracer::off();
        for offset in [0, 0, chunk.len() as u64, 0] {
            behind.write(&mut off, &chunk, offset).unwrap();
        }
        assert_eq!(have_left(&behind), [true, false, true, false]);
        let first = behind.inner.state.lock().sent[0].number;
        behind.inner.arrived(first, Ok(()), None);
        assert_eq!(have_left(&behind), [true, true, false]);
    }

    #[test]
    fn what_is_given_leaves_from_where_it_is_after_what_it_overlaps_and_is_held_until_it_has_arrived() {
        let (behind, _silent) = behind();
        let (budget, mut off) = (Arc::clone(behind.file().data().budget()), Tracer::off());
        behind.write(&mut off, &[1; 100], 50).unwrap();
        let mut memory = budget.for_requests(8, 1 << 20);
        Arc::get_mut(&mut memory).unwrap().received(8)[8..].fill(2);
        let before = budget.lent();
        assert!(behind.give(&mut off, &memory, 1000, 100).unwrap());
        assert_eq!(have_left(&behind), [true, false], "what was written before is on its way, and this waits for it");
        assert_eq!(behind.dirty_end(), Some(1100));
        let (own, _) = behind.inner.state.lock().own(&(90..110));
        assert_eq!(own, [(90, vec![1; 20]), (100, vec![2; 10])]);
        assert_eq!((Arc::strong_count(&memory), budget.lent() - before), (2, 1 << 20));
        let numbers: Vec<u64> = behind.inner.state.lock().sent.iter().map(|extent| extent.number).collect();
        numbers.into_iter().for_each(|number| behind.inner.arrived(number, Ok(()), None));
        assert_eq!((behind.dirty_end(), behind.inner.state.lock().held_bytes, budget.lent()), (None, 0, before));
        // Its flow has the memory as long as its task waits in a connection's queue.
        assert!(Arc::get_mut(&mut memory).is_none());
    }
}
