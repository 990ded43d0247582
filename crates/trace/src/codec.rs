//! Events as bytes: for servers that ship what they recorded to the client that asked for it, and for
//! the segments of a recording. The encoding is postcard's (variable-length integers, enum numbers), so it
//! is bound to the format's version; it holds no lengths that are not checked against what is there.

use crate::Event;

/// The longest encoding that [`decode_events`] takes: what a peer can make this process hold.
pub(crate) const MAX_ENCODED_BYTES: usize = 16 << 20;

/// Bytes are no encoding of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// More than [`MAX_ENCODED_BYTES`].
    #[error("{0} bytes of events; at most {MAX_ENCODED_BYTES} are taken at once")]
    TooLong(usize),
    /// Cut short, or not made by [`encode_events`] of this version.
    #[error("not an encoding of events, or cut short")]
    Malformed,
    /// Events, and then this many more bytes.
    #[error("{0} bytes after the last event")]
    Trailing(usize),
}

/// The encoding of these events.
pub fn encode_events(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + events.len() * 64);
    encode_events_into(events, &mut bytes);
    bytes
}

/// Appends the encoding of these events to `bytes`.
pub(crate) fn encode_events_into(events: &[Event], bytes: &mut Vec<u8>) {
    let before = std::mem::take(bytes);
    // Into memory, and every type of the model has an encoding: cannot fail.
    *bytes = postcard::to_extend(events, before).expect("events encode into memory");
}

/// The events in these bytes, which may come from anywhere.
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
