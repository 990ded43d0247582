//! Connections without a known RPC protocol (SMB, iSCSI, Ceph, HTTP, SSH, TLS): explained from TCP alone.
//!
//! **In:** a recording of packets. **Out:** an [`Explanation`] whose charges are by whose turn it was while nothing moved ([`gather`]): the
//! server's, the client's, a round trip's, TCP's for retransmission ([`evidence`]). Rejected: guessing requests from each protocol's
//! contents. Most are encrypted, and turn-taking shows in all of them.

mod charge;
pub mod document;
mod evidence;
mod gather;
mod part;
mod protocols;
mod sentence;
mod way;

use crate::document::Explanation;
use crate::error::ExplainError;
use document::{Connections, Conversation, MAX_LISTED};
use evidence::Evidence;
use gather::{Gathered, Sums};
use part::Part;
use std::collections::HashMap;
use thalweg_trace::{Object, Source, TrackKind};
use way::Way;

/// Explains a recording of packets without RPCs; `None` if no connection in it carried anything, or was attempted.
pub(crate) fn explanation(source: &dyn Source, why: bool) -> Result<Option<Explanation>, ExplainError> {
    let Some((start_ns, end_ns)) = axis(source)? else { return Ok(None) };
    let objects = objects(source);
    let tracks = objects.iter().map(|(number, (track, of_client, _))| (*number, (*track, *of_client))).collect();
    let evidence = Evidence::read(source, &tracks)?;
    let mut gathered = Gathered::new(start_ns, end_ns);
    gathered.read(source, &evidence)?;
    let by_track: HashMap<u64, &Object> = objects.values().map(|(track, _, object)| (*track, *object)).collect();
    let connections = connections(&gathered, &evidence, &by_track);
    Ok(Some(charge::explained(source, &connections, &gathered, why)))
}

/// The interval from the first burst to the last, or to the capture's end if a client's burst was last: an answer to it was waited for.
fn axis(source: &dyn Source) -> Result<Option<(i64, i64)>, ExplainError> {
    let whole = crate::interval::interval(source)?;
    let (mut first_ns, mut last): (i64, Option<(i64, Way)>) = (i64::MAX, None);
    for batch in source.spans_backward() {
        let batch = batch?;
        for burst in (0..batch.len()).filter_map(|row| gather::burst(&batch, row)) {
            first_ns = first_ns.min(burst.start_ns);
            last.get_or_insert((burst.end_ns, if burst.failed { Way::Received } else { burst.way }));
        }
    }
    let Some((last_ns, way)) = last else { return Ok(None) };
    let end_ns = if way == Way::Received { last_ns.saturating_add(1) } else { whole.1.max(last_ns.saturating_add(1)) };
    Ok(Some((first_ns, end_ns)))
}

/// The objects of connections, by number: their track, and whether they are the client's end.
fn objects(source: &dyn Source) -> HashMap<u64, (u64, bool, &Object)> {
    // A port may be reused: tracks and objects of one name come in the same order.
    let mut by_name: HashMap<&str, Vec<u64>> = HashMap::new();
    let mut tracks: Vec<_> = source.tracks().iter().filter(|t| t.kind == TrackKind::Connection).collect();
    tracks.sort_by_key(|track| track.track.number());
    tracks.iter().for_each(|track| by_name.entry(track.name.as_str()).or_default().push(track.track.number()));
    let mut objects: Vec<&Object> = source.objects().iter().collect();
    objects.sort_by_key(|object| object.object.number());
    let mut seen: HashMap<(&str, bool), usize> = HashMap::new();
    let mut found = HashMap::new();
    for object in objects {
        let end = object.attributes.iter().find(|(name, _)| name == "end").map(|(_, value)| value.as_str());
        let (Some(end), Some(tracks)) = (end, by_name.get(object.name.as_str())) else { continue };
        let of_client = end == "client";
        let nth = seen.entry((object.name.as_str(), of_client)).or_default();
        if let Some(track) = tracks.get(*nth) {
            found.insert(object.object.number(), (*track, of_client, object));
        }
        *nth += 1;
    }
    found
}

fn connections(gathered: &Gathered, evidence: &Evidence, objects: &HashMap<u64, &Object>) -> Connections {
    let mut listed: Vec<Conversation> = gathered
        .tracks
        .iter()
        .filter_map(|(track, sums)| Some(conversation(*track, sums, gathered.start_ns, evidence, objects.get(track)?)))
        .collect();
    listed.sort_by(|a, b| {
        let bytes = |c: &Conversation| c.sent_bytes.saturating_add(c.received_bytes);
        bytes(b).cmp(&bytes(a)).then_with(|| a.name.cmp(&b.name)).then_with(|| a.start_s.total_cmp(&b.start_s))
    });
    let sum = |of: &dyn Fn(&Conversation) -> u64| listed.iter().map(of).fold(0, u64::saturating_add);
    let (_, max_s) = answers(&gathered.answers, gathered.tracks.values().map(|s| s.longest_answer_ns).max().unwrap_or(0));
    let mut connections = Connections {
        count: listed.len() as u64,
        failed: sum(&|c| u64::from(c.failed)),
        sent_bytes: gathered.sent.bytes,
        received_bytes: gathered.received.bytes,
        round_trips: sum(&|c| c.round_trips),
        answer_median_s: (gathered.answers.count > 0).then(|| gathered.answers.quantile_ns(0.5) as f64 / 1e9),
        answer_max_s: max_s,
        tcp_retransmissions: sum(&|c| c.sent_again + c.received_again),
        tcp_timeouts: evidence.timeouts,
        zero_windows: sum(&|c| c.server_zero_windows + c.client_zero_windows),
        listed: Vec::new(),
    };
    listed.truncate(MAX_LISTED);
    connections.listed = listed;
    connections
}

fn answers(lengths: &crate::observe::quantile::Lengths, longest_ns: i64) -> (Option<f64>, Option<f64>) {
    let is_any = lengths.count > 0;
    let median_ns = lengths.quantile_ns(0.5).min(longest_ns.max(0) as u64);
    (is_any.then_some(median_ns as f64 / 1e9), is_any.then_some(longest_ns as f64 / 1e9))
}

fn conversation(track: u64, sums: &Sums, start_ns: i64, evidence: &Evidence, object: &Object) -> Conversation {
    let seconds = |ns: i64| ns as f64 / 1e9;
    let part_s = |part: Part| seconds(sums.parts_ns[part as usize]);
    let (client, server) = (evidence.end(track, true), evidence.end(track, false));
    let protocol = protocols::protocol(object);
    let (answer_median_s, answer_max_s) = answers(&sums.answers, sums.longest_answer_ns);
    Conversation {
        name: object.name.clone(),
        protocol_from: protocol.as_ref().map(|(_, seen)| if *seen { "content" } else { "port" }.to_owned()),
        protocol: protocol.map(|(name, _)| name),
        start_s: seconds(sums.first_ns - start_ns),
        end_s: seconds(sums.last_ns - start_ns),
        sent_bytes: sums.sent_bytes,
        received_bytes: sums.received_bytes,
        handshake_s: sums.handshake_ns.map(seconds),
        failed: sums.failed,
        round_trips: sums.answers.count,
        answer_median_s,
        answer_max_s,
        server_s: part_s(Part::Server),
        client_s: part_s(Part::Client),
        round_trip_s: part_s(Part::RoundTrip),
        loss_s: part_s(Part::Loss),
        window_s: part_s(Part::Window),
        sent_again: client.map_or(0, |end| end.sent_again),
        received_again: server.map_or(0, |end| end.sent_again),
        // A client that had to wait, waited for its server's window.
        server_zero_windows: client.map_or(0, |end| end.zero_windows),
        client_zero_windows: server.map_or(0, |end| end.zero_windows),
        server_window_bytes: client.and_then(|end| end.least_window),
        client_window_bytes: server.and_then(|end| end.least_window),
    }
}
