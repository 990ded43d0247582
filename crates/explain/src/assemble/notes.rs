//! Notes about the recording itself: what is missing, and how to record it.

use crate::cause::End;
use crate::facts::Parts;
use crate::observe::tables::Tables;
use std::collections::BTreeMap;
use thalweg_base::numbers::{count, duration};
use thalweg_trace::Meta;

/// The notes about a recording.
pub(crate) fn notes(parts: &Parts<'_>, meta: &Meta, unrecorded: Option<(End, u32)>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((end, connection)) = unrecorded {
        notes.push(how_to_record(parts.tables, end, connection));
    } else if !parts.tables.has_servers && !parts.tables.connections.is_empty() {
        notes.push(how_to_record(parts.tables, End::Client, 0));
    }
    for (_, said) in meta.attributes.iter().filter(|(name, _)| matches!(name.as_str(), "not_seen" | "notes")) {
        notes.extend(said.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
    }
    if meta.dropped_events > 0 {
        notes.push(format!(
            "{} events were lost while recording; figures that rest on them are less certain by that much.",
            count(meta.dropped_events)
        ));
    }
    if meta.end.is_none() {
        notes.push("The recording was never finished; it is explained up to its last event.".to_owned());
    }
    if parts.tables.actors.iter().all(|a| a.end != End::Client || !a.thread) {
        notes.push("No client thread was recorded.".to_owned());
    }
    notes
}

/// The emulated devices of a store or of a copy's source.
pub(crate) fn emulated(meta: &Meta) -> Option<String> {
    let said = |name: &str| meta.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
    let parts: Vec<String> = said("emulated").into_iter().chain(said("emulated.source").map(|rate| format!("source {rate}"))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The note about unrecorded ranks that others waited for.
pub(crate) fn of_ranks(unrecorded: &BTreeMap<String, i64>) -> Option<String> {
    let ns: i64 = unrecorded.values().sum();
    let (most, _) = unrecorded.iter().max_by_key(|(_, ns)| **ns)?;
    let whom = if unrecorded.len() == 1 { most.clone() } else { format!("{most} and {} others", unrecorded.len() - 1) };
    Some(format!(
        "For {} ranks waited for {whom}, which was not recorded: record all ranks (`thalweg record --mpi -- mpirun ...` on each machine, or \
         `mpirun ... thalweg record --mpi -o job.thw -- PROGRAM`) and put the recordings together with `thalweg merge`.",
        duration(ns as f64 / 1e9)
    ))
}

/// A sentence that names the unrecorded end and says how to record it.
fn how_to_record(tables: &Tables, end: End, connection: u32) -> String {
    let name = tables.ends(connection);
    let host_and_port = |address: &str| address.rsplit_once(':').map(|(h, p)| (h.to_owned(), p.to_owned()));
    let server = name.and_then(|(_, server)| host_and_port(server));
    let client = name.and_then(|(client, _)| host_and_port(client));
    let here = matches!((&client, &server), (Some((c, _)), Some((s, _))) if c == s || s.starts_with("127.") || s == "[::1]");
    match (end, server) {
        (End::Client, Some((_, port))) if here => format!(
            "The server was not recorded, so its part is server.unknown. Record it as well, since it runs on this machine: \
             `thalweg explain --also {port} -- COMMAND`; for a store, copy with --record."
        ),
        (End::Client, Some((host, port))) => format!(
            "The server was not recorded, so its part is server.unknown. Record it as well. On {host}: `thalweg record --server --port {port} --for 60s -o server.thw` \
             while the command runs here; then `thalweg merge client.thw server.thw` and explain that. For a store, copy with --record against \
             servers that allow it."
        ),
        (End::Server, _) if name.is_some() => {
            "The client was not recorded: its part is client.think where it did not send. Run the command \
             there under `thalweg record`, and `thalweg merge` both recordings."
                .to_owned()
        }
        _ => "The server was not recorded, so its part is server.unknown. Record it as well: start the recorder on its machine \
             too, or, for a store, copy with --record against servers that allow it, and explain both recordings together."
            .to_owned(),
    }
}
