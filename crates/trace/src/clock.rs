//! Identifies the clock of a host's times.
//!
//! A clock belongs to one boot of one machine and to a time namespace: `monotonic:` followed by [`machine::boot_id`].

use crate::{Host, HostId, Source};
use thalweg_base::machine::{self, UNKNOWN};

const PREFIX: &str = "monotonic:";

/// Error assumed of wall clocks. NTP keeps them within milliseconds; clocks that nothing disciplines may be off by
/// more.
pub(crate) const WALL_CLOCK_ERROR_NS: u64 = 1_000_000_000;

/// How the times of a host relate to those of the reference host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockRelation {
    /// Both have one clock.
    OneClock,
    /// The clocks were aligned by bytes that both ends saw.
    Within {
        /// Half the width of the uncertainty, where it is largest.
        error_ns: u64,
    },
    /// Only wall clocks relate the two, which do not order events of both hosts.
    WallClocks {
        /// Half the width of the uncertainty.
        error_ns: u64,
    },
    /// Nothing relates the two clocks.
    Unknown,
}

impl ClockRelation {
    /// Returns the alignment of a host of a recording; `None` for the reference host.
    pub fn of(source: &dyn Source, host: &Host) -> Option<ClockRelation> {
        let reference = source.hosts().iter().find(|host| host.host == HostId(0)).or(source.hosts().first())?;
        if reference.host == host.host {
            return None;
        }
        let error_ns = source.clocks().iter().filter(|clock| clock.host == host.host).map(|clock| clock.error_ns).max();
        let one = reference.clock == host.clock || between(&reference.clock, &host.clock).is_some();
        Some(match error_ns {
            Some(error_ns) if error_ns >= WALL_CLOCK_ERROR_NS => ClockRelation::WallClocks { error_ns },
            None | Some(0) if one => ClockRelation::OneClock,
            Some(error_ns) => ClockRelation::Within { error_ns },
            None => ClockRelation::Unknown,
        })
    }
}

impl Host {
    /// Returns this machine as a row of a recording.
    pub fn here(host: HostId, node: &str) -> Host {
        Host {
            host,
            name: machine::host_name(),
            node: node.to_owned(),
            clock: clock(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpus: std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        }
    }
}

/// Returns this machine's monotonic clock, for [`Host::clock`].
fn clock() -> String {
    format!("{PREFIX}{}", machine::boot_id())
}

/// Returns how far `other` is ahead of `reference`, in nanoseconds, if both are clocks of the same boot of one
/// machine.
pub(crate) fn between(reference: &str, other: &str) -> Option<i64> {
    let ((boot, reference_ns), (other_boot, other_ns)) = (parts(reference)?, parts(other)?);
    if boot != other_boot || boot.len() < 8 || boot == UNKNOWN {
        return None;
    }
    if reference == other { Some(0) } else { other_ns?.checked_sub(reference_ns?) }
}

/// Splits a clock into its boot and the offset of its time namespace, if known.
fn parts(clock: &str) -> Option<(&str, Option<i64>)> {
    let name = clock.strip_prefix(PREFIX)?;
    Some(match name.split_once('@') {
        None => (name, Some(0)),
        Some((boot, ahead)) => (boot, ahead.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = "monotonic:d2f1a9b0-0000-4000-8000-000000000001";

    #[test]
    fn clocks_of_one_boot_differ_by_what_their_namespaces_add() {
        let ahead = |ns: i64| format!("{BOOT}@{ns:+}");
        assert_eq!(between(BOOT, BOOT), Some(0));
        assert_eq!(between(BOOT, &ahead(5_000)), Some(5_000));
        assert_eq!(between(&ahead(5_000), &ahead(-2_000)), Some(-7_000));
        let unknown = format!("{BOOT}@time:[4026532277]");
        assert_eq!((between(BOOT, &unknown), between(&unknown, &unknown)), (None, Some(0)));
        assert_eq!(between(BOOT, "monotonic:d2f1a9b0-0000-4000-8000-000000000002"), None);
        for nobodys in ["monotonic:unknown", "monotonic:", "capture:a.pcapng", "monotonic:boot"] {
            assert_eq!(between(nobodys, nobodys), None, "{nobodys}");
        }
        assert!(clock().starts_with("monotonic:"));
    }
}
