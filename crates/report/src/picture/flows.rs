//! Bytes over time: what the command reads and writes, and what crosses each connection in each direction.
//!
//! The same bytes are often recorded at several places: as they were handed over by the sender, as they were acknowledged, as they were
//! taken by the receiver. Each is collected, and the one nearest to the wire at the command's end is drawn: a socket takes megabytes at once
//! which then travel for a second. Rates are averaged over a window that a person can see; without it a burst of 10 µs would be a spike of
//! 400 Gb/s.

use super::lanes::Plan;
use super::palette::{CLASSES, SpanClass};
use crate::numbered::Numbers;
use std::collections::{HashMap, HashSet};
use thalweg_trace::{ABSENT, ABSENT_RESULT, Counter, CounterName, CounterOf, Source, SpanBatch, SpanKind};

/// Width of a bin in pixels.
const BIN_PX: f64 = 2.0;
/// Bins of the window over which rates are averaged: 10 pixels.
const WINDOW: usize = 5;
/// A record of a stream is used if it has at least this part of the bytes of the fullest one.
const NEARLY_ALL: f64 = 0.8;
/// A series below this part of the largest one is not drawn.
const LEAST_PART: f64 = 0.03;
/// Fewer bytes are not worth a curve.
const LEAST_BYTES: f64 = 65_536.0;

/// Bytes in bins of equal width.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bins {
    bytes: Vec<f64>,
    /// The sum.
    pub total: f64,
}

impl Bins {
    /// Spreads bytes evenly over an interval, given in bins; what lies outside of the `count` bins is dropped.
    fn spread(&mut self, count: usize, (from, to): (f64, f64), bytes: f64) {
        let end = count as f64;
        if bytes <= 0.0 || to < 0.0 || from >= end {
            return;
        }
        if self.bytes.is_empty() {
            self.bytes = vec![0.0; count];
        }
        let length = to - from;
        let (first, last) = (from.max(0.0) as usize, (to.min(end - 1.0)) as usize);
        if first == last || length <= 0.0 {
            let inside = if length > 0.0 { (to.min(end) - from.max(0.0)) / length } else { 1.0 };
            self.bytes[first] += bytes * inside;
            self.total += bytes * inside;
            return;
        }
        for bin in first..=last {
            let part = ((bin + 1) as f64).min(to) - (bin as f64).max(from);
            self.bytes[bin] += bytes * part / length;
            self.total += bytes * part / length;
        }
    }

    fn add(&mut self, other: &Bins) {
        if self.bytes.is_empty() {
            self.bytes.clone_from(&other.bytes);
        } else {
            self.bytes.iter_mut().zip(&other.bytes).for_each(|(a, b)| *a += b);
        }
        self.total += other.total;
    }

    /// Returns the bytes in each bin, averaged over the window.
    pub(crate) fn averaged(&self) -> Vec<f64> {
        let around = WINDOW / 2;
        let window = |i: usize| &self.bytes[i.saturating_sub(around)..(i + around + 1).min(self.bytes.len())];
        (0..self.bytes.len()).map(|i| window(i).iter().sum::<f64>() / window(i).len() as f64).collect()
    }

    /// Returns the bytes between two bins.
    fn between(&self, from: f64, to: f64) -> f64 {
        let (from, to) = (from.max(0.0) as usize, (to.max(0.0) as usize).min(self.bytes.len()));
        self.bytes.get(from..to).map_or(0.0, |bins| bins.iter().sum())
    }
}

/// One direction of a connection, as each place recorded it.
#[derive(Clone, Debug, Default)]
struct Direction {
    handed_over: Bins,
    taken: Bins,
    acknowledged: Bins,
    arrived: Bins,
    /// Whether the command sends it.
    sends: bool,
    /// Which of them is drawn, if that is decided.
    choice: Option<usize>,
}

impl Direction {
    fn all(&self) -> [&Bins; 4] {
        // The gaps of what a command sends are those between its calls: its own end comes first.
        match self.sends {
            true => [&self.acknowledged, &self.arrived, &self.handed_over, &self.taken],
            false => [&self.arrived, &self.acknowledged, &self.taken, &self.handed_over],
        }
    }

    /// Returns the number of the record nearest to the wire that has nearly all bytes.
    fn chosen(&self) -> usize {
        let most = self.all().iter().map(|bins| bins.total).fold(0.0, f64::max);
        let complete = || self.all().iter().position(|bins| bins.total >= NEARLY_ALL * most);
        self.choice.or_else(complete).unwrap_or_default()
    }

    fn best(&self) -> &Bins {
        self.all()[self.chosen()]
    }
}

/// A curve.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// What it shows.
    pub name: &'static str,
    /// Its colour.
    pub colour: &'static str,
    /// Whether it is a network's.
    pub network: bool,
    /// The bytes.
    pub bins: Bins,
}

/// What moved in a panel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    start_ns: i64,
    bin_ns: f64,
    count: usize,
    read: Bins,
    written: Bins,
    /// By lane: to the server, to the client.
    lanes: HashMap<usize, [Direction; 2]>,
    /// What the command moved over anything that has no lane.
    loose: [Direction; 2],
    /// Lanes of connections that the command uses.
    of_command: HashSet<usize>,
    /// Connections' ends at servers.
    server_ends: Numbers,
    /// By thread and object: bytes of a file whose beginning was not reached yet.
    pending: HashMap<(u64, u64, bool), Pending>,
    /// The curves to draw, if that is decided.
    curves: Option<Vec<&'static str>>,
}

/// Bytes of a file that a thread moved in pieces, of which the last has them all.
#[derive(Clone, Copy, Debug)]
struct Pending {
    from_ns: i64,
    to_ns: i64,
    bytes: u64,
}

impl Flows {
    /// Returns empty bins for a panel of this width.
    pub(crate) fn new(start_ns: i64, end_ns: i64, width: f64) -> Flows {
        let count = ((width / BIN_PX) as usize).max(1);
        Flows { start_ns, bin_ns: (end_ns - start_ns).max(1) as f64 / count as f64, count, ..Flows::default() }
    }

    fn bin(&self, ns: i64) -> f64 {
        ns.saturating_sub(self.start_ns) as f64 / self.bin_ns
    }

    /// Adds row `row` of a batch, also of one outside of the panel.
    pub(crate) fn add(&mut self, plan: &Plan, batch: &SpanBatch, row: usize) {
        use SpanKind as K;
        let kind = batch.kind[row];
        let failed = batch.result[row] < 0 && batch.result[row] != ABSENT_RESULT;
        let within_call = batch.parent[row] != 0 && batch.cpu_ns[row] == 0;
        match kind {
            _ if failed || within_call => {}
            K::FileRead | K::FileWrite if plan.command_tracks.contains(&batch.track[row]) => self.add_file(batch, row),
            K::NetSend | K::NetReceive if batch.size_bytes[row] != ABSENT => self.add_network(plan, batch, row),
            _ => {}
        }
    }

    /// A long call is recorded in pieces, the last of which has the bytes: they moved during all of them.
    fn add_file(&mut self, batch: &SpanBatch, row: usize) {
        let key = (batch.track[row], batch.object[row], batch.kind[row] == SpanKind::FileRead);
        let (from_ns, to_ns, bytes) = (batch.start_ns[row], batch.end_ns[row], batch.size_bytes[row]);
        if bytes == ABSENT || bytes == 0 {
            if let Some(pending) = self.pending.get_mut(&key) {
                pending.from_ns = pending.from_ns.min(from_ns);
            }
        } else if let Some(whole) = self.pending.insert(key, Pending { from_ns, to_ns, bytes }) {
            self.spread_file(key.2, whole);
        }
    }

    fn spread_file(&mut self, read: bool, whole: Pending) {
        let at = (self.bin(whole.from_ns), self.bin(whole.to_ns));
        let bins = if read { &mut self.read } else { &mut self.written };
        bins.spread(self.count, at, whole.bytes as f64);
    }

    fn add_network(&mut self, plan: &Plan, batch: &SpanBatch, row: usize) {
        let (at, count, bytes) = ((self.bin(batch.start_ns[row]), self.bin(batch.end_ns[row])), self.count, batch.size_bytes[row] as f64);
        let (track, sends) = (batch.track[row], batch.kind[row] == SpanKind::NetSend);
        let (by_server, by_command) = (plan.server_tracks.contains(&track), plan.command_tracks.contains(&track));
        let lane = plan.of_connection.get(&batch.object[row]).copied();
        if by_server {
            self.server_ends.insert(batch.object[row]);
        }
        if by_command {
            self.of_command.extend(lane);
        }
        let directions = match lane {
            Some(lane) => self.lanes.entry(lane).or_default(),
            None if by_command => &mut self.loose,
            None => return,
        };
        let direction = &mut directions[usize::from(by_server == sends)];
        let bins = if sends { &mut direction.handed_over } else { &mut direction.taken };
        bins.spread(count, at, bytes);
    }

    /// Completes the bins when all spans were added: with TCP's own counts of what was acknowledged and of what has arrived.
    pub(crate) fn complete(&mut self, source: &dyn Source, plan: &Plan) -> crate::Result<()> {
        let mut pending: Vec<_> = std::mem::take(&mut self.pending).into_iter().collect();
        pending.sort_unstable_by_key(|(key, _)| *key);
        pending.into_iter().for_each(|(key, whole)| self.spread_file(key.2, whole));
        for (name, at_sender) in [(CounterName::TcpAckedBytes, true), (CounterName::TcpReceivedBytes, false)] {
            let mut previous: HashMap<u64, Counter> = HashMap::new();
            for counter in source.counters(name)? {
                let CounterOf::Object(object) = counter.of else { continue };
                let Some(&lane) = plan.of_connection.get(&object.number()) else { continue };
                let Some(before) = previous.insert(object.number(), counter) else { continue };
                let at_server = self.server_ends.contains(&object.number());
                let at = (self.bin(before.at.ns()), self.bin(counter.at.ns()));
                let bytes = counter.value.saturating_sub(before.value) as f64;
                let direction = &mut self.lanes.entry(lane).or_default()[usize::from(at_server == at_sender)];
                let bins = if at_sender { &mut direction.acknowledged } else { &mut direction.arrived };
                bins.spread(self.count, at, bytes);
            }
        }
        for directions in self.lanes.values_mut().chain([&mut self.loose]) {
            directions[usize::from(plan.command_serves)].sends = true;
        }
        Ok(())
    }

    /// Draws what the whole picture draws, from the same records: in a part of the run others may be fuller.
    pub(crate) fn follow(&mut self, plan: &Plan, whole: &Flows) {
        self.curves = Some(whole.series(plan).iter().map(|s| s.name).collect());
        for (lane, directions) in &mut self.lanes {
            let Some(theirs) = whole.lanes.get(lane) else { continue };
            directions.iter_mut().zip(theirs).for_each(|(mine, theirs)| mine.choice = Some(theirs.chosen()));
        }
        self.loose.iter_mut().zip(&whole.loose).for_each(|(mine, theirs)| mine.choice = Some(theirs.chosen()));
    }

    /// Returns what moved on a lane: to the server, and to the client.
    pub(crate) fn of_lane(&self, lane: usize) -> [Option<&Bins>; 2] {
        let both = self.lanes.get(&lane);
        [0, 1].map(|i: usize| both.map(|directions| directions[i].best()).filter(|bins| bins.total > 0.0))
    }

    fn network(&self) -> [Bins; 2] {
        [0, 1].map(|i: usize| {
            let mut sum = self.loose[i].best().clone();
            let mut lanes: Vec<_> = self.lanes.iter().filter(|(lane, _)| self.of_command.contains(lane)).collect();
            lanes.sort_by_key(|(lane, _)| **lane);
            lanes.iter().for_each(|(_, directions)| sum.add(directions[i].best()));
            sum
        })
    }

    /// Returns the curves worth drawing, the largest first.
    pub(crate) fn series(&self, plan: &Plan) -> Vec<Series> {
        let [sent, received] = self.network();
        let [sent, received] = if plan.command_serves { [received, sent] } else { [sent, received] };
        let series = |name, class: SpanClass, network, bins| Series { name, colour: CLASSES[class as usize].colour, network, bins };
        let mut all = vec![
            series("read", SpanClass::Read, false, self.read.clone()),
            series("written", SpanClass::Write, false, self.written.clone()),
            series("sent", SpanClass::Send, true, sent),
            series("received", SpanClass::Receive, true, received),
        ];
        all.retain(|s| s.bins.total > 0.0);
        all.sort_by(|a, b| b.bins.total.total_cmp(&a.bins.total));
        if let Some(curves) = &self.curves {
            all.retain(|s| curves.contains(&s.name));
            return all;
        }
        let most = all.iter().map(|s| s.bins.total).fold(0.0, f64::max);
        // The source or sink of a transfer would hide its curve: the page cache takes in microseconds what travels for a second.
        let networked = all.iter().any(|s| s.network && s.bins.total >= 0.5 * most);
        all.retain(|s| s.bins.total >= LEAST_BYTES.max(LEAST_PART * most) && s.network >= networked);
        all
    }

    /// Returns the width of a bin in seconds.
    pub(crate) fn bin_s(&self) -> f64 {
        self.bin_ns * 1e-9
    }

    /// Returns the time over which rates are averaged, in seconds.
    pub(crate) fn window_s(&self) -> f64 {
        self.bin_s() * WINDOW as f64
    }

    /// Whether so much moved between two instants, over the network and at the mean rate's half or more, that the time was no gap. Short
    /// intervals are not judged: what arrives in them may have left before.
    pub(crate) fn goes_on(&self, from_ns: i64, to_ns: i64) -> bool {
        let (from, to) = (self.bin(from_ns), self.bin(to_ns));
        let long = (3 * WINDOW) as f64;
        let moved = |bins: &Bins| bins.total > 0.0 && bins.between(from, to) > 0.5 * bins.total * (to - from) / self.count as f64;
        to - from >= long && self.network().iter().any(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_by_spreading_and_averaging() {
        let mut bins = Bins::default();
        bins.spread(100, (10.5, 10.5), 5.0);
        bins.spread(100, (20.25, 30.75), 10.5);
        bins.spread(100, (98.0, 102.0), 4.0);
        bins.spread(100, (-3.0, -1.0), 100.0);
        assert!((bins.total - 17.5).abs() < 1e-9 && (bins.bytes.iter().sum::<f64>() - 17.5).abs() < 1e-9);
        assert!((bins.bytes[25] - 1.0).abs() < 1e-9 && (bins.bytes[20] - 0.75).abs() < 1e-9);
        let averaged = bins.averaged();
        assert!((averaged[10] - 1.0).abs() < 1e-9, "5 bytes over 5 bins");
        assert!((bins.between(0.0, 50.0) - 15.5).abs() < 1e-9);
    }

    #[test]
    fn what_is_nearest_to_the_wire_is_drawn_if_it_is_complete() {
        let mut direction = Direction::default();
        direction.handed_over.spread(10, (0.0, 1.0), 100.0);
        assert!((direction.best().total - 100.0).abs() < 1e-9);
        direction.taken.spread(10, (0.0, 9.0), 50.0);
        assert!((direction.best().total - 100.0).abs() < 1e-9, "half was recorded");
        direction.taken.spread(10, (9.0, 10.0), 45.0);
        assert!((direction.best().total - 95.0).abs() < 1e-9);
        direction.sends = true;
        assert!((direction.best().total - 100.0).abs() < 1e-9, "the command's own calls");
    }
}
