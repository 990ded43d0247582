//! Hash tables keyed by numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes a number with one multiplication, which spreads well enough here.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
}

pub(super) type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;
