//! The gaps of a channel: what the critical path was charged to within them, gap by gap and part by part.

use super::Charges;
use crate::Cause;
use crate::document::{Gap, GapGroup, GapPart, Gaps, MAX_GAPS};
use crate::facts::Parts;
use crate::observe::channels::{Gathered, Idle, period_of};
use crate::observe::quantile::of_sorted;
use std::collections::HashMap;

impl Parts<'_> {
    pub(super) fn gaps(&self, gathered: &Gathered, charges: &Charges) -> Gaps {
        let mut groups: HashMap<Cause, (Vec<&Idle>, HashMap<usize, i64>)> = HashMap::new();
        let mut causes = Vec::with_capacity(gathered.gaps.len());
        let mut within: HashMap<Cause, Vec<u64>> = HashMap::new();
        for gap in &gathered.gaps {
            let charged = self.charged_within(gap.start, gap.end, charges);
            let mut by_cause: Vec<(Cause, i64)> = Vec::new();
            charged.iter().for_each(|&(c, ns)| add(&mut by_cause, charges.list[c].cause, ns));
            let cause = by_cause.iter().max_by_key(|&&(c, ns)| (ns, std::cmp::Reverse(c))).map_or(Cause::Unknown, |&(c, _)| c);
            by_cause.iter().for_each(|&(c, ns)| within.entry(c).or_default().push(ns.max(0) as u64));
            let group = groups.entry(cause).or_default();
            group.0.push(gap);
            charged.iter().filter(|(c, _)| charges.list[*c].cause == cause).for_each(|&(c, ns)| *group.1.entry(c).or_default() += ns);
            causes.push(cause);
        }
        let carried = |gap: &Idle| gathered.bytes - gap.bytes_after;
        let mut groups: Vec<GapGroup> = groups
            .into_iter()
            .map(|(cause, (gaps, places))| {
                let (total_s, median_s, p99_s) = lengths(gaps.iter().map(|g| (g.end - g.start) as u64).collect());
                let place = places.iter().max_by_key(|&(&c, &ns)| (ns, std::cmp::Reverse(c))).map(|(&c, _)| charges.list[c].place.clone());
                let places_of: Vec<(i64, u64)> = gaps.iter().map(|g| (g.end - g.start, carried(g))).collect();
                GapGroup {
                    cause,
                    place: place.unwrap_or_else(|| "nowhere recorded".to_owned()),
                    count: gaps.len() as u64,
                    total_s,
                    median_s: median_s.unwrap_or(0.0),
                    p99_s: p99_s.unwrap_or(0.0),
                    period_bytes: period_of(&places_of),
                }
            })
            .collect();
        groups.sort_by(|a, b| b.total_s.total_cmp(&a.total_s).then(a.cause.cmp(&b.cause)));
        let (total_s, median_s, p99_s) = lengths(gathered.gaps.iter().map(|g| (g.end - g.start) as u64).collect());
        let mut longest: Vec<(&Idle, Cause)> = gathered.gaps.iter().zip(causes).collect();
        longest.sort_by_key(|(g, _)| std::cmp::Reverse(g.end - g.start));
        longest.truncate(MAX_GAPS);
        longest.sort_by_key(|(g, _)| g.start);
        let gap =
            |(g, cause): (&Idle, Cause)| Gap { start_s: self.seconds(g.start), end_s: self.seconds(g.end), after_bytes: carried(g), cause };
        let all: Vec<(i64, u64)> = gathered.gaps.iter().map(|g| (g.end - g.start, carried(g))).collect();
        Gaps {
            count: gathered.gaps.len() as u64,
            total_s,
            median_s,
            p99_s,
            period_bytes: period_of(&all),
            groups,
            parts: parts(within),
            longest: longest.into_iter().map(gap).collect(),
        }
    }

    /// The charges of the path within an interval, with their time.
    fn charged_within(&self, start: i64, end: i64, charges: &Charges) -> Vec<(usize, i64)> {
        let path = &self.ledger.path;
        let first = path.partition_point(|r| r.start >= end);
        let mut charged = Vec::new();
        for run in path[first..].iter().take_while(|r| r.end > start) {
            let ns = run.end.min(end) - run.start.max(start);
            add(&mut charged, charges.of_entry[run.entry as usize], ns);
        }
        charged
    }
}

/// Adds to one of a few sums: a gap has one or two causes, so a linear search is faster than a table.
fn add<K: PartialEq>(sums: &mut Vec<(K, i64)>, key: K, ns: i64) {
    match sums.iter_mut().find(|(known, _)| *known == key) {
        Some((_, sum)) => *sum += ns,
        None => sums.push((key, ns)),
    }
}

/// Sums the parts of gaps by cause: a gap in which the source is read and the server finishes has a part of each.
fn parts(within: HashMap<Cause, Vec<u64>>) -> Vec<GapPart> {
    let part = |(cause, each): (Cause, Vec<u64>)| {
        let gaps = each.len() as u64;
        let (total_s, median_s, _) = lengths(each);
        GapPart { cause, gaps, total_s, median_s: median_s.unwrap_or(0.0) }
    };
    let mut parts: Vec<GapPart> = within.into_iter().map(part).collect();
    parts.sort_by(|a, b| b.total_s.total_cmp(&a.total_s).then(a.cause.cmp(&b.cause)));
    parts
}

/// Sum, median and 99th percentile of nanoseconds, in seconds.
fn lengths(mut each: Vec<u64>) -> (f64, Option<f64>, Option<f64>) {
    each.sort_unstable();
    let s = |ns: u64| ns as f64 / 1e9;
    (s(each.iter().sum()), of_sorted(&each, 0.5).map(s), of_sorted(&each, 0.99).map(s))
}
