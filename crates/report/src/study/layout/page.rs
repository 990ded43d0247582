//! A layout study as a page of plots: selects the figures of each picture.

use super::figures::{promised, rate, ratio, size};
use super::markdown::markdown;
use crate::interactive::document::DocumentPage;
use crate::plot::{self, Curve, Dot, MIB, Page, Plot, Section};
use crate::study::bars::promises;
use crate::study::{Named, Picture, drawn};
use std::fmt::Write;
use thalweg_study::layout::{CEILING, Document, Operation, PointResult, SERIES};

/// The figure of a point that a picture shows.
#[derive(Clone, Copy, PartialEq)]
enum Figure {
    Synced,
    Alone,
}

/// Returns all pictures of a study, each as SVG.
pub fn pictures(document: &Document) -> Vec<Picture> {
    drawn(plots(document))
}

fn plots(document: &Document) -> Vec<Named> {
    let mut vias: Vec<&str> =
        document.points.iter().map(|p| p.subject.via.as_str()).filter(|via| *via != "posix" && *via != "command").collect();
    vias.sort_unstable();
    vias.dedup();
    let mut pictures = Vec::new();
    for via in vias {
        let kinds = [
            ("write", "Writing, sync included", Operation::Write, Figure::Synced),
            ("write-alone", "Writing, before the sync", Operation::Write, Figure::Alone),
            ("read", "Reading, caches emptied", Operation::Read, Figure::Synced),
        ];
        for (name, title, operation, figure) in kinds {
            let plot = Plot {
                title: format!("{title}: one node's bandwidth, through the {via}"),
                curves: curves(document, via, operation, figure),
                y_is_log: figure == Figure::Alone,
                ..frame(document)
            };
            pictures.push(Named { name: format!("layout-{via}-{name}"), plot });
        }
    }
    for (name, title, operation) in [("write", "Writing", Operation::Write), ("read", "Reading", Operation::Read)] {
        let of = |series: &'static str| curve(document, series, "posix", operation, Figure::Synced);
        let curves: Vec<Curve> = [of("local-cached"), of(CEILING)].into_iter().flatten().collect();
        if curves.len() == 2 {
            let title = format!("{title} a local file: where caches end");
            pictures.push(Named { name: format!("local-{name}"), plot: Plot { title, curves, y_is_log: true, ..frame(document) } });
        }
    }
    pictures
}

fn frame(document: &Document) -> Plot {
    let link = document.link_bytes_per_s.map_or_else(String::new, |link| format!(", links of {} MiB/s", rate(link)));
    Plot {
        subtitle: format!(
            "{} nodes at once{link}; median and 95 % interval; a flat line left of a mark: what disks and links allow",
            document.nodes.len()
        ),
        x_name: "each node's part".into(),
        x_marks: document.sizes().iter().map(|bytes| (*bytes as f64, size(*bytes))).collect(),
        y_name: "MiB/s".into(),
        ..Plot::default()
    }
}

/// Returns the curves of every layout and peer, and of the local disk over them.
fn curves(document: &Document, via: &str, operation: Operation, figure: Figure) -> Vec<Curve> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for p in &document.points {
        let kind = (p.subject.series.as_str(), p.subject.via.as_str());
        if (kind.1 == via || kind.1 == "command") && !names.contains(&kind) {
            names.push(kind);
        }
    }
    names.push((CEILING, "posix"));
    names.into_iter().filter_map(|(series, via)| curve(document, series, via, operation, figure)).collect()
}

fn curve(document: &Document, series: &str, via: &str, operation: Operation, figure: Figure) -> Option<Curve> {
    let chosen =
        |p: &&PointResult| p.subject.series == series && p.subject.via == via && p.operation == operation && p.point.pattern == "part";
    let mut points: Vec<&PointResult> = document.points.iter().filter(chosen).collect();
    points.sort_by_key(|p| p.point.part_bytes);
    let dots: Vec<Dot> = points.iter().filter_map(|p| dot(p, figure)).collect();
    // A known series looks the same in every picture; others use the following looks.
    let look = SERIES.iter().position(|s| s.name == series).unwrap_or(SERIES.len());
    let name = points.first()?.title.clone();
    (!dots.is_empty()).then_some(Curve { name, look, is_reference: series == CEILING, is_loose: false, dots })
}

fn dot(p: &PointResult, figure: Figure) -> Option<Dot> {
    let estimate = if figure == Figure::Alone { p.unsynced_bytes_per_s? } else { p.rate_bytes_per_s };
    let expected = p.predicted_bytes_per_s.filter(|_| figure == Figure::Synced);
    Some(Dot {
        x: p.point.part_bytes as f64,
        y: estimate.median / MIB,
        low: estimate.low / MIB,
        high: estimate.high / MIB,
        expected: expected.map(|bytes| bytes / MIB),
        hint: hint(p),
    })
}

/// Returns the tooltip of a mark.
fn hint(p: &PointResult) -> String {
    let e = &p.rate_bytes_per_s;
    let mut text = format!(
        "{} through {}, {} of {}: {} MiB/s ({} – {}), {} runs",
        p.title,
        p.subject.via,
        p.operation.name(),
        size(p.point.part_bytes),
        rate(e.median),
        rate(e.low),
        rate(e.high),
        e.values
    );
    if let Some(allowed) = p.predicted_bytes_per_s {
        let _ = write!(text, "; disks and links allow {}", rate(allowed));
    }
    if let Some(of) = &p.of_local {
        let _ = write!(text, "; {:.2} of the local disk", of.median);
    }
    if let Some(explanation) = &p.explanation {
        let charges = explanation.charges.iter().map(|(cause, place, share)| format!("{cause} {:.0} % ({place})", share * 100.0));
        let _ = write!(text, ". Where the time went: {}", charges.collect::<Vec<_>>().join(", "));
    }
    if let Some(cache) = &p.cache {
        let _ = write!(text, ". Caches: {cache}");
    }
    text
}

/// Returns the whole study as one HTML page.
pub fn page(document: &Document) -> String {
    let mut sections = promises(&document.bars, ratio, promised);
    sections.push(Section::Heading("Bandwidth against the size of the part".into()));
    sections.extend(plots(document).into_iter().map(|picture| Section::Plot(Box::new(picture.plot))));
    sections.push(Section::Heading("Every point".into()));
    let heads = ["series", "through", "pattern", "part", "operation", "MiB/s", "allowed", "of local", "held up by", "where"];
    let rows = document.points.iter().map(|p| {
        let e = &p.rate_bytes_per_s;
        vec![
            p.title.clone(),
            p.subject.via.clone(),
            p.point.pattern.clone(),
            size(p.point.part_bytes),
            p.operation.name().to_owned(),
            format!("{} ({} – {})", rate(e.median), rate(e.low), rate(e.high)),
            p.predicted_bytes_per_s.map_or_else(String::new, rate),
            p.of_local.as_ref().map_or_else(String::new, |of| format!("{:.3}", of.median)),
            p.explanation.as_ref().map_or_else(String::new, |e| format!("{} {:.0} %", e.cause, e.share * 100.0)),
            p.explanation.as_ref().map_or_else(String::new, |e| e.place.clone()),
        ]
    });
    sections.push(Section::Table(heads.map(String::from).to_vec(), rows.collect()));
    let page = Page {
        title: "What each layout gives".into(),
        lead: [document.machine.sentence(), document.label.clone()].into_iter().filter(|text| !text.is_empty()).collect(),
        sections,
    };
    plot::page(&page, &DocumentPage::of("layout", document, &markdown(document)))
}
