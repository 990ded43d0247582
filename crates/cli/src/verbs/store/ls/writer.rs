//! Formats rows: names, columns, a terminal's grid, JSON.

use super::rows::{Bytes, Row};
use crate::listing::{self, Times};
use crate::names::{self, Style};
use crate::{failure::Failure, output::Lines};

/// Rows collected before writing, whose widest fields set the column widths.
const MEASURED_ROWS: usize = 1024;
/// Names in one grid: more than a screen, and few enough to hold in memory.
const GRID_NAMES: usize = 4096;
/// Minimum column widths of a listing whose lines are written as they arrive.
const AT_ONCE: Widths = Widths { uid: 4, gid: 4, size: 11 };

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// One name per line.
    Names,
    /// Names in columns, on a terminal of this width.
    Grid { columns: usize },
    /// A line for each entry; `at_once`: written as they arrive, with fixed minimum widths.
    Long { at_once: bool },
    /// One document.
    Json { long: bool },
    /// One object per line.
    JsonLines { long: bool },
}

#[derive(Clone, Copy, Debug, Default)]
struct Widths {
    uid: usize,
    gid: usize,
    size: usize,
}

/// Writes rows to standard output.
pub(super) struct Writer {
    lines: Lines,
    format: Format,
    style: Style,
    human: bool,
    times: Times,
    widths: Widths,
    /// Rows whose column widths are not known yet, or names of a grid.
    waiting: Vec<Row>,
    measured: bool,
    /// The directory of a document's next entries, if not the document's own.
    directory: Option<Vec<u8>>,
    sections: usize,
    entries: usize,
}

impl Writer {
    /// Returns a writer to `lines`.
    pub(super) fn new(lines: Lines, format: Format, style: Style, human: bool) -> Writer {
        let at_once = format == Format::Long { at_once: true };
        Writer {
            lines,
            format,
            style,
            human,
            times: Times::default(),
            widths: if at_once { AT_ONCE } else { Widths::default() },
            waiting: Vec::new(),
            measured: at_once,
            directory: None,
            sections: 0,
            entries: 0,
        }
    }

    /// Begins an operand, and its document if the format has one.
    pub(super) fn begin(&mut self, path: &[u8]) -> Result<(), Failure> {
        self.entries = 0;
        self.directory = None;
        if matches!(self.format, Format::Json { .. }) {
            let out = &mut self.lines.buffer;
            out.extend_from_slice(b"{\n  \"schema\": \"thalweg.ls/1\",\n  \"path\": ");
            names::push_json(out, path);
            out.extend_from_slice(b",\n  \"entries\": [");
        }
        Ok(())
    }

    /// Begins a directory, under its path if `heading` is given.
    pub(super) fn section(&mut self, heading: Option<&Vec<u8>>) -> Result<(), Failure> {
        match self.format {
            Format::Json { .. } | Format::JsonLines { .. } => self.directory = heading.cloned(),
            _ => {
                let out = &mut self.lines.buffer;
                if let Some(heading) = heading {
                    if self.sections > 0 {
                        out.push(b'\n');
                    }
                    names::push(out, heading, self.style);
                    out.extend_from_slice(b":\n");
                }
            }
        }
        self.sections += 1;
        Ok(())
    }

    /// Writes one entry.
    pub(super) fn row(&mut self, row: Row) -> Result<(), Failure> {
        match self.format {
            Format::Names => {
                names::push(&mut self.lines.buffer, &row.name, self.style);
                self.lines.buffer.push(b'\n');
            }
            Format::Long { .. } if self.measured => self.long(&row),
            Format::Long { .. } => {
                self.waiting.push(row);
                if self.waiting.len() >= MEASURED_ROWS {
                    self.measure();
                }
            }
            Format::Grid { .. } => {
                self.waiting.push(row);
                if self.waiting.len() >= GRID_NAMES {
                    self.grid();
                }
            }
            Format::Json { long } => {
                self.lines.buffer.extend_from_slice(if self.entries == 0 { b"\n    " } else { b",\n    " });
                self.object(&row, long);
            }
            Format::JsonLines { long } => {
                self.object(&row, long);
                self.lines.buffer.push(b'\n');
            }
        }
        self.entries += 1;
        self.lines.due()
    }

    /// Flushes before the walk waits for more entries.
    pub(super) fn batch_ends(&mut self) -> Result<(), Failure> {
        self.lines.flush()
    }

    /// Ends a directory.
    pub(super) fn section_ends(&mut self) -> Result<(), Failure> {
        match self.format {
            Format::Long { at_once: false } => {
                self.measure();
                (self.measured, self.widths) = (false, Widths::default());
            }
            Format::Grid { .. } => self.grid(),
            _ => {}
        }
        self.lines.due()
    }

    /// Ends an operand for which these errors were reported.
    pub(super) fn end(&mut self, errors: &[String]) -> Result<(), Failure> {
        self.section_ends()?;
        // A directory follows the files, after an empty line.
        self.sections = self.sections.max(usize::from(self.entries > 0));
        if matches!(self.format, Format::Json { .. }) {
            let out = &mut self.lines.buffer;
            out.extend_from_slice(if self.entries == 0 { b"]" } else { b"\n  ]" });
            for (i, error) in errors.iter().enumerate() {
                out.extend_from_slice(if i == 0 { b",\n  \"errors\": [\n    " } else { b",\n    " });
                names::push_json(out, error.as_bytes());
            }
            out.extend_from_slice(if errors.is_empty() { b"\n}\n" } else { b"\n  ]\n}\n" });
        }
        self.lines.flush()
    }

    /// Flushes the end of the listing.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.lines.flush()
    }

    /// Widens the columns for the waiting rows, and writes them.
    fn measure(&mut self) {
        let rows = std::mem::take(&mut self.waiting);
        for row in &rows {
            self.widths = Widths {
                uid: self.widths.uid.max(listing::digits(row.uid.into())),
                gid: self.widths.gid.max(listing::digits(row.gid.into())),
                size: self.widths.size.max(self.size_digits(row.size)),
            };
        }
        self.measured = true;
        rows.iter().for_each(|row| self.long(row));
    }

    fn size_digits(&self, size: Bytes) -> usize {
        match size {
            Bytes::None | Bytes::Unknown => 1,
            Bytes::Known(bytes) if self.human => listing::human(bytes).as_bytes().len(),
            Bytes::Known(bytes) => listing::digits(bytes),
        }
    }

    fn long(&mut self, row: &Row) {
        let out = &mut self.lines.buffer;
        out.extend_from_slice(&listing::mode_bytes(row.kind, row.mode));
        for (number, width) in [(row.uid, self.widths.uid), (row.gid, self.widths.gid)] {
            out.push(b' ');
            listing::push_number(out, number.into(), width);
        }
        out.push(b' ');
        match row.size {
            Bytes::None => listing::push_right(out, b"-", self.widths.size),
            Bytes::Unknown => listing::push_right(out, b"?", self.widths.size),
            Bytes::Known(bytes) if self.human => listing::push_right(out, listing::human(bytes).as_bytes(), self.widths.size),
            Bytes::Known(bytes) => listing::push_number(out, bytes, self.widths.size),
        }
        out.push(b' ');
        self.times.push(out, row.modified_ns);
        out.push(b' ');
        names::push(out, &row.name, self.style);
        if let Some(target) = &row.target {
            out.extend_from_slice(b" -> ");
            names::push(out, target, self.style);
        }
        out.push(b'\n');
    }

    /// Writes the names in as many columns as fit, each as wide as its longest name, read from top to bottom.
    fn grid(&mut self) {
        let Format::Grid { columns } = self.format else { return };
        let rows = std::mem::take(&mut self.waiting);
        if rows.is_empty() {
            return;
        }
        let texts: Vec<Vec<u8>> = rows
            .iter()
            .map(|row| {
                let mut text = Vec::new();
                names::push(&mut text, &row.name, self.style);
                text
            })
            .collect();
        let widths: Vec<usize> = texts.iter().map(|text| String::from_utf8_lossy(text).chars().count()).collect();
        let (high, wide) = grid_of(&widths, columns);
        for line in 0..high {
            let mut at = line;
            for width in &wide {
                let Some(text) = texts.get(at) else { break };
                self.lines.buffer.extend_from_slice(text);
                if at + high < texts.len() {
                    let pad = width + 2 - widths[at];
                    self.lines.buffer.resize(self.lines.buffer.len() + pad, b' ');
                }
                at += high;
            }
            self.lines.buffer.push(b'\n');
        }
    }

    fn object(&mut self, row: &Row, long: bool) {
        let out = &mut self.lines.buffer;
        out.extend_from_slice(b"{\"name\": ");
        names::push_json(out, &row.name);
        if std::str::from_utf8(&row.name).is_err() {
            out.extend_from_slice(b", \"name_hexadecimal\": ");
            names::push_json(out, names::hexadecimal(&row.name).as_bytes());
        }
        if let Some(directory) = &self.directory {
            out.extend_from_slice(b", \"directory\": ");
            names::push_json(out, directory);
        }
        out.extend_from_slice(b", \"kind\": ");
        names::push_json(out, listing::kind_text(row.kind).as_bytes());
        if long && row.has_attributes {
            out.extend_from_slice(b", \"mode\": \"");
            out.extend_from_slice(&listing::mode_bytes(row.kind, row.mode));
            out.extend_from_slice(b"\", \"uid\": ");
            listing::push_number(out, row.uid.into(), 0);
            out.extend_from_slice(b", \"gid\": ");
            listing::push_number(out, row.gid.into(), 0);
        }
        match row.size {
            _ if !long => {}
            Bytes::None => {}
            // It has a size that no server reported.
            Bytes::Unknown => out.extend_from_slice(b", \"size_bytes\": null"),
            Bytes::Known(bytes) => {
                out.extend_from_slice(b", \"size_bytes\": ");
                listing::push_number(out, bytes, 0);
            }
        }
        if long && row.has_attributes {
            out.extend_from_slice(b", \"modified\": \"");
            self.times.push(out, row.modified_ns);
            out.push(b'"');
            if let Some(target) = &row.target {
                out.extend_from_slice(b", \"target\": ");
                names::push_json(out, target);
            }
        }
        out.push(b'}');
    }
}

/// Returns the number of lines and the column widths: the fewest lines for which the columns, two blanks apart, fit.
fn grid_of(widths: &[usize], columns: usize) -> (usize, Vec<usize>) {
    let shortest = widths.iter().min().map_or(1, |w| w + 2);
    let most = ((columns + 2) / shortest).clamp(1, widths.len().max(1));
    for across in (1..=most).rev() {
        let high = widths.len().div_ceil(across).max(1);
        let wide: Vec<usize> = widths.chunks(high).map(|column| column.iter().copied().max().unwrap_or(0)).collect();
        if across == 1 || wide.iter().map(|w| w + 2).sum::<usize>() <= columns + 2 {
            return (high, wide);
        }
    }
    (widths.len(), vec![widths.iter().copied().max().unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::row;
    use super::*;
    use thalweg_wire::protocol::metadata::FileKind;

    fn written(format: Format, rows: Vec<Row>) -> String {
        let mut writer = Writer::new(Lines::new(), format, Style::Escaped, false);
        writer.begin(b"/d").unwrap();
        writer.section(None).unwrap();
        rows.into_iter().for_each(|row| writer.row(row).unwrap());
        // As at the end of an operand, but returned instead of written.
        writer.section_ends().unwrap();
        String::from_utf8(writer.lines.buffer).unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_and_what_is_not_known_is_marked() {
        let mut link = row("l", Bytes::None, 0);
        (link.kind, link.target) = (FileKind::Symlink, Some(b"a\n"[..].into()));
        let rows = vec![row("a", Bytes::Known(12_345), 0), row("b", Bytes::Unknown, 0), link];
        assert_eq!(
            written(Format::Long { at_once: false }, rows),
            "-rw-r--r-- 0 0 12345 1970-01-01T00:00:00Z a\n\
             -rw-r--r-- 0 0     ? 1970-01-01T00:00:00Z b\n\
             lrw-r--r-- 0 0     - 1970-01-01T00:00:00Z l -> a\\n\n"
        );
        assert_eq!(
            written(Format::Long { at_once: true }, vec![row("a", Bytes::Known(7), 0)]),
            "-rw-r--r--    0    0           7 1970-01-01T00:00:00Z a\n"
        );
    }

    #[test]
    fn a_grid_is_read_from_top_to_bottom_and_fits() {
        let names = ["a", "bb", "ccc", "d", "e"];
        let rows = || names.iter().map(|name| row(name, Bytes::None, 0)).collect();
        assert_eq!(written(Format::Grid { columns: 80 }, rows()), "a  bb  ccc  d  e\n");
        assert_eq!(written(Format::Grid { columns: 10 }, rows()), "a   ccc  e\nbb  d\n");
        assert_eq!(written(Format::Grid { columns: 2 }, rows()), "a\nbb\nccc\nd\ne\n");
        for columns in 1..40 {
            let text = written(Format::Grid { columns }, rows());
            assert!(text.lines().all(|line| line.len() <= columns.max(3)), "{columns}: {text}");
            assert_eq!(text.split_whitespace().count(), names.len());
        }
    }

    #[test]
    fn a_hundred_thousand_lines_are_formatted_within_a_microsecond_each() {
        // Processor time of this thread, with ample room: debug builds are ten times slower.
        let rows: Vec<Row> = (0..100_000).map(|i| row(&format!("file-{i:06}"), Bytes::Known(i), i as i64 * 1_000_000_000)).collect();
        let mut writer = Writer::new(Lines::nowhere(), Format::Long { at_once: false }, Style::Raw, false);
        writer.section(None).unwrap();
        let now = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let begun = now();
        rows.into_iter().for_each(|row| writer.row(row).unwrap());
        writer.section_ends().unwrap();
        let ended = now();
        let took_ns = (ended.tv_sec - begun.tv_sec) * 1_000_000_000 + (ended.tv_nsec - begun.tv_nsec);
        let most_ns = if cfg!(debug_assertions) { 30_000 } else { 1_000 };
        assert!(took_ns / 100_000 < most_ns, "{} ns a line", took_ns / 100_000);
    }
}
