//! Validity of a lot's name, size and duration, and its shares on a number of targets. Pure; arithmetic on clients' numbers is checked.

use thalweg_base::numbers::size;
use thalweg_wire::limits;
use thalweg_wire::protocol::lots::Lot;
use thalweg_wire::protocol::metadata::TargetId;
use thalweg_wire::protocol::names::is_label;
use thalweg_wire::trust::NAME_BYTES;
use thalweg_wire::{Error, ErrorKind, Result};

/// The block size of which shares are multiples.
pub(crate) const BLOCK_BYTES: u64 = 4096;

fn invalid<T>(problem: String) -> Result<T> {
    Err(Error::new(ErrorKind::Invalid, problem))
}

/// Checks a name of a lot or an owner (`what`).
///
/// # Errors
/// [`ErrorKind::Invalid`] with what is expected.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if !is_label(name, NAME_BYTES) {
        let shown: String = name.chars().take(NAME_BYTES).collect();
        return invalid(format!(
            "`{shown}` is not a name for {what}: expected 1 to {NAME_BYTES} letters, digits, dots, dashes and underscores"
        ));
    }
    Ok(())
}

/// Checks a lot's size.
///
/// # Errors
/// [`ErrorKind::Invalid`] with what is expected.
pub(crate) fn check_size(size_bytes: u64) -> Result<()> {
    match size_bytes {
        0 => invalid("a lot of 0 bytes: expected a size of at least 1 byte".to_owned()),
        bytes if bytes >= limits::LOT_BYTES => {
            invalid(format!("a lot of {bytes} bytes: expected less than {} ({} bytes)", size(limits::LOT_BYTES), limits::LOT_BYTES))
        }
        _ => Ok(()),
    }
}

/// Returns when a lot ends that lasts this long from now on.
///
/// # Errors
/// [`ErrorKind::Invalid`] with what is expected.
pub(crate) fn until_ns(now_ns: i64, for_ns: u64) -> Result<i64> {
    let until = i64::try_from(for_ns).ok().filter(|_| for_ns <= limits::LOT_NS).and_then(|for_ns| now_ns.checked_add(for_ns));
    let most = limits::LOT_NS / 1_000_000_000 / 86_400 / 365;
    until.ok_or(()).or_else(|()| invalid(format!("a lot for {} days: expected at most {most} years", for_ns / 86_400_000_000_000)))
}

/// Returns the end of a new lot, whose duration must not be 0.
///
/// # Errors
/// [`ErrorKind::Invalid`] with what is expected.
pub(crate) fn new_until_ns(now_ns: i64, for_ns: u64) -> Result<i64> {
    match for_ns {
        0 => invalid("a lot without a duration: give one, as in --for 7d".to_owned()),
        _ => until_ns(now_ns, for_ns),
    }
}

/// Returns the initial share of each target, for a lot of this size.
pub(crate) fn share_bytes(size_bytes: u64, targets: usize) -> u64 {
    size_bytes.div_ceil(targets.max(1) as u64).next_multiple_of(BLOCK_BYTES)
}

/// Returns the maximum sum of a lot's shares, reached when none is being moved.
pub(crate) fn whole_bytes(size_bytes: u64, targets: usize) -> u64 {
    share_bytes(size_bytes, targets).saturating_mul(targets.max(1) as u64)
}

/// Returns the part of a lot that no target holds at present.
pub(crate) fn rest_bytes(lot: &Lot) -> u64 {
    let kept: u64 = lot.shares.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
    whole_bytes(lot.size_bytes, lot.shares.len()).saturating_sub(kept)
}

/// Returns the shares of a lot with a new size: used space stays, and the rest is spread evenly, in whole blocks.
///
/// # Errors
/// [`ErrorKind::Invalid`] if more is used.
pub(crate) fn resized(used: &[(TargetId, u64)], size_bytes: u64) -> Result<Vec<(TargetId, u64)>> {
    let whole = whole_bytes(size_bytes, used.len());
    let in_use: Vec<u64> = used.iter().map(|(_, bytes)| bytes.saturating_add(BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES).collect();
    let all_used = in_use.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    let Some(free) = whole.checked_sub(all_used) else {
        return invalid(format!("{} of it is used: {} is too small", size(all_used), size(size_bytes)));
    };
    // The most even shares that are not below the use: fill up from the lowest.
    let mut shares = in_use;
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|at| shares[*at]);
    let mut left = free / BLOCK_BYTES;
    for many in 1..=order.len() {
        let lowest = shares[order[0]];
        let next = order.get(many).map_or(u64::MAX, |at| shares[*at]);
        let room = (next - lowest) / BLOCK_BYTES;
        let each = (left / many as u64).min(room);
        order[..many].iter().for_each(|at| shares[*at] += each * BLOCK_BYTES);
        left -= each * many as u64;
        if each < room {
            break;
        }
    }
    for at in order.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
        shares[*at] += BLOCK_BYTES;
    }
    Ok(used.iter().map(|(target, _)| *target).zip(shares).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_sizes_and_times_that_cannot_be_are_refused_with_what_can() {
        for good in ["a", "run-7.2_b", &"x".repeat(63)] {
            check_name("a lot", good).unwrap();
        }
        for bad in ["", "a b", "a/b", "ä", &"x".repeat(64)] {
            assert!(check_name("a lot", bad).unwrap_err().message().contains("1 to 63 letters"), "{bad}");
        }
        assert!(check_size(0).unwrap_err().message().contains("at least 1 byte"));
        check_size(1).unwrap();
        check_size((1 << 63) - 1).unwrap();
        for bytes in [1 << 63, u64::MAX] {
            assert!(check_size(bytes).unwrap_err().message().contains("less than"));
        }
        let year = 365 * 86_400_000_000_000_u64;
        assert!(new_until_ns(5, 0).unwrap_err().message().contains("--for 7d"));
        assert_eq!(until_ns(5, 0).unwrap(), 5);
        assert_eq!(until_ns(5, 100 * year).unwrap(), 5 + 100 * year as i64);
        for for_ns in [100 * year + 1, 1 << 63, u64::MAX] {
            assert!(until_ns(5, for_ns).unwrap_err().message().contains("at most 100 years"));
        }
        assert!(until_ns(i64::MAX - 5, year).is_err());
    }

    proptest! {
        #[test]
        fn shares_hold_the_size_in_whole_blocks(bytes in 1..limits::LOT_BYTES, targets in 1..5000_usize) {
            let share = share_bytes(bytes, targets);
            prop_assert!(share.is_multiple_of(BLOCK_BYTES) && u128::from(share) * targets as u128 >= u128::from(bytes));
            prop_assert!(u128::from(whole_bytes(bytes, targets)) < u128::from(bytes) + targets as u128 * 4097);
        }

        #[test]
        fn a_lot_of_another_size_keeps_what_is_used_and_is_as_even_as_that_allows(
            used in prop::collection::vec(0..1_u64 << 40, 1..40), bytes in 1..1_u64 << 46,
        ) {
            let used: Vec<_> = (0..).map(TargetId).zip(used).collect();
            let all: u64 = used.iter().map(|(_, bytes)| bytes.next_multiple_of(BLOCK_BYTES)).sum();
            let whole = whole_bytes(bytes, used.len());
            match resized(&used, bytes) {
                Err(_) => prop_assert!(all > whole),
                Ok(shares) => {
                    prop_assert_eq!(shares.iter().map(|(_, bytes)| bytes).sum::<u64>(), whole);
                    let least = shares.iter().map(|(_, bytes)| *bytes).min().unwrap();
                    for ((_, share), (_, used)) in shares.iter().zip(&used) {
                        prop_assert!(share >= used && share % BLOCK_BYTES == 0);
                        // A share above the minimum is due to its use, up to a block.
                        prop_assert!(*share <= least + BLOCK_BYTES || *share == used.next_multiple_of(BLOCK_BYTES));
                    }
                }
            }
        }
    }
}
