//! `thalweg profile`: recordings side by side, profiles of commands and machines, and refusals.

use crate::bounded::Bounded;
use crate::common::{is_root, no_bpf, run, scratch, skipped, text};
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_trace::{
    Counter, CounterName, CounterOf, Ending, Event, FORMAT_VERSION, Host, HostId, Meta, RecordingWriter, Role, Sample, Sink, Stack, Time,
    Track, TrackId, TrackKind,
};

/// Creates a recording of a profile: ten seconds of one CPU, half idle, part of the rest in this kernel function.
fn recording(directory: &Path, name: &str, function: &str, samples: u64) -> PathBuf {
    let path = directory.join(name);
    let at = |ns: u64| Time::from_monotonic_ns(ns as i64);
    let (command, recorder, attributes) = (vec!["server".to_owned()], "profile".to_owned(), Vec::new());
    let (start, end, exit_code, dropped_events) = (at(0), None, None, 0);
    let meta = Meta { format: FORMAT_VERSION, command, recorder, start, end, exit_code, dropped_events, attributes };
    let writer = RecordingWriter::create(&path, meta).expect("a recording");
    let (clock, kernel) = ("monotonic:x".to_owned(), "k".to_owned());
    let host = Host { host: HostId(0), name: "here".into(), node: "here".into(), clock, kernel, cpus: 1 };
    let track = |n: u64, kind, name: &str| {
        let track = TrackId::new(n).expect("not 0");
        Event::Track(Track { track, host: HostId(0), kind, role: Role::Server, pid: Some(7), tid: Some(7), name: name.into() })
    };
    let mut events = vec![Event::Host(host), track(1, TrackKind::Thread, "server"), track(2, TrackKind::Cpu, "cpu0")];
    let stack = |stack, frames: &[&str]| Event::Stack(Stack { stack, frames: frames.iter().map(|frame| (*frame).to_owned()).collect() });
    events.push(stack(1, &[&format!("{function}+0x10 [kernel]"), "main+0x1 [/usr/bin/server ab+0x5]"]));
    events.push(stack(2, &["work+0x1 [/usr/bin/server ab+0x9]"]));
    for n in 0..samples {
        let (at, track, stack) = (at(n * 10_000_000_000 / samples), TrackId::new(1), Some(1 + (n % 4 == 0) as u32));
        events.push(Event::Sample(Sample {
            at,
            host: HostId(0),
            cpu: 0,
            track,
            class: Sample::FIRST_PROFILE_CLASS,
            stack,
            weight_ns: 1_000_000,
        }));
    }
    let of = CounterOf::Track(TrackId::new(2).expect("not 0"));
    for (ns, value) in [(0, 0), (10_000_000_000, 5_000_000_000)] {
        events.push(Event::Counter(Counter { of, name: CounterName::CpuIdleNs, at: at(ns), value }));
    }
    writer.take(&mut events);
    writer.finish(Ending::at(at(10_000_000_000))).expect("a recording");
    path
}

#[test]
fn two_runs_stand_side_by_side_and_on_a_page() {
    let directory = scratch();
    let (read, write) =
        (recording(directory.path(), "read.thw", "tcp_sendmsg", 5_000), recording(directory.path(), "write.thw", "ext4_write", 5_000));
    let page = directory.path().join("page.html");
    let said = run(["profile", text(&read), text(&write), "-o", text(&page)]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let row =
        |name: &str| said.out.lines().find(|line| line.starts_with(name)).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(row("percent").as_deref(), Some("percent of processor time read write"), "{said:?}");
    assert_eq!(row("idle").as_deref(), Some("idle 50.0 % 50.0 %"), "{said:?}");
    assert_eq!(row("TCP/IP").as_deref(), Some("TCP/IP 37.5 % -"), "{said:?}");
    assert_eq!(row("tcp_sendmsg").as_deref(), Some("tcp_sendmsg TCP/IP 37.5 % -"), "{said:?}");
    assert!(std::fs::read_to_string(page).expect("a page").contains("Flame graph of write"));
    let said = run(["profile", "--json", text(&read), text(&write)]);
    assert!(said.out.starts_with('[') && said.out.matches("thalweg.profile/1").count() == 2, "{said:?}");
}

#[test]
fn a_sites_rules_decide_and_their_errors_name_line_and_reason() {
    let directory = scratch();
    let run_thw = recording(directory.path(), "run.thw", "tcp_sendmsg", 5_000);
    let rules = directory.path().join("site.txt");
    std::fs::write(&rules, "class tls: encryption\ntls[*/server]:\n").expect("a file");
    let said = run(["profile", text(&run_thw), "--classes", text(&rules)]);
    assert!(said.out.lines().any(|line| line.starts_with("encryption") && line.contains("12.5 %")), "{said:?}");
    std::fs::write(&rules, "# ours\nnetdvr: tun_*\n").expect("a file");
    let said = run(["profile", text(&run_thw), "--classes", text(&rules)]);
    assert!(said.code == Some(1) && said.err.contains("site.txt: line 2: no class is named \"netdvr\""), "{said:?}");
    let said = run(["profile", text(&run_thw), "--classes", "/no/such/rules"]);
    assert!(said.code == Some(1) && said.err.contains("/no/such/rules"), "{said:?}");
}

#[test]
fn what_cannot_be_meant_is_refused_and_says_what_to_do() {
    let directory = scratch();
    let run_thw = recording(directory.path(), "run.thw", "tcp_sendmsg", 5_000);
    let run_thw = text(&run_thw);
    for (words, code, part) in [
        (&["profile"][..], 2, "expected recordings, a command after --"),
        (&["profile", run_thw, "-o", "again.thw"], 2, "FILE.html"),
        (&["profile", run_thw, "--for", "3s"], 2, "--for"),
        (&["profile", run_thw, "--", "true"], 2, "cannot be used with"),
        (&["profile", run_thw, "--also", ":80"], 2, "--also"),
        (&["profile", "--port", "80", "--", "true"], 2, "--port"),
        (&["profile", "/no/such.thw"], 1, "/no/such.thw"),
        (&["profile", run_thw, run_thw, run_thw, run_thw, run_thw, run_thw], 2, "6 columns do not fit"),
    ] {
        let said = run(words);
        assert!(said.code == Some(code) && said.err.contains(part), "{words:?}: {said:?}");
    }
}

#[test]
fn few_samples_are_counted_and_a_recording_without_says_how_to_make_one() {
    let directory = scratch();
    let few = recording(directory.path(), "few.thw", "tcp_sendmsg", 42);
    let said = run(["profile", text(&few)]);
    assert!(said.code == Some(0) && said.out.contains("42 samples") && !said.out.contains('%'), "{said:?}");
    let none = directory.path().join("none.thw");
    let said = run(["record", "--method", "proc", "-o", text(&none), "--", "sleep", "0.2"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let said = run(["profile", text(&none)]);
    assert!(said.code == Some(1) && said.err.contains("holds no profile") && said.err.contains("thalweg profile -o"), "{said:?}");
    let said = run(["export", text(&none), "--to", "folded", "-o", text(&directory.path().join("x"))]);
    assert!(said.code == Some(1) && said.err.contains("no stacks"), "{said:?}");
}

#[test]
fn a_profile_is_what_other_profilers_read() {
    let directory = scratch();
    let run_thw = recording(directory.path(), "run.thw", "tcp_sendmsg", 400);
    for format in ["folded", "speedscope", "pprof", "perfetto"] {
        let out = directory.path().join(format);
        let said = run(["export", text(&run_thw), "--to", format, "-o", text(&out)]);
        assert_eq!(said.code, Some(0), "{format}: {said:?}");
        assert!(std::fs::metadata(&out).expect("a file").len() > 20, "{format}");
    }
    let folded = std::fs::read_to_string(directory.path().join("folded")).expect("a file");
    assert_eq!(folded, "server;main;tcp_sendmsg_[k] 300\nserver;work 100\n");
}

#[test]
fn a_command_is_profiled_and_ends_as_it_did() {
    if !is_root() {
        return skipped("a profile needs root, or CAP_BPF and CAP_PERFMON");
    }
    let directory = scratch();
    let kept = directory.path().join("kept.thw");
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo its own; exit 7";
    let said = run(["profile", "-o", text(&kept), "--", "sh", "-c", busy]);
    if said.err.contains("not allowed") {
        return skipped(&said.err);
    }
    assert_eq!((said.code, said.out.trim()), (Some(7), "its own"), "{said:?}");
    assert!(said.err.contains("percent of processor time") && said.err.contains("hottest functions"), "{said:?}");
    let shown = run(["profile", "--json", text(&kept)]);
    assert!(shown.code == Some(0) && shown.out.contains("\"program\": \"sh\""), "{shown:?}");
}

/// Compiles the program that counts its own time in each class.
fn spends(directory: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/profile/spends.c");
    let program = directory.join("spends");
    let made = Command::new("cc").args(["-O2", "-o"]).args([&program, &source]).arg("-ldl").output_in_time();
    made.is_ok_and(|output| output.status.success()).then_some(program)
}

/// A part of that program: its classes, and its own function.
const PARTS: [(&str, &[&str], &str); 5] = [
    ("memcpy", &["libc"], "copy"),
    ("write", &["fs"], "write_file"),
    // Loopback is a driver too, and the profiler runs in its software interrupts.
    ("send", &["net", "netdrv", "recorder"], "send_over_loopback"),
    ("fault", &["mm"], "fault"),
    ("spin", &["program"], "spin"),
];

#[test]
fn each_class_has_the_share_that_a_program_counts_itself() {
    if !is_root() {
        return skipped("a profile needs root, or CAP_BPF and CAP_PERFMON");
    }
    let directory = scratch();
    let Some(program) = spends(directory.path()) else { return skipped("cc cannot make the program") };
    let counts = directory.path().join("counts");
    let parts = PARTS.map(|(part, ..)| format!("{part}=1"));
    let mut words = vec!["profile", "--json", "--", text(&program), text(&counts), "3"];
    words.extend(parts.iter().map(String::as_str));
    let said = run(words);
    if said.err.contains("not allowed") {
        return skipped(&said.err);
    }
    assert_eq!(said.code, Some(0), "{said:?}");
    let json =
        [&said.out, &said.err].into_iter().find_map(|text| serde_json::from_str::<serde_json::Value>(text).ok()).expect("a document");
    let host = &json["hosts"][0];
    let rows = |value: &serde_json::Value| value.as_array().expect("a list").clone();
    let samples = |row: &serde_json::Value| row["samples"].as_f64().expect("a number");
    let own = rows(&host["programs"]).into_iter().find(|row| row["program"] == "spends" && row["role"] == "client").expect("the program");
    // Of its own functions only the few whose callees form the class are taken from the program.
    let of_function = |name: &str| -> f64 {
        let is = |row: &&serde_json::Value| row["function"] == name && row["module"] == text(&program);
        rows(&host["functions"]).iter().filter(is).map(samples).sum()
    };
    let counted: std::collections::HashMap<String, f64> = std::fs::read_to_string(&counts)
        .expect("counts")
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(part, ns)| (part.to_owned(), ns.parse().expect("nanoseconds")))
        .collect();
    let all: f64 = counted.values().sum();
    assert!(samples(&own) >= 300.0, "{own}");
    for (part, classes, function) in PARTS {
        let in_classes: f64 = rows(&own["for"]).iter().filter(|row| classes.iter().any(|class| row["class"] == *class)).map(samples).sum();
        let code = if part == "spin" { -PARTS[..4].iter().map(|(.., name)| of_function(name)).sum::<f64>() } else { of_function(function) };
        let (share, truth) = ((in_classes + code) / samples(&own), counted[part] / all);
        // Three standard deviations of 300 samples of a fifth.
        assert!((share - truth).abs() < 0.07, "{part}: {share} of its samples, {truth} of its time: {own}");
    }
}

#[test]
fn the_stack_of_a_long_wait_is_a_line_of_what_is_said_in_full() {
    if let Some(why) = no_bpf() {
        return skipped(&why);
    }
    let directory = scratch();
    let of = |name: &str| directory.path().join(name);
    let (with, without) = (of("with.thw"), of("without.thw"));
    let said = run(["record", "--method", "bpf", "--profile", "-o", text(&with), "--", "sleep", "0.3"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let waits = |said: &crate::common::CommandOutput| {
        said.out.lines().filter(|line| line.contains("nanosleep") && line.contains(" ms in ")).count()
    };
    let full = run(["explain", "-v", text(&with)]);
    assert_eq!(waits(&full), 1, "{full:?}");
    assert_eq!(waits(&run(["explain", text(&with)])), 0);
    let json = run(["explain", "--json", text(&with)]);
    assert!(json.out.contains("\"waits\"") && json.out.contains("nanosleep"), "{json:?}");
    let page = of("page.html");
    assert_eq!(run(["report", text(&with), "-o", text(&page)]).code, Some(0));
    assert!(std::fs::read_to_string(&page).expect("a page").contains("nanosleep"));
    assert_eq!(run(["record", "--method", "bpf", "-o", text(&without), "--", "sleep", "0.3"]).code, Some(0));
    assert_eq!(waits(&run(["explain", "-v", text(&without)])), 0);
    let json = run(["explain", "--json", text(&without)]);
    assert!(!json.out.contains("\"waits\""), "{json:?}");
}
