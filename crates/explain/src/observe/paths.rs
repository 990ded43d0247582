//! Round trips of paths, the ones reported for connections.
//!
//! TCP keeps two: a smoothed one, with queues, delayed acknowledgements and late processors, and the least it ever measured, which is the
//! path itself. The smoothed one of a connection to the machine itself may be 20 ms, with nothing on the path at all; so the least is
//! reported everywhere. It is the least that either end measured on any connection between the same two hosts to the same port of a server:
//! their distance is one number, however many connections there were.

use super::tables::Tables;
use crate::limits::observe as limits;
use std::collections::HashMap;

/// TCP's measurements on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    /// Least round trip at either end, in microseconds.
    pub least_us: Option<i64>,
    /// Whether only smoothed round trips were recorded, and `least_us` is their minimum.
    pub is_smoothed: bool,
}

/// By connection: least round trip of its path, in microseconds.
pub(super) fn least_us(tables: &Tables, measured: &[Measured]) -> Vec<Option<i64>> {
    let path = |connection: usize| tables.ends(connection as u32).map(|(client, server)| (host(client), server));
    let mut least: HashMap<(&str, &str), i64> = HashMap::new();
    let known = |connection: usize| {
        let Measured { least_us, is_smoothed } = measured[connection];
        // Nothing is on the path: the smoothed value is the lateness of acknowledgements.
        let is_late = |us: i64| is_smoothed && us >= limits::LATE_US && tables.is_within_machine(connection as u32);
        least_us.filter(|&us| !is_late(us))
    };
    for (path, us) in (0..measured.len()).filter_map(|connection| Some((path(connection)?, known(connection)?))) {
        least.entry(path).and_modify(|least| *least = us.min(*least)).or_insert(us);
    }
    (0..measured.len()).map(|connection| path(connection).map_or_else(|| known(connection), |path| least.get(&path).copied())).collect()
}

/// The host of an address.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}
