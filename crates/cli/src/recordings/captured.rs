//! Reads packet captures into recordings, kept where asked for or in a temporary directory. Every verb that takes a recording takes a
//! capture too; it is recognised by its content.

use super::temporary::Temporary;
use crate::failure::Failure;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_record::capture::{Capture, Options, Summary};
use thalweg_trace::{Ending, FORMAT_VERSION, Meta, Recording, RecordingWriter, Sink, Time};

/// The recording made from a capture.
pub(crate) struct CaptureRecording {
    path: PathBuf,
    pub(crate) writer: Arc<RecordingWriter>,
    temporary: Option<Temporary>,
}

impl CaptureRecording {
    /// Creates it at `output`, or in a temporary directory. `command` is the command line without the program's name.
    pub(crate) fn at(output: Option<&Path>, command: &[String], start: Time) -> Result<CaptureRecording, Failure> {
        let temporary = if output.is_some() { None } else { Some(Temporary::new()?) };
        let path = output.map(Path::to_owned).or_else(|| temporary.as_ref().map(|t| t.recording("capture.thw"))).unwrap_or_default();
        let meta = Meta {
            format: FORMAT_VERSION,
            command: std::iter::once("thalweg".to_owned()).chain(command.iter().cloned()).collect(),
            recorder: "capture".to_owned(),
            start,
            end: None,
            exit_code: None,
            dropped_events: 0,
            attributes: Vec::new(),
        };
        let writer = RecordingWriter::create(&path, meta).map_err(Failure::failed)?;
        Ok(CaptureRecording { path, writer, temporary })
    }

    /// Finishes the recording and opens it.
    pub(crate) fn finish(self, summary: &Summary) -> Result<Opened, Failure> {
        let mut attributes = summary.attributes.clone();
        if !summary.notes.is_empty() {
            attributes.push(("notes".to_owned(), summary.notes.join("\n")));
        }
        // One nanosecond more, so that a capture of a single instant has a duration.
        let ending = Ending { attributes, dropped_events: 0, ..Ending::at(summary.end.plus_ns(1)) };
        self.writer.finish(ending).map_err(Failure::failed)?;
        let recording = Recording::open(&self.path).map_err(Failure::failed)?;
        Ok(Opened { recording, notes: summary.notes.clone(), _temporary: self.temporary })
    }
}

/// An open recording; a temporary one is removed on drop.
pub(crate) struct Opened {
    recording: Recording,
    /// Notes from reading the capture.
    pub(crate) notes: Vec<String>,
    _temporary: Option<Temporary>,
}

impl Deref for Opened {
    type Target = Recording;

    fn deref(&self) -> &Recording {
        &self.recording
    }
}

/// Whether a path is a file or a stream, and so a capture: recordings are directories.
pub(crate) fn is_capture(path: &Path) -> bool {
    path == Path::new("-") || path.metadata().is_ok_and(|metadata| !metadata.is_dir())
}

/// Opens a recording, or reads a capture on behalf of `verb`.
pub(crate) fn opened(path: &Path, verb: &str) -> Result<Opened, Failure> {
    if !is_capture(path) {
        let recording = Recording::open(path).map_err(Failure::failed)?;
        return Ok(Opened { recording, notes: Vec::new(), _temporary: None });
    }
    read(path, verb, &Options::default(), None)
}

/// Reads a capture, and keeps its recording at `output` if given.
pub(crate) fn read(path: &Path, verb: &str, options: &Options, output: Option<&Path>) -> Result<Opened, Failure> {
    let capture = Capture::open(path)?;
    let kept = CaptureRecording::at(output, &[verb.to_owned(), path.display().to_string()], capture.start())?;
    let summary = capture.read(options, &(Arc::clone(&kept.writer) as Arc<dyn Sink>)).map_err(Failure::failed)?;
    kept.finish(&summary)
}
