//! Operations on every byte moved: checksums, and buffer memory.
//!
//! In: bytes. Out: CRC-32C (Castagnoli), as used in messages, in segments of recordings and in the log of names; vectors of a given
//! length. It knows no format, and does no I/O.
//!
//! It is a separate crate so that it is optimised in all builds: in a test build, these few functions would otherwise take most of a
//! copy's time. So nothing here is generic or inlined, which would compile it in the calling crate.

#![warn(unreachable_pub)]

mod blocks;

pub use blocks::{BLOCK_BYTES, crc32c_of_blocks};

use crc_fast::{CrcAlgorithm, Digest};

/// Returns the CRC-32C of `bytes`.
#[inline(never)]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// A CRC-32C computed incrementally.
pub struct Crc32c(Digest);

impl Default for Crc32c {
    #[inline(never)]
    fn default() -> Crc32c {
        Crc32c(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }
}

impl Crc32c {
    /// Adds the next bytes.
    #[inline(never)]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the checksum of all bytes added.
    #[inline(never)]
    pub fn finish(self) -> u32 {
        self.0.finalize() as u32
    }
}

/// Resizes a buffer to `length`; new bytes are 0.
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
