//! The page of two recordings and their difference: each has its own header and planes.

use super::Data;
use super::template::{Parts, filled, script_text};
use crate::Result;
use serde::Serialize;
use thalweg_explain::diff::Diff;
use thalweg_explain::document::Explanation;
use thalweg_trace::Source;

/// A recording and its explanation.
pub type Explained<'a> = (&'a dyn Source, &'a Explanation);

/// The fields that the first header has in addition.
#[derive(Serialize)]
struct Pair<'a> {
    diff: &'a Diff,
    names: [&'a str; 2],
}

/// Makes the page around its static part, which is HTML.
pub(crate) fn pair_page(diff: &Diff, names: [&str; 2], recordings: [Explained<'_>; 2], title: &str, fixed: &str) -> Result<String> {
    let [first, second] = recordings;
    let of = |(source, explanation): Explained<'_>| Data::read(source, explanation, None);
    let (mut first, second) = (of(first)?, of(second)?);
    first.header = joined(&Pair { diff, names }, &first.header);
    let parts = Parts { title, fixed, script_hash: None, data_bytes: first.bytes() + second.bytes() };
    Ok(filled(&parts, |page| {
        first.write(page, "");
        page.push('\n');
        second.write(page, "-2");
    }))
}

/// Makes the page of a difference without two recordings: its static part alone. The app does not start without data.
pub(crate) fn still_page(title: &str, fixed: &str) -> String {
    filled(&Parts { title, fixed, script_hash: None, data_bytes: 0 }, |_| ())
}

/// Puts the fields before those of a header, which is a JSON object.
fn joined(fields: &impl Serialize, header: &str) -> String {
    let fields = script_text(&serde_json::to_string(fields).expect("a difference has only plain fields"));
    let fields = fields.strip_suffix('}').expect("an object");
    format!("{fields},{}", header.strip_prefix('{').expect("an object"))
}
