//! A recording's RPC statistics as text: one sentence, the procedures, time series as small bars, who was waited for, and the stalls. It
//! fits 80 columns and any width from 60.

use super::bins::{Fold, bins_within, folded};
use super::calls;
use crate::page::{Ink, Page, TextOptions};
use std::fmt::Write;
use thalweg_base::numbers::{bit_rate, count, duration, percent, size};
use thalweg_base::text::{clean, cut_end, left, right, wrap};
use thalweg_explain::rpcstat::Interval;
use thalweg_explain::rpcstat::document::{Procedure, RpcStat, Stall, Who};

/// Maximum number of procedures with a line.
const MAX_PROCEDURES: usize = 20;
/// Maximum number of stalls with a line.
const MAX_STALLS: usize = 10;
/// Maximum number of connections with a line.
const MAX_CONNECTIONS: usize = 4;

/// Formats the document as text, ending in a newline.
pub fn rpcstat(document: &RpcStat, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    page.paragraph(&document.sentence, Ink::Bold);
    if let Some(trips) = &document.round_trips {
        page.paragraph(&trips.sentence, Ink::Plain);
    }
    page.overview(document);
    page.procedures(document);
    page.over_time(document);
    page.waiting(document);
    page.stalls(document);
    for note in &document.notes {
        page.gap();
        page.wrapped(&format!("Note: {note}"));
    }
    page.into_text()
}

impl Page {
    fn overview(&mut self, d: &RpcStat) {
        self.gap();
        let mut said = super::how_long(d);
        let rate = |bytes: u64| d.rate_bytes_per_s().map_or_else(String::new, |_| format!(" ({})", bit_rate(bytes as f64 / d.wall_s)));
        if let Some(sent) = d.sent_bytes {
            let _ = write!(said, "; sent {}{}", size(sent), rate(sent));
        }
        if let Some(received) = d.received_bytes {
            let _ = write!(said, "; received {}{}", size(received), rate(received));
        }
        let _ = write!(said, "; recorder: {}", d.recorder);
        self.wrapped(&said);
        let p = &d.pending;
        let window = match p.window_min == p.window_median {
            true => format!("{}", p.window_median),
            false => format!("{} (smallest {})", p.window_median, p.window_min),
        };
        let window = if p.sent_only { format!("at least {window}") } else { window };
        let mut said = format!(
            "Pending: {:.1} at the mean, {} at most, none for {} of the time; RPC window {window}",
            p.mean,
            p.max,
            percent(p.empty_share)
        );
        match p.unsent {
            Some(u) if u.max_bytes > 0 => {
                let _ = write!(
                    said,
                    ". Handed to the client's sockets and not sent yet: {} at the mean, {} at most, which is about {} calls more",
                    size(u.mean_bytes as u64),
                    size(u.max_bytes),
                    count(u.max_calls.ceil() as u64)
                );
            }
            Some(_) => said.push_str(". Nothing waited in the client's sockets"),
            None if p.sent_only => said.push_str(": packets do not show calls that the client has not sent yet"),
            None => {}
        }
        self.wrapped(&said);
        if d.retransmissions + d.tcp_retransmissions > 0 {
            self.wrapped(&format!(
                "Sent again: {} calls, {} of them after a timeout; {} TCP segments, {} after a timeout",
                count(d.retransmissions),
                count(d.timeouts),
                count(d.tcp_retransmissions),
                count(d.tcp_timeouts)
            ));
        }
        for connection in d.connections.iter().take(MAX_CONNECTIONS) {
            let rtt = connection.srtt_s.map_or_else(String::new, |s| format!(", round trip {}", duration(s)));
            self.wrapped(&format!("{}: {}, {}{rtt}", connection.name, calls(connection.calls), size(connection.bytes)));
        }
        if let Some(more) = d.connections.len().checked_sub(MAX_CONNECTIONS).filter(|n| *n > 0) {
            self.plain(&format!("and {more} more connections"));
        }
    }

    fn procedures(&mut self, d: &RpcStat) {
        // If several machines serve, each procedure names its server; several ports of one machine do not count.
        let machine = |p: &Procedure| p.server.rsplit_once(':').map_or(p.server.clone(), |(machine, _)| machine.to_owned());
        let alike = |p: &Procedure| {
            d.procedures.iter().filter(|q| (&q.program, &q.version, &q.name) == (&p.program, &p.version, &p.name)).count() > 1
        };
        let several = d.procedures.iter().any(|p| alike(p) || machine(p) != machine(&d.procedures[0]));
        let again = d.procedures.iter().any(|p| p.retransmissions > 0);
        let heads: &[(&str, usize)] = &[("calls", 9), ("min", 8), ("median", 8), ("p99", 8), ("max", 8), ("bytes", 10), ("again", 7)];
        let heads = if again { heads } else { &heads[..heads.len() - 1] };
        let name_columns = self.width - heads.iter().map(|(_, columns)| columns).sum::<usize>();
        let line: String = heads.iter().map(|(head, columns)| right(head, *columns)).collect();
        self.heading(&(left("Response times", name_columns) + &line));
        for p in d.procedures.iter().take(MAX_PROCEDURES) {
            let time = |s: Option<f64>| s.map_or_else(String::new, duration);
            let sent_again = if p.retransmissions > 0 { count(p.retransmissions) } else { String::new() };
            let calls = count(p.answered + p.unanswered + p.not_captured);
            let cells = [calls, time(p.min_s), time(p.median_s), time(p.p99_s), time(p.max_s), size(p.bytes), sent_again];
            let cells: String = cells.iter().zip(heads).map(|(cell, (_, columns))| right(cell, *columns)).collect();
            let name = cut_end(&clean(&procedure_name(p, several)), name_columns - 1);
            self.plain(&(left(&name, name_columns) + &cells));
            let mut odd = Vec::new();
            if p.errors > 0 {
                odd.push(format!("{} answered with an error", count(p.errors)));
            }
            if p.unanswered > 0 {
                odd.push(format!("{} never answered", count(p.unanswered)));
            }
            if p.not_captured > 0 && p.program.is_some() {
                odd.push(format!("of {} the reply was not captured", count(p.not_captured)));
            }
            if !odd.is_empty() {
                self.plain(&format!("  {}", odd.join(", ")));
            }
        }
        if let Some(more) = d.procedures.len().checked_sub(MAX_PROCEDURES).filter(|n| *n > 0) {
            self.plain(&format!("and {more} more procedures"));
        }
    }

    fn over_time(&mut self, d: &RpcStat) {
        let s = &d.series;
        let names = 16;
        let columns = self.width - names - 16;
        self.heading(&format!("{}{}", left("Over time", names), left(&format!("0 to {}", duration(d.wall_s)), columns)));
        let optional = |values: &[Option<u64>]| values.iter().map(|v| v.map_or(f64::NAN, |v| v as f64)).collect::<Vec<f64>>();
        let numbers = |values: &[u64]| values.iter().map(|v| *v as f64).collect::<Vec<f64>>();
        let seconds = |values: &[Option<f64>]| values.iter().map(|v| v.unwrap_or(f64::NAN)).collect::<Vec<f64>>();
        let whole = |n: f64| count(n as u64);
        let whole_size = |n: f64| size(n as u64);
        let n = bins_within(s, d.wall_s);
        let mut rows: Vec<Row<'_>> = Vec::new();
        if d.sent_bytes.is_some() {
            rows.push(("sent", s.sent_bytes_per_s.clone(), Fold::Mean, &bit_rate));
        }
        if d.received_bytes.is_some() {
            rows.push(("received", s.received_bytes_per_s.clone(), Fold::Mean, &bit_rate));
        }
        let per_s = |n: f64| format!("{} per s", count(n.round() as u64));
        rows.push(("calls", s.calls.iter().map(|n| *n as f64 / s.bin_s).collect(), Fold::Mean, &per_s));
        rows.push(("pending, most", numbers(&s.pending_max), Fold::Most, &whole));
        rows.push(("response, mean", seconds(&s.response_mean_s), Fold::Mean, &duration));
        rows.push(("response, most", seconds(&s.response_max_s), Fold::Most, &duration));
        rows.push(("calls again", numbers(&s.retransmissions), Fold::Most, &whole));
        rows.push(("segments again", numbers(&s.tcp_retransmissions), Fold::Most, &whole));
        rows.push(("not sent yet", optional(&s.unsent_bytes), Fold::Most, &whole_size));
        rows.push(("in flight", optional(&s.in_flight_bytes), Fold::Most, &whole_size));
        rows.push(("window offered", optional(&s.receive_window_bytes), Fold::Least, &whole_size));
        for (name, values, fold, unit) in rows {
            let folded = folded(&values[..n.min(values.len())], columns, fold);
            let most = folded.iter().copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
            if most > 0.0 {
                self.plain(&format!("{}{}  {}", left(name, names), bars(&folded, most), unit(most)));
            }
        }
    }

    fn waiting(&mut self, d: &RpcStat) {
        if !d.has_length() {
            return;
        }
        let q = &d.quiet;
        let rows = [
            ("queue full: the server", q.full_s),
            ("queue empty: the client", q.empty_s),
            ("between, a reply came next: the server", q.between_then_reply_s),
            ("between, a call came next: the client", q.between_then_call_s),
            ("a message paused on its way", q.within_messages_s),
            ("TCP sent again: the network", q.network_s),
            ("calls never answered", q.unanswered_s),
        ];
        let all: f64 = rows.iter().map(|(_, s)| s).sum();
        self.heading(&format!("Nothing on its way for {} ({} of the time)", duration(all), percent(all / d.wall_s)));
        for (name, seconds) in rows.iter().filter(|(_, s)| *s > 0.0) {
            self.plain(&format!("  {}{}{}", left(name, 42), right(&duration(*seconds), 9), right(&percent(seconds / d.wall_s), 9)));
        }
        let b = &d.bursts;
        if b.bursts > 0 {
            let mut said = format!("Bytes {}: {} bursts", b.direction, count(b.bursts));
            if let Some(rate) = b.burst_bytes_per_s {
                let _ = write!(said, " at {}", bit_rate(rate));
            }
            if let (Some(median), Some(p99)) = (b.gap_median_s, b.gap_p99_s) {
                let _ =
                    write!(said, ", {} gaps between them, median {}, 99th percentile {}", count(b.gaps), duration(median), duration(p99));
                let _ = write!(said, ", together {}", duration(b.gaps_total_s));
            }
            self.wrapped(&said);
        }
        if let Some(c) = &d.drain_cycles {
            self.wrapped(&format!(
                "Drain cycles: {} times nothing was sent while pending calls fell from {} to {}, median {}, one every {}, together {}",
                count(c.count),
                c.pending_at_start,
                c.pending_at_end,
                duration(c.median_s),
                duration(c.period_s),
                duration(c.total_s)
            ));
        }
        if let Some(s) = &d.slow_start {
            self.wrapped(&format!(
                "Slow start: {} until {}, {} after it; the queue was empty for {} of it and {} full at the mean",
                bit_rate(s.bytes_per_s),
                duration(s.until_s),
                bit_rate(s.later_bytes_per_s),
                percent(s.empty_share),
                percent(s.full_share)
            ));
        }
    }

    fn stalls(&mut self, d: &RpcStat) {
        let stalls = &d.stalls;
        if stalls.count == 0 {
            self.heading(&format!("No stalls of {} or more", duration(stalls.least_s)));
            return;
        }
        self.heading(&format!(
            "Stalls of {} or more: {}, together {}",
            duration(stalls.least_s),
            count(stalls.count),
            duration(stalls.total_s)
        ));
        for by in &stalls.by {
            let whose = who_name(by.who);
            self.plain(&format!("  {whose}: {}, together {}, median {}", count(by.count), duration(by.total_s), duration(by.median_s)));
        }
        let mut longest: Vec<&Stall> = stalls.longest.iter().collect();
        longest.sort_by(|a, b| b.length_s.total_cmp(&a.length_s));
        longest.truncate(MAX_STALLS);
        longest.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        self.plain(&format!("  {}{}  {}", right("at", 11), right("for", 9), "caused by, and why"));
        for stall in &longest {
            let lead = format!("  {}{}  ", right(&duration(stall.start_s), 11), right(&duration(stall.length_s), 9));
            let text = format!("{}: {}", who_name(stall.who), stall.why);
            for (i, line) in wrap(&clean(&text), self.width - 24).iter().enumerate() {
                let lead = if i == 0 { lead.clone() } else { " ".repeat(24) };
                self.plain(&format!("{lead}{line}"));
            }
        }
        if let Some(more) = (stalls.count as usize).checked_sub(longest.len()).filter(|n| *n > 0) {
            self.plain(&format!("  and {} more (--json has {})", count(more as u64), stalls.longest.len()));
        }
    }
}

fn who_name(who: Who) -> &'static str {
    match who {
        Who::Server => "server",
        Who::Client => "client",
        Who::Network => "network",
    }
}

fn procedure_name(p: &Procedure, with_server: bool) -> String {
    // A program without a name is shown by number, which must be separated from its version.
    let is_number = |program: &str| program.bytes().all(|b| b.is_ascii_digit());
    let program = match (&p.program, &p.version) {
        (Some(program), Some(version)) if is_number(program) => format!("{program} v{version} "),
        (Some(program), Some(version)) => format!("{program}{version} "),
        (Some(program), None) => format!("{program} "),
        _ => String::new(),
    };
    let program = if p.callback { format!("callback {program}") } else { program };
    if with_server { format!("{program}{} {}", p.name, p.server) } else { format!("{program}{}", p.name) }
}

/// A time series: its name, its bins, how they are combined into columns, and how its largest value is formatted.
type Row<'a> = (&'a str, Vec<f64>, Fold, &'a dyn Fn(f64) -> String);

/// Returns a bar for each value; a space if it is absent or 0.
fn bars(values: &[f64], most: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |value: &f64| match *value {
        v if !v.is_finite() || v <= 0.0 => ' ',
        v => BARS[((v / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    values.iter().map(bar).collect()
}

/// Columns of the live table, with their widths.
const LIVE: [(&str, usize); 9] = [
    ("time", 6),
    ("calls/s", 9),
    ("sent", 11),
    ("received", 11),
    ("pending", 9),
    ("mean", 10),
    ("longest", 10),
    ("again", 7),
    ("errors", 7),
];

/// Returns the heads of the live table.
pub fn live_heads() -> String {
    LIVE.iter().map(|(head, width)| right(head, *width)).collect()
}

/// Formats a line of the live table: an interval of `seconds`, `at_s` seconds after the start.
pub fn live_line(interval: &Interval, at_s: f64, seconds: f64) -> String {
    let optional = |n: u64| if n == 0 { "-".to_owned() } else { count(n) };
    let cells = [
        format!("{at_s:.0} s"),
        count((interval.calls as f64 / seconds).round() as u64),
        bit_rate(interval.sent_bytes as f64 / seconds),
        bit_rate(interval.received_bytes as f64 / seconds),
        count(interval.pending_max),
        interval.response_mean_s().map_or_else(|| "-".to_owned(), duration),
        if interval.calls > 0 { duration(interval.response_max_ns as f64 / 1e9) } else { "-".to_owned() },
        optional(interval.retransmissions + interval.tcp_retransmissions),
        optional(interval.errors),
    ];
    cells.iter().zip(LIVE).map(|(cell, (_, width))| right(cell, width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_what_is_there_and_leave_out_what_is_not() {
        assert_eq!(bars(&[0.0, 1.0, 4.0, 8.0, f64::NAN], 8.0), " ▁▄█ ");
    }
}
