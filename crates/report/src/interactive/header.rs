//! The header: everything but numbers, as JSON.

use super::labels;
use super::lanes::{Lane, NO_LANE};
use super::looks::looks_like;
use super::more::More;
use super::planes::Plane;
use super::series::{Counter, MarkEntry};
use super::spans::Drawn;
use super::template::script_text;
use crate::words::has_server;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use thalweg_explain::Cause;
use thalweg_explain::document::Explanation;
use thalweg_trace::Object;

/// The name and version of the data in a page.
pub(super) const FORMAT: &str = "thalweg.page/1";
/// Most bytes of objects' names; of more, those of the longest spans are named.
const MAX_NAME_BYTES: usize = 8 << 20;

/// The header.
#[derive(Serialize)]
pub(super) struct Header<'a> {
    pub(super) format: &'static str,
    pub(super) explanation: &'a Explanation,
    pub(super) short: String,
    pub(super) start_ns: u64,
    pub(super) wall_ns: u64,
    pub(super) tick_ns: u64,
    pub(super) lanes: Vec<Lane>,
    pub(super) kinds: Vec<KindEntry>,
    pub(super) objects: Vec<String>,
    pub(super) causes: Vec<CauseEntry>,
    pub(super) marks: Vec<MarkEntry>,
    pub(super) counters: Vec<CounterEntry>,
    pub(super) planes: Vec<Plane>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) sample_classes: Vec<String>,
    pub(super) left_out: LeftOut,
    #[serde(flatten)]
    pub(super) more: More<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pyramid: Option<PyramidEntry>,
    pub(super) notes: Vec<String>,
}

/// A kind of span.
#[derive(Serialize)]
pub(super) struct KindEntry {
    name: &'static str,
    class: &'static str,
}

/// A cause of the critical path.
#[derive(Serialize)]
pub(super) struct CauseEntry {
    name: &'static str,
    label: String,
    ns: u64,
}

/// A counter.
#[derive(Serialize)]
pub(super) struct CounterEntry {
    name: &'static str,
    unit: &'static str,
    of: Option<u16>,
    label: String,
    /// Whether the increase is of interest, not the value.
    accumulates: bool,
}

/// Numbers of what is not in the data.
#[derive(Serialize)]
pub(super) struct LeftOut {
    pub(super) spans: u64,
}

/// What the planes `level.*` mean: of which interval, and of which classes, they hold the shares.
#[derive(Serialize)]
pub(super) struct PyramidEntry {
    pub(super) buckets: usize,
    /// Start and end of the buckets, in ticks.
    pub(super) span: [u32; 2],
    pub(super) classes: Vec<&'static str>,
}

impl Header<'_> {
    /// Returns the JSON as the text of a script element.
    pub(super) fn to_text(&self) -> String {
        script_text(&serde_json::to_string(self).expect("the header has only plain fields"))
    }
}

/// Returns the kinds in use, and the number of each look.
pub(super) fn kinds(looks: impl Iterator<Item = u8>) -> (Vec<KindEntry>, [u8; 256]) {
    let mut used = [false; 256];
    looks.for_each(|look| used[usize::from(look)] = true);
    let (mut entries, mut numbers) = (Vec::<KindEntry>::new(), [0; 256]);
    for look in (0..=u8::MAX).filter(|look| used[usize::from(*look)]) {
        let (kind, mostly) = looks_like(look);
        let entry = KindEntry { name: kind.name(), class: labels::class_of(kind, mostly) };
        let known = entries.iter().position(|known| (known.name, known.class) == (entry.name, entry.class));
        numbers[usize::from(look)] = known.unwrap_or(entries.len()) as u8;
        if known.is_none() {
            entries.push(entry);
        }
    }
    (entries, numbers)
}

/// Returns the objects that the spans refer to, "none" first, and the number of each, by the recording's.
pub(super) fn objects(spans: &[Drawn], objects: &[Object]) -> (Vec<String>, HashMap<u64, u32>, usize) {
    let mut longest: HashMap<u64, i64> = HashMap::new();
    for span in spans.iter().filter(|span| span.object != 0) {
        let known = longest.entry(span.object).or_default();
        *known = (*known).max(span.end_ns.saturating_sub(span.start_ns));
    }
    let mut used: Vec<&Object> = objects.iter().filter(|object| longest.contains_key(&object.object.number())).collect();
    let bytes: usize = used.iter().map(|object| object.name.len()).sum();
    let mut unnamed = 0;
    if bytes > MAX_NAME_BYTES {
        used.sort_by_key(|object| std::cmp::Reverse(longest[&object.object.number()]));
        let mut room = MAX_NAME_BYTES;
        let all = used.len();
        used.retain(|object| {
            room = room.saturating_sub(object.name.len());
            room > 0
        });
        unnamed = all - used.len();
    }
    let mut names = vec!["none".to_owned()];
    names.extend(used.iter().map(|object| format!("{} {}", object.kind.name(), object.name)));
    let numbers = used.iter().enumerate().map(|(at, object)| (object.object.number(), at as u32 + 1)).collect();
    (names, numbers, unnamed)
}

/// Returns the causes of the critical path, largest first.
pub(super) fn causes(explanation: &Explanation) -> (Vec<CauseEntry>, BTreeMap<Cause, u8>) {
    let mut seconds: BTreeMap<Cause, f64> = BTreeMap::new();
    explanation.critical_path.iter().for_each(|charge| *seconds.entry(charge.cause).or_default() += charge.seconds);
    explanation.path.iter().for_each(|segment| *seconds.entry(segment.cause).or_default() += 0.0);
    let mut causes: Vec<(Cause, f64)> = seconds.into_iter().collect();
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let numbers = causes.iter().enumerate().map(|(at, (cause, _))| (*cause, at as u8)).collect();
    let server = has_server(explanation);
    let entry = |(cause, seconds): (Cause, f64)| CauseEntry {
        name: cause.name(),
        label: labels::cause(cause, server),
        ns: (seconds * 1e9).round() as u64,
    };
    (causes.into_iter().map(entry).collect(), numbers)
}

/// Returns the counters' entries.
pub(super) fn counters(counters: &[Counter], lane_of: &[u16], objects: &[Object]) -> Vec<CounterEntry> {
    let names: HashMap<u64, &str> = objects.iter().map(|object| (object.object.number(), &*object.name)).collect();
    let entry = |counter: &Counter| {
        let counted = labels::counter(counter.name);
        let of = counter.slot.map(|slot| lane_of[slot as usize]).filter(|lane| *lane != NO_LANE);
        let object = counter.object.and_then(|object| names.get(&object.number()));
        let label = object.map_or_else(|| counted.label.to_owned(), |object| format!("{}, {object}", counted.label));
        CounterEntry { name: counter.name.name(), unit: counted.unit, of, label, accumulates: counted.accumulates }
    };
    counters.iter().map(entry).collect()
}
