//! Dense indices. A recording's identifiers are sparse 64-bit numbers; everything here uses dense ones. One small open-addressed table per
//! kind of identifier converts between them, once per column and span.

/// The result of [`DenseIndex::get`] for an identifier that is absent or not in its table.
pub(crate) const NONE: u32 = u32::MAX;

/// Maps an identifier to its position in the table it came from.
#[derive(Clone, Debug)]
pub(crate) struct DenseIndex {
    slots: Vec<(u64, u32)>,
    shift: u32,
    last: (u64, u32),
}

impl DenseIndex {
    /// Indexes these identifiers, in order. The first of duplicates counts.
    pub(crate) fn new(identifiers: impl ExactSizeIterator<Item = u64>) -> DenseIndex {
        let capacity = (identifiers.len() * 2 + 8).next_power_of_two();
        let mut index = DenseIndex { slots: vec![(0, NONE); capacity], shift: 64 - capacity.trailing_zeros(), last: (0, NONE) };
        for (position, identifier) in identifiers.enumerate() {
            let slot = index.slot(identifier);
            if index.slots[slot].1 == NONE && identifier != 0 {
                index.slots[slot] = (identifier, position as u32);
            }
        }
        index
    }

    /// The slot of the identifier, or the empty one where it would be.
    fn slot(&self, identifier: u64) -> usize {
        let mut slot = (identifier.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        while self.slots[slot].1 != NONE && self.slots[slot].0 != identifier {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        slot
    }

    /// The identifier's position, or [`NONE`].
    #[inline]
    pub(crate) fn get(&mut self, identifier: u64) -> u32 {
        if identifier == 0 {
            return NONE;
        }
        if self.last.0 != identifier {
            self.last = (identifier, self.slots[self.slot(identifier)].1);
        }
        self.last.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identifier_finds_its_position_and_no_other_does() {
        let identifiers: Vec<u64> = (0..1000_u64).map(|n| ((n % 7) << 40) | (n * n + 1)).collect();
        let mut index = DenseIndex::new(identifiers.iter().copied());
        for (position, &identifier) in identifiers.iter().enumerate() {
            let found = index.get(identifier) as usize;
            assert_eq!(identifiers[found], identifier);
            assert!(found <= position);
        }
        assert_eq!(index.get(0), NONE);
        assert_eq!(index.get(u64::MAX), NONE);
    }
}
