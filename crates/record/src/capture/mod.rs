//! Captured packets, from a file or an interface, as a trace of connections and the RPCs on them.
//!
//! A capture sees the wire and nothing of the programs: each connection is a track, with one span for each RPC from
//! its call's last byte to its reply's last byte, one for each message's transfer, TCP's counters as packets show
//! them, and marks for retransmissions. Connections that carry something other than ONC RPC have bursts of bytes.
//!
//! Packets flow one way, each parsed once: [`mod@file`] or [`live`] → [`frame`] (headers) → [`table`] →
//! [`connection`] → [`stream`] (bytes in order, once) → [`rpc`] (messages) → [`calls`] (pairs) → [`emit`]. Payload is
//! skipped in place, and every table is bounded, so that a capture of any length is read in constant memory.

mod call;
mod calls;
mod connection;
mod counts;
mod emit;
mod file;
mod frame;
mod live;
mod options;
mod rpc;
mod shared;
mod silences;
mod sniff;
mod stream;
mod table;

pub use counts::Counts;
pub use live::{Live, LiveOptions};
pub use options::Options;

use crate::RecordError;
use file::{NotACapture, Packets};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use table::Table;
use thalweg_base::numbers::{count, duration, size};
use thalweg_trace::{Host, Sink, Time};

/// Summary of a capture that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Time of the first packet.
    pub start: Time,
    /// Time of the last packet.
    pub end: Time,
    /// Counts of its contents.
    pub counts: Counts,
    /// Packets reported lost by the capturing program or the kernel.
    pub dropped_packets: u64,
    /// Attributes for `meta.json`.
    pub attributes: Vec<(String, String)>,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

/// An open capture file.
pub struct Capture {
    path: PathBuf,
    packets: Packets,
    start: Time,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Capture {
    /// Opens a capture file and reads up to its first packet. `-` is standard input.
    pub fn open(path: &Path) -> Result<Capture, RecordError> {
        if path == Path::new("-") {
            return Capture::from_reader(path, Box::new(std::io::stdin()));
        }
        let problem = |problem: String| RecordError::File { path: path.to_owned(), problem };
        let file = std::fs::File::open(path).map_err(|e| problem(format!("cannot be opened: {e}")))?;
        if file.metadata().is_ok_and(|m| m.is_dir()) {
            return Err(problem("is a directory; expected a capture (pcap or pcapng)".to_owned()));
        }
        Capture::from_reader(path, Box::new(file))
    }

    /// Opens a capture from any byte stream; `path` is its name in messages.
    pub fn from_reader(path: &Path, from: Box<dyn Read + Send>) -> Result<Capture, RecordError> {
        let problem = |problem: String| RecordError::File { path: path.to_owned(), problem };
        let mut packets = Packets::open(from).map_err(|e| match e {
            NotACapture::Io(e) => problem(format!("cannot be read: {e}")),
            NotACapture::Problem(text) => problem(text),
        })?;
        match packets.first_ns().map_err(|e| problem(format!("cannot be read: {e}")))? {
            Some(ns) => Ok(Capture { path: path.to_owned(), packets, start: Time::from_monotonic_ns(ns) }),
            None => Err(problem(packets.problem.take().unwrap_or_else(|| "holds no packets".to_owned()))),
        }
    }

    /// Returns the time of the first packet on the capture's own clock (nanoseconds since 1970).
    pub fn start(&self) -> Time {
        self.start
    }

    /// Reads the capture to its end and sends its events to `sink`.
    pub fn read(mut self, options: &Options, sink: &Arc<dyn Sink>) -> Result<Summary, RecordError> {
        let mut out = emit::Out::new(Arc::clone(sink), options.host, options.space);
        let name = self.path.file_name().map_or_else(|| self.path.display().to_string(), |n| n.to_string_lossy().into_owned());
        let clock = format!("capture:{name}");
        out.host(Host { host: options.host, name: name.clone(), node: name, clock, kernel: String::new(), cpus: 1 });
        let mut table = Table::new(out, options);
        loop {
            let position = self.packets.position();
            let next = self.packets.next();
            let problem =
                |e| RecordError::File { path: self.path.clone(), problem: format!("cannot be read from byte {position} on: {e}") };
            let Some(packet) = next.map_err(problem)? else { break };
            table.packet(packet.at_ns, packet.link, packet.data, packet.wire_bytes);
        }
        table.finish();
        let problem = self.packets.problem.take().map(|p| format!("{} {p}.", self.path.display()));
        Ok(summary(table.shared.counts, &table.silences.all(), self.packets.dropped(), self.start, problem))
    }
}

fn summary(counts: Counts, silences: &[(i64, i64)], dropped_packets: u64, start: Time, problem: Option<String>) -> Summary {
    let start = counts.first_ns.map_or(start, Time::from_monotonic_ns);
    let mut attributes = counts.attributes();
    if let Some((first_ns, last_ns)) = counts.rpc_ns {
        attributes.extend([("rpc.first_ns", first_ns), ("rpc.last_ns", last_ns)].map(|(name, ns)| (name.to_owned(), ns.to_string())));
    }
    let silences: Vec<String> = silences.iter().map(|(from_ns, to_ns)| format!("{from_ns}-{to_ns}")).collect();
    if !silences.is_empty() {
        attributes.push(("packets.silences".to_owned(), silences.join(" ")));
    }
    if dropped_packets > 0 {
        attributes.push(("capture.dropped_packets".to_owned(), dropped_packets.to_string()));
    }
    let mut notes: Vec<String> = problem.into_iter().collect();
    notes.extend(notes_on(&counts, dropped_packets));
    Summary { start, end: Time::from_monotonic_ns(counts.last_ns.max(start.ns())), counts, dropped_packets, attributes, notes }
}

fn notes_on(counts: &Counts, dropped_packets: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if dropped_packets > 0 {
        notes.push(format!("The capture lost {dropped_packets} packets: missing calls or bytes may have been among them."));
    }
    if let Some(link) = counts.link_type {
        let known = "supported: Ethernet, Linux cooked, raw IP, loopback";
        notes.push(format!("{} packets are of link type {link}, which is not supported ({known}).", counts.unknown_link));
    }
    notes.extend(incomplete(counts));
    notes.extend(strays(counts));
    if counts.forgotten_connections > 0 {
        notes.push(format!(
            "{} connections were dropped before their end: too many were open simultaneously.",
            counts.forgotten_connections
        ));
    }
    notes
}

/// Returns a note on packets without RPCs, and time that had only these.
fn strays(counts: &Counts) -> Option<String> {
    let others = counts.other_packets + counts.other_ports + counts.other_segments;
    let ((first_ns, last_ns), begin_ns) = (counts.rpc_ns?, counts.first_ns?);
    let of_a_second = |ns: i64| duration(ns as f64 / 1e9);
    let whole_ns = counts.last_ns.saturating_sub(begin_ns);
    if others == 0 || last_ns.saturating_sub(first_ns) as f64 > 0.99 * whole_ns as f64 {
        return None;
    }
    Some(format!(
        "{} of {} packets do not belong to an RPC. The capture lasts {}; its RPCs, and the time axis, begin {} after its first packet.",
        count(others),
        count(counts.packets),
        of_a_second(whole_ns),
        of_a_second(first_ns.saturating_sub(begin_ns))
    ))
}

/// Returns notes on what an incomplete capture still shows and what it does not.
fn incomplete(counts: &Counts) -> Vec<String> {
    let mut notes = Vec::new();
    if counts.cut_packets > 0 {
        let cut = format!("{} of {} packets were captured only in part", count(counts.cut_packets), count(counts.packets));
        let longest = size(counts.longest_cut_bytes);
        notes.push(match (counts.rpc_ns.is_some(), counts.resynchronised + counts.headless) {
            (false, _) => format!(
                "{cut}, {longest} of each at most: no RPC head was captured, so whether there were RPCs is unknown. TCP's headers are \
                 there: bytes, round trips and retransmissions are known. Capture whole packets (tcpdump -s 0)."
            ),
            (true, 0) => format!("{cut}: bytes are still complete, and so are calls with a captured head or reply."),
            (true, _) => {
                format!("{cut}: bytes are complete (TCP's headers count them), RPC heads are not. Capture whole packets (tcpdump -s 0).")
            }
        });
    }
    if counts.missing_bytes > 0 {
        notes.push(format!(
            "The capture lacks {} that the two ends exchanged, as TCP's sequence numbers show: it was too slow for the traffic \
             (tcpdump -B gives it a larger buffer).",
            size(counts.missing_bytes)
        ));
    }
    if counts.loose_bytes > 0 {
        let both = if counts.resynchronised + counts.headless > 0 { "; calls without either are not counted" } else { "" };
        notes.push(format!(
            "{} belong to messages whose heads were not captured: of {} calls the head is missing (their replies show that they were \
             made, but not what they were), of {} the reply. Their duration is unknown{both}.",
            size(counts.loose_bytes),
            count(counts.calls_not_captured),
            count(counts.replies_not_captured)
        ));
    }
    notes
}
