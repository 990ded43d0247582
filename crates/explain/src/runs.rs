//! Runs: a recording of packets may hold several, because captures were joined or one was left running. Each is explained separately.
//!
//! Runs are separated by a silence that the recorder noted: no packet at all, and no connection with packets before and after it. A silence
//! that is long, and as long as the longer of the runs beside it, separates runs; a shorter one is a pause within a run. Rejected: a gap in
//! the RPCs alone. A program that thinks for an hour with its connection open is one run.

use crate::limits::rpcstat as limits;
use thalweg_base::numbers::duration;
use thalweg_trace::TrackKind;
use thalweg_trace::{
    Clock, Counter, CounterName, Host, Mark, Meta, Object, Sample, Source, SourceError, SpanBatch, SpanKind, Stack, Time, Track,
};

/// The attribute in which the packet recorder notes silences: `FROM-TO`, in nanoseconds, separated by spaces.
const SILENCES: &str = "packets.silences";

/// A run within a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its number, from 1.
    pub number: usize,
    /// The number of runs.
    pub of: usize,
    /// Time of its first packet, on the recording's axis.
    pub from_ns: i64,
    /// Time of its last packet.
    pub to_ns: i64,
}

/// The runs of a recording of packets, in order of time; empty if the recording is one run.
pub fn runs(source: &dyn Source) -> Vec<Run> {
    let meta = source.meta();
    let attribute = meta.attributes.iter().find(|(name, _)| name == SILENCES);
    let (Some((_, silences)), Some(end)) = (attribute, meta.end) else { return Vec::new() };
    if source.tracks().iter().any(|track| track.kind != TrackKind::Connection) {
        return Vec::new();
    }
    let (start_ns, end_ns) = (meta.start.ns(), end.ns());
    let silence = |text: &str| {
        let (from, to) = text.split_once('-')?;
        Some((from.parse::<i64>().ok()?, to.parse::<i64>().ok()?))
    };
    let mut silences: Vec<(i64, i64)> = silences.split(' ').filter_map(silence).collect();
    silences.retain(|&(from, to)| start_ns <= from && to <= end_ns && to.saturating_sub(from) >= limits::RUN_SILENCE_NS);
    silences.sort_unstable();
    silences.dedup_by(|later, earlier| later.0 < earlier.1);
    // The shortest silence first: merging the runs beside it makes them longer for the next comparison.
    while let Some(at) = pause(&silences, start_ns, end_ns) {
        silences.remove(at);
    }
    if silences.is_empty() {
        return Vec::new();
    }
    let starts = std::iter::once(start_ns).chain(silences.iter().map(|silence| silence.1));
    let ends = silences.iter().map(|silence| silence.0).chain([end_ns]);
    let of = silences.len() + 1;
    starts.zip(ends).enumerate().map(|(at, (from_ns, to_ns))| Run { number: at + 1, of, from_ns, to_ns }).collect()
}

/// Index of the shortest silence that is shorter than a run beside it.
fn pause(silences: &[(i64, i64)], start_ns: i64, end_ns: i64) -> Option<usize> {
    let ns = |at: usize| silences[at].1 - silences[at].0;
    let is_pause = |&at: &usize| {
        let before = silences[at].0 - if at == 0 { start_ns } else { silences[at - 1].1 };
        let after = silences.get(at + 1).map_or(end_ns, |next| next.0) - silences[at].1;
        ns(at) < before.max(after)
    };
    (0..silences.len()).filter(is_pause).min_by_key(|&at| ns(at))
}

/// The longest run, which stands for all where only one can be shown.
pub(crate) fn longest(source: &dyn Source) -> Option<Run> {
    runs(source).into_iter().max_by_key(|run| (run.to_ns - run.from_ns, std::cmp::Reverse(run.number)))
}

impl Run {
    /// The part of the recording within this run.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn within<'a>(&self, source: &'a dyn Source) -> Result<Within<'a>, SourceError> {
        let mut meta = source.meta().clone();
        meta.start = Time::from_monotonic_ns(self.from_ns);
        // One nanosecond more, so that a single instant has a length.
        meta.end = Some(Time::from_monotonic_ns(self.to_ns.saturating_add(1)));
        meta.attributes.retain(|(name, _)| name != SILENCES && name != "rpc.first_ns" && name != "rpc.last_ns");
        let (number, of) = (self.number, self.of);
        let long = duration((self.to_ns - self.from_ns) as f64 / 1e9);
        let note = format!(
            "This is run {number} of {of} in the capture ({long}): no packet and no connection joins them. Other notes are of all of it."
        );
        meta.attributes.insert(0, ("notes".to_owned(), note));
        let mut within = Within { source, meta, from_ns: self.from_ns, to_ns: self.to_ns };
        if let Some((first_ns, last_ns)) = within.rpcs()? {
            within.meta.attributes.push(("rpc.first_ns".to_owned(), first_ns.to_string()));
            within.meta.attributes.push(("rpc.last_ns".to_owned(), last_ns.to_string()));
        }
        Ok(within)
    }
}

/// The part of a recording that belongs to one run.
pub struct Within<'a> {
    source: &'a dyn Source,
    meta: Meta,
    from_ns: i64,
    to_ns: i64,
}

impl Within<'_> {
    fn holds(&self, at_ns: i64) -> bool {
        (self.from_ns..=self.to_ns).contains(&at_ns)
    }

    /// The interval from the first RPC's first byte to the last one's last.
    fn rpcs(&self) -> Result<Option<(i64, i64)>, SourceError> {
        let mut all: Option<(i64, i64)> = None;
        for batch in self.spans_backward() {
            let batch = batch?;
            for row in (0..batch.len()).filter(|&row| batch.kind[row] == SpanKind::RpcCall || batch.request[row] != 0) {
                let (first, last) = all.unwrap_or((batch.start_ns[row], batch.end_ns[row]));
                all = Some((first.min(batch.start_ns[row]), last.max(batch.end_ns[row])));
            }
        }
        Ok(all)
    }

    /// The rows of a batch within the run; spans that continue after its last packet end there.
    fn part(&self, batch: &SpanBatch) -> SpanBatch {
        let mut part = SpanBatch::default();
        for row in (0..batch.len()).filter(|&row| self.holds(batch.start_ns[row])) {
            if let Some(span) = batch.row(row) {
                part.push(&span, batch.start_ns[row], batch.end_ns[row].min(self.to_ns.max(batch.start_ns[row])));
            }
        }
        part
    }
}

impl Source for Within<'_> {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn hosts(&self) -> &[Host] {
        self.source.hosts()
    }
    fn clocks(&self) -> &[Clock] {
        self.source.clocks()
    }
    fn tracks(&self) -> &[Track] {
        self.source.tracks()
    }
    fn objects(&self) -> &[Object] {
        self.source.objects()
    }
    fn spans_backward<'a>(&'a self) -> Box<dyn Iterator<Item = Result<SpanBatch, SourceError>> + 'a> {
        let begun = |batch: &Result<SpanBatch, SourceError>| {
            batch.as_ref().map_or(true, |b| b.end_ns.first().is_none_or(|end| *end >= self.from_ns))
        };
        Box::new(self.source.spans_backward().take_while(begun).map(|batch| batch.map(|batch| self.part(&batch))))
    }
    fn marks(&self) -> Result<Vec<Mark>, SourceError> {
        let mut marks = self.source.marks()?;
        marks.retain(|mark| self.holds(mark.at.ns()));
        Ok(marks)
    }
    fn counters(&self, name: CounterName) -> Result<Vec<Counter>, SourceError> {
        let mut counters = self.source.counters(name)?;
        counters.retain(|counter| self.holds(counter.at.ns()));
        Ok(counters)
    }
    fn samples(&self) -> Result<Vec<Sample>, SourceError> {
        self.source.samples()
    }
    fn stacks(&self) -> Result<Vec<Stack>, SourceError> {
        self.source.stacks()
    }
}
