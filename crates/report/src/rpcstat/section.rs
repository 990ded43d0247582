//! The picture and the tables of a document, as sections of a page.

use super::picture::rpcstat_picture;
use crate::plot::Section;
use thalweg_base::numbers::{count, duration, size};
use thalweg_explain::rpcstat::document::{RpcStat, Who};

/// Maximum number of procedures with a row.
const MAX_PROCEDURES: usize = 40;

/// Returns the picture, and tables of stalls, procedures and drain cycles.
pub(crate) fn rpcstat_sections(document: &RpcStat) -> Vec<Section> {
    let mut sections = vec![Section::Picture(rpcstat_picture(document))];
    sections.extend(tables(document));
    sections
}

/// Returns tables of stalls, procedures and drain cycles.
pub(super) fn tables(d: &RpcStat) -> Vec<Section> {
    [stalls(d), procedures(d), drains(d)].concat()
}

/// Returns a heading and a table.
pub(super) fn table(heading: &str, heads: &[&str], rows: Vec<Vec<String>>) -> Vec<Section> {
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    vec![Section::Heading(heading.to_owned()), Section::Table(heads, rows)]
}

fn none(heading: &str, text: &str) -> Vec<Section> {
    vec![Section::Heading(heading.to_owned()), Section::Text(text.to_owned())]
}

fn stalls(d: &RpcStat) -> Vec<Section> {
    let least = duration(d.stalls.least_s);
    if d.stalls.by.is_empty() {
        return none("Stalls", &format!("None of {least} or more."));
    }
    let name = |who: Who| match who {
        Who::Server => "the server",
        Who::Client => "the client",
        Who::Network => "the network",
    };
    let row = |by: &thalweg_explain::rpcstat::document::StallsBy| {
        vec![name(by.who).to_owned(), count(by.count), duration(by.total_s), duration(by.median_s)]
    };
    let rows: Vec<Vec<String>> = d.stalls.by.iter().map(row).collect();
    table(&format!("Stalls of {least} or more, by the side that caused them"), &["whose", "stalls", "together", "median"], rows)
}

fn procedures(d: &RpcStat) -> Vec<Section> {
    let time = |s: Option<f64>| s.map_or_else(String::new, duration);
    let rows: Vec<Vec<String>> = d
        .procedures
        .iter()
        .take(MAX_PROCEDURES)
        .map(|p| {
            let calls = count(p.answered + p.unanswered + p.not_captured);
            let of = [p.median_s, p.p99_s, p.max_s].map(time);
            let name = match (&p.program, &p.version) {
                (Some(program), Some(version)) => format!("{program} v{version} {}", p.name),
                _ => p.name.clone(),
            };
            let [median, p99, most] = of;
            vec![name, p.server.clone(), calls, median, p99, most, size(p.bytes), count(p.retransmissions), count(p.errors)]
        })
        .collect();
    let columns = ["procedure", "server", "calls", "median", "99th percentile", "longest", "bytes", "sent again", "errors"];
    table("Procedures, and their response times", &columns, rows)
}

fn drains(d: &RpcStat) -> Vec<Section> {
    let Some(cycles) = &d.drain_cycles else { return none("Drain cycles", "None.") };
    let from_to = format!("{} to {}", count(cycles.pending_at_start), count(cycles.pending_at_end));
    let row = vec![count(cycles.count), duration(cycles.median_s), duration(cycles.period_s), duration(cycles.total_s), from_to];
    table("Drain cycles", &["cycles", "median", "one every", "together", "pending calls, from and to"], vec![row])
}
