//! Two recordings side by side: a table of figures.

use crate::page::{Ink, Page, TextOptions};
use thalweg_base::numbers::{bit_rate, count, duration};
use thalweg_base::text::{clean, cut, left, right, width};
use thalweg_explain::rpcstat::document::{RpcStat, Who};

/// A figure of both.
pub(super) struct Row {
    /// Its name.
    pub name: &'static str,
    /// The first recording's.
    pub a: String,
    /// The second recording's.
    pub b: String,
}

/// Formats a figure.
type Figure<'a> = &'a dyn Fn(&RpcStat) -> String;

/// Returns the figures, in order.
pub(super) fn rows(documents: [&RpcStat; 2]) -> Vec<Row> {
    let figures: [(&'static str, Figure<'_>); 10] = [
        ("total time", &|d| duration(d.wall_s)),
        ("rate", &rate),
        ("calls", &|d| count(d.calls)),
        ("calls sent again, timeouts", &|d| format!("{}, {}", count(d.retransmissions), count(d.timeouts))),
        ("TCP segments sent again", &|d| count(d.tcp_retransmissions)),
        ("drain cycles", &drains),
        ("stalls of the server", &|d| stalls(d, Who::Server)),
        ("stalls of the client", &|d| stalls(d, Who::Client)),
        ("stalls of the network", &|d| stalls(d, Who::Network)),
        ("response time, median", &response),
    ];
    figures.iter().map(|(name, of)| Row { name, a: of(documents[0]), b: of(documents[1]) }).collect()
}

fn rate(d: &RpcStat) -> String {
    match d.most_bytes() {
        (0, _) => format!("{} calls/s", count((d.calls as f64 / d.wall_s).round() as u64)),
        (_, is_sent) => match d.rate_bytes_per_s() {
            Some(rate) => format!("{} {}", bit_rate(rate), if is_sent { "sent" } else { "received" }),
            None => "none".to_owned(),
        },
    }
}

fn drains(d: &RpcStat) -> String {
    d.drain_cycles.as_ref().map_or_else(|| "none".to_owned(), |c| format!("{} (median {})", count(c.count), duration(c.median_s)))
}

fn stalls(d: &RpcStat, who: Who) -> String {
    let of = d.stalls.by.iter().find(|by| by.who == who);
    of.map_or_else(|| "none".to_owned(), |by| format!("{}, {} together", count(by.count), duration(by.total_s)))
}

/// Returns the median response time of the answered procedure that took most time in total.
fn response(d: &RpcStat) -> String {
    let main = d.procedures.iter().filter(|p| !p.callback && p.median_s.is_some()).max_by(|a, b| a.total_s.total_cmp(&b.total_s));
    main.and_then(|p| p.median_s.map(|s| format!("{} ({})", duration(s), p.name))).unwrap_or_else(|| "not known".to_owned())
}

/// Formats two named recordings as a table, ending in a newline.
pub fn rpcstat_pair(documents: [(&str, &RpcStat); 2], options: &TextOptions) -> String {
    let mut page = Page::new(options);
    for ((name, document), letter) in documents.iter().zip(["A", "B"]) {
        page.hanging(0, 3, &format!("{letter}  {}: {}", clean(name), document.sentence), Ink::Plain);
    }
    let rows = rows(documents.map(|(_, document)| document));
    let names = rows.iter().map(|row| width(row.name)).max().unwrap_or(0) + 2;
    let columns = (page.width - names) / 2;
    let name = |name: &str| right(&cut(&clean(name), columns - 2), columns);
    page.heading(&format!("{}{}{}", left("", names), name(documents[0].0), name(documents[1].0)));
    for row in &rows {
        page.plain(&format!("{}{}{}", left(row.name, names), right(&row.a, columns), right(&row.b, columns)));
    }
    page.into_text()
}
