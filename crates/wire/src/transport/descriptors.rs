//! File descriptors of a server process: the limit, and its division.
//!
//! Connections, open datafiles and new connections share the process's limit. Each has a part that the others cannot use: a crowd
//! of connections without greeting takes no descriptor from an authenticated client or a datafile. The servers of a process
//! divide a part evenly.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper limit: the process needs no more descriptors.
const MOST: u64 = 1 << 20;

static SERVERS: AtomicU64 = AtomicU64::new(0);
static TARGETS: AtomicU64 = AtomicU64::new(0);

/// The descriptors one server or target may use for each purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// A server's established connections.
    pub connections: usize,
    /// A server's connections still to be authenticated.
    pub newcomers: usize,
    /// A target's datafiles kept open.
    pub datafiles: usize,
}

impl Shares {
    /// Divides the descriptors: half for connections, an eighth for new connections, a quarter for datafiles. The last eighth is
    /// for everything else: listeners, the database, the log.
    pub fn of(descriptors: u64, servers: u64, targets: u64) -> Shares {
        let share = |part: u64, among: u64| usize::try_from((part / among.max(1)).max(1)).unwrap_or(usize::MAX);
        Shares {
            connections: share(descriptors / 2, servers),
            newcomers: share(descriptors / 8, servers),
            datafiles: share(descriptors / 4, targets),
        }
    }

    /// Returns the present division.
    pub fn now() -> Shares {
        Shares::of(raise(), SERVERS.load(Ordering::Relaxed), TARGETS.load(Ordering::Relaxed))
    }
}

/// Raises the process's descriptor limit to its hard limit, once; returns the limit.
pub fn raise() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let before = getrlimit(Resource::Nofile);
        let wanted = before.maximum.unwrap_or(MOST).min(MOST);
        if before.current.is_some_and(|current| current < wanted) {
            // If the limit cannot be raised, the shares are smaller.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: before.maximum });
        }
        getrlimit(Resource::Nofile).current.unwrap_or(MOST).min(MOST)
    })
}

/// Counts as a server or target while it exists.
pub struct Counted(&'static AtomicU64);

impl Counted {
    /// Counts a server of this process.
    pub(crate) fn server() -> Counted {
        Counted::one(&SERVERS)
    }

    /// Counts a target of this process.
    pub fn target() -> Counted {
        Counted::one(&TARGETS)
    }

    fn one(of: &'static AtomicU64) -> Counted {
        of.fetch_add(1, Ordering::Relaxed);
        Counted(of)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_all_servers_and_targets_never_exceed_the_limit_and_nobody_has_none() {
        for descriptors in [256, 1024, 4096, 20_000, MOST] {
            for (servers, targets) in [(1, 0), (1, 1), (5, 4), (17, 64)] {
                let shares = Shares::of(descriptors, servers, targets);
                let all = (shares.connections + shares.newcomers) as u64 * servers + shares.datafiles as u64 * targets;
                assert!(all <= descriptors - descriptors / 8, "{descriptors}, {servers}, {targets}: {shares:?}");
                assert!(shares.connections > 1 && shares.newcomers > 0 && shares.datafiles > 0, "{shares:?}");
            }
        }
        assert_eq!(Shares::of(0, 0, 0).connections, 1, "nothing is divided by nothing");
    }
}
