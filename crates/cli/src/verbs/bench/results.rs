//! The files of a study's result: writes them, and makes them again.

use crate::interrupt::Interrupt;
use crate::{failure::Failure, output};
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use thalweg_measure::{Observer, Progress};
use thalweg_report::study::Picture;

/// Prints the progress of a measurement, and listens for Ctrl-C.
pub(in crate::verbs) struct ProgressLine(pub(in crate::verbs) Interrupt);

impl Observer for ProgressLine {
    fn doing(&self, what: &str) {
        output::note(what);
    }

    fn next(&self, p: &Progress<'_>) {
        let left = p.left.map_or_else(String::new, |left| format!(", {} left", about(left)));
        let repeat = if p.repeat == 0 { "warming up".to_owned() } else { format!("repetition {}", p.repeat) };
        output::note(&format!("{} of {}{left}: {}, {repeat}", p.done + 1, p.runs, p.what));
    }

    fn trouble(&self, what: &str) {
        output::note(&format!("thalweg: {what}"));
    }

    fn cancelled(&self) -> bool {
        self.0.is_raised()
    }
}

/// Formats a duration roughly, in seconds or minutes.
fn about(time: Duration) -> String {
    match time.as_secs() {
        s if s < 90 => format!("about {s} s"),
        s => format!("about {} min", (s + 30) / 60),
    }
}

/// The result of a study.
pub(super) trait Results: DeserializeOwned {
    /// The stem of its file names.
    const NAME: &'static str;
    /// The heading of its page.
    const TITLE: &'static str;
    /// Returns it as JSON.
    fn json(&self) -> String;
    /// Returns it as Markdown, without the heading.
    fn markdown(&self) -> String;
    /// Returns it as an HTML page of plots.
    fn page(&self) -> String;
    /// Returns its plots.
    fn pictures(&self) -> Vec<Picture>;
}

/// Writes a file of the results.
pub(in crate::verbs) fn put(directory: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = directory.join(name);
    std::fs::File::create(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| Failure::failed(format!("{}: {e}", path.display())))
}

/// Writes the page and the plots of a result; returns the page as Markdown.
fn show<D: Results>(document: &D, out: &Path) -> Result<String, Failure> {
    let text = format!("# {}\n\n{}", D::TITLE, document.markdown());
    put(out, &format!("{}.md", D::NAME), &text)?;
    put(out, &format!("{}.html", D::NAME), &document.page())?;
    for picture in document.pictures() {
        put(out, &format!("{}.svg", picture.name), &picture.svg)?;
    }
    Ok(text)
}

/// Writes all files of a result; returns the page as Markdown.
pub(super) fn write<D: Results>(document: &D, out: &Path) -> Result<String, Failure> {
    put(out, &format!("{}.json", D::NAME), &document.json())?;
    show(document, out)
}

/// Ends a study: writes its files and prints its result.
pub(super) fn finish<D: Results>(studied: thalweg_study::Result<D>, out: &Path, as_json: bool) -> Result<(), Failure> {
    let document =
        studied.map_err(|error| if error.is_stopped() { Failure::Interrupted(error.to_string()) } else { Failure::failed(error) })?;
    let text = write(&document, out)?;
    let name = D::NAME;
    output::note(&format!("raw.jsonl, {name}.json, {name}.md, {name}.html and the plots are in {}", out.display()));
    output::result(&if as_json { document.json() } else { text })
}

/// Draws the result in a directory again; `None` if it is not of this study.
pub(super) fn redraw<D: Results>(out: &Path) -> Option<Result<(), Failure>> {
    let path = out.join(format!("{}.json", D::NAME));
    let text = std::fs::read_to_string(&path).ok()?;
    let document = serde_json::from_str::<D>(&text).map_err(|e| Failure::failed(format!("{}: {e}", path.display())));
    Some(document.and_then(|document| output::result(&show(&document, out)?)))
}
