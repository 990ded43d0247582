//! The 64-byte header of every message. PROTOCOL.md draws it.

use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use thalweg_base::release::RELEASE;
use thalweg_bulk::Crc32c;

/// Length of the header.
pub const HEADER_BYTES: usize = 64;
/// First four bytes of every message: `TLWG`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"TLWG");
/// The protocol version of this program.
pub const VERSION: u16 = 13;
/// The lowest protocol version it accepts.
pub const VERSION_MIN: u16 = 13;
/// Set in replies.
pub const FLAG_REPLY: u32 = 1;
const FLAGS_KNOWN: u32 = FLAG_REPLY;

/// The enum to which the body belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Kind {
    /// [`crate::protocol::common`].
    Common = 1,
    /// [`crate::protocol::io`].
    Io = 2,
    /// [`crate::protocol::metadata`].
    Metadata = 3,
}

/// A message's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of the body.
    pub kind: Kind,
    /// True in a reply.
    pub reply: bool,
    /// In a reply: 0, or the errno of the error in the body.
    pub status: u32,
    /// Request number: unique on its connection, and within a recording.
    pub request: u64,
    /// Length of the body.
    pub body_bytes: u32,
    /// Length of the payload.
    pub payload_bytes: u64,
    /// CRC-32C of the payload; 0 without one.
    pub payload_crc: u32,
    /// Recording session of the request; 0: none.
    pub session: u32,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Header {
    /// Writes the header in front of its body, over the first [`HEADER_BYTES`] of `message`.
    pub fn encode_into(&self, message: &mut [u8]) {
        let flags = if self.reply { FLAG_REPLY } else { 0 };
        let h = &mut message[..HEADER_BYTES];
        h[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        h[4..6].copy_from_slice(&VERSION.to_le_bytes());
        h[6..8].copy_from_slice(&(self.kind as u16).to_le_bytes());
        h[8..12].copy_from_slice(&flags.to_le_bytes());
        h[12..16].copy_from_slice(&self.status.to_le_bytes());
        h[16..24].copy_from_slice(&self.request.to_le_bytes());
        h[24..32].copy_from_slice(&self.payload_bytes.to_le_bytes());
        h[32..36].copy_from_slice(&self.body_bytes.to_le_bytes());
        h[36..40].copy_from_slice(&self.payload_crc.to_le_bytes());
        h[40..44].copy_from_slice(&self.session.to_le_bytes());
        h[44..60].fill(0);
        let crc = message_crc(&message[..60], &message[HEADER_BYTES..]);
        message[60..64].copy_from_slice(&crc.to_le_bytes());
    }

    /// Decodes a header, with every check possible before the body arrives.
    ///
    /// # Errors
    /// What was found and what was expected. The connection is unusable afterwards.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header> {
        let magic = u32_at(bytes, 0);
        if magic != MAGIC {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!(
                    "the peer does not speak thalweg's protocol: its message begins with {:02x?}, expected {:02x?} (\"TLWG\")",
                    magic.to_le_bytes(),
                    MAGIC.to_le_bytes()
                ),
            ));
        }
        let version = u16_at(bytes, 4);
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(version_error(version, version));
        }
        let kind = match u16_at(bytes, 6) {
            1 => Kind::Common,
            2 => Kind::Io,
            3 => Kind::Metadata,
            other => return Err(Error::new(ErrorKind::Protocol, format!("a message of kind {other}: expected 1, 2 or 3"))),
        };
        let flags = u32_at(bytes, 8);
        if flags & !FLAGS_KNOWN != 0 {
            return Err(Error::new(ErrorKind::Protocol, format!("a message with flags {flags:#x}: expected only {FLAGS_KNOWN:#x}")));
        }
        let payload_bytes = u64_at(bytes, 24);
        if payload_bytes > limits::PAYLOAD_BYTES {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!("a message that claims {payload_bytes} bytes of payload: the maximum is {}", limits::PAYLOAD_BYTES),
            ));
        }
        let body_bytes = u32_at(bytes, 32);
        if body_bytes > limits::BODY_BYTES {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!("a message that claims {body_bytes} bytes of body: the maximum is {}", limits::BODY_BYTES),
            ));
        }
        Ok(Header {
            kind,
            reply: flags & FLAG_REPLY != 0,
            status: u32_at(bytes, 12),
            request: u64_at(bytes, 16),
            body_bytes,
            payload_bytes,
            payload_crc: u32_at(bytes, 36),
            session: u32_at(bytes, 40),
        })
    }

    /// Verifies the checksum of header and body.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`]; the connection is unusable afterwards, because the lengths cannot be trusted.
    pub fn verify(bytes: &[u8; HEADER_BYTES], body: &[u8]) -> Result<()> {
        let (found, expected) = (message_crc(&bytes[..60], body), u32_at(bytes, 60));
        if found == expected {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Protocol,
            format!("a message whose header and body have checksum {found:08x}, expected {expected:08x}: damaged in transit"),
        ))
    }
}

fn message_crc(header: &[u8], body: &[u8]) -> u32 {
    let mut crc = Crc32c::default();
    crc.update(header);
    crc.update(body);
    crc.finish()
}

/// Makes the error for a peer that speaks only versions `min` to `max`.
pub(crate) fn version_error(min: u16, max: u16) -> Error {
    let versions = |min: u16, max: u16| if min == max { format!("version {min}") } else { format!("versions {min} to {max}") };
    let (theirs, ours) = (versions(min, max), versions(VERSION_MIN, VERSION));
    let older = if max < VERSION_MIN { "an older" } else { "a newer" };
    Error::new(
        ErrorKind::Version,
        format!(
            "the peer is {older} release, which speaks {theirs} of the protocol; this is {RELEASE}, which speaks {ours}: use one release at both ends"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Header {
        Header {
            kind: Kind::Io,
            reply: true,
            status: 5,
            request: 0x0102_0304_0506,
            body_bytes: 3,
            payload_bytes: 1 << 20,
            payload_crc: 77,
            session: 9,
        }
    }

    fn encoded(header: &Header, body: &[u8]) -> Vec<u8> {
        let mut message = vec![0; HEADER_BYTES];
        message.extend_from_slice(body);
        header.encode_into(&mut message);
        message
    }

    #[test]
    fn the_page_that_draws_messages_says_which_version_it_draws() {
        let page = include_str!("../../PROTOCOL.md");
        assert!(page.contains(&format!("\nVersion {VERSION}. ")) && page.contains(&format!("| of the protocol, {VERSION} |")));
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let message = encoded(&example(), b"abc");
        let bytes: &[u8; HEADER_BYTES] = message[..HEADER_BYTES].try_into().unwrap();
        assert_eq!(Header::decode(bytes).unwrap(), example());
        Header::verify(bytes, b"abc").unwrap();
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let message = encoded(&example(), b"abc");
        for bit in 0..message.len() * 8 {
            let mut damaged = message.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let bytes: &[u8; HEADER_BYTES] = damaged[..HEADER_BYTES].try_into().unwrap();
            assert!(Header::decode(bytes).is_err() || Header::verify(bytes, &damaged[HEADER_BYTES..]).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_claim_past_the_bound_is_refused_and_named() {
        let header = Header { payload_bytes: 1 << 63, ..example() };
        let message = encoded(&header, b"abc");
        let error = Header::decode(message[..HEADER_BYTES].try_into().unwrap()).unwrap_err();
        assert!(error.message().contains("9223372036854775808"), "{error}");
    }
}
