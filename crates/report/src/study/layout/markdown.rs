//! The result of a layout study as Markdown: targets, then a table for each operation.

use super::figures::{promised, rate, ratio, size};
use crate::study::bars;
use crate::study::markdown::{cell, not_measured};
use std::fmt::Write;
use thalweg_measure::Estimate;
use thalweg_study::layout::{Document, Operation, PointResult};

fn interval(e: &Estimate) -> String {
    format!("{} ({} – {})", rate(e.median), rate(e.low), rate(e.high))
}

/// Formats the whole result, starting with a second-level heading.
pub fn markdown(document: &Document) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "Measured on {}. {}.\n", cell(&document.machine.sentence()), cell(&document.label));
    let link = document.link_bytes_per_s.map_or_else(|| "not measured".to_owned(), |link| format!("{} MiB/s", rate(link)));
    let _ = writeln!(
        out,
        "{} nodes ({}), {} repetitions, a link: {link}. Figures are MiB/s of one node, median (95 % interval) over nodes and repetitions.\n",
        document.nodes.len(),
        document.nodes.join(", "),
        document.repeat
    );
    bonnie(&mut out, document);
    bars::table(&mut out, &document.bars, ratio, promised);
    peers(&mut out, document);
    for (operation, title) in [(Operation::Write, "Writing, sync included"), (Operation::Read, "Reading, caches emptied")] {
        let _ = writeln!(out, "## {title}\n");
        for size_bytes in document.sizes().into_iter().rev() {
            let chosen = |p: &&PointResult| p.operation == operation && p.point.pattern == "part" && p.point.part_bytes == size_bytes;
            let points: Vec<&PointResult> = document.points.iter().filter(chosen).collect();
            let _ = writeln!(out, "### Parts of {}\n", size(size_bytes));
            table(&mut out, &points, operation == Operation::Write);
        }
    }
    patterns(&mut out, document);
    not_measured(&mut out, &document.problems);
    out
}

fn bonnie(out: &mut String, document: &Document) {
    let Some(b) = &document.bonnie else { return };
    let said = |r: Option<f64>| r.map_or_else(|| "too fast to measure".to_owned(), |r| format!("{} MiB/s", rate(r)));
    let _ = writeln!(
        out,
        "bonnie++ on the disk of {}, {}: {} written, its own sync included; read with caches on: {}.\n",
        b.node,
        size(b.size_bytes),
        said(b.write_bytes_per_s),
        said(b.cached_read_bytes_per_s)
    );
}

fn peers(out: &mut String, document: &Document) {
    if document.against_peers.is_empty() {
        return;
    }
    out.push_str("## Beside other systems\n\nHow many times as fast, node by node:\n\n| | through | beside | parts | | times |\n|---|---|---|---|---|--:|\n");
    for a in &document.against_peers {
        let times = format!("{:.2} ({:.2} – {:.2})", a.ratio.median, a.ratio.low, a.ratio.high);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {times} |",
            cell(&a.title),
            a.via,
            cell(&a.peer),
            size(a.part_bytes),
            a.operation.name()
        );
    }
    out.push('\n');
}

fn table(out: &mut String, points: &[&PointResult], written: bool) {
    let unsynced = if written { " write alone |" } else { "" };
    let rule = if written { "--:|" } else { "" };
    let _ = writeln!(out, "| | through | MiB/s |{unsynced} allowed | of local | least node | held up by | |");
    let _ = writeln!(out, "|---|---|--:|{rule}--:|--:|--:|---|---|");
    for p in points {
        let alone = if written {
            format!(" {} |", p.unsynced_bytes_per_s.as_ref().map_or_else(|| "–".to_owned(), |e| rate(e.median)))
        } else {
            String::new()
        };
        let least = p.nodes.iter().filter_map(|n| n.of_local.map(|r| r.median)).fold(f64::INFINITY, f64::min);
        let cause =
            p.explanation.as_ref().map_or_else(String::new, |e| format!("{} {:.0} % ({})", e.cause, e.share * 100.0, cell(&e.place)));
        let cache = p.cache.as_ref().filter(|state| !state.is_verified()).map_or_else(String::new, |state| format!("caches {state}"));
        let _ = writeln!(
            out,
            "| {} | {} | {} |{alone} {} | {} | {} | {cause} | {} |",
            cell(&p.title),
            p.subject.via,
            interval(&p.rate_bytes_per_s),
            p.predicted_bytes_per_s.map_or_else(|| "–".to_owned(), rate),
            p.of_local.as_ref().map_or_else(|| "–".to_owned(), ratio),
            if least.is_finite() { format!("{least:.3}") } else { "–".to_owned() },
            cell(&cache)
        );
    }
    out.push('\n');
}

fn patterns(out: &mut String, document: &Document) {
    let others: Vec<&PointResult> = document.points.iter().filter(|p| p.point.pattern != "part").collect();
    if others.is_empty() {
        return;
    }
    out.push_str("## Other patterns of access\n\n| pattern | series | through | write | rewrite | read |\n|---|---|---|--:|--:|--:|\n");
    let find = |p: &PointResult, operation: Operation| {
        let same = others.iter().find(|q| (&q.point, &q.subject) == (&p.point, &p.subject) && q.operation == operation);
        same.map_or_else(|| "–".to_owned(), |q| interval(&q.rate_bytes_per_s))
    };
    for p in others.iter().filter(|p| p.operation == Operation::Write) {
        let (write, rewrite, read) = (find(p, Operation::Write), find(p, Operation::Rewrite), find(p, Operation::Read));
        let _ = writeln!(out, "| {} | {} | {} | {write} | {rewrite} | {read} |", p.point.pattern, cell(&p.title), p.subject.via);
    }
    out.push('\n');
    if !document.means.is_empty() {
        out.push_str("The means over `b_eff_io`'s types (scattering counts twice) and operations (reading counts half):\n\n");
        out.push_str("| series | through | write | rewrite | read | all |\n|---|---|--:|--:|--:|--:|\n");
        for m in &document.means {
            let mean = |name: &str| m.operations.get(name).map_or_else(|| "–".to_owned(), |r| rate(*r));
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} |",
                m.series,
                m.via,
                mean("write"),
                mean("rewrite"),
                mean("read"),
                rate(m.all)
            );
        }
        out.push('\n');
    }
}
