//! Processors: no quota, no other programs, twice as many, no recorder, and either end computing twice as fast.

use super::proposal::{Proposal, Run};
use crate::cause::End;
use crate::replay::program::Class;
use crate::replay::scale::Scale;

pub(super) fn propose(run: &Run<'_>) -> Vec<Proposal> {
    let mut proposals = Vec::new();
    let none = Scale::none;
    let others = [Class::Foreign, Class::Queue, Class::LongQueue, Class::Ours];
    if run.delayed(&[Class::Quota]) {
        let how = "raise the control group's CPU quota";
        proposals.push(Proposal::replay("no_cpu_quota", "no CPU quota", how, none().delays(&[Class::Quota], 0.0)));
    }
    if run.delayed(&[Class::Foreign, Class::LongQueue]) {
        let how = "run it on an idle machine, or give it CPUs of its own (taskset, cpuset)";
        proposals.push(Proposal::replay("no_hog", "no other programs on its CPUs", how, none().delays(&others, 0.0)));
    }
    if run.delayed(&[Class::Recorder]) {
        let how = "record with a leaner tier, or drain less often";
        proposals.push(Proposal::replay("no_recorder", "no recorder on its CPUs", how, none().delays(&[Class::Recorder], 0.0)));
    }
    let scale = Scale { processors: 2.0, ..none().delays(&others, 0.0) };
    proposals.push(Proposal::replay("processors.x2", "twice as many CPUs", "run it on a machine with more CPUs", scale));
    for (end, id, whose) in [(End::Client, "cpu.client.x2", run.clients_cpus()), (End::Server, "cpu.server.x2", "the server's CPUs")] {
        // Waiting by running takes no less time on a faster processor.
        let spins = run.spinning.iter().any(|&track| run.tables.actors[track as usize].end == end);
        if run.matters(run.ran_ns(end)) && !spins {
            let mut scale = none();
            scale.run[end as usize] = 0.5;
            let how = "profile it: samples in the recording say what it computed";
            proposals.push(Proposal::replay(id, format!("{whose} twice as fast"), how, scale));
        }
    }
    proposals
}
