//! Stacks of waits, with each of the programs that can take them: older kernels have but the second. It needs BPF; without it, it is skipped and says so.

use super::load::{Programs, WAITS};
use super::raw::Sample;
use crate::bpf::{BpfRecorder, Ending, Ring, Tracepoints, allowed, time};
use crate::recorder::{Recorder, Tier, Watched, WatchedProcess};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::process::{Child, Command};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_trace::{Event, HostId, IdSpace, Memory, Role, Span, Time};

/// A process that ends with the test.
struct Looping(Child);

impl Drop for Looping {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// When its waits began, whether each has frames of the kernel; and when the recorder says that they began.
fn waits_of(pid: u32, program: &str, tracepoints: &Tracepoints) -> (Vec<(Time, bool)>, HashSet<Time>) {
    let sink = Arc::new(Memory::new(1 << 20));
    let mut recorder = BpfRecorder::new().expect("allowed");
    let watched = Watched {
        command: None,
        others: vec![WatchedProcess { pid, role: Role::Client }],
        names: BTreeMap::new(),
        tier: Tier::Lean,
        follow: false,
        profile_alone: false,
        host: HostId(0),
        space: IdSpace(1),
        drain: Duration::from_millis(10),
        sink: Arc::clone(&sink) as Arc<dyn thalweg_trace::Sink>,
    };
    recorder.begin(watched).expect("begun");
    let threads = recorder.threads().expect("it has a map of threads");
    let programs = Programs::load_with(tracepoints, Some(&threads), Some(program)).expect("loaded");
    let taken = Rc::new(RefCell::new(Vec::new()));
    let (into, ending) = (Rc::clone(&taken), Ending::new().expect("an eventfd"));
    let ring = Ring::open(programs.ring(), &ending, move |bytes: &[u8]| {
        let sample = Sample::parse(bytes).expect("whole");
        if let Some(from_ns) = sample.waited_from_ns().filter(|_| sample.tid == pid) {
            into.borrow_mut().push((time(from_ns), sample.kernel().next().is_some()));
        }
        0
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
    let tracepoints = match allowed().and_then(|tracepoints| super::load::allowed().map(|()| tracepoints)) {
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
