//! IOR's access patterns: the bytes that one rank of many accesses, and their order.
//!
//! IOR writes `segments` times `block` bytes from each rank, in transfers. In a shared file, segment `s` holds one block of every
//! rank in rank order, so transfer `t` of block `s` of rank `r` of `n` is at `(s × n + r) × block + t × transfer`. With a file
//! for each rank it is at `s × block + t × transfer` of the rank's own. One segment is IOR's *segmented* access; blocks of one transfer
//! are its *strided* one; a random order is the same transfers, shuffled. `b_eff_io`'s patterns are the same arithmetic with other
//! numbers (see [`crate::layout`]).
//!
//! IOR requires that transfers divide blocks; here the last transfer of a block may be shorter.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Whether ranks write one file or one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// One file shared by all ranks.
    Shared,
    /// A file for each rank (IOR's `-F`).
    PerRank,
}

/// The order of a rank's transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// By offset in the file.
    Ascending,
    /// Shuffled (IOR's `-z`) by the seed and the rank.
    Random {
        /// Equal seeds give equal orders.
        seed: u64,
    },
}

/// The access pattern of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Number of ranks.
    pub ranks: u32,
    /// This rank's number, from 0.
    pub rank: u32,
    /// Contiguous bytes of one rank in one segment (IOR's `-b`).
    pub block_bytes: u64,
    /// Bytes of one transfer (IOR's `-t`).
    pub transfer_bytes: u64,
    /// Number of segments, each with a block of every rank (IOR's `-s`).
    pub segments: u64,
    /// Whether ranks share one file.
    pub sharing: Sharing,
    /// The order of transfers.
    pub order: Order,
}

/// Maximum number of transfers of one rank: shuffling needs a list of them.
pub(crate) const MOST_TRANSFERS: u64 = 1 << 24;

impl Access {
    /// Checks the numbers.
    ///
    /// # Errors
    /// A number is invalid.
    pub fn check(&self) -> Result<()> {
        let wrong = |problem: String| Err(Error::Choice(problem));
        if self.rank >= self.ranks {
            return wrong(format!("rank {} of {}: ranks are numbered from 0", self.rank, self.ranks));
        }
        if self.block_bytes == 0 || self.transfer_bytes == 0 || self.segments == 0 {
            return wrong("block size, transfer size and number of segments must be at least 1".into());
        }
        let file = self.block_bytes.checked_mul(self.segments).and_then(|bytes| bytes.checked_mul(u64::from(self.ranks)));
        if file.is_none_or(|bytes| bytes > i64::MAX as u64) {
            let size = format!("{} ranks × {} segments × {} bytes", self.ranks, self.segments, self.block_bytes);
            return wrong(format!("{size} exceed the maximum file size (2^63 - 1 bytes)"));
        }
        if self.transfers_of_a_block().checked_mul(self.segments).is_none_or(|many| many > MOST_TRANSFERS) {
            let size = format!("{} segments of {} bytes in transfers of {}", self.segments, self.block_bytes, self.transfer_bytes);
            return wrong(format!("{size}: more than {MOST_TRANSFERS} transfers of one rank; use larger transfers"));
        }
        Ok(())
    }

    fn transfers_of_a_block(&self) -> u64 {
        self.block_bytes.div_ceil(self.transfer_bytes)
    }

    /// Returns the rank's number of transfers.
    pub fn count(&self) -> u64 {
        self.transfers_of_a_block() * self.segments
    }

    /// Returns the bytes that the rank moves.
    pub fn bytes(&self) -> u64 {
        self.block_bytes * self.segments
    }

    /// Returns the resulting size of the file (shared, or the rank's own).
    pub fn file_bytes(&self) -> u64 {
        match self.sharing {
            Sharing::Shared => self.bytes() * u64::from(self.ranks),
            Sharing::PerRank => self.bytes(),
        }
    }

    /// Returns offset and length of transfer `number`, counted by offset.
    pub fn transfer(&self, number: u64) -> (u64, u64) {
        let of_a_block = self.transfers_of_a_block();
        let (segment, within) = (number / of_a_block, number % of_a_block * self.transfer_bytes);
        let block = match self.sharing {
            Sharing::Shared => segment * u64::from(self.ranks) + u64::from(self.rank),
            Sharing::PerRank => segment,
        };
        (block * self.block_bytes + within, self.transfer_bytes.min(self.block_bytes - within))
    }

    /// Returns offset and length of all transfers, in the order they are made.
    pub fn transfers(&self) -> Vec<(u64, u64)> {
        let mut numbers: Vec<u64> = (0..self.count()).collect();
        if let Order::Random { seed } = self.order {
            let mut random = Random(seed ^ (u64::from(self.rank) << 32));
            for last in (1..numbers.len()).rev() {
                numbers.swap(last, random.below(last + 1));
            }
        }
        numbers.into_iter().map(|number| self.transfer(number)).collect()
    }

    /// Returns offset and length of the rank's contiguous ranges, by offset.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let of_a_block = self.transfers_of_a_block();
        (0..self.segments).map(move |segment| (self.transfer(segment * of_a_block).0, self.block_bytes))
    }
}

/// Steele, Lea and Flood's SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn access(ranks: u32, rank: u32, block_bytes: u64, transfer_bytes: u64, segments: u64) -> Access {
        Access { ranks, rank, block_bytes, transfer_bytes, segments, sharing: Sharing::Shared, order: Order::Ascending }
    }

    #[test]
    fn offsets_are_those_of_iors_formulas() {
        // IOR -b 8 -t 4 -s 2 with 3 ranks, by hand: segment 0 is 0..24, segment 1 is 24..48.
        let of = |rank| access(3, rank, 8, 4, 2).transfers();
        assert_eq!(of(0), [(0, 4), (4, 4), (24, 4), (28, 4)]);
        assert_eq!(of(1), [(8, 4), (12, 4), (32, 4), (36, 4)]);
        assert_eq!(of(2), [(16, 4), (20, 4), (40, 4), (44, 4)]);
        // Strided: blocks of one transfer.
        assert_eq!(access(3, 1, 4, 4, 3).transfers(), [(4, 4), (16, 4), (28, 4)]);
        // A file for each rank: the rank does not matter.
        let own = Access { sharing: Sharing::PerRank, ..access(3, 2, 8, 4, 2) };
        assert_eq!(own.transfers(), [(0, 4), (4, 4), (8, 4), (12, 4)]);
        assert_eq!((own.file_bytes(), access(3, 2, 8, 4, 2).file_bytes()), (16, 48));
    }

    #[test]
    fn a_last_transfer_may_be_shorter() {
        assert_eq!(access(2, 1, 10, 4, 1).transfers(), [(10, 4), (14, 4), (18, 2)]);
    }

    #[test]
    fn impossible_numbers_are_refused_by_name() {
        let refused = |a: Access| a.check().unwrap_err().to_string();
        assert!(refused(access(2, 2, 1, 1, 1)).starts_with("rank 2 of 2"));
        assert!(refused(access(2, 0, 0, 1, 1)).contains("at least 1"));
        assert!(refused(access(2, 0, 1 << 62, 1 << 40, 2)).contains("2^63"));
        assert!(refused(access(2, 0, 1 << 40, 1, 1)).contains("larger"));
        assert!(access(2, 1, 1 << 20, 1 << 20, 64).check().is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn ranks_share_a_file_out_without_overlap_or_hole(ranks in 1_u32..6, block in 1_u64..40, transfer in 1_u64..50, segments in 1_u64..5,
            seed: Option<u64>) {
            let order = seed.map_or(Order::Ascending, |seed| Order::Random { seed });
            let all = (0..ranks).map(|rank| Access { order, ..access(ranks, rank, block, transfer, segments) });
            let mut pieces: Vec<(u64, u64)> = all.clone().flat_map(|a| a.transfers()).collect();
            pieces.sort_unstable();
            let mut at = 0;
            for (offset, length) in pieces {
                prop_assert_eq!(offset, at);
                prop_assert!(length > 0 && length <= transfer);
                at += length;
            }
            prop_assert_eq!(at, access(ranks, 0, block, transfer, segments).file_bytes());
            for a in all {
                prop_assert_eq!(a.transfers().iter().map(|t| t.1).sum::<u64>(), a.bytes());
                prop_assert_eq!(a.blocks().map(|b| b.1).sum::<u64>(), a.bytes());
                prop_assert_eq!(a.transfers().len() as u64, a.count());
            }
        }

        #[test]
        fn a_random_order_is_the_same_transfers_and_the_same_every_time(seed: u64, count in 2_u64..200) {
            let a = Access { order: Order::Random { seed }, ..access(2, 1, count, 1, 1) };
            let shuffled = a.transfers();
            prop_assert_eq!(&shuffled, &a.transfers());
            let mut sorted = shuffled;
            sorted.sort_unstable();
            prop_assert_eq!(sorted, Access { order: Order::Ascending, ..a }.transfers());
        }
    }
}
