//! The page of a recording: one self-contained file, no external style sheet, no network. Its static part, for readers without scripts,
//! has the answer, the picture, the tables and the text; the app in it ([`crate::interactive`]) draws the same data to be explored.

use crate::Result;
use crate::interactive::Data;
use crate::page::TextOptions;
use crate::picture::canvas::escape;
use crate::picture::{PictureOptions, svg};
use crate::plot::sections;
use crate::rpcstat::rpcstat_sections;
use crate::short::short;
use crate::text::text;
use crate::waits;
use crate::words::{cause_name, place_name};
use std::fmt::Write;
use thalweg_base::numbers::rounded_to_sum;
use thalweg_base::{numbers, shell};
use thalweg_explain::document::Explanation;
use thalweg_explain::rpcstat::RpcStat;
use thalweg_trace::Source;

/// Columns of a stack's line on a page.
const WAIT_COLUMNS: usize = 160;
/// Name of the packet recorder.
const PACKETS: &str = "capture";

/// Makes a self-contained page: the app with its data, and what it replaces when it has started: verdict, answer, picture, tables, and
/// the text as a terminal shows it. Plots of the RPCs follow the main picture; for a recording of packets alone they are the main picture.
pub fn html(source: &dyn Source, explanation: &Explanation, options: &PictureOptions, rpcs: Option<&RpcStat>) -> Result<String> {
    // Each of the two reads the spans, which takes seconds of a large recording.
    let (data, picture) = std::thread::scope(|scope| {
        let picture = scope.spawn(|| svg(source, explanation, options));
        let data = Data::read(source, explanation, rpcs);
        (data, picture.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    Ok(data?.page(explanation, &static_part(explanation, rpcs, &picture?)))
}

/// Returns the static part, with the picture.
fn static_part(explanation: &Explanation, rpcs: Option<&RpcStat>, picture: &str) -> String {
    let picture = format!("<div class=\"picture both\">\n{}</div>\n", without_style(picture));
    let pictures = match rpcs {
        None => picture,
        Some(rpcs) if rpcs.recorder == PACKETS => {
            format!("{}<h2>By connection</h2>\n{picture}", sections(&rpcstat_sections(rpcs)))
        }
        Some(rpcs) => format!("{picture}<h2>RPCs</h2>\n<p>{}</p>\n{}", escape(&rpcs.sentence), sections(&rpcstat_sections(rpcs))),
    };
    let mut page = format!("<h1>{}</h1>\n", escape(&explanation.verdict.sentence));
    let _ = writeln!(page, "<p class=\"faint\"><code>{}</code></p>", escape(&explanation.command.join(" ")));
    let _ = write!(page, "<pre>{}</pre>\n{pictures}", lines(&short(explanation, &TextOptions::default(), None)));
    charges(&mut page, explanation);
    what_ifs(&mut page, explanation);
    advice(&mut page, explanation);
    let plain = text(explanation, &TextOptions { width: 100, colour: false });
    let _ = writeln!(page, "<h2>As text</h2>\n<pre>{}</pre>", lines(&plain));
    page
}

/// Removes a picture's style element, which the page's content security policy refuses. The page's own style has the rules of a dark
/// page, for pictures of the class `both`.
pub(crate) fn without_style(picture: &str) -> String {
    const END: &str = "</style>";
    match (picture.find("<style>"), picture.find(END)) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &picture[..from], picture[to + END.len()..].trim_start_matches('\n')),
        _ => picture.to_owned(),
    }
}

/// Escapes a text line by line.
fn lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

fn charges(page: &mut String, e: &Explanation) {
    page.push_str("<h2>Where the time went</h2>\n<div class=\"tables\"><table>\n<tr><th>cause</th><th>where</th>");
    page.push_str("<th class=\"n\">seconds</th><th class=\"n\">share</th><th>evidence</th></tr>\n");
    let seconds: Vec<f64> = e.critical_path.iter().map(|c| c.seconds).collect();
    let shares: Vec<f64> = e.critical_path.iter().map(|c| c.share).collect();
    let unit = if e.wall_s >= 1.0 { 1e-3 } else { 1e-6 };
    let digits = if e.wall_s >= 1.0 { 3 } else { 6 };
    let (seconds, shares) = (rounded_to_sum(&seconds, unit), rounded_to_sum(&shares, 1e-3));
    for (charge, (seconds, share)) in e.critical_path.iter().zip(seconds.iter().zip(&shares)) {
        let waits: String = charge.waits.iter().map(|wait| format!("<br>{}", escape(&waits::line(wait, WAIT_COLUMNS)))).collect();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{seconds:.digits$}</td><td class=\"n\">{}</td><td>{}{waits}</td></tr>",
            cause_name(e, charge.cause),
            escape(place_name(e, &charge.place)),
            numbers::percent(*share),
            escape(&charge.evidence),
        );
    }
    let (seconds, share) = (seconds.iter().sum::<f64>(), shares.iter().sum::<f64>());
    let _ = writeln!(
        page,
        "<tr><th>wall time</th><th></th><th class=\"n\">{seconds:.digits$}</th><th class=\"n\">{}</th><th></th></tr>\n</table></div>",
        numbers::percent(share)
    );
}

/// Formats how a change is made, in words or as a command, and what it gives up.
fn made_by(how: &str, command: &[String], gives_up: Option<&str>) -> String {
    let how = if command.is_empty() { how.to_owned() } else { shell::line(command) };
    gives_up.map_or(how.clone(), |gives_up| format!("{how} (gives up {gives_up})"))
}

fn advice(page: &mut String, e: &Explanation) {
    if e.advice.is_empty() {
        return;
    }
    page.push_str("<h2>Further changes known to help, without a predicted gain</h2>\n<div class=\"tables\"><table>\n<tr><th>against</th><th>change</th><th>how</th></tr>\n");
    for a in &e.advice {
        let how = escape(&made_by(&a.source, &a.command, a.gives_up.as_deref()));
        let _ = writeln!(page, "<tr><td>{}</td><td>{}</td><td><code>{how}</code></td></tr>", cause_name(e, a.cause), escape(&a.says));
    }
    page.push_str("</table></div>\n");
}

fn what_ifs(page: &mut String, e: &Explanation) {
    if e.what_if.is_empty() {
        return;
    }
    page.push_str("<h2>What a change would give</h2>\n<div class=\"tables\"><table>\n<tr><th>change</th>");
    page.push_str("<th class=\"n\">predicted</th><th class=\"n\">speedup</th><th>how</th></tr>\n");
    for w in &e.what_if {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{:.2}×</td><td><code>{}</code></td></tr>",
            escape(&w.change),
            numbers::duration(w.predicted_wall_s),
            w.speedup,
            escape(&made_by(&w.how, &w.command, w.gives_up.as_deref())),
        );
    }
    page.push_str("</table></div>\n");
}
