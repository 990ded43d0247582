//! Whether a lot fits, why not, and when it would. Pure.

use std::fmt::Write;
use thalweg_base::numbers::size;
use thalweg_base::utc::utc_minute;
use thalweg_wire::protocol::metadata::TargetId;

/// A promise of another lot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    pub until_ns: i64,
    /// Its unused bytes.
    pub unused_bytes: u64,
}

/// A file system that is to hold a part of a lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSystem {
    /// The lot's targets there.
    pub targets: Vec<TargetId>,
    /// Bytes requested of them together.
    pub asked_bytes: u64,
    /// Free bytes.
    pub free_bytes: u64,
    /// Promises of other lots.
    pub promises: Vec<Promise>,
}

impl FileSystem {
    /// Returns unused bytes that are promised beyond this time.
    pub(super) fn promised_bytes(&self, at_ns: i64) -> u64 {
        let lasting = self.promises.iter().filter(|promise| promise.until_ns > at_ns);
        lasting.fold(0, |sum: u64, promise| sum.saturating_add(promise.unused_bytes))
    }

    fn fits(&self, at_ns: i64) -> bool {
        self.free_bytes.checked_sub(self.promised_bytes(at_ns)).is_some_and(|room| room >= self.asked_bytes)
    }

    /// Returns the bytes missing at this time.
    pub(super) fn missing_bytes(&self, at_ns: i64) -> u64 {
        self.asked_bytes.saturating_add(self.promised_bytes(at_ns)).saturating_sub(self.free_bytes)
    }
}

/// Returns the first time from now on at which the lot fits everywhere, if nothing else changes; `None` if never.
pub(super) fn when(file_systems: &[FileSystem], now_ns: i64) -> Option<i64> {
    let ends = file_systems.iter().flat_map(|file_system| &file_system.promises).map(|promise| promise.until_ns);
    let mut moments: Vec<i64> = ends.filter(|end| *end > now_ns).chain([now_ns]).collect();
    moments.sort_unstable();
    moments.into_iter().find(|at| file_systems.iter().all(|file_system| file_system.fits(*at)))
}

/// Describes the shortage, and when the lot would fit; `None` if the numbers show none.
pub(super) fn shortage(name: &str, size_bytes: u64, file_systems: &[FileSystem], now_ns: i64) -> Option<String> {
    let at = when(file_systems, now_ns);
    if at == Some(now_ns) {
        return None;
    }
    let mut text = format!("lot `{name}` of {} does not fit", size(size_bytes));
    let mut separator = ": ";
    for file_system in file_systems.iter().filter(|file_system| !file_system.fits(now_ns)) {
        let targets: Vec<String> = file_system.targets.iter().map(ToString::to_string).collect();
        let many = if targets.len() == 1 { "target" } else { "targets" };
        let (asked, free, promised) =
            (size(file_system.asked_bytes), size(file_system.free_bytes), size(file_system.promised_bytes(now_ns)));
        let _ = write!(text, "{separator}{many} {}: {asked} asked, {free} free, {promised} of that promised", targets.join(", "));
        separator = "; ";
        if text.len() > thalweg_wire::limits::ERROR_TEXT_BYTES / 2 {
            text.push_str("; ...");
            break;
        }
    }
    match at {
        Some(at) => {
            let _ = write!(text, "; {} from {}, when other lots end", size(size_bytes), utc_minute(at));
        }
        None => text.push_str("; no lot's end makes room for it: ask for less, or remove files"),
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GI: u64 = 1 << 30;
    /// 2026-11-25 12:00 UTC.
    const NOON: i64 = 1_795_608_000_000_000_000;
    const HOUR: i64 = 3_600_000_000_000;

    fn file_system(target: u32, asked: u64, free: u64, promises: &[(i64, u64)]) -> FileSystem {
        let promises = promises.iter().map(|(hours, gib)| Promise { until_ns: NOON + hours * HOUR, unused_bytes: gib * GI }).collect();
        FileSystem { targets: vec![TargetId(target)], asked_bytes: asked * GI, free_bytes: free * GI, promises }
    }

    #[test]
    fn a_lot_that_does_not_fit_is_refused_with_the_numbers_and_when_it_would() {
        let file_systems = [file_system(0, 40, 60, &[(2, 10), (5, 30)]), file_system(1, 40, 60, &[(1, 15), (3, 15)])];
        assert_eq!(when(&file_systems, NOON), Some(NOON + 5 * HOUR));
        let text = shortage("run", 80 * GI, &file_systems, NOON).unwrap();
        assert_eq!(
            text,
            "lot `run` of 80 GiB does not fit: target 0: 40 GiB asked, 60 GiB free, 40 GiB of that promised; target 1: 40 GiB asked, \
             60 GiB free, 30 GiB of that promised; 80 GiB from 2026-11-25 17:00 UTC, when other lots end"
        );
        let never = [file_system(3, 40, 39, &[(1, 20)])];
        assert_eq!(when(&never, NOON), None);
        assert!(
            shortage("run", 40 * GI, &never, NOON)
                .unwrap()
                .contains("target 3: 40 GiB asked, 39 GiB free, 20 GiB of that promised; no lot's end")
        );
        let ended = [file_system(0, 40, 60, &[(-1, 50)])];
        assert_eq!(when(&ended, NOON), Some(NOON), "what has ended promises nothing");
        assert_eq!(shortage("run", 40 * GI, &ended, NOON), None, "nobody is refused for want of room that there is");
    }

    proptest! {
        #[test]
        fn it_fits_when_it_is_said_to_and_not_before(
            file_systems in prop::collection::vec((1..50_u64, 0..100_u64, prop::collection::vec((-3..10_i64, 0..40_u64), 0..6)), 1..5),
        ) {
            let file_systems: Vec<FileSystem> =
                file_systems.iter().map(|(asked, free, promises)| file_system(0, *asked, *free, promises)).collect();
            let all_fit = |at| file_systems.iter().all(|file_system| file_system.fits(at));
            match when(&file_systems, NOON) {
                Some(at) => {
                    prop_assert!(all_fit(at));
                    prop_assert!(at == NOON || !all_fit(at - 1));
                    prop_assert!((0..20).all(|later| all_fit(at + later * HOUR)), "and for good");
                }
                None => prop_assert!((0..20).all(|later| !all_fit(NOON + later * HOUR))),
            }
        }
    }
}
