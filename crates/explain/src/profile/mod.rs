//! Where the time of whole machines' processors went, by class and by stack.
//!
//! **In:** a recording with a profile (samples with stacks, counters of idle time and hard interrupts; `SCHEMA.md`), and [`Rules`].
//! **Out:** a [`Profile`] document; with it, as [`Profiled`], the stacks for pictures.
//!
//! Samples see neither idle time (the timer stops with the tick) nor hard interrupts (the timer is one), nor time that the hypervisor gave
//! to others, nor the sampling programs. All of these are counted. The rest of wall × processors is divided by the samples, so that the
//! classes of a machine add up to all of its processors' time.
//!
//! If not everything could be sampled, a recording has /proc's counts of processors and processes. The document then lacks what needs
//! samples, or has it for the user's own programs alone ([`own`]).

mod assemble;
mod bins;
mod classify;
mod counted;
pub mod document;
mod events;
mod flame;
mod gather;
mod globs;
mod own;
mod rates;
mod rules;
mod single;
mod times;

pub use document::Profile;
pub use flame::{FlameFunction, FlameStack, HostStacks, Profiled};
pub use rules::{DEFAULT_RULES, Rules, RulesError};
pub use single::{SampledStack, SampledStacks};

use crate::ExplainError;
use std::collections::{BTreeMap, HashMap};
use thalweg_trace::Source;

/// A function for display.
#[derive(Clone, Debug)]
pub(crate) struct DisplayFunction {
    /// Its name, or its file's in brackets.
    pub name: String,
    /// Its file, without the directory.
    pub module: String,
    /// Whether the location is known: in a file, or in generated code.
    pub is_somewhere: bool,
}

/// The function that ran in each stack, by the stack's number, for the table of hottest functions: uninformative functions are skipped;
/// stacks of the sampling program have none.
pub(crate) fn function_of_stacks(stacks: &[thalweg_trace::Stack]) -> (Vec<DisplayFunction>, HashMap<u32, u32>) {
    let rules = Rules::default();
    let classified = classify::Stacks::new(stacks, &rules);
    let verdicts = stacks.iter().zip(&classified.verdicts).filter(|(_, verdict)| verdict.class != rules.known.recorder);
    let of_stack = verdicts.filter_map(|(stack, verdict)| Some((stack.stack, verdict.function?))).collect();
    let named = |function: classify::Function| DisplayFunction {
        module: classify::base(&function.module).to_owned(),
        is_somewhere: function.has_name || function.module != thalweg_trace::frame::UNKNOWN,
        name: function.name,
    };
    (classified.functions.into_iter().map(named).collect(), of_stack)
}

/// Computes where the time of the processors of a recording's machines went.
///
/// # Errors
/// The recording cannot be read, or has no profile.
pub fn profile(source: &dyn Source, rules: &Rules) -> Result<Profile, ExplainError> {
    Ok(profiled(source, rules, false)?.document)
}

/// Computes the profile, with the stacks for pictures.
///
/// # Errors
/// The recording cannot be read, or has no profile.
pub fn profile_with_stacks(source: &dyn Source, rules: &Rules) -> Result<Profiled, ExplainError> {
    profiled(source, rules, true)
}

fn profiled(source: &dyn Source, rules: &Rules, with_stacks: bool) -> Result<Profiled, ExplainError> {
    let samples = source.samples()?;
    let sampled = gather::sampled(&samples);
    let counted = counted::hosts(source)?;
    let times = times::times(source, &sampled)?;
    if sampled.is_empty() && times.is_empty() && counted.is_empty() {
        return Err(ExplainError::Nothing(
            "the recording holds no profile (no samples with stacks). `thalweg profile -o run.thw -- COMMAND` makes one, and so does \
             `thalweg record --profile` beside everything else"
                .to_owned(),
        ));
    }
    let stacks = classify::Stacks::new(&source.stacks()?, rules);
    let programs = gather::Programs::of(source);
    let gathered = gather::gather(&samples, &stacks, &programs, &times, (&rules.known, rules.classes.len()));
    let (of_own, times): (BTreeMap<_, _>, BTreeMap<_, _>) = times.into_iter().partition(|(host, _)| counted.contains_key(host));
    let rates = rates::rates(source, &times)?;
    let events = events::events(source, &samples, (&stacks, &programs, rules), &rates)?;
    drop(samples);
    let of = assemble::ProfileInput { source, rules, stacks: &stacks, programs: &programs, with_stacks };
    let mut profiled = of.profiled(&times, &gathered, &rates, events);
    for (host, counted) in counted {
        let has_samples = sampled.contains_key(&host);
        let (document, stacks) = match (of_own.get(&host), gathered.get(&host)) {
            (Some(times), Some(gathered)) if has_samples => {
                let own = of.own(counted, times, gathered);
                (own.document, own.stacks)
            }
            _ => (counted.document, HostStacks::default()),
        };
        profiled.document.hosts.push(document);
        profiled.stacks.push(stacks);
    }
    Ok(profiled)
}
