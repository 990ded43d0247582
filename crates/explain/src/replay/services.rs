//! Service times of connections and devices, from when each wait began, ended, and was requested.

use super::program::{Class, Device, Op};
use super::regime::Regime;
use super::rows::Request;
use crate::limits::replay as limits;
use std::collections::HashMap;

/// A wait with its dependency.
pub(crate) struct LinkedWait {
    /// Index of its timeline.
    pub timeline: usize,
    /// Its index in the timeline.
    pub piece: usize,
    /// The awaited operation.
    pub op: Op,
    /// End of its blocked part.
    pub woken: f64,
    /// When the thread ran again.
    pub end: f64,
    /// When the awaited bytes were sent, or the request made.
    pub since: f64,
}

/// Corrects directions in which senders waited for room repeatedly: what looks like their latency is the window's, one window per round
/// trip.
pub(crate) fn full_ways(linked: &mut [LinkedWait], ways: usize) {
    let mut rooms = vec![0; ways];
    for l in linked.iter() {
        if let Op::Room { way, .. } = l.op {
            rooms[way as usize] += 1;
        }
    }
    for l in linked {
        if let Op::Room { way, regime, .. } | Op::Arrive { way, regime, .. } = &mut l.op
            && *regime == Regime::Latency
            && rooms[*way as usize] >= limits::ROOM_OFTEN
        {
            *regime = Regime::Window;
        }
    }
}

/// Sets the service times of connections and devices, in the order in which waits ended: from the later of the request and the previous
/// completion to the completion. `foreign` gives the time a device served others in an interval.
pub(crate) fn time_services(linked: &mut [LinkedWait], latency: &[f64], devices: usize, foreign: impl Fn(u32, f64, f64) -> f64) {
    let mut way_free = vec![f64::NEG_INFINITY; latency.len()];
    let mut device_free = vec![f64::NEG_INFINITY; devices];
    for l in linked {
        let after_waking = l.end - l.woken;
        match &mut l.op {
            Op::Arrive { way, service, lag, polls, regime, .. } => {
                let (way, there) = (*way as usize, latency[*way as usize]);
                let began = way_free[way].max(l.since);
                let arrived = l.woken - there;
                let is_way = *regime == Regime::Latency && arrived - began < there;
                *service = if *polls || is_way { 0.0 } else { (arrived - began).max(0.0) };
                way_free[way] = began + *service;
                *lag = arrived - way_free[way] + after_waking;
            }
            Op::Serve { device, service, foreign: others, lag, ahead, .. } => {
                let free = device_free[*device as usize];
                let began = if *ahead { free } else { free.max(l.since) };
                let began = if began.is_finite() { began } else { l.since };
                *service = (l.woken - began).max(0.0);
                *others = foreign(*device, began, l.woken).min(*service);
                *lag = after_waking;
                device_free[*device as usize] = if *ahead { l.end } else { l.woken };
            }
            _ => {}
        }
    }
}

/// Longest time that reads which this run's threads waited for were in progress at one device, also before and after the waits: in any
/// order, they take that long. Others' reads at the device are not included.
pub(crate) fn reading_ns(linked: &[LinkedWait], devices: &[Device], requests: &HashMap<Device, Vec<Request>>, from: i64) -> f64 {
    let at_device = |number: usize| {
        let waits = linked.iter().filter(|l| matches!(l.op, Op::Serve { device, class: Class::Read, .. } if device as usize == number));
        let mut waits: Vec<(f64, f64)> = waits.map(|l| (l.since, l.woken)).collect();
        waits.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut latest = f64::NEG_INFINITY;
        waits.iter_mut().for_each(|wait| {
            latest = latest.max(wait.1);
            wait.1 = latest;
        });
        let waited_for = |start: f64, end: f64| {
            let began = waits.partition_point(|wait| wait.0 < end);
            began > 0 && waits[began - 1].1 > start
        };
        let (mut sum, mut until) = (0.0, 0.0_f64);
        let reads = requests.get(&devices[number]).into_iter().flatten().filter(|r| r.reads);
        let mut reads: Vec<(f64, f64)> = reads.map(|r| ((r.start - from) as f64, (r.end - from) as f64)).collect();
        reads.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (start, end) in reads.into_iter().filter(|&(start, end)| waited_for(start, end)) {
            sum += (end - start.max(until)).max(0.0);
            until = until.max(end);
        }
        sum
    };
    (0..devices.len()).map(at_device).fold(0.0, f64::max)
}
