//! Copies a tree with [`thalweg_client::copy::copy_tree`]: progress, messages, summary and JSON.
//!
//! An entry that fails does not stop the others: it is reported immediately with its path, and the command fails at the end, so that an
//! incomplete tree does not look like a success.

use crate::interrupt::Interrupt;
use crate::terminal::progress::Progress;
use crate::tuning::Report;
use crate::{failure::Failure, names, output};
use serde::Serialize;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;
use thalweg_base::numbers;
use thalweg_client::copy::{LeftOut, TreeJob, TreeObserver, TreeOutcome, copy_tree};
use thalweg_trace::TraceHandle;
use thalweg_wire::{Error, ErrorKind};

/// The display of a tree's copy.
pub(super) struct TreeCopy<'a> {
    /// The source, as given.
    pub from: &'a str,
    /// The destination, as given.
    pub to: &'a str,
    /// Show neither progress nor a summary.
    pub quiet: bool,
    /// Print a document on standard output.
    pub json: bool,
    /// Asks the copy to stop.
    pub interrupt: &'a Interrupt,
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    from: &'a str,
    to: &'a str,
    size_bytes: u64,
    /// Bytes moved, without holes.
    data_bytes: u64,
    elapsed_s: f64,
    /// Rate of the data, without holes.
    rate_bytes_per_s: f64,
    /// Files copied.
    files: u64,
    directories: u64,
    /// Symbolic links, pipes, sockets and devices.
    others: u64,
    /// Device nodes not copied, files without their set-user and set-group bits, and entries without their owners.
    devices_left_out: u64,
    set_id_bits_left_out: u64,
    owners_left_out: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<&'a PathBuf>,
    /// The result of `--tune`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tuning: Option<Report>,
}

struct Watch<'a> {
    from: &'a str,
    to: &'a str,
    progress: Progress,
    interrupt: &'a Interrupt,
}

impl TreeObserver for Watch<'_> {
    fn found(&self, size_bytes: u64) {
        self.progress.grow(size_bytes);
    }

    fn holes(&self, size_bytes: u64) {
        self.progress.shrink(size_bytes);
    }

    fn moved(&self, size_bytes: u64) {
        self.progress.advance(size_bytes);
    }

    fn failed(&self, path: &[u8], error: &Error) {
        let path = names::text(&names::join(self.from.as_bytes(), path));
        output::note(&format!("thalweg cp: {path}: {error}"));
    }

    fn damaged(&self, path: &[u8], ranges: &[Range<u64>]) {
        let path = names::text(&names::join(self.from.as_bytes(), path));
        output::note(&format!("thalweg cp: {}", damaged(&path, ranges)));
    }

    fn left_alone(&self, path: &[u8]) {
        let path = names::text(&names::join(self.to.as_bytes(), path));
        output::note(&format!("thalweg cp: {path}: exists, but no copy is known to have made it, so it was left alone"));
    }

    fn cancelled(&self) -> bool {
        self.interrupt.is_raised()
    }
}

impl TreeCopy<'_> {
    /// Copies the tree; returns the outcome and the duration in seconds.
    pub(super) fn run(&self, job: &TreeJob, trace: &TraceHandle) -> Result<(TreeOutcome, f64), Failure> {
        let begun = Instant::now();
        let progress = Progress::new(self.from, None, self.quiet || self.json);
        let watch = Watch { from: self.from, to: self.to, progress, interrupt: self.interrupt };
        let outcome = copy_tree(job, &watch, trace).map_err(|e| match e.kind() {
            ErrorKind::Cancelled => Failure::Interrupted("interrupted: the tree is incomplete".to_owned()),
            ErrorKind::Exists => in_the_way(e.file().unwrap_or(self.to)),
            _ => Failure::failed(e),
        })?;
        Ok((outcome, begun.elapsed().as_secs_f64()))
    }

    /// Prints the outcome.
    pub(super) fn report(&self, done: (TreeOutcome, f64, Option<Report>), recording: Option<&PathBuf>) -> Result<(), Failure> {
        let (outcome, seconds, tuning) = done;
        if outcome.modified > 0 {
            let files = if outcome.modified == 1 { "1 file was".to_owned() } else { format!("{} files were", outcome.modified) };
            output::note(&format!("{}: {files} modified during the copy; their copies may mix old and new bytes", self.from));
        }
        if let Some(note) = left_out(&outcome.left_out) {
            output::note(&format!("{}: {note}", self.to));
        }
        if outcome.unread > 0 {
            let many = outcome.unread;
            return Err(Failure::failed(format!("{}: {many} directories could not be read; the rest was copied", self.from)));
        }
        if outcome.failed > 0 {
            let (many, files) = (outcome.failed, outcome.files);
            return Err(Failure::failed(format!("{}: {many} entries were not copied; {files} files were", self.from)));
        }
        if outcome.damaged > 0 {
            let files = if outcome.damaged == 1 { "1 file".to_owned() } else { format!("{} files", outcome.damaged) };
            return Err(Failure::failed(format!("{}: damaged bytes of {files} were left out; the rest was copied", self.from)));
        }
        let data_bytes = outcome.size_bytes - outcome.hole_bytes;
        if self.json {
            return output::json(&Document {
                schema: "thalweg.cp/1",
                from: self.from,
                to: self.to,
                size_bytes: outcome.size_bytes,
                data_bytes,
                elapsed_s: seconds,
                rate_bytes_per_s: if seconds > 0.0 { data_bytes as f64 / seconds } else { 0.0 },
                files: outcome.files,
                directories: outcome.directories,
                others: outcome.others,
                devices_left_out: outcome.left_out.devices,
                set_id_bits_left_out: outcome.left_out.set_id_bits,
                owners_left_out: outcome.left_out.owners,
                recording,
                tuning,
            });
        }
        if !self.quiet {
            let (rate, size) = (numbers::byte_rate(data_bytes as f64 / seconds), numbers::size(outcome.size_bytes));
            output::note(&format!("{}: {} files, {size} in {}, {rate}", self.to, outcome.files, numbers::duration(seconds)));
            tuning.iter().for_each(|report| output::note(&report.text()));
        }
        Ok(())
    }
}

/// Maximum ranges listed in a message.
const LISTED: usize = 20;

/// Lists the ranges of a file that are damaged and were left out.
pub(super) fn damaged(from: &str, damaged: &[Range<u64>]) -> String {
    let bytes: u64 = damaged.iter().map(|range| range.end - range.start).sum();
    let listed: Vec<String> = damaged.iter().take(LISTED).map(|range| format!("bytes {} to {}", range.start, range.end)).collect();
    let others =
        if damaged.len() > LISTED { format!("; {} more (--json of a single file has all)", damaged.len() - LISTED) } else { String::new() };
    format!("{from}: {} are damaged at rest and were left out: {}{others}", numbers::size(bytes), listed.join("; "))
}

/// Returns the failure for a target that exists.
pub(super) fn in_the_way(path: &str) -> Failure {
    Failure::failed(format!("{path}: exists already; append / to copy into it, or use --force to overwrite it"))
}

/// Returns a line about what was left out; `None` if nothing was.
fn left_out(left_out: &LeftOut) -> Option<String> {
    let LeftOut { devices, set_id_bits, owners } = *left_out;
    let counted =
        |many: u64, one: &str, more: &str| (many > 0).then(|| if many == 1 { format!("1 {one}") } else { format!("{many} {more}") });
    let unasked = [
        counted(devices, "device node", "device nodes"),
        counted(set_id_bits, "file's set-user or set-group bits", "files' set-user or set-group bits"),
    ];
    let unasked: Vec<String> = unasked.into_iter().flatten().collect();
    let unasked = (!unasked.is_empty()).then(|| format!("left out {} (--privileges copies them)", unasked.join(" and ")));
    let owners = counted(owners, "owner", "owners").map(|many| format!("{many} not kept: only the store's own credential may set them"));
    let parts: Vec<String> = unasked.into_iter().chain(owners).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_what_was_left_out_and_there_is_none_where_nothing_was() {
        assert_eq!(left_out(&LeftOut::default()), None);
        let some = LeftOut { devices: 1, set_id_bits: 2, owners: 3 };
        let line = "left out 1 device node and 2 files' set-user or set-group bits (--privileges copies them); \
                    3 owners not kept: only the store's own credential may set them";
        assert_eq!(left_out(&some).as_deref(), Some(line));
    }
}
