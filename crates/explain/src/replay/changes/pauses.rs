//! Without pauses: sleeping by choice, polling, and being stopped.

use super::proposal::{Proposal, Run};
use crate::replay::program::Class;
use crate::replay::scale::Scale;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let mut proposals = Vec::new();
    // What a server sleeps for while questions wait for it is its answer, and nobody can take it out of the program.
    let all = [Class::ClientThink, Class::ServerThink];
    let sleeping = if run.pool.is_some() || run.asks || !run.support.servers_sleep_in_steps { &all[..1] } else { &all[..] };
    // Timers of a program that waits by running are not what it waits for.
    // And nothing is promised of sleeps whose reason is not known.
    if run.delayed(sleeping) && run.spinning.is_empty() && run.reasons_known {
        let how = "take the sleeps between its steps out of the program, or wait for what they wait for";
        proposals.push(Proposal::replay("no_think", "no sleeping between steps", how, Scale::none().delays(sleeping, 0.0)));
    }
    if run.matters(run.stages.polls) {
        let how = "wait for the connection (poll, epoll, a blocking receive) instead of a sleep loop";
        let scale = Scale { no_polls: true, ..Scale::none() };
        proposals.push(Proposal::replay("no_poll", "data noticed when it comes, not at the next look", how, scale));
    }
    if run.delayed(&[Class::Stopped]) {
        let how = "find out who stops the process (SIGSTOP, a debugger, a frozen control group)";
        proposals.push(Proposal::replay("no_stop", "no stopped process", how, Scale::none().delays(&[Class::Stopped], 0.0)));
    }
    proposals
}
