//! Processors' idle, hard interrupt and stolen time on each machine: time that no sample sees, from counters.

use super::document::RecorderCost;
use crate::ExplainError;
use std::collections::BTreeMap;
use thalweg_trace::{Counter, CounterName, CounterOf, HostId, Meta, Source, TrackKind};

/// Values of one counter of a processor over time.
pub(super) type Series = Vec<(i64, i64)>;

/// The times of one machine's processors.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) cpus: u32,
    /// Absent if the recording does not count it.
    pub(super) idle: Option<Counted>,
    pub(super) interrupts: Option<Counted>,
    pub(super) steal: Option<Counted>,
    pub(super) cost: RecorderCost,
    pub(super) lost: u64,
}

/// A counter of all processors of a machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    /// Its increase, in nanoseconds.
    pub(super) ns: f64,
    of_cpus: Vec<Series>,
}

impl Counted {
    pub(super) fn new(of_cpus: Vec<Series>) -> Counted {
        let went_up = |series: &Series| match (series.first(), series.last()) {
            (Some(first), Some(last)) => last.1.saturating_sub(first.1).max(0) as f64,
            _ => 0.0,
        };
        Counted { ns: of_cpus.iter().map(went_up).sum(), of_cpus }
    }

    /// The interval in which all processors were counted.
    pub(super) fn ends(&self) -> Option<(i64, i64)> {
        ends(&self.of_cpus)
    }

    /// Number of counted processors.
    pub(super) fn processors(&self) -> u32 {
        self.of_cpus.len() as u32
    }

    /// Its increase in each bin, interpolated between values.
    pub(super) fn spread(&self, bins: &super::bins::Bins) -> Vec<f64> {
        let mut spread = vec![0.0; bins.count];
        for pair in self.of_cpus.iter().flat_map(|series| series.windows(2)) {
            let ((from, before), (to, after)) = (pair[0], pair[1]);
            bins.spread(from, to, after.saturating_sub(before).max(0) as f64, &mut spread);
        }
        spread
    }
}

/// The times of each machine that counts its processors' idle time, or has samples.
pub(super) fn times(source: &dyn Source, sampled: &BTreeMap<HostId, (i64, i64)>) -> Result<BTreeMap<HostId, Times>, ExplainError> {
    let mut idle = of_hosts(source, CounterName::CpuIdleNs)?;
    let mut interrupts = of_hosts(source, CounterName::CpuHardirqNs)?;
    let mut steal = of_hosts(source, CounterName::CpuStealNs)?;
    let hosts: Vec<HostId> = sampled.keys().chain(idle.keys()).copied().collect();
    let mut times = BTreeMap::new();
    for host in hosts {
        if times.contains_key(&host) {
            continue;
        }
        let idle = idle.remove(&host).map(Counted::new);
        let (start_ns, end_ns) = match idle.as_ref().and_then(|idle| ends(&idle.of_cpus)) {
            Some(ends) => ends,
            None => declared(source.meta(), host).or_else(|| sampled.get(&host).copied()).unwrap_or_default(),
        };
        let row = source.hosts().iter().find(|h| h.host == host);
        let counted = idle.as_ref().map_or(0, |idle| idle.of_cpus.len() as u32);
        let cpus = if counted > 0 { counted } else { row.map_or(1, |h| h.cpus).max(1) };
        let seconds = |name: &str| number(source.meta(), host, name).map(|ns| ns as f64 / 1e9);
        times.insert(
            host,
            Times {
                start_ns,
                end_ns,
                cpus,
                idle,
                interrupts: interrupts.remove(&host).map(Counted::new),
                steal: steal.remove(&host).map(Counted::new),
                cost: RecorderCost { share: None, bpf_s: seconds("profile.bpf_ns"), reader_s: seconds("profile.reader_ns") },
                lost: number(source.meta(), host, "profile.lost").unwrap_or(0).max(0) as u64,
            },
        );
    }
    Ok(times)
}

/// A counter's values by machine and processor.
pub(super) fn of_hosts(source: &dyn Source, name: CounterName) -> Result<BTreeMap<HostId, Vec<Series>>, ExplainError> {
    let is_cpu = |track: &&thalweg_trace::Track| track.kind == TrackKind::Cpu;
    let hosts: BTreeMap<u64, HostId> = source.tracks().iter().filter(is_cpu).map(|t| (t.track.number(), t.host)).collect();
    let mut series: BTreeMap<(HostId, u64), Series> = BTreeMap::new();
    for Counter { of, at, value, .. } in source.counters(name)? {
        if let CounterOf::Track(track) = of
            && let Some(&host) = hosts.get(&track.number())
        {
            series.entry((host, track.number())).or_default().push((at.ns(), value));
        }
    }
    let mut all: BTreeMap<HostId, Vec<Series>> = BTreeMap::new();
    series.into_iter().for_each(|((host, _), series)| all.entry(host).or_default().push(series));
    Ok(all)
}

/// The interval in which all processors were counted.
fn ends(of_cpus: &[Series]) -> Option<(i64, i64)> {
    let first = of_cpus.iter().filter_map(|series| series.first()).map(|value| value.0).min()?;
    let last = of_cpus.iter().filter_map(|series| series.last()).map(|value| value.0).max()?;
    (first < last).then_some((first, last))
}

/// The recorded start and end of the profile, on the first host's clock.
fn declared(meta: &Meta, host: HostId) -> Option<(i64, i64)> {
    let (start, end) = (number(meta, host, "profile.start_ns")?, number(meta, host, "profile.end_ns")?);
    (host.0 == 0 && start < end).then_some((start, end))
}

/// A numeric attribute.
pub(super) fn number(meta: &Meta, host: HostId, name: &str) -> Option<i64> {
    let parsed = |(_, value): &(String, String)| value.parse().ok();
    let find = |wanted: &str| meta.attributes.iter().find(|(name, _)| name == wanted).and_then(parsed);
    of_host(host, name, find)
}

/// A text attribute.
pub(super) fn text<'a>(meta: &'a Meta, host: HostId, name: &str) -> Option<&'a str> {
    let find = |wanted: &str| meta.attributes.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    of_host(host, name, find)
}

/// Merged recordings have other hosts' attributes under their number.
fn of_host<T>(host: HostId, name: &str, find: impl Fn(&str) -> Option<T>) -> Option<T> {
    let own = if host.0 == 0 { None } else { find(&format!("{}.{name}", host.0)) };
    own.or_else(|| find(name))
}
