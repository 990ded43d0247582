//! Why a command failed: who killed it, what ran out, and which connection was refused.

use crate::common::*;
use crate::numbers::fixture;
use thalweg_trace::{Event, Mark, MarkKind, ObjectId, ObjectKind, Role, SpanKind as K, Time, TrackId};

fn attribute(tale: &mut Tale, name: &str, value: &str) {
    tale.meta.attributes.push((name.to_owned(), value.to_owned()));
}

/// A command that runs for a second beside a program it has made, which ends at 0.9 s.
fn two(exit_code: i32) -> (Tale, TrackId, TrackId) {
    let mut tale = Tale::new(1_000_000, 2);
    let main = tale.thread(Role::Client, "sh", 100, 100);
    let child = tale.thread(Role::Client, "copy", 101, 101);
    tale.span(main, K::CpuRun, 0, 1_000_000).end();
    tale.span(child, K::CpuRun, 10_000, 900_000).end();
    tale.made(child, 10_000, main);
    tale.meta.exit_code = Some(exit_code);
    tale.meta.attributes.push(("command.pid".to_owned(), "100".to_owned()));
    (tale, main, child)
}

fn mark(tale: &mut Tale, track: TrackId, kind: MarkKind, object: Option<ObjectId>, value: i64) {
    tale.event(Event::Mark(Mark { track, kind, at: Time::from_monotonic_ns(900_000_000), object, value: Some(value) }));
}

#[test]
fn who_was_killed_and_by_whom_is_said_and_a_shell_is_not_called_killed_for_its_child() {
    let (mut tale, _, child) = two(137);
    let sender = tale.object(ObjectKind::Process, "watchdog (process 77)", &[]);
    mark(&mut tale, child, MarkKind::Signal, Some(sender), 9);
    mark(&mut tale, child, MarkKind::ThreadExit, None, 137);
    let ended = tale.explain().summary.ended;
    assert_eq!(ended.as_deref(), Some("failed with exit code 137: watchdog sent copy SIGKILL after 900 ms"));
    let (mut tale, main, _) = two(137);
    let sender = tale.object(ObjectKind::Process, "watchdog (process 77)", &[]);
    mark(&mut tale, main, MarkKind::Signal, Some(sender), 9);
    mark(&mut tale, main, MarkKind::ThreadExit, None, 137);
    assert_eq!(tale.explain().summary.ended.as_deref(), Some("killed by SIGKILL: sent by watchdog (process 77)"));
}

#[test]
fn a_kill_for_want_of_memory_names_the_group_and_its_limit_and_none_other_does() {
    let of_kernel = |known: &[(&str, &str)]| {
        let (mut tale, main, _) = two(137);
        mark(&mut tale, main, MarkKind::Signal, None, 9);
        mark(&mut tale, main, MarkKind::ThreadExit, None, 137);
        known.iter().for_each(|(name, value)| attribute(&mut tale, name, value));
        tale.explain().summary.ended.expect("it failed")
    };
    let limit = ("cgroup.memory.limit./job", "67108864");
    let said = of_kernel(&[limit, ("cgroup.memory.killed./job", "1"), ("memory.killed", "1")]);
    assert_eq!(said, "killed by SIGKILL: out of memory: the limit of cgroup /job is 64 MiB");
    assert_eq!(of_kernel(&[limit, ("memory.killed", "1")]), "killed by SIGKILL: out of memory: the machine had none left");
    assert!(of_kernel(&[limit]).ends_with("of CPU time; memory had not run out"), "{}", of_kernel(&[limit]));
}

/// As make reports its commands' failures.
#[test]
fn a_line_that_passes_on_how_another_failed_gives_way_to_what_that_one_said() {
    let said = |last: &str, status: i64| {
        let (mut tale, _, child) = two(2);
        mark(&mut tale, child, MarkKind::ThreadExit, None, status);
        for (name, value) in [("ended.said", last), ("ended.said_by", "100"), ("ended.said_before.1", "101 main.c: no such file")] {
            attribute(&mut tale, name, value);
        }
        tale.explain().summary.ended.expect("it failed")
    };
    assert_eq!(said("make: *** [Makefile:2: all] Error 1", 1), "failed with exit code 2: main.c: no such file");
    assert_eq!(said("make: *** [Makefile:2: all] Error 2", 1), "failed with exit code 2: make: *** [Makefile:2: all] Error 2");
    assert_eq!(said("cannot go on", 1), "failed with exit code 2: cannot go on");
    assert_eq!(said("make: *** [Makefile:2: all] Error 1", 0), "failed with exit code 2: make: *** [Makefile:2: all] Error 1");
}

#[test]
fn the_last_words_stand_where_nothing_else_is_known() {
    let said = |known: &[(&str, &str)]| {
        let (mut tale, ..) = two(1);
        known.iter().for_each(|(name, value)| attribute(&mut tale, name, value));
        tale.explain().summary.ended.expect("it failed")
    };
    let words = ("ended.said", "copy: no such column");
    assert_eq!(said(&[words]), "failed with exit code 1: copy: no such column");
    let full = ("filesystem.full", "/mnt/out");
    assert_eq!(said(&[words, full]), "failed with exit code 1: /mnt/out is full");
    let failed = ("ended.failed", "at_ns=1000 pid=101 call=write error=28 path=/mnt/out/a b");
    assert_eq!(said(&[words, full, failed]), "failed with exit code 1: /mnt/out is full (write of /mnt/out/a b)");
    let quota = ("ended.failed", "at_ns=999000000 pid=101 call=write error=122 path=/home/u/x");
    assert_eq!(said(&[words, quota]), "failed with exit code 1: write of /home/u/x: the disk quota is used up (EDQUOT)");
    let earlier = ("ended.failed", "at_ns=-9999000000 pid=101 call=write error=122 path=/home/u/x");
    assert_eq!(said(&[words, earlier]), "failed with exit code 1: copy: no such column", "long before it ended");
}

#[test]
fn who_refused_the_last_connection_is_named_where_none_came_about_afterwards() {
    let ended = |later: bool| {
        let (mut tale, main, _) = two(7);
        let (refused, _) = tale.connection("10.0.0.1:5000 > 10.0.0.2:80");
        let (made, _) = tale.connection("10.0.0.1:5001 > 10.0.0.3:80");
        tale.span(main, K::NetConnect, 100_000, 101_000).on(refused).result(-111).end();
        if later {
            tale.span(main, K::NetConnect, 200_000, 201_000).on(made).result(0).end();
        }
        tale.explain().summary.ended
    };
    assert_eq!(ended(false).as_deref(), Some("failed with exit code 7: connection refused by 10.0.0.2:80"));
    assert_eq!(ended(true).as_deref(), Some("failed with exit code 7"));
}

#[test]
fn recorded_commands_that_were_ended_say_by_what() {
    let said = |name: &str| fixture(name).summary.ended.expect("it failed");
    assert_eq!(said("crashes-in-a-pipeline"), "failed with exit code 139: gridgen was killed by SIGSEGV");
    assert_eq!(said("killed-for-memory"), "killed by SIGKILL: out of memory: the limit of cgroup /job is 64 MiB");
    assert_eq!(said("killed-by-a-time-limit"), "killed by SIGKILL: timeout sent sleep SIGKILL after 1.00 s");
}
