//! The functions in which the critical path ran, by the recording's profile or else by the leaves of its samples: samples of the path's own
//! threads within its intervals only.

use crate::ExplainError;
use crate::cause::Cause;
use crate::document::HotFunction;
use crate::limits::assemble as limits;
use crate::observe::index::NONE;
use crate::observe::tables::Tables;
use crate::path::ledger::Ledger;
use crate::profile::{DisplayFunction, function_of_stacks};
use std::collections::HashMap;
use thalweg_trace::{Sample, Source};

/// Sampled time on the path, by ledger entry and function.
#[derive(Debug, Default)]
pub(crate) struct Hottest {
    by_entry: HashMap<u32, HashMap<u32, u64>>,
    functions: Vec<DisplayFunction>,
}

impl Hottest {
    /// Reads the samples, in order of time: of a profile, or of all.
    pub(crate) fn read(source: &dyn Source, samples: &[Sample], tables: &mut Tables, ledger: &Ledger) -> Result<Hottest, ExplainError> {
        if samples.iter().all(|sample| sample.stack.is_none()) {
            return Ok(Hottest::default());
        }
        let (functions, of_stack) = function_of_stacks(&source.stacks()?);
        let mut hottest = Hottest { by_entry: HashMap::new(), functions };
        let mut path = ledger.path.iter().rev().peekable();
        for sample in samples {
            let at = sample.at.ns();
            while path.peek().is_some_and(|run| run.end <= at) {
                path.next();
            }
            let Some(run) = path.peek().filter(|run| run.start <= at) else { continue };
            let track = sample.track.map_or(NONE, |track| tables.tracks.get(track.number()));
            let function = sample.stack.and_then(|stack| of_stack.get(&stack).copied());
            if let Some(function) = function.filter(|_| track != NONE && track == run.track) {
                *hottest.by_entry.entry(run.entry).or_default().entry(function).or_default() += sample.weight_ns;
            }
        }
        Ok(hottest)
    }

    /// The functions in which a charge to a processor ran longest, with their parts of the wall time; empty if samples are too few.
    pub(crate) fn of(&self, cause: Cause, members: &[usize], wall_ns: f64) -> Vec<HotFunction> {
        if !matches!(cause, Cause::ClientCpu | Cause::ServerCpu) {
            return Vec::new();
        }
        let mut sums: HashMap<u32, u64> = HashMap::new();
        for functions in members.iter().filter_map(|&entry| self.by_entry.get(&(entry as u32))) {
            functions.iter().for_each(|(&function, &ns)| *sums.entry(function).or_default() += ns);
        }
        let sampled_ns = sums.values().sum::<u64>();
        if sampled_ns < limits::ENOUGH_PROFILED_NS {
            return Vec::new();
        }
        let hot = |(function, ns): (u32, u64)| {
            let DisplayFunction { name, module, .. } =
                self.functions.get(function as usize).filter(|function| function.is_somewhere)?.clone();
            Some(HotFunction { function: name, module, share: (ns as f64 / wall_ns).min(1.0), of_samples: ns as f64 / sampled_ns as f64 })
        };
        let mut hottest: Vec<HotFunction> = sums.into_iter().filter_map(hot).collect();
        hottest.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.function.cmp(&b.function)));
        hottest.truncate(limits::HOTTEST);
        hottest
    }
}
