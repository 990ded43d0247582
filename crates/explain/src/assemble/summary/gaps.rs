//! Regular pauses of a transfer: their length, and the bytes between them.

use super::of::Of;
use crate::document::GapGroup;
use crate::limits::summary as limits;
use crate::observe::observation::Way;
use thalweg_base::numbers::{count, duration, size};

/// `A gap of 17.0 ms every 10.0 MiB, 9 times.`, for the network direction that moved most. Gaps due to the network (round trips, windows, a
/// draining queue) do not count, nor do those between small requests, which have a number of their own.
pub(super) fn sentence(of: &Of<'_>) -> Option<String> {
    let way = of.parts.ways().first().copied().filter(|way| !matches!(way, Way::ClientWrites | Way::ClientReads))?;
    let gaps = of.parts.gaps(&of.parts.carried(way).gathered, of.charges);
    let is_regular = |group: &&GapGroup| {
        !group.cause.is_network()
            && group.count >= limits::FEWEST_GAPS
            && group.total_s >= of.parts.wall_s() * limits::GAPS_SHARE
            && group.p99_s <= group.median_s * limits::ALIKE_GAPS
            && group.period_bytes.is_some_and(|bytes| bytes >= limits::LEAST_PERIOD)
    };
    let group = gaps.groups.iter().find(is_regular)?;
    let (each, apart) = (duration(group.median_s), size(group.period_bytes?));
    Some(format!("A gap of {each} every {apart}, {} times.", count(group.count)))
}
