//! The picture, the sentence, the tables and the text on one self-contained page.

use super::pair::{rows, rpcstat_pair};
use super::picture::rpcstat_pair_picture;
use super::section::{rpcstat_sections, table, tables};
use super::text::rpcstat;
use crate::interactive::document::DocumentPage;
use crate::page::TextOptions;
use crate::plot::{Page, Section, page};
use thalweg_explain::rpcstat::document::RpcStat;

/// Options of the text on a page.
const TEXT: TextOptions = TextOptions { width: 100, colour: false };

/// Makes a page of a recording's RPC statistics.
pub fn rpcstat_page(document: &RpcStat) -> String {
    let mut sections = rpcstat_sections(document);
    let text = rpcstat(document, &TEXT);
    sections.extend(as_text(text.clone()));
    let page_of = Page { title: document.sentence.clone(), lead: Vec::new(), sections };
    page(&page_of, &DocumentPage::of("rpcstat", document, &text))
}

/// Makes a page of two, named, on equal axes.
pub fn rpcstat_pair_page(documents: [(&str, &RpcStat); 2]) -> String {
    let [(a, first), (b, second)] = documents;
    let cells = rows([first, second]).into_iter().map(|row| vec![row.name.to_owned(), row.a, row.b]).collect();
    let mut sections = vec![Section::Picture(rpcstat_pair_picture(documents))];
    sections.extend(table("Both", &["", &format!("A: {a}"), &format!("B: {b}")], cells));
    for (letter, (name, document)) in ["A", "B"].iter().zip(documents) {
        sections.extend([Section::Heading(format!("{letter}: {name}")), Section::Text(document.sentence.clone())]);
        sections.extend(tables(document));
    }
    let text = rpcstat_pair(documents, &TEXT);
    sections.extend(as_text(text.clone()));
    let shown = DocumentPage { view: "rpcstat", document: &[first, second], names: &[a, b], short: &text, script_hash: None };
    page(&Page { title: format!("{a} and {b}"), lead: Vec::new(), sections }, &shown)
}

fn as_text(text: String) -> [Section; 2] {
    [Section::Heading("As text".to_owned()), Section::Preformatted(text)]
}
