//! Common parts of explanations of packets: the path, bytes over time, bursts and gaps of each direction, and the recorder's notes.

use crate::document::{Channel, ChannelBasis, Charge, Gaps, MAX_BINS, Segment, Throughput};
use crate::limits::rpcstat as limits;
use crate::observe::channels::Gatherer;
use crate::observe::curve::Curve;
use thalweg_trace::Source;

/// Makes the path: for each few bins, a segment of the charge that `charge_of` gives for the part with most of their time. `bins` hold the
/// seconds of each part.
pub(crate) fn path<const PARTS: usize>(
    bins: &[[f64; PARTS]],
    bin_s: f64,
    wall_s: f64,
    charges: &[Charge],
    charge_of: impl Fn(usize) -> Option<usize>,
) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for (step, chunk) in bins.chunks(limits::BINS_PER_STEP).enumerate() {
        let start_s = (step * limits::BINS_PER_STEP) as f64 * bin_s;
        if start_s >= wall_s {
            break;
        }
        let sum = |part: usize| chunk.iter().map(|bin| bin[part]).sum::<f64>();
        let most = (0..PARTS).max_by(|&a, &b| sum(a).total_cmp(&sum(b)));
        let Some(charge) = most.and_then(&charge_of) else { continue };
        let end_s = (start_s + chunk.len() as f64 * bin_s).min(wall_s);
        match segments.last_mut() {
            Some(last) if last.charge == charge => last.end_s = end_s,
            _ => {
                let start_s = segments.last().map_or(0.0, |last| last.end_s);
                segments.push(Segment { cause: charges[charge].cause, charge, start_s, end_s, track: None });
            }
        }
    }
    if let Some(last) = segments.last_mut() {
        last.end_s = wall_s;
    }
    segments
}

/// A direction's bytes over time.
pub(crate) fn throughput(curve: &Curve) -> Throughput {
    let step = curve.bins.len().div_ceil(MAX_BINS);
    let bin_s = curve.bin_s() * step as f64;
    Throughput { bin_s, bytes_per_s: curve.bins.chunks(step).map(|bins| bins.iter().sum::<f64>() / bin_s).collect() }
}

/// Each direction's bursts and gaps, the larger one first.
pub(crate) fn channels(all: &[(&str, &Gatherer)], wall_s: f64) -> Vec<Channel> {
    let mut channels: Vec<Channel> = all
        .iter()
        .filter(|(_, gatherer)| gatherer.bytes > 0)
        .map(|(name, gatherer)| {
            let gathered = gatherer.finish();
            let mut lengths: Vec<u64> = gathered.gaps.iter().map(|g| (g.end - g.start) as u64).collect();
            lengths.sort_unstable();
            let quantile = |part| crate::observe::quantile::of_sorted(&lengths, part).map(|ns| ns as f64 / 1e9);
            let burst_s = gathered.burst_ns as f64 / 1e9;
            Channel {
                name: (*name).to_owned(),
                aggregate: true,
                object: None,
                basis: ChannelBasis::Received,
                size_bytes: gathered.bytes,
                sends: gathered.sends,
                bursts: lengths.len() as u64 + 1,
                burst_bytes_per_s: (burst_s > 0.0).then(|| gathered.bytes as f64 / burst_s),
                busy_share: (gathered.busy_ns as f64 / 1e9 / wall_s).clamp(0.0, 1.0),
                gaps: Gaps {
                    count: lengths.len() as u64,
                    total_s: lengths.iter().sum::<u64>() as f64 / 1e9,
                    median_s: quantile(0.5),
                    p99_s: quantile(0.99),
                    ..Gaps::default()
                },
            }
        })
        .collect();
    channels.sort_by_key(|c| std::cmp::Reverse(c.size_bytes));
    channels
}

/// The recorder's notes.
pub(crate) fn notes(source: &dyn Source) -> Vec<String> {
    let meta = source.meta();
    let notes = meta.attributes.iter().filter(|(name, _)| name == "notes");
    let mut notes: Vec<String> = notes.flat_map(|(_, text)| text.lines().map(str::to_owned)).collect();
    if meta.dropped_events > 0 {
        notes.push(format!("{} events were lost while recording.", meta.dropped_events));
    }
    notes
}
