//! How many times a recording's spans are read for an explanation.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_explain::{Options, explain};
use thalweg_trace::*;

/// A recording that counts the spans it returns.
struct Counting {
    inner: Recording,
    handed_out: AtomicUsize,
}

impl Source for Counting {
    fn meta(&self) -> &Meta {
        self.inner.meta()
    }
    fn hosts(&self) -> &[Host] {
        self.inner.hosts()
    }
    fn clocks(&self) -> &[Clock] {
        self.inner.clocks()
    }
    fn tracks(&self) -> &[Track] {
        self.inner.tracks()
    }
    fn objects(&self) -> &[Object] {
        self.inner.objects()
    }
    fn spans_backward<'a>(&'a self) -> Box<dyn Iterator<Item = Result<SpanBatch, SourceError>> + 'a> {
        let count = |batch: &Result<SpanBatch, SourceError>| {
            self.handed_out.fetch_add(batch.as_ref().map_or(0, SpanBatch::len), Ordering::Relaxed);
        };
        Box::new(self.inner.spans_backward().inspect(count))
    }
    fn marks(&self) -> Result<Vec<Mark>, SourceError> {
        self.inner.marks()
    }
    fn counters(&self, name: CounterName) -> Result<Vec<Counter>, SourceError> {
        self.inner.counters(name)
    }
    fn samples(&self) -> Result<Vec<Sample>, SourceError> {
        self.inner.samples()
    }
    fn stacks(&self) -> Result<Vec<Stack>, SourceError> {
        self.inner.stacks()
    }
}

/// Number of spans of a recording, and number read to explain it.
fn read(path: &Path, options: &Options) -> (usize, usize) {
    let counting = Counting { inner: Recording::open(path).expect("a fixture opens"), handed_out: AtomicUsize::new(0) };
    let spans = counting.inner.spans_backward().map(|batch| batch.expect("readable").len()).sum();
    explain(&counting, options).expect("explains");
    (spans, counting.handed_out.into_inner())
}

/// All fixtures, by their path below the fixtures' directory.
fn fixtures() -> Vec<(String, PathBuf)> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let (mut found, mut folders) = (Vec::new(), vec![all.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten().filter(|entry| entry.path().is_dir()) {
            let path = entry.path();
            match path.join("meta.json").is_file() {
                true => found.push((path.strip_prefix(&all).expect("below it").display().to_string(), path)),
                false => folders.push(path),
            }
        }
    }
    found.sort();
    found
}

/// Recordings in which threads wait by running, or compute in turn. Only a walk shows that, and the path is walked once more.
const WALKED_TWICE: [&str; 7] = [
    "programs/asks-through-pipes",
    "programs/computes-in-turn",
    "programs/polls-nothing",
    "programs/spins-for-a-child",
    "programs/spins-for-a-lock",
    "programs/spins-on-completions",
    "programs/syncs-under-a-lock",
];

#[test]
fn spans_are_read_at_most_twice() {
    let found = fixtures();
    assert!(found.len() > 50, "{} fixtures", found.len());
    let mut walked_twice = Vec::new();
    for (name, path) in &found {
        let (spans, handed_out) = read(path, &Options::default());
        assert!(handed_out >= spans && handed_out <= 3 * spans, "{name}: {handed_out} of {spans} spans");
        if handed_out > 2 * spans {
            walked_twice.push(name.as_str());
        }
    }
    assert_eq!(walked_twice, WALKED_TWICE);
}

#[test]
fn where_nothing_is_replayed_and_nobody_is_called_a_client_by_mistake_spans_are_read_once() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/serial");
    let (spans, handed_out) = read(&path, &Options { what_if: false, ..Options::default() });
    assert_eq!(handed_out, spans);
}
