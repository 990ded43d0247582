//! Simulated transfers: eight families of laws with random parameters, on grids of up to 64 points.
//!
//! For evaluating a search without a machine: each law gives the time at each point, and the shares of its causes. The laws are those of
//! the study that chose the search (a disk behind a network, windows on a long path, processors with a penalty beyond the cache, a disk
//! that thrashes, many small files, blocks that are too large, loss, connections that thrash).

use super::{Kind, Knob};
use thalweg_measure::SplitMix;

/// A simulated transfer.
pub(super) struct Law {
    pub(super) family: usize,
    pub(super) knobs: Vec<Knob>,
    pub(super) start: Vec<usize>,
    parameters: [f64; 4],
}

pub(super) const FAMILIES: usize = 8;

fn uniform(random: &mut SplitMix, from: f64, to: f64) -> f64 {
    from + (to - from) * (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns a standard normal number, by Box and Muller.
pub(super) fn normal(random: &mut SplitMix) -> f64 {
    let (a, b) = (uniform(random, 1e-12, 1.0), uniform(random, 0.0, std::f64::consts::TAU));
    (-2.0 * a.ln()).sqrt() * b.cos()
}

fn knob(kind: Kind, values: usize) -> Knob {
    let numbers = (0..values).map(|n| f64::from(1_u32 << n)).collect();
    Knob { name: format!("{kind:?}").to_lowercase(), kind, numbers: Some(numbers), values }
}

impl Law {
    pub(super) fn new(family: usize, random: &mut SplitMix) -> Law {
        let knobs = match family {
            1 => vec![knob(Kind::Window, 8), knob(Kind::Streams, 8)],
            3 | 7 => vec![knob(Kind::Requests, 8), knob(Kind::Block, 8)],
            _ => vec![knob(Kind::Streams, 4), knob(Kind::Requests, 4), knob(Kind::Block, 4)],
        };
        let start = knobs.iter().map(|_| 0).collect();
        let parameters = std::array::from_fn(|_| uniform(random, 0.0, 1.0));
        Law { family, knobs, start, parameters }
    }

    /// Returns the value of the knob of this kind at a point; 1 if there is none.
    fn value(&self, place: &[usize], kind: Kind) -> f64 {
        let at = self.knobs.iter().position(|knob| knob.kind == kind);
        at.map_or(1.0, |n| self.knobs[n].numbers.as_ref().map_or(1.0, |numbers| numbers[place[n]]))
    }

    /// Returns the seconds of each cause; the wall time is the longest of those that overlap and the sum of those that do not.
    pub(super) fn causes(&self, place: &[usize]) -> Vec<(String, f64)> {
        let [a, b, c, d] = self.parameters;
        let (streams, requests) = (self.value(place, Kind::Streams), self.value(place, Kind::Requests));
        let (block, window) = (self.value(place, Kind::Block), self.value(place, Kind::Window));
        let per_call = 0.3 + b;
        let raw: Vec<(&str, f64)> = match self.family {
            // Serial at one request; a disk behind a network.
            0 => {
                vec![("client.read", (2.0 + 4.0 * a) / requests.min(4.0)), ("network.bandwidth", 1.0 + b), ("client.cpu", per_call / block)]
            }
            // A window per stream, up to the link's rate; beyond it, streams cost.
            1 => {
                let reached = (window * streams * (0.02 + 0.05 * a)).min(1.0);
                let cost = 0.02 * (1.0 + c) * (streams - 1.0).max(0.0);
                vec![("network.rwnd", 1.0 / reached - 1.0), ("network.bandwidth", 1.0), ("client.cpu", cost)]
            }
            // Processors: small blocks cost calls, large ones leave the cache.
            2 => vec![
                ("client.cpu", 1.0 + 2.0 * (1.0 + a) / block + 0.15 * (1.0 + b) * (block - 4.0).max(0.0) + 0.1 * (streams - 1.0)),
                ("network.bandwidth", 0.5 + c),
            ],
            // A disk that is fastest with a few requests and thrashes beyond.
            3 => {
                let best = 2.0 + 6.0 * a;
                let disk = 2.0 / requests.min(best) + 0.12 * (0.5 + b) * (requests - best).max(0.0);
                vec![("client.read", disk + 1.0 / block), ("client.cpu", 0.2 + c * 0.2)]
            }
            // Small files over a round trip, and a server that thrashes.
            4 => vec![
                ("network.latency", (3.0 + 5.0 * a) / (requests * streams.min(2.0))),
                ("server.metadata", 0.8 + 0.05 * (1.0 + b) * requests * streams),
            ],
            // Blocks: calls if small, no overlap if large.
            5 => vec![("network.latency", 2.0 * (0.5 + a) / block), ("client.write", 1.0 + 0.25 * (0.3 + b) * block / requests)],
            // Loss: each stream gets the rate of the square-root law.
            6 => {
                let reached = (streams * requests.min(2.0) * (0.08 + 0.1 * a)).min(1.0);
                vec![("network.loss", 1.0 / reached - 1.0), ("network.bandwidth", 1.0), ("client.cpu", per_call * 0.3 / block)]
            }
            // A server that thrashes with connections.
            _ => {
                let best = 2.0 + 14.0 * a;
                let wait = 4.0 / requests.min(best) + 0.2 * (0.5 + c) * (requests - best).max(0.0);
                vec![("server.think", wait), ("client.cpu", 0.3 + (0.5 + d) / block)]
            }
        };
        let mut causes: Vec<(String, f64)> = raw.into_iter().filter(|(_, s)| *s > 0.0).map(|(name, s)| (name.to_owned(), s)).collect();
        causes.sort_by(|x, y| y.1.total_cmp(&x.1));
        causes
    }

    pub(super) fn seconds(&self, place: &[usize]) -> f64 {
        self.causes(place).iter().map(|(_, seconds)| seconds).sum()
    }

    /// Returns its best rate.
    pub(super) fn best(&self) -> f64 {
        let all = self.knobs.iter().fold(vec![Vec::new()], |places: Vec<Vec<usize>>, knob| {
            places.iter().flat_map(|place| (0..knob.values).map(|n| [place.as_slice(), &[n]].concat())).collect()
        });
        all.iter().map(|place| 1.0 / self.seconds(place)).fold(0.0, f64::max)
    }
}
