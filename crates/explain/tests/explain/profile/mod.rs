//! Synthetic profiles of whole machines: the two answers, time that no sample sees, and sums.

mod counted;
mod machine;

use machine::Machine;
use proptest::prelude::*;
use thalweg_explain::profile::document::{ClassShare, HostProfile};
use thalweg_explain::profile::{Rules, profile};
use thalweg_trace::{CounterName, Role};

const SECOND: i64 = 1_000_000_000;
const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";

/// A server that receives, on a machine with two processors that is half idle.
fn server() -> Machine {
    let mut machine = Machine::new(10 * SECOND, 2).attribute("profile.lost", "3").attribute("profile.bpf_ns", "100000000");
    let server = machine.thread(Role::Server, "nfsd", 200);
    let other = machine.thread(Role::None, "cron", 300);
    let recorder = machine.thread(Role::Recorder, "thalweg", 400);
    machine.counts(CounterName::CpuIdleNs, 10 * SECOND).counts(CounterName::CpuHardirqNs, SECOND);
    let receive = ["_copy_to_iter+0x1 [kernel]", "tcp_recvmsg_locked+0x1 [kernel]", "tcp_recvmsg [kernel]", "__sys_recvfrom [kernel]"];
    machine.samples(server, 4_000, &receive);
    machine.samples(server, 2_000, &["_raw_spin_unlock_irqrestore [kernel]", "ext4_map_blocks [kernel]", "ksys_write [kernel]"]);
    machine.samples(server, 1_000, &[&format!("memcpy+0x12 [{LIBC} ab+0x9f]"), "main [/usr/bin/nfsd ab+0x1]"]);
    machine.samples(server, 500, &["unknown_to_the_rules [kernel]", "tcp_ack [kernel]", "net_rx_action [kernel]"]);
    machine.samples(server, 400, &["[/usr/lib/libz.so.1.2 77+0x51]"]);
    machine.samples(other, 600, &[&format!("memcpy [{LIBC} ab+0x9f]")]);
    machine.samples(recorder, 300, &["ext4_map_blocks [kernel]"]);
    machine
}

fn of(machine: &Machine, rules: &Rules) -> HostProfile {
    let mut hosts = profile(&machine.source(), rules).expect("a profile").hosts;
    assert_eq!(hosts.len(), 1);
    hosts.remove(0)
}

fn share(rows: &[ClassShare], class: &str) -> f64 {
    rows.iter().find(|row| row.class == class).and_then(|row| row.share).unwrap_or(0.0)
}

/// Within a thousandth.
fn about(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-3
}

#[test]
fn a_copy_made_for_a_receive_is_a_copy_and_the_networks_cost() {
    let host = of(&server(), &Rules::default());
    // 8,800 samples divide the 8.9 s that are neither idle, interrupts nor the sampling programs.
    let part = |samples: f64| samples / 8_800.0 * 8.9 / 20.0;
    assert!(about(share(&host.classes, "copy"), part(4_000.0)), "{:?}", host.classes);
    assert_eq!(share(&host.purposes, "copy"), 0.0);
    assert!(about(share(&host.purposes, "net"), part(4_500.0)), "{:?}", host.purposes);
    assert!(about(share(&host.classes, "fs"), part(2_000.0)));
}

#[test]
fn idle_and_interrupts_are_counted_and_not_sampled() {
    let host = of(&server(), &Rules::default());
    assert!(about(share(&host.classes, "idle"), 0.5) && about(share(&host.classes, "irq"), 0.05), "{:?}", host.classes);
    assert!(about(host.busy_s, 10.0) && host.samples == 8_800 && host.lost == 3);
    assert!(host.classes.iter().all(|row| row.class != "steal"), "what was not counted is absent");
}

#[test]
fn programs_are_told_from_their_libraries_and_from_others() {
    let host = of(&server(), &Rules::default());
    let part = |samples: f64| samples / 8_800.0 * 8.9 / 20.0;
    for (class, samples) in [("libc", 1_000.0), ("libraries", 400.0), ("others", 600.0)] {
        assert!(about(share(&host.classes, class), part(samples)), "{class}: {:?}", host.classes);
    }
    assert!(about(share(&host.classes, "recorder"), part(300.0) + 0.1 / 20.0));
    assert_eq!(host.cost.share, Some(share(&host.classes, "recorder")));
    assert!(
        about(host.unsymbolised.share.expect("a share"), part(400.0)) && host.unsymbolised.modules[0].build_id.as_deref() == Some("77")
    );
    assert_eq!((host.programs[0].program.as_str(), host.programs[0].role.as_str()), ("nfsd", "server"));
    assert_eq!((host.functions[0].function.as_str(), host.functions[0].class.as_str()), ("_copy_to_iter", "copy"));
    assert_eq!(host.functions[1].function, "ext4_map_blocks", "what says nothing is passed over");
}

#[test]
fn code_made_at_run_time_is_the_programs_and_without_a_command_so_is_everything() {
    let mut machine = Machine::new(SECOND, 1);
    let thread = machine.thread(Role::None, "node", 7);
    machine.counts(CounterName::CpuIdleNs, 0).samples(thread, 500, &["render [jit]"]).samples(thread, 500, &["[unknown]"]);
    assert!(about(share(&of(&machine, &Rules::default()).classes, "program"), 1.0));
}

#[test]
fn code_made_at_run_time_that_has_no_name_says_whose_it_is() {
    let mut machine = Machine::new(SECOND, 1);
    let (node, java) = (machine.thread(Role::None, "node", 7), machine.thread(Role::None, "java/C2 thread", 8));
    machine.counts(CounterName::CpuIdleNs, 0);
    machine.samples(node, 300, &["[jit]"]).samples(java, 200, &["[jit]"]).samples(java, 500, &["render [jit]"]);
    let host = of(&machine, &Rules::default());
    let modules: Vec<(&str, u64)> = host.unsymbolised.modules.iter().map(|m| (m.module.as_str(), m.samples)).collect();
    assert_eq!(modules, [("jit of node", 300), ("jit of java", 200)]);
    assert!(about(host.unsymbolised.share.expect("a share"), 0.5));
}

#[test]
fn a_function_without_a_rule_takes_its_callers_class_and_is_marked() {
    let host = of(&server(), &Rules::default());
    let row = host.classes.iter().find(|row| row.class == "net").expect("a row");
    assert_eq!((row.samples, row.guessed), (500, 500));
    assert!(about(host.guessed_share.expect("a share"), 500.0 / 8_800.0 * 8.9 / 20.0));
    let mut machine = Machine::new(SECOND, 1);
    let thread = machine.thread(Role::Client, "x", 7);
    machine.counts(CounterName::CpuIdleNs, 0).samples(thread, 1_000, &["nobody_knows [kernel]", "do_syscall_64 [kernel]", "main [/bin/x]"]);
    let host = of(&machine, &Rules::default());
    assert!(about(share(&host.classes, "rest"), 1.0), "that the kernel was entered says nothing: {:?}", host.classes);
}

#[test]
fn what_is_called_by_the_recorder_is_the_recorders_and_what_interrupts_it_is_not() {
    let mut machine = Machine::new(SECOND, 1);
    let thread = machine.thread(Role::Client, "cp", 7);
    machine.counts(CounterName::CpuIdleNs, 0);
    let under = ["bpf_prog_1d6d on_switch [kernel]", "bpf_trace_run4 [kernel]", "__schedule [kernel]", "main [/bin/cp]"];
    let with = |above: &[&'static str]| above.iter().copied().chain(under).collect::<Vec<_>>();
    machine.samples(thread, 100, &with(&["ktime_get [kernel]"]));
    machine.samples(thread, 100, &under[1..]);
    machine.samples(thread, 300, &with(&["tcp_ack [kernel]", "handle_softirqs [kernel]", "asm_common_interrupt [kernel]"]));
    machine.samples(thread, 500, &["__schedule [kernel]", "main [/bin/cp]"]);
    let host = of(&machine, &Rules::default());
    for (class, part) in [("recorder", 0.2), ("net", 0.3), ("sched", 0.5)] {
        assert!(about(share(&host.classes, class), part), "{class}: {:?}", host.classes);
    }
}

#[test]
fn a_sites_rules_make_classes_of_their_own() {
    let rules = Rules::parse("class tls: encryption\ntls[*/libz.so*]:\ntls: _copy_to_iter\n").expect("rules");
    let host = of(&server(), &rules);
    assert!(about(share(&host.classes, "tls"), 4_400.0 / 8_800.0 * 8.9 / 20.0), "{:?}", host.classes);
}

#[test]
fn fewer_than_a_hundred_samples_have_no_shares() {
    for (samples, enough) in [(99, false), (100, true)] {
        let mut machine = Machine::new(SECOND, 1);
        let thread = machine.thread(Role::Client, "true", 7);
        machine.counts(CounterName::CpuIdleNs, SECOND / 2).samples(thread, samples, &["main [/bin/true]"]);
        let host = of(&machine, &Rules::default());
        assert_eq!((host.samples, host.enough), (samples, enough));
        assert_eq!(host.classes.iter().all(|row| row.share.is_some() && row.seconds.is_some()), enough);
        assert!(enough || host.classes.iter().all(|row| row.share.is_none() && row.low.is_none()) && host.over_time.lines.is_empty());
    }
}

#[test]
fn a_recording_without_a_profile_says_how_to_make_one() {
    let mut machine = Machine::new(SECOND, 1);
    machine.thread(Role::Client, "cp", 7);
    let error = profile(&machine.source(), &Rules::default()).expect_err("nothing").to_string();
    assert!(error.contains("no profile") && error.contains("thalweg profile -o"), "{error}");
}

#[test]
fn over_time_shows_when() {
    let mut machine = Machine::new(10 * SECOND, 1);
    let thread = machine.thread(Role::Client, "cp", 7);
    machine.counts(CounterName::CpuIdleNs, 5 * SECOND).samples(thread, 5_000, &["main [/bin/cp]"]);
    let host = of(&machine, &Rules::default());
    assert!((host.over_time.bin_s - 0.1).abs() < 1e-9, "{}", host.over_time.bin_s);
    for line in &host.over_time.lines {
        assert_eq!(line.shares.len(), 100);
        assert!(line.shares.iter().all(|share| (share - 0.5).abs() < 0.02), "{line:?}");
    }
}

#[test]
fn an_interval_holds_the_share_and_narrows_with_samples() {
    let width = |samples: u64| {
        let mut machine = Machine::new(SECOND, 1);
        let thread = machine.thread(Role::Client, "cp", 7);
        machine.counts(CounterName::CpuIdleNs, 0);
        machine.samples(thread, samples, &["main [/bin/cp]"]).samples(thread, samples, &["memcpy [/lib/libc.so.6]"]);
        let host = of(&machine, &Rules::default());
        let row = host.classes.iter().find(|row| row.class == "libc").expect("a row").clone();
        let (low, share, high) = (row.low.expect("low"), row.share.expect("a share"), row.high.expect("high"));
        assert!(low < share && share < high);
        high - low
    };
    assert!(about(width(5_000), 0.0196), "{}", width(5_000));
    assert!(width(50) > 0.18);
}

#[test]
fn profiles_hold_against_their_schema() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../../profile.schema.json")).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let mut few = Machine::new(SECOND, 1);
    let thread = few.thread(Role::Client, "true", 7);
    few.samples(thread, 2, &["main [/bin/true]"]);
    for machine in [server(), few, counted::machine(), counted::with_events()] {
        let document = profile(&machine.source(), &Rules::default()).expect("a profile");
        let mut json = serde_json::to_value(&document).expect("JSON");
        let errors: Vec<String> = validator.iter_errors(&json).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        assert_eq!(serde_json::from_value::<thalweg_explain::profile::Profile>(json.clone()).expect("read back"), document);
        json["hosts"][0]["mood"] = "good".into();
        assert!(!validator.is_valid(&json), "what is not in the schema is refused");
    }
}

/// Stacks of all sorts.
const STACKS: [&[&str]; 9] = [
    &["tcp_ack [kernel]", "net_rx_action [kernel]"],
    &["_raw_spin_unlock_bh [kernel]"],
    &["who_knows [kernel]"],
    &["who_knows [kernel]", "handle_softirqs [kernel]", "asm_common_interrupt [kernel]", "main [/bin/x]"],
    &["main [/bin/x]"],
    &["[/usr/lib/libq.so]"],
    &["default_idle [kernel]", "do_idle [kernel]"],
    &["memcpy"],
    &[],
];

proptest! {
    #[test]
    fn the_classes_of_a_machine_add_up_to_its_processors_time(
        wall_ms in 1..30_000_i64, cpus in 1..9_u32, idle in 0.0..1.0_f64, interrupts in proptest::option::of(0.0..0.3_f64),
        steal in proptest::option::of(0.0..0.3_f64), counts in proptest::collection::vec((0..STACKS.len(), 0..4_usize, 1..400_u64), 1..12),
        bpf_ns in proptest::option::of(0..1_000_000_000_u64),
    ) {
        let mut machine = Machine::new(wall_ms * 1_000_000, cpus);
        if let Some(ns) = bpf_ns {
            machine = machine.attribute("profile.bpf_ns", &ns.to_string());
        }
        let whole = (wall_ms * 1_000_000 * i64::from(cpus)) as f64;
        machine.counts(CounterName::CpuIdleNs, (whole * idle) as i64);
        if let Some(part) = interrupts {
            machine.counts(CounterName::CpuHardirqNs, (whole * part) as i64);
        }
        if let Some(part) = steal {
            machine.counts(CounterName::CpuStealNs, (whole * part) as i64);
        }
        let roles = [Role::Client, Role::None, Role::Recorder, Role::Kernel];
        let threads: Vec<_> = roles.iter().enumerate().map(|(n, role)| machine.thread(*role, "x", n as u32 + 1)).collect();
        for (stack, thread, count) in counts {
            machine.samples(threads[thread], count, STACKS[stack]);
        }
        let host = of(&machine, &Rules::default());
        if host.enough {
            for rows in [&host.classes, &host.purposes] {
                let sum: f64 = rows.iter().filter_map(|row| row.share).sum();
                prop_assert!((sum - 1.0).abs() < 1e-3, "{} of {:?}", sum, rows);
                let samples: u64 = rows.iter().map(|row| row.samples).sum();
                prop_assert_eq!(samples, host.samples);
            }
            for bin in 0..host.over_time.lines.first().map_or(0, |line| line.shares.len()) {
                let sum: f64 = host.over_time.lines.iter().map(|line| line.shares[bin]).sum();
                prop_assert!(sum <= 1.0 + 1e-6 || idle + interrupts.unwrap_or(0.0) + steal.unwrap_or(0.0) > 0.99 || bpf_ns.is_some(), "bin {}: {}", bin, sum);
            }
        }
    }
}
