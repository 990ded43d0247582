//! Layout of text for a terminal: lines, headings and paragraphs in a given width, with or without colour.

use std::fmt::Write;
use std::io::IsTerminal;
use thalweg_base::text::{clean, wrap};
use thalweg_explain::Cause;

/// Options for formatting text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOptions {
    /// Width in columns; at least 60 are used.
    pub width: usize,
    /// Whether to use escape codes for colour.
    pub colour: bool,
}

impl Default for TextOptions {
    fn default() -> TextOptions {
        TextOptions { width: 80, colour: false }
    }
}

impl TextOptions {
    /// Returns options for standard output: its width (at most 120; 80 if it is not a terminal), and colour only on a terminal that is
    /// not dumb, without `NO_COLOR`.
    pub fn for_stdout() -> TextOptions {
        TextOptions::for_output(std::io::stdout())
    }

    /// Returns such options for standard error.
    pub fn for_stderr() -> TextOptions {
        TextOptions::for_output(std::io::stderr())
    }

    fn for_output(output: impl IsTerminal + std::os::fd::AsFd) -> TextOptions {
        let terminal = output.is_terminal();
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb");
        let columns = terminal.then(|| rustix::termios::tcgetwinsize(&output).ok()).flatten().map(|w| usize::from(w.ws_col));
        TextOptions { width: columns.filter(|c| *c > 0).unwrap_or(80).clamp(MIN_WIDTH, 120), colour: terminal && !dumb && !set("NO_COLOR") }
    }
}

/// A line and its colour.
pub(crate) type Line = (String, Ink);

/// Minimum width of text.
const MIN_WIDTH: usize = 60;

/// The colour of text, where colour is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Plain,
    Bold,
    Dim,
    Of(Cause),
}

/// Returns the escape code of a colour; a cause's depends on its kind, not on its end.
fn code(ink: Ink) -> Option<&'static str> {
    let cause = match ink {
        Ink::Plain => return None,
        Ink::Bold => return Some("1"),
        Ink::Dim => return Some("2"),
        Ink::Of(cause) => cause.name(),
    };
    Some(match cause.rsplit('.').next().unwrap_or(cause) {
        _ if cause.starts_with("network.") => "32",
        "read" => "34",
        "write" => "31",
        "sync" => "35",
        "cpu" => "33",
        "metadata" => "36",
        "memory" => "95",
        _ => "90",
    })
}

/// A page of text under construction.
pub(crate) struct Page {
    out: String,
    pub(crate) width: usize,
    colour: bool,
}

impl Page {
    /// Returns an empty page.
    pub(crate) fn new(options: &TextOptions) -> Page {
        Page { out: String::new(), width: options.width.max(MIN_WIDTH), colour: options.colour }
    }

    /// Returns the text.
    pub(crate) fn into_text(self) -> String {
        self.out
    }

    /// Adds an empty line.
    pub(crate) fn gap(&mut self) {
        self.out.push('\n');
    }

    /// Returns the text in this colour.
    pub(crate) fn ink(&self, text: &str, ink: Ink) -> String {
        match code(ink) {
            Some(code) if self.colour && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    /// Adds a line, without trailing spaces.
    pub(crate) fn line(&mut self, text: &str, ink: Ink) {
        let text = self.ink(text.trim_end(), ink);
        self.out.push_str(&text);
        self.out.push('\n');
    }

    /// Adds a line without colour.
    pub(crate) fn plain(&mut self, text: &str) {
        self.line(text, Ink::Plain);
    }

    /// Adds text wrapped to the page, every line but the first indented by `hang`.
    pub(crate) fn hanging(&mut self, indent: usize, hang: usize, text: &str, ink: Ink) {
        for (i, line) in wrap(&clean(text), self.width - indent.max(hang)).iter().enumerate() {
            let indent = if i == 0 { indent } else { hang };
            let line = self.ink(line, ink);
            let _ = writeln!(self.out, "{}{line}", " ".repeat(indent));
        }
    }

    /// Adds wrapped plain text, all lines but the first indented by two.
    pub(crate) fn wrapped(&mut self, text: &str) {
        self.hanging(0, 2, text, Ink::Plain);
    }

    /// Adds text wrapped to the whole width.
    pub(crate) fn paragraph(&mut self, text: &str, ink: Ink) {
        self.hanging(0, 0, text, ink);
    }

    /// Adds a heading, after an empty line.
    pub(crate) fn heading(&mut self, text: &str) {
        self.out.push('\n');
        self.line(text, Ink::Bold);
    }
}
