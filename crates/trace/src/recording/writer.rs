//! The recorder's end of a recording.

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
    /// Exit code of the command, if it ended.
    pub exit_code: Option<i32>,
    /// Events that were lost before they came here, and that no `lost` mark counts.
    pub dropped_events: u64,
    /// Added to the attributes in `meta.json`.
    pub attributes: Vec<(String, String)>,
}

impl Ending {
    /// Ended at `end`, with nothing else to say.
    pub fn at(end: Time) -> Ending {
        Ending { end, exit_code: None, dropped_events: 0, attributes: Vec::new() }
    }
}

/// Events of one batch that are written as one frame, at most.
const FRAME_EVENTS: usize = 4_096;

/// Rows of small tables that are kept for later while the disk takes nothing.
const KEPT_ROWS: usize = 10_000;

/// Writes a recording. Batches are encoded by the thread that brings them and written with one
/// `write(2)` each; nothing is buffered here, so memory is bounded and a kill loses nothing that was
/// taken. Where the disk takes no more, events are counted as lost on their tracks, and the rows that
/// others refer to are kept until it does.
pub struct RecordingWriter {
    root: PathBuf,
    /// Names and words are recorded as they are, whatever they look like.
    keeps_secrets: bool,
    state: Mutex<State>,
}

struct State {
    meta: Meta,
    segments: Option<SegmentWriter>,
    loss: Loss,
    /// Events that were lost in all, marks of it written or not.
    lost_events: u64,
    kept: Vec<Event>,
}

impl std::fmt::Debug for RecordingWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingWriter").field("root", &self.root).finish_non_exhaustive()
    }
}

/// Makes a recording's directory, and those above it. Command lines, names of files and errors of programs are in it: it is its user's alone, whatever
/// the umask. One that is there already keeps its mode, by which its user may share it.
pub(super) fn make_directory(path: &Path) -> Result<(), TraceError> {
    let failed = |e: std::io::Error| TraceError::new(path, format!("cannot be made: {e}"));
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above).map_err(failed)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.map_err(failed),
    }
}

impl RecordingWriter {
    /// Begins a recording at `path`, which must not exist or be an empty directory. What looks like a secret in its command, its attributes and its
    /// names is cut, unless the attribute [`secrets::KEPT`] is there.
    pub fn create(path: &Path, meta: Meta) -> Result<Arc<RecordingWriter>, TraceError> {
        RecordingWriter::create_bounded(path, meta, u64::MAX)
    }

    /// The same; what would make its segments larger than `limit_bytes` is counted as lost.
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

    /// Says when the interval to explain begins, and who records it, where that was not known when the recording was made.
    pub fn begin_at(&self, start: Time, recorder: &str) -> Result<(), TraceError> {
        let mut state = self.lock();
        state.meta.start = start;
        recorder.clone_into(&mut state.meta.recorder);
        write_meta(&self.root, &state.meta)
    }

    /// The recording's directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// How many events this writer has lost so far.
    pub fn lost_events(&self) -> u64 {
        self.lock().lost_events
    }

    /// Turns the segments into tables. Call it when every tracer has handed over what it had; what comes
    /// later is dropped. On an error the recording stays as it is, unfinished, and can be opened.
    pub fn finish(&self, ending: Ending) -> Result<(), TraceError> {
        let mut state = self.lock();
        if state.segments.take().is_none() {
            return Err(TraceError::new(&self.root, "is finished already"));
        }
        let more = state.left_over();
        let directory = self.root.join(SEGMENTS);
        let totals = convert(&segment_paths(&directory)?, &more, &self.root)?;
        let dropped = [totals.lost_events, totals.damage.lost_events];
        self.end(&mut state, ending, dropped.into_iter().fold(0, u64::saturating_add))?;
        std::fs::remove_dir_all(&directory).map_err(|e| TraceError::new(&directory, format!("cannot be removed: {e}")))
    }

    /// The same for a recording that is read once and not kept: of a small one no tables are made, which would take longer to write and to
    /// read than the rest.
    pub fn finish_to_read_once(&self, ending: Ending) -> Result<(), TraceError> {
        let mut state = self.lock();
        let paths = segment_paths(&self.root.join(SEGMENTS))?;
        let size: u64 = paths.iter().map(|path| path.metadata().map_or(u64::MAX, |m| m.len())).fold(0, u64::saturating_add);
        let is_whole = state.kept.is_empty() && state.loss.total() == 0;
        if size > IN_MEMORY_BYTES / 2 || !is_whole || state.segments.take().is_none() {
            drop(state);
            return self.finish(ending);
        }
        // What was lost before it came here is counted from the segments when they are read.
        self.end(&mut state, ending, 0)
    }

    /// Says how it ended.
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

    /// Removes what was written: nothing is to be kept of it. Of the directory only what a recording has goes, and the directory itself where
    /// nothing else is in it and `with_directory` says so.
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
            // One event that is longer than a frame may be.
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

    /// Writes what could not be written before: rows that others refer to, and marks of what was lost.
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

    /// What could not be written until now: rows that others refer to, and marks of what was lost.
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

/// Where the description of a recording is.
pub(super) fn meta_path(root: &Path) -> PathBuf {
    root.join(META)
}
