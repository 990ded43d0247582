//! A sweep as a page of pictures: selects the figures of each. With more than two parameters, those that explain most are the axes, and the
//! others have their values at the best point.

use super::band::ProfileClass;
use super::heat::{HeatCell, HeatMap, heat_map};
use super::stacks::{Stack, Stacks, stacked};
use super::text::text;
use crate::interactive::document::DocumentPage;
use crate::plot::{self, Curve, Dot, MIB, Plot, Section};
use std::collections::BTreeMap;
use std::fmt::Write;
use thalweg_base::numbers::{byte_rate, duration, percent};
use thalweg_explain::Cause;
use thalweg_study::sweep::{ClassShare, Classes, Document, PointResult, State};

/// Maximum number of curves in one picture.
const MOST_CURVES: usize = 8;
/// Maximum number of points in the table.
const MOST_ROWS: usize = 400;

/// Returns the whole sweep as one HTML page.
pub fn page(document: &Document) -> String {
    let view = View::of(document);
    let short = text(document);
    let mut sections = vec![Section::Preformatted(short.clone())];
    sections.push(Section::Heading("Every point".into()));
    sections.push(Section::Picture(heat_map(&view.heat())));
    sections.push(Section::Heading("Along each parameter".into()));
    for n in 0..document.parameters.len() {
        sections.extend(view.curves(n).into_iter().map(|plot| Section::Plot(Box::new(plot))));
        for curve in view.curves_along(n) {
            sections.extend(view.stacks(n, curve).map(|stacks| Section::Picture(stacked(&stacks))));
            sections.extend(view.classes(n, curve).map(|stacks| Section::Picture(stacked(&stacks))));
        }
    }
    if let Some(plot) = view.pareto() {
        sections.extend([Section::Heading("Rate against CPU time".into()), Section::Plot(Box::new(plot))]);
    }
    sections.extend([Section::Heading("Points".into()), view.table()]);
    let server = document.server.as_ref().map(|server| format!("Server: {server}"));
    let ceiling = document.ceiling_command.as_ref().map(|command| format!("Ceiling: {command}"));
    let lead = [document.command.join(" ")].into_iter().chain(server).chain(ceiling).chain([document.machine.sentence()]);
    let title = format!("Sweep of {}", document.command.first().map_or("", String::as_str));
    plot::page(&plot::Page { title, lead: lead.collect(), sections }, &DocumentPage::of("sweep", document, &short))
}

/// A document with data common to all pictures.
struct View<'a> {
    document: &'a Document,
    has_rates: bool,
    by_values: BTreeMap<&'a [String], &'a PointResult>,
    /// The values of parameters that are not axes.
    fixed: Vec<String>,
    /// The parameters, by explained share, largest first.
    ranks: Vec<usize>,
}

impl<'a> View<'a> {
    fn of(document: &'a Document) -> View<'a> {
        let place = |name: &str| document.parameters.iter().position(|p| p.name == name);
        let mut ranks: Vec<usize> = document.findings.shares.iter().filter_map(|share| place(&share.parameter)).collect();
        ranks.extend((0..document.parameters.len()).filter(|n| !ranks.contains(n)).collect::<Vec<_>>());
        let done = document.points.iter().find(|point| point.state == State::Done).or(document.points.first());
        let fixed = document.findings.best.clone().or_else(|| done.map(|point| point.values.clone())).unwrap_or_default();
        let by_values = document.points.iter().map(|point| (point.values.as_slice(), point)).collect();
        View { document, has_rates: document.has_rates(), by_values, fixed, ranks }
    }

    /// Returns the point with these values, and those of the best point for all other parameters.
    fn at(&self, values: &[(usize, &str)]) -> Option<&'a PointResult> {
        let mut point = self.fixed.clone();
        for (n, label) in values {
            *point.get_mut(*n)? = (*label).to_owned();
        }
        self.by_values.get(point.as_slice()).copied()
    }

    fn labels(&self, n: usize) -> Vec<&'a str> {
        self.document.parameters[n].values.iter().map(|value| value.label.as_str()).collect()
    }

    fn name(&self, n: usize) -> String {
        self.document.parameters[n].name.clone()
    }

    fn figure(&self, value: f64) -> String {
        if self.has_rates { byte_rate(value) } else { duration(value) }
    }

    fn median(&self, point: &PointResult) -> Option<f64> {
        (if self.has_rates { point.rate_bytes_per_s } else { point.wall_s }).filter(|_| point.state == State::Done).map(|e| e.median)
    }

    /// Formats the values of parameters that are not axes.
    fn rest(&self, axes: &[usize]) -> String {
        self.rest_of(axes, None)
    }

    /// Formats the values of parameters that are not axes, on a curve of one of their values.
    fn rest_of(&self, axes: &[usize], curve: Option<(usize, &str)>) -> String {
        let value = |n: usize| curve.filter(|(of, _)| *of == n).map_or(self.fixed[n].as_str(), |(_, value)| value);
        let names = (0..self.fixed.len()).filter(|n| !axes.contains(n)).map(|n| format!("{}={}", self.name(n), value(n)));
        let text = names.collect::<Vec<_>>().join(" ");
        if text.is_empty() { text } else { format!(", at {text}") }
    }

    fn heat(&self) -> HeatMap {
        // The parameter with more values is horizontal.
        let mut axes: Vec<usize> = self.ranks.iter().copied().take(2).collect();
        axes.sort_by_key(|n| std::cmp::Reverse(self.document.parameters[*n].values.len()));
        let (x, y) = (axes[0], axes.get(1).copied());
        let medians = || self.document.points.iter().filter_map(|point| self.median(point));
        let (least, most) = (medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max));
        let level = |value: f64| if most > least { (value / least).ln() / (most / least).ln() } else { 0.5 };
        let rows: Vec<Option<&str>> = y.map_or_else(|| vec![None], |y| self.labels(y).into_iter().map(Some).collect());
        let row = |row: &Option<&str>| {
            let cell = |column: &str| {
                let values: Vec<(usize, &str)> = [(x, column)].into_iter().chain(y.zip(*row)).collect();
                let Some(point) = self.at(&values) else { return HeatCell { text: "not sampled".into(), ..HeatCell::default() } };
                let median = self.median(point);
                HeatCell {
                    text: median.map_or_else(|| point.state.name().to_owned(), |value| self.figure(value)),
                    cause: cause_of(point),
                    level: median.map(level),
                    is_best: self.document.findings.best.as_ref() == Some(&point.values),
                    hint: self.hint(point),
                }
            };
            self.labels(x).into_iter().map(cell).collect()
        };
        HeatMap {
            title: format!("{} at each point{}", if self.has_rates { "Rate" } else { "Time" }, self.rest(&axes)),
            subtitle: "median; colour and letters: the largest cause of a recorded run; framed: the best; hatched: no figure".into(),
            x_name: self.name(x),
            y_name: y.map_or_else(String::new, |y| self.name(y)),
            columns: self.labels(x).into_iter().map(str::to_owned).collect(),
            cells: rows.iter().map(row).collect(),
            rows: rows.into_iter().map(|row| row.unwrap_or_default().to_owned()).collect(),
        }
    }

    /// Returns the parameter that distinguishes the curves along another: the one that explains most of the rest.
    fn other(&self, x: usize) -> Option<usize> {
        self.ranks.iter().copied().find(|n| *n != x && self.document.parameters[*n].values.len() > 1)
    }

    /// Returns the curves along a parameter, by the value of the other; a single one if there is no other.
    fn curves_along(&self, x: usize) -> Vec<Option<(usize, &'a str)>> {
        let values = |n: usize| self.labels(n).into_iter().take(MOST_CURVES).map(|value| Some((n, value))).collect();
        self.other(x).map_or_else(|| vec![None], values)
    }

    /// Plots figure and CPU time against a parameter, with a curve for each value of the next most important one.
    fn curves(&self, x: usize) -> Vec<Plot> {
        if self.document.parameters[x].values.len() < 2 {
            return Vec::new();
        }
        let other = self.other(x);
        let axes: Vec<usize> = [x].into_iter().chain(other).collect();
        let curves = |dot: &dyn Fn(f64, &PointResult) -> Option<Dot>| -> Vec<Curve> {
            let of = |(look, curve): (usize, Option<(usize, &str)>)| Curve {
                name: curve.map_or_else(|| self.name(x), |(n, value)| format!("{}={value}", self.name(n))),
                look,
                dots: self.along(x, curve).into_iter().filter_map(|(at, point)| dot(at, point)).collect(),
                ..Curve::default()
            };
            self.curves_along(x).into_iter().enumerate().map(of).collect()
        };
        let frame = |title: &str, y_name: &str, curves| Plot {
            title: format!("{title} against {}{}", self.name(x), self.rest(&axes)),
            subtitle: "median and 95 % interval".into(),
            x_name: self.name(x),
            x_marks: self.marks(x),
            x_is_linear: !self.is_logarithmic(x),
            y_name: y_name.into(),
            curves,
            ..Plot::default()
        };
        let scale = if self.has_rates { MIB } else { 1.0 };
        let figure = |at: f64, point: &PointResult| {
            let e = (if self.has_rates { point.rate_bytes_per_s } else { point.wall_s })?;
            Some(Dot { x: at, y: e.median / scale, low: e.low / scale, high: e.high / scale, expected: None, hint: self.hint(point) })
        };
        let cpu = |of: &dyn Fn(&PointResult) -> Option<f64>, at: f64, point: &PointResult| {
            let y = of(point)?;
            Some(Dot { x: at, y, low: y, high: y, expected: None, hint: self.hint(point) })
        };
        let (title, unit) = if self.has_rates { ("Rate", "MiB/s") } else { ("Time", "seconds") };
        let mut plots = vec![frame(title, unit, curves(&figure))];
        plots[0].curves.extend(self.ceiling(x, other));
        plots.push(frame("Processor time of the command", "seconds", curves(&|at, point| cpu(&|p| p.client_cpu_s, at, point))));
        if self.document.points.iter().any(|point| point.server_cpu_s.is_some()) {
            plots.push(frame("Processor time of the server", "seconds", curves(&|at, point| cpu(&|p| p.server_cpu_s, at, point))));
        }
        plots
    }

    /// Returns the ceiling along a parameter: one figure, or as measured at each of its values. If the ceiling depends on the other
    /// parameter of the picture too, the value at the best point is used.
    fn ceiling(&self, x: usize, other: Option<usize>) -> Option<Curve> {
        let dot = |at: f64, [y, low, high]: [f64; 3]| {
            let hint = format!("the ceiling: {}", byte_rate(y));
            Dot { x: at, y: y / MIB, low: low / MIB, high: high / MIB, expected: None, hint }
        };
        let at_best = other.map(|n| (n, self.fixed[n].as_str()));
        let measured = |(label, at): (&str, f64)| {
            let point = self.at(&[(x, label)].into_iter().chain(at_best).collect::<Vec<_>>())?;
            point.ceiling_bytes_per_s.as_ref().map(|e| dot(at, [e.median, e.low, e.high]))
        };
        let dots: Vec<Dot> = match self.document.ceiling_bytes_per_s {
            Some(ceiling) => self.places(x).into_iter().map(|at| dot(at, [ceiling; 3])).collect(),
            None => self.labels(x).into_iter().zip(self.places(x)).filter_map(measured).collect(),
        };
        (self.has_rates && !dots.is_empty()).then(|| Curve { name: "ceiling".into(), is_reference: true, dots, ..Curve::default() })
    }

    /// Returns the points along a parameter that have figures, with their positions on the axis.
    fn along(&self, x: usize, other: Option<(usize, &str)>) -> Vec<(f64, &'a PointResult)> {
        let places = self.places(x);
        let point = |(label, at): (&str, f64)| Some((at, self.at(&[(x, label)].into_iter().chain(other).collect::<Vec<_>>())?));
        self.labels(x).into_iter().zip(places).filter_map(point).filter(|(_, point)| point.state == State::Done).collect()
    }

    /// Returns the positions of a parameter's values on an axis: words are equidistant.
    fn places(&self, x: usize) -> Vec<f64> {
        let values = &self.document.parameters[x].values;
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.number).collect();
        numbers.unwrap_or_else(|| (1..=values.len()).map(|n| n as f64).collect())
    }

    fn marks(&self, x: usize) -> Vec<(f64, String)> {
        self.places(x).into_iter().zip(self.labels(x)).map(|(at, label)| (at, label.to_owned())).collect()
    }

    fn is_logarithmic(&self, x: usize) -> bool {
        let places = self.places(x);
        let (least, most) = (places.iter().copied().fold(f64::INFINITY, f64::min), places.iter().copied().fold(0.0, f64::max));
        self.document.parameters[x].values.iter().all(|value| value.number.is_some()) && least > 0.0 && most / least >= 8.0
    }

    /// Returns why a bar is empty.
    fn note(point: Option<&PointResult>, missing: &str) -> String {
        point.map_or("not sampled", |point| if point.state == State::Done { missing } else { point.state.name() }).to_owned()
    }

    /// Returns the causes along a curve.
    fn stacks(&self, x: usize, curve: Option<(usize, &str)>) -> Option<Stacks<Cause>> {
        let stack = |label: &str| {
            let point = self.at(&[(x, label)].into_iter().chain(curve).collect::<Vec<_>>());
            let shares = point.and_then(|point| point.explanation.as_ref()).map_or(&[][..], |e| &e.shares);
            let known = |(cause, share): &(String, f64)| (Cause::from_name(cause).unwrap_or(Cause::Unknown), *share);
            Stack { label: label.to_owned(), shares: shares.iter().map(known).collect(), note: View::note(point, "not recorded") }
        };
        let stacks: Vec<Stack<Cause>> = self.labels(x).into_iter().map(stack).collect();
        stacks.iter().any(|stack| !stack.shares.is_empty()).then(|| Stacks {
            title: format!("Where the time goes along {}{}", self.name(x), self.rest_of(&[x], curve)),
            subtitle: "shares of the wall time of a recorded run".into(),
            x_name: self.name(x),
            stacks,
        })
    }

    /// Returns the profile classes along a curve, if profiles were taken.
    fn classes(&self, x: usize, curve: Option<(usize, &str)>) -> Option<Stacks<ProfileClass>> {
        let stack = |label: &str| {
            let point = self.at(&[(x, label)].into_iter().chain(curve).collect::<Vec<_>>());
            let profile = point.and_then(|point| point.profile.as_ref());
            let class = |(place, share): (usize, &ClassShare)| {
                (ProfileClass { name: share.class.clone(), title: share.title.clone(), place }, share.share)
            };
            let shares = profile.map_or(&[][..], |profile| &profile.shares).iter().enumerate().map(class).collect();
            let note = profile.map_or_else(|| View::note(point, "not profiled"), |profile| format!("{} samples", profile.samples));
            Stack { label: label.to_owned(), shares, note }
        };
        let mut stacks: Vec<Stack<ProfileClass>> = self.labels(x).into_iter().map(stack).collect();
        // A class has the same position in all bars, although some profiles lack it.
        let order: Vec<String> = self.class_order();
        for (class, _) in stacks.iter_mut().flat_map(|stack| &mut stack.shares) {
            class.place = order.iter().position(|name| *name == class.name).unwrap_or(order.len());
        }
        stacks.iter().any(|stack| !stack.shares.is_empty()).then(|| Stacks {
            title: format!("What processors did along {}{}", self.name(x), self.rest_of(&[x], curve)),
            subtitle: "shares of this machine's CPU time in a profiled run, including idle time".into(),
            x_name: self.name(x),
            stacks,
        })
    }

    /// Returns every class of any point: those of the profile with the most classes first, in its order.
    fn class_order(&self) -> Vec<String> {
        let mut profiles: Vec<&Classes> = self.document.points.iter().filter_map(|point| point.profile.as_ref()).collect();
        profiles.sort_by_key(|profile| std::cmp::Reverse(profile.shares.len()));
        let mut order: Vec<String> = Vec::new();
        for share in profiles.into_iter().flat_map(|profile| &profile.shares) {
            if !order.contains(&share.class) {
                order.push(share.class.clone());
            }
        }
        order
    }

    /// Plots rate (or runs per second) against CPU time: the Pareto front, and the other points.
    fn pareto(&self) -> Option<Plot> {
        let gain = |point: &PointResult| self.median(point).map(|value| if self.has_rates { value / MIB } else { 1.0 / value });
        let cost = |point: &PointResult| if self.has_rates { point.cpu_ns_per_byte } else { point.cpu_s() };
        let mut points: Vec<(f64, f64, &PointResult)> =
            self.document.points.iter().filter_map(|point| Some((cost(point).filter(|cost| *cost > 0.0)?, gain(point)?, point))).collect();
        if points.len() < 2 {
            return None;
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let (mut front, mut rest, mut most) = (Vec::new(), Vec::new(), 0.0);
        for (x, y, point) in points.iter().copied() {
            let dot = Dot { x, y, low: y, high: y, expected: None, hint: self.hint(point) };
            if y > most {
                most = y;
                front.push(dot);
            } else {
                rest.push(dot);
            }
        }
        let (x_name, y_name) =
            if self.has_rates { ("CPU time of both ends, ns per byte", "MiB/s") } else { ("CPU time of both ends, s", "runs/s") };
        let marks = [points.first()?.0, points.last()?.0].map(|at| (at, if self.has_rates { format!("{at:.2}") } else { duration(at) }));
        let ceilings = self.document.points.iter().filter_map(|point| point.ceiling_bytes_per_s.map(|e| e.median));
        let ceiling = self.document.ceiling_bytes_per_s.or(ceilings.reduce(f64::max)).filter(|_| self.has_rates);
        let line = ceiling.map(|ceiling| {
            let y = ceiling / MIB;
            let dot = |x| Dot { x, y, low: y, high: y, expected: None, hint: format!("the ceiling: {}", byte_rate(ceiling)) };
            let dots = [points.first(), points.last()].into_iter().flatten().map(|(x, _, _)| dot(*x)).collect();
            Curve { name: "ceiling".into(), is_reference: true, dots, ..Curve::default() }
        });
        Some(Plot {
            title: "Rate against CPU time".into(),
            subtitle: "line: Pareto front, no other point is faster with less CPU time; point at a mark for its values".into(),
            x_name: x_name.into(),
            x_marks: marks.to_vec(),
            x_is_linear: true,
            y_name: y_name.into(),
            curves: [
                Curve { name: "other points".into(), look: 8, is_loose: true, dots: rest, ..Curve::default() },
                Curve { name: "Pareto front".into(), look: 1, dots: front, ..Curve::default() },
            ]
            .into_iter()
            .chain(line)
            .collect(),
            ..Plot::default()
        })
    }

    /// Returns the tooltip of a point.
    fn hint(&self, point: &PointResult) -> String {
        let mut text = format!("{}: {}", self.document.name(&point.values), point.state.name());
        if let Some(wall) = &point.wall_s {
            let seconds: Vec<f64> = point.runs.iter().map(|run| run.wall_s).collect();
            let (least, most) = (seconds.iter().copied().fold(f64::INFINITY, f64::min), seconds.iter().copied().fold(0.0, f64::max));
            let _ = write!(
                text,
                ", {} ({} to {}), {} runs from {} to {}",
                duration(wall.median),
                duration(wall.low),
                duration(wall.high),
                wall.values,
                duration(least),
                duration(most)
            );
        }
        if let Some(rate) = &point.rate_bytes_per_s {
            let _ = write!(text, "; {} ({} to {})", byte_rate(rate.median), byte_rate(rate.low), byte_rate(rate.high));
        }
        if let Some(part) = &point.of_ceiling {
            let _ = write!(text, "; {} of the ceiling ({} to {})", percent(part.median), percent(part.low), percent(part.high));
        }
        if let Some(explanation) = &point.explanation {
            let shares = explanation.shares.iter().take(4).map(|(cause, share)| format!("{cause} {}", percent(*share)));
            let _ = write!(text, ". {} {}", explanation.sentence, shares.collect::<Vec<_>>().join(", "));
        }
        if let Some(problem) = &point.problem {
            let _ = write!(text, ": {problem}");
        }
        if let Some(cache) = &point.cache {
            let _ = write!(text, ". Caches: {cache}");
        }
        text
    }

    fn table(&self) -> Section {
        let names = (0..self.document.parameters.len()).map(|n| self.name(n));
        let heads =
            ["state", "time", "95 % interval", "rate", "of the ceiling", "CPU of command", "CPU of server", "runs", "cause", "in words"];
        let cell = |value: Option<f64>| value.map_or_else(String::new, duration);
        let row = |point: &PointResult| {
            let wall = point.wall_s.as_ref();
            let figures = [
                point.state.name().to_owned(),
                cell(wall.map(|e| e.median)),
                wall.map_or_else(String::new, |e| format!("{} – {}", duration(e.low), duration(e.high))),
                point.rate_bytes_per_s.map_or_else(String::new, |e| byte_rate(e.median)),
                point.of_ceiling.map_or_else(String::new, |e| percent(e.median)),
                cell(point.client_cpu_s),
                cell(point.server_cpu_s),
                point.runs.len().to_string(),
                point.explanation.as_ref().map_or_else(String::new, |e| e.cause.clone()),
                point.problem.clone().or_else(|| point.explanation.as_ref().map(|e| e.sentence.clone())).unwrap_or_default(),
            ];
            point.values.iter().cloned().chain(figures).collect()
        };
        Section::Table(names.chain(heads.map(String::from)).collect(), self.document.points.iter().take(MOST_ROWS).map(row).collect())
    }
}

fn cause_of(point: &PointResult) -> Option<Cause> {
    point.explanation.as_ref().and_then(|e| Cause::from_name(&e.cause))
}
