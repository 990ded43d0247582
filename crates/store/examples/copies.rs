//! Copies with the I/O servers in a process of their own, without a metadata service: for measuring the data path alone,
//! and for recordings of it.
//!
//! `copies serve DIR SERVERS` | `copies run DIR SERVERS RUNS FILE [in|out] [name=value ...]`, with the names of the command's flags
//! (request, requests, buffer, depth, streams, path=buffered|direct, sync=true, record=PATH).

#[path = "../tests/store/loopback.rs"]
mod loopback;
#[path = "served/mod.rs"]
mod served;

use std::path::PathBuf;
use std::time::Duration;
use thalweg_client::copy::{CopyJob, DataPath, Quiet, Recording, Sink, Source, Tuning, run};
use thalweg_wire::protocol::metadata::LayoutChoice;

fn cpu_s() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn children_cpu_s(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = text.rsplit(')').next().unwrap_or("");
    let ticks: f64 = after.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// Of each run: GiB/s, and processor time for each GiB: of both ends, of the client, of the server.
fn report(mut rates: Vec<(f64, f64, f64, f64)>) {
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = rates[rates.len() / 2];
    let mut cpus: Vec<f64> = rates.iter().map(|r| r.1).collect();
    cpus.sort_by(f64::total_cmp);
    println!(
        "median {:.2} max {:.2} GiB/s; cpu ms/GiB: least {:.0}, median {:.0} (client {:.0}, server {:.0})",
        median.0,
        rates[rates.len() - 1].0,
        cpus[0],
        cpus[cpus.len() / 2],
        median.2,
        median.3
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (directory, servers) = (PathBuf::from(&arguments[2]), arguments[3].parse().expect("servers"));
    if arguments[1] == "serve" {
        return served::serve(&directory, servers);
    }
    let (runs, file): (usize, PathBuf) = (arguments[4].parse().expect("runs"), arguments[5].clone().into());
    let out = arguments.get(6).is_some_and(|word| word == "out");
    let (mut tuning, mut sync, mut record, mut strip) = (Tuning::default(), false, None, 65536_u64);
    for pair in arguments.iter().skip(7) {
        let (name, value) = pair.split_once('=').expect("name=value");
        let number = value.parse::<u64>().ok();
        match name {
            "request" => tuning.request_bytes = number,
            "requests" => tuning.requests = number.map(|n| n as u32),
            "buffer" => tuning.buffer_bytes = number,
            "depth" => tuning.depth = number.map(|n| n as u32),
            "streams" => tuning.streams = number.map(|n| n as u32),
            "path" => tuning.data_path = if value == "direct" { DataPath::Direct } else { DataPath::Buffered },
            "sync" => sync = value == "true",
            "strip" => strip = number.expect("strip"),
            "record" => record = Some(PathBuf::from(value)),
            other => panic!("no parameter {other}"),
        }
    }
    let (mut child, map) = served::start(&arguments[0], &directory, servers);
    let (store, _) = loopback::store(&map, Duration::from_secs(30));
    let layout =
        || LayoutChoice { spec: Some(thalweg_layout::Spec::new("simple_stripe").with("strip_size", strip)), ..LayoutChoice::default() };
    let there = || Sink::Store(store.clone(), "/file".into(), layout());
    let local = directory.join("out");
    if out {
        run(&CopyJob { force: true, ..CopyJob::new(Source::Local(file.clone()), there()) }, &Quiet).expect("copy in");
    }
    let mut rates = Vec::new();
    for n in 0..runs {
        let (source, sink) = match out {
            true => (Source::Store(store.clone(), "/file".into()), Sink::Local(local.clone())),
            false => (Source::Local(file.clone()), there()),
        };
        let recording = record.clone().filter(|_| n + 1 == runs).map(|path| Recording {
            path,
            command: vec!["thalweg".into(), "cp".into()],
            node: "here".into(),
            keep_command: false,
        });
        let _ = std::fs::remove_file(&local);
        if !out {
            let off = &mut thalweg_trace::Tracer::off();
            let _ = store.names.stat(off, "/file").and_then(|found| store.names.unlink(off, found.id, "/file"));
        }
        let (client, server) = (cpu_s(), children_cpu_s(child.id()));
        let job = CopyJob { tuning: tuning.clone(), sync, force: true, recording, ..CopyJob::new(source, sink) };
        let outcome = run(&job, &Quiet).expect("copy");
        let gib = outcome.size_bytes as f64 / f64::from(1 << 30);
        let (client, server) = ((cpu_s() - client) / gib * 1e3, (children_cpu_s(child.id()) - server) / gib * 1e3);
        rates.push((gib / outcome.elapsed.as_secs_f64(), client + server, client, server));
    }
    report(rates);
    drop(child.stdin.take());
    let _ = child.wait();
    if !out {
        return;
    }
    assert!(std::fs::read(&file).unwrap() == std::fs::read(&local).unwrap(), "what came out is not what went in");
}
