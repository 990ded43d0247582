//! Profiles without samples, and event counts beside them.

use super::machine::Machine;
use super::{SECOND, about, of, share};
use thalweg_explain::profile::document::EventCounts;
use thalweg_explain::profile::{Rules, profile_with_stacks};
use thalweg_trace::{CounterName, Role};

/// Ten seconds of two processors counted by /proc: half idle, the rest mostly a command's.
pub(super) fn machine() -> Machine {
    let mut machine = Machine::new(10 * SECOND, 2);
    machine.meta.recorder = "counts".to_owned();
    let attributes = [("counted", "proc"), ("no_samples", "no CAP_BPF"), ("tick_ns", "10000000"), ("look_ns", "200000000")];
    for (name, value) in attributes {
        machine = machine.attribute(&format!("profile.{name}"), value);
    }
    machine.counts(CounterName::CpuIdleNs, 10 * SECOND).counts(CounterName::CpuUserNs, 7 * SECOND);
    machine.counts(CounterName::CpuSystemNs, 2 * SECOND).counts(CounterName::CpuHardirqNs, 0);
    machine.counts(CounterName::CpuSoftirqNs, SECOND / 2).counts(CounterName::CpuStealNs, SECOND / 2);
    machine.process(Role::Client, "tar", 7, SECOND, SECOND).process(Role::Client, "gzip", 8, 5 * SECOND, SECOND / 2);
    machine.process(Role::None, "cron", 9, SECOND / 4, 0).process(Role::None, "cron", 10, SECOND / 4, 0);
    machine
}

#[test]
fn what_proc_counted_adds_up_to_all_processors_time() {
    let host = of(&machine(), &Rules::default());
    assert!(host.enough && host.samples == 0 && host.cpus == 2, "{host:?}");
    let expected = [("idle", 0.5), ("user", 0.35), ("system", 0.1), ("hardirq", 0.0), ("softirq", 0.025), ("steal", 0.025)];
    for (class, part) in expected {
        assert!(about(share(&host.classes, class), part), "{class}: {:?}", host.classes);
    }
    assert!(about(host.classes.iter().filter_map(|row| row.share).sum(), 1.0) && about(host.busy_s, 9.5));
    assert!(host.classes.iter().all(|row| row.low.is_none() && row.samples == 0), "no interval without samples");
    assert!(host.functions.is_empty() && host.purposes.is_empty() && host.unsymbolised.share.is_none());
    let bins = &host.over_time.lines[0].shares;
    assert!(bins.len() == 100 && bins.iter().all(|share| (share - 0.5).abs() < 0.02), "{bins:?}");
}

#[test]
fn programs_have_their_own_and_the_kernels_time_and_the_rest_is_said() {
    let host = of(&machine(), &Rules::default());
    let names: Vec<(&str, &str, u64)> = host.programs.iter().map(|p| (p.program.as_str(), p.role.as_str(), p.processes)).collect();
    assert_eq!(names, [("gzip", "client", 1), ("tar", "client", 1), ("cron", "none", 2)]);
    let gzip = &host.programs[0];
    assert!(about(gzip.user_share.expect("counted"), 0.25) && about(gzip.system_share.expect("counted"), 0.025));
    let counted = host.counted.expect("it was counted");
    assert_eq!((counted.source.as_str(), counted.no_samples.as_str(), counted.over), ("/proc", "no CAP_BPF", None));
    // 9 s of programs, 8 s of them in a row.
    assert!(about(counted.rest.expect("a share"), 0.05), "{counted:?}");
    let mut more = machine();
    more.process(Role::None, "make", 11, 2 * SECOND, 0);
    let counted = of(&more, &Rules::default()).counted.expect("it was counted");
    assert!(counted.rest == Some(0.0) && about(counted.over.expect("more than all"), 0.05), "{counted:?}");
}

/// The machine with samples of gzip's own code, of a millisecond each, in its program and in the C library.
fn with_own(program: u64, library: u64) -> Machine {
    let mut machine = machine();
    for (name, value) in [("run", 6 * SECOND), ("user", 5 * SECOND), ("kernel", 9 * SECOND / 10), ("short", SECOND / 10)] {
        machine = machine.attribute(&format!("profile.own_{name}_ns"), &value.to_string());
    }
    let gzip = machine.thread(Role::Client, "gzip", 8);
    machine.samples(gzip, program, &["longest_match [/usr/bin/gzip]", "deflate [/usr/bin/gzip]"]);
    machine.samples(gzip, library, &["memcpy [/usr/lib/x86_64-linux-gnu/libc.so.6]"]);
    machine
}

#[test]
fn samples_of_own_programs_divide_their_part_of_the_time_and_no_more() {
    let profiled = profile_with_stacks(&with_own(4_000, 1_000).source(), &Rules::default()).expect("a profile");
    let host = &profiled.document.hosts[0];
    let expected = [("idle", 0.5), ("program", 0.2), ("libc", 0.05), ("user", 0.1), ("system", 0.1), ("softirq", 0.025), ("steal", 0.025)];
    for (class, part) in expected {
        assert!(about(share(&host.classes, class), part), "{class}: {:?}", host.classes);
    }
    assert!(about(host.classes.iter().filter_map(|row| row.share).sum(), 1.0) && host.samples == 5_000, "{host:?}");
    assert!(host.functions[0].function == "longest_match" && about(host.functions[0].share.expect("enough"), 0.2), "{:?}", host.functions);
    let gzip = &host.programs[0];
    assert!(gzip.samples == 5_000 && about(gzip.user_share.expect("counted"), 0.25), "programs keep their counts: {gzip:?}");
    let own = host.counted.as_ref().and_then(|counted| counted.own).expect("times");
    assert!(about(own.run_s, 6.0) && about(own.user_s + own.kernel_s + own.short_s, 6.0), "{own:?}");
    let line = |class: &str| host.over_time.lines.iter().find(|line| line.class == class).expect("a line");
    for (class, part) in [("program", 0.2), ("user", 0.1), ("idle", 0.5)] {
        assert!(line(class).shares.iter().all(|share| (share - part).abs() < 0.02), "{class}: {:?}", line(class).shares);
    }
    let stacks = &profiled.stacks[0];
    let of = |name: &str| stacks.functions.iter().position(|function| function.name == name).expect("a function") as u32;
    assert!(stacks.stacks.iter().any(|stack| stack.frames == [of("deflate"), of("longest_match")] && about(stack.share, 0.2)));
    assert!(stacks.stacks.iter().any(|stack| stack.program == "tar" && stack.frames == [of("[kernel]")] && about(stack.share, 0.05)));
}

#[test]
fn where_samples_have_more_than_ticks_found_the_kernel_has_less() {
    let host = of(&with_own(7_000, 1_000), &Rules::default());
    for (class, part) in [("program", 0.35), ("libc", 0.05), ("user", 0.0), ("system", 0.05)] {
        assert!(about(share(&host.classes, class), part), "{class}: {:?}", host.classes);
    }
    assert!(about(host.classes.iter().filter_map(|row| row.share).sum(), 1.0));
    let few = of(&with_own(40, 10), &Rules::default());
    assert!(few.functions.is_empty() && few.samples == 50 && about(share(&few.classes, "user"), 0.35), "{few:?}");
}

#[test]
fn a_few_ticks_have_no_shares() {
    for (ns, enough) in [(SECOND / 2 - 10_000_000, false), (SECOND / 2, true)] {
        let mut machine = Machine::new(ns, 2).attribute("profile.counted", "proc");
        machine.counts(CounterName::CpuIdleNs, ns).counts(CounterName::CpuUserNs, ns).process(Role::Client, "true", 7, 10_000_000, 0);
        let host = of(&machine, &Rules::default());
        assert_eq!(host.enough, enough);
        assert_eq!(host.classes.iter().all(|row| row.share.is_some()), enough);
        assert_eq!(host.programs.iter().all(|row| row.share.is_some()), enough);
    }
}

#[test]
fn what_was_counted_has_no_stacks() {
    let profiled = profile_with_stacks(&machine().source(), &Rules::default()).expect("a profile");
    assert!(profiled.stacks.len() == 1 && profiled.stacks[0].stacks.is_empty());
}

/// A machine with a sample of a copy each 20 ms, of 300 cycles each.
pub(super) fn with_events() -> Machine {
    let mut machine = Machine::new(10 * SECOND, 1).attribute("event.0", "cycles").attribute("event.1", "page-faults");
    let thread = machine.thread(Role::Client, "cp", 7);
    machine.counts(CounterName::CpuIdleNs, 0);
    machine.samples(thread, 500, &["_copy_to_iter [kernel]", "main [/bin/cp]"]);
    let cpu = machine.processor();
    let mut sum = 1_000;
    machine.value(cpu, CounterName::Event0, 0, sum);
    for n in 0..500 {
        sum += 300;
        machine.value(cpu, CounterName::Event0, 10_000_000 + n * 20_000_000, sum);
    }
    machine.value(cpu, CounterName::Event1, 0, 0).value(cpu, CounterName::Event1, 10_000_000, 7);
    machine
}

fn event<'a>(events: &'a [EventCounts], name: &str) -> &'a EventCounts {
    events.iter().find(|event| event.event == name).expect("it was counted")
}

#[test]
fn events_belong_to_what_the_sample_found_and_none_is_lost_with_a_value() {
    let host = of(&with_events(), &Rules::default());
    let cycles = event(&host.events, "cycles");
    assert_eq!((cycles.count, cycles.classes.len(), cycles.classes[0].class.as_str()), (150_000, 1, "copy"));
    assert_eq!((event(&host.events, "page-faults").count, cycles.per_byte), (7, None));
    let mut machine = Machine::new(10 * SECOND, 1).attribute("event.0", "cycles");
    let thread = machine.thread(Role::Client, "cp", 7);
    machine.counts(CounterName::CpuIdleNs, 0).samples(thread, 1, &["_copy_to_iter [kernel]"]).samples(thread, 100, &["main [/bin/cp]"]);
    let cpu = machine.processor();
    // The sample at 5 s is the copy; of the hundred others, those up to 3.95 s and then that at 9.95 s have values.
    machine.value(cpu, CounterName::Event0, 0, 0);
    machine.value(cpu, CounterName::Event0, 3_950_000_000, 40).value(cpu, CounterName::Event0, 5_000_000_000, 100);
    machine.value(cpu, CounterName::Event0, 9_950_000_000, 1_000);
    let host = of(&machine, &Rules::default());
    let mut found: Vec<_> = host.events[0].classes.iter().map(|class| (class.class.as_str(), class.count)).collect();
    found.sort_unstable();
    assert_eq!(found, [("copy", 60), ("program", 940)]);
}

#[test]
fn without_counters_nothing_is_said_of_events() {
    let mut machine = Machine::new(SECOND, 1);
    let thread = machine.thread(Role::Client, "cp", 7);
    machine.counts(CounterName::CpuIdleNs, 0).samples(thread, 500, &["main [/bin/cp]"]);
    assert!(of(&machine, &Rules::default()).events.is_empty());
}
