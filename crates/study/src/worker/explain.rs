//! Recordings of runs through the client library, and their explanations.

use super::protocol::Digest;
use crate::{Error, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use thalweg_client::Store;
use thalweg_client::copy::{Recorder, Recording as Asked};
use thalweg_explain::{Explanation, Options};
use thalweg_trace::{
    Clock, Counter, CounterName, Host, Mark, Meta, Object, Recording, Sample, Source, SourceError, SpanBatch, Stack, Time, Track,
};

/// Number of charges in a digest.
const CHARGES: usize = 4;

/// Makes a private directory, or checks that an existing one is private: its name is predictable, and others may write beside it.
fn own_directory(path: &Path) -> std::io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            let found = std::fs::symlink_metadata(path)?;
            let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
            if is_ours { Ok(()) } else { Err(e) }
        }
        made => made,
    }
}

/// Starts a recording of both ends.
pub(super) fn start(store: &Store, node: &str, number: u32, read: bool) -> Result<Recorder> {
    let directory = std::env::temp_dir().join(format!("thalweg-study-{}", std::process::id()));
    own_directory(&directory).map_err(Error::file(&directory, "making a place for recordings"))?;
    let way = if read { "read" } else { "write" };
    let asked = Asked {
        path: directory.join(format!("{number}.thw")),
        command: vec!["thalweg".into(), "bench".into(), "layout".into(), way.into()],
        node: node.to_owned(),
        keep_command: false,
    };
    Ok(Recorder::start(&asked, &[store])?)
}

/// A recorded run, and its time.
pub(super) struct Recorded {
    pub recorder: Recorder,
    pub start: Time,
    pub end: Time,
    /// Attributes of the transfer, for the explanation.
    pub attributes: Vec<(String, String)>,
}

impl Recorded {
    /// Fetches the servers' part, explains the recording and removes it. `None` if it cannot be explained, in which case the measured time
    /// is still valid.
    pub(super) fn explain(self) -> Option<Digest> {
        let path = self.recorder.finish(self.end, 0, self.attributes).ok()?;
        let digest = explained(&path, self.start);
        let _ = std::fs::remove_dir_all(&path);
        // Removes the directory once the last recording is gone.
        let _ = path.parent().map(std::fs::remove_dir);
        digest.map(|explanation| digest_of(&explanation))
    }
}

fn explained(path: &Path, start: Time) -> Option<Explanation> {
    let recording = Recording::open(path).ok()?;
    let meta = Meta { start, ..recording.meta().clone() };
    thalweg_explain::explain(&From { recording, meta }, &Options { what_if: false, ..Options::default() }).ok()
}

/// Returns a short form of an explanation.
fn digest_of(explanation: &Explanation) -> Digest {
    let verdict = &explanation.verdict;
    let charges = explanation.critical_path.iter().take(CHARGES);
    Digest {
        cause: verdict.cause.name().to_owned(),
        place: verdict.place.clone(),
        share: verdict.share,
        charges: charges.map(|c| (c.cause.name().to_owned(), c.place.clone(), c.share)).collect(),
        sentence: verdict.sentence.clone(),
    }
}

/// A recording from a later start on, without the wait at the barrier.
struct From {
    recording: Recording,
    meta: Meta,
}

impl Source for From {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn hosts(&self) -> &[Host] {
        self.recording.hosts()
    }
    fn clocks(&self) -> &[Clock] {
        self.recording.clocks()
    }
    fn tracks(&self) -> &[Track] {
        self.recording.tracks()
    }
    fn objects(&self) -> &[Object] {
        self.recording.objects()
    }
    fn spans_backward<'a>(&'a self) -> Box<dyn Iterator<Item = std::result::Result<SpanBatch, SourceError>> + 'a> {
        self.recording.spans_backward()
    }
    fn marks(&self) -> std::result::Result<Vec<Mark>, SourceError> {
        self.recording.marks()
    }
    fn counters(&self, name: CounterName) -> std::result::Result<Vec<Counter>, SourceError> {
        self.recording.counters(name)
    }
    fn samples(&self) -> std::result::Result<Vec<Sample>, SourceError> {
        self.recording.samples()
    }
    fn stacks(&self) -> std::result::Result<Vec<Stack>, SourceError> {
        self.recording.stacks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_go_to_a_directory_that_nobody_else_may_write_to_and_through_no_link() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("own");
        own_directory(&path).unwrap();
        own_directory(&path).unwrap();
        std::os::unix::fs::symlink(&path, here.path().join("link")).unwrap();
        assert!(own_directory(&here.path().join("link")).is_err());
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(own_directory(&path).is_err());
    }
}
