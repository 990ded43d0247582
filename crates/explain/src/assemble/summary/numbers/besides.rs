//! The work that a server did for other programs' clients while the command waited for it.

use super::super::groups::Group;
use super::raise::Behind;
use super::run::Run;
use super::words::number;
use crate::cause::End;
use crate::document::{Number, NumberKind};
use crate::facts::names::{brief, program};
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use crate::waits::place::Place;
use thalweg_base::numbers::whole_percent;

const NO_OTHERS: &str = "run them at other times, or give each a server of its own";

/// The part of a server's work done for others, if large.
pub(super) fn find(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let parts = run.of.parts;
    let Place::Thread { label, .. } = group.largest.place else { return None };
    if group.cause.end() != Some(End::Server) {
        return None;
    }
    let server = parts.tables.actors.get(label as usize)?;
    let is_of_server = |track: u32| {
        parts.tables.actors.get(track as usize).is_some_and(|actor| actor.machine == server.machine && actor.program() == server.program())
    };
    let beside = parts.seen.besides.at(parts.tables, is_of_server)?;
    let part = beside.others_ns as f64 / beside.all_ns.max(1) as f64;
    if part < limits::FOR_OTHERS || (beside.others_ns as f64) < (parts.end - parts.start) as f64 * limits::FOR_OTHERS_OF_RUN {
        return None;
    }
    let serving = brief(server.program());
    let client = brief(&program(parts.tables, run.of.meta, beside.client));
    let whom = match beside.clients {
        1 => format!("another client, {client}"),
        n => format!("{n} other clients ({client} most)"),
    };
    let sentence = format!("{} of {serving}'s work was for {whom}.", whole_percent(part));
    let made = Number { count: Some(beside.clients), ..number(NumberKind::OtherClients, sentence) };
    let change = format!("no other clients at {serving}");
    Some(made.raised_by(Raise::part(group, part, "no_other_clients", change, NO_OTHERS)))
}
