//! The purpose of a program's sleeps, in words.

use super::groups::Group;
use super::of::Of;
use super::tried;
use crate::cause::End;
use crate::facts::names::{base, brief, program};
use crate::observe::index::NONE;
use crate::observe::tables::Tables;
use crate::path::names::silent_peer;
use crate::peer::peer;
use crate::waits::place::SleptFor;
use std::mem::discriminant;
use thalweg_recipes::Asked;

/// The change that removes sleeps.
const CHANGE: &str = "no_think";

/// Who slept, and for what, as far as known.
pub(super) fn sentence(of: &Of<'_>, group: &Group<'_>, who: &str) -> String {
    if let Some(words) = kept_limit(of, group) {
        return format!("{who} slept to keep its limit ({words})");
    }
    match most(of, group) {
        Some(SleptFor::Answer) => format!("{who} slept before it answered"),
        Some(SleptFor::Listen(connection)) => {
            let tried = tried::to_connect(of, connection)
                .map_or_else(String::new, |failed| format!("; of the attempts to connect to it {}", tried::refusals(failed)));
            format!("{who} slept before it listened{tried}")
        }
        Some(SleptFor::Requests) => format!("{who} slept between its requests{}", tried::refused_by_answers(of)),
        Some(SleptFor::Steps) => format!("{who} slept between its steps{}", tried::refused_by_answers(of)),
        Some(SleptFor::Names) => format!("{who} slept between attempts to resolve names{}", tried::refused_by_answers(of)),
        Some(SleptFor::Alike(connection)) => {
            let server = peer(&silent_peer(of.parts.tables, connection, NONE));
            format!("{who} slept between requests of equal size to {server}: it polls or paces itself{}", tried::refused_by_answers(of))
        }
        Some(SleptFor::Child(child)) => {
            format!("{who} slept between checks whether {} had ended", child_named(of.parts.tables, child))
        }
        Some(SleptFor::Run(by)) => format!("{} ran {who} to pause", brief(&program(of.parts.tables, of.meta, by))),
        Some(SleptFor::Unknown) | None => {
            format!("{who} slept (the reason was not recorded){}", tried::refused_by_answers(of))
        }
    }
}

/// A child by its program, if that was recorded.
fn child_named(tables: &Tables, child: u32) -> String {
    let name = tables.objects.get(child as usize).map_or("a child", |object| &object.name);
    let pid = name.strip_prefix("child ").and_then(|pid| pid.parse::<u32>().ok());
    let actor = tables.actors.iter().find(|actor| actor.leads() && Some(actor.pid) == pid);
    actor.map_or_else(|| name.to_owned(), |actor| brief(actor.program()))
}

/// The purpose of most of a group's sleeps; `None` if no purpose has half of them.
fn most(of: &Of<'_>, group: &Group<'_>) -> Option<SleptFor> {
    let mut sums: Vec<(SleptFor, u64)> = Vec::new();
    for &(what_for, ns) in group.members.iter().flat_map(|&at| &of.parts.ledger.entries[at].slept) {
        // Programs run by several are worded the same.
        match sums.iter_mut().find(|(known, _)| discriminant(known) == discriminant(&what_for)) {
            Some((_, sum)) => *sum += ns,
            None => sums.push((what_for, ns)),
        }
    }
    let (what_for, ns) = sums.into_iter().max_by_key(|&(_, ns)| ns)?;
    (2 * ns >= group.ns).then_some(what_for)
}

/// The command's words that limit its rate, if a recipe knows them: those it drops to remove the sleeps.
fn kept_limit(of: &Of<'_>, group: &Group<'_>) -> Option<String> {
    let command = &of.meta.command;
    let own = base(command.first()?);
    let is_own = group.cause.end() == Some(End::Client) && group.names.first().is_some_and(|name| name == own);
    let changed = Asked { command, facts: &[] }.for_change(CHANGE).filter(|advised| is_own && !advised.command.is_empty())?.command;
    let mut left = changed.iter().peekable();
    let removed: Vec<&str> = command.iter().filter(|word| left.next_if(|kept| kept == word).is_none()).map(String::as_str).collect();
    (left.next().is_none() && !removed.is_empty()).then(|| brief(&removed.join(" ")))
}
