//! Names of processes: the command that each one ran.
//!
//! Recorders name threads `COMMAND` (a process's main one) or `COMMAND/THREAD-NAME`. A program that records itself (the store) names
//! threads by their work, the first one `main`.

use crate::{Meta, Role, Source, Track};
use std::collections::BTreeMap;

/// Returns the names of all processes, by host and process id. Processes of other hosts than the first have the host's name too.
pub(super) fn of_processes(source: &dyn Source) -> BTreeMap<(u16, u32), String> {
    let mut threads: BTreeMap<(u16, u32), Vec<&Track>> = BTreeMap::new();
    for track in source.tracks() {
        if let Some(pid) = track.pid {
            threads.entry((track.host.0, pid)).or_default().push(track);
        }
    }
    let named = |((host, pid), threads): ((u16, u32), Vec<&Track>)| {
        let command = command(source.meta(), pid, &threads);
        let of = source.hosts().iter().find(|h| h.host.0 == host && host != 0).map(|h| h.name.as_str());
        ((host, pid), of.map_or_else(|| command.clone(), |of| format!("{command} on {of}")))
    };
    threads.into_iter().map(named).collect()
}

/// Returns the command of a process.
fn command(meta: &Meta, pid: u32, threads: &[&Track]) -> String {
    if let Some(main) = threads.iter().find(|t| t.tid == Some(pid) && t.name != "main") {
        let repeated = |command: &str, thread: &str| {
            command == thread || threads.iter().any(|t| parted(&t.name).is_some_and(|p| p.0 == command) && t.tid != main.tid)
        };
        return parted(&main.name).filter(|(command, thread)| repeated(command, thread)).map_or(main.name.as_str(), |p| p.0).to_owned();
    }
    if let Some((command, _)) = threads.iter().find_map(|t| parted(&t.name)) {
        return command.to_owned();
    }
    let own = || meta.command.first().map(|word| word.rsplit('/').next().unwrap_or(word)).filter(|word| !word.is_empty());
    match threads.first() {
        Some(thread) if thread.role == Role::Client => own().unwrap_or(&thread.name).to_owned(),
        Some(thread) if thread.role == Role::Server && meta.recorder == "store" => "thalweg server".to_owned(),
        Some(thread) => thread.name.clone(),
        None => String::new(),
    }
}

/// Splits `COMMAND/THREAD`. A command is one word, or a word and what it runs in parentheses: `python3 (producer.py)/worker`.
fn parted(name: &str) -> Option<(&str, &str)> {
    let is_command = |command: &str| !command.contains(' ') || (command.ends_with(')') && command.contains(" ("));
    name.split_once('/').filter(|(command, _)| !command.is_empty() && is_command(command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostId, MemorySource, Time, TrackId, TrackKind};

    fn named(recorder: &str, threads: &[(u32, u32, Role, &str)]) -> Vec<String> {
        let track = |(n, &(pid, tid, role, name)): (usize, &(u32, u32, Role, &str))| {
            let track = TrackId::new(n as u64 + 1).expect("not 0");
            crate::Event::Track(Track {
                track,
                host: HostId(0),
                kind: TrackKind::Thread,
                role,
                pid: Some(pid),
                tid: Some(tid),
                name: name.into(),
            })
        };
        let meta = Meta {
            format: crate::FORMAT_VERSION,
            command: vec!["/usr/bin/thalweg".into(), "cp".into()],
            recorder: recorder.into(),
            start: Time::from_monotonic_ns(0),
            end: None,
            exit_code: None,
            dropped_events: 0,
            attributes: Vec::new(),
        };
        of_processes(&MemorySource::from_events(meta, threads.iter().enumerate().map(track))).into_values().collect()
    }

    #[test]
    fn a_process_has_the_name_of_its_command() {
        let (client, server) = (Role::Client, Role::Server);
        assert_eq!(named("bpf", &[(7, 7, client, "curl"), (8, 9, server, "nginx/worker")]), ["curl", "nginx"]);
        assert_eq!(named("bpf", &[(7, 7, client, "sh (-c ls /proc)"), (7, 9, client, "sh (-c ls /proc)/sh")]), ["sh (-c ls /proc)"]);
        assert_eq!(named("bpf", &[(7, 7, client, "apart/apart"), (8, 8, Role::Kernel, "kworker/0:1")]), ["apart", "kworker/0:1"]);
        assert_eq!(named("bpf", &[(7, 7, client, "java/main"), (7, 8, client, "java/GC")]), ["java"]);
    }

    #[test]
    fn a_program_that_records_itself_has_its_own_name() {
        let threads =
            [(7, 7, Role::Client, "main"), (7, 8, Role::Client, "request 0"), (9, 10, Role::Server, "io0 connection 127.0.0.1:5")];
        assert_eq!(named("store", &threads), ["thalweg", "thalweg server"]);
    }
}
