//! Read-ahead: prefetches the data that reads are expected to request.
//!
//! Reads are sorted into *streams*. A read belongs to a stream if it begins where the stream's last read ended (or near it: several
//! threads may read one file alternately, and their requests overtake each other), or if it continues a constant stride of equal reads,
//! the third of which begins a stream. Streams of one file may be interleaved. A read that fits no stream prefetches nothing.
//!
//! A stream has a window: the bytes ahead of its last read that are in memory or in flight, in chunks that the connections' threads fill.
//! The window starts small, doubles when the reader finds a chunk still in flight (the reader outruns the window), and is halved when a
//! chunk is evicted without having been read. A chunk is freed when all of it was read.
//!
//! **End of file.** The size is requested once, when the first stream begins, unless the owner knows it; nothing beyond it is prefetched.
//! A chunk in which a datafile came short has a hole, or the file was truncated meanwhile: it is discarded, and [`StoreFile::read`] reads
//! the data again and decides. So a window never decides where a file ends.
//!
//! **Staleness.** Cached data may be stale when another client has written. A caller that needs newer data invalidates it: after its own
//! writes, after a truncation, on open.
//!
//! Memory comes from the budget that all windows share ([`crate::files::budget`]); without memory, nothing is prefetched.

use super::streams::{Streams, Wish};
use super::window::{Sent, ask, chunk_bytes, spread};
use super::write_behind::WriteBehind;
use crate::files::budget::{Share, Window};
use crate::files::engine::flow::{Endpoint, Flow, Moving};
use crate::files::engine::memory::RequestMemory;
use crate::files::file::StoreFile;
use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use thalweg_base::ranges::overlap;
use thalweg_base::sync::Mutex;
use thalweg_trace::{CounterName, SpanFields, SpanKind, Tracer};
use thalweg_wire::Result;
use thalweg_wire::protocol::io::Durability;

/// Age at which data that was not read is evicted.
const AGE: Duration = Duration::from_secs(5);
/// Smallest allocation for a chunk, in bytes.
const SMALLEST_BYTES: u64 = 64 << 10;

/// Read-ahead options of a file.
#[derive(Clone, Default)]
pub struct AheadOptions {
    /// Maximum bytes ahead of each stream. `None`: chosen by whether the servers are local or remote.
    pub window_bytes: Option<u64>,
    /// The file's size, if the owner knows it and nothing changes it: reads end there, and the servers are not asked.
    pub size_bytes: Option<u64>,
    /// The file's write-behind: bytes not yet on servers are not prefetched.
    pub behind: Option<Arc<WriteBehind>>,
}

/// Effectiveness of read-ahead, in bytes, since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadCounters {
    /// Bytes requested that were in memory or in flight.
    pub hit_bytes: u64,
    /// Bytes requested that were not prefetched.
    pub miss_bytes: u64,
    /// Bytes prefetched and never requested.
    pub wasted_bytes: u64,
}

/// Read-ahead of one open file. May be used by several threads at a time.
pub struct ReadAhead {
    inner: Arc<Inner>,
}

struct Inner {
    file: Arc<StoreFile>,
    behind: Option<Arc<WriteBehind>>,
    /// The file's size, if the owner guarantees it.
    known_size: Option<u64>,
    chunk_bytes: u64,
    share: Share,
    state: Mutex<State>,
    hit_bytes: AtomicU64,
    miss_bytes: AtomicU64,
    wasted_bytes: AtomicU64,
}

struct State {
    streams: Streams,
    /// Chunks in memory or in flight, by start; they do not overlap.
    chunks: BTreeMap<u64, Arc<Chunk>>,
    /// Prefetching stops here.
    size_bytes: Option<u64>,
    last_read: Instant,
}

/// A prefetched part of the file.
struct Chunk {
    range: Range<u64>,
    memory: Arc<RequestMemory>,
    flow: Arc<Flow>,
    /// Bytes of the chunk read so far. (Bytes read twice count twice: the chunk is freed early, without harm.)
    served_bytes: AtomicU64,
    stream: u64,
}

/// Bytes of a file, possibly borrowed from a chunk.
pub struct View(ViewData);

enum ViewData {
    /// Part of a chunk that has arrived and is not written any more.
    Chunk(Arc<Chunk>, Range<usize>),
    Own(Vec<u8>),
}

impl Deref for View {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: the flow has ended, so no thread writes the memory; the chunk keeps it alive.
            ViewData::Chunk(chunk, range) => unsafe { chunk.memory.part(range.clone()) },
            ViewData::Own(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for View {
    fn from(bytes: Vec<u8>) -> View {
        View(ViewData::Own(bytes))
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View({} bytes)", self.len())
    }
}

impl ReadAhead {
    /// Creates read-ahead for a file.
    pub fn new(file: Arc<StoreFile>, options: &AheadOptions) -> Arc<ReadAhead> {
        let by_distance = if file.data().is_near() { 16 << 20 } else { 64 << 20 };
        let window_bytes = options.window_bytes.unwrap_or(by_distance);
        let chunk_bytes = chunk_bytes(file.data(), file.handle()).min(window_bytes.next_power_of_two()).max(SMALLEST_BYTES);
        let budget = Arc::clone(file.data().budget());
        let state = State {
            streams: Streams::new(window_bytes),
            chunks: BTreeMap::new(),
            size_bytes: options.size_bytes,
            last_read: Instant::now(),
        };
        let inner = Arc::new_cyclic(|this: &Weak<Inner>| Inner {
            file,
            behind: options.behind.clone(),
            known_size: options.size_bytes,
            chunk_bytes,
            share: budget.share(this.clone()),
            state: Mutex::new(state),
            hit_bytes: AtomicU64::new(0),
            miss_bytes: AtomicU64::new(0),
            wasted_bytes: AtomicU64::new(0),
        });
        Arc::new(ReadAhead { inner })
    }

    /// Returns the file.
    pub fn file(&self) -> &Arc<StoreFile> {
        &self.inner.file
    }

    /// Fills `buffer` from `offset`, or up to the end of the file; returns the number of bytes read.
    ///
    /// # Errors
    /// Names server and file.
    pub fn read(&self, tracer: &mut Tracer, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let whole = tracer.begin();
        self.inner.notice(tracer, offset, buffer.len() as u64)?;
        let have = self.inner.read(tracer, buffer, offset)?;
        let about = SpanFields { offset_bytes: Some(offset), size_bytes: Some(have as u64), ..SpanFields::default() };
        tracer.end(whole, SpanKind::AppRequest, about);
        Ok(have)
    }

    /// Like [`ReadAhead::read`], but avoids a copy if a single chunk holds the bytes. Returns fewer than `length` bytes only at the end of
    /// the file.
    ///
    /// # Errors
    /// Names server and file.
    pub fn view(&self, tracer: &mut Tracer, offset: u64, length: usize) -> Result<View> {
        let whole = tracer.begin();
        let inner = &*self.inner;
        inner.notice(tracer, offset, length as u64)?;
        let length = inner.known_size.map_or(length as u64, |size| size.saturating_sub(offset).min(length as u64)) as usize;
        let view = match inner.whole_piece(tracer, offset, length as u64) {
            Some(view) => view,
            None => {
                let mut bytes = vec![0; length];
                let have = inner.read(tracer, &mut bytes, offset)?;
                bytes.truncate(have);
                View(ViewData::Own(bytes))
            }
        };
        let about = SpanFields { offset_bytes: Some(offset), size_bytes: Some(view.len() as u64), ..SpanFields::default() };
        tracer.end(whole, SpanKind::AppRequest, about);
        Ok(view)
    }

    /// Invalidates cached data in this range: it was written.
    pub fn forget(&self, range: &Range<u64>) {
        let mut state = self.inner.state.lock();
        let stale: Vec<u64> =
            state.chunks.values().filter(|c| !overlap(&c.range, range).is_empty()).map(|chunk| chunk.range.start).collect();
        for start in stale {
            self.inner.drop_chunk(&mut state, start);
        }
        state.size_bytes = state.size_bytes.filter(|size| range.end <= *size);
    }

    /// Invalidates all cached data.
    pub fn forget_all(&self) {
        let mut state = self.inner.state.lock();
        self.inner.drop_all(&mut state);
        state.size_bytes = self.inner.known_size;
    }

    /// Returns the counters.
    pub fn counters(&self) -> AheadCounters {
        AheadCounters {
            hit_bytes: self.inner.hit_bytes.load(Ordering::Relaxed),
            miss_bytes: self.inner.miss_bytes.load(Ordering::Relaxed),
            wasted_bytes: self.inner.wasted_bytes.load(Ordering::Relaxed),
        }
    }
}

impl Chunk {
    fn serve(&self, bytes: u64) -> u64 {
        self.served_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    fn length(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl Inner {
    /// Assigns a read to a stream, and requests what that stream needs next.
    fn notice(&self, tracer: &mut Tracer, offset: u64, length: u64) -> Result<()> {
        let mut state = self.state.lock();
        state.last_read = Instant::now();
        let Some(stream) = state.streams.notice(offset, length) else { return Ok(()) };
        if state.size_bytes.is_none() {
            drop(state);
            let size = self.file.size_traced(tracer)?;
            state = self.state.lock();
            state.size_bytes.get_or_insert(size);
        }
        self.drop_of_gone(&mut state);
        let end = state.size_bytes.unwrap_or(0);
        let mut sent = Vec::new();
        while let Some(wish) = state.streams.wish(stream, self.chunk_bytes, end) {
            if let Some(there) = there(&state.chunks, &wish.range) {
                state.streams.granted(stream, wish.range.start..there.end.max(wish.range.start));
                continue;
            }
            let bytes = (wish.range.end - wish.range.start).next_power_of_two().max(SMALLEST_BYTES);
            let Some(memory) = self.share.take(bytes as usize) else { break };
            state.streams.granted(stream, wish.range.clone());
            sent.extend(self.send_for(&mut state, &wish, memory));
        }
        drop(state);
        for (flow, tasks) in sent {
            ask(self.file.data().reading(), &flow, tasks, tracer.track());
        }
        Ok(())
    }

    /// Creates a chunk with the tasks that fetch it. `None`: some of its bytes are not on servers yet.
    fn send_for(&self, state: &mut State, wish: &Wish, memory: Arc<RequestMemory>) -> Option<(Arc<Flow>, Vec<Sent>)> {
        let file = &self.file;
        // A file whose targets are not in the map cannot be read: a read of these bytes gets the error.
        let tasks = spread(file.data(), file.handle(), std::slice::from_ref(&wish.range)).ok().filter(|tasks| !tasks.is_empty())?;
        let moving = Moving {
            file: Arc::clone(file.handle()),
            endpoint: Endpoint::ToMemory(Arc::clone(&memory), wish.range.start),
            durability: Durability::Returned,
            verifiers: Arc::clone(file.verifiers()),
            // Not part of a request yet: a read that needs it is recorded as waiting for the thread that fetches it.
            request: None,
            moved_bytes: Arc::clone(&file.data().live().moved_bytes),
        };
        let flow = Flow::new(moving, tasks.len());
        let (range, stream, served_bytes) = (wish.range.clone(), wish.stream, AtomicU64::new(0));
        let chunk = Chunk { range: range.clone(), memory, flow: Arc::clone(&flow), served_bytes, stream };
        state.chunks.insert(range.start, Arc::new(chunk));
        // Checked only after the chunk is registered: a later writer finds the chunk and invalidates it.
        if self.behind.as_ref().is_some_and(|behind| behind.is_dirty(&range)) {
            state.chunks.remove(&range.start);
            return None;
        }
        Some((flow, tasks))
    }

    /// Waits for the chunk that holds the byte at `offset`; `None`: no chunk, or an unusable one.
    fn chunk(&self, tracer: &mut Tracer, offset: u64) -> Option<Arc<Chunk>> {
        let chunk = {
            let mut state = self.state.lock();
            let chunk = state.chunks.range(..=offset).next_back().map(|(_, chunk)| Arc::clone(chunk));
            let chunk = chunk.filter(|chunk| offset < chunk.range.end)?;
            if !chunk.flow.has_ended() {
                state.streams.waited(chunk.stream);
            }
            chunk
        };
        let is_good = chunk.flow.wait(tracer).is_ok() && !chunk.flow.is_short();
        if !is_good {
            self.go(&chunk);
        }
        is_good.then_some(chunk)
    }

    /// Counts bytes of a chunk as read, and frees it when all of it was.
    fn served(&self, tracer: &mut Tracer, chunk: &Arc<Chunk>, bytes: u64) {
        self.hit_bytes.fetch_add(bytes, Ordering::Relaxed);
        if chunk.serve(bytes) >= chunk.length() {
            self.go(chunk);
            self.record(tracer);
        }
    }

    fn record(&self, tracer: &mut Tracer) {
        if tracer.is_on() {
            tracer.counter(CounterName::AheadHitBytes, self.hit_bytes.load(Ordering::Relaxed) as i64);
            tracer.counter(CounterName::AheadMissBytes, self.miss_bytes.load(Ordering::Relaxed) as i64);
            tracer.counter(CounterName::AheadWastedBytes, self.wasted_bytes.load(Ordering::Relaxed) as i64);
        }
    }

    /// Returns the whole range from one chunk, if one holds it.
    fn whole_piece(&self, tracer: &mut Tracer, offset: u64, length: u64) -> Option<View> {
        let end = offset.checked_add(length)?;
        {
            let state = self.state.lock();
            let (_, chunk) = state.chunks.range(..=offset).next_back()?;
            if end > chunk.range.end {
                return None;
            }
        }
        let chunk = self.chunk(tracer, offset).filter(|chunk| end <= chunk.range.end)?;
        self.served(tracer, &chunk, length);
        let from = (offset - chunk.range.start) as usize;
        Some(View(ViewData::Chunk(chunk, from..from + length as usize)))
    }

    fn read(&self, tracer: &mut Tracer, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let length = self.known_size.map_or(buffer.len() as u64, |size| size.saturating_sub(offset).min(buffer.len() as u64)) as usize;
        let mut have = 0;
        while have < length {
            let at = offset + have as u64;
            let rest = &mut buffer[have..length];
            if let Some(chunk) = self.chunk(tracer, at) {
                let many = rest.len().min((chunk.range.end - at) as usize);
                let from = (at - chunk.range.start) as usize;
                // SAFETY: the chunk has arrived, so its memory is not written any more.
                rest[..many].copy_from_slice(unsafe { chunk.memory.part(from..from + many) });
                self.served(tracer, &chunk, many as u64);
                have += many;
                continue;
            }
            let next = self.state.lock().chunks.range(at..).next().map_or(u64::MAX, |(start, _)| *start);
            let many = rest.len().min(usize::try_from(next - at).unwrap_or(usize::MAX));
            let got = self.file.read(tracer, &mut rest[..many], at, self.known_size)?;
            self.miss_bytes.fetch_add(got as u64, Ordering::Relaxed);
            have += got;
            if let Some(size) = &mut self.state.lock().size_bytes {
                // The file may have grown.
                *size = at.saturating_add(got as u64).max(*size);
            }
            if got < many {
                break;
            }
        }
        Ok(have)
    }

    /// Frees a chunk, if it is still registered.
    fn go(&self, chunk: &Arc<Chunk>) {
        let mut state = self.state.lock();
        if state.chunks.get(&chunk.range.start).is_some_and(|there| Arc::ptr_eq(there, chunk)) {
            self.drop_chunk(&mut state, chunk.range.start);
        }
    }

    fn drop_chunk(&self, state: &mut State, start: u64) {
        let Some(chunk) = state.chunks.remove(&start) else { return };
        chunk.flow.cancel();
        let wasted = chunk.length().saturating_sub(chunk.served_bytes.load(Ordering::Relaxed));
        self.wasted_bytes.fetch_add(wasted, Ordering::Relaxed);
        if wasted > chunk.length() / 2 {
            state.streams.wasted(chunk.stream);
        }
    }

    fn drop_all(&self, state: &mut State) {
        while let Some((start, _)) = state.chunks.first_key_value() {
            let start = *start;
            self.drop_chunk(state, start);
        }
        state.streams.restart();
    }

    /// Frees the chunks of streams that no longer exist.
    fn drop_of_gone(&self, state: &mut State) {
        let gone: Vec<u64> =
            state.chunks.values().filter(|chunk| !state.streams.is_there(chunk.stream)).map(|chunk| chunk.range.start).collect();
        for start in gone {
            self.drop_chunk(state, start);
        }
    }

    fn forget_idle(&self, age: Duration, now: Instant) {
        let Some(mut state) = self.state.try_lock() else { return };
        if now.saturating_duration_since(state.last_read) >= age && !state.chunks.is_empty() {
            self.drop_all(&mut state);
        }
    }
}

/// Returns the prefix of a range that is already covered, up to the end of the chunk with its first byte. A chunk that begins within the
/// range counts too, since chunks must not overlap.
fn there(chunks: &BTreeMap<u64, Arc<Chunk>>, range: &Range<u64>) -> Option<Range<u64>> {
    let (_, last) = chunks.range(..range.end).next_back()?;
    (last.range.end > range.start).then(|| last.range.clone())
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        self.inner.drop_all(&mut state);
    }
}

impl Window for Inner {
    fn relieve(&self) {
        self.forget_idle(AGE / 5, Instant::now());
    }

    fn look(&self, now: Instant) {
        self.forget_idle(AGE, now);
    }
}
