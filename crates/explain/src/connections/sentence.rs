//! Sentences about connections.

use super::document::Connections;
use super::gather::Gathered;
use super::part::{PARTS, Part};
use crate::limits::connections as limits;
use thalweg_base::numbers::{bit_rate, count, duration, size, whole_percent};

/// `3 HTTP connections, 2.00 MiB received in 1.20 s, 13.9 Mb/s`.
pub(super) fn about(c: &Connections, wall_s: f64, rate_bytes_per_s: Option<f64>) -> String {
    let mut names: Vec<&str> = c.listed.iter().filter_map(|c| c.protocol.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    let names = if names.len() > limits::NAMED_PROTOCOLS {
        String::new()
    } else {
        names.iter().map(|name| format!("{name} ")).collect::<Vec<_>>().join("and ")
    };
    let many = if c.count == 1 { format!("1 {names}connection") } else { format!("{} {names}connections", count(c.count)) };
    let (bytes, way) = if c.received_bytes > c.sent_bytes { (c.received_bytes, "received") } else { (c.sent_bytes, "sent") };
    let rate = rate_bytes_per_s.map_or_else(String::new, |rate| format!(", {}", bit_rate(rate)));
    format!("{many}, {} {way} in {}{rate}", size(bytes), duration(wall_s))
}

/// `12 answers, 20.1 ms at the median`.
pub(super) fn answers_of(c: &Connections) -> Option<String> {
    let median_s = c.answer_median_s?;
    Some(match c.round_trips {
        1 => format!("1 answer after {}", duration(median_s)),
        many => format!("{} answers, {} at the median", count(many), duration(median_s)),
    })
}

/// One plain sentence: who was waited for.
pub(super) fn sentence(c: &Connections, gathered: &Gathered, wall_s: f64) -> String {
    let alone = |part: Part| gathered.tracks.values().map(|sums| sums.alone_ns[part as usize]).sum::<i64>() as f64 / 1e9;
    let answers = answers_of(c).map_or_else(String::new, |answers| format!(" ({answers})"));
    let mut parts: Vec<(f64, String)> = PARTS
        .iter()
        .map(|&part| {
            let whom = match part {
                Part::Server => format!("waited for the server{answers}"),
                Part::Client => "waited for the client".to_owned(),
                Part::RoundTrip => "waited for messages and acknowledgements in transit".to_owned(),
                Part::Loss => "waited for TCP to send again what was lost".to_owned(),
                Part::Window => "waited for the receiver's window".to_owned(),
            };
            (alone(part), whom)
        })
        .collect();
    let moving_s = wall_s - parts.iter().map(|(seconds, _)| seconds).sum::<f64>();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let waits = parts.iter().filter(|(seconds, _)| *seconds >= limits::NAMED_PART * wall_s).take(2);
    let waits: Vec<String> =
        waits.map(|(seconds, whom)| format!("for {} of the time everything {whom}", whole_percent(seconds / wall_s))).collect();
    let failed = match c.failed {
        0 => String::new(),
        1 => " 1 connection was not established.".to_owned(),
        many => format!(" {} connections were not established.", count(many)),
    };
    let moving = format!("bytes moved for {} of it", whole_percent(moving_s / wall_s));
    match waits.is_empty() {
        true => format!("Bytes moved nearly all the time.{failed}"),
        false => {
            let all = waits.join(", ");
            format!("{}{}; {moving}.{failed}", all[..1].to_uppercase(), &all[1..])
        }
    }
}
