//! Targets for listings, and whether they are met.

use super::document::Document;
use super::plan::COMMAND;
use super::points::{PointResult, Trend, method_rank};
use crate::bar::Bar;
use crate::worker::protocol::Phase;
use thalweg_client::walk::WalkMode;
use thalweg_measure::Estimate;

/// Minimum speed relative to one file at a time, at 1 ms and with the most datafiles.
const OF_SYNCHRONOUS: f64 = 100.0;
/// Maximum time, as a multiple of the bound by bytes and CPU time.
const OF_BOUND: f64 = 2.0;
/// Maximum cost of a datafile, as a part of a round trip.
const OF_ROUND_TRIP: f64 = 1.0 / 1000.0;
/// Maximum cost of a file without a link, in µs: a tenth of OrangeFS's on the same machine.
const NEAR_US: f64 = 10.0;
/// Minimum speed relative to another system.
const OF_PEER: f64 = 3.0;
/// Minimum speed relative to the stock `cp` onto the mount.
const OF_STOCK_COPY: f64 = 5.0;
/// Maximum time of a small write beside listings, relative to alone.
const BESIDE_LISTINGS: f64 = 3.0;
/// Minimum files created per second in one directory through the mount, with the second of [`MAKERS`].
const MADE_PER_S: f64 = 9_000.0;
/// Minimum rate of many workers through the mount, relative to few: only noise may be lost.
const FLAT: f64 = 0.9;
/// Numbers of workers that create files in one directory: one, few, many.
const MAKERS: [u32; 3] = [1, 8, 64];
/// The mechanisms with targets: with and without sizes from the metadata service.
const PROMISED: [WalkMode; 2] = [WalkMode::SizesFromMetadata, WalkMode::GlimpseAhead];

/// Adds the targets that the document has figures for.
pub(super) fn judged(document: Document) -> Document {
    Document { bars: bars(&document), ..document }
}

fn bars(document: &Document) -> Vec<Bar> {
    let mut bars = Vec::new();
    if let Some(link) = document.millisecond() {
        let most = document.scale.datafiles.iter().copied().max().unwrap_or(0);
        for mode in PROMISED.map(WalkMode::name) {
            if let Some(point) = document.grid_points(&link.location, mode).find(|p| p.point.fixture.datafiles == most) {
                far(&mut bars, point, &format!("{mode}, {most} datafiles a file, {}", link.location));
            }
            if let Some(trend) = document.trends.iter().find(|t| t.location == link.location && t.method == mode) {
                slope(&mut bars, trend, link.asked_us);
            }
        }
    }
    near(&mut bars, document);
    makers(&mut bars, document);
    if let Some(copies) = &document.copies {
        let what =
            format!("{} files of {} bytes by `thalweg cp -r`, times as fast as `cp -r` onto the mount", copies.files, copies.bytes_each);
        bars.push(at_least(what, copies.ratio, OF_STOCK_COPY));
    }
    if let Some(crowd) = &document.crowd {
        let what = format!("99th percentile of a small write beside {} listings, times as long as alone", crowd.listings);
        bars.push(at_most(what, crowd.p99_ratio, BESIDE_LISTINGS));
    }
    bars
}

fn at_least(what: String, found: Estimate, least: f64) -> Bar {
    Bar { what, found, least, most: None, kept: found.median >= least }
}

fn at_most(what: String, found: Estimate, most: f64) -> Bar {
    Bar { what, found, least: 0.0, most: Some(most), kept: found.median <= most }
}

/// Returns the quotient of two unpaired figures: its interval covers both.
fn quotient(of: Estimate, to: Estimate) -> Estimate {
    Estimate { median: of.median / to.median, low: of.low / to.high, high: of.high / to.low, values: of.values.min(to.values) }
}

fn divided(by: f64, e: Estimate) -> Estimate {
    Estimate { median: e.median / by, low: e.low / by, high: e.high / by, values: e.values }
}

/// Adds targets over a link: relative to one file at a time, and to the bound by bytes and CPU time.
fn far(bars: &mut Vec<Bar>, point: &PointResult, what: &str) {
    if let Some(ratio) = point.of_synchronous {
        bars.push(at_least(format!("{what}: times as fast as one file at a time"), ratio, OF_SYNCHRONOUS));
    }
    if let Some(model) = point.model {
        let found = divided(model.bound_us.max(1e-9), point.per_file_us);
        bars.push(at_most(
            format!("{what}: the time as a multiple of max(bytes / bandwidth, processor time / processors)"),
            found,
            OF_BOUND,
        ));
    }
}

/// Adds targets for the cost of a datafile, and for its growth.
fn slope(bars: &mut Vec<Bar>, trend: &Trend, round_trip_us: f64) {
    let allowed = round_trip_us * OF_ROUND_TRIP;
    bars.push(at_most(format!("{}, {}: µs for each further datafile", trend.method, trend.location), trend.fit.slope, allowed));
    if let (Some(low), Some(high)) = (trend.low_us, trend.high_us) {
        let what = format!(
            "{}, {}: µs of a datafile from 16 to 32 of them, where from 4 to 8 it is {:.2} ({:.2} – {:.2}); flat or falling",
            trend.method, trend.location, low.median, low.low, low.high
        );
        // A difference within the intervals is none.
        bars.push(Bar {
            what,
            found: high,
            least: f64::MIN,
            most: Some(low.high.max(low.median)),
            kept: high.low <= low.high.max(low.median),
        });
    }
}

/// Adds targets without a link: 100,000 files of four datafiles, and relative to other systems.
fn near(bars: &mut Vec<Bar>, document: &Document) {
    let Some(link) = document.nearest() else { return };
    let Some((files, datafiles)) = document.scale.items.iter().copied().filter(|(files, _)| *files <= 100_000).max() else { return };
    let at = |p: &&PointResult| {
        let fixture = &p.point.fixture;
        (fixture.files, fixture.datafiles, fixture.targets) == (files, datafiles, document.scale.targets)
            && p.point.location == link.location
    };
    let points: Vec<&PointResult> = document.points.iter().filter(at).collect();
    for method in [COMMAND, WalkMode::SizesFromMetadata.name(), WalkMode::GlimpseAhead.name()] {
        if let Some(point) = points.iter().find(|p| p.method == method) {
            bars.push(at_most(
                format!("{method}, {files} files of {datafiles} datafiles, {}: µs a file", link.location),
                point.per_file_us,
                NEAR_US,
            ));
        }
    }
    let Some(ours) = points.iter().find(|p| p.method == COMMAND) else { return };
    // Compare with the fastest method of every other system.
    let peers = points.iter().filter(|p| method_rank(&p.method) == usize::MAX);
    if let Some(peer) = peers.min_by(|a, b| a.per_file_us.median.total_cmp(&b.per_file_us.median)) {
        let found = quotient(peer.per_file_us, ours.per_file_us);
        let what = format!("{COMMAND}, {files} files, {}: times as fast as {}, the fastest other", link.location, peer.method);
        bars.push(at_least(what, found, OF_PEER));
    }
}

/// Adds targets for one directory through the mount: more workers create no fewer files.
fn makers(bars: &mut Vec<Bar>, document: &Document) {
    let made = |workers: u32| {
        let made = document.names.iter().filter(|n| n.point.mounted && n.point.shared && n.point.bytes == 0 && n.point.stride == 0);
        made.filter(|n| n.phase == Phase::FileCreation).find(|n| n.point.workers == workers).map(|n| n.rate_per_s)
    };
    let [one, few, many] = MAKERS;
    let creation = format!("{} in one directory through the mount", Phase::FileCreation.name());
    if let Some(by_few) = made(few) {
        if let Some(by_one) = made(one) {
            bars.push(at_least(format!("{creation}, {few} workers, times as fast as {one}"), quotient(by_few, by_one), 1.0));
        }
        bars.push(at_least(format!("{creation}, {few} workers: files each second"), by_few, MADE_PER_S));
        if let Some(by_many) = made(many) {
            bars.push(at_least(format!("{creation}, {many} workers, times as fast as {few}"), quotient(by_many, by_few), FLAT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::document;

    #[test]
    fn promises_are_judged_by_what_was_found() {
        let mut document = document();
        document.links.iter_mut().find(|link| link.location == "1 ms").unwrap().asked_us = 1_000.0;
        let bars = super::bars(&document);
        let bar = |start: &str| bars.iter().find(|bar| bar.what.starts_with(start)).unwrap_or_else(|| panic!("{start}: {bars:#?}"));
        let fast = bar("metadata, 32 datafiles a file, 1 ms: times");
        assert!(fast.kept && (fast.found.median - 100.0).abs() < 1e-6);
        let bound = bar("metadata, 32 datafiles a file, 1 ms: the time");
        assert!(!bound.kept && (bound.found.median - 4.0).abs() < 1e-9);
        assert!(bar("metadata, 1 ms: µs for each").kept);
        assert!(bar("metadata, 1 ms: µs of a datafile from 16 to 32").kept);
        assert!(bar("10 files of 4096 bytes by `thalweg cp -r`").kept);
        assert!(bar("99th percentile").kept);
        let made = |rest: &str| bar(&format!("file creation in one directory through the mount, {rest}"));
        let flat = made("64 workers, times as fast as 8");
        assert!(!flat.kept && (flat.found.median - 0.8).abs() < 1e-9 && flat.least == 0.9);
        let more = made("8 workers, times as fast as 1");
        assert!(more.kept && (more.found.median - 1.2).abs() < 1e-9);
        let rate = made("8 workers: files each second");
        assert!(rate.kept && rate.found.median == 9_600.0 && rate.least == 9_000.0);
        document.copies.as_mut().unwrap().ratio.median = 4.0;
        assert!(super::bars(&document).iter().any(|bar| bar.what.starts_with("10 files") && !bar.kept));
    }
}
