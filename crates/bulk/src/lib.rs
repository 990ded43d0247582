//! What is done to every byte that moves: its checksum, and the memory for it.
//!
//! In: bytes. Out: CRC-32C (Castagnoli), as on messages, in segments of recordings and in the log of names; vectors of a length. It knows
//! no format, and does no I/O.
//!
//! It is a crate so that it is optimised in all builds: in one for tests, these few functions would otherwise take most of the time of a
//! copy. So nothing here is generic or inlined, which would have it compiled where it is used.

#![warn(unreachable_pub)]

use crc_fast::{CrcAlgorithm, Digest};

/// The CRC-32C of some bytes.
#[inline(never)]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// A CRC-32C made piece by piece.
pub struct Crc32c(Digest);

impl Default for Crc32c {
    #[inline(never)]
    fn default() -> Crc32c {
        Crc32c(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }
}

impl Crc32c {
    /// Takes the next piece.
    #[inline(never)]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all pieces.
    #[inline(never)]
    pub fn finish(self) -> u32 {
        self.0.finalize() as u32
    }
}

/// Makes a buffer this long; bytes that were not there are 0.
#[inline(never)]
pub fn resize(buffer: &mut Vec<u8>, length: usize) {
    buffer.resize(length, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        let mut pieces = Crc32c::default();
        pieces.update(b"1234");
        pieces.update(b"56789");
        assert_eq!(pieces.finish(), 0xE306_9283);
    }

    #[test]
    fn what_a_buffer_gains_is_zeros_and_what_it_keeps_is_kept() {
        let mut buffer = vec![1, 2, 3];
        resize(&mut buffer, 2);
        resize(&mut buffer, 4);
        assert_eq!(buffer, [1, 2, 0, 0]);
    }
}
