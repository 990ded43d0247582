//! Read-ahead: what will be asked for is on its way before it is.
//!
//! Reads are sorted into *streams*: a read that begins where another ended (or near it: several threads may read one file in
//! turns, and their requests overtake each other), or that follows two others of its length at their distance. Several streams of
//! one file may be interleaved. What fits no stream is read as asked for, and nothing more.
//!
//! A stream has a window: so many bytes ahead of its last read are in memory or on their way, in chunks that the connections'
//! threads fill. It begins small, doubles each time the reader finds a chunk that is still on its way (the reader is faster than
//! the window is long), and is halved when a chunk goes that nobody had asked for. A chunk goes when all of it was read.
//!
//! **The end of the file** is asked for once, when the first stream begins, unless the owner knows it; nothing is fetched
//! beyond it. A chunk in which a datafile came short has a hole in it, or the file was cut off meanwhile: it is not
//! used, and what was asked for is read anew, by [`StoreFile::read`], which finds out. So a window never decides where a file ends.
//!
//! **What is in memory may be old** when somebody else has written. A caller that needs it newer forgets it: after own writes, after a
//! truncation, when opening.
//!
//! Memory is of the budget that all windows share ([`crate::files::budget`]); when there is none, nothing is fetched ahead.

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

/// What nobody has asked for so long is forgotten.
const AGE: Duration = Duration::from_secs(5);
/// The smallest piece of memory for a chunk.
const SMALLEST_BYTES: u64 = 64 << 10;

/// How a file is read ahead.
#[derive(Clone, Default)]
pub struct AheadOptions {
    /// Bytes ahead of each stream, at most. `None`: chosen by where the servers are.
    pub window_bytes: Option<u64>,
    /// The file's size, if the owner knows it and nothing changes it: then reads end there, and nobody else is asked.
    pub size_bytes: Option<u64>,
    /// Where the file's own writes are: what is not on servers yet is not fetched from them.
    pub behind: Option<Arc<WriteBehind>>,
}

/// What read-ahead was good for, in bytes, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadCounters {
    /// Asked for, and in memory or on their way.
    pub hit_bytes: u64,
    /// Asked for, and read then.
    pub miss_bytes: u64,
    /// Fetched and never asked for.
    pub wasted_bytes: u64,
}

/// One open file's read-ahead. May be used by several threads at a time.
pub struct ReadAhead {
    inner: Arc<Inner>,
}

struct Inner {
    file: Arc<StoreFile>,
    behind: Option<Arc<WriteBehind>>,
    /// The file's size, where the owner answers for it.
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
    /// In memory or on their way, by their start; none overlaps another.
    chunks: BTreeMap<u64, Arc<Chunk>>,
    /// Nothing is fetched beyond it.
    size_bytes: Option<u64>,
    last_read: Instant,
}

/// A part of the file, fetched ahead.
struct Chunk {
    range: Range<u64>,
    memory: Arc<RequestMemory>,
    flow: Arc<Flow>,
    /// Bytes of it that were asked for. (One asked for twice counts twice: the chunk goes early, and nothing is wrong.)
    served_bytes: AtomicU64,
    stream: u64,
}

/// Bytes of a file.
pub struct View(Inside);

enum Inside {
    /// Part of a chunk that has arrived: from here on nobody writes to it.
    Chunk(Arc<Chunk>, Range<usize>),
    Own(Vec<u8>),
}

impl Deref for View {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: its flow has ended, so no thread writes the memory; the chunk keeps it alive.
            Inside::Chunk(chunk, range) => unsafe { chunk.memory.part(range.clone()) },
            Inside::Own(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for View {
    fn from(bytes: Vec<u8>) -> View {
        View(Inside::Own(bytes))
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View({} bytes)", self.len())
    }
}

impl ReadAhead {
    /// Reads ahead in this file.
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

    /// The file.
    pub fn file(&self) -> &Arc<StoreFile> {
        &self.inner.file
    }

    /// Reads `buffer` full from `offset` on, or up to the end of the file; how many bytes there were.
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

    /// The same bytes where they are, if they are in memory in one piece; fewer than asked for only at the end of the file.
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
                View(Inside::Own(bytes))
            }
        };
        let about = SpanFields { offset_bytes: Some(offset), size_bytes: Some(view.len() as u64), ..SpanFields::default() };
        tracer.end(whole, SpanKind::AppRequest, about);
        Ok(view)
    }

    /// What is in memory of this range is of no more use: it was written.
    pub fn forget(&self, range: &Range<u64>) {
        let mut state = self.inner.state.lock();
        let stale: Vec<u64> =
            state.chunks.values().filter(|c| !overlap(&c.range, range).is_empty()).map(|chunk| chunk.range.start).collect();
        for start in stale {
            self.inner.drop_chunk(&mut state, start);
        }
        state.size_bytes = state.size_bytes.filter(|size| range.end <= *size);
    }

    /// Nothing in memory is of any more use.
    pub fn forget_all(&self) {
        let mut state = self.inner.state.lock();
        self.inner.drop_all(&mut state);
        state.size_bytes = self.inner.known_size;
    }

    /// What it was good for.
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
    /// Sorts a read into a stream, and sends for what that stream will need.
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

    /// A new chunk, and what the connections' threads are to be asked for it. `None`: it has bytes that are not on servers yet.
    fn send_for(&self, state: &mut State, wish: &Wish, memory: Arc<RequestMemory>) -> Option<(Arc<Flow>, Vec<Sent>)> {
        let file = &self.file;
        // A file whose targets are not in the map cannot be read: a reader of these bytes gets the error.
        let tasks = spread(file.data(), file.handle(), std::slice::from_ref(&wish.range)).ok().filter(|tasks| !tasks.is_empty())?;
        let moving = Moving {
            file: Arc::clone(file.handle()),
            endpoint: Endpoint::ToMemory(Arc::clone(&memory), wish.range.start),
            durability: Durability::Returned,
            verifiers: Arc::clone(file.verifiers()),
            // Nobody has asked for it yet; who does will be seen to wait for the thread that fetches it.
            request: None,
            moved_bytes: Arc::clone(&file.data().live().moved_bytes),
        };
        let flow = Flow::new(moving, tasks.len());
        let (range, stream, served_bytes) = (wish.range.clone(), wish.stream, AtomicU64::new(0));
        let chunk = Chunk { range: range.clone(), memory, flow: Arc::clone(&flow), served_bytes, stream };
        state.chunks.insert(range.start, Arc::new(chunk));
        // Looked at only now: a writer from here on finds the chunk, and makes us forget it.
        if self.behind.as_ref().is_some_and(|behind| behind.is_dirty(&range)) {
            state.chunks.remove(&range.start);
            return None;
        }
        Some((flow, tasks))
    }

    /// The chunk with the byte at `offset` when it has arrived; `None`: there is none, or it is of no use.
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

    /// Part of a chunk was read; when that was all of it, it goes.
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

    /// All of the range out of one chunk.
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
        Some(View(Inside::Chunk(chunk, from..from + length as usize)))
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
                // SAFETY: the chunk has arrived: nobody writes to its memory any more.
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
                // It may have grown.
                *size = at.saturating_add(got as u64).max(*size);
            }
            if got < many {
                break;
            }
        }
        Ok(have)
    }

    /// A chunk goes, if it is still there.
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

    /// Chunks of streams that are no more.
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

/// The part of a range's beginning that is there already: up to where the chunk with its first byte ends. Chunks within the
/// range count too, since none may overlap another.
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
