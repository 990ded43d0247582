//! Busy times of each stage of the run, which show the changes worth a replay.

use super::program::{CLASSES, Class, Graph, Op};
use super::regime::{REGIMES, Regime};
use crate::limits::replay as limits;
use std::collections::HashMap;

/// Busy times, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stages {
    /// Waits of fixed length, by class.
    pub delays: [f64; CLASSES],
    /// Devices, by device and class.
    pub devices: HashMap<(u32, Class), f64>,
    /// Devices' time for unrecorded programs, while this run's threads waited, by device.
    pub foreign: HashMap<u32, f64>,
    /// Connections, summed, by regime.
    pub regimes: [f64; REGIMES],
    /// Transit times, summed over waits.
    pub latency: f64,
    /// Waits for bytes by polling.
    pub polls: f64,
    /// Waits for locks.
    pub locks: f64,
    /// Waits for room in a connection with a full window.
    pub rooms: f64,
    /// Running, by program.
    pub run: Vec<f64>,
    /// Nanoseconds per byte on a connection at its best: a tenth of the bytes went faster.
    pub good_ns_per_byte: f64,
}

impl Stages {
    /// Computes them for a graph.
    pub(crate) fn of(graph: &Graph) -> Stages {
        let mut stages = Stages { run: vec![0.0; graph.programs.len()], ..Stages::default() };
        let mut rates: Vec<(f64, f64)> = Vec::new();
        for (i, program) in graph.programs.iter().enumerate() {
            for op in &program.ops {
                match *op {
                    Op::Run(ns) => stages.run[i] += ns,
                    Op::Delay { class, ns } => stages.delays[class as usize] += ns,
                    Op::Serve { device, class, service, foreign, .. } => {
                        *stages.devices.entry((device, class)).or_default() += service;
                        *stages.foreign.entry(device).or_default() += foreign;
                    }
                    Op::Arrive { way, service, bytes, regime, lag, polls, .. } => {
                        stages.regimes[regime as usize] += service;
                        stages.latency += graph.latency[way as usize];
                        if polls {
                            stages.polls += lag.max(0.0);
                        }
                        if bytes >= limits::STAGE_BYTES && service > 0.0 {
                            rates.push((service / bytes, bytes));
                        }
                    }
                    Op::Room { regime: Regime::Window, .. } => stages.rooms += 1.0,
                    Op::Follow { lock: true, .. } => stages.locks += 1.0,
                    Op::Mark(_) | Op::Follow { .. } | Op::Room { .. } | Op::Take(_) | Op::Leave(_) => {}
                }
            }
        }
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = rates.iter().map(|r| r.1).sum();
        let mut passed = 0.0;
        let good = rates.into_iter().find(|rate| {
            passed += rate.1;
            passed >= all / limits::STAGE_PART
        });
        stages.good_ns_per_byte = good.map_or(0.0, |rate| rate.0);
        stages
    }

    /// The sum over connections in these regimes.
    pub(crate) fn in_regimes(&self, regimes: &[Regime]) -> f64 {
        regimes.iter().map(|&regime| self.regimes[regime as usize]).sum()
    }

    /// The sum over devices for a class of waits.
    pub(crate) fn at_devices(&self, class: Class) -> f64 {
        self.devices.iter().filter(|((_, c), _)| *c == class).map(|(_, ns)| ns).sum()
    }

    /// The device that was waited for most in these classes.
    pub(crate) fn device_most_in(&self, classes: &[Class]) -> Option<(u32, f64)> {
        let mut sums: HashMap<u32, f64> = HashMap::new();
        for ((device, class), ns) in &self.devices {
            if classes.contains(class) {
                *sums.entry(*device).or_default() += ns;
            }
        }
        sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
    }
}
