//! Writes recordings.

use super::checksums;
use super::convert::{convert, remove_tables};
use super::segment::{IN_MEMORY_BYTES, SegmentWriter, describes, frame, segment_paths};
use super::{META, SEGMENTS, write_meta};
use crate::{Event, FORMAT_VERSION, Loss, Meta, Sink, Time, TraceError, secrets};
use parking_lot::{Mutex, MutexGuard};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a recording ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// End of the interval to explain, on the reference host's clock.
    pub end: Time,
    /// Exit code of the command, if it exited.
    pub exit_code: Option<i32>,
    /// Events lost before they reached the writer and not counted by any `lost` mark.
    pub dropped_events: u64,
    /// Attributes to add to `meta.json`.
    pub attributes: Vec<(String, String)>,
}

impl Ending {
    /// Creates an ending at `end`, with no further facts.
    pub fn at(end: Time) -> Ending {
        Ending { end, exit_code: None, dropped_events: 0, attributes: Vec::new() }
    }
}

/// Maximum events of a batch written as one frame.
const FRAME_EVENTS: usize = 4_096;

/// Maximum rows of small tables retained while the disk accepts no writes.
const KEPT_ROWS: usize = 10_000;

/// Writes a recording. Batches are encoded by the calling thread and written with one `write(2)` each; nothing is
/// buffered here, so memory is bounded and a kill loses nothing that was accepted. While the disk accepts no writes,
/// events are counted as lost on their tracks, and the rows that others refer to are retained for later.
pub struct RecordingWriter {
    root: PathBuf,
    /// Names and command words are recorded unchanged, even if they look like secrets.
    keeps_secrets: bool,
    state: Mutex<State>,
}

struct State {
    meta: Meta,
    segments: Option<SegmentWriter>,
    loss: Loss,
    /// Total lost events, whether or not a mark of them was written.
    lost_events: u64,
    kept: Vec<Event>,
}

impl std::fmt::Debug for RecordingWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingWriter").field("root", &self.root).finish_non_exhaustive()
    }
}

/// Creates a recording's directory and its parents. The recording holds command lines, file names and error messages
/// of programs, so it is private to its user, whatever the umask. An existing directory keeps its mode, so that its
/// user can share it.
pub(super) fn make_directory(path: &Path) -> Result<(), TraceError> {
    let failed = |e: std::io::Error| TraceError::new(path, format!("cannot be created: {e}"));
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above).map_err(failed)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.map_err(failed),
    }
}

impl RecordingWriter {
    /// Begins a recording at `path`, which must not exist or be an empty directory. Likely secrets are removed from
    /// the command, attributes and names unless the attribute [`secrets::KEPT`] is set.
    pub fn create(path: &Path, meta: Meta) -> Result<Arc<RecordingWriter>, TraceError> {
        RecordingWriter::create_bounded(path, meta, u64::MAX)
    }

    /// Begins a recording, as [`RecordingWriter::create`] does; events that would make its segments larger than
    /// `limit_bytes` are counted as lost.
    pub fn create_bounded(path: &Path, meta: Meta, limit_bytes: u64) -> Result<Arc<RecordingWriter>, TraceError> {
        make_directory(path)?;
        let mut entries = std::fs::read_dir(path).map_err(|e| TraceError::new(path, format!("cannot be read: {e}")))?;
        if entries.next().is_some() {
            return Err(TraceError::new(path, "exists and is not empty; choose another name for the recording, or remove it"));
        }
        let mut meta = Meta { format: FORMAT_VERSION, end: None, ..meta };
        secrets::cut_meta(&mut meta);
        let keeps_secrets = secrets::is_kept(&meta);
        let segments = SegmentWriter::create(&path.join(SEGMENTS), limit_bytes)?;
        write_meta(path, &meta)?;
        let state = State { meta, segments: Some(segments), loss: Loss::default(), lost_events: 0, kept: Vec::new() };
        Ok(Arc::new(RecordingWriter { root: path.to_owned(), keeps_secrets, state: Mutex::new(state) }))
    }

    /// Sets the start of the interval to explain and the recorder, if they were not known at creation.
    pub fn begin_at(&self, start: Time, recorder: &str) -> Result<(), TraceError> {
        let mut state = self.lock();
        state.meta.start = start;
        recorder.clone_into(&mut state.meta.recorder);
        write_meta(&self.root, &state.meta)
    }

    /// Returns the recording's directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns how many events this writer has lost so far.
    pub fn lost_events(&self) -> u64 {
        self.lock().lost_events
    }

    /// Converts the segments to tables. Call it after every tracer has flushed; later events are dropped. On an error
    /// the recording stays unfinished and can be opened.
    pub fn finish(&self, ending: Ending) -> Result<(), TraceError> {
        let mut state = self.lock();
        if state.segments.take().is_none() {
            return Err(TraceError::new(&self.root, "is already finished"));
        }
        let more = state.left_over();
        let directory = self.root.join(SEGMENTS);
        let totals = convert(&segment_paths(&directory)?, &more, &self.root)?;
        let dropped = [totals.lost_events, totals.damage.lost_events];
        self.end(&mut state, ending, dropped.into_iter().fold(0, u64::saturating_add))?;
        std::fs::remove_dir_all(&directory).map_err(|e| TraceError::new(&directory, format!("cannot be removed: {e}")))
    }

    /// Finishes a recording that is read once and not kept: no tables are made of a small one, since that would take
    /// longer to write and read than the rest.
    pub fn finish_to_read_once(&self, ending: Ending) -> Result<(), TraceError> {
        let mut state = self.lock();
        let paths = segment_paths(&self.root.join(SEGMENTS))?;
        let size: u64 = paths.iter().map(|path| path.metadata().map_or(u64::MAX, |m| m.len())).fold(0, u64::saturating_add);
        let is_whole = state.kept.is_empty() && state.loss.total() == 0;
        if size > IN_MEMORY_BYTES / 2 || !is_whole || state.segments.take().is_none() {
            drop(state);
            return self.finish(ending);
        }
        // Losses before this point are counted from the segments when they are read.
        self.end(&mut state, ending, 0)
    }

    /// Writes the end of the recording to `meta.json`.
    fn end(&self, state: &mut State, ending: Ending, dropped_events: u64) -> Result<(), TraceError> {
        let meta = &mut state.meta;
        meta.end = Some(ending.end);
        meta.exit_code = ending.exit_code;
        let mut attributes = ending.attributes;
        if !self.keeps_secrets {
            secrets::cut_attributes(&mut attributes);
        }
        meta.attributes.extend(attributes);
        secrets::note_cut(meta);
        let dropped = [dropped_events, ending.dropped_events, state.loss.elsewhere];
        meta.dropped_events = dropped.into_iter().fold(meta.dropped_events, u64::saturating_add);
        write_meta(&self.root, meta)
    }

    /// Removes what was written. In the directory only the recording's own files are removed, and the directory
    /// itself if it is then empty and `with_directory` is set.
    pub fn discard(&self, with_directory: bool) {
        self.lock().segments = None;
        let directory = self.root.join(SEGMENTS);
        for path in segment_paths(&directory).unwrap_or_default() {
            let _ = std::fs::remove_file(path);
        }
        let _ = std::fs::remove_dir(directory);
        remove_tables(&self.root);
        for file in [meta_path(&self.root), self.root.join(checksums::NAME)] {
            let _ = std::fs::remove_file(file);
        }
        if with_directory {
            let _ = std::fs::remove_dir(&self.root);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn append(&self, events: &[Event]) {
        match frame(events) {
            Some(bytes) => self.lock().append(&bytes, events),
            None if events.len() > 1 => {
                let (first, second) = events.split_at(events.len() / 2);
                self.append(first);
                self.append(second);
            }
            // A single event longer than a frame.
            None => events.iter().for_each(|event| self.lock().lose(event)),
        }
    }
}

impl State {
    fn append(&mut self, bytes: &[u8], events: &[Event]) {
        self.append_overdue();
        let Some(segments) = &mut self.segments else { return };
        if segments.append(bytes).is_err() {
            for event in events {
                self.set_aside(event);
            }
        }
    }

    /// Writes what could not be written earlier: rows that others refer to, and marks of losses.
    fn append_overdue(&mut self) {
        if self.kept.is_empty() && self.loss.total() == self.loss.elsewhere {
            return;
        }
        let Some(segments) = &mut self.segments else { return };
        let marks = self.loss.take_marks();
        let overdue: Vec<Event> = self.kept.iter().chain(&marks).cloned().collect();
        if frame(&overdue).is_some_and(|bytes| segments.append(&bytes).is_ok()) {
            self.kept.clear();
        } else {
            marks.iter().for_each(|mark| self.loss.count(mark));
        }
    }

    fn set_aside(&mut self, event: &Event) {
        if describes(event) && self.kept.len() < KEPT_ROWS {
            self.kept.push(event.clone());
        } else {
            self.lose(event);
        }
    }

    /// Returns what could not be written so far: rows that others refer to, and marks of losses.
    fn left_over(&mut self) -> Vec<Event> {
        let mut more = std::mem::take(&mut self.kept);
        more.append(&mut self.loss.take_marks());
        more
    }

    fn lose(&mut self, event: &Event) {
        self.loss.count(event);
        self.lost_events += 1;
    }
}

impl Sink for RecordingWriter {
    fn take(&self, batch: &mut Vec<Event>) {
        if !self.keeps_secrets {
            batch.iter_mut().for_each(secrets::cut_event);
        }
        batch.chunks(FRAME_EVENTS).for_each(|events| self.append(events));
        batch.clear();
    }
}

/// Returns the path of a recording's `meta.json`.
pub(super) fn meta_path(root: &Path) -> PathBuf {
    root.join(META)
}
