//! Name lookups, their servers and results (RFC 1035): marks on the requesting thread, whose object is the name as
//! requested from that server.
//!
//! Of each message the first question and the outcome are stored, and nothing else: no addresses, no other records. A
//! requested name is treated like the path of a file. Requests that a local resolver forwards are recorded in the
//! resolver's thread.

use super::output::Output;
use crate::bpf::raw::QuestionHead;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use thalweg_trace::{MarkKind, ObjectId, ObjectKind, TrackId, lookup};

/// Bound: distinct names, and unanswered questions.
const MOST_NAMES: usize = 4_096;
const MOST_WAITING: usize = 1_024;

/// If one call sends several messages, the reader gets the first two with each: repeats within this time are one.
const ONE_CALL_NS: u64 = 20_000_000;

/// Size of a message's header.
const HEADER_BYTES: usize = 12;
/// Bits of its flags: it is an answer; it was truncated.
const IS_ANSWER: u16 = 0x8000;
const WAS_CUT: u16 = 0x0200;

/// A parsed message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    id: u16,
    name: String,
    kind: u16,
    /// The outcome, for an answer.
    outcome: Option<i64>,
}

/// An unanswered question.
#[derive(Clone, Debug)]
struct Waiting {
    inode: u64,
    message: Message,
    at_ns: u64,
    track: TrackId,
    object: ObjectId,
}

/// All lookups.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    names: HashMap<(SocketAddr, String), ObjectId>,
    waiting: VecDeque<Waiting>,
}

impl Message {
    /// Parses a message's first question and outcome; over TCP its length may precede it.
    fn parse(bytes: &[u8]) -> Option<Message> {
        let lengthened = bytes.get(2..).filter(|rest| bytes.len() > 2 && usize::from(number(bytes, 0).unwrap_or(0)) >= rest.len());
        Message::of(bytes).or_else(|| Message::of(lengthened?))
    }

    fn of(bytes: &[u8]) -> Option<Message> {
        let (flags, questions, answers) = (number(bytes, 2)?, number(bytes, 4)?, number(bytes, 6)?);
        // Operations other than a query, and bits that must be 0.
        if flags & 0x7840 != 0 || questions == 0 || questions > 16 {
            return None;
        }
        let (mut at, mut labels) = (HEADER_BYTES, Vec::new());
        loop {
            let length = usize::from(*bytes.get(at)?);
            at += 1;
            match length {
                0 => break,
                1..=63 => labels.push(label(bytes.get(at..at + length)?)?),
                _ => return None,
            }
            at += length;
        }
        let kind = number(bytes, at)?;
        let outcome = match flags & 0xf {
            _ if flags & IS_ANSWER == 0 => None,
            _ if flags & WAS_CUT != 0 => Some(lookup::CUT),
            0 if answers == 0 => Some(lookup::NO_RECORD),
            code => Some(i64::from(code)),
        };
        let name = if labels.is_empty() { ".".to_owned() } else { labels.join(".").to_ascii_lowercase() };
        Some(Message { id: number(bytes, 0)?, name, kind, outcome })
    }

    fn is_about(&self, other: &Message) -> bool {
        (self.id, self.kind) == (other.id, other.kind) && self.name == other.name
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Parses a label, if a person may have written it.
fn label(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|label| label.chars().all(|c| !c.is_control() && !c.is_whitespace()))
}

impl Lookups {
    /// Handles a message that the thread of `track` sent or received.
    pub(super) fn message(&mut self, head: &QuestionHead, bytes: &[u8], track: Option<TrackId>, output: &mut Output) {
        let Some(track) = track else { return };
        let message = Message::parse(bytes);
        match (head.direction, message) {
            (0, Some(message)) if message.outcome.is_none() => self.asked(head, message, track, output),
            (1, Some(message)) if message.outcome.is_some() => self.answered(head, &message, output),
            // No process listens there.
            (_, None) if head.result == -libc::ECONNREFUSED => self.refused(head, output),
            _ => {}
        }
    }

    fn asked(&mut self, head: &QuestionHead, message: Message, track: TrackId, output: &mut Output) {
        let (inode, at_ns) = (head.inode, head.head.at_ns);
        let is_it =
            |known: &&Waiting| known.inode == inode && known.message.is_about(&message) && at_ns - known.at_ns.min(at_ns) < ONE_CALL_NS;
        if self.waiting.iter().rev().find(is_it).is_some() {
            return;
        }
        let address = Ipv6Addr::from(head.address);
        let server = SocketAddr::new(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4), head.port);
        let key = (server, message.name.clone());
        if self.names.len() >= MOST_NAMES && !self.names.contains_key(&key) {
            return;
        }
        let object = *self.names.entry(key).or_insert_with(|| {
            let object = output.object_id();
            output.object(object, ObjectKind::Name, &message.name, &[("server", &server.to_string())]);
            object
        });
        output.mark(track, MarkKind::NameAsked, at_ns, Some(object), Some(i64::from(message.kind)));
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Waiting { inode, message, at_ns, track, object });
    }

    /// Matches an answer with the latest question it may belong to.
    fn answered(&mut self, head: &QuestionHead, message: &Message, output: &mut Output) {
        let is_for = |waiting: &Waiting| waiting.inode == head.inode && waiting.message.is_about(message);
        if let Some(waiting) = self.waiting.iter().rposition(is_for).and_then(|at| self.waiting.remove(at)) {
            output.mark(waiting.track, MarkKind::NameAnswered, head.head.at_ns, Some(waiting.object), message.outcome);
        }
    }

    fn refused(&mut self, head: &QuestionHead, output: &mut Output) {
        while let Some(at) = self.waiting.iter().rposition(|waiting| waiting.inode == head.inode) {
            let Some(waiting) = self.waiting.remove(at) else { return };
            output.mark(waiting.track, MarkKind::NameAnswered, head.head.at_ns, Some(waiting.object), Some(lookup::NOBODY_LISTENS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a message about `name` of a type, with these flags and this many answers.
    fn message(id: u16, flags: u16, answers: u16, name: &str, kind: u16) -> Vec<u8> {
        let mut bytes: Vec<u8> = [id, flags, 1, answers, 0, 0].into_iter().flat_map(u16::to_be_bytes).collect();
        for label in name.split('.') {
            bytes.push(label.len() as u8);
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend(1_u16.to_be_bytes());
        bytes
    }

    #[test]
    fn of_a_message_the_first_question_and_the_outcome_are_taken() {
        let of = |bytes: &[u8]| Message::parse(bytes).map(|message| (message.name, message.kind, message.outcome));
        let known = |outcome| Some(("db.a.example".to_owned(), 28, outcome));
        assert_eq!(of(&message(7, 0x0100, 0, "db.A.example", 28)), known(None));
        assert_eq!(of(&message(7, 0x8183, 0, "db.a.example", 28)), known(Some(3)));
        assert_eq!(of(&message(7, 0x8180, 0, "db.a.example", 28)), known(Some(lookup::NO_RECORD)));
        assert_eq!(of(&message(7, 0x8180, 2, "db.a.example", 28)), known(Some(0)));
        assert_eq!(of(&message(7, 0x8380, 0, "db.a.example", 28)), known(Some(lookup::CUT)));
        let within = message(7, 0x0100, 0, "db.a.example", 28);
        let over_tcp: Vec<u8> = (within.len() as u16).to_be_bytes().into_iter().chain(within.clone()).collect();
        assert_eq!(of(&over_tcp), known(None));
        assert_eq!(of(&within[..within.len() - 6]), None, "cut off within the name");
        assert_eq!(of(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_message_makes_it_fail(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let _ = Message::parse(&bytes);
        }
    }
}
