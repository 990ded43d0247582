//! Processes killed at any time during operations on lots.

use super::processes::Processes;
use super::*;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_wire::protocol::lots::LotState;
use thalweg_wire::protocol::metadata::TargetId;

/// Duration of the test.
const LONG: Duration = Duration::from_secs(20);
const NAMES: u64 = 4;

/// A reproducible series of numbers from a seed.
struct Series(u64);

impl Series {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// The results of answered operations that no later request changes.
#[derive(Default)]
struct Answered {
    made: BTreeSet<String>,
}

/// Performs one operation; refusals are fine.
fn act(client: &Client, worker: u64, series: &mut Series, answered: &Mutex<Answered>) -> Result<()> {
    let name = format!("w{worker}-{}", series.below(NAMES));
    let path = |series: &mut Series| format!("/{name}-d/{}", series.below(6));
    match series.below(12) {
        0 | 1 => {
            let lasts = series.below(3) > 0;
            let made = client.create(&name, (series.below(4) + 1) * MIB, if lasts { HOUR_NS } else { 50_000_000 })?;
            if lasts {
                answered.lock().unwrap().made.insert(name.clone());
            }
            client.directory(&format!("/{name}-d"), made.lot.id)?;
        }
        2..=5 => {
            let file = client.file(&path(series))?;
            let piece = 4096 * (series.below(8) as usize + 1);
            fill(&file, piece, series.below(MIB));
            let _ = file.write_at(&[1; 5000], series.below(64) << 22);
        }
        6 => client.rename(&path(series), &path(series))?,
        7 => client.truncate(&path(series), series.below(MIB))?,
        8 => drop(client.resize(&name, (series.below(6) + 1) * MIB)?),
        9 => {
            answered.lock().unwrap().made.remove(&name);
            client.renew(&name, series.below(2) * HOUR_NS)?;
        }
        10 => {
            answered.lock().unwrap().made.remove(&name);
            client.remove(&name, series.below(3) > 0)?;
        }
        _ => {
            let target = TargetId(series.below(SERVERS as u64) as u32);
            client.names.lots(&mut Tracer::off(), LotOperation::Reclaim { target, bytes: series.below(2 * MIB) + 1 })?;
        }
    }
    Ok(())
}

/// Checks that all promises hold once the servers are connected.
fn hold(processes: &Processes, answered: &Answered) {
    let client = processes.connect();
    let mut reports = Vec::new();
    wait_while("all lots are whole, and what is left of others is gone", || {
        reports = match client.shown() {
            Ok(shown) => shown,
            Err(error) => return Some(format!("the lots are not shown: {error}")),
        };
        let known: BTreeSet<u32> = reports.iter().map(|report| report.lot.id.0).collect();
        let broken = reports.iter().filter_map(|report| broken(processes, report));
        let left = (0..SERVERS).filter_map(|server| strangers(processes, server, &known));
        let otherwise: Vec<String> = broken.chain(left).collect();
        (!otherwise.is_empty()).then(|| otherwise.join("\n"))
    });
    for report in &reports {
        check_sums(&processes.directory, report);
    }
    let names: BTreeSet<&str> = reports.iter().map(|report| report.lot.name.as_str()).collect();
    for name in &answered.made {
        assert!(names.contains(name.as_str()), "lot `{name}` was promised, and there are {names:?}");
    }
}

/// Describes how a lot deviates from its row: for each target its share, the row, its use and the blocks on disk.
fn broken(processes: &Processes, report: &LotReport) -> Option<String> {
    let lot = &report.lot;
    let mut problems = Vec::new();
    // A lot that is renewed after being written to while expired may exceed its size: then no target has any of it left.
    let is_used_up = report.uses.iter().all(|used| used.used_bytes >= used.share.share_bytes);
    if !matches!(lot.state, LotState::Active | LotState::Expired) {
        problems.push(format!("it is {:?}", lot.state));
    }
    for (target, row) in &lot.shares {
        let Some(used) = report.uses.iter().find(|used| used.target == *target) else {
            problems.push(format!("target {target} has no share, and the row says {row}"));
            continue;
        };
        let (share, used_bytes, there) = (used.share.share_bytes, used.used_bytes, walked(&processes.directory, target.0, lot.id));
        // Use of a target beyond its share is covered by other targets' unused promise once the worker has run.
        if share != *row || !(is_within(used) || is_used_up) || used_bytes != there {
            let expired = if used.expired { ", expired" } else { "" };
            problems.push(format!("target {target} has a share of {share}{expired}, the row says {row}; {used_bytes} used, {there} there"));
        }
    }
    if report.uses.len() != SERVERS {
        problems.push(format!("{} of {SERVERS} targets answer", report.uses.len()));
    }
    let named = || format!("lot `{}` (number {}, {:?}) of {} bytes: ", lot.name, lot.id, lot.state, lot.size_bytes);
    (!problems.is_empty()).then(|| named() + &problems.join("; "))
}

/// Describes blocks and shares at a server of lots without rows.
fn strangers(processes: &Processes, server: usize, known: &BTreeSet<u32>) -> Option<String> {
    let directory = processes.directory.join(format!("io{server}"));
    let lots = std::fs::read_dir(directory.join("lots")).into_iter().flatten().flatten();
    let numbers = lots.filter_map(|entry| u32::from_str_radix(entry.file_name().to_str()?, 16).ok());
    let blocks = numbers.filter(|n| !known.contains(n)).map(|n| (n, walked(&processes.directory, server as u32, LotId(n))));
    let blocks: Vec<(u32, u64)> = blocks.filter(|(_, bytes)| *bytes > 0).collect();
    let text = std::fs::read_to_string(directory.join("thalweg-lots.toml")).unwrap_or_default();
    let shares = text.lines().filter_map(|line| line.strip_prefix("lot = ")?.parse::<u32>().ok());
    let shares: Vec<u32> = shares.filter(|n| !known.contains(n)).collect();
    let is_clean = blocks.is_empty() && shares.is_empty();
    (!is_clean).then(|| format!("io{server}, of lots without a row: bytes of {blocks:?}, shares of {shares:?}"))
}

#[test]
fn whatever_is_killed_and_when_use_is_exact_and_no_lot_is_half_there() {
    let directory = tempfile::tempdir().unwrap();
    let mut processes = Processes::start(directory.path());
    let answered = Mutex::new(Answered::default());
    let (begun, mut rounds) = (Instant::now(), 0);
    let mut series = Series(0x9e37_79b9_7f4a_7c15);
    while begun.elapsed() < LONG {
        rounds += 1;
        let over = AtomicBool::new(false);
        let clients: Vec<Client> = (0..4).map(|_| processes.connect()).collect();
        std::thread::scope(|scope| {
            for (worker, client) in (0..).zip(&clients) {
                let (over, answered) = (&over, &answered);
                let mut series = Series(series.below(u64::MAX) | 1);
                scope.spawn(move || {
                    while !over.load(Ordering::SeqCst) {
                        let _ = act(client, worker, &mut series, answered);
                    }
                });
            }
            // The time is deliberately random: sometimes one server first, then all.
            let mut pause = || std::thread::sleep(Duration::from_millis(series.below(300)));
            pause();
            match rounds % 3 {
                1 => processes.kill(&format!("io{}", rounds % SERVERS)),
                2 => processes.kill("metadata"),
                _ => {}
            }
            pause();
            processes.kill_all();
            over.store(true, Ordering::SeqCst);
        });
        drop(clients);
        processes.start_all();
        hold(&processes, &answered.lock().unwrap());
    }
    assert!(rounds > 1, "{rounds}");
}
