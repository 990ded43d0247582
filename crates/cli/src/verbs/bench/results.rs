//! A study's result, whichever study it is: the files it is kept in, and how they are made again.

use crate::bench_page::Picture;
use crate::{failure::Failure, output};
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::Path;
use thalweg_report::plot;

/// The result of a study.
pub trait Results: DeserializeOwned {
    /// What its files are called, before the dot.
    const NAME: &'static str;
    /// The heading of its page.
    const TITLE: &'static str;
    /// As a document.
    fn json(&self) -> String;
    /// As Markdown, below the heading.
    fn markdown(&self) -> String;
    /// As a page of plots.
    fn page(&self) -> plot::Page;
    /// Its plots, one by one.
    fn pictures(&self) -> Vec<Picture>;
}

/// Writes a file of the results.
fn put(directory: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = directory.join(name);
    std::fs::File::create(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| Failure::failed(format!("{}: {e}", path.display())))
}

/// Writes the page and the plots of a result; the page as Markdown.
fn show<D: Results>(document: &D, out: &Path) -> Result<String, Failure> {
    let text = format!("# {}\n\n{}", D::TITLE, document.markdown());
    put(out, &format!("{}.md", D::NAME), &text)?;
    put(out, &format!("{}.html", D::NAME), &plot::page(&document.page()))?;
    for picture in document.pictures() {
        put(out, &format!("{}.svg", picture.name), &plot::plot(&picture.plot))?;
    }
    Ok(text)
}

/// Writes all files of a result; the page as Markdown.
pub fn write<D: Results>(document: &D, out: &Path) -> Result<String, Failure> {
    put(out, &format!("{}.json", D::NAME), &document.json())?;
    show(document, out)
}

/// Ends a study: its files, and what it prints.
pub fn finish<D: Results>(studied: thalweg_study::Result<D>, out: &Path, as_json: bool) -> Result<(), Failure> {
    let document = match studied {
        Ok(document) => document,
        Err(thalweg_study::Error::Stopped) => return Err(Failure::Interrupted(thalweg_study::Error::Stopped.to_string())),
        Err(error) => return Err(Failure::failed(error)),
    };
    let text = write(&document, out)?;
    let name = D::NAME;
    output::note(&format!("raw.jsonl, {name}.json, {name}.md, {name}.html and the plots are in {}", out.display()));
    output::result(&if as_json { document.json() } else { text })
}

/// Draws the result in a directory again, if it is one of this study.
pub fn redraw<D: Results>(out: &Path) -> Option<Result<(), Failure>> {
    let path = out.join(format!("{}.json", D::NAME));
    let text = std::fs::read_to_string(&path).ok()?;
    let document = serde_json::from_str::<D>(&text).map_err(|e| Failure::failed(format!("{}: {e}", path.display())));
    Some(document.and_then(|document| output::result(&show(&document, out)?)))
}
