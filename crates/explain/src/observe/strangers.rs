//! Programs that are not part of what was recorded: known because they used a processor, a device or a link that a recorded thread waited
//! for.

use crate::observe::index::NONE;
use crate::observe::tables::{Actor, Tables};
use std::collections::{HashMap, HashSet};
use thalweg_trace::Role;

/// By actor: the first actor of the same program on the same machine, if that is not part of what was recorded; else [`NONE`]. The
/// command's own processes, servers, the recorder, and kernel threads (which may work for the command) are not strangers.
pub(crate) fn strangers(tables: &Tables) -> Vec<u32> {
    let process = |actor: &Actor| (actor.machine, actor.pid);
    let takes_part = |actor: &&Actor| matches!(actor.role, Role::Client | Role::Server | Role::Recorder);
    let recorded: HashSet<(u32, u32)> = tables.actors.iter().filter(takes_part).map(process).collect();
    // Threads have names of their own: a process is named by its first, if that was seen.
    let mut named_by: HashMap<(u32, u32), u32> = HashMap::new();
    for leads in [true, false] {
        for (number, actor) in (0..).zip(&tables.actors).filter(|(_, actor)| actor.thread && actor.leads() == leads) {
            named_by.entry(process(actor)).or_insert(number);
        }
    }
    let mut first: HashMap<(u32, &str), u32> = HashMap::new();
    let stands_for = |actor: &Actor| {
        let is_known = actor.thread && actor.role == Role::None && actor.pid != 0;
        if !is_known || recorded.contains(&process(actor)) {
            return NONE;
        }
        let named_by = named_by[&process(actor)];
        *first.entry((actor.machine, tables.actors[named_by as usize].program())).or_insert(named_by)
    };
    tables.actors.iter().map(stands_for).collect()
}
