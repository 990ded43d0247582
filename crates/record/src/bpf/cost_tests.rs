//! Limits on the cost of loading and reading the programs, as counts rather than times. Each test needs BPF; skipped,
//! with a message, without it.

use super::drain::{BpfConsumer, settings};
use super::load::Programs;
use super::raw::Settings;
use super::{probe, raw};
use crate::kernel::reader::Reader;
use crate::kernel::ring::{Ending, Ring, Woken};
use crate::kernel::tracepoints::Tracepoints;
use crate::recorder::Watched;
use parking_lot::{Mutex, MutexGuard};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use thalweg_trace::Memory;

/// Maximum instructions the verifier may process for one program, and for all of the tier `lean`.
const MOST_VERIFIED: u32 = 28_000;
const MOST_VERIFIED_IN_ALL: u32 = 82_000;

/// Settings as for recording a command with every process its path reaches: everything is switched on.
fn all_on(calls: bool, ring_bytes: u32) -> Settings {
    Settings { follow: 1, command_pid: std::process::id(), ..settings(calls, ring_bytes) }
}

/// Serialises the tests: activity of one would wake the other's reader.
fn alone() -> Option<(MutexGuard<'static, ()>, Tracepoints)> {
    static ONE: Mutex<()> = Mutex::new(());
    match probe::allowed() {
        Ok(tracepoints) => Some((ONE.lock(), tracepoints)),
        Err(error) => {
            println!("SKIPPED: {error}");
            None
        }
    }
}

/// A process that ends with the test.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Sleeper {
        Sleeper(Command::new("sleep").arg("600").spawn().expect("sleep"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn no_program_is_verified_over_and_over() {
    let Some((_alone, tracepoints)) = alone() else { return };
    for calls in [false, true] {
        let programs = Programs::load(&all_on(calls, 1 << 20), &tracepoints, 1 << 20).expect("loaded");
        let verified = programs.verified();
        assert!(verified.len() > 15, "{verified:?}");
        for (name, instructions) in &verified {
            assert!(*instructions <= MOST_VERIFIED, "{name}: {instructions} instructions were verified");
        }
        let all: u32 = verified.iter().map(|(_, instructions)| instructions).sum();
        assert!(calls || all <= MOST_VERIFIED_IN_ALL, "{all} instructions were verified: {verified:?}");
    }
}

#[test]
fn the_reader_is_woken_when_the_ring_fills_and_not_before() {
    let Some((_alone, tracepoints)) = alone() else { return };
    let ring_bytes = 64 << 10;
    let programs = Programs::load(&settings(false, ring_bytes), &tracepoints, ring_bytes).expect("loaded");
    let ending = Ending::new().expect("an eventfd");
    let ring = Ring::open(programs.map("ring"), &ending, "the test", |_| ()).expect("opened");
    let busy = Sleeper(Command::new("sh").args(["-c", "while sleep 0.001; do :; done"]).spawn().expect("sh"));
    // The first edge is the ring being added.
    let _ = ring.wait(Duration::ZERO);
    assert_eq!(ring.wait(Duration::from_millis(100)), Woken::Time, "nobody is recorded");
    programs.watch(busy.0.id(), raw::ROLE_CLIENT).expect("watched");
    programs.walk("seed").expect("walked");
    for _ in 0..4 {
        assert_eq!(ring.wait(Duration::from_secs(60)), Woken::Filled);
        ring.take().expect("taken");
    }
    assert_eq!(programs.lost(), 0);
    ending.ask();
    assert_eq!(ring.wait(Duration::from_secs(60)), Woken::Ending);
}

/// Returns how often this process's reader thread has gone to sleep.
fn sleeps_of_reader() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks").filter_map(Result::ok).map(|task| task.path());
    let reader =
        tasks.into_iter().find(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "thalweg-reader"));
    let status = std::fs::read_to_string(reader.expect("a reader").join("status")).expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).expect("counted");
    line.trim().parse().expect("a count")
}

#[test]
fn the_reader_of_an_idle_recording_sleeps() {
    let Some((_alone, tracepoints)) = alone() else { return };
    let sleeper = Sleeper::start();
    let mut reader = Reader::default();
    reader.start::<BpfConsumer>((Watched::one(sleeper.0.id(), Arc::new(Memory::new(1 << 20))), tracepoints)).expect("started");
    // Its pauses grow while no new process appears.
    std::thread::sleep(Duration::from_millis(500));
    let before = sleeps_of_reader();
    std::thread::sleep(Duration::from_secs(2));
    let sleeps = sleeps_of_reader() - before;
    assert!((1..=32).contains(&sleeps), "{sleeps} in 2 s: 20 are its pauses");
    assert_eq!(reader.finish().expect("finished").dropped_events, 0);
}
