//! Other users of the awaited resource: programs that are not part of what was recorded (`observe/strangers.rs`), each with its part.
//!
//! For processors, the recorder names, for each wait, the holder for the longest part of it.

use crate::limits::assemble as limits;
use crate::observe::tables::Tables;
use crate::path::ledger::{Entry, Ledger};
use std::collections::BTreeMap;
use thalweg_base::numbers::whole_percent;

/// Programs that used the resource, with their parts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Neighbours {
    /// Most first; only parts worth naming.
    programs: Vec<(String, f64)>,
}

impl Neighbours {
    /// The parts of programs in the whole.
    pub(crate) fn of(had: impl Iterator<Item = (String, u64)>, all: u64) -> Neighbours {
        let mut programs: Vec<(String, f64)> = had.map(|(name, had)| (name, (had as f64 / all.max(1) as f64).min(1.0))).collect();
        programs.retain(|(_, part)| *part >= limits::SHARED_WORTH_SAYING);
        programs.sort_by(|a, b| b.1.total_cmp(&a.1));
        Neighbours { programs }
    }

    /// The users of the processors that these ledger entries queued for.
    pub(crate) fn at_processors<'e>(tables: &Tables, ledger: &Ledger, entries: impl Iterator<Item = &'e Entry>) -> Neighbours {
        let (mut had, mut all_ns): (BTreeMap<&str, u64>, u64) = (BTreeMap::new(), 0);
        for entry in entries {
            all_ns += entry.runs.total_ns;
            for &(holder, ns) in entry.holders.iter().filter(|(holder, _)| ledger.labels.is_stranger(*holder)) {
                *had.entry(tables.actors[holder as usize].program()).or_default() += ns;
            }
        }
        Neighbours::of(had.into_iter().map(|(name, ns)| (name.to_owned(), ns)), all_ns)
    }

    /// Their part together.
    pub(crate) fn part(&self) -> f64 {
        self.programs.iter().map(|(_, part)| part).sum::<f64>().min(1.0)
    }

    /// Whether that part is mentioned first.
    pub(crate) fn is_worth_saying(&self) -> bool {
        self.part() >= limits::SHARED_NAMED_FIRST
    }

    /// `gcc and 3 others`, with each name formatted by `written`.
    pub(crate) fn who(&self, written: impl Fn(&str) -> String) -> String {
        match self.programs.as_slice() {
            [] => "others".to_owned(),
            [(one, _)] => written(one),
            [(one, _), (other, _)] => format!("{} and {}", written(one), written(other)),
            [(one, _), others @ ..] => format!("{} and {} others", written(one), others.len()),
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// The phrase for the evidence, if there are several: each with its part.
    pub(crate) fn each(&self) -> Option<String> {
        let each = |(name, part): &(String, f64)| format!("`{name}` {}", whole_percent(*part));
        let named: Vec<String> = self.programs.iter().take(limits::SHARED_NAMED).map(each).collect();
        let more = if self.programs.len() > named.len() { ", and others" } else { "" };
        (named.len() > 1).then(|| format!("{}{more}", named.join(", ")))
    }
}
