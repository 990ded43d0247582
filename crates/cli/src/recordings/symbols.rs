//! A recording with function names resolved afterwards, from symbol files found by build ID.

use std::collections::HashMap;
use std::path::PathBuf;
use thalweg_record::symbols::{MissingFile, resolve};
use thalweg_trace::{
    Clock, Counter, CounterName, Frame, Host, Mark, Meta, Object, Recording, Sample, Source, SourceError, SpanBatch, Stack, Track,
};

/// Maximum number of files listed as missing.
const MOST_MISSING: usize = 3;

/// A recording with its stacks symbolised.
pub(crate) struct Symbolised {
    recording: Recording,
    stacks: Vec<Stack>,
    missing: Vec<MissingFile>,
}

impl Symbolised {
    /// Looks for symbol files in `dirs` and in this machine's debug directories.
    pub(crate) fn new(recording: Recording, dirs: &[PathBuf]) -> Result<Symbolised, SourceError> {
        let mut samples: HashMap<u32, u64> = HashMap::new();
        for stack in recording.samples()?.iter().filter_map(|sample| sample.stack) {
            *samples.entry(stack).or_default() += 1;
        }
        let mut stacks = recording.stacks()?;
        let counted = |stack: &Stack| {
            let frames: Vec<Frame> = stack.frames.iter().map(|frame| Frame::parse(frame)).collect();
            (frames, samples.get(&stack.stack).copied().unwrap_or(0))
        };
        let mut named: Vec<(Vec<Frame>, u64)> = stacks.iter().map(counted).collect();
        let missing = resolve(&mut named, dirs);
        for (stack, (frames, _)) in stacks.iter_mut().zip(named) {
            stack.frames = frames.iter().map(Frame::to_string).collect();
        }
        Ok(Symbolised { recording, stacks, missing })
    }

    /// Returns a sentence for each of the first few files whose symbols were not found.
    pub(crate) fn missing(&self) -> Vec<String> {
        let line = |file: &MissingFile| {
            let id = file.build_id.as_ref().map_or_else(String::new, |id| format!(", build ID {id}"));
            format!("No symbols found for {}{id}: {} samples have unnamed functions from it", file.module, file.samples)
        };
        self.missing.iter().take(MOST_MISSING).map(line).collect()
    }
}

impl Source for Symbolised {
    fn meta(&self) -> &Meta {
        self.recording.meta()
    }
    fn hosts(&self) -> &[Host] {
        self.recording.hosts()
    }
    fn clocks(&self) -> &[Clock] {
        self.recording.clocks()
    }
    fn tracks(&self) -> &[Track] {
        self.recording.tracks()
    }
    fn objects(&self) -> &[Object] {
        self.recording.objects()
    }
    fn spans_backward<'a>(&'a self) -> Box<dyn Iterator<Item = Result<SpanBatch, SourceError>> + 'a> {
        self.recording.spans_backward()
    }
    fn marks(&self) -> Result<Vec<Mark>, SourceError> {
        self.recording.marks()
    }
    fn counters(&self, name: CounterName) -> Result<Vec<Counter>, SourceError> {
        self.recording.counters(name)
    }
    fn samples(&self) -> Result<Vec<Sample>, SourceError> {
        self.recording.samples()
    }
    fn stacks(&self) -> Result<Vec<Stack>, SourceError> {
        Ok(self.stacks.clone())
    }
}
