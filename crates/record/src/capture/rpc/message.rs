//! Headers of ONC RPC messages (RFC 5531), and of NFSv4 compounds inside them.

use super::procedures::{self, Procedure};

/// A parsed message head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    Call { xid: u32, procedure: Procedure },
    Reply { xid: u32, outcome: Outcome },
}

impl Heading {
    #[cfg(test)]
    pub(crate) fn xid(&self) -> u32 {
        match self {
            Heading::Call { xid, .. } | Heading::Reply { xid, .. } => *xid,
        }
    }
}

/// The server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The call was executed; the first word of its results, which for NFS and MOUNT is the status.
    Done(Option<u32>),
    /// The RPC layer rejected the call.
    Refused,
}

/// Maximum size of credentials or a verifier.
const MOST_AUTHENTICATION_BYTES: u32 = 400;

/// RPCSEC_GSS, which may add integrity and privacy.
const GSS: u32 = 6;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

/// Whether a program number is in a valid range: registered, local or transient.
fn is_program(program: u32) -> bool {
    matches!(program, 100_000..=100_999 | 150_000..=400_999 | 0x2000_0000..=0x5fff_ffff)
}

/// Whether `header` can be the beginning of a message; a short one is checked as far as it goes.
pub(crate) fn plausible(header: &[u8]) -> bool {
    match word(header, 4) {
        Some(0) => word(header, 8).is_none_or(|v| v == 2) && word(header, 12).is_none_or(|p| p > 0) && header.len() >= CALL_BYTES,
        Some(1) => word(header, 8).is_some_and(|state| state <= 1),
        _ => false,
    }
}

const CALL_BYTES: usize = 24;

/// Whether a record mark begins `data`, judging by what follows it. In the middle of other bytes, a reply is accepted
/// only if its call is pending.
pub(crate) fn begins_record(data: &[u8], at_start: bool, is_pending: &dyn Fn(u32) -> bool) -> bool {
    let Some(kind) = word(data, 8) else { return false };
    if kind > 1 {
        return false;
    }
    let length = word(data, 0).unwrap_or(0) & 0x7fff_ffff;
    if !(20..=64 << 20).contains(&length) {
        return false;
    }
    if kind == 0 {
        let is = |at, check: &dyn Fn(u32) -> bool| word(data, at).is_some_and(check);
        return is(12, &|v| v == 2) && is(16, &is_program) && is(20, &|v| v <= 64) && is(24, &|v| v <= 1024);
    }
    let accepted =
        word(data, 12) == Some(0) && word(data, 16).is_some_and(|flavour| flavour <= 7) && word(data, 20).is_some_and(|n| n <= 400);
    accepted && (at_start || word(data, 4).is_some_and(is_pending))
}

/// Parses the head of a message; `None` if it is incomplete or invalid.
pub(crate) fn parse(header: &[u8]) -> Option<Heading> {
    let (xid, kind) = (word(header, 0)?, word(header, 4)?);
    match kind {
        0 if word(header, 8)? == 2 => {
            let (program, version, procedure) = (word(header, 12)?, word(header, 16)?, word(header, 20)?);
            let compound = program == procedures::NFS && version == 4 && procedure == 1;
            let operation = if compound { arguments(header).and_then(main_operation).unwrap_or(0) } else { 0 };
            Some(Heading::Call { xid, procedure: Procedure { program, version, procedure, operation } })
        }
        1 => Some(Heading::Reply { xid, outcome: outcome(header)? }),
        _ => None,
    }
}

/// Parses the RPC message in a datagram, if it is one.
pub(crate) fn datagram(payload: &[u8]) -> Option<Heading> {
    if payload.len() < CALL_BYTES || !plausible(payload) {
        return None;
    }
    parse(payload)
}

/// Returns the offset after an opaque field at `at`, padded to words.
fn past_opaque(header: &[u8], at: usize, most: u32) -> Option<usize> {
    let length = word(header, at).filter(|n| *n <= most)? as usize;
    Some(at + 4 + length.next_multiple_of(4))
}

fn outcome(header: &[u8]) -> Option<Outcome> {
    if word(header, 8)? != 0 {
        return Some(Outcome::Refused);
    }
    let flavour = word(header, 12)?;
    let Some(after) = past_opaque(header, 16, MOST_AUTHENTICATION_BYTES) else { return Some(Outcome::Done(None)) };
    Some(match word(header, after) {
        // With RPCSEC_GSS the results may be wrapped: the next word is then not a status.
        Some(0) if flavour == GSS => Outcome::Done(None),
        Some(0) => Outcome::Done(word(header, after + 4)),
        Some(_) => Outcome::Refused,
        None => Outcome::Done(None),
    })
}

/// Returns a call's arguments, if they are readable.
fn arguments(header: &[u8]) -> Option<&[u8]> {
    let flavour = word(header, 24)?;
    let after = past_opaque(header, past_opaque(header, 28, MOST_AUTHENTICATION_BYTES)? + 4, MOST_AUTHENTICATION_BYTES)?;
    let wrapped = match (flavour == GSS).then(|| word(header, 44)).flatten() {
        // Credentials: version, procedure, sequence number, service. Integrity puts a length and a number before the
        // arguments.
        Some(2) => 8,
        Some(3) => return None,
        _ => 0,
    };
    header.get(after + wrapped..)
}

/// Returns a compound's main operation: the first of those with the highest weight.
fn main_operation(arguments: &[u8]) -> Option<u32> {
    let mut at = past_opaque(arguments, 0, 1024)? + 4;
    let count = word(arguments, at)?.min(64);
    at += 4;
    let mut main = None;
    for _ in 0..count {
        let Some(operation) = word(arguments, at) else { break };
        let weight = procedures::weight(operation);
        if main.is_none_or(|(heaviest, _)| weight > heaviest) {
            main = Some((weight, operation));
        }
        match past_operation(arguments, at + 4, operation) {
            Some(next) => at = next,
            None => break,
        }
    }
    main.map(|(_, operation)| operation)
}

/// Returns the offset after an operation's arguments, for operations of easily known length.
fn past_operation(bytes: &[u8], at: usize, operation: u32) -> Option<usize> {
    let string = |at| past_opaque(bytes, at, 1024);
    Some(match operation {
        3 => at + 4,
        4 | 20 => at + 20,
        5 => at + 12,
        7 | 30 => at + 8,
        8 | 36 | 44 => at + 16,
        9 => at + 4 + word(bytes, at).filter(|n| *n <= 8)? as usize * 4,
        10 | 16 | 23 | 24 | 27 | 31 | 32 => at,
        11 | 15 | 22 | 28 | 33 => string(at)?,
        29 => string(string(at)?)?,
        19 | 52 | 58 => at + 4,
        21 => at + 28,
        25 => at + 28,
        53 => at + 32,
        57 => at + 8,
        _ => return None,
    })
}

/// Messages for tests.
#[cfg(test)]
pub(crate) mod made {
    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_be_bytes()).collect()
    }

    /// Makes a call with AUTH_NONE and a payload of zeroes.
    pub(crate) fn call(xid: u32, program: u32, version: u32, procedure: u32, payload: usize) -> Vec<u8> {
        let mut out = words(&[xid, 0, 2, program, version, procedure, 0, 0, 0, 0]);
        out.extend(std::iter::repeat_n(0, payload));
        out
    }

    /// Makes an accepted reply with this status and a payload of zeroes.
    pub(crate) fn reply(xid: u32, status: u32, payload: usize) -> Vec<u8> {
        let mut out = words(&[xid, 1, 0, 0, 0, 0, status]);
        out.extend(std::iter::repeat_n(0, payload));
        out
    }

    /// Makes a compound of these operations' words, with AUTH_SYS credentials.
    pub(crate) fn compound(xid: u32, operations: u32, body: &[u32]) -> Vec<u8> {
        let mut out = words(&[xid, 0, 2, 100_003, 4, 1, 1, 20, 7, 0, 0, 0, 0, 0, 0, 0, 1, operations]);
        out.extend(words(body));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(bytes: &[u8]) -> u32 {
        match parse(bytes) {
            Some(Heading::Call { procedure, .. }) => procedure.operation,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_compound_is_named_by_what_it_is_about() {
        let put = [22, 4, 0xabcd];
        // SEQUENCE, PUTFH, WRITE, GETATTR.
        let sequence = [53, 1, 2, 3, 4, 5, 6, 7, 8];
        let write: Vec<u32> = sequence.iter().chain(&put).chain(&[38, 0, 0, 0, 0, 0, 0, 2, 5]).copied().collect();
        assert_eq!(operation(&made::compound(1, 4, &write)), 38);
        let stat: Vec<u32> = put.iter().chain(&[9, 2, 1, 2]).copied().collect();
        assert_eq!(operation(&made::compound(1, 2, &stat)), 9);
        let lookup: Vec<u32> = put.iter().chain(&[15, 3, 0x61620000, 10, 9, 1, 7]).copied().collect();
        assert_eq!(operation(&made::compound(1, 4, &lookup)), 15);
    }

    #[test]
    fn replies_say_how_it_went() {
        let of = |bytes: &[u8]| match parse(bytes) {
            Some(Heading::Reply { outcome, .. }) => outcome,
            other => panic!("{other:?}"),
        };
        assert_eq!(of(&made::reply(1, 70, 0)), Outcome::Done(Some(70)));
        assert_eq!(of(&[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]), Outcome::Refused);
        assert_eq!(parse(&[0, 0, 0, 1, 0, 0, 0, 3]), None);
    }
}
