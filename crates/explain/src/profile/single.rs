//! The stacks and classes of single samples and waits, for pictures that show each at its time.

use super::classify::Stacks;
use super::flame::FlameFunction;
use super::gather::{Programs, answers};
use super::rules::{BuiltInClasses, Rules};
use thalweg_trace::{Sample, Source, SourceError, Stack};

/// The stacks of a recording, each with its functions.
pub struct SampledStacks<'a> {
    /// Names that frames refer to.
    pub functions: Vec<FlameFunction>,
    /// The stacks, by number.
    pub stacks: Vec<SampledStack>,
    /// Names of the classes of samples.
    pub classes: Vec<String>,
    classified: Stacks,
    programs: Programs<'a>,
    known: BuiltInClasses,
}

/// A stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledStack {
    /// Its number in the recording.
    pub stack: u32,
    /// Functions, from the innermost outwards: indices in [`SampledStacks::functions`].
    pub frames: Vec<u32>,
}

impl<'a> SampledStacks<'a> {
    /// Reads the stacks of a recording.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn read(source: &'a dyn Source, rules: &Rules) -> Result<SampledStacks<'a>, SourceError> {
        let stacks: Vec<Stack> = source.stacks()?;
        let mut classified = Stacks::new(&stacks, rules);
        let frames = std::mem::take(&mut classified.frames);
        let numbers = stacks.into_iter().map(|stack| stack.stack);
        Ok(SampledStacks {
            functions: classified.functions.iter().map(|function| FlameFunction::of(function, rules)).collect(),
            stacks: numbers.zip(frames).map(|(stack, frames)| SampledStack { stack, frames }).collect(),
            classes: rules.classes.iter().map(|class| class.name.clone()).collect(),
            classified,
            programs: Programs::of(source),
            known: rules.known,
        })
    }

    /// Returns the class of a profile's sample as an index in [`SampledStacks::classes`]; `None` for other samples.
    pub fn class(&self, sample: &Sample) -> Option<usize> {
        let place = self.classified.place(sample.profiled()?)?;
        let (program, _) = self.programs.of_track(sample.track.map_or(0, thalweg_trace::TrackId::number));
        let whose = self.programs.all[program as usize].whose;
        Some(usize::from(answers(&self.classified.verdicts[place], whose, &self.known).0))
    }
}
