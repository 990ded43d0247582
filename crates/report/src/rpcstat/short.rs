//! A recording's RPC statistics in at most [`MAX_LINES`] lines of 80 columns: duration and rate, one sentence, who was waited for with the
//! figure that matters, what is not the limit, and remarks.

use super::calls;
use crate::changes::SMALL_SHARE;
use crate::page::Line;
use crate::page::{Ink, Page, TextOptions};
use crate::short::{COLUMNS, MAX_LINES, not_the_limit, remark_lines};
use thalweg_base::numbers::{bit_rate, count, duration, size, whole_percent};
use thalweg_base::text::{clean, cut_end, left, right, width, wrap};
use thalweg_explain::rpcstat::document::{RpcStat, Who};

/// Minimum part of the time for a row.
const LEAST_SHARE: f64 = 0.005;
/// A side waited for in less than this part of the time is not the limit.
const INNOCENT_SHARE: f64 = 0.02;
/// Maximum number of remarks.
const MAX_REMARKS: usize = 2;

/// Formats the document in a few lines, ending in a newline. `more`: commands that show more, for the last line.
pub fn rpcstat_short(document: &RpcStat, options: &TextOptions, more: &str) -> String {
    let options = TextOptions { width: options.width.min(COLUMNS), ..*options };
    let mut page = Page::new(&options);
    let columns = page.width;
    page.line(&cut_end(&clean(&rpcstat_about(document)), columns), Ink::Bold);
    let mut sentence = wrap(&clean(&document.sentence), columns);
    let last = (cut_end(&clean(&format!("  more: {more}")), columns), Ink::Dim);
    let mut rows = rows(document, columns);
    let innocent = innocent(document);
    rows.extend(not_the_limit(innocent.iter().map(|(what, figure)| (*what, figure.as_str())), columns));
    let mut remarks: Vec<Vec<Line>> = remarks(document).iter().take(MAX_REMARKS).map(|remark| remark_lines(remark, columns)).collect();
    // The heading, two gaps and the last line are always present.
    while 4 + sentence.len() + rows.len() + remarks.iter().map(Vec::len).sum::<usize>() > MAX_LINES {
        if remarks.pop().is_none() {
            let rest = sentence.split_off(MAX_LINES - 5 - rows.len()).join(" ");
            sentence.push(cut_end(&rest, columns));
            break;
        }
    }
    sentence.iter().for_each(|line| page.plain(line));
    page.gap();
    rows.iter().for_each(|(line, ink)| page.line(line, *ink));
    page.gap();
    remarks.iter().flatten().for_each(|(line, ink)| page.line(line, *ink));
    page.line(&last.0, last.1);
    page.into_text()
}

/// Formats the heading: `2,002 calls in 37.2 s: 1.95 GiB sent, 451 Mb/s; server 127.0.0.1:2049`.
pub fn rpcstat_about(d: &RpcStat) -> String {
    let calls = match d.has_length() {
        true => format!("{} in {}", calls(d.calls), duration(d.wall_s)),
        false => format!("{} at one instant", calls(d.calls)),
    };
    let rate = match d.most_bytes() {
        (0, _) => String::new(),
        (bytes, is_sent) => {
            let way = if is_sent { "sent" } else { "received" };
            format!(": {} {way}{}", size(bytes), rate(d))
        }
    };
    let mut servers: Vec<&str> = d.procedures.iter().filter(|p| !p.callback).map(|p| p.server.as_str()).filter(|s| !s.is_empty()).collect();
    servers.sort_unstable();
    servers.dedup();
    match servers[..] {
        [server] => format!("{calls}{rate}; server {server}"),
        [] => format!("{calls}{rate}"),
        _ => format!("{calls}{rate}; {} servers", servers.len()),
    }
}

/// Formats the rate, if there is one.
fn rate(d: &RpcStat) -> String {
    d.rate_bytes_per_s().map_or_else(String::new, |rate| format!(", {}", bit_rate(rate)))
}

/// Returns rows of who was waited for, largest first, with share and a figure; then the time in which bytes moved.
fn rows(d: &RpcStat, columns: usize) -> Vec<Line> {
    if !d.has_length() {
        return Vec::new();
    }
    let mut waits = [
        (waited(d, Who::Server), "waiting for the server", figure(d, Who::Server)),
        (waited(d, Who::Client), "waiting for the client", figure(d, Who::Client)),
        (waited(d, Who::Network), "waiting for the network", figure(d, Who::Network)),
        (d.quiet.within_messages_s / d.wall_s, "a message paused", String::new()),
        (d.quiet.unanswered_s / d.wall_s, "waiting, never answered", format!("{} never answered", calls(d.unanswered))),
    ];
    waits.sort_by(|a, b| b.0.total_cmp(&a.0));
    let moving = (1.0 - waits.iter().map(|wait| wait.0).sum::<f64>()).clamp(0.0, 1.0);
    let all = waits.into_iter().chain([(moving, "bytes move", String::new())]).filter(|row| row.0 >= LEAST_SHARE);
    let all: Vec<(f64, &str, String)> = all.collect();
    let names = all.iter().map(|(_, name, _)| width(name)).max().unwrap_or(0);
    let line = |(share, name, figure): &(f64, &str, String)| {
        (cut_end(&format!("{}  {}  {figure}", right(&whole_percent(*share), 7), left(name, names)), columns), Ink::Plain)
    };
    all.iter().map(line).collect()
}

/// Returns the part of the time in which everything waited for a side.
fn waited(d: &RpcStat, who: Who) -> f64 {
    let q = &d.quiet;
    let seconds = match who {
        Who::Server => q.full_s + q.between_then_reply_s,
        Who::Client => q.empty_s + q.between_then_call_s,
        Who::Network => q.network_s,
    };
    seconds / d.wall_s.max(1e-12)
}

/// Returns the figure that matters: retransmissions, stalls, or else the filling of the queue.
fn figure(d: &RpcStat, who: Who) -> String {
    if who == Who::Network {
        return format!("{} TCP segments sent again", count(d.tcp_retransmissions));
    }
    if let Some(by) = d.stalls.by.iter().find(|by| by.who == who) {
        let stalls = if by.count == 1 { "1 stall".to_owned() } else { format!("{} stalls", count(by.count)) };
        return format!("{stalls}, {} together", duration(by.total_s));
    }
    let main = d.procedures.iter().filter(|p| !p.callback).max_by(|a, b| a.total_s.total_cmp(&b.total_s));
    let median = main.and_then(|p| p.median_s.map(|s| format!("{} takes {} at the median", p.name, duration(s))));
    match who {
        Who::Server => median.unwrap_or_default(),
        _ => format!("nothing pending for {} of the time", whole_percent(d.pending.empty_share)),
    }
}

/// Returns what is not the limit, with figures.
fn innocent(d: &RpcStat) -> Vec<(&'static str, String)> {
    let mut innocent = Vec::new();
    if d.rate_bytes_per_s().is_none() {
        return innocent;
    }
    if d.retransmissions + d.tcp_retransmissions == 0 {
        innocent.push(("the network", "nothing sent again".to_owned()));
    }
    for (who, name) in [(Who::Server, "the server"), (Who::Client, "the client")] {
        let share = waited(d, who);
        if share < INNOCENT_SHARE {
            innocent.push((name, format!("waited for in {} of the time", whole_percent(share))));
        }
    }
    let windows = d.series.receive_window_bytes.iter().filter_map(|window| *window);
    if let Some(least) = windows.min().filter(|least| *least > 0)
        && d.series.in_flight_bytes.iter().filter_map(|bytes| *bytes).max().is_some_and(|most| most < least / 2)
    {
        innocent.push(("the receive window", format!("{} at least", size(least))));
    }
    innocent
}

fn remarks(d: &RpcStat) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(slow) = &d.slow_start {
        let (before, later) = (bit_rate(slow.bytes_per_s), bit_rate(slow.later_bytes_per_s));
        remarks.push(format!("slow beginning: {before} until {}, then {later}", duration(slow.until_s)));
    }
    remarks.extend(d.round_trips.iter().map(|trips| trips.sentence.clone()));
    if d.pending.sent_only && waited(d, Who::Client) < SMALL_SHARE {
        let window = count(d.pending.window_median);
        remarks.push(format!("RPC window at least {window}: packets do not show calls that the client has not sent yet"));
    }
    // Only the first sentence: the advice after it is in the full text.
    remarks.extend(d.notes.iter().map(|note| format!("note: {}", note.split_once(". ").map_or(note.as_str(), |(first, _)| first))));
    remarks
}
