//! The CRC-32C of a run of bytes and of each of its whole blocks, in one pass.
//!
//! The checksum of a whole follows from those of its parts: appending `n` bytes to a text multiplies its checksum by x^8n modulo the
//! polynomial, which is linear in the checksum's bits, so for a fixed `n` four look-ups do it. (`crc_fast::checksum_combine` raises x to
//! that power at each call, which takes longer than the checksum of the block itself.)

use crate::crc32c;
use std::sync::LazyLock;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;

/// CRC-32C's polynomial, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// Bits of a length up to [`BLOCK_BYTES`].
const POWERS: usize = BLOCK_BYTES.ilog2() as usize + 1;

/// The operator that appends a number of zero bytes, as its effect on each bit of a checksum.
type Operator = [u32; 32];

/// Operators for 1, 2, 4, ... zero bytes, and for a block as four tables, one for each byte of a checksum.
struct Operators {
    powers: [Operator; POWERS],
    block: Box<[[u32; 256]; 4]>,
}

static OPERATORS: LazyLock<Operators> = LazyLock::new(|| {
    let mut powers = [[0; 32]; POWERS];
    for (bit, effect) in powers[0].iter_mut().enumerate() {
        *effect = (0..8).fold(1_u32 << bit, |crc, _| if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ POLYNOMIAL });
    }
    for power in 1..POWERS {
        let half = powers[power - 1];
        powers[power] = half.map(|effect| apply(&half, effect));
    }
    let mut block = Box::new([[0; 256]; 4]);
    for (place, table) in block.iter_mut().enumerate() {
        for (byte, entry) in table.iter_mut().enumerate() {
            *entry = apply(&powers[POWERS - 1], (byte as u32) << (8 * place));
        }
    }
    Operators { powers, block }
});

fn apply(operator: &Operator, crc: u32) -> u32 {
    operator.iter().enumerate().fold(0, |sum, (bit, effect)| if crc >> bit & 1 == 1 { sum ^ effect } else { sum })
}

/// Returns the checksum of a text with checksum `first`, followed by `bytes` bytes (at most a block) with checksum `then`.
fn join(operators: &Operators, first: u32, then: u32, bytes: usize) -> u32 {
    if bytes == BLOCK_BYTES {
        let [a, b, c, d] = first.to_le_bytes().map(usize::from);
        let [table0, table1, table2, table3] = &*operators.block;
        return table0[a] ^ table1[b] ^ table2[c] ^ table3[d] ^ then;
    }
    let powers = operators.powers.iter().enumerate();
    powers.fold(first, |crc, (power, operator)| if bytes >> power & 1 == 1 { apply(operator, crc) } else { crc }) ^ then
}

/// Returns the CRC-32C of `bytes`, and appends to `sums` that of each whole block; the first begins after `before` bytes.
#[inline(never)]
pub fn crc32c_of_blocks(bytes: &[u8], before: usize, sums: &mut Vec<u32>) -> u32 {
    let operators = &*OPERATORS;
    let (head, rest) = bytes.split_at(before.min(bytes.len()));
    let mut whole = 0;
    for piece in head.chunks(BLOCK_BYTES) {
        whole = join(operators, whole, crc32c(piece), piece.len());
    }
    sums.reserve(rest.len() / BLOCK_BYTES);
    for piece in rest.chunks(BLOCK_BYTES) {
        let crc = crc32c(piece);
        whole = join(operators, whole, crc, piece.len());
        if piece.len() == BLOCK_BYTES {
            sums.push(crc);
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pass_gives_what_two_give() {
        let mut state = 7_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let bytes: Vec<u8> = (0..5 * BLOCK_BYTES).map(|_| random() as u8).collect();
        let ends = [0, 1, 2, 4095, 4096, 4097, 8191, 8192, 12_345, bytes.len()];
        let some = (0..200).map(|_| (random() as usize % bytes.len(), random() as usize % (2 * BLOCK_BYTES)));
        for (end, before) in ends.iter().flat_map(|end| [0, 1, 100, 4095, 4096].map(|before| (*end, before))).chain(some) {
            let (part, mut sums) = (&bytes[..end], Vec::new());
            assert_eq!(crc32c_of_blocks(part, before, &mut sums), crc32c(part), "{end} bytes, {before} before");
            let expected: Vec<u32> = part[before.min(end)..].chunks_exact(BLOCK_BYTES).map(crc32c).collect();
            assert_eq!(sums, expected);
        }
    }
}
