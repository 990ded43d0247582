//! The access patterns by name, with their IOR and `b_eff_io` equivalents.
//!
//! [`PATTERNS`] is the list. `part` is the study's own: each node writes one contiguous part of a shared file, whose size is the axis
//! of the plots. The others are IOR's and `b_eff_io`'s, at one size.
//!
//! `b_eff_io` moves, for each of its five pattern types, chunks of several sizes; its figure for a type is all bytes over all time. A
//! rank's mean over the types counts scattering twice, and the figure of a system counts first writing and rewriting a quarter each
//! and reading half. [`mean_over_types`] and [`mean_over_operations`] are these two means. Collective calls and shared pointers exist in
//! MPI-IO only; through the client library and a mount, a rank makes the equivalent transfers at the same offsets independently.

use crate::access::{Access, Order, Sharing};
use serde::{Deserialize, Serialize};

/// An access pattern.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// IOR's options or `b_eff_io`'s name for it.
    pub known_as: &'static str,
    /// Weight in `b_eff_io`'s mean, for its types.
    pub weight: Option<u32>,
    /// The MPI-IO calls of its transfers.
    pub calls: Calls,
    /// The shape, from which the access follows for a part and a transfer size.
    shape: Shape,
}

/// The MPI-IO calls of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Calls {
    /// Independent calls with explicit offsets.
    Independent,
    /// Collective calls through a file view.
    Collective,
    /// Calls in rank order through the shared file pointer.
    SharedPointer,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// One block for each rank.
    Segmented(Sharing, bool),
    /// Blocks of one transfer, in rank order.
    Strided,
    /// Blocks smaller than a transfer: each call's bytes are scattered.
    Scattered,
}

/// Number of pieces that [`Shape::Scattered`] divides a transfer into.
const SCATTERED_PIECES: u64 = 16;

const SHARED: Shape = Shape::Segmented(Sharing::Shared, false);

/// All patterns. The first is the pattern of the layout plots.
pub const PATTERNS: &[Pattern] = &[
    Pattern {
        name: "part",
        summary: "each node one contiguous part of a shared file",
        known_as: "IOR -b PART -t 1m -s 1",
        weight: None,
        calls: Calls::Independent,
        shape: SHARED,
    },
    Pattern {
        name: "ior-segmented",
        summary: "one block for each rank of a shared file",
        known_as: "IOR -b PART -t T -s 1",
        weight: None,
        calls: Calls::Independent,
        shape: SHARED,
    },
    Pattern {
        name: "ior-strided",
        summary: "the ranks' transfers one after the other in a shared file",
        known_as: "IOR -b T -t T -s PART/T",
        weight: None,
        calls: Calls::Independent,
        shape: Shape::Strided,
    },
    Pattern {
        name: "ior-random",
        summary: "one block for each rank of a shared file, its transfers in random order",
        known_as: "IOR -b PART -t T -s 1 -z",
        weight: None,
        calls: Calls::Independent,
        shape: Shape::Segmented(Sharing::Shared, true),
    },
    Pattern {
        name: "ior-file-per-process",
        summary: "a file for each rank",
        known_as: "IOR -b PART -t T -s 1 -F",
        weight: None,
        calls: Calls::Independent,
        shape: Shape::Segmented(Sharing::PerRank, false),
    },
    Pattern {
        name: "beff-scatter",
        summary: "each call's bytes in pieces, the ranks' pieces one after the other",
        known_as: "b_eff_io type 0, strided collective",
        weight: Some(2),
        calls: Calls::Collective,
        shape: Shape::Scattered,
    },
    Pattern {
        name: "beff-shared",
        summary: "the ranks' transfers in their order, through one shared pointer",
        known_as: "b_eff_io type 1, shared file pointer",
        weight: Some(1),
        calls: Calls::SharedPointer,
        shape: Shape::Strided,
    },
    Pattern {
        name: "beff-separate",
        summary: "a file for each rank",
        known_as: "b_eff_io type 2, separate files",
        weight: Some(1),
        calls: Calls::Independent,
        shape: Shape::Segmented(Sharing::PerRank, false),
    },
    Pattern {
        name: "beff-segmented",
        summary: "one segment for each rank of a shared file, each for itself",
        known_as: "b_eff_io type 3, segmented",
        weight: Some(1),
        calls: Calls::Independent,
        shape: SHARED,
    },
    Pattern {
        name: "beff-segmented-collective",
        summary: "one segment for each rank of a shared file, all together",
        known_as: "b_eff_io type 4, segmented collective",
        weight: Some(1),
        calls: Calls::Collective,
        shape: SHARED,
    },
];

/// Returns the pattern of this name.
pub(super) fn named(name: &str) -> Option<&'static Pattern> {
    PATTERNS.iter().find(|pattern| pattern.name == name)
}

impl Pattern {
    /// Returns the access of rank `rank` of `ranks` that moves `part_bytes` in transfers of `transfer_bytes`.
    pub fn access(&self, ranks: u32, rank: u32, part_bytes: u64, transfer_bytes: u64) -> Access {
        let transfer_bytes = transfer_bytes.min(part_bytes).max(1);
        let access =
            Access { ranks, rank, block_bytes: part_bytes, transfer_bytes, segments: 1, sharing: Sharing::Shared, order: Order::Ascending };
        let in_blocks_of =
            |bytes: u64| Access { block_bytes: bytes, transfer_bytes: bytes, segments: part_bytes.div_ceil(bytes), ..access };
        match self.shape {
            Shape::Segmented(sharing, random) => {
                let order = if random { Order::Random { seed: 1 } } else { Order::Ascending };
                Access { sharing, order, ..access }
            }
            Shape::Strided => in_blocks_of(transfer_bytes),
            Shape::Scattered => in_blocks_of((transfer_bytes / SCATTERED_PIECES).max(1)),
        }
    }
}

/// Returns `b_eff_io`'s mean over its pattern types; `None` unless every type has a figure.
pub(super) fn mean_over_types(figure: impl Fn(&Pattern) -> Option<f64>) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0);
    for (pattern, weight) in PATTERNS.iter().filter_map(|pattern| Some((pattern, pattern.weight?))) {
        sum += figure(pattern)? * f64::from(weight);
        weights += weight;
    }
    Some(sum / f64::from(weights))
}

/// Returns `b_eff_io`'s mean over writing, rewriting and reading.
pub(super) fn mean_over_operations(write: f64, rewrite: f64, read: f64) -> f64 {
    0.25 * write + 0.25 * rewrite + 0.5 * read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_moves_the_part_of_every_rank() {
        for pattern in PATTERNS {
            for rank in 0..3 {
                let access = pattern.access(3, rank, 1 << 20, 1 << 16);
                access.check().unwrap();
                assert_eq!(access.bytes(), 1 << 20, "{}", pattern.name);
            }
        }
        assert!(named("part").is_some() && named("nothing").is_none());
    }

    #[test]
    fn scattering_counts_twice_and_reading_half() {
        let figure = |pattern: &Pattern| Some(if pattern.name == "beff-scatter" { 12.0 } else { 6.0 });
        assert_eq!(mean_over_types(figure), Some(8.0));
        assert_eq!(mean_over_types(|pattern| (pattern.name != "beff-shared").then_some(1.0)), None);
        assert_eq!(mean_over_operations(4.0, 8.0, 16.0), 11.0);
    }

    #[test]
    fn strided_and_scattered_are_the_formulas_of_their_sources() {
        // IOR with t = b: transfer i of rank r of n at (i × n + r) × t.
        let strided = named("ior-strided").unwrap().access(4, 2, 64, 16);
        assert_eq!(strided.transfers(), [(32, 16), (96, 16), (160, 16), (224, 16)]);
        // Type 0 of b_eff_io: a call's 16 bytes go out in pieces of 1, n apart.
        let scattered = named("beff-scatter").unwrap().access(4, 2, 64, 16);
        assert_eq!(scattered.transfers()[..3], [(2, 1), (6, 1), (10, 1)]);
    }
}
