//! Numbers of files and names used by a command, as the kernel counted them for its threads.

use crate::ExplainError;
use crate::observe::tables::Tables;
use std::collections::{HashMap, HashSet};
use thalweg_trace::{CounterName, CounterOf, Role, Source};

/// Totals of the command and all its children. Files of servers, mounts and reached programs are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileCounts {
    /// Regular files opened.
    pub opened: u64,
    /// ... of them created.
    pub created: u64,
    /// Calls that asked for attributes.
    pub stats: u64,
    /// Files removed.
    pub removed: u64,
    /// Files renamed.
    pub renamed: u64,
    /// Names listed.
    pub listed: u64,
    /// Regular files read from their start: counted where opens were not.
    pub read: u64,
    /// Number of processes involved.
    pub processes: u64,
}

impl FileCounts {
    /// The largest total.
    pub(crate) fn most(&self) -> u64 {
        [self.opened, self.created, self.stats, self.removed, self.renamed, self.listed, self.read].into_iter().max().unwrap_or(0)
    }

    /// Reads the counts; `None` if the recorder did not count.
    pub(crate) fn read(source: &dyn Source, tables: &mut Tables) -> Result<Option<FileCounts>, ExplainError> {
        use CounterName as C;
        let mut counts = FileCounts::default();
        let mut processes: HashSet<u32> = HashSet::new();
        for name in [C::FileOpens, C::FileCreates, C::FileStats, C::FileRemoves, C::FileRenames, C::FileListed, C::FileReads] {
            // Each value is a total since its thread began: the largest is the last.
            let mut of_thread: HashMap<u32, u64> = HashMap::new();
            for counter in source.counters(name)? {
                let CounterOf::Track(track) = counter.of else { continue };
                let last = of_thread.entry(tables.tracks.get(track.number())).or_default();
                *last = (*last).max(u64::try_from(counter.value).unwrap_or(0));
            }
            let mut sum = 0_u64;
            for (track, count) in of_thread {
                let Some(actor) = tables.actors.get(track as usize) else { continue };
                if actor.role == Role::Client && !actor.mount && !actor.reached {
                    sum = sum.saturating_add(count);
                    processes.insert(actor.pid);
                }
            }
            match name {
                C::FileOpens => counts.opened = sum,
                C::FileCreates => counts.created = sum,
                C::FileStats => counts.stats = sum,
                C::FileRemoves => counts.removed = sum,
                C::FileRenames => counts.renamed = sum,
                C::FileListed => counts.listed = sum,
                _ => counts.read = sum,
            }
        }
        // Counted for part of the time only.
        if source.meta().attributes.iter().any(|(name, _)| name == "file.reads") {
            counts.read = 0;
        }
        counts.processes = processes.len() as u64;
        Ok((counts.processes > 0).then_some(counts))
    }
}
