//! Alignment of two clocks: with synthetic delays, and through whole recordings that are merged.

use super::*;
use crate::HostId;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
/// The map need not hold beyond the bounds.
#[allow(clippy::reversed_empty_ranges, reason = "an empty range that any instant widens")]
const NOTHING: std::ops::Range<i64> = i64::MAX..i64::MIN;

impl Alignment {
    /// Returns the largest error within the bounded interval.
    fn error_ns(&self) -> u64 {
        largest_error_ns(&self.clocks, &self.bounded)
    }
}

/// Another machine's clock as a function of the reference's.
#[derive(Clone, Copy, Debug)]
struct Other {
    offset_ns: i64,
    drift_ppb: i64,
}

impl Other {
    fn at(self, reference_ns: i64) -> i64 {
        let drift = i128::from(reference_ns) * i128::from(self.drift_ppb) / i128::from(SECOND);
        reference_ns + self.offset_ns + drift as i64
    }
}

/// Returns a path delay: never below `least_ns`, sometimes far above.
fn delay_ns(least_ns: i64, random: u64) -> i64 {
    let queue = (random % 1_000) as i64;
    let rare = if random.is_multiple_of(13) { 5_000_000 } else { 0 };
    least_ns + if random.is_multiple_of(17) { 0 } else { queue * queue / 4 + rare }
}

/// A generator with a fixed seed, so that failures are reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
    }
}

/// Returns the bounds that a conversation over a path with these least delays gives.
fn conversation(other: Other, seconds: i64, per_second: i64, least_ns: (i64, i64), seed: u64) -> Bounds {
    let (mut bounds, mut random) = (Bounds::default(), Random(seed | 1));
    for i in 0..seconds * per_second {
        let now_ns = 1_000 * SECOND + i * SECOND / per_second;
        let there_ns = now_ns + delay_ns(least_ns.0, random.next());
        bounds.sent_by_reference(now_ns, other.at(there_ns));
        let back_ns = there_ns + delay_ns(least_ns.1, random.next());
        bounds.sent_by_host(other.at(there_ns), back_ns);
    }
    bounds
}

/// Returns the largest difference between the map and the truth, and whether it was always within the error bar.
fn off_by(clocks: &[Clock], other: Other, seconds: i64) -> (i64, bool) {
    let axis = Axis::new(clocks, &[], &[]);
    let (mut worst, mut within) = (0, true);
    for i in 0..=seconds * 10 {
        let truth_ns = 1_000 * SECOND + i * SECOND / 10;
        let host_ns = other.at(truth_ns);
        let off = (axis.to_reference(HostId(0), host_ns) - truth_ns).abs();
        let error_ns = clocks.iter().rev().find(|c| c.from_ns <= host_ns).or(clocks.first()).unwrap().error_ns;
        worst = worst.max(off);
        within &= off <= error_ns as i64 + 10;
    }
    (worst, within)
}

#[test]
fn a_clock_seconds_off_that_drifts_is_aligned_within_the_least_one_way_delay() {
    for (offset_ns, drift_ppb) in [(7 * SECOND, 100_000), (-3_333_333_333, -100_000), (0, 0), (86_400 * SECOND, 37_000)] {
        let other = Other { offset_ns, drift_ppb };
        let alignment = align_bounds(&conversation(other, 20, 500, (100_000, 100_000), 5), NOTHING).unwrap();
        let (off_ns, within) = off_by(&alignment.clocks, other, 20);
        assert!(off_ns <= 100_000, "{off_ns} ns off, with {alignment:?}");
        assert!(within && alignment.error_ns() <= 250_000, "{off_ns} ns off, {} ns claimed", alignment.error_ns());
    }
}

#[test]
fn an_hour_of_drift_that_changes_is_followed() {
    let (mut bounds, mut random) = (Bounds::default(), Random(9));
    // The other clock runs 100 ppm fast for half an hour, then 20 ppm slow.
    let bent = |ns: i64| 5 * SECOND + ns + if ns < 1_800 * SECOND { ns / 10_000 } else { 180_000_000 - (ns - 1_800 * SECOND) / 50_000 };
    for i in 0..3_600 * 20_i64 {
        let now_ns = i * SECOND / 20;
        let there_ns = now_ns + delay_ns(50_000, random.next());
        bounds.sent_by_reference(now_ns, bent(there_ns));
        bounds.sent_by_host(bent(there_ns), there_ns + delay_ns(50_000, random.next()));
    }
    let alignment = align_bounds(&bounds, NOTHING).unwrap();
    assert!((30..=200).contains(&alignment.clocks.len()), "{} pieces", alignment.clocks.len());
    let axis = Axis::new(&alignment.clocks, &[], &[]);
    let off = |ns: i64| (axis.to_reference(HostId(0), bent(ns)) - ns).abs();
    let mut offs: Vec<i64> = (0..3_600).map(|s| off(s * SECOND)).collect();
    offs.sort_unstable();
    assert!(offs[offs.len() * 98 / 100] <= 50_000, "{} ns", offs[offs.len() * 98 / 100]);
    // No line satisfies both sides only at the bend; the error bar is wide there.
    let worst = (0..3_600).max_by_key(|s| off(s * SECOND)).unwrap();
    let piece = alignment.clocks.iter().rev().find(|c| c.from_ns <= bent(worst * SECOND)).unwrap();
    assert!(off(worst * SECOND) <= piece.error_ns as i64 + 10, "at {worst} s: {} ns, {piece:?}", off(worst * SECOND));
}

#[test]
fn beyond_the_bytes_that_were_seen_the_error_bar_grows_and_holds() {
    // A server recorded for a minute on either side of one second of traffic.
    let other = Other { offset_ns: 7 * SECOND, drift_ppb: 100_000 };
    let covers = other.at(940 * SECOND)..other.at(1_061 * SECOND);
    let alignment = align_bounds(&conversation(other, 1, 500, (50_000, 50_000), 11), covers).unwrap();
    assert!(alignment.error_ns() < 300_000, "{alignment:?}");
    let axis = Axis::new(&alignment.clocks, &[], &[]);
    for second in 940..=1_061 {
        let host_ns = other.at(second * SECOND);
        let off_ns = axis.to_reference(HostId(0), host_ns) - second * SECOND;
        let piece = alignment.clocks.iter().rev().find(|c| c.from_ns <= host_ns).unwrap();
        assert!(off_ns.unsigned_abs() <= piece.error_ns + 10, "at {second} s: {off_ns} ns, {piece:?}");
    }
}

#[test]
fn a_few_false_stamps_do_not_move_the_clock() {
    let other = Other { offset_ns: SECOND, drift_ppb: 50_000 };
    let mut bounds = conversation(other, 20, 500, (100_000, 100_000), 3);
    // Timestamps that say a byte was received 30 ms before it was sent.
    for second in [3, 11] {
        let now_ns = (1_000 + second) * SECOND;
        bounds.sent_by_reference(now_ns + 30_000_000, other.at(now_ns));
    }
    let alignment = align_bounds(&bounds, NOTHING).unwrap();
    assert_eq!(alignment.contradictions, 2);
    let (off_ns, within) = off_by(&alignment.clocks, other, 20);
    assert!(off_ns <= 100_000 && within, "{off_ns} ns off, with {alignment:?}");
}

#[test]
fn bytes_in_one_direction_only_are_said_to_be_that() {
    let mut bounds = Bounds::default();
    (0..100).for_each(|i| bounds.sent_by_reference(i * SECOND, i * SECOND + 5_000 + 100_000));
    let alignment = align_bounds(&bounds, NOTHING).unwrap();
    assert!(alignment.one_way && alignment.error_ns() >= 4_000_000, "{alignment:?}");
    assert_eq!(align_bounds(&Bounds::default(), NOTHING), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the delays, the truth is within the error bar, and the bar is no wider than the least round trip
    /// requires.
    #[test]
    fn the_truth_is_within_the_error_bar(
        offset_ns in -100 * SECOND..100 * SECOND,
        drift_ppb in -100_000_i64..100_000,
        there_ns in 1_000_i64..2_000_000,
        back_ns in 1_000_i64..2_000_000,
        seconds in 1_i64..40,
        seed in any::<u64>(),
    ) {
        let other = Other { offset_ns, drift_ppb };
        let alignment = align_bounds(&conversation(other, seconds, 300, (there_ns, back_ns), seed), NOTHING).unwrap();
        let (off_ns, within) = off_by(&alignment.clocks, other, seconds);
        prop_assert!(within, "{} ns off, with {:?}", off_ns, alignment);
        // Half of the least round trip is unknowable; noise adds little.
        let bar_ns = alignment.error_ns() as i64;
        prop_assert!(bar_ns <= (there_ns + back_ns) / 2 + 1_500_000, "{} for {} + {}", bar_ns, there_ns, back_ns);
    }
}

/// Makes a conversation with some wrong timestamps: bytes reported unsent, or received, when the opposite was true.
fn with_false_stamps(other: Other, milliseconds: i64, least_ns: (i64, i64), false_stamps: u64, random: &mut Random) -> Bounds {
    let (mut bounds, begun_ns) = (Bounds::default(), 1_000 * SECOND);
    for i in 0..milliseconds / 2 {
        let now_ns = begun_ns + i * 2_000_000;
        let there_ns = now_ns + delay_ns(least_ns.0, random.next());
        bounds.sent_by_reference(now_ns, other.at(there_ns));
        bounds.sent_by_host(other.at(there_ns + 300_000), there_ns + 300_000 + delay_ns(least_ns.1, random.next()));
    }
    for n in 0..false_stamps {
        let at_ns = begun_ns + (random.next() % milliseconds as u64) as i64 * 1_000_000;
        let late_ns = (random.next() % 100_000) as i64;
        match n % 2 {
            0 => bounds.sent_by_reference(at_ns + late_ns, other.at(at_ns + least_ns.0)),
            _ => bounds.sent_by_host(other.at(at_ns + late_ns), at_ns + least_ns.1),
        }
    }
    bounds
}

#[test]
fn the_truth_is_within_the_error_bar_of_a_thousand_random_alignments_with_stamps_that_were_late() {
    let mut random = Random(0x5eed);
    let mut pick = |from: i64, to: i64| from + (random.next() % (to - from) as u64) as i64;
    let cases: Vec<_> = (0..1_000)
        .map(|_| {
            let offset_ns = [pick(-SECOND, SECOND), pick(-90_000 * SECOND, 90_000 * SECOND), -5_000 * SECOND][pick(0, 3) as usize];
            let drift_ppb = [0, pick(-100_000, 100_000)][pick(0, 2) as usize];
            (
                Other { offset_ns, drift_ppb },
                pick(100, 3_000),
                (pick(2_000, 200_000), pick(2_000, 200_000)),
                pick(0, 4) as u64,
                pick(1, i64::MAX),
            )
        })
        .collect();
    for (number, (other, milliseconds, least_ns, false_stamps, seed)) in cases.into_iter().enumerate() {
        let bounds = with_false_stamps(other, milliseconds, least_ns, false_stamps, &mut Random(seed as u64 | 1));
        let alignment = align_bounds(&bounds, NOTHING).unwrap();
        let axis = Axis::new(&alignment.clocks, &[], &[]);
        for share in 0..=10 {
            let truth_ns = 1_000 * SECOND + milliseconds * 100_000 * share;
            let off_ns = axis.to_reference(HostId(0), other.at(truth_ns)) - truth_ns;
            assert!(
                off_ns.unsigned_abs() <= alignment.error_ns() + 10,
                "{number}: {off_ns} ns off with {false_stamps} false stamps in {milliseconds} ms over {least_ns:?} ns: {alignment:?}"
            );
        }
        // No wider than twice the round trip, plus what queues add where bounds are few.
        let most_ns = (least_ns.0 + least_ns.1) + 250_000;
        assert!(alignment.error_ns() as i64 <= most_ns, "{number}: {} of {most_ns} ns", alignment.error_ns());
    }
}
