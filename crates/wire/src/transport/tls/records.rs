//! Records of an open connection (RFC 8446, section 5): a header of five bytes, then the encrypted content, whose last byte is
//! its kind.

use super::protocol;
use crate::error::Result;
use ring::aead::{self, Aad, LessSafeKey, UnboundKey};
use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{Iv, Nonce, make_tls13_aad};
use std::io::IoSlice;

/// Length of a record's header: kind, version, length.
pub(super) const HEADER_BYTES: usize = 5;
/// Maximum plaintext of a record.
pub(super) const PLAIN_BYTES: usize = 1 << 14;
/// Bytes of a record besides its plaintext: header, kind, tag.
pub(super) const OVERHEAD_BYTES: usize = HEADER_BYTES + 1 + aead::MAX_TAG_LEN;
/// The largest record a peer may send, padding included.
pub(super) const RECORD_BYTES: usize = HEADER_BYTES + PLAIN_BYTES + 256;

/// The kind of a record: its last byte once decrypted, its first before encryption starts.
pub(super) mod kind {
    pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
    pub(crate) const ALERT: u8 = 21;
    pub(crate) const HANDSHAKE: u8 = 22;
    pub(crate) const DATA: u8 = 23;
}

/// Returns the length of the record that begins with these bytes, header included; `None`: too few bytes.
///
/// # Errors
/// The bytes do not begin a record.
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>> {
    if bytes.first().is_some_and(|first| !(kind::CHANGE_CIPHER_SPEC..=kind::DATA).contains(first))
        || bytes.get(1).is_some_and(|major| *major != 3)
    {
        return Err(protocol("expected a TLS record"));
    }
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let length = HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]]));
    if length > RECORD_BYTES {
        return Err(protocol(format!("a TLS record of {length} bytes: the maximum is {RECORD_BYTES}")));
    }
    Ok(Some(length))
}

/// The keys of one direction, and the number of records they have protected.
pub(super) struct Keys {
    key: LessSafeKey,
    iv: Iv,
    sequence: u64,
}

impl Keys {
    /// Converts secrets extracted from rustls.
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

    /// Returns the number of records protected so far.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the next nonce. A nonce must never repeat: reuse with one key reveals both plaintexts.
    fn nonce(&mut self) -> Result<aead::Nonce> {
        let nonce = Nonce::new(&self.iv, self.sequence);
        self.sequence = self.sequence.checked_add(1).ok_or_else(|| protocol("too many TLS records for one key"))?;
        Ok(aead::Nonce::assume_unique_for_key(nonce.0))
    }

    /// Appends an encrypted record to `output`; `fill` appends its plaintext, at most [`PLAIN_BYTES`].
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

    /// Decrypts a whole record in place; returns its kind, and the bytes of plaintext behind its header.
    ///
    /// # Errors
    /// The record was altered, or is one that a peer must not send.
    pub(super) fn open(&mut self, record: &mut [u8]) -> Result<(u8, usize)> {
        let nonce = self.nonce()?;
        let (header, encrypted) = record.split_at_mut(HEADER_BYTES);
        if header[0] != kind::DATA {
            return Err(protocol("an unencrypted TLS record on an encrypted connection: it was injected"));
        }
        let opened = self.key.open_in_place(nonce, Aad::from(header), encrypted);
        let opened = opened.map_err(|_| protocol("a TLS record was damaged or altered in transit"))?;
        // Zeros behind the kind are padding.
        let last = opened.iter().rposition(|byte| *byte != 0).ok_or_else(|| protocol("a TLS record without a kind"))?;
        if last > PLAIN_BYTES {
            return Err(protocol(format!("a TLS record of {last} bytes of plaintext: the maximum is {PLAIN_BYTES}")));
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
            // `advance_slices` by 0 does not skip an empty piece on every version.
            *pieces = &mut std::mem::take(pieces)[1..];
        }
    }
}
