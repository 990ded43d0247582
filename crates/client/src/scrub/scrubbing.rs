//! A scrub while it runs: what all its steps share.

use super::findings::{Collected, FindingKind, Place};
use super::pace::Pace;
use crate::files::DataClient;
use crate::metadata::MetadataClient;
use std::time::Duration;
use thalweg_base::sync::Mutex;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::{FileId, IoReply, IoRequest};
use thalweg_wire::protocol::scrub::{ScrubPage, ScrubRequest};
use thalweg_wire::{Result, unexpected};

/// What to scrub, and how.
#[derive(Clone, Debug, Default)]
pub struct ScrubOptions {
    /// Files and trees, as absolute paths; if these and `files` are empty: the whole store, with everything that has no name.
    pub paths: Vec<Vec<u8>>,
    /// Files, by number.
    pub files: Vec<FileId>,
    /// Bytes per second, of all targets together; `None`: as fast as they can be read.
    pub bytes_per_second: Option<u64>,
    /// Move datafiles that belong to no file to `set-aside`.
    pub repair: bool,
    /// Give checksums to targets that an earlier release made.
    pub add_checksums: bool,
    /// Go on where the last scrub of each target was interrupted.
    pub go_on: bool,
    /// The interval at which scrubs are scheduled, for those who ask when the next one is due.
    pub every: Option<Duration>,
}

/// What a scrub calls while it runs.
pub trait Watch: Sync {
    /// Whether it is to end.
    fn is_over(&self) -> bool;
    /// Notes the bytes read so far, and the estimate of all of them; an estimate of 0 means that it is not known.
    fn read(&self, bytes: u64, about: u64);
}

/// Reads the metadata's rows, and returns what is wrong with them, a sentence each.
pub type CheckRows<'a> = &'a dyn Fn() -> Result<Vec<String>>;

/// A scrub while it runs.
pub(super) struct Scrub<'a> {
    pub(super) names: &'a MetadataClient,
    pub(super) data: &'a DataClient,
    pub(super) options: &'a ScrubOptions,
    pub(super) watch: &'a dyn Watch,
    pub(super) pace: Pace,
    pub(super) found: Mutex<Collected>,
}

impl<'a> Scrub<'a> {
    pub(super) fn new(names: &'a MetadataClient, data: &'a DataClient, options: &'a ScrubOptions, watch: &'a dyn Watch) -> Scrub<'a> {
        Scrub { names, data, options, watch, pace: Pace::new(options.bytes_per_second), found: Mutex::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.watch.is_over()
    }

    /// Sends a request to the server of a target.
    fn ask(&self, server: usize, request: ScrubRequest) -> Result<IoReply> {
        let link = &self.data.links()[server];
        Ok(link.call(&mut Tracer::off(), &IoRequest::Scrub(request), &[])?.0)
    }

    pub(super) fn page(&self, server: usize, request: ScrubRequest) -> Result<ScrubPage> {
        match self.ask(server, request)? {
            IoReply::Scrub(page) => {
                self.pace.spend(page.read_bytes, &|| self.is_over());
                Ok(*page)
            }
            other => Err(unexpected(&other).at_server(self.data.links()[server].name())),
        }
    }

    /// Adds what is wrong with the metadata's rows.
    pub(super) fn rows(&self, check: CheckRows<'_>) {
        let problems = check();
        let mut found = self.found.lock();
        match problems {
            Ok(problems) => {
                problems.into_iter().for_each(|problem| found.add(FindingKind::Metadata, Place::default(), problem));
            }
            Err(error) => found.report.silent.push(error.to_string()),
        }
    }

    pub(super) fn done(&self, server: usize, request: ScrubRequest) -> Result<()> {
        match self.ask(server, request)? {
            IoReply::Done => Ok(()),
            other => Err(unexpected(&other).at_server(self.data.links()[server].name())),
        }
    }
}
