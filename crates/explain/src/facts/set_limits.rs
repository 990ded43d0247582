//! Limits that were set: on control groups' use of disks and memory, and on threads' processors. If one was reached, the answer names it,
//! rather than a slow disk or a small machine.

use crate::ExplainError;
use crate::limits::assemble as limits;
use crate::observe::tables::Tables;
use std::collections::HashMap;
use thalweg_base::numbers::{byte_rate, size};
use thalweg_trace::{CounterName, CounterOf, Role, Source};

/// A disk's limit for a control group, and its use.
#[derive(Clone, Debug, PartialEq)]
struct DiskLimit {
    disk: String,
    group: String,
    /// The limit in words: `20 MiB/s`, `100 reads a second`.
    allows: String,
    /// Least time for the work done at this limit, in seconds.
    least_s: f64,
}

/// All limits that were reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetLimits {
    disks: Vec<DiskLimit>,
    /// The group, and its limit in bytes: file pages were evicted for it, and read again.
    memory: Option<(String, u64)>,
    /// By actor: the number of processors it may use, if fewer than its machine's.
    processors: HashMap<u32, u32>,
    /// Without privilege: how many of the machine's processors were busy, on average.
    busy: Option<f64>,
}

/// Parses `read_bytes=N write_bytes=N` into numbers by name.
fn amounts(text: &str) -> HashMap<&str, f64> {
    text.split_whitespace().filter_map(|part| part.split_once('=')).filter_map(|(name, n)| Some((name, n.parse().ok()?))).collect()
}

/// The limit that was reached, of a disk's limits per second: in words, with the time of the work done at that rate, in seconds.
fn reached(allowed: &HashMap<&str, f64>, done: &HashMap<&str, f64>, wall_s: f64) -> Option<(String, f64)> {
    let used = |name: &&str| Some(done.get(*name)? / wall_s / allowed.get(*name).filter(|most| **most > 0.0)?);
    let kinds = ["read_bytes", "write_bytes", "reads", "writes"];
    let kind = kinds.into_iter().filter_map(|name| Some((used(&name)?, name))).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (_, name) = Some(kind).filter(|(part, _)| *part >= limits::LIMIT_USED)?;
    let words = match name {
        "read_bytes" | "write_bytes" => byte_rate(allowed[name]),
        other => format!("{:.0} {other} a second", allowed[other]),
    };
    Some((words, (done[name] / allowed[name] - limits::LIMIT_BURST_S).max(0.0)))
}

impl SetLimits {
    /// Reads the attributes and counters of a recording, for a run of this length.
    pub(crate) fn read(source: &dyn Source, tables: &mut Tables, wall_s: f64) -> Result<SetLimits, ExplainError> {
        let attributes = &source.meta().attributes;
        let value = |name: &str| attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let busy = value("cpus.busy").filter(|_| tables.wakers_inferred).and_then(|busy| busy.parse().ok());
        let mut known = SetLimits { busy, ..SetLimits::default() };
        for (name, allowed) in attributes {
            if let Some((disk, group)) = name.strip_prefix("cgroup.io.limit.").and_then(|rest| rest.split_once('.')) {
                let done = value(&format!("cgroup.io.done.{disk}.{group}")).map(amounts).unwrap_or_default();
                if let Some((allows, least_s)) = reached(&amounts(allowed), &done, wall_s) {
                    known.disks.push(DiskLimit { disk: disk.to_owned(), group: group.to_owned(), allows, least_s });
                }
            }
            if let Some(group) = name.strip_prefix("cgroup.memory.limit.").or_else(|| name.strip_prefix("cgroup.memory.high.")) {
                let number = |what: &str| value(&format!("cgroup.memory.{what}.{group}")).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
                let most = allowed.parse().unwrap_or(0);
                if number("reached") > 0
                    && number("refaults") >= limits::REFAULTS
                    && known.memory.as_ref().is_none_or(|(_, least)| most < *least)
                {
                    known.memory = Some((group.to_owned(), most));
                }
            }
        }
        for counter in source.counters(CounterName::CpuAllowed)? {
            if let CounterOf::Track(track) = counter.of {
                let actor = tables.tracks.get(track.number());
                let allowed = u32::try_from(counter.value).unwrap_or(u32::MAX);
                known.processors.entry(actor).and_modify(|least| *least = allowed.min(*least)).or_insert(allowed);
            }
        }
        Ok(known)
    }

    /// For waits for a disk: the limit that throttled it.
    pub(crate) fn of_disk(&self, disk: &str) -> Option<String> {
        let limit = self.disk(disk)?;
        Some(format!("limited to {} by cgroup {}", limit.allows, limit.group))
    }

    /// The control group whose limit on a disk was reached.
    pub(crate) fn group_of(&self, disk: &str) -> Option<&str> {
        self.disk(disk).map(|limit| limit.group.as_str())
    }

    /// Least time of the work done at a disk under its limit, in seconds; `None` if no limit was reached.
    pub(crate) fn least_s(&self, disk: &str) -> Option<f64> {
        self.disk(disk).map(|limit| limit.least_s)
    }

    fn disk(&self, disk: &str) -> Option<&DiskLimit> {
        self.disks.iter().find(|limit| limit.disk == disk)
    }

    /// The largest of these times over all disks; 0 if no limit was reached.
    pub(crate) fn longest_s(&self) -> f64 {
        self.disks.iter().map(|limit| limit.least_s).fold(0.0, f64::max)
    }

    /// For reading, or waiting for memory: the limit under which pages were read again.
    pub(crate) fn of_memory(&self) -> Option<String> {
        let (group, most) = self.memory.as_ref()?;
        Some(format!("pages were read again under the memory limit of cgroup {group} ({})", size(*most)))
    }

    /// For queueing of the threads with this label: the number of processors they are bound to.
    pub(crate) fn of_processors(&self, tables: &Tables, label: u32) -> Option<String> {
        let machine = tables.actors.get(label as usize)?.machine;
        let has = tables.machines.get(machine as usize)?.cpus;
        // The kernel binds threads of its own, which are not part of the run.
        let is_of_run = |actor: u32| {
            tables.actors.get(actor as usize).is_some_and(|a| a.machine == machine && !matches!(a.role, Role::None | Role::Kernel))
        };
        let bound = self.processors.iter().filter(|(actor, _)| is_of_run(**actor));
        let least = bound.map(|(_, allowed)| *allowed).min().filter(|least| *least < has)?;
        Some(format!("bound to {least} of {has} CPUs"))
    }

    /// For queueing of the threads with this label for a share of the run, where nobody recorded how many processors they may use: that
    /// more of them were idle than a queue leaves.
    pub(crate) fn idle_beside(&self, tables: &Tables, label: u32, share: f64) -> Option<String> {
        let has = tables.machines.get(tables.actors.get(label as usize)?.machine as usize)?.cpus;
        let busy = self.busy.filter(|_| has > 1 && self.processors.is_empty())?;
        (busy < f64::from(has) * share * limits::QUEUED_BUSY)
            .then(|| format!("though only {busy:.1} of {has} were busy: bound to some of them (affinity), or limited"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disks_limit_counts_where_it_was_reached() {
        let (allowed, half) = (amounts("read_bytes=20971520"), amounts("read_bytes=20971520 write_bytes=5"));
        assert_eq!(reached(&allowed, &half, 2.0), None, "half of it was used");
        assert_eq!(reached(&allowed, &half, 1.05), Some(("20 MiB/s".to_owned(), 0.9)), "a second's bytes, without the first tenth");
        assert_eq!(reached(&amounts("reads=100"), &amounts("reads=198"), 2.0), Some(("100 reads a second".to_owned(), 1.88)));
        assert_eq!(reached(&amounts(""), &half, 1.0), None);
    }
}
