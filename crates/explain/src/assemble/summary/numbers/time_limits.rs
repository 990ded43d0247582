//! Time limits that ran out: waits for a peer that the waiter itself ended.

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

/// How many, and how long they were.
pub(super) fn find(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let Place::TimeLimit { connection, object, .. } = group.largest.place else { return None };
    let each = match group.outlier_s() {
        Some(longest_s) => format!("the longest {}", duration(longest_s)),
        None => format!("{} each", duration(group.mean_s())),
    };
    let sentence = match group.count {
        1 => format!("A time limit of {} ran out, and nothing had come.", duration(group.mean_s())),
        n => format!("{} time limits ran out, {each}, and nothing had come.", count(n)),
    };
    let made = Number { count: Some(group.count), each_s: Some(group.mean_s()), ..number(NumberKind::TimeLimit, sentence) };
    let tables = run.of.parts.tables;
    let how = if connection == NONE && name_server(tables, object).is_some() {
        "have a name server that answers come first in /etc/resolv.conf (`resolvectl dns`); `options timeout:1` shortens the wait"
    } else {
        "find out why it does not answer; until then, a shorter time limit (an option for it, or in the program)"
    };
    let change = format!("an answer from {} at once", silent_peer(tables, connection, object));
    Some(made.raised_by(Raise { id: "time_limit", change, how, gained_ns: group.ns as f64 }))
}
