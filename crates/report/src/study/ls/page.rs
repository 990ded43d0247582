//! A study of listings as a page of plots: selects the figures of each picture.

use super::figures::{figure, interval, promised};
use super::markdown::markdown;
use crate::interactive::document::DocumentPage;
use crate::plot::{self, Curve, Dot, Page, Plot, Section};
use crate::study::bars::promises;
use crate::study::{Named, Picture, drawn};
use thalweg_base::numbers::count;
use thalweg_measure::Estimate;
use thalweg_study::ls::{COMMAND, Document, MOUNT, NamesResult, Phase, PointResult, WalkMode, method_rank};

/// Position of "never written" on a logarithmic axis of datafiles.
const NEVER: f64 = 0.5;

/// Returns all pictures of a study, each as SVG.
pub fn pictures(document: &Document) -> Vec<Picture> {
    drawn(plots(document))
}

fn plots(document: &Document) -> Vec<Named> {
    let mut pictures = Vec::new();
    let locations: Vec<&str> = document.locations().collect();
    for location in &locations {
        pictures.extend(all_mechanisms(document, location));
    }
    for location in &locations {
        pictures.extend(straight_lines(document, location));
    }
    pictures.extend(round_trips(document));
    pictures.extend(processors(document));
    pictures.extend(items(document));
    pictures.extend(targets(document));
    pictures.extend([false, true].into_iter().flat_map(|shared| names(document, shared)));
    pictures.retain(|picture| picture.plot.curves.iter().any(|curve| !curve.dots.is_empty()));
    pictures
}

/// Returns a location's name for use in a file name.
fn file_name(location: &str) -> String {
    location.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

/// Returns the look of a method of listing, the same in every picture.
fn look(method: &str) -> usize {
    let rank = method_rank(method);
    if rank < 6 { rank } else { 6 + method.bytes().map(usize::from).sum::<usize>() % 3 }
}

/// Returns the name of a method of listing in legends.
fn title(how: &str) -> String {
    let titles = [
        (WalkMode::Synchronous, "one file at a time"),
        (WalkMode::Statahead, "attributes ahead"),
        (WalkMode::GlimpseAhead, "sizes ahead too"),
        (WalkMode::SizesFromMetadata, "sizes from the service"),
    ];
    titles.iter().find(|(mode, _)| mode.name() == how).map_or_else(|| how.to_owned(), |(_, title)| (*title).to_owned())
}

fn dot(x: f64, e: &Estimate, expected: Option<f64>, hint: String) -> Dot {
    Dot { x, y: e.median, low: e.low, high: e.high, expected, hint }
}

/// Returns the tooltip of a mark.
fn hint(p: &PointResult) -> String {
    let (e, fixture) = (&p.per_file_us, &p.point.fixture);
    let mut text = format!(
        "{}, {} files of {} datafiles, {}: {} µs a file ({} – {}), {} runs",
        title(&p.method),
        count(fixture.files),
        fixture.datafiles,
        p.point.location,
        figure(e.median),
        figure(e.low),
        figure(e.high),
        e.values
    );
    if let Some(times) = &p.of_synchronous {
        text += &format!("; {} times as fast as one file at a time", figure(times.median));
    }
    if let Some(requests) = p.requests_per_file {
        text += &format!("; {} requests a file", figure(requests));
    }
    if let Some(model) = &p.model {
        text += &format!("; bytes and processors allow {} µs", figure(model.bound_us));
    }
    text
}

/// Returns the bound by bytes and CPU time, for our own prefetching methods, which are compared with it.
fn bound(p: &PointResult) -> Option<f64> {
    let ahead = [WalkMode::GlimpseAhead.name(), WalkMode::SizesFromMetadata.name(), COMMAND];
    p.model.as_ref().filter(|_| ahead.contains(&p.method.as_str())).map(|model| model.bound_us)
}

/// Formats a location for a title.
fn from(document: &Document, location: &str) -> String {
    let is_beyond = document.links.iter().any(|link| link.location == location && link.asked_us > 0.0);
    if is_beyond { format!("a round trip of {location}") } else { location.to_owned() }
}

/// Returns the methods of listing in these points, in order, each with its points.
fn by_method<'a>(points: impl Iterator<Item = &'a PointResult>) -> Vec<(&'a str, Vec<&'a PointResult>)> {
    let mut all: Vec<(&str, Vec<&PointResult>)> = Vec::new();
    for p in points {
        match all.iter_mut().find(|(how, _)| *how == p.method) {
            Some((_, points)) => points.push(p),
            None => all.push((&p.method, vec![p])),
        }
    }
    all.sort_by_key(|(how, _)| (method_rank(how), *how));
    all
}

fn curve(how: &str, mut dots: Vec<Dot>) -> Curve {
    dots.sort_by(|a, b| a.x.total_cmp(&b.x));
    Curve { name: title(how), look: look(how), is_reference: how == WalkMode::Synchronous.name(), is_loose: false, dots }
}

/// Plots every mechanism over the number of datafiles, on a logarithmic axis.
fn all_mechanisms(document: &Document, location: &str) -> Option<Named> {
    let at = |datafiles: u32| if datafiles == 0 { NEVER } else { f64::from(datafiles) };
    let curves = by_method(document.grid(location)).into_iter().map(|(how, points)| {
        let shown = points.into_iter().map(|p| dot(at(p.point.fixture.datafiles), &p.per_file_us, None, hint(p)));
        curve(how, shown.collect())
    });
    let mark = |datafiles: &u32| (at(*datafiles), if *datafiles == 0 { "never written".into() } else { datafiles.to_string() });
    let plot = Plot {
        title: format!("What a file costs in a listing: {}", from(document, location)),
        subtitle: format!("{} files in the directory; median and 95 % interval", count(document.scale.files)),
        x_name: "datafiles of each file".into(),
        x_marks: document.scale.datafiles.iter().map(mark).collect(),
        y_name: "µs a file".into(),
        y_is_log: true,
        curves: curves.collect(),
        ..Plot::default()
    };
    Some(Named { name: format!("ls-mechanisms-{}", file_name(location)), plot })
}

/// Plots prefetching methods over the number of datafiles, on linear axes: intercept and slope.
fn straight_lines(document: &Document, location: &str) -> Option<Named> {
    let ahead = [WalkMode::GlimpseAhead.name(), WalkMode::SizesFromMetadata.name(), COMMAND];
    let curves = ahead.iter().filter_map(|how| {
        let trend = document.trends.iter().find(|t| t.location == location && t.method == *how)?;
        let points = document.grid_points(location, how);
        let dots = points.map(|p| dot(f64::from(p.point.fixture.datafiles), &p.per_file_us, bound(p), hint(p))).collect();
        let mut curve = curve(how, dots);
        let (at_all, each) = (trend.fit.intercept.median, trend.fit.slope.median);
        let sign = if each < 0.0 { '−' } else { '+' };
        let short = title(how).replace(" too", "").replace(" from the service", " proved").replace(" -lU", "");
        curve.name = format!("{short}: {} {sign} {} n", figure(at_all), figure(each.abs()));
        Some(curve)
    });
    let plot = Plot {
        title: format!("A file, and each of its n datafiles, with everything ahead: {}", from(document, location)),
        subtitle: "at the curves' ends: the straight line, µs; a flat line left of a mark: what bytes and processors allow".into(),
        x_name: "datafiles of each file (0: never written)".into(),
        x_marks: document.scale.datafiles.iter().filter(|n| **n == 0 || **n >= 4).map(|n| (f64::from(*n), n.to_string())).collect(),
        x_is_linear: true,
        y_name: "µs a file".into(),
        curves: curves.collect(),
        ..Plot::default()
    };
    Some(Named { name: format!("ls-slope-{}", file_name(location)), plot })
}

/// Plots files with the most datafiles over the round-trip time.
fn round_trips(document: &Document) -> Option<Named> {
    let most = document.scale.datafiles.iter().copied().max()?;
    // A round-trip time of 0 has no place on a logarithmic axis: the measured time of a request is used.
    let at = |location: &str| document.links.iter().find(|link| link.location == location).map_or(1.0, |link| link.round_trip_us.max(1.0));
    let points = document.locations().flat_map(|location| document.grid(location)).filter(|p| p.point.fixture.datafiles == most);
    let curves = by_method(points).into_iter().map(|(how, points)| {
        curve(how, points.into_iter().map(|p| dot(at(&p.point.location), &p.per_file_us, bound(p), hint(p))).collect())
    });
    let plot = Plot {
        title: format!("Files of {most} datafiles over the round trip"),
        subtitle: "a flat line left of a mark: what bytes and processors allow".into(),
        x_name: "round trip (each at the place of a request's measured time)".into(),
        x_marks: document.locations().map(|location| (at(location), location.to_owned())).collect(),
        y_name: "µs a file".into(),
        y_is_log: true,
        curves: curves.collect(),
        ..Plot::default()
    };
    (document.links.len() > 1).then(|| Named { name: "ls-round-trips".into(), plot })
}

/// Plots CPU time of both sides over the number of datafiles.
fn processors(document: &Document) -> Option<Named> {
    let location = document.nearest()?.location.as_str();
    let mut curves = Vec::new();
    for (how, aside) in [(WalkMode::GlimpseAhead.name(), 0), (WalkMode::SizesFromMetadata.name(), 2)] {
        let client =
            document.grid_points(location, how).map(|p| dot(f64::from(p.point.fixture.datafiles), &p.client_cpu_us, None, hint(p)));
        let mut client = curve(how, client.collect());
        (client.name, client.look) = (format!("{}: client", title(how)), aside);
        let servers = document
            .grid_points(location, how)
            .filter_map(|p| Some(dot(f64::from(p.point.fixture.datafiles), p.server_cpu_us.as_ref()?, None, hint(p))));
        let mut servers = curve(how, servers.collect());
        (servers.name, servers.look) = (format!("{}: servers", title(how)), aside + 1);
        curves.extend([client, servers]);
    }
    let plot = Plot {
        title: format!("CPU time of a file, {location}"),
        subtitle: "of the client's process, and of all servers".into(),
        x_name: "datafiles of each file (0: never written)".into(),
        x_marks: document.scale.datafiles.iter().filter(|n| **n == 0 || **n >= 4).map(|n| (f64::from(*n), n.to_string())).collect(),
        x_is_linear: true,
        y_name: "µs a file".into(),
        curves,
        ..Plot::default()
    };
    Some(Named { name: "ls-processors".into(), plot })
}

/// Plots files in a directory, without a link, and other systems.
fn items(document: &Document) -> Option<Named> {
    let location = document.nearest()?.location.as_str();
    let is_item = |p: &&PointResult| {
        let fixture = &p.point.fixture;
        let is_one = document.scale.items.contains(&(fixture.files, fixture.datafiles));
        is_one && fixture.targets == document.scale.targets && p.point.location == location
    };
    let curves = by_method(document.points.iter().filter(is_item)).into_iter().map(|(how, points)| {
        curve(how, points.into_iter().map(|p| dot(p.point.fixture.files as f64, &p.per_file_us, bound(p), hint(p))).collect())
    });
    let mark = |(files, datafiles): &(u64, u32)| (*files as f64, format!("{} × {datafiles}", short_count(*files)));
    let plot = Plot {
        title: format!("Files in one directory, {location}"),
        subtitle:
            "below the axis: files × datafiles of each (0: never written); a flat line left of a mark: what bytes and processors allow"
                .into(),
        x_name: "files in the directory".into(),
        x_marks: document.scale.items.iter().map(mark).collect(),
        y_name: "µs a file".into(),
        y_is_log: true,
        curves: curves.collect(),
        ..Plot::default()
    };
    Some(Named { name: "ls-items".into(), plot })
}

fn short_count(files: u64) -> String {
    match files {
        n if n >= 1_000_000 && n.is_multiple_of(1_000_000) => format!("{} M", n / 1_000_000),
        n if n >= 1_000 && n.is_multiple_of(1_000) => format!("{} k", n / 1_000),
        n => n.to_string(),
    }
}

/// Plots targets on each server.
fn targets(document: &Document) -> Option<Named> {
    let files = document.scale.files.min(10_000);
    let on_axis = |p: &&PointResult| {
        p.point.fixture.files == files && document.scale.targets_axis.contains(&p.point.fixture.targets) && method_rank(&p.method) != 0
    };
    let points: Vec<&PointResult> = document.points.iter().filter(on_axis).collect();
    // A single number of targets makes no axis.
    points.iter().find(|p| p.point.fixture.targets != document.scale.targets)?;
    let mut curves = Vec::new();
    for location in document.locations() {
        for (how, points) in by_method(points.iter().copied().filter(|p| p.point.location == location)) {
            let dots = points.into_iter().map(|p| dot(f64::from(p.point.fixture.targets), &p.per_file_us, bound(p), hint(p)));
            let mut curve = curve(how, dots.collect());
            (curve.name, curve.look) = (format!("{}, {location}", title(how)), curves.len());
            curves.push(curve);
        }
    }
    let plot = Plot {
        title: "Targets on each server".into(),
        subtitle: format!(
            "{} files of {} datafiles on {} servers",
            count(files),
            points[0].point.fixture.datafiles,
            document.scale.servers
        ),
        x_name: "targets on each server".into(),
        x_marks: document.scale.targets_axis.iter().map(|n| (f64::from(*n), n.to_string())).collect(),
        y_name: "µs a file".into(),
        curves,
        ..Plot::default()
    };
    Some(Named { name: "ls-targets".into(), plot })
}

/// The phases of mdtest with a picture, with the suffix of its name and its title. Trees have one directory per worker.
const PICTURED: [(Phase, &str, &str); 5] = [
    (Phase::DirectoryCreation, "directory", "Directories made"),
    (Phase::FileCreation, "create", "Files created and closed"),
    (Phase::FileStat, "stat", "Files asked for"),
    (Phase::FileRead, "read", "Files read"),
    (Phase::FileRemoval, "remove", "Files removed"),
];

/// Plots names per second over the number of workers.
fn names(document: &Document, shared: bool) -> Vec<Named> {
    let directory = if shared { "one directory for all" } else { "a directory for each" };
    let picture = |(phase, end, title): (Phase, &str, &str)| {
        let kind = |n: &NamesResult| (n.point.mounted, n.point.batch, n.point.bytes);
        let mut kinds: Vec<(bool, u32, u32)> = Vec::new();
        let chosen: Vec<&NamesResult> = document.names.iter().filter(|n| n.phase == phase && n.point.shared == shared).collect();
        for n in &chosen {
            if !kinds.contains(&kind(n)) {
                kinds.push(kind(n));
            }
        }
        let curves = kinds.into_iter().enumerate().map(|(look, (mounted, batch, bytes))| {
            let name = match (mounted, batch) {
                (true, _) => "system calls on the mount".to_owned(),
                (false, 1) => "library, one at a time".to_owned(),
                (false, batch) => format!("library, {batch} in a request"),
            };
            let name = if bytes > 0 { format!("{name}; {} bytes, others' files", count(bytes.into())) } else { name };
            let points = chosen.iter().filter(|n| kind(n) == (mounted, batch, bytes));
            let dots = points.map(|n| {
                let rate = format!("{} workers: {} each second", n.point.workers, figure(n.rate_per_s.median));
                dot(f64::from(n.point.workers), &n.rate_per_s, None, format!("{name}, {rate}"))
            });
            Curve { dots: dots.collect(), name: name.clone(), look, ..Curve::default() }
        });
        let plot = Plot {
            title: format!("{title} each second, {directory}"),
            subtitle: "mdtest's pattern; median and 95 % interval".into(),
            x_name: "workers".into(),
            x_marks: document.scale.workers.iter().map(|n| (f64::from(*n), n.to_string())).collect(),
            y_name: "names a second".into(),
            y_is_log: true,
            curves: curves.collect(),
            ..Plot::default()
        };
        Named { name: format!("ls-names-{}-{end}", if shared { "shared" } else { "own" }), plot }
    };
    PICTURED.into_iter().map(picture).collect()
}

/// Returns the whole study as one HTML page.
pub fn page(document: &Document) -> String {
    let mut sections = promises(&document.bars, interval, promised);
    sections.push(Section::Heading("Pictures".into()));
    sections.extend(plots(document).into_iter().map(|picture| Section::Plot(Box::new(picture.plot))));
    sections.push(Section::Heading("Every point".into()));
    let heads = [
        "how",
        "from",
        "files",
        "datafiles",
        "servers × targets",
        "µs a file",
        "× one at a time",
        "requests a file",
        "bound",
        "client CPU",
        "server CPU",
    ];
    let rows = document.points.iter().map(|p| {
        let (e, fixture) = (&p.per_file_us, &p.point.fixture);
        let middle = |e: Option<&Estimate>| e.map_or_else(String::new, |e| figure(e.median));
        vec![
            p.method.clone(),
            p.point.location.clone(),
            count(fixture.files),
            fixture.datafiles.to_string(),
            format!("{} × {}", fixture.servers, fixture.targets),
            interval(e),
            middle(p.of_synchronous.as_ref()),
            p.requests_per_file.map_or_else(String::new, figure),
            bound(p).map_or_else(String::new, figure),
            figure(p.client_cpu_us.median),
            middle(p.server_cpu_us.as_ref()),
        ]
    });
    sections.push(Section::Table(heads.map(String::from).to_vec(), rows.collect()));
    if !document.problems.is_empty() {
        sections.push(Section::Heading("Not measured".into()));
        sections.extend(document.problems.iter().map(|problem| Section::Text(problem.clone())));
    }
    let mount = format!("`{MOUNT}`: the mount is made anew for each run, so the kernel knows nothing of the directory.");
    let page = Page {
        title: "What a listing costs".into(),
        lead: [document.machine.sentence(), document.label.clone(), mount].into_iter().filter(|text| !text.is_empty()).collect(),
        sections,
    };
    plot::page(&page, &DocumentPage::of("ls", document, &markdown(document)))
}
