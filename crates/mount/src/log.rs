//! The mount's log: details that an errno does not carry.

use crate::errors::{MountError, Result};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;

/// Bound: lines logged per [`LOG_WINDOW`]; the rest are counted.
const LOG_LINES: u32 = 20;
const LOG_WINDOW: Duration = Duration::from_secs(1);

/// The mount's log: a file or standard error, rate-limited.
pub(crate) struct Log(Mutex<Lines>);

struct Lines {
    since: Instant,
    lines: u32,
    file: Option<File>,
}

impl Log {
    /// Opens a log that appends to this file, or writes to standard error.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn new(file: Option<&Path>) -> Result<Log> {
        let open = |path: &Path| File::options().create(true).append(true).open(path).map_err(|e| MountError::at(path, e));
        Ok(Log(Mutex::new(Lines { since: Instant::now(), lines: 0, file: file.map(open).transpose()? })))
    }

    /// Writes one line.
    pub(crate) fn line(&self, text: impl std::fmt::Display) {
        let mut lines = self.0.lock();
        if lines.since.elapsed() > LOG_WINDOW {
            let left_out = lines.lines.saturating_sub(LOG_LINES);
            if left_out > 0 {
                lines.write(&format!("{left_out} more lines were suppressed"));
            }
            (lines.since, lines.lines) = (Instant::now(), 0);
        }
        lines.lines += 1;
        if lines.lines <= LOG_LINES {
            lines.write(&text.to_string());
        }
    }
}

impl Lines {
    fn write(&mut self, text: &str) {
        let line = format!("thalweg mount: {text}\n");
        // There is nowhere to log this failure.
        let _ = match &mut self.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
    }
}
