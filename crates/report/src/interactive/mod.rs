//! The interactive page: one file with the built app, its data, and a static part that works with scripts off.
//!
//! The app is built from `web/` into `page/page.html`, with placeholders for what is put in here ([`template`]): a recording, two
//! ([`pair`]), or a document without a time axis ([`document`]). The data of a recording are a header as JSON
//! ([`header`]), and columns of numbers as compressed byte planes ([`planes`]) in base64. The critical path is the explanation's own.

mod arrows;
mod base64;
mod clocks;
mod collected;
mod columns;
pub(crate) mod document;
mod header;
mod labels;
mod lanes;
mod latency;
mod looks;
mod more;
mod offsets;
mod optional;
pub(crate) mod pair;
mod planes;
mod profiles;
mod pyramid;
mod rules;
mod series;
mod spans;
mod stacks;
mod template;
#[cfg(test)]
mod tests;
mod ticks;

use crate::Result;
use crate::page::TextOptions;
use crate::short::short;
use collected::Collector;
use columns::Numbers;
use header::{Header, LeftOut};
use lanes::{NO_LANE, Slots};
use optional::Gathered;
use planes::Planes;
use series::Series;
use spans::{Bounds, Spans};
use template::{Parts, filled, push_header};
use thalweg_base::numbers;
use thalweg_explain::document::Explanation;
use thalweg_explain::profile::{Rules, SampledStacks};
use thalweg_explain::rpcstat::RpcStat;
use thalweg_trace::Source;
use ticks::{Ticks, instant};

/// The data of a page.
pub(crate) struct Data {
    header: String,
    /// Compressed.
    planes: Vec<u8>,
}

impl Data {
    /// Makes the page around its static part, which is HTML.
    pub(crate) fn page(&self, explanation: &Explanation, fixed: &str) -> String {
        let parts = Parts { title: &explanation.verdict.sentence, fixed, script_hash: None, data_bytes: self.bytes() };
        filled(&parts, |page| self.write(page, ""))
    }

    /// Reads the data of a recording.
    pub(crate) fn read(source: &dyn Source, explanation: &Explanation, rpcs: Option<&RpcStat>) -> Result<Data> {
        let slots = Slots::new(source);
        let marks = source.marks()?;
        let stacks = SampledStacks::read(source, &Rules::default())?;
        let mut series = Series::read(source, &slots, &marks, &stacks)?;
        let mut requests = Collector::new(source);
        let mut spans = spans::gather(source, explanation, &slots, &marks, Bounds::OF_PAGES, &mut requests)?;
        drop(marks);
        series.add_stops(&slots, requests.stops());
        let weights = weights(&slots, explanation, &spans, &series);
        let (lanes, lane_of) = slots.lanes(&weights);
        let undrawn = weights.iter().filter(|weight| **weight > 0).count() - lanes.len();
        let before = spans.drawn.len();
        spans.drawn.retain(|span| lane_of[span.slot as usize] != NO_LANE);
        spans.left_out += (before - spans.drawn.len()) as u64;
        spans.drawn.sort_unstable_by_key(|s| (lane_of[s.slot as usize], s.start_ns, std::cmp::Reverse(s.end_ns), s.look, s.object, s.size));
        let start_ns = instant(explanation, 0.0);
        let end_ns = instant(explanation, explanation.wall_s);
        let ticks = Ticks::of(instants(&spans, &series).chain([start_ns, end_ns]));
        let latency = spans.whole.iter().flat_map(|whole| &whole.latency);
        let (kinds, kind_of) = header::kinds(spans.drawn.iter().map(|span| span.look).chain(latency.map(|row| row.look)));
        let (objects, object_of, unnamed) = header::objects(&spans.drawn, source.objects());
        let (causes, cause_of) = header::causes(explanation);
        let numbers = Numbers { ticks, slots: &slots, lane_of: &lane_of, kinds: &kind_of, objects: &object_of, causes: &cause_of };
        let mut planes = Planes::new();
        // The page draws the first of them before it has read the last.
        numbers.path(&mut planes, explanation);
        let pyramid = spans.whole.as_ref().map(|whole| numbers.whole(&mut planes, whole));
        numbers.series(&mut planes, &series);
        let gathered = Gathered { explanation, rpcs, numbers: &numbers, spans: &spans.drawn, series: &series, stacks, requests };
        let (more, left_out) = gathered.add(&mut planes, source)?;
        numbers.spans(&mut planes, &spans.drawn);
        let (listed, planes) = planes.finish();
        let mut notes = series.notes;
        notes.extend(said(undrawn, unnamed));
        notes.extend(left_out);
        // The critical path is in the planes.
        let without_path = Explanation { path: Vec::new(), ..explanation.clone() };
        let header = Header {
            format: header::FORMAT,
            explanation: &without_path,
            short: short(explanation, &TextOptions::default(), None),
            start_ns: ticks.since_ns(start_ns),
            wall_ns: u64::try_from(end_ns.saturating_sub(start_ns)).unwrap_or(0),
            tick_ns: ticks.tick_ns,
            lanes,
            kinds,
            objects,
            causes,
            marks: series.mark_kinds,
            counters: header::counters(&series.counters, &lane_of, source.objects()),
            planes: listed,
            sample_classes: series.sample_classes,
            left_out: LeftOut { spans: spans.left_out },
            more,
            pyramid,
            notes,
        };
        Ok(Data { header: header.to_text(), planes })
    }

    /// Returns the number of bytes that the data take in a page, roughly.
    fn bytes(&self) -> usize {
        self.header.len() + self.planes.len() / 3 * 4
    }

    /// Appends the elements that hold the data; their names end with `suffix`.
    fn write(&self, page: &mut String, suffix: &str) {
        push_header(page, suffix, &self.header);
        page.extend(["\n<script type=\"application/octet-stream\" id=\"thalweg-data", suffix, "\">"]);
        base64::push(page, &self.planes);
        page.push_str("</script>");
    }
}

/// Returns how much there is to draw in each slot; 0 if nothing refers to it.
fn weights(slots: &Slots<'_>, explanation: &Explanation, spans: &Spans, series: &Series) -> Vec<u64> {
    let mut weights = vec![0; slots.count()];
    let mut add = |slot: Option<u32>, weight: u64| {
        if let Some(slot) = slot {
            weights[slot as usize] += weight;
        }
    };
    for segment in &explanation.path {
        add(segment.track.and_then(|track| slots.track(track)), 1 << 32);
    }
    for span in &spans.drawn {
        add(Some(span.slot), 1);
        add(slots.track(span.waker), 1);
    }
    let partial = spans.whole.iter().flat_map(|whole| whole.partial.iter().enumerate());
    partial.filter(|(_, partial)| **partial).for_each(|(slot, _)| add(Some(slot as u32), 1));
    series.marks.iter().for_each(|mark| add(Some(mark.slot), 1));
    series.counters.iter().for_each(|counter| add(counter.slot, 1));
    series.samples.iter().for_each(|sample| add(sample.slot, 1));
    weights
}

/// Returns the instants of everything that is drawn.
fn instants<'a>(spans: &'a Spans, series: &'a Series) -> impl Iterator<Item = i64> + 'a {
    let of_spans = spans.drawn.iter().flat_map(|span| [span.start_ns, span.end_ns]);
    let of_spans = of_spans.chain(spans.whole.iter().flat_map(|whole| [whole.finest.interval.0, whole.finest.interval.1]));
    let of_series = series.marks.iter().map(|mark| mark.at_ns).chain(series.values.iter().map(|value| value.at_ns));
    of_spans.chain(of_series).chain(series.samples.iter().map(|sample| sample.at_ns))
}

/// Returns sentences on what is not in the data.
fn said(undrawn: usize, unnamed: usize) -> Vec<String> {
    let mut said = Vec::new();
    if undrawn > 0 {
        said.push(format!("{} lanes are not drawn: too many. Those with the most to show are.", numbers::count(undrawn as u64)));
    }
    if unnamed > 0 {
        said.push(format!("{} objects are not named: too many.", numbers::count(unnamed as u64)));
    }
    said
}
