//! The round trip that is said of a connection: one for each path.
//!
//! TCP keeps two: a smoothed one, with its queues, its delayed acknowledgements and the processors that were late, and the least that it ever measured,
//! which is the way itself. The smoothed one of a connection to the machine itself may be 20 ms, where nothing is on the way at all; so the least is said,
//! everywhere. It is the least that either end measured on any connection between the same two hosts to the same port of a server: how far those are from
//! each other is one number, however many connections there were.

use super::tables::Tables;
use crate::limits::observe as limits;
use std::collections::HashMap;

/// What TCP measured on a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    /// The least round trip at either end, microseconds.
    pub least_us: Option<i64>,
    /// Whether that is only the least of the smoothed ones.
    pub is_smoothed: bool,
}

/// By connection: the least round trip of its path, microseconds.
pub(super) fn least_us(tables: &Tables, measured: &[Measured]) -> Vec<Option<i64>> {
    let path = |connection: usize| tables.ends(connection as u32).map(|(client, server)| (host(client), server));
    let mut least: HashMap<(&str, &str), i64> = HashMap::new();
    let known = |connection: usize| {
        let Measured { least_us, is_smoothed } = measured[connection];
        // Nothing is on the way there: what is smoothed is what acknowledgements were late by.
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
