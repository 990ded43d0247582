//! The page of a document without a time axis: a sweep, a study, a profile, the statistics of RPCs.

use super::header::FORMAT;
use super::template::{Parts, filled, push_header, script_text};
use serde::Serialize;

/// A document, and what a page shows of it.
pub(crate) struct DocumentPage<'a, D: Serialize> {
    /// The name of the app's view: `sweep`, `layout`, `ls`, `profile` or `rpcstat`.
    pub(crate) view: &'static str,
    /// The document.
    pub(crate) document: &'a D,
    /// The names of its parts, if it has several: the recordings of a profile, of two RPC statistics.
    pub(crate) names: &'a [&'a str],
    /// The short text that a terminal shows.
    pub(crate) short: &'a str,
    /// The hash of the script in the static part, if it has one.
    pub(crate) script_hash: Option<&'static str>,
}

/// The header of a document's page.
#[derive(Serialize)]
struct Header<'a, D: Serialize> {
    format: &'static str,
    view: &'static str,
    document: &'a D,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    names: &'a [&'a str],
    short: &'a str,
}

impl<'a, D: Serialize> DocumentPage<'a, D> {
    /// Returns the page of a document with one part, whose static part has no script.
    pub(crate) fn of(view: &'static str, document: &'a D, short: &'a str) -> DocumentPage<'a, D> {
        DocumentPage { view, document, names: &[], short, script_hash: None }
    }

    /// Makes the page around its static part, which is HTML; `title` is text.
    pub(crate) fn html(&self, title: &str, fixed: &str) -> String {
        let header = Header { format: FORMAT, view: self.view, document: self.document, names: self.names, short: self.short };
        let header = script_text(&serde_json::to_string(&header).expect("documents have only plain fields"));
        let parts = Parts { title, fixed, script_hash: self.script_hash, data_bytes: header.len() };
        filled(&parts, |page| push_header(page, "", &header))
    }
}
