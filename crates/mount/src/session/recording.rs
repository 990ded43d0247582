//! A mount that records itself: each request is a span on its thread's track, with what it asks of servers inside it, and the
//! servers record their ends.

use crate::errors::{MountError, Result};
use crate::filesystem::FileSystem;
use crate::fuse::request::{Header, Operation};
use crate::options::Options;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_client::copy::Recorder;
use thalweg_client::metadata::MetadataClient;
use thalweg_client::{DataClient, Store};
use thalweg_trace::{ObjectKind, OpenSpan, SpanFields, SpanKind, Time, TraceHandle, Tracer};

/// A recording that is being made.
pub(super) struct Recording {
    recorder: Recorder,
}

impl Recording {
    /// Begins a session at every server, and then the recording.
    ///
    /// # Errors
    /// It cannot be made, or the metadata service cannot be asked.
    pub(super) fn start(
        to: &(PathBuf, Vec<String>),
        options: &Options,
        names: &MetadataClient,
        data: &Arc<DataClient>,
    ) -> Result<Recording> {
        let store = Store { names: Arc::new(names.clone()), data: Arc::clone(data) };
        let recording =
            thalweg_client::copy::Recording { path: to.0.clone(), command: to.1.clone(), node: options.node.clone(), keep_command: false };
        Ok(Recording { recorder: Recorder::start(&recording, &[&store])? })
    }

    /// How threads record.
    pub(super) fn mode(&self) -> TraceHandle {
        self.recorder.mode.clone()
    }

    /// Fetches what the servers recorded, and writes everything out. All threads that record have ended.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(self) -> Result<()> {
        self.recorder.finish(Time::now(), 0, Vec::new()).map(drop).map_err(MountError::from)
    }
}

/// A request's span, begun.
pub(super) struct Tracing {
    begun: OpenSpan,
    kind: SpanKind,
    offset_bytes: Option<u64>,
    size_bytes: Option<u64>,
}

/// Begins the wait for the next request.
pub(super) fn wait(tracer: &mut Tracer) -> Option<OpenSpan> {
    tracer.is_on().then(|| tracer.begin())
}

/// Ends it. The threads that make requests are not recorded, so it is a pause of theirs.
pub(super) fn waited(tracer: &mut Tracer, begun: Option<OpenSpan>) {
    if let Some(begun) = begun {
        tracer.end(begun, SpanKind::WaitTimer, SpanFields::default());
    }
}

/// Begins a request's span.
pub(super) fn begin(tracer: &mut Tracer, operation: &Operation<'_>) -> Option<Tracing> {
    if !tracer.is_on() {
        return None;
    }
    use Operation as O;
    let (kind, offset_bytes, size_bytes) = match operation {
        O::Read { offset, length, .. } => (SpanKind::FileRead, Some(*offset), Some(u64::from(*length))),
        O::Write { offset, bytes, .. } => (SpanKind::FileWrite, Some(*offset), Some(bytes.len() as u64)),
        O::Open { .. } | O::Create { .. } => (SpanKind::FileOpen, None, None),
        O::Flush { .. } | O::Release { .. } => (SpanKind::FileClose, None, None),
        O::Sync { .. } | O::SyncDirectory | O::SyncFileSystem => (SpanKind::FileSync, None, None),
        O::Lookup { .. } | O::GetAttributes { .. } => (SpanKind::FileStat, None, None),
        O::ReadDirectory { .. } => (SpanKind::FileList, None, None),
        _ => (SpanKind::FileOther, None, None),
    };
    Some(Tracing { begun: tracer.begin(), kind, offset_bytes, size_bytes })
}

/// Ends it: what came of it, and how many bytes there were.
pub(super) fn end(files: &FileSystem, tracer: &mut Tracer, tracing: Option<Tracing>, header: &Header, errno: i32, moved_bytes: usize) {
    let Some(Tracing { begun, kind, offset_bytes, size_bytes }) = tracing else { return };
    let object = files.table.get(header.node).and_then(|inode| {
        let mut state = inode.state();
        if state.object.is_none() {
            let name = files.table.path(inode.id, &state);
            state.object = files.mode.object(ObjectKind::File, &name, &[]);
        }
        state.object
    });
    let size_bytes = if kind == SpanKind::FileRead { Some(moved_bytes as u64) } else { size_bytes };
    let about = SpanFields { object, offset_bytes, size_bytes, result: Some(-i64::from(errno)), ..SpanFields::default() };
    tracer.end(begun, kind, about);
}
