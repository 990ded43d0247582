//! The summary's one plain sentence.

use super::document::{Procedure, RpcStat, Who};
use crate::limits::rpcstat as limits;
use thalweg_base::numbers::{bit_rate, count, duration, whole_percent};

/// Makes the sentence: how fast, of what, and what delayed it.
pub(super) fn sentence(d: &RpcStat) -> String {
    let mut parts = vec![first(d)];
    let quiet = &d.quiet;
    let whose = [
        (quiet.full_s + quiet.between_then_reply_s, "waited for the server"),
        (quiet.empty_s + quiet.between_then_call_s, "waited for the client"),
        (quiet.network_s, "waited for TCP to send again what the network had lost"),
        (quiet.unanswered_s, "waited for an answer that never came"),
    ];
    let said: Vec<String> = whose
        .iter()
        .filter(|(seconds, _)| d.has_length() && *seconds >= limits::NAMED_PART * d.wall_s)
        .map(|(seconds, whom)| format!("for {} of the time nothing moved and everything {whom}", whole_percent(seconds / d.wall_s)))
        .collect();
    if !said.is_empty() {
        let said = said.join("; ");
        parts.push(format!("{}{}.", said[..1].to_uppercase(), &said[1..]));
    }
    if let Some(text) = stalls(d) {
        parts.push(text);
    }
    if let Some(drains) = &d.drain_cycles {
        let (times, each, period) = (count(drains.count), duration(drains.median_s), duration(drains.period_s));
        parts.push(format!("The pending queue drained {times} times, for {each} about every {period}."));
    }
    if d.timeouts > 0 {
        parts.push(format!("{} timed out and {} sent again.", calls(d.timeouts), was(d.timeouts)));
    } else if d.retransmissions > 0 {
        parts.push(format!("{} {} sent again.", calls(d.retransmissions), was(d.retransmissions)));
    }
    if d.unanswered > 0 {
        parts.push(match d.calls == d.unanswered {
            true => "No answer was recorded.".to_owned(),
            false => format!("{} {} never answered.", calls(d.unanswered), was(d.unanswered)),
        });
    }
    parts.join(" ")
}

pub(super) fn calls(many: u64) -> String {
    if many == 1 { "1 call".to_owned() } else { format!("{} calls", count(many)) }
}

fn was(many: u64) -> &'static str {
    if many == 1 { "was" } else { "were" }
}

fn first(d: &RpcStat) -> String {
    let (bytes, is_sent) = d.most_bytes();
    let way = if is_sent { "to" } else { "from" };
    let all = format!("{}{}", calls(d.calls), most(d));
    match (bytes, d.rate_bytes_per_s()) {
        (0, _) if d.has_length() => format!("{all}, {} per second.", count((d.calls as f64 / d.wall_s).round() as u64)),
        (0, _) | (_, None) => format!("{all}."),
        (_, Some(rate)) => format!("{all}, {} {way} the server.", bit_rate(rate)),
    }
}

/// The procedure with most calls, and the one with most time, if that is another.
fn most(d: &RpcStat) -> String {
    let made = |p: &&Procedure| p.answered + p.unanswered + p.not_captured;
    let called: Vec<&Procedure> = d.procedures.iter().filter(|p| !p.callback).collect();
    let by_calls = called.iter().max_by_key(|p| (made(p), p.bytes));
    let by_time = called.iter().max_by(|a, b| a.total_s.total_cmp(&b.total_s)).filter(|p| p.total_s > 0.0);
    match (by_calls, by_time) {
        (Some(only), _) if called.len() == 1 => format!(" ({})", only.name),
        (Some(calls), Some(time)) if calls.name == time.name => format!(" ({} most calls and most time)", calls.name),
        (Some(calls), Some(time)) => format!(" ({} most calls, {} most time)", calls.name, time.name),
        (Some(calls), None) => format!(" ({} most calls)", calls.name),
        (None, _) => String::new(),
    }
}

fn stalls(d: &RpcStat) -> Option<String> {
    let by = d.stalls.by.first()?;
    let whose = match by.who {
        Who::Server => "the server stalled",
        Who::Client => "the client stopped",
        Who::Network => "the network lost packets and everything stopped",
    };
    let times = if by.count == 1 { "once".to_owned() } else { format!("{} times", count(by.count)) };
    let length = if by.count == 1 { String::new() } else { format!(", {} at the median", duration(by.median_s)) };
    let text = format!("{whose} {times}, {} together{length}.", duration(by.total_s));
    Some(format!("{}{}", text[..1].to_uppercase(), &text[1..]))
}
