//! Extracts RPC messages from a byte stream: record marks and headers; everything else is skipped unread.
//!
//! A record is one or more fragments, each preceded by a 4-byte mark with its length and whether it is the last. Only
//! the first [`HEADER_BYTES`] of a message are kept. If bytes are missing, lengths still show where the next record
//! begins, unless the mark itself is missing; then the next mark is searched for, and recognised by what follows it.
//!
//! Every byte of the stream is in a [`Message`] or in a [`Loose`] run: bytes that were sent as part of messages with
//! unknown heads.

use super::message::{self, Heading};

/// Bytes kept of a message: a call's header with maximum credentials, and the beginning of its arguments.
const HEADER_BYTES: usize = 1200;

/// Bytes needed to recognise a message.
const CHECKED_BYTES: usize = 24;

/// A longer record is taken for garbage.
const MOST_RECORD_BYTES: u64 = 256 << 20;

/// Bytes searched for a first record before the stream is taken to carry something else.
const SEARCHED_BYTES: u64 = 1 << 20;

/// A message that pauses in transit for longer is recorded in parts: nothing moved during the pause.
const PAUSE_NS: i64 = 2_000_000;

/// Maximum parts of a message; the rest is one part.
const MOST_PIECES: usize = 64;

/// A part of a message between two pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub first_ns: i64,
    pub last_ns: i64,
    pub bytes: u64,
}

/// A complete message; `heading` is its parsed head.
#[derive(Debug)]
pub(crate) struct Message {
    pub first_ns: i64,
    pub last_ns: i64,
    /// Its parts if it paused in transit; empty if it came in one piece.
    pub parts: Vec<Part>,
    /// Its start in the stream, including its mark.
    pub offset: u64,
    /// Its length, including marks.
    pub bytes: u64,
    pub heading: Heading,
}

/// Bytes of messages with unknown heads, between two pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loose {
    pub first_ns: i64,
    pub last_ns: i64,
    pub offset: u64,
    pub bytes: u64,
}

/// Maximum loose runs kept until they are taken; further bytes join the last. A run does not extend over a pause, so
/// its times show when its bytes moved.
const MOST_LOOSE: usize = 16;

/// A larger gap means another stream.
const MOST_MISSING_BYTES: u64 = 1 << 40;

#[derive(Clone, Copy, Debug)]
enum State {
    /// Reading a mark.
    Mark { have: [u8; 4], got: usize },
    /// Inside a fragment.
    Fragment { left: u64, last: bool },
    /// Synchronisation is lost.
    Lost,
}

/// The records of one direction.
#[derive(Debug)]
pub(crate) struct Records {
    state: State,
    header: Vec<u8>,
    /// The header is final: it is long enough, or bytes of it are missing.
    closed: bool,
    checked: bool,
    in_message: bool,
    first_ns: i64,
    begun: u64,
    /// Parts before the current one, and where and when the current one began and was last added to.
    parts: Vec<Part>,
    part: (u64, i64, i64),
    position: u64,
    searched: u64,
    /// Whether a message was ever seen.
    pub found: bool,
    /// Times synchronisation was lost after that.
    pub resynchronised: u64,
    /// Messages whose header was not captured.
    pub headless: u64,
    /// Bytes of messages with unknown heads, to be taken.
    loose: Vec<Loose>,
    /// When such bytes last passed.
    pub loose_ns: Option<i64>,
}

impl Records {
    /// Starts at the stream's first byte or, with `from_start` false, anywhere.
    pub(crate) fn new(from_start: bool) -> Records {
        let state = if from_start { State::Mark { have: [0; 4], got: 0 } } else { State::Lost };
        Records {
            state,
            header: Vec::new(),
            closed: false,
            checked: false,
            in_message: false,
            first_ns: 0,
            begun: 0,
            parts: Vec::new(),
            part: (0, 0, 0),
            position: 0,
            searched: 0,
            found: false,
            resynchronised: 0,
            headless: 0,
            loose: Vec::new(),
            loose_ns: None,
        }
    }

    /// Takes the loose runs except one that may still grow (with `all`: that too).
    pub(crate) fn take_loose(&mut self, all: bool) -> Vec<Loose> {
        let still_growing = usize::from(!all && self.is_lost());
        let whole = self.loose.len().saturating_sub(still_growing);
        if whole == 0 { Vec::new() } else { self.loose.drain(..whole).collect() }
    }

    /// Ends the stream: an incomplete message becomes loose bytes.
    pub(crate) fn end(&mut self) {
        let at_ns = self.part.2;
        self.loosen_message(at_ns, self.position);
    }

    /// Adds `bytes` from `offset` on as part of a message with an unknown head.
    fn loosen(&mut self, first_ns: i64, last_ns: i64, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.loose_ns = Some(last_ns);
        let full = self.loose.len() >= MOST_LOOSE;
        match self.loose.last_mut() {
            Some(run) if full || (run.offset + run.bytes == offset && last_ns.saturating_sub(run.first_ns) <= PAUSE_NS) => {
                (run.last_ns, run.bytes) = (last_ns.max(run.last_ns), run.bytes + bytes);
            }
            _ => self.loose.push(Loose { first_ns, last_ns, offset, bytes }),
        }
    }

    /// Makes the current message loose, up to the stream's position `now`.
    fn loosen_message(&mut self, at_ns: i64, now: u64) {
        if !self.in_message && !matches!(self.state, State::Mark { got: 1.., .. }) {
            return;
        }
        let mut offset = self.begun;
        for part in std::mem::take(&mut self.parts) {
            self.loosen(part.first_ns, part.last_ns, offset, part.bytes);
            offset += part.bytes;
        }
        self.loosen(self.part.1, at_ns, offset, now.saturating_sub(offset));
        self.in_message = false;
    }

    /// Consumes the next bytes of the stream, followed by `missing` uncaptured ones. `is_pending` says whether a
    /// reply with this XID is awaited; `emit` takes the messages completed by these bytes.
    pub(crate) fn feed(
        &mut self,
        at_ns: i64,
        mut data: &[u8],
        missing: u64,
        mut at_start: bool,
        is_pending: &dyn Fn(u32) -> bool,
        emit: &mut dyn FnMut(Message),
    ) {
        self.pause(at_ns);
        while !data.is_empty() {
            let before = data.len();
            data = match self.state {
                State::Mark { have, got } => self.mark(at_ns, data, have, got),
                State::Fragment { left, last } => self.fragment(at_ns, data, left, last, emit),
                State::Lost => self.search(at_ns, data, at_start, is_pending),
            };
            self.position += (before - data.len()) as u64;
            at_start = false;
        }
        self.skip(at_ns, missing, emit);
    }

    fn mark<'a>(&mut self, at_ns: i64, data: &'a [u8], mut have: [u8; 4], mut got: usize) -> &'a [u8] {
        let take = data.len().min(4 - got);
        have[got..got + take].copy_from_slice(&data[..take]);
        if got == 0 && !self.in_message {
            (self.first_ns, self.begun) = (at_ns, self.position);
            self.parts.clear();
            self.part = (self.position, at_ns, at_ns);
        }
        got += take;
        if got < 4 {
            self.state = State::Mark { have, got };
            return &data[take..];
        }
        let mark = u32::from_be_bytes(have);
        let (left, last) = (u64::from(mark & 0x7fff_ffff), mark >> 31 == 1);
        if (left < 8 && !self.in_message) || left == 0 || left > MOST_RECORD_BYTES {
            self.in_message = true;
            self.lose(at_ns, self.position + take as u64);
            return &data[take..];
        }
        if !self.in_message {
            self.header.clear();
            (self.in_message, self.closed, self.checked) = (true, false, false);
        }
        self.state = State::Fragment { left, last };
        &data[take..]
    }

    fn fragment<'a>(&mut self, at_ns: i64, data: &'a [u8], left: u64, last: bool, emit: &mut dyn FnMut(Message)) -> &'a [u8] {
        let take = data.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if !self.closed {
            let keep = take.min(HEADER_BYTES - self.header.len());
            self.header.extend_from_slice(&data[..keep]);
            self.closed = self.header.len() == HEADER_BYTES;
            if !self.checked && (self.header.len() >= CHECKED_BYTES || (last && take as u64 == left)) {
                self.checked = true;
                if !message::plausible(&self.header) {
                    self.lose(at_ns, self.position + take as u64);
                    return &data[take..];
                }
            }
        }
        self.passed(at_ns, take as u64, left, last, self.position + take as u64, emit);
        &data[take..]
    }

    /// Handles `count` bytes of a fragment with `left` remaining, up to the stream's position `now`.
    fn passed(&mut self, at_ns: i64, count: u64, left: u64, last: bool, now: u64, emit: &mut dyn FnMut(Message)) {
        self.state = match (left - count, last) {
            (0, false) => State::Mark { have: [0; 4], got: 0 },
            (0, true) => {
                match message::parse(&self.header) {
                    Some(heading) => {
                        self.found = true;
                        let parts = self.take_parts(at_ns, now);
                        let (first_ns, offset) = (self.first_ns, self.begun);
                        emit(Message { first_ns, last_ns: at_ns, parts, offset, bytes: now - offset, heading });
                    }
                    None => {
                        self.headless += 1;
                        self.loosen_message(at_ns, now);
                    }
                }
                self.in_message = false;
                State::Mark { have: [0; 4], got: 0 }
            }
            (left, last) => State::Fragment { left, last },
        };
    }

    /// Notes a pause within a message, if there was one.
    fn pause(&mut self, at_ns: i64) {
        let begun = self.in_message || matches!(self.state, State::Mark { got: 1.., .. });
        let (from, first_ns, last_ns) = self.part;
        if begun && at_ns.saturating_sub(last_ns) > PAUSE_NS && self.parts.len() < MOST_PIECES && self.position > from {
            self.parts.push(Part { first_ns, last_ns, bytes: self.position - from });
            self.part = (self.position, at_ns, at_ns);
        }
        self.part.2 = at_ns;
    }

    /// Takes the parts of the message that ends at the stream's position `now`.
    fn take_parts(&mut self, at_ns: i64, now: u64) -> Vec<Part> {
        if self.parts.is_empty() {
            return Vec::new();
        }
        let (from, first_ns, _) = self.part;
        self.parts.push(Part { first_ns, last_ns: at_ns, bytes: now.saturating_sub(from) });
        std::mem::take(&mut self.parts)
    }

    /// Skips bytes that were sent but not captured.
    fn skip(&mut self, at_ns: i64, missing: u64, emit: &mut dyn FnMut(Message)) {
        if missing == 0 {
            return;
        }
        if missing >= MOST_MISSING_BYTES {
            return self.lose(at_ns, self.position);
        }
        let mut rest = missing;
        if let State::Fragment { left, last } = self.state {
            let count = left.min(missing);
            self.closed = true;
            self.passed(at_ns, count, left, last, self.position + count, emit);
            rest -= count;
        }
        self.position += missing;
        if rest > 0 {
            let from = self.position - rest;
            self.lose(at_ns, from);
            self.loosen(at_ns, at_ns, from, rest);
        }
    }

    /// Whether synchronisation is lost.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost)
    }

    /// Returns how often messages were missed.
    pub(crate) fn missed(&self) -> u64 {
        self.resynchronised + self.headless
    }

    /// Loses synchronisation at the stream's position `now`, along with the current message.
    fn lose(&mut self, at_ns: i64, now: u64) {
        if self.found && !matches!(self.state, State::Lost) {
            self.resynchronised += 1;
        }
        self.loosen_message(at_ns, now);
        self.state = State::Lost;
    }

    fn search<'a>(&mut self, at_ns: i64, data: &'a [u8], at_start: bool, is_pending: &dyn Fn(u32) -> bool) -> &'a [u8] {
        let given_up = !self.found && self.searched > SEARCHED_BYTES;
        self.searched += data.len() as u64;
        let places = if given_up { usize::from(at_start) } else { data.len().saturating_sub(3 * 4) };
        for at in 0..places {
            if message::begins_record(&data[at..], at_start && at == 0, is_pending) {
                self.state = State::Mark { have: [0; 4], got: 0 };
                self.in_message = false;
                self.loosen(at_ns, at_ns, self.position, at as u64);
                return &data[at..];
            }
        }
        self.loosen(at_ns, at_ns, self.position, data.len() as u64);
        &data[data.len()..]
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::made::{call, reply};
    use super::*;
    use proptest::prelude::*;

    fn record(body: &[u8], cuts: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut at = 0;
        for cut in cuts.iter().copied().chain([body.len()]) {
            let to = (at + cut).min(body.len());
            let last = u32::from(to == body.len()) << 31;
            if to > at {
                out.extend_from_slice(&(last | (to - at) as u32).to_be_bytes());
                out.extend_from_slice(&body[at..to]);
            }
            at = to;
        }
        out
    }

    fn fed(records: &mut Records, pieces: &[(&[u8], u64)]) -> Vec<(u32, u64, u64)> {
        let mut seen = Vec::new();
        for (i, (data, missing)) in pieces.iter().enumerate() {
            records.feed(i as i64, data, *missing, true, &|_| false, &mut |m| seen.push((m.heading.xid(), m.offset, m.bytes)));
        }
        seen
    }

    proptest! {
        #[test]
        fn messages_are_found_however_they_are_cut(sizes in prop::collection::vec((0_usize..3000, 30_usize..900), 1..12), step in 1_usize..2000) {
            let (mut bytes, mut wanted) = (Vec::new(), Vec::new());
            for (i, (payload, fragment)) in sizes.iter().enumerate() {
                let record = record(&call(i as u32 + 1, 100_003, 3, 7, *payload), &[*fragment; 4]);
                wanted.push((i as u32 + 1, bytes.len() as u64, record.len() as u64));
                bytes.extend_from_slice(&record);
            }
            let mut records = Records::new(true);
            let pieces: Vec<(&[u8], u64)> = bytes.chunks(step).map(|c| (c, 0)).collect();
            prop_assert_eq!(fed(&mut records, &pieces), wanted);
            prop_assert_eq!(records.resynchronised, 0);
        }
    }

    #[test]
    fn missing_payload_is_counted_and_a_missing_mark_is_found_again() {
        let one = record(&call(1, 100_003, 3, 7, 5000), &[]);
        let two = record(&call(2, 100_003, 3, 7, 100), &[]);
        let mut records = Records::new(true);
        // The first message's tail is missing: the second is found at its computed position.
        let missing = one.len() as u64 - 200;
        assert_eq!(fed(&mut records, &[(&one[..200], missing), (&two, 0)]).len(), 2);
        assert_eq!(records.resynchronised, 0);
        // The tail of one message and the mark of the next are missing: the one after that is found.
        let seen = fed(&mut records, &[(&one[..200], missing + 10), (&two[10..], 0), (&two, 0)]);
        assert_eq!(seen.iter().map(|s| s.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(records.resynchronised, 1);
    }

    #[test]
    fn a_message_that_pauses_is_recorded_in_its_parts() {
        let bytes = record(&call(1, 100_003, 3, 7, 5000), &[]);
        let mut records = Records::new(true);
        let mut seen = Vec::new();
        let mut feed = |at_ms: i64, from: usize, to: usize| {
            records.feed(at_ms * 1_000_000, &bytes[from..to], 0, false, &|_| false, &mut |m| seen.push(m));
        };
        feed(0, 0, 2);
        feed(1, 2, 1000);
        feed(50, 1000, 2000);
        feed(51, 2000, 3000);
        feed(90, 3000, bytes.len());
        feed(200, 0, 100);
        let of = |first: i64, last: i64, bytes: u64| Part { first_ns: first * 1_000_000, last_ns: last * 1_000_000, bytes };
        assert_eq!(seen[0].parts, [of(0, 1, 1000), of(50, 51, 2000), of(90, 90, bytes.len() as u64 - 3000)]);
    }

    #[test]
    fn a_stream_seen_from_the_middle_is_joined_and_another_protocol_is_left() {
        let mut bytes = vec![7; 100];
        bytes.extend(record(&call(5, 100_003, 3, 1, 10), &[]));
        bytes.extend(record(&reply(6, 0, 40), &[]));
        let mut records = Records::new(false);
        assert_eq!(fed(&mut records, &[(&bytes, 0)]).iter().map(|s| s.0).collect::<Vec<_>>(), [5, 6]);
        let mut other = Records::new(true);
        let text = b"GET / HTTP/1.1\r\n".repeat(1000);
        assert!(fed(&mut other, &vec![(&text[..], 0); 300]).is_empty());
        assert!(!other.found && other.searched > SEARCHED_BYTES);
    }
}
