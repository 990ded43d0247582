//! Detects streams among a file's reads and predicts the next read; arithmetic only.

use std::collections::VecDeque;
use std::ops::Range;

/// Bound: streams per file; with more, the least recently read one is dropped.
const STREAMS: usize = 8;
/// Bound: reads remembered that belong to no stream.
const RECENT: usize = 16;
/// A first read at offset 0 of at least this many bytes begins a stream.
const FROM_BEGINNING_BYTES: u64 = 64 << 10;
/// Initial window of a stream.
const FIRST_WINDOW_BYTES: u64 = 1 << 20;
/// How far requests of one stream may be out of order.
const SLACK_BYTES: u64 = 4 << 20;
/// Bound: pieces a strided stream prefetches.
const PIECES: u64 = 32;

/// The streams of one file.
pub(in crate::files) struct Streams {
    streams: Vec<Stream>,
    recent: VecDeque<(u64, u64)>,
    most_window_bytes: u64,
    last_number: u64,
    /// Number of reads so far.
    now: u64,
}

/// A sequence of reads.
struct Stream {
    number: u64,
    /// Expected offset of the next read.
    next: u64,
    /// End of the data requested so far.
    ahead_to: u64,
    window_bytes: u64,
    /// Length and distance of strided reads; `None`: reads are contiguous.
    stride: Option<(u64, u64)>,
    last_read: u64,
}

/// A part of the file that a stream needs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::files) struct Wish {
    pub range: Range<u64>,
    pub stream: u64,
}

impl Streams {
    /// Starts without streams; windows are at most `most_window_bytes`.
    pub(super) fn new(most_window_bytes: u64) -> Streams {
        Streams { streams: Vec::new(), recent: VecDeque::new(), most_window_bytes, last_number: 0, now: 0 }
    }

    /// Records a read; returns its stream.
    pub(super) fn notice(&mut self, offset: u64, length: u64) -> Option<u64> {
        self.now += 1;
        let end = offset.saturating_add(length);
        let now = self.now;
        let near = |stream: &Stream| stream.next.abs_diff(offset);
        let found = self.streams.iter_mut().filter(|stream| stream.takes(offset, length)).min_by_key(|stream| near(stream));
        if let Some(stream) = found {
            stream.last_read = now;
            stream.next = stream.next.max(stream.stride.map_or(end, |(distance, _)| offset.saturating_add(distance)));
            return Some(stream.number);
        }
        let begun = self.begins(offset, length);
        self.recent.push_back((offset, length));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        let (next, stride) = begun?;
        if self.streams.len() >= STREAMS
            && let Some(oldest) = (0..self.streams.len()).min_by_key(|n| self.streams[*n].last_read)
        {
            self.streams.swap_remove(oldest);
        }
        self.last_number += 1;
        self.streams.push(Stream {
            number: self.last_number,
            next,
            ahead_to: next,
            window_bytes: FIRST_WINDOW_BYTES.max(2 * length).min(self.most_window_bytes),
            stride,
            last_read: now,
        });
        Some(self.last_number)
    }

    /// Whether a read begins a stream: the next expected offset and, if strided, length and distance.
    fn begins(&self, offset: u64, length: u64) -> Option<(u64, Option<(u64, u64)>)> {
        let end = offset.saturating_add(length);
        let follows = self.recent.iter().any(|(before, many)| before.checked_add(*many) == Some(offset));
        if length > 0 && (follows || (offset == 0 && length >= FROM_BEGINNING_BYTES)) {
            return Some((end, None));
        }
        let is_there = |at: u64| self.recent.contains(&(at, length));
        let mut distances = self.recent.iter().filter(|(_, many)| *many == length).filter_map(|(before, _)| offset.checked_sub(*before));
        let distance =
            distances.find(|d| *d > length && length > 0 && d.checked_mul(2).is_some_and(|two| two <= offset && is_there(offset - two)))?;
        Some((offset.saturating_add(distance), Some((distance, length))))
    }

    /// Returns what a stream needs next of a file of `size` bytes, in chunks that end at multiples of their size, at most `chunk_bytes`;
    /// `None`: enough is in flight.
    pub(super) fn wish(&self, stream: u64, chunk_bytes: u64, size: u64) -> Option<Wish> {
        let stream = self.streams.iter().find(|s| s.number == stream)?;
        let from = stream.ahead_to.max(stream.next);
        let wish = |range: Range<u64>| (!range.is_empty()).then_some(Wish { range, stream: stream.number });
        if let Some((distance, length)) = stream.stride {
            let pieces = (stream.window_bytes / length).clamp(1, PIECES);
            let is_far = from - stream.next >= pieces.saturating_mul(distance);
            // A piece longer than a chunk is not prefetched: it is a large read, which gains nothing from being in memory.
            return if is_far || length > chunk_bytes { None } else { wish(from..from.saturating_add(length).min(size)) };
        }
        if from - stream.next >= stream.window_bytes {
            return None;
        }
        let piece = (stream.window_bytes / 2).clamp(1, chunk_bytes).next_power_of_two().min(chunk_bytes);
        let end = (from / piece + 1).saturating_mul(piece);
        // Avoid splinters: merge the rest of this piece with the next full one.
        let end = if end - from < piece / 2 && end - from + piece <= chunk_bytes { end + piece } else { end };
        wish(from..end.min(size))
    }

    /// Records that a stream's wish was requested.
    pub(super) fn granted(&mut self, stream: u64, range: Range<u64>) {
        if let Some(stream) = self.streams.iter_mut().find(|s| s.number == stream) {
            stream.ahead_to = match stream.stride {
                Some((distance, _)) => {
                    let mut next = range.start.saturating_add(distance);
                    // Skip what was already covered.
                    while next < range.end {
                        next = next.saturating_add(distance);
                    }
                    next
                }
                None => range.end.max(stream.ahead_to),
            };
        }
    }

    /// Grows the stream's window: a reader had to wait for a chunk.
    pub(super) fn waited(&mut self, stream: u64) {
        let most = self.most_window_bytes;
        if let Some(stream) = self.streams.iter_mut().find(|s| s.number == stream) {
            stream.window_bytes = (stream.window_bytes * 2).min(most);
        }
    }

    /// Shrinks the stream's window: a chunk was evicted unread.
    pub(super) fn wasted(&mut self, stream: u64) {
        if let Some(stream) = self.streams.iter_mut().find(|s| s.number == stream) {
            stream.window_bytes = (stream.window_bytes / 2).max(FIRST_WINDOW_BYTES.min(self.most_window_bytes));
        }
    }

    /// Whether the stream still exists.
    pub(super) fn is_there(&self, stream: u64) -> bool {
        self.streams.iter().any(|s| s.number == stream)
    }

    /// Records that nothing is in flight any more.
    pub(super) fn restart(&mut self) {
        self.streams.clear();
        self.recent.clear();
    }
}

impl Stream {
    /// Whether a read belongs to the stream. Requests of several threads may be out of order.
    fn takes(&self, offset: u64, length: u64) -> bool {
        match self.stride {
            Some((distance, many)) => {
                let apart = self.next.abs_diff(offset);
                many == length && apart.is_multiple_of(distance) && apart / distance <= PIECES / 2
            }
            None => self.next.abs_diff(offset) <= SLACK_BYTES.min(self.window_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 30;
    const CHUNK: u64 = 4 << 20;

    /// Grants and returns everything a stream wishes for now.
    fn wishes(streams: &mut Streams, stream: u64) -> Vec<Range<u64>> {
        let mut all = Vec::new();
        while let Some(wish) = streams.wish(stream, CHUNK, SIZE) {
            streams.granted(stream, wish.range.clone());
            all.push(wish.range);
        }
        all
    }

    #[test]
    fn the_second_read_in_order_begins_a_stream_and_its_window_grows_while_readers_wait() {
        let mut streams = Streams::new(16 << 20);
        assert_eq!(streams.notice(0, 4096), None);
        let stream = streams.notice(4096, 4096).unwrap();
        let first = wishes(&mut streams, stream);
        assert_eq!(first[0].start, 8192);
        assert!(first.windows(2).all(|w| w[0].end == w[1].start), "{first:?}");
        let ahead = |all: &[Range<u64>]| all.last().unwrap().end - 8192;
        assert!(ahead(&first) >= FIRST_WINDOW_BYTES);
        for _ in 0..10 {
            streams.waited(stream);
        }
        let more = wishes(&mut streams, stream);
        assert!((16 << 20..=(16 << 20) + CHUNK).contains(&ahead(&more)), "{more:?}");
        assert!(more[1..].iter().all(|r| r.end.is_multiple_of(CHUNK)), "{more:?}");
    }

    #[test]
    fn interleaved_streams_are_distinguished_and_overtaking_requests_are_not() {
        let mut streams = Streams::new(16 << 20);
        let (far, step) = (500 << 20, 128 << 10);
        let mut numbers = (None, None);
        for n in 0..8_u64 {
            let one = streams.notice(n * step, step);
            let other = streams.notice(far + n * step, step);
            if n > 1 {
                assert_eq!((one, other), numbers);
                assert_ne!(one, other);
            }
            numbers = (one, other);
        }
        let mixed = [9, 8, 11, 10].map(|n: u64| streams.notice(n * step, step));
        assert!(mixed.iter().all(|s| *s == numbers.0), "{mixed:?}");
    }

    #[test]
    fn reads_at_a_distance_are_followed_and_only_their_bytes_are_wished_for() {
        let mut streams = Streams::new(16 << 20);
        let (length, distance) = (8192, 1 << 20);
        assert_eq!(streams.notice(5 * distance, length), None);
        assert_eq!(streams.notice(6 * distance, length), None);
        let stream = streams.notice(7 * distance, length).unwrap();
        let all = wishes(&mut streams, stream);
        assert_eq!(all.len() as u64, PIECES);
        for (n, range) in (8..).zip(all) {
            assert_eq!(range, n * distance..n * distance + length);
        }
        assert_eq!(streams.notice(8 * distance, length), Some(stream));
        assert_eq!(wishes(&mut streams, stream), std::slice::from_ref(&(40 * distance..40 * distance + length)));
    }

    #[test]
    fn random_reads_begin_nothing() {
        let mut streams = Streams::new(16 << 20);
        let mut at = 12345_u64;
        for _ in 0..1000 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            assert_eq!(streams.notice(8192 + (at >> 20), 4096), None);
        }
    }

    #[test]
    fn nothing_is_wished_for_past_the_end() {
        let mut streams = Streams::new(16 << 20);
        let stream = streams.notice(0, 1 << 20).unwrap();
        let mut end = 0;
        while let Some(wish) = streams.wish(stream, CHUNK, (1 << 20) + 100) {
            end = wish.range.end;
            streams.granted(stream, wish.range);
        }
        assert_eq!(end, (1 << 20) + 100);
    }
}
