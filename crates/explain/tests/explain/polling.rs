//! Programs that poll at intervals for the end of a thread, a process or a server's job wait for that.

use crate::common::*;
use thalweg_explain::Explanation;
use thalweg_trace::SpanKind as K;
use thalweg_trace::*;

const CONNECTION: &str = "127.0.0.1:40000 > 127.0.0.1:8080";

/// Pauses of `every_us` from `from_us` until `until_us`, with a poll of 100 µs after each.
fn look(tale: &mut Tale, track: TrackId, from_us: u64, until_us: u64, every_us: u64) {
    let mut at = from_us;
    while at + every_us <= until_us {
        tale.wait(track, K::WaitTimer, at, at + every_us - 100).by_timer().end();
        at += every_us;
    }
}

#[test]
fn who_looks_for_a_threads_end_waits_for_what_it_does() {
    let mut tale = Tale::new(110_000, 2);
    let main = tale.thread(Role::Client, "prog", 100, 100);
    let worker = tale.thread(Role::Client, "prog/worker", 100, 101);
    tale.made(worker, 1_000, main);
    look(&mut tale, main, 2_000, 102_000, 10_000);
    tale.span(worker, K::CpuRun, 1_000, 60_000).end();
    tale.wait(worker, K::FileRead, 60_000, 96_500).end();
    tale.ended(worker, 96_500);
    let e = tale.explain();
    assert_charged(&e, "client.read", 36.5);
    assert!(charged_ms(&e, "client.cpu") > 59.0, "{:#?}", e.critical_path);
    // From its end to the next poll.
    assert!(charged_ms(&e, "client.think") < 6.0, "{:#?}", e.critical_path);
}

/// A shell that starts `job` and then checks every 10 ms whether it exists, by a process that sleeps.
#[test]
fn a_shells_loop_of_sleeps_waits_for_the_process_that_it_looks_for() {
    let mut tale = Tale::new(120_000, 2);
    let shell = tale.thread(Role::Client, "sh", 100, 100);
    let job = tale.thread(Role::Client, "job", 101, 101);
    tale.made(job, 1_000, shell);
    tale.span(job, K::CpuRun, 1_000, 96_000).end();
    tale.ended(job, 96_000);
    for n in 0..10_u32 {
        let at = 2_000 + u64::from(n) * 10_000;
        let sleep = tale.thread(Role::Client, "sleep", 200 + n, 200 + n);
        tale.made(sleep, at, shell);
        tale.wait(sleep, K::WaitTimer, at + 500, at + 9_000).by_timer().end();
        tale.span(sleep, K::CpuRun, at + 9_000, at + 9_100).end();
        tale.ended(sleep, at + 9_100);
        tale.wait(shell, K::WaitLock, at, at + 50).woken_by(sleep).end();
        tale.wait(shell, K::WaitLock, at + 100, at + 9_100).woken_by(sleep).end();
    }
    let e = tale.explain();
    assert!(charged_ms(&e, "client.cpu") > 95.0, "{:#?}", e.critical_path);
    assert!(charged_ms(&e, "client.think") < 6.0, "{:#?}", e.critical_path);
}

/// A client that asks every 10 ms whether a job is done; another thread of the server does it as `work` describes.
fn job(work: impl Fn(&mut Tale, TrackId)) -> Explanation {
    let mut tale = Tale::new(110_000, 2);
    let client = tale.thread(Role::Client, "ask", 100, 100);
    let answers = tale.thread(Role::Server, "jobs", 200, 200);
    let works = tale.thread(Role::Server, "jobs/worker", 200, 201);
    let (near, far) = tale.two_ends(CONNECTION);
    look(&mut tale, client, 2_000, 102_000, 10_000);
    for n in 0..=10_u64 {
        let asked = 2_000 + n * 10_000 - 100;
        tale.span(client, K::NetSend, asked, asked + 10).on(near).bytes(100).end();
        tale.wait(client, K::NetReceive, asked + 10, asked + 80).on(near).by_packet().end();
        tale.span(client, K::NetReceive, asked + 80, asked + 90).on(near).bytes(100).end();
        tale.wait(answers, K::WaitNetwork, (asked + 70).saturating_sub(10_000), asked + 20).on(far).by_packet().end();
        tale.span(answers, K::NetReceive, asked + 20, asked + 30).on(far).bytes(100).end();
        tale.span(answers, K::NetSend, asked + 60, asked + 70).on(far).bytes(100).end();
    }
    tale.wait(works, K::WaitLock, 0, 2_000).woken_by(answers).end();
    work(&mut tale, works);
    tale.explain()
}

#[test]
fn who_asks_a_server_whether_a_job_is_done_waits_for_the_job() {
    let e = job(|tale, works| {
        tale.span(works, K::CpuRun, 2_000, 97_000).end();
        tale.wait(works, K::WaitLock, 97_000, 130_000).end();
    });
    assert!(charged_ms(&e, "server.cpu") > 94.0, "{:#?}", e.critical_path);
    let e = job(|tale, works| {
        tale.wait(works, K::WaitTimer, 2_000, 97_000).by_timer().end();
        tale.wait(works, K::WaitLock, 97_050, 130_000).end();
    });
    assert!(charged_ms(&e, "server.think") > 94.0, "{:#?}", e.critical_path);
}

#[test]
fn who_goes_on_pausing_did_not_wait_for_what_ended_meanwhile() {
    let mut tale = Tale::new(110_000, 2);
    let main = tale.thread(Role::Client, "prog", 100, 100);
    let worker = tale.thread(Role::Client, "prog/worker", 100, 101);
    tale.made(worker, 1_000, main);
    look(&mut tale, main, 2_000, 102_000, 10_000);
    tale.span(worker, K::CpuRun, 1_000, 50_000).end();
    tale.ended(worker, 50_000);
    assert!(charged_ms(&tale.explain(), "client.think") > 95.0);
}

#[test]
fn who_moves_data_between_its_pauses_paces_itself() {
    let mut tale = Tale::new(110_000, 2);
    let main = tale.thread(Role::Client, "prog", 100, 100);
    let worker = tale.thread(Role::Client, "prog/worker", 100, 101);
    let sink = tale.file("/scratch/out");
    tale.made(worker, 1_000, main);
    look(&mut tale, main, 2_000, 102_000, 10_000);
    for n in 1..=10_u64 {
        tale.span(main, K::FileWrite, 1_910 + n * 10_000, 1_990 + n * 10_000).on(sink).bytes(1 << 20).end();
    }
    tale.span(worker, K::CpuRun, 1_000, 96_000).end();
    tale.ended(worker, 96_000);
    assert!(charged_ms(&tale.explain(), "client.think") > 95.0);
}

/// As in Python: a thread that needs the interpreter waits 5 ms for it, requests it, and gets it from the computing thread.
#[test]
fn who_computes_is_followed_through_a_lock_that_the_looks_need() {
    let mut tale = Tale::new(260_000, 2);
    let main = tale.thread(Role::Client, "python3", 100, 100);
    let worker = tale.thread(Role::Client, "python3/worker", 100, 101);
    let lock = tale.object(ObjectKind::Lock, "condition or semaphore", &[]);
    tale.made(worker, 1_000, main);
    for n in 0..10_u64 {
        let at = 2_000 + n * 25_200;
        tale.wait(main, K::WaitTimer, at, at + 20_000).by_timer().end();
        if n < 9 {
            tale.wait(main, K::WaitLock, at + 20_010, at + 25_010).on(lock).by_timer().end();
            tale.wait(main, K::WaitLock, at + 25_020, at + 25_040 - 20 * (n & 1)).on(lock).woken_by(worker).end();
            tale.wait(worker, K::WaitLock, at + 25_050, at + 25_100).on(lock).woken_by(main).end();
        }
    }
    tale.ended(worker, 247_000);
    let e = tale.explain();
    assert!(charged_ms(&e, "client.cpu") > 245.0, "{:#?}", e.critical_path);
    assert!(e.critical_path.iter().map(|c| c.inferred_s).sum::<f64>() < 1e-3, "{:#?}", e.critical_path);
}

/// A program that checks every 10 ms whether its worker has ended and, each time, for a file that never appears.
#[test]
fn who_looks_for_a_childs_end_does_not_wait_for_a_file_that_never_comes() {
    let mut tale = Tale::new(110_000, 2);
    let main = tale.thread(Role::Client, "bench", 100, 100);
    let worker = tale.thread(Role::Client, "bench", 101, 101);
    let child = tale.object(ObjectKind::Process, "child 101", &[]);
    let dump = tale.object(ObjectKind::File, "/tmp/bench-dump-status", &[]);
    tale.made(worker, 1_000, main);
    tale.wait(worker, K::FileRead, 2_000, 96_500).end();
    tale.ended(worker, 96_500);
    for n in 0..10_u64 {
        let at = 2_000 + n * 10_000;
        tale.wait(main, K::WaitTimer, at, at + 9_900).by_timer().end();
        if at + 9_900 < 96_500 {
            tale.span(main, K::WaitLock, at + 9_910, at + 9_910).on(child).result(-11).end();
        }
        tale.span(main, K::FileStat, at + 9_920, at + 9_920).on(dump).result(-2).end();
    }
    tale.wait(main, K::WaitTimer, 102_000, 109_900).by_timer().end();
    let e = tale.explain();
    assert_charged(&e, "client.read", 94.5);
    assert!(charged_ms(&e, "client.lock") < 1.0, "{:#?}", e.critical_path);
}

/// A program that runs another one by a shell until a lock is free, and sleeps in between.
#[test]
fn a_program_that_a_shell_runs_looks_for_its_maker() {
    let mut tale = Tale::new(420_000, 2);
    let perl = tale.thread(Role::Client, "perl", 100, 100);
    let lock = tale.object(ObjectKind::Lock, "flock /w/names.db", &[]);
    for n in 0..5_u32 {
        let at = 5_000 + u64::from(n) * 100_000;
        let shell = tale.thread(Role::Client, "sh", 200 + 2 * n, 200 + 2 * n);
        let tries = tale.thread(Role::Client, "sqlite3", 201 + 2 * n, 201 + 2 * n);
        tale.made(shell, at, perl);
        tale.made(tries, at + 500, shell);
        tale.span(tries, K::CpuRun, at + 500, at + 2_000).end();
        if n < 4 {
            tale.span(tries, K::WaitLock, at + 1_900, at + 1_900).on(lock).result(-11).end();
            tale.wait(perl, K::WaitTimer, at + 3_000, at + 99_900).by_timer().end();
        }
        tale.ended(tries, at + 2_000);
        tale.wait(shell, K::WaitLock, at + 600, at + 2_100).woken_by(tries).end();
        tale.ended(shell, at + 2_200);
        tale.wait(perl, K::WaitLock, at + 100, at + 2_300).woken_by(shell).end();
    }
    let e = tale.explain();
    assert_charged(&e, "client.lock", 4.0 * 96.9);
}

/// A thread that samples find in a function that only tries for a lock, while the other thread of its process holds it and syncs.
fn tries(function: &str) -> Explanation {
    let mut tale = Tale::new(1_000_000, 2);
    let main = tale.thread(Role::Client, "save", 100, 100);
    let syncs = tale.thread(Role::Client, "save/save", 100, 101);
    let file = tale.file("/tmp/data");
    tale.seen(main, 0);
    tale.made(syncs, 10, main);
    tale.ended(syncs, 999_000);
    tale.span(main, SpanKind::FileOpen, 20, 40).ran(20).on(file).end();
    for n in 0..99 {
        tale.span(syncs, SpanKind::FileSync, n * 10_000 + 100, n * 10_000 + 9_900).blocked().on(file).end();
    }
    tale.span(main, SpanKind::FileClose, 999_500, 999_600).ran(100).on(file).end();
    for ms in 1..999 {
        let at = thalweg_trace::Time::from_monotonic_ns(ms * 1_000_000);
        let sample = thalweg_trace::Sample {
            at,
            host: thalweg_trace::HostId(0),
            cpu: 0,
            track: Some(main),
            class: 0,
            stack: Some(1),
            weight_ns: 1_000_000,
        };
        tale.event(thalweg_trace::Event::Sample(sample));
    }
    tale.event(thalweg_trace::Event::Stack(thalweg_trace::Stack { stack: 1, frames: vec![function.to_owned()] }));
    tale.explain()
}

#[test]
fn a_thread_that_tries_for_a_lock_waits_for_the_other_of_its_process_and_one_that_works_does_not() {
    let e = tries("pthread_mutex_trylock+0x12 [/lib/libc.so.6]");
    assert_eq!(e.verdict.cause.name(), "client.sync", "{}", e.summary.sentence);
    assert!(e.what_if.iter().all(|w| w.id != "cpu.client.x2"), "{:?}", e.what_if);
    assert_eq!(tries("deflate_slow+0x12 [/lib/libz.so.1]").verdict.cause.name(), "client.cpu");
}
