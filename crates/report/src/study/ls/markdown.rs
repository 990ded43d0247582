//! The result of a study of listings as Markdown: targets, the fitted lines through the grid, and every point.

use super::figures::{figure, interval, promised};
use crate::study::bars;
use crate::study::markdown::{cell, not_measured};
use std::fmt::Write;
use thalweg_base::numbers::count;
use thalweg_measure::Estimate;
use thalweg_study::ls::{Document, NamesPoint, NamesResult, Phase, PointResult, WalkMode, method_rank};

fn optional(e: Option<&Estimate>) -> String {
    e.map_or_else(|| "–".to_owned(), interval)
}

fn middle(e: Option<&Estimate>) -> String {
    e.map_or_else(|| "–".to_owned(), |e| figure(e.median))
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), figure)
}

/// Formats the whole result, starting with a second-level heading.
pub fn markdown(document: &Document) -> String {
    let mut out = String::new();
    let label = if document.label.is_empty() { String::new() } else { format!(" {}.", cell(&document.label)) };
    let _ = writeln!(out, "Measured on {}.{label}\n", cell(&document.machine.sentence()));
    let _ = writeln!(
        out,
        "A store of {} servers with {} targets each; {} repetitions, interleaved. Figures are medians with bootstrap 95 % intervals; for \
         listings, without the first repetition, which meets servers that have not cached the directory: *first*.\n",
        document.scale.servers, document.scale.targets, document.repeat
    );
    bars::table(&mut out, &document.bars, interval, promised);
    links(&mut out, document);
    steps(&mut out, document);
    trends(&mut out, document);
    grid(&mut out, document);
    items(&mut out, document);
    targets(&mut out, document);
    names(&mut out, document);
    crowd(&mut out, document);
    copies(&mut out, document);
    not_measured(&mut out, &document.problems);
    out
}

fn links(out: &mut String, document: &Document) {
    if document.links.is_empty() {
        return;
    }
    out.push_str("## From where\n\n| location | round trip asked for | of a request, measured | one stream |\n|---|--:|--:|--:|\n");
    for link in &document.links {
        let stream = link.bytes_per_s.map_or_else(|| "–".to_owned(), |rate| format!("{} MB/s", figure(rate / 1e6)));
        let (asked, found) = (figure(link.asked_us), figure(link.round_trip_us));
        let _ = writeln!(out, "| {} | {asked} µs | {found} µs | {stream} |", cell(&link.location));
    }
    out.push('\n');
}

/// Appends one mechanism after the other, with the most datafiles: the time each removes, and the waiting that stays besides CPU time and
/// bytes.
fn steps(out: &mut String, document: &Document) {
    let most = document.scale.datafiles.iter().copied().max().unwrap_or(0);
    let at = |location: &str, how: &str| document.grid_points(location, how).find(|p| p.point.fixture.datafiles == most).cloned();
    let mut rows = String::new();
    for location in document.locations() {
        let mut before: Option<f64> = None;
        for point in WalkMode::ALL.iter().filter_map(|mode| at(location, mode.name())) {
            let now = point.per_file_us.median;
            let removed =
                before.map_or_else(|| "–".to_owned(), |before| format!("{} ({:.1} %)", figure(before - now), (1.0 - now / before) * 100.0));
            let model = point.model.as_ref();
            let rest = model.map(|model| (now - model.bound_us).max(0.0));
            let _ = writeln!(
                rows,
                "| {} | {} | {} | {removed} | {} | {} | {} |",
                cell(location),
                point.method,
                interval(&point.per_file_us),
                number(model.map(|model| model.bound_us)),
                number(rest),
                number(model.and_then(|model| model.round_trips_us)),
            );
            before = Some(now);
        }
    }
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "## What each mechanism removes: {most} datafiles a file\n\nMicroseconds per file. *Waiting*: neither \
         transfer nor CPU time; *round trips*: sequential ones, divided by the files of the run.\n"
    );
    let _ =
        write!(out, "| from | how | a file | removes | bytes or work | waiting | round trips |\n|---|---|--:|--:|--:|--:|--:|\n{rows}\n");
}

fn trends(out: &mut String, document: &Document) {
    if document.trends.is_empty() {
        return;
    }
    let _ = writeln!(out, "## The cost of a file, and of each of its datafiles\n");
    let _ = writeln!(
        out,
        "Straight lines through the times of {} files with 1 and more datafiles, in microseconds. *4 → 8* and *16 → 32*: what a datafile \
         costs between those. *Never written*: measured, not fitted. *Processors*: of client and servers together.\n",
        count(document.scale.files)
    );
    out.push_str(
        "| from | how | a file | each datafile | 4 → 8 | 16 → 32 | never written | off the line | processors: a file | each datafile |\n",
    );
    out.push_str("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for t in &document.trends {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {:.0} % | {} | {} |",
            cell(&t.location),
            cell(&t.method),
            interval(&t.fit.intercept),
            interval(&t.fit.slope),
            middle(t.low_us.as_ref()),
            middle(t.high_us.as_ref()),
            middle(t.never_written_us.as_ref()),
            t.fit.worst_miss * 100.0,
            middle(t.cpu.as_ref().map(|cpu| &cpu.intercept)),
            middle(t.cpu.as_ref().map(|cpu| &cpu.slope)),
        );
    }
    out.push('\n');
}

const POINT_HEADS: &str = "| µs a file | first | × one at a time | requests a file | round trips | bytes a file | client CPU | server CPU | link CPU | bound | × bound |\n";
const POINT_RULE: &str = "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";

fn point(p: &PointResult) -> String {
    let model = p.model.as_ref();
    format!(
        "{} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        interval(&p.per_file_us),
        number(p.first_us),
        middle(p.of_synchronous.as_ref()),
        number(p.requests_per_file),
        p.round_trips.map_or_else(|| "–".to_owned(), |trips| format!("{trips:.0}")),
        figure(p.bytes_per_file),
        figure(p.client_cpu_us.median),
        middle(p.server_cpu_us.as_ref()),
        middle(p.link_cpu_us.as_ref()),
        number(model.map(|model| model.bound_us)),
        number(model.map(|model| model.of_bound)),
    )
}

fn grid(out: &mut String, document: &Document) {
    if !document.locations().any(|location| document.grid(location).next().is_some()) {
        return;
    }
    let _ = writeln!(out, "## Datafiles: {} files\n", count(document.scale.files));
    let _ = writeln!(
        out,
        "*Round trips*: the longest chain of dependent requests in the whole run. CPU: microseconds per file. *Bound*: the \
         larger of bytes over the link, and CPU time over all processors.\n"
    );
    for location in document.locations() {
        let mut here: Vec<&PointResult> = document.grid(location).collect();
        if here.is_empty() {
            continue;
        }
        here.sort_by_key(|p| (method_rank(&p.method), p.method.clone(), p.point.fixture.datafiles));
        let _ = write!(out, "### From {}\n\n| how | datafiles {POINT_HEADS}|---|--:{POINT_RULE}", cell(location));
        for p in here {
            let _ = writeln!(out, "| {} | {} | {}", cell(&p.method), p.point.fixture.datafiles, point(p));
        }
        out.push('\n');
    }
}

fn items(out: &mut String, document: &Document) {
    let is_item = |p: &&PointResult| {
        let fixture = &p.point.fixture;
        fixture.targets == document.scale.targets && document.scale.items.contains(&(fixture.files, fixture.datafiles))
    };
    let points: Vec<&PointResult> = document.points.iter().filter(is_item).collect();
    if points.is_empty() {
        return;
    }
    let _ = write!(out, "## Files in one directory\n\n| files | datafiles | from | how {POINT_HEADS}|--:|--:|---|---{POINT_RULE}");
    for p in points {
        let fixture = &p.point.fixture;
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {}",
            count(fixture.files),
            fixture.datafiles,
            cell(&p.point.location),
            cell(&p.method),
            point(p)
        );
    }
    out.push('\n');
}

fn targets(out: &mut String, document: &Document) {
    let files = document.scale.files.min(10_000);
    let on_axis = |p: &&PointResult| p.point.fixture.files == files && document.scale.targets_axis.contains(&p.point.fixture.targets);
    let points: Vec<&PointResult> = document.points.iter().filter(on_axis).collect();
    if !points.iter().any(|p| p.point.fixture.targets != document.scale.targets) {
        return;
    }
    let _ =
        write!(out, "## Targets on each server\n\n| servers × targets | datafiles | from | how {POINT_HEADS}|---|--:|---|---{POINT_RULE}");
    for p in points {
        let fixture = &p.point.fixture;
        let (location, how) = (cell(&p.point.location), cell(&p.method));
        let _ = writeln!(out, "| {} × {} | {} | {location} | {how} | {}", fixture.servers, fixture.targets, fixture.datafiles, point(p));
    }
    out.push('\n');
}

fn names(out: &mut String, document: &Document) {
    if document.names.is_empty() {
        return;
    }
    out.push_str(
        "## Names each second\n\nThe tests of `mdtest`, under its names; totals of all workers. *Bytes*: written into each file when it is \
         created, and read. *Stride*: a worker stats, reads and removes the files of the worker this many ranks further; 0: its own.\n\n",
    );
    let directories = [Phase::DirectoryCreation, Phase::DirectoryStat, Phase::DirectoryRemoval, Phase::TreeCreation, Phase::TreeRemoval];
    let files = [Phase::FileCreation, Phase::FileStat, Phase::FileRead, Phase::FileRemoval];
    phases(out, &document.names, &directories);
    phases(out, &document.names, &files);
}

/// Appends a table of some phases, with a row for each point that has the first of them.
fn phases(out: &mut String, names: &[NamesResult], phases: &[Phase]) {
    let heads: String = phases.iter().map(|phase| format!(" {} |", phase.name())).collect();
    let rule = "--:|".repeat(phases.len());
    let _ = write!(out, "| directory | through | in a request | bytes | stride | workers |{heads}\n|---|---|--:|--:|--:|--:|{rule}\n");
    for NamesResult { point, .. } in names.iter().filter(|n| n.phase == phases[0]) {
        let of = |phase: &Phase| names.iter().find(|other| other.point == *point && other.phase == *phase).map(|n| n.rate_per_s);
        let cells: String = phases.iter().map(|phase| format!(" {} |", optional(of(phase).as_ref()))).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |{cells}",
            if point.shared { "one for all" } else { "own" },
            through(point),
            point.batch,
            count(point.bytes.into()),
            point.stride,
            point.workers,
        );
    }
    out.push('\n');
}

/// Returns the interface used for names.
fn through(point: &NamesPoint) -> &'static str {
    match (point.mounted, point.stride) {
        (false, _) => "library",
        (true, 0) => "mount",
        (true, _) => "mount, others' through a second",
    }
}

fn crowd(out: &mut String, document: &Document) {
    let Some(c) = &document.crowd else { return };
    let ms = |e: &Estimate| format!("{} ms ({} – {})", figure(e.median * 1e3), figure(e.low * 1e3), figure(e.high * 1e3));
    let _ =
        writeln!(out, "## A writer beside {} listings\n\n| create, write 4 KiB, close | alone | beside them |\n|---|--:|--:|", c.listings);
    let _ = writeln!(out, "| median | {} | {} |", ms(&c.idle_p50_s), ms(&c.loaded_p50_s));
    let _ = writeln!(out, "| 99th percentile | {} | {} |\n", ms(&c.idle_p99_s), ms(&c.loaded_p99_s));
    let _ = writeln!(
        out,
        "The 99th percentile is {} times as long; meanwhile the listings list {} entries each second. The listing clients run at \
         `nice 19`, because they stand in for other machines.\n",
        interval(&c.p99_ratio),
        figure(c.listed_per_s.median)
    );
}

fn copies(out: &mut String, document: &Document) {
    let Some(c) = &document.copies else { return };
    let _ = writeln!(out, "## {} files of {} bytes copied in\n\n| | files each second |\n|---|--:|", count(c.files), count(c.bytes_each));
    for (how, rate) in &c.rate_per_s {
        let _ = writeln!(out, "| {} | {} |", cell(how), interval(rate));
    }
    let _ = writeln!(out, "\nOur command is {} times as fast.\n", interval(&c.ratio));
}
