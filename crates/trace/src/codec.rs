//! Events as bytes, for servers that ship what they recorded to the client that asked, and for the segments of a
//! recording. The encoding is postcard's (variable-length integers, enum numbers), so it is bound to the format's
//! version; every length in it is checked against the bytes that follow.

use crate::Event;

/// Maximum encoding that [`decode_events`] accepts: bounds the memory a peer can make this process hold.
pub(crate) const MAX_ENCODED_BYTES: usize = 16 << 20;

/// The bytes are not an encoding of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Longer than [`MAX_ENCODED_BYTES`].
    #[error("{0} bytes of events; at most {MAX_ENCODED_BYTES} are taken at once")]
    TooLong(usize),
    /// Truncated, or not written by [`encode_events`] of this version.
    #[error("not an encoding of events, or cut short")]
    Malformed,
    /// Events followed by this many extra bytes.
    #[error("{0} bytes after the last event")]
    Trailing(usize),
}

/// Encodes these events.
pub fn encode_events(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + events.len() * 64);
    encode_events_into(events, &mut bytes);
    bytes
}

/// Appends the encoding of these events to `bytes`.
pub(crate) fn encode_events_into(events: &[Event], bytes: &mut Vec<u8>) {
    let before = std::mem::take(bytes);
    // Cannot fail: it writes to memory, and every type of the model has an encoding.
    *bytes = postcard::to_extend(events, before).expect("events encode into memory");
}

/// Decodes events from untrusted bytes.
pub fn decode_events(bytes: &[u8]) -> Result<Vec<Event>, DecodeError> {
    if bytes.len() > MAX_ENCODED_BYTES {
        return Err(DecodeError::TooLong(bytes.len()));
    }
    match postcard::take_from_bytes::<Vec<Event>>(bytes) {
        Ok((events, [])) => Ok(events),
        Ok((_, rest)) => Err(DecodeError::Trailing(rest.len())),
        Err(_) => Err(DecodeError::Malformed),
    }
}
