//! Writes results to standard output and notes to standard error, without panicking on errors.

use crate::failure::Failure;
use crate::names;
use std::io::Write;

/// Writes a result to standard output unchanged.
pub(crate) fn result(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a result and a newline.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    result(&format!("{text}\n"))
}

/// Writes a document as pretty-printed JSON.
pub(crate) fn json(document: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document).map_err(|e| Failure::failed(format!("result as JSON: {e}")))?;
    line(&text)
}

/// A buffer for many result lines, written out in large pieces.
pub(crate) struct Lines {
    /// The bytes to write next. Call [`Lines::due`] now and then while appending.
    pub buffer: Vec<u8>,
    nowhere: bool,
}

impl Lines {
    /// Bytes worth a system call.
    const PIECE_BYTES: usize = 64 << 10;

    /// Returns a buffer for standard output.
    pub(crate) fn new() -> Lines {
        Lines { buffer: Vec::with_capacity(Lines::PIECE_BYTES + (4 << 10)), nowhere: false }
    }

    /// Returns a buffer that discards its lines: standard output has another use.
    pub(crate) fn nowhere() -> Lines {
        Lines { nowhere: true, ..Lines::new() }
    }

    /// Writes the buffer out once it is large.
    pub(crate) fn due(&mut self) -> Result<(), Failure> {
        if self.buffer.len() >= Lines::PIECE_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes the buffer out.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if !self.nowhere && !self.buffer.is_empty() {
            let mut out = std::io::stdout().lock();
            out.write_all(&self.buffer)?;
            out.flush()?;
        }
        self.buffer.clear();
        Ok(())
    }
}

/// Writes a note to standard error. It may quote a server, so control characters except newlines and tabs are escaped.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", harmless(text, &['\n', '\t']));
}

/// Escapes all control characters except those in `kept`.
fn harmless<'a>(text: &'a str, kept: &[char]) -> std::borrow::Cow<'a, str> {
    if !text.contains(|c: char| c.is_control() && !kept.contains(&c)) {
        return text.into();
    }
    let shown = |c: char| if c.is_control() && !kept.contains(&c) { names::text(c.encode_utf8(&mut [0; 4]).as_bytes()) } else { c.into() };
    text.chars().map(shown).collect::<String>().into()
}

/// Formats a table: the first and last columns left-aligned, the others right-aligned. Control characters in a cell are escaped, so it
/// stays one line.
pub(crate) fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|cell| harmless(cell, &[])).collect()).collect();
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).chain([heads[column].chars().count()]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    let heads: Vec<_> = heads.iter().map(|&h| std::borrow::Cow::from(h)).collect();
    for row in std::iter::once(&heads).chain(&rows) {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(i, cell)| {
                let pad = " ".repeat(widths[i] - cell.chars().count());
                if i == 0 || i + 1 == row.len() { format!("{cell}{pad}") } else { format!("{pad}{cell}") }
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_a_server_says_moves_no_cursor() {
        assert_eq!(super::harmless("a\x1b[2Jb\n\u{9b}", &['\n']), "a\\x1b[2Jb\n\\xc2\\x9b");
        assert_eq!(super::table(&["n"], &[vec!["a\nb".into()]]), "n\na\\nb\n");
    }

    #[test]
    fn tables_align_their_columns() {
        let text = super::table(
            &["name", "size", "why"],
            &[vec!["a".into(), "1".into(), "x".into()], vec!["longer".into(), "1000".into(), "y z".into()]],
        );
        assert_eq!(text, "name    size  why\na          1  x\nlonger  1000  y z\n");
    }
}
