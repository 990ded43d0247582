//! The speed of one processor: a thread that computes alone goes no faster, however idle the rest.

use super::super::about;
use super::super::groups::{Group, most_first};
use super::raise::Behind;
use super::run::Run;
use super::words::number;
use crate::cause::{Cause, End};
use crate::document::{Number, NumberKind};
use crate::facts::names::program;
use crate::limits::numbers as limits;
use crate::waits::place::{Place, What};
use thalweg_base::numbers::{byte_rate, count, duration, whole_percent};
use thalweg_trace::Role;

/// All processors of the command's machine, if its own programs keep them busy by computing or queueing: no single one limits.
pub(super) fn all(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    use Cause as C;
    let of = run.of;
    let is_of_processors =
        matches!(group.cause, C::ClientCpu | C::ServerCpu | C::ClientMetadata | C::ServerMetadata | C::ClientRunqueue | C::ServerRunqueue);
    let tables = of.parts.tables;
    let machine = tables.actors.get(tables.main as usize)?.machine;
    let cpus = tables.machines.get(machine as usize)?.cpus;
    let here = || of.parts.threads_ran().filter(|(_, actor, _)| actor.machine == machine && actor.role != Role::Recorder);
    let ran = here().map(|(.., ns)| ns).sum::<u64>() as f64;
    let busy = ran / (of.parts.wall_s() * 1e9 * f64::from(cpus.max(1)));
    if !is_of_processors || cpus < 2 || busy < limits::ALL_BUSY {
        return None;
    }
    let by_name = most_first(here().map(|(number, _, ns)| (program(tables, of.meta, number), ns)));
    let named = by_name.iter().filter(|(_, ns)| *ns as f64 >= ran * limits::NAMED_PART).take(limits::NAMED);
    let named: Vec<String> = named.map(|(name, ns)| format!("{} {}", name, whole_percent(*ns as f64 / ran))).collect();
    let all = if cpus == 2 { "Both CPUs are".to_owned() } else { format!("All {cpus} CPUs are") };
    let sentence = format!("{all} {} busy with it: {}.", whole_percent(busy.min(1.0)), named.join(", "));
    Some(Number { count: Some(u64::from(cpus)), ..number(NumberKind::AllProcessors, sentence) }.into())
}

/// Computing of one thread: its own work, and that on names and attributes if it waits for nothing.
pub(super) fn find(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    use Cause as C;
    let of = run.of;
    let computes = |cause| matches!(cause, C::ClientCpu | C::ServerCpu | C::ClientMetadata | C::ServerMetadata);
    if !computes(group.cause) {
        return None;
    }
    let entries = of.parts.ledger.entries.iter().filter(|e| computes(e.cause) && e.cause.end() == group.cause.end());
    let threads = most_first(entries.filter_map(|entry| match entry.place {
        Place::Thread { label, what: What::OwnWork, .. } => Some((label, entry.runs.total_ns)),
        _ => None,
    }));
    let &(thread, ns) = threads.first()?;
    let all: u64 = threads.iter().map(|(_, ns)| ns).sum();
    if (ns as f64) < all as f64 * limits::ALONE || (all as f64) < of.parts.wall_s() * 1e9 * limits::COMPUTES {
        return None;
    }
    let beside = of.parts.threads_ran().filter(|(_, actor, _)| Some(actor.end) == group.cause.end());
    if beside.map(|(.., ns)| ns).sum::<u64>() as f64 > all as f64 * limits::BESIDE {
        return None;
    }
    let actor = of.parts.tables.actors.get(thread as usize)?;
    let cpus = of.parts.tables.machines.get(actor.machine as usize).map_or(0, |machine| machine.cpus);
    let one = match (cpus, group.cause.end() == Some(End::Server)) {
        (2.., true) => format!("One of the server's {cpus} CPUs"),
        (2.., false) => format!("One CPU of {cpus}"),
        (_, true) => "The server's CPU".to_owned(),
        (_, false) => "The CPU".to_owned(),
    };
    let seconds = all as f64 / 1e9;
    if let Some((n, what)) = run.items {
        let each_s = seconds / n as f64;
        let sentence = format!("{one} does it all: {} for each of {} {what}.", duration(each_s), count(n));
        return Some(Number { count: Some(n), each_s: Some(each_s), items: Some(n), ..number(NumberKind::OneProcessor, sentence) }.into());
    }
    let bytes = about::of_interest(of);
    if bytes < limits::LEAST_BYTES {
        return None;
    }
    let rate = bytes as f64 / seconds;
    let sentence = format!("{one} does it all, at {}, whatever the disk and the link.", byte_rate(rate));
    Some(Number { rate_bytes_per_s: Some(rate), ..number(NumberKind::OneProcessor, sentence) }.into())
}
