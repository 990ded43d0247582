//! The stacks of a recording for export to other profilers' formats: each once per program, with its samples and
//! their time.

use crate::{Frame, HostId, Source, SourceError};
use std::collections::{BTreeMap, HashMap};

/// A function in a module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    /// Its name, or its module in brackets.
    pub(super) name: String,
    pub(super) module: String,
    pub(super) build_id: Option<String>,
    pub(super) is_kernel: bool,
}

/// Stacks of a recording.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    pub(super) functions: Vec<Function>,
    /// Functions by stack number, innermost first.
    frames: HashMap<u32, Vec<u32>>,
    /// Counts by host, program and stack.
    pub(super) counted: BTreeMap<(HostId, String, u32), Counted>,
}

/// The number and total time of a stack's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) samples: u64,
    pub(super) ns: u64,
}

impl Stacks {
    /// Reads the functions alone, without counting samples.
    pub(super) fn functions(source: &dyn Source) -> Result<Stacks, SourceError> {
        let mut stacks = Stacks::default();
        let mut by_text: HashMap<String, u32> = HashMap::new();
        let mut known: HashMap<Function, u32> = HashMap::new();
        for stack in source.stacks()? {
            let mut frames = Vec::with_capacity(stack.frames.len());
            for text in stack.frames {
                let number = match by_text.get(&text) {
                    Some(&number) => number,
                    None => {
                        let function = function(&Frame::parse(&text));
                        let number = *known.entry(function).or_insert_with_key(|function| {
                            stacks.functions.push(function.clone());
                            stacks.functions.len() as u32 - 1
                        });
                        by_text.insert(text, number);
                        number
                    }
                };
                frames.push(number);
            }
            stacks.frames.insert(stack.stack, frames);
        }
        Ok(stacks)
    }

    /// Reads the functions and counts the samples.
    pub(super) fn counted(source: &dyn Source) -> Result<Stacks, SourceError> {
        let mut stacks = Stacks::functions(source)?;
        let mut counted: HashMap<(HostId, Option<u64>, u32), Counted> = HashMap::new();
        for sample in source.samples()? {
            let Some(stack) = sample.profiled().filter(|stack| stacks.frames.contains_key(stack)) else { continue };
            let of = counted.entry((sample.host, sample.track.map(crate::TrackId::number), stack)).or_default();
            of.samples += 1;
            of.ns = of.ns.saturating_add(sample.weight_ns);
        }
        let programs = programs(source);
        for ((host, track, stack), more) in counted {
            let program = track.and_then(|track| programs.get(&track)).copied().unwrap_or(UNKNOWN);
            let of = stacks.counted.entry((host, program.to_owned(), stack)).or_default();
            of.samples += more.samples;
            of.ns = of.ns.saturating_add(more.ns);
        }
        Ok(stacks)
    }

    /// Returns each program's stacks in order of time, consecutive equal ones merged with their total time.
    pub(super) fn in_order(&self, source: &dyn Source) -> Result<Runs, SourceError> {
        let programs = programs(source);
        let mut runs = Runs::new();
        for sample in source.samples()? {
            let Some(stack) = sample.profiled().filter(|stack| self.frames.contains_key(stack)) else { continue };
            let program = sample.track.and_then(|track| programs.get(&track.number())).copied().unwrap_or(UNKNOWN);
            let of = match runs.get_mut(&(sample.host, program.to_owned())) {
                Some(of) => of,
                None => runs.entry((sample.host, program.to_owned())).or_default(),
            };
            match of.last_mut() {
                Some((last, ns)) if *last == stack => *ns = ns.saturating_add(sample.weight_ns),
                _ => of.push((stack, sample.weight_ns)),
            }
        }
        Ok(runs)
    }

    /// Returns the functions of a stack, innermost first.
    pub(super) fn frames(&self, stack: u32) -> &[u32] {
        self.frames.get(&stack).map_or(&[], Vec::as_slice)
    }

    /// Returns the numbers of all stacks, sorted.
    pub(super) fn numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.frames.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Stacks with their time, by machine and program.
pub(super) type Runs = BTreeMap<(HostId, String), Vec<(u32, u64)>>;

/// Name of an unknown program.
const UNKNOWN: &str = "unknown";

/// Returns the program of each track: the part before the thread's own name.
fn programs(source: &dyn Source) -> HashMap<u64, &str> {
    source.tracks().iter().map(|track| (track.track.number(), track.name.split('/').next().unwrap_or(&track.name))).collect()
}

fn function(frame: &Frame) -> Function {
    let base = frame.module.rsplit_once('/').map_or(frame.module.as_str(), |(_, base)| base);
    Function {
        name: frame.symbol.clone().unwrap_or_else(|| format!("[{base}]")),
        module: frame.module.clone(),
        build_id: frame.build_id.clone(),
        is_kernel: !frame.is_user(),
    }
}
