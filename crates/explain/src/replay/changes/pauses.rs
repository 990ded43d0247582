//! Without pauses: voluntary sleeps, polling, and being stopped.

use super::proposal::{Proposal, Run};
use crate::replay::program::Class;
use crate::replay::scale::Scale;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let mut proposals = Vec::new();
    // A server's sleep while requests wait for it is part of its answer, and cannot be removed from the command.
    let all = [Class::ClientThink, Class::ServerThink];
    let sleeping = if run.pool.is_some() || run.asks || !run.support.servers_sleep_in_steps { &all[..1] } else { &all[..] };
    // Timers of a program that waits by running are not what it waits for. No gain is promised for sleeps of unknown purpose.
    if run.delayed(sleeping) && run.spinning.is_empty() && run.reasons_known {
        let how = "remove the sleeps between its steps, or wait for the event itself";
        proposals.push(Proposal::replay("no_think", "no sleeping between steps", how, Scale::none().delays(sleeping, 0.0)));
    }
    if run.matters(run.stages.polls) {
        let how = "wait for the connection (poll, epoll, a blocking receive) instead of a sleep loop";
        let scale = Scale { no_polls: true, ..Scale::none() };
        proposals.push(Proposal::replay("no_poll", "data noticed on arrival, not at the next poll", how, scale));
    }
    if run.delayed(&[Class::Stopped]) {
        let how = "find out what stops the process (SIGSTOP, a debugger, a frozen control group)";
        proposals.push(Proposal::replay("no_stop", "no stopped process", how, Scale::none().delays(&[Class::Stopped], 0.0)));
    }
    proposals
}
