//! Expired timeouts: waits for a peer that the waiter itself ended.

use super::super::groups::Group;
use super::raise::Behind;
use super::run::Run;
use super::words::number;
use crate::document::{Number, NumberKind};
use crate::facts::raise::Raise;
use crate::observe::index::NONE;
use crate::path::names::{name_server, silent_peer};
use crate::waits::place::Place;
use thalweg_base::numbers::{count, duration};

/// How many expired, and their lengths.
pub(super) fn find(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let Place::TimeLimit { connection, object, .. } = group.largest.place else { return None };
    let each = match group.outlier_s() {
        Some(longest_s) => format!("the longest {}", duration(longest_s)),
        None => format!("{} each", duration(group.mean_s())),
    };
    let sentence = match group.count {
        1 => format!("A timeout of {} expired with nothing received.", duration(group.mean_s())),
        n => format!("{} timeouts expired with nothing received, {each}.", count(n)),
    };
    let made = Number { count: Some(group.count), each_s: Some(group.mean_s()), ..number(NumberKind::TimeLimit, sentence) };
    let tables = run.of.parts.tables;
    let how = if connection == NONE && name_server(tables, object).is_some() {
        "put a name server that answers first in /etc/resolv.conf (`resolvectl dns`); `options timeout:1` shortens the wait"
    } else {
        "find out why it does not answer; until then, set a shorter timeout (by an option, or in the program)"
    };
    let change = format!("an immediate answer from {}", silent_peer(tables, connection, object));
    Some(made.raised_by(Raise { id: "time_limit", change, how, gained_ns: group.ns as f64 }))
}
