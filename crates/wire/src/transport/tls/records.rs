//! Records of an open connection (RFC 8446, section 5): a header of five bytes, and what is encrypted, which ends with its kind.

use super::protocol;
use crate::error::Result;
use ring::aead::{self, Aad, LessSafeKey, UnboundKey};
use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{Iv, Nonce, make_tls13_aad};
use std::io::IoSlice;

/// Bytes before what is encrypted: kind, version, length.
pub(super) const HEADER_BYTES: usize = 5;
/// Most bytes of plaintext in a record.
pub(super) const PLAIN_BYTES: usize = 1 << 14;
/// What a full record, or any other, takes besides its plaintext: header, kind, tag.
pub(super) const OVERHEAD_BYTES: usize = HEADER_BYTES + 1 + aead::MAX_TAG_LEN;
/// The largest record that a peer may send: its padding is counted.
pub(super) const RECORD_BYTES: usize = HEADER_BYTES + PLAIN_BYTES + 256;

/// What a record says of itself, in its last byte once it is decrypted, or in its first one before anything is encrypted.
pub(super) mod kind {
    pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
    pub(crate) const ALERT: u8 = 21;
    pub(crate) const HANDSHAKE: u8 = 22;
    pub(crate) const DATA: u8 = 23;
}

/// Length of the record that begins with these bytes, header included; `None`: they are too few to know.
///
/// # Errors
/// They do not begin a record.
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>> {
    if bytes.first().is_some_and(|first| !(kind::CHANGE_CIPHER_SPEC..=kind::DATA).contains(first))
        || bytes.get(1).is_some_and(|major| *major != 3)
    {
        return Err(protocol("expected a record of TLS, and these bytes are none"));
    }
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let length = HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]]));
    if length > RECORD_BYTES {
        return Err(protocol(format!("a TLS record of {length} bytes: at most {RECORD_BYTES} are expected")));
    }
    Ok(Some(length))
}

/// Keys of one direction, and how many records they have been used for.
pub(super) struct Keys {
    key: LessSafeKey,
    iv: Iv,
    sequence: u64,
}

impl Keys {
    /// As rustls hands them out.
    pub(super) fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Keys> {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => return Err(protocol("a TLS cipher that was not offered")),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| protocol("a TLS key of another length than its cipher's"))?;
        Ok(Keys { key: LessSafeKey::new(key), iv, sequence })
    }

    /// Records they have been used for.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// No number is used twice: the same number with the same key gives both plaintexts away.
    fn nonce(&mut self) -> Result<aead::Nonce> {
        let nonce = Nonce::new(&self.iv, self.sequence);
        self.sequence = self.sequence.checked_add(1).ok_or_else(|| protocol("as many TLS records as one key may be used for"))?;
        Ok(aead::Nonce::assume_unique_for_key(nonce.0))
    }

    /// Adds a record to `output`, of what `fill` adds to it: at most [`PLAIN_BYTES`].
    pub(super) fn seal(&mut self, kind: u8, output: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let start = output.len();
        output.extend_from_slice(&[0; HEADER_BYTES]);
        fill(output);
        output.push(kind);
        let (header, plaintext) = output[start..].split_at_mut(HEADER_BYTES);
        debug_assert!(plaintext.len() <= PLAIN_BYTES + 1);
        header.copy_from_slice(&make_tls13_aad(plaintext.len() + aead::MAX_TAG_LEN));
        let nonce = self.nonce()?;
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(header), plaintext);
        output.extend_from_slice(tag.map_err(|_| protocol("a TLS record that cannot be encrypted"))?.as_ref());
        Ok(())
    }

    /// Decrypts a whole record in its place: its kind, and how many bytes of plaintext stand behind its header.
    ///
    /// # Errors
    /// It is not as the peer sent it, or nothing that a peer may send.
    pub(super) fn open(&mut self, record: &mut [u8]) -> Result<(u8, usize)> {
        let nonce = self.nonce()?;
        let (header, encrypted) = record.split_at_mut(HEADER_BYTES);
        if header[0] != kind::DATA {
            return Err(protocol("a TLS record that is not encrypted on a connection that is: somebody else sent it"));
        }
        let opened = self.key.open_in_place(nonce, Aad::from(header), encrypted);
        let opened = opened.map_err(|_| protocol("a TLS record that is not as it was sent: damaged or changed on its way"))?;
        // Zeros behind the kind are padding.
        let last = opened.iter().rposition(|byte| *byte != 0).ok_or_else(|| protocol("a TLS record of no kind"))?;
        if last > PLAIN_BYTES {
            return Err(protocol(format!("a TLS record of {last} bytes of plaintext: at most {PLAIN_BYTES} are allowed")));
        }
        Ok((opened[last], last))
    }
}

/// Moves the next `most` bytes of the pieces to the end of `output`.
pub(super) fn take(pieces: &mut &mut [IoSlice<'_>], most: usize, output: &mut Vec<u8>) {
    let mut left = most;
    while left > 0
        && let Some(piece) = pieces.first()
    {
        let many = piece.len().min(left);
        output.extend_from_slice(&piece[..many]);
        left -= many;
        IoSlice::advance_slices(pieces, many);
        if many == 0 {
            // Advancing by nothing does not skip an empty piece everywhere.
            *pieces = &mut std::mem::take(pieces)[1..];
        }
    }
}
