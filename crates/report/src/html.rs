//! The picture and the text on one page that needs nothing else: no script, no style sheet, no network.

use crate::Result;
use crate::columns::rounded_to_sum;
use crate::page::TextOptions;
use crate::picture::canvas::escape;
use crate::picture::{PictureOptions, svg};
use crate::text::text;
use crate::waits;
use std::fmt::Write;
use thalweg_explain::document::Explanation;
use thalweg_trace::{Source, numbers};

/// How long the line of a stack may be on a page.
const WAIT_COLUMNS: usize = 160;

pub(crate) const STYLE: &str = "
:root { color-scheme: light dark; --paper: #fff; --ink: #1b2430; --faint: #5a6573; --rule: #d8dce2 }
@media (prefers-color-scheme: dark) { :root { --paper: #14181d; --ink: #e4e8ec; --faint: #9aa5b1; --rule: #343c46 } }
body { margin: 0 auto; max-width: 1440px; padding: 24px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.45rem; line-height: 1.35; max-width: 60em; margin: 0 0 .4em }
h2 { font-size: 1.05rem; margin: 2em 0 .5em }
p { margin: .3em 0; max-width: 60em }
.faint { color: var(--faint) }
.picture { background: #fff; border: 1px solid var(--rule); border-radius: 6px; margin: 1.4em 0; overflow-x: auto }
.picture svg { display: block; width: 100%; min-width: 900px; height: auto }
.tables { overflow-x: auto }
table { border-collapse: collapse }
th, td { text-align: left; padding: .3em 1.2em .3em 0; border-bottom: 1px solid var(--rule); vertical-align: top }
th { font-weight: 600 }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
code, pre { font: 13px/1.45 ui-monospace, monospace }
pre { overflow-x: auto; padding: 1em; border: 1px solid var(--rule); border-radius: 6px }
";

/// One self-contained page: the verdict, the picture, the tables, and the text as a terminal shows it.
pub fn html(source: &dyn Source, explanation: &Explanation, options: &PictureOptions) -> Result<String> {
    let picture = svg(source, explanation, options)?;
    let sentence = escape(&explanation.verdict.sentence);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{sentence}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{sentence}</h1>\n<p class=\"faint\"><code>{}</code></p>\n\
         <div class=\"picture\">\n{picture}</div>\n",
        escape(&explanation.command.join(" ")),
    );
    charges(&mut page, explanation);
    what_ifs(&mut page, explanation);
    let plain = text(explanation, &TextOptions { width: 100, colour: false });
    let lines: Vec<String> = plain.lines().map(escape).collect();
    let _ = write!(page, "<h2>The same as text</h2>\n<pre>{}</pre>\n</body>\n</html>\n", lines.join("\n"));
    Ok(page)
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
            charge.cause.name(),
            escape(&charge.place),
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
            escape(&w.how),
        );
    }
    page.push_str("</table></div>\n");
}
