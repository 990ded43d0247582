//! The axes of the panels, for one document or for several to compare.

use super::axes::{Quantity, Scale};
use thalweg_explain::rpcstat::document::{RpcStat, Series};

/// If the lesser direction is below this part of the other, it gets its own axis: its line would lie at 0.
const MUCH_SMALLER: f64 = 0.05;
/// If TCP's curves differ by more than this factor, their axis is logarithmic.
const FAR_APART: f64 = 4.0;

/// The axis of each panel; `None` if nothing was recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scales {
    /// Whether calls carry more than replies.
    pub sent_is_more: bool,
    /// For the direction that carries more, and for both if they are similar.
    pub throughput: Scale,
    /// For the direction that carries less, if it is much less.
    pub lesser: Option<Scale>,
    /// Calls per second.
    pub calls: Scale,
    /// Pending calls.
    pub pending: Scale,
    /// Congestion window, bytes in flight, receive window, unsent bytes.
    pub tcp: Option<Scale>,
    /// Response times.
    pub response: Option<Scale>,
}

fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().filter(|v| v.is_finite()).fold(0.0, f64::max)
}

fn present<T: Copy>(values: &[Option<T>], to_f64: impl Fn(T) -> f64) -> Vec<f64> {
    values.iter().filter_map(|v| v.map(&to_f64)).collect()
}

/// Returns TCP's curves, as far as recorded.
pub(super) fn tcp_curves(s: &Series) -> [&[Option<u64>]; 4] {
    [&s.cwnd_bytes, &s.in_flight_bytes, &s.receive_window_bytes, &s.unsent_bytes]
}

impl Scales {
    /// Returns axes for all of these documents.
    pub(super) fn of(documents: &[&RpcStat]) -> Scales {
        let all = |values: &dyn Fn(&RpcStat) -> f64| most(documents.iter().map(|d| values(d)));
        let sent = all(&|d| most(d.series.sent_bytes_per_s.iter().copied()));
        let received = all(&|d| most(d.series.received_bytes_per_s.iter().copied()));
        let (more, less) = if sent >= received { (sent, received) } else { (received, sent) };
        let per_s = |s: &Series, n: u64| n as f64 / s.bin_s.max(1e-12);
        let calls = all(&|d| most(d.series.calls.iter().chain(&d.series.replies).map(|n| per_s(&d.series, *n))));
        let window = |d: &RpcStat| most(present(&d.series.window, |n| n as f64)).max(d.pending.window_median as f64);
        let pending = all(&|d| most(d.series.pending_max.iter().map(|n| *n as f64)).max(window(d)));
        Scales {
            sent_is_more: sent >= received,
            throughput: Scale::linear(more, Quantity::BitRate),
            lesser: (less < MUCH_SMALLER * more).then(|| Scale::linear(less, Quantity::BitRate)),
            calls: Scale::linear(calls, Quantity::Count),
            pending: Scale::linear(pending, Quantity::Count),
            tcp: tcp(documents),
            response: response(documents),
        }
    }
}

fn tcp(documents: &[&RpcStat]) -> Option<Scale> {
    let curves = documents.iter().flat_map(|d| tcp_curves(&d.series)).map(|curve| present(curve, |n| n as f64));
    let curves: Vec<Vec<f64>> = curves.filter(|curve| !curve.is_empty()).collect();
    let tops: Vec<f64> = curves.iter().map(|curve| most(curve.iter().copied())).filter(|top| *top > 0.0).collect();
    let highest = most(tops.iter().copied());
    let lowest = tops.iter().copied().fold(f64::INFINITY, f64::min);
    if curves.is_empty() {
        return None;
    }
    if highest <= FAR_APART * lowest {
        return Some(Scale::linear(highest, Quantity::Bytes));
    }
    let least = curves.iter().flatten().copied().filter(|v| *v >= 512.0).fold(f64::INFINITY, f64::min);
    Some(Scale::log(least.min(lowest).max(512.0), highest, Quantity::Bytes))
}

fn response(documents: &[&RpcStat]) -> Option<Scale> {
    let all = documents.iter().flat_map(|d| {
        let s = &d.series;
        s.response_median_s
            .iter()
            .chain(&s.response_max_s)
            .chain(&s.response_mean_s)
            .filter_map(|v| *v)
            .filter(|v| *v > 0.0 && v.is_finite())
    });
    let (least, most) = all.fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
    (most > 0.0).then(|| Scale::log(least, most, Quantity::Seconds))
}
