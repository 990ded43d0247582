//! Work spread over all processors: a program's computing, or the commands that it starts sequentially. Only if a recipe knows how.

use super::proposal::{By, Proposal, Run};
use crate::cause::End;
use crate::limits::replay as limits;
use crate::replay::edit_parallel::{Spread, side_by_side, spread};
use thalweg_recipes::{Advised, Asked};

/// Id of computing spread over the processors.
pub(crate) const ALL_PROCESSORS: &str = "processors.all";
/// Id of as many commands at a time as there are processors.
pub(crate) const COMMANDS: &str = "commands.all";

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let processors = run.graph.cpus[run.graph.programs[run.graph.main].machine];
    if processors < 2 {
        return Vec::new();
    }
    let Some((who, programs)) = most_computing(run) else { return Vec::new() };
    let asked = Asked { command: &run.meta.command, facts: run.facts };
    [ALL_PROCESSORS, COMMANDS]
        .into_iter()
        .filter_map(|id| {
            let advised = asked.for_change_of(id, &who)?;
            let mut graph = match id {
                COMMANDS => side_by_side(run.graph, processors as usize)?,
                _ => spread(run.graph, &programs, Spread::of(processors, advised.pieces, advised.work)),
            };
            graph.slowdown = limits::SLOWDOWN_COMPUTING;
            graph.foreign = graph.foreign.max(run.others_busy);
            Some(proposal(id, &who, advised, graph))
        })
        .collect()
}

fn proposal(id: &'static str, who: &str, advised: Advised, graph: crate::replay::program::Graph) -> Proposal {
    let change = if id == COMMANDS { "one command on each CPU at a time".to_owned() } else { format!("{who} on all CPUs") };
    let by = if advised.at_most { By::EditBound(Box::new(graph)) } else { By::Edit(Box::new(graph)) };
    Proposal { advised: Some(advised), ..Proposal::new(id, change, String::new(), by) }
}

/// The program of the command's that computes most, by name, and its threads.
fn most_computing(run: &Run<'_>) -> Option<(String, Vec<usize>)> {
    let mut by_name: Vec<(String, f64, Vec<usize>)> = Vec::new();
    for (number, (program, &ns)) in run.graph.programs.iter().zip(&run.stages.run).enumerate() {
        if program.end != End::Client || ns <= 0.0 {
            continue;
        }
        let name = run.name_of(program.track);
        match by_name.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, sum, numbers)) => {
                *sum += ns;
                numbers.push(number);
            }
            None => by_name.push((name, ns, vec![number])),
        }
    }
    let most = by_name.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    run.matters(most.1).then_some((most.0, most.2))
}
