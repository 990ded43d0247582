//! Nagle's algorithm against delayed acknowledgements: whose small segments were delayed, how often and for how long, if a group waited for
//! that.

use super::groups::Group;
use super::of::Of;
use crate::cause::{Cause, End};
use crate::facts::names::{brief, program};
use crate::limits::numbers as limits;
use crate::observe::stalls::HeldBack;
use crate::waits::place::Place;
use thalweg_base::numbers::{count, duration, whole_percent};

/// The delayed segments in a group's time, if they are half of it or more: in transit, or at an unrecorded server.
pub(super) fn most_of(of: &Of<'_>, group: &Group<'_>) -> Option<HeldBack> {
    if !matches!(group.cause, Cause::NetworkLatency | Cause::ServerUnknown) {
        return None;
    }
    let intervals = of.parts.ledger.path.iter().rev().filter(|on| group.has(on.entry)).map(|on| (on.start, on.end));
    let held = of.parts.facts.wire.stalls.held_back_within(intervals)?;
    (held.ns as f64 >= group.ns as f64 * limits::HELD_BACK_PART).then_some(held)
}

/// The sender: the program, with its end if both ends have one name; the end alone, if the program is unknown.
pub(super) fn sender(of: &Of<'_>, group: &Group<'_>, held: HeldBack) -> String {
    let Some(sender) = held.sender else { return "the sending end".to_owned() };
    let end = if sender == End::Client { "the client" } else { "the server" };
    let name = |actor: u32| brief(&program(of.parts.tables, of.meta, actor));
    match group.largest.place {
        Place::Wire(from, to) => {
            let of_end = |actor: &u32| of.parts.tables.actors.get(*actor as usize).is_some_and(|a| a.end == sender);
            match ([from, to].iter().copied().find(of_end), name(from) == name(to)) {
                (Some(_), true) => format!("{end} {}", name(from)),
                (Some(actor), false) => name(actor),
                (None, _) => end.to_owned(),
            }
        }
        Place::FarEnd { seen_by, side, .. } if side != sender => name(seen_by),
        _ => end.to_owned(),
    }
}

/// A clause, if delayed segments are nearly all of the group: `small segments of tclsh waited for delayed acknowledgements (Nagle: 99 ×
/// 40.8 ms)`.
pub(super) fn clause(of: &Of<'_>, group: &Group<'_>) -> Option<String> {
    let held = most_of(of, group).filter(|held| is_all(group, *held))?;
    Some(waited(of, group, held))
}

/// The addition to a group's clause, if delayed segments are a part of it: `, 52 % of it because small segments of sshd waited …`.
pub(super) fn part(of: &Of<'_>, group: &Group<'_>) -> String {
    let Some(held) = most_of(of, group).filter(|held| !is_all(group, *held)) else { return String::new() };
    format!(", {} of it because {}", whole_percent(held.ns as f64 / group.ns as f64), waited(of, group, held))
}

fn is_all(group: &Group<'_>, held: HeldBack) -> bool {
    held.ns as f64 >= group.ns as f64 * limits::HELD_BACK_ALL
}

fn waited(of: &Of<'_>, group: &Group<'_>, held: HeldBack) -> String {
    let each = duration(held.ns as f64 / 1e9 / held.times as f64);
    let times = if held.times == 1 { format!("once, {each}") } else { format!("{} × {each}", count(held.times)) };
    format!("small segments of {} waited for delayed acknowledgements (Nagle: {times})", sender(of, group, held))
}
