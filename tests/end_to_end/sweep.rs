//! `thalweg sweep`: real commands at every point of a grid, resumed after kills, compared; and invalid sweeps.

use crate::common::{CommandOutput, run, scratch, static_part, text, thalweg, wait_until};
use serde_json::Value;
use std::path::Path;

/// Runs a sweep in this directory, of a shell script, without recordings.
fn sweep(directory: &Path, flags: &[&str], script: &str) -> CommandOutput {
    let output = directory.join("s");
    let words = ["sweep", "--explain", "never", "-o", text(&output)];
    run([&words[..], flags, &["--", "sh", "-c", script]].concat())
}

fn document(directory: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(directory.join("s.json")).unwrap()).unwrap()
}

#[test]
fn a_grid_is_run_and_each_point_has_its_state() {
    let directory = scratch();
    let log = directory.path().join("log");
    let script = format!(
        "echo {{n}} {{mode}} {{run}} >> {}; case {{n}}{{mode}} in 2y) echo the disk is full >&2; exit 3;; 3x) sleep 100;; esac",
        text(&log)
    );
    let flags = [
        "--vary",
        "n=1,2,3,4",
        "--vary",
        "mode=x,y",
        "--skip",
        "n == 4 && mode == 'y'",
        "--repeat",
        "3",
        "--timeout",
        "300ms",
        "--bytes",
        "1Ki",
    ];
    let said = sweep(directory.path(), &flags, &script).done();
    assert!(said.out.lines().count() <= 25 && said.out.contains("2 y") && said.out.contains("the disk is full"), "{}", said.out);
    let document = document(directory.path());
    let state = |n: &str, mode: &str| {
        let points = document["points"].as_array().unwrap();
        points.iter().find(|p| p["values"] == serde_json::json!([n, mode])).unwrap()["state"].as_str().unwrap().to_owned()
    };
    assert_eq!([state("1", "x"), state("2", "y"), state("3", "x"), state("4", "y")], ["done", "failed", "timed_out", "skipped"]);
    let done = &document["points"][0];
    assert_eq!((done["runs"].as_array().unwrap().len(), &done["runs"][0]["bytes"]), (3, &1024.into()));
    // Every run has a number: 5 points with a warm-up and 3 runs, and two that ended in their warm-up.
    let lines = std::fs::read_to_string(&log).unwrap();
    let mut numbers: Vec<&str> = lines.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!((lines.lines().count(), numbers.len()), (22, 22), "{lines}");
    let page = std::fs::read_to_string(directory.path().join("s.html")).unwrap();
    assert!(page.contains(">timed out<") && page.contains(">skipped<") && !static_part(&page).contains("<script"));
}

#[test]
fn the_page_has_the_causes_along_each_curve() {
    let directory = scratch();
    let output = directory.path().join("s");
    let words = [
        "sweep",
        "-o",
        text(&output),
        "--vary",
        "n=1,2",
        "--vary",
        "mode=x,y",
        "--repeat",
        "1",
        "--",
        "sh",
        "-c",
        "sleep 0.0{n}; : {mode}",
    ];
    run(words).done();
    let page = std::fs::read_to_string(directory.path().join("s.html")).unwrap();
    for title in ["along n, at mode=x", "along n, at mode=y", "along mode, at n=1", "along mode, at n=2"] {
        assert!(page.contains(&format!("Where the time goes {title}</title>")), "no picture {title}");
    }
}

#[test]
fn a_sweep_that_is_killed_goes_on_where_it_was_and_no_run_is_made_twice() {
    let directory = scratch();
    let log = directory.path().join("log");
    let runs = directory.path().join("s.runs.jsonl");
    let script = format!("echo {{n}} {{run}} >> {}", text(&log));
    let output = directory.path().join("s");
    let words =
        ["sweep", "--explain", "never", "-o", text(&output), "--vary", "n=1..4", "--repeat", "5", "--continue", "--", "sh", "-c", &script];
    let known = || std::fs::read_to_string(&runs).map_or(0, |text| text.lines().count());
    for moment in 1..=5 {
        let mut child = thalweg(words).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        let before = known();
        wait_until("a few more runs are known, or all are", || known() > before + moment || child.try_wait().unwrap().is_some());
        let _ = child.kill();
        child.wait().unwrap();
    }
    run(words).done();
    let text = std::fs::read_to_string(&runs).unwrap();
    let lines: Vec<Value> = text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut counted: Vec<String> =
        lines.iter().filter(|line| line["repeat"] != 0).map(|line| format!("{} {}", line["point"], line["repeat"])).collect();
    counted.sort();
    let all = counted.len();
    counted.dedup();
    assert_eq!((all, counted.len()), (20, 20), "{text}");
    assert_eq!(document(directory.path())["points"].as_array().unwrap().len(), 4);
}

#[test]
fn another_plan_and_another_program_are_not_gone_on_with() {
    use std::os::unix::fs::PermissionsExt;
    let directory = scratch();
    let program = directory.path().join("program");
    let write = |script: &str| {
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    };
    write("#!/bin/sh\nexit 0\n");
    let output = directory.path().join("s");
    let with = |values: &str, go_on: &[&str]| {
        let words = ["sweep", "--explain", "never", "--repeat", "1", "-o", text(&output), "--vary", values];
        run([&words[..], go_on, &["--", text(&program), "{n}"]].concat())
    };
    with("n=1,2", &[]).done();
    with("n=1,2", &[]).failed(1, &["has the runs of a sweep: give --continue"]);
    with("n=1,2", &["--continue"]).done();
    with("n=1,3", &["--continue"]).failed(1, &["the runs of another plan: vary differ"]);
    write("#!/bin/sh\nexit 0 # changed\n");
    with("n=1,2", &["--continue"]).failed(1, &["the program has changed since"]);
}

#[test]
fn what_cannot_be_meant_is_refused_and_a_dry_run_runs_nothing() {
    let directory = scratch();
    let with = |flags: &[&str]| sweep(directory.path(), flags, "true {n}");
    with(&["--vary", "m=1"]).failed(2, &["`{n}` is no parameter; the parameters are: m"]);
    with(&["--vary", "n=1", "--vary", "m=1"]).failed(2, &["--vary m: nothing uses it"]);
    with(&["--vary", "n=1..2000"]).failed(2, &["2,000 points are 22,000 runs, more than 10,000"]);
    with(&["--vary", "n=1,2", "--skip", "k > 1"]).failed(2, &["no parameter `k`"]);
    run(["sweep", "--vary", "n=1", "--", "/no/such/program", "{n}"]).failed(1, &["/no/such/program: not found"]);
    let said = with(&["--vary", "n=1..3", "--dry-run"]).done();
    assert_eq!(said.out, "sh -c true 1\nsh -c true 2\nsh -c true 3\n");
    assert!(said.err.contains("3 points (0 skipped), at most 33 runs"), "{}", said.err);
    assert!(!directory.path().join("s.runs.jsonl").exists());
    let plan = directory.path().join("plan.toml");
    std::fs::write(&plan, "vary = [\"n=1,2\"]\ncommand = [\"true\", \"{n}\"]\nrepeat = 2\nexplain = \"never\"\n").unwrap();
    let output = directory.path().join("p");
    run(["sweep", "-o", text(&output), text(&plan)]).done();
    let json = format!("{}.json", text(&output));
    let found = run(["sweep", "diff", &json, &json]).done().out;
    assert!(found.contains("Of 2 points in both"), "{found}");
    std::fs::write(&plan, "vary = [\"n=1,2\"]\nspeed = 3\n").unwrap();
    run(["sweep", text(&plan)]).failed(1, &["plan.toml", "speed"]);
}

#[test]
fn a_dry_run_says_how_long_it_takes_only_where_something_says_so() {
    let directory = scratch();
    let log = directory.path().join("log");
    let script = format!("echo {{n}} >> {}", text(&log));
    let with = |flags: &[&str]| sweep(directory.path(), &[&["--vary", "n=1..3", "--repeat", "2"], flags].concat(), &script);
    assert!(with(&["--dry-run"]).done().err.contains("for each second that one run takes"));
    let said = with(&["--dry-run", "--try-one"]).done();
    assert!(said.err.contains("expected to take") && said.err.contains("from one run of n=2, which took"), "{}", said.err);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "2\n", "one run of one point");
    assert!(!directory.path().join("s.runs.jsonl").exists());
    with(&[]).done();
    let said = with(&["--dry-run", "--try-one"]).done();
    assert!(said.err.contains("from 9 runs of this plan in") && said.err.contains("all done"), "{}", said.err);
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 10, "a log makes a trial unnecessary");
    run(["sweep", "--vary", "n=1", "--try-one", "--", "true", "{n}"]).failed(2, &["--dry-run"]);
}

#[test]
fn a_ceiling_is_measured_in_turn_and_each_run_is_a_row_of_a_table() {
    let directory = scratch();
    let log = directory.path().join("log");
    let ceiling = format!("sh -c 'echo ceiling {{run}} >> {}'", text(&log));
    let script = format!("echo point {{run}} >> {}; sleep 0.0{{n}}", text(&log));
    let flags = ["--vary", "n=1,4", "--repeat", "6", "--narrow", "0.0001", "--bytes", "1Mi", "--ceiling", &ceiling];
    let said = sweep(directory.path(), &flags, &script).done();
    assert!(said.out.contains("of the ceiling"), "{}", said.out);
    let lines = std::fs::read_to_string(&log).unwrap();
    let order: Vec<&str> = lines.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!((order.len(), order.iter().filter(|what| **what == "ceiling").count()), (21, 7));
    let ends: Vec<usize> =
        (0..7).map(|repeat| order[3 * repeat..3 * repeat + 3].iter().filter(|what| **what == "ceiling").count()).collect();
    assert_eq!(ends, [1; 7], "once in each repetition: {order:?}");
    let document = document(directory.path());
    for point in document["points"].as_array().unwrap() {
        let part = point["of_ceiling"]["median"].as_f64().unwrap();
        assert!(part > 0.0 && part < 1.0, "a sleep is below what nothing gives: {point}");
    }
    let page = std::fs::read_to_string(directory.path().join("s.html")).unwrap();
    assert!(page.contains(">ceiling</text>") && page.contains("the ceiling: "));
    // The table, read by a third-party reader.
    let table = directory.path().join("s.parquet");
    assert_eq!(&std::fs::read(&table).unwrap()[..4], b"PAR1");
    let read = "import sys
try:
    import pyarrow.parquet as parquet
    rows = parquet.read_table(sys.argv[1]).to_pylist()
except ImportError:
    try:
        import duckdb
    except ImportError:
        print('none')
        sys.exit()
    found = duckdb.sql(f\"select * from '{sys.argv[1]}'\")
    rows = [dict(zip(found.columns, row)) for row in found.fetchall()]
print(len(rows), sorted({row['vary_n'] for row in rows}), min(row['wall_s'] for row in rows) > 0.01, {row['state'] for row in rows})";
    let read = std::process::Command::new("python3").args(["-c", read, text(&table)]).output().unwrap();
    match String::from_utf8(read.stdout).unwrap().trim() {
        "none" => println!("SKIPPED: the reading of the table by another program: python3 has neither pyarrow nor duckdb"),
        said => assert_eq!(said, "12 [1.0, 4.0] True {'done'}", "{}", String::from_utf8_lossy(&read.stderr)),
    }
}

#[test]
fn profiled_runs_say_what_processors_did_where_profiles_can_be_taken() {
    let directory = scratch();
    let output = directory.path().join("s");
    let script = "i=0; while [ $i -lt {n}00000 ]; do i=$((i+1)); done";
    let words = ["sweep", "--repeat", "3", "--explain", "every", "--profile=2", "-o", text(&output), "--vary", "n=2,4"];
    let said = run([&words[..], &["--", "sh", "-c", script]].concat());
    if said.err.contains("cannot take a profile on this machine") {
        println!("SKIPPED: profiles need privilege");
        return;
    }
    said.done();
    for point in document(directory.path())["points"].as_array().unwrap() {
        let profile = &point["profile"];
        assert_eq!(profile["runs"], 2, "the first and the third of three: {profile}");
        assert!(profile["samples"].as_u64().unwrap() > 200, "{profile}");
        let shares = profile["shares"].as_array().unwrap();
        let of =
            |class: &str| shares.iter().filter(|share| share["class"] == class).map(|share| share["share"].as_f64().unwrap()).sum::<f64>();
        let all: f64 = shares.iter().map(|share| share["share"].as_f64().unwrap()).sum();
        let ours = 1.0 - of("others");
        assert!((all - 1.0).abs() < 0.01 && of("program") > 0.02 * ours, "a shell that counts is a program's time: {profile}");
    }
    let page = std::fs::read_to_string(directory.path().join("s.html")).unwrap();
    assert!(page.contains("What processors did along n") && !directory.path().join("s.profile.thw").exists());
    let words = ["sweep", "--explain", "never", "--profile", "--vary", "n=1", "--", "true", "{n}"];
    run(words).failed(2, &["--explain never records none"]);
}

#[test]
fn a_server_is_restarted_when_its_own_parameters_change_and_no_oftener() {
    let directory = scratch();
    let log = directory.path().join("starts");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let server = directory.path().join("server.py");
    std::fs::write(
        &server,
        "import socket, sys\nopen(sys.argv[1], 'a').write(sys.argv[3] + '\\n')\ns = socket.create_server(('127.0.0.1', int(sys.argv[2])))\nwhile True:\n    s.accept()[0].close()\n",
    )
    .unwrap();
    let line = format!("python3 {} {} {port} {{threads}}", text(&server), text(&log));
    let flags = ["--vary", "threads=1,2", "--vary", "block=1,2,3", "--repeat", "3", "--server", &line, "--port", &port];
    sweep(directory.path(), &flags, "true {block}").done();
    let starts = std::fs::read_to_string(&log).unwrap().lines().count();
    // A warm-up and three repetitions, each of which may restart the last one.
    assert!((5..=8).contains(&starts), "{starts} starts");
    let document = document(directory.path());
    assert!(document["points"].as_array().unwrap().iter().all(|p| p["state"] == "done" && p["server_cpu_s"].is_number()), "{document}");
    let broken = ["--vary", "n=1,2", "--repeat", "1", "--server", "false", "--port", &port];
    let other = scratch();
    let said = sweep(other.path(), &broken, "true {n}").done();
    assert!(said.out.contains("failed") && said.out.contains("Every point failed"), "{}", said.out);
}

#[test]
fn a_recorded_run_of_each_point_says_where_its_time_goes() {
    let directory = scratch();
    let output = directory.path().join("s");
    run([
        "sweep",
        "--repeat",
        "1",
        "-o",
        text(&output),
        "--vary",
        "n=1,2",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt {n}000 ]; do i=$((i+1)); done",
    ])
    .done();
    let document = document(directory.path());
    let points = document["points"].as_array().unwrap();
    for point in points {
        let shares: f64 = point["explanation"]["shares"].as_array().unwrap().iter().map(|share| share[1].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 0.01, "{point}");
        assert_eq!(point["runs"].as_array().unwrap().len(), 1, "a recorded run does not count");
    }
}
