//! The built app, and what is put into its placeholders.

use crate::picture::canvas::escape;
use crate::style::{STATIC_STYLE, STATIC_STYLE_HASH};

/// The built app.
pub(super) const TEMPLATE: &str = include_str!("../../page/page.html");
/// The placeholders, and the parts of the content security policy that are replaced.
pub(super) const TITLE: &str = "<!--thalweg:title-->";
pub(super) const STATIC: &str = "<!--thalweg:static-->";
pub(super) const DATA: &str = "<!--thalweg:data-->";
pub(super) const POLICY: &str = "sha256-THALWEG_STATIC_STYLE";
pub(super) const SCRIPTS: &str = "script-src ";

/// The parts of a page.
pub(super) struct Parts<'a> {
    /// The title, as text.
    pub(super) title: &'a str,
    /// The static part, as HTML.
    pub(super) fixed: &'a str,
    /// The hash of the script in the static part, if it has one, as a content security policy has it.
    pub(super) script_hash: Option<&'static str>,
    /// Number of bytes that the data take, roughly.
    pub(super) data_bytes: usize,
}

/// Makes the page; `write_data` appends the elements that hold its data.
pub(super) fn filled(parts: &Parts<'_>, write_data: impl Fn(&mut String)) -> String {
    let mut page = String::with_capacity(TEMPLATE.len() + parts.fixed.len() + parts.data_bytes + 2_000);
    let style = format!("<style>{STATIC_STYLE}</style>\n");
    let mut rest = TEMPLATE;
    for placeholder in in_order(TEMPLATE) {
        let (before, after) = rest.split_once(placeholder).expect("in order");
        page.push_str(before);
        match placeholder {
            SCRIPTS => {
                page.push_str(SCRIPTS);
                page.extend(parts.script_hash.iter().flat_map(|hash| ["'", hash, "' "]));
            }
            POLICY => page.push_str(STATIC_STYLE_HASH),
            TITLE => page.push_str(&escape(parts.title)),
            STATIC => page.extend([&*style, parts.fixed]),
            _ => write_data(&mut page),
        }
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Returns the placeholders in the order in which they are in the template.
fn in_order(template: &str) -> [&'static str; 5] {
    let mut placeholders = [SCRIPTS, POLICY, TITLE, STATIC, DATA];
    placeholders.sort_by_key(|placeholder| template.find(placeholder).expect("the template has every placeholder"));
    placeholders
}

/// Returns JSON as the text of a script element: no `<` is left, so that no name ends the element or begins a comment.
pub(super) fn script_text(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Appends the element of a header.
pub(super) fn push_header(page: &mut String, suffix: &str, header: &str) {
    page.extend(["<script type=\"application/json\" id=\"thalweg-header", suffix, "\">", header, "</script>"]);
}
