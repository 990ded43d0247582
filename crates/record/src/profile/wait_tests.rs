//! Stacks of waits, with each program that can take them: older kernels have only the second. Needs BPF; skipped,
//! with a message, without it.

use super::counts::Opened;
use super::load::{Choices, Programs, WAITS, allowed};
use super::raw::Sample;
use crate::bpf::BpfRecorder;
use crate::kernel::clock::time;
use crate::kernel::cost::Counting;
use crate::kernel::ring::{Ending, Ring};
use crate::kernel::tracepoints::Tracepoints;
use crate::recorder::{Recorder, Watched};
use std::cell::RefCell;
use std::collections::HashSet;
use std::process::{Child, Command};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_trace::{Event, Memory, Span, Time};

/// A process that ends with the test.
struct Looping(Child);

impl Drop for Looping {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the kernel recorder on this process; returns it and its events.
fn recording(pid: u32) -> (BpfRecorder, Arc<Memory>) {
    let sink = Arc::new(Memory::new(4 << 20));
    let mut recorder = BpfRecorder::new().expect("allowed");
    recorder.begin(Watched::one(pid, Arc::clone(&sink) as Arc<dyn thalweg_trace::Sink>)).expect("begun");
    (recorder, sink)
}

/// Returns the starts of its waits with whether each has kernel frames; and the starts that the recorder reports.
fn waits_of(pid: u32, program: &str, tracepoints: &Tracepoints) -> (Vec<(Time, bool)>, HashSet<Time>) {
    let (mut recorder, sink) = recording(pid);
    let threads = recorder.threads().expect("it has a map of threads");
    let programs =
        Programs::load_with(tracepoints, &Choices { threads: Some(threads), ..Choices::default() }, &Opened::default(), Some(program))
            .expect("loaded");
    let taken = Rc::new(RefCell::new(Vec::new()));
    let (into, ending) = (Rc::clone(&taken), Ending::new().expect("an eventfd"));
    let ring = Ring::open(programs.ring(), &ending, "the test", move |bytes: &[u8]| {
        let sample = Sample::parse(bytes).expect("whole");
        if let Some(from_ns) = sample.waited_from_ns().filter(|_| sample.tid == pid) {
            into.borrow_mut().push((time(from_ns), sample.kernel().next().is_some()));
        }
    });
    let ring = ring.expect("opened");
    programs.run(true);
    let begun = Instant::now();
    while taken.borrow().len() < 5 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{program}: {:?}", programs.waits());
        ring.take().expect("taken");
        std::thread::yield_now();
    }
    programs.run(false);
    assert_eq!(programs.waits().lost, 0);
    recorder.finish().expect("finished");
    let events = sink.drain().0;
    let own: HashSet<_> =
        events.iter().filter_map(|e| if let Event::Track(t) = e { (t.tid == Some(pid)).then_some(t.track) } else { None }).collect();
    let is_wait = |span: &Span| own.contains(&span.track) && span.cpu_ns == Some(0) && span.duration_ns > 0;
    let began = events.iter().filter_map(|e| if let Event::Span(span) = e { is_wait(span).then_some(span.start) } else { None }).collect();
    drop(ring);
    let taken = taken.borrow().clone();
    (taken, began)
}

#[test]
fn each_program_takes_stacks_of_waits_that_the_recorder_has_to_the_nanosecond() {
    let tracepoints = match allowed() {
        Ok(tracepoints) => tracepoints,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    // The shell waits for each.
    let shell = Looping(Command::new("sh").args(["-c", "while sleep 0.01; do :; done"]).spawn().expect("sh"));
    for (program, tracepoint) in WAITS {
        if !tracepoints.has(tracepoint) {
            println!("SKIPPED: the kernel has no tracepoint {tracepoint}");
            continue;
        }
        let (taken, began) = waits_of(shell.0.id(), program, &tracepoints);
        assert!(taken.iter().all(|(from, has_frames)| began.contains(from) && *has_frames), "{program}: {taken:?} of {began:?}");
    }
}

/// Returns the nanoseconds per run of this program, as the kernel counts them, while a process of this Python program
/// is recorded; the number of runs, and of stacks taken.
fn cost(program: &str, tracepoints: &Tracepoints, python: &str) -> (f64, u64, u64) {
    let process = Looping(Command::new("/usr/bin/python3").args(["-c", python]).spawn().expect("Python"));
    let (mut recorder, _sink) = recording(process.0.id());
    let threads = recorder.threads().expect("it has a map of threads");
    let programs =
        Programs::load_with(tracepoints, &Choices { threads: Some(threads), ..Choices::default() }, &Opened::default(), Some(program))
            .expect("loaded");
    programs.run(true);
    let _counting = Counting::begin();
    let before = programs.cost_of(program);
    std::thread::sleep(Duration::from_secs(2));
    let after = programs.cost_of(program);
    programs.run(false);
    recorder.finish().expect("finished");
    let runs = after.runs - before.runs;
    ((after.ns - before.ns) as f64 / runs as f64, runs, programs.waits().taken)
}

/// Two processes that wait for each other; the second ends with the first.
const SHORT: &str = "
import os
(there, here), (back, away) = os.pipe(), os.pipe()
if os.fork():
    os.close(there); os.close(away)
    while True: os.write(here, b'x'); os.read(back, 1)
os.close(here); os.close(back)
while os.read(there, 1): os.write(away, b'x')
";
const LONG: &str = "
import time
while True: time.sleep(0.002)
";

#[test]
#[ignore = "measures: run it by name on a machine that does nothing else, for docs/results/MEASURED.md"]
fn what_stacks_of_waits_cost() {
    let tracepoints = allowed().expect("BPF");
    for (program, tracepoint) in WAITS {
        for (name, python) in [("short waits", SHORT), ("waits of 2 ms", LONG)] {
            if tracepoints.has(tracepoint) {
                let (ns, runs, taken) = cost(program, &tracepoints, python);
                println!("{program}, {name}: {ns:.0} ns a run of {runs}, {taken} stacks");
            }
        }
    }
}
