//! Promises of an experiment: its order, its end, what it keeps, and how it fails.

use std::cell::RefCell;
use std::process::Command;
use std::time::Duration;
use thalweg_measure::{Arm, Experiment, Order, Outcome, Process, Stop, StopReason};

fn few(pairs: usize) -> Stop {
    Stop { least_pairs: pairs, most_pairs: pairs, ..Stop::default() }
}

fn fake<'a>(name: &'a str, log: &'a RefCell<Vec<String>>, times_ms: Vec<u64>) -> Arm<'a> {
    let mut turn = 0;
    Arm::timed(name, move || {
        log.borrow_mut().push(name.to_owned());
        turn += 1;
        Ok(Duration::from_millis(times_ms[(turn - 1) % times_ms.len()]))
    })
}

#[test]
fn arms_take_turns_and_alternate_who_goes_first() {
    let log = RefCell::new(Vec::new());
    let arms = || Experiment::new("turns").arm(fake("A", &log, vec![10])).arm(fake("B", &log, vec![20])).stop(few(3)).warm_up(1);
    arms().run().unwrap();
    assert_eq!(log.take().concat(), "AB".to_owned() + "AB" + "BA" + "AB");
    arms().order(Order::Fixed).run().unwrap();
    assert_eq!(log.take().concat(), "ABABABAB");
}

#[test]
fn ratios_are_taken_within_rounds_whatever_their_order() {
    let log = RefCell::new(Vec::new());
    // B takes twice A's time in every round while both get slower: each pair must say 2.
    let outcome = Experiment::new("pairs")
        .arm(fake("A", &log, vec![10, 20, 40, 80]))
        .arm(fake("B", &log, vec![20, 40, 80, 160]))
        .compare("A", "B")
        .warm_up(0)
        .stop(few(4))
        .run()
        .unwrap();
    let pairs = &outcome.comparison("A", "B").unwrap().pairs;
    assert!(pairs.iter().all(|p| (p - 2.0).abs() < 1e-9), "{pairs:?}");
}

#[test]
fn it_stops_when_the_interval_is_narrow_and_not_before_the_least_number_of_pairs() {
    let log = RefCell::new(Vec::new());
    let steady = Experiment::new("steady").arm(fake("A", &log, vec![10])).arm(fake("B", &log, vec![30])).ceiling("B").run().unwrap();
    assert_eq!((steady.stopped, steady.comparisons[0].pairs.len()), (StopReason::IntervalNarrowEnough, 10));

    let noisy_times: Vec<u64> = (1..=37).map(|i| 5 + (i * 7919) % 97).collect();
    let noisy = Experiment::new("noisy").arm(fake("A", &log, noisy_times)).arm(fake("B", &log, vec![30])).compare("A", "B").run().unwrap();
    assert_eq!((noisy.stopped, noisy.comparisons[0].pairs.len()), (StopReason::MostPairs, 40));
}

#[test]
fn warm_up_runs_are_kept_and_count_for_nothing() {
    let log = RefCell::new(Vec::new());
    let outcome = Experiment::new("warm").arm(fake("A", &log, vec![9_000, 10, 10, 10])).warm_up(1).stop(few(3)).run().unwrap();
    let arm = &outcome.arms[0];
    assert_eq!(arm.runs.len(), 4);
    assert_eq!((arm.runs[0].round, arm.runs[0].wall_s), (0, 9.0));
    assert!((arm.wall_s.high - 0.010).abs() < 1e-12);
}

#[test]
fn commands_are_measured_as_processes_and_json_keeps_every_run() {
    let outcome = Experiment::new("commands")
        .arm(Arm::command("true", Process::new(Command::new("true"))).size_bytes(1 << 20))
        .arm(Arm::closure("nothing", || Ok(())))
        .ceiling("nothing")
        .stop(few(3))
        .run()
        .unwrap();
    assert_eq!(outcome.arms[0].command.as_deref(), Some("true"));
    assert!(outcome.arms[0].runs.iter().all(|r| r.process.as_ref().unwrap().max_rss_bytes > 0));
    let back: Outcome = serde_json::from_str(&outcome.json()).unwrap();
    assert_eq!(back.arms[0].runs.len(), 4);
    assert_eq!(back.comparisons[0].pairs.len(), 3);
    let table = outcome.markdown();
    assert!(table.contains("| true | ") && table.contains("1 (the ceiling)"), "{table}");
    let columns: Vec<usize> = table.lines().filter(|l| l.starts_with('|')).map(|l| l.matches('|').count()).collect();
    assert!(columns.windows(2).all(|w| w[0] == w[1]), "{table}");
}

#[test]
fn what_was_verified_of_the_caches_stands_in_the_result() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("source");
    std::fs::write(&file, vec![1; 1 << 16]).unwrap();
    let outcome = Experiment::new("caches")
        .arm(Arm::closure("cold", || Ok(())).cold(&[&file]))
        .arm(Arm::closure("warm", || Ok(())).warm(&[&file]))
        .on_file_system_of(directory.path())
        .stop(few(2))
        .run()
        .unwrap();
    // Whether a file system gives up its pages is its own affair; that it is known is ours.
    assert!(outcome.arms.iter().all(|a| a.runs.iter().all(|r| r.cache.is_some())));
    assert!(outcome.arms[1].cache().unwrap().is_verified());
    assert_eq!(outcome.machine.file_systems.len(), 1);
}

#[test]
fn failures_name_the_experiment_the_arm_and_the_run() {
    let mut turns = 0;
    let error = Experiment::new("copy in")
        .arm(Arm::closure("store", move || {
            turns += 1;
            if turns == 3 { Err("the disk is full".into()) } else { Ok(()) }
        }))
        .run()
        .unwrap_err();
    assert_eq!(error.to_string(), "copy in: store, run 2: the disk is full");

    let twice = Experiment::new("x").arm(Arm::closure("a", || Ok(()))).arm(Arm::closure("a", || Ok(()))).run().unwrap_err();
    assert!(twice.to_string().contains("two arms are named a"), "{twice}");
    let unknown = Experiment::new("x").arm(Arm::closure("a", || Ok(()))).ceiling("raw").run().unwrap_err();
    assert_eq!(unknown.to_string(), "x: no arm is named raw; there are: a");
    assert!(Experiment::new("x").run().is_err());
}

#[test]
fn preparation_and_cleaning_up_are_not_timed() {
    let log = RefCell::new(Vec::new());
    let note = |what: char| {
        log.borrow_mut().push(what);
        Ok(())
    };
    Experiment::new("order")
        .arm(Arm::closure("a", || note('r')).before(|| note('b')).after(|| note('a')))
        .warm_up(0)
        .stop(few(2))
        .run()
        .unwrap();
    assert_eq!(log.take(), ['b', 'r', 'a', 'b', 'r', 'a']);
}
