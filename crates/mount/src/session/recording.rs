//! Recording a mount: each request is a span on its thread's track, with its calls to servers inside, and the servers record their side.

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

/// A recording in progress.
pub(super) struct Recording {
    recorder: Recorder,
}

impl Recording {
    /// Begins a session at every server, and then the recording.
    ///
    /// # Errors
    /// The recording cannot be created, or the metadata service is unreachable.
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

    /// Returns the trace handle for threads.
    pub(super) fn trace(&self) -> TraceHandle {
        self.recorder.trace.clone()
    }

    /// Fetches the servers' events and finishes the recording. All recording threads must have ended.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub(super) fn finish(self) -> Result<()> {
        self.recorder.finish(Time::now(), 0, Vec::new()).map(drop).map_err(MountError::from)
    }
}

/// Span of a request in progress.
pub(super) struct Tracing {
    begun: OpenSpan,
    kind: SpanKind,
    offset_bytes: Option<u64>,
    size_bytes: Option<u64>,
}

/// Begins the span of the wait for the next request.
pub(super) fn wait(tracer: &mut Tracer) -> Option<OpenSpan> {
    tracer.is_on().then(|| tracer.begin())
}

/// Ends that span. The requesting threads are not recorded, so the wait appears as their pause.
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

/// Ends a request's span, with its result and size.
pub(super) fn end(files: &FileSystem, tracer: &mut Tracer, tracing: Option<Tracing>, header: &Header, errno: i32, moved_bytes: usize) {
    let Some(Tracing { begun, kind, offset_bytes, size_bytes }) = tracing else { return };
    let object = files.table.get(header.node).and_then(|inode| {
        let mut state = inode.state();
        if state.object.is_none() {
            let name = files.table.path(inode.id, &state);
            state.object = files.trace.object(ObjectKind::File, &name, &[]);
        }
        state.object
    });
    let size_bytes = if kind == SpanKind::FileRead { Some(moved_bytes as u64) } else { size_bytes };
    let about = SpanFields { object, offset_bytes, size_bytes, result: Some(-i64::from(errno)), ..SpanFields::default() };
    tracer.end(begun, kind, about);
}
