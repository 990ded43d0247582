//! Walks by the library, commands, and their cost on this machine.
//!
//! A walk that stops early is timed from its first entry on, so that its set-up (connections, the first page) is not charged to the few
//! files it lists. A complete one is timed from the call to its end.

use super::client::Client;
use super::protocol::{Answer, Counters};
use crate::{Error, Result};
use rustix::time::{ClockId, clock_gettime};
use std::process::Command;
use std::time::Instant;
use thalweg_client::walk::{WalkCounters, WalkEntry, WalkMode, WalkOptions, Walker};
use thalweg_client::wire::protocol::metadata::FilePath;
use thalweg_measure::{Process, cpu_time_of};
use thalweg_trace::Tracer;

/// Entries taken at a time: the cost of output is not part of a walk.
const BATCH: usize = 1024;

/// Returns the CPU time of this process.
fn own_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Walks a directory, and checks that every size is `bytes_each`.
pub(super) fn walk(client: &Client, directory: &str, mode: &str, most: Option<u64>, bytes_each: u64) -> Result<Answer> {
    let mode = WalkMode::named(mode).ok_or_else(|| Error::Choice(format!("no walk is called `{mode}`: a bug")))?;
    let mut tracer = Tracer::off();
    let walker = Walker::new(client.names.clone(), std::sync::Arc::clone(&client.data), WalkOptions { mode, ..WalkOptions::default() });
    let mut since = Since::now(&walker);
    let mut walk = walker.directory(&FilePath::at(directory));
    let (mut entries, mut skipped) = (0_u64, 0_u64);
    while most.is_none_or(|most| entries < most + skipped) {
        // One at a time if few are read, so that the clock starts with the first.
        let batch = walk.next_batch(&mut tracer, if most.is_some() { 1 } else { BATCH })?;
        if batch.is_empty() {
            break;
        }
        batch.iter().try_for_each(|entry| check(directory, entry, bytes_each))?;
        entries += batch.len() as u64;
        if most.is_some() && skipped == 0 {
            (skipped, since) = (entries, Since::now(&walker));
        }
    }
    let (seconds, cpu_s, bytes, counters) = since.until_now(&walker);
    drop(walk);
    // Unread prefetched entries are counted once the walk is over.
    let counters = Counters { wasted: walker.counters().wasted, ..counters };
    Ok(Answer::Walked { entries: entries - skipped, seconds, cpu_s, bytes, counters })
}

/// Clocks and counters at a start.
struct Since {
    begun: Instant,
    cpu_s: f64,
    bytes: u64,
    counters: WalkCounters,
}

impl Since {
    fn now(walker: &Walker) -> Since {
        Since { begun: Instant::now(), cpu_s: own_cpu_s(), bytes: network_bytes(), counters: walker.counters() }
    }

    /// Returns seconds, CPU time, bytes and counts since then.
    fn until_now(self, walker: &Walker) -> (f64, f64, u64, Counters) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let (cpu_s, bytes) = (own_cpu_s() - self.cpu_s, network_bytes().saturating_sub(self.bytes));
        let (then, now) = (self.counters, walker.counters());
        let counters = Counters {
            requests: now.requests - then.requests,
            round_trips: now.round_trips.saturating_sub(then.round_trips),
            glimpsed: now.glimpsed - then.glimpsed,
            from_metadata: now.from_metadata - then.from_metadata,
            hits: now.hits - then.hits,
            misses: now.misses - then.misses,
            wasted: 0,
            window: now.window,
        };
        (seconds, cpu_s, bytes, counters)
    }
}

/// Rejects an entry without attributes or with a wrong size.
fn check(directory: &str, entry: &WalkEntry, bytes_each: u64) -> Result<()> {
    let name = || format!("{directory}/{}", String::from_utf8_lossy(&entry.name));
    if entry.attributes.is_none() {
        return Err(Error::Choice(format!("{}: listed without its attributes", name())));
    }
    match &entry.size {
        Some(Ok(size)) if size.size_bytes == bytes_each => Ok(()),
        Some(Ok(size)) => Err(Error::Choice(format!("{}: listed with {} bytes, but has {bytes_each}", name(), size.size_bytes))),
        Some(Err(error)) => Err(Error::Choice(format!("{}: listed without its size: {error}", name()))),
        None => Err(Error::Choice(format!("{}: listed without a size", name()))),
    }
}

/// Runs a command; measures its CPU time, and that of the process `beside` it.
pub(super) fn run(argv: &[String], counted: bool, beside: Option<u32>) -> Result<Answer> {
    let Some((program, arguments)) = argv.split_first() else { return Err(Error::Choice("an empty command".into())) };
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C");
    let mut process = Process::new(command);
    if counted {
        process = process.keep_output();
    }
    let cpu_of = |pid| cpu_time_of(pid).map(|time| time.as_secs_f64());
    let before = beside.and_then(cpu_of);
    let bytes = network_bytes();
    let (usage, output) = process.run_for_output()?;
    let bytes = network_bytes().saturating_sub(bytes);
    let of_mount = match (before, beside.and_then(cpu_of)) {
        (Some(before), Some(after)) => after - before,
        _ => 0.0,
    };
    let lines = output.iter().filter(|byte| **byte == b'\n').count() as u64;
    let last = output.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(Answer::Ran {
        seconds: usage.wall_s,
        cpu_s: usage.user_s + usage.system_s + of_mount,
        bytes,
        lines,
        last: String::from_utf8_lossy(last).into_owned(),
    })
}

/// Returns the bytes of packets carried by this network namespace's devices; loopback traffic is counted once.
fn network_bytes() -> u64 {
    std::fs::read_to_string("/proc/self/net/dev").map_or(0, |text| device_bytes(&text))
}

fn device_bytes(text: &str) -> u64 {
    let device = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts: Vec<u64> = counts.split_whitespace().filter_map(|count| count.parse().ok()).collect();
        let (received, sent) = (*counts.first()?, *counts.get(8)?);
        Some(if name.trim() == "lo" { received } else { received + sent })
    };
    text.lines().filter_map(device).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_all_devices_and_of_loopback_once() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n\
                    relay0: 7 1 0 0 0 0 0 0 30 1 0 0 0 0 0 0\n";
        assert_eq!(device_bytes(text), 100 + 7 + 30);
    }
}
