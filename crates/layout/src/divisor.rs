//! Division by a constant divisor, with a precomputed reciprocal.
//!
//! Every mapping divides by strip and stripe sizes, which never change for a file, and a 64-bit division is the slowest
//! instruction in it. Offsets have 63 bits, which leaves exactly the one bit that makes multiplication by a reciprocal exact for
//! every divisor, without the correction step of a full 64-bit dividend.
//!
//! With `l = ceil(log2 d)` and `m = ceil(2^(63+l) / d)`, `m` fits in 64 bits and `m·d − 2^(63+l) < d ≤ 2^l`, so for all
//! `n < 2^63`: `floor(n / d) = floor(n·m / 2^(63+l))`. Doubling `n` first turns the shift by 63 into taking a product's
//! high word. The divisor 1 is no special case (`l = 0`, `m = 2^63`), nor are powers of two.

use crate::MAX_OFFSET;

/// A divisor of offsets, with its reciprocal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Divisor {
    value: u64,
    multiplier: u64,
    shift: u32,
}

impl Divisor {
    /// Makes a divisor of 1 to `MAX_OFFSET`; callers refuse other parameters.
    pub(crate) fn new(value: u64) -> Divisor {
        assert!((1..=MAX_OFFSET).contains(&value), "divisor {value} out of range");
        let shift = 64 - (value - 1).leading_zeros();
        let multiplier = (1u128 << (63 + shift)).div_ceil(u128::from(value));
        Divisor { value, multiplier: u64::try_from(multiplier).expect("at most 2^64 - 1, see the module's proof"), shift }
    }

    /// Returns the divisor.
    #[inline]
    pub(crate) fn value(self) -> u64 {
        self.value
    }

    /// Returns quotient and remainder of an offset.
    #[inline]
    pub(crate) fn divide(self, dividend: u64) -> (u64, u64) {
        debug_assert!(dividend <= MAX_OFFSET);
        let high = ((u128::from(dividend << 1) * u128::from(self.multiplier)) >> 64) as u64;
        let quotient = high >> self.shift;
        (quotient, dividend - quotient * self.value)
    }
}

impl std::fmt::Debug for Divisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(dividend: u64, divisor: u64) {
        assert_eq!(Divisor::new(divisor).divide(dividend), (dividend / divisor, dividend % divisor), "{dividend} / {divisor}");
    }

    #[test]
    fn every_edge_of_every_power_of_two_divides_exactly() {
        let edges: Vec<u64> =
            (0..63).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([MAX_OFFSET - 1, MAX_OFFSET]).collect();
        for &divisor in edges.iter().filter(|&&divisor| divisor > 0) {
            for &dividend in &edges {
                check(dividend, divisor);
                check((dividend / divisor * divisor).saturating_sub(1), divisor);
                check(dividend / divisor * divisor, divisor);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn division_is_exact(bits in 0u32..63, low in 1u64..=MAX_OFFSET, dividends in prop::collection::vec(0..=MAX_OFFSET, 100)) {
            let divisor = (low >> bits).max(1);
            for dividend in dividends {
                check(dividend, divisor);
                check(dividend >> (bits / 2), divisor);
                check(dividend / divisor * divisor, divisor);
            }
        }
    }
}
