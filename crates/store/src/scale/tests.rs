//! Bounds on storms of simulated clients, in seconds; and the storms of a settings file, if given.

use super::setting::{Setting, Storm};
use super::storm::{Outcome, World};
use crate::start::{UpOptions, up};
use std::io::Write;
use std::time::Instant;
use thalweg_client::metadata::MetadataClient;
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::protocol::metadata::FilePath;

fn of(storm: Storm, clients: u64, servers: u64) -> Setting {
    Setting { clients, servers, ..Setting::of(storm) }
}

#[test]
fn a_storm_of_one_setting_has_one_outcome() {
    for (_, storm) in Storm::ALL {
        let setting = of(storm, 40, 6);
        assert_eq!(World::run(&setting), World::run(&setting), "{storm:?}");
    }
}

#[test]
fn every_client_of_a_storm_reads_every_entry_with_its_size() {
    for storm in [Storm::List, Storm::Glimpse] {
        for (clients, servers, files) in [(1, 1, 0), (1, 3, 1), (30, 20, 500)] {
            let outcome = World::run(&Setting { files, ..of(storm, clients, servers) });
            // (Each size is compared with the file's as it is read.)
            assert_eq!((outcome.entries, outcome.failed), (clients * files, 0), "{storm:?}: {}", outcome.why);
        }
    }
}

#[test]
fn as_many_messages_are_sent_as_each_step_needs() {
    let (clients, servers) = (25, 12);
    let run = |storm| World::run(&of(storm, clients, servers));
    let connect = run(Storm::Connect);
    assert_eq!((connect.metadata_messages, connect.io_messages), (clients, 0), "who is who");
    let open = run(Storm::Open);
    assert_eq!((open.metadata_messages, open.io_messages), (2 * clients, 4 * clients), "and opening; each server of the file once");
    assert_eq!(open.client_connections, 1 + 4, "no server is connected to that has nothing of the file");
    let each = run(Storm::Each);
    assert_eq!((each.io_messages, each.client_connections), (servers * clients, 1 + servers));
    let create = run(Storm::Create);
    assert_eq!((create.metadata_messages, create.io_messages), (3 * clients, 0), "and making it, and closing it");
    let most = connect.metadata_out_bytes + clients * 1024;
    assert!(create.metadata_out_bytes < most, "who has closed a file is not answered with who is who: {create:?}");
    let list = run(Storm::List);
    assert_eq!((list.io_messages, list.client_connections), (0, 2), "sizes that are proved are asked of nobody");
    assert_eq!(list.metadata_messages, clients + list.walk_requests);
    let glimpse = run(Storm::Glimpse);
    assert_eq!(glimpse.metadata_messages + glimpse.io_messages, clients + glimpse.walk_requests);
    assert_eq!(glimpse.client_connections, 2 + servers);
    // A page of 32 names, then larger ones: each causes at most one request to each server, in addition to those waiting for one in flight.
    assert!(glimpse.io_messages <= servers * (glimpse.metadata_messages - clients), "{glimpse:?}");
}

#[test]
fn who_is_past_the_bound_is_refused_and_who_finds_a_full_queue_asks_again() {
    let bound = Setting { connections: 30, ..of(Storm::Connect, 50, 4) };
    let outcome = World::run(&bound);
    assert_eq!((outcome.failed, outcome.metadata_connections), (50 - (30 - 4), 30), "4 are of I/O servers");
    assert!(outcome.why.contains("30 connections are open here already"), "{}", outcome.why);
    let queued = World::run(&Setting { backlog: 20, ..of(Storm::Connect, 100, 4) });
    assert_eq!(queued.failed, 0, "{}", queued.why);
    assert!(queued.dropped >= 70 && queued.last_s > 1.0 && queued.median_s > 1.0, "{queued:?}");
}

#[test]
fn ten_thousand_clients_are_admitted_where_there_are_descriptors_for_them() {
    let outcome = World::run(&of(Storm::Connect, 10_000, 4));
    assert_eq!((outcome.failed, outcome.dropped > 0), (0, true), "more come at once than wait in a queue: {}", outcome.why);
    let few = World::run(&Setting { descriptors: 1024, ..of(Storm::Connect, 600, 4) });
    assert_eq!(few.metadata_connections, 512, "half of the descriptors: {}", few.why);
}

#[test]
fn a_bound_of_one_server_is_reached_later_with_more_of_them_by_those_who_use_few() {
    let few = |servers| World::run(&Setting { connections: 40, ..of(Storm::Open, 36, servers) });
    assert_eq!(few(4).failed, 0, "each has one connection at the metadata service: {}", few(4).why);
    assert!(few(4).io_connections > few(16).io_connections, "files are spread");
}

/// Measures how long `clients` threads really take to connect to a store simultaneously and send `times` requests each.
fn really(store: &crate::start::RunningStore, clients: usize, times: usize) -> f64 {
    let address = store.address().service().unwrap();
    let barrier = std::sync::Barrier::new(clients + 1);
    std::thread::scope(|scope| {
        for number in 0..clients {
            let (address, barrier) = (&address, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let options = Connect { client: format!("client {number}"), ..Connect::default() };
                let names = MetadataClient::connect(&mut Tracer::off(), address, &options).unwrap();
                (0..times).for_each(|_| drop(names.stat(&mut Tracer::off(), &FilePath::at("/")).unwrap()));
                barrier.wait();
            });
        }
        barrier.wait();
        let begun = Instant::now();
        barrier.wait();
        begun.elapsed().as_secs_f64()
    })
}

/// Uses the cost of a connection in this build on this machine, measured first with few clients.
#[test]
fn what_is_simulated_takes_about_as_long_as_it_really_does() {
    let directory = tempfile::tempdir().unwrap();
    let store = up(&UpOptions { servers: Some(1), ..UpOptions::new([directory.path()]) }).unwrap();
    let mut off_by = Vec::new();
    // Repeated, since the machine may be busy for a moment.
    for _ in 0..5 {
        let few_s = really(&store, 16, 0);
        let many_s = really(&store, 128, 0);
        // On one machine both ends share the CPUs: each has half of the time.
        let half_ns = (few_s * 1e9 / 16.0) as u64;
        let of_both = Setting { one_machine: 1, processors: 1, latency_ns: 10_000, ..of(Storm::Connect, 128, 1) };
        let costs = Setting { accept_ns: half_ns / 3, greet_ns: half_ns / 6, metadata_ns: 1, client_connect_ns: half_ns / 2, ..of_both };
        let simulated = World::run(&Setting { client_message_ns: 1, client_entry_ns: 1, map_server_ns: 1, ..costs });
        assert_eq!(simulated.failed, 0, "{}", simulated.why);
        off_by.push(many_s / simulated.last_s);
        if (0.4..2.5).contains(&off_by[off_by.len() - 1]) {
            return;
        }
    }
    panic!("real over simulated: {off_by:?}");
}

#[test]
fn settings_are_read_as_they_are_written() {
    let setting = Setting::read("storm=list clients=7 entry_ns=5").unwrap();
    assert_eq!((setting.storm, setting.clients, setting.entry_ns), (Storm::List, 7, 5));
    for wrong in ["clients=7", "storm=list what=1", "storm=list clients=many", "storm"] {
        assert!(Setting::read(wrong).unwrap_err().message().contains("expected"), "{wrong}");
    }
}

/// Runs the storms of a settings file and prints a line of results for each (`make scale`). Does nothing without such a file.
#[test]
fn storms_that_are_asked_for() {
    let (Ok(points), Ok(results)) = (std::env::var("THALWEG_SCALE_POINTS"), std::env::var("THALWEG_SCALE_RESULTS")) else { return };
    let points = std::fs::read_to_string(points).unwrap();
    let mut into = std::fs::File::options().append(true).create(true).open(results).unwrap();
    for line in points.lines().filter(|line| !line.trim().is_empty()) {
        let begun = std::time::Instant::now();
        let outcome = World::run(&Setting::read(line).unwrap());
        writeln!(into, "{}", json(line, &outcome, begun.elapsed().as_secs_f64())).unwrap();
    }
}

fn json(setting: &str, outcome: &Outcome, took_s: f64) -> String {
    let o = outcome;
    format!(
        "{{\"setting\":{setting:?},\"first_s\":{:.6},\"median_s\":{:.6},\"last_s\":{:.6},\"failed\":{},\"why\":{:?},\"entries\":{},\
         \"metadata_messages\":{},\"io_messages\":{},\"metadata_connections\":{},\"io_connections\":{},\"client_connections\":{},\
         \"dropped\":{},\"metadata_busy_s\":{:.4},\"io_busy_s\":{:.4},\"metadata_out_bytes\":{},\"simulated_in_s\":{took_s:.2}}}",
        o.first_s,
        o.median_s,
        o.last_s,
        o.failed,
        o.why,
        o.entries,
        o.metadata_messages,
        o.io_messages,
        o.metadata_connections,
        o.io_connections,
        o.client_connections,
        o.dropped,
        o.metadata_busy_s,
        o.io_busy_s,
        o.metadata_out_bytes
    )
}
