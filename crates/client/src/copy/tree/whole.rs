//! Copying a large file of a tree like a single file: in flow buffers over its own connections.

use super::job::Context;
use crate::copy::control::Control;
use crate::copy::ends::{From, OpenSource, StoreEnd, To};
use crate::copy::job::{Chosen, CopyJob, CopyObserver, Sink};
use crate::copy::local::{Finish, LocalPlace, LocalSink, LocalSource};
use crate::copy::run::large;
use crate::copy::stream::Stream;
use crate::files::{FileHandle, Store};
use crate::metadata::OpenFile;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_trace::{ObjectKind, Tracer};
use thalweg_wire::protocol::metadata::LayoutChoice;
use thalweg_wire::{Error, ErrorKind, Result};

/// An open source file.
pub(super) enum Source {
    Local(LocalSource),
    /// Without a reliable size: read to its end.
    Stream(Stream),
    /// Held open, so that its bytes stay while they are copied.
    Store(Store, FileHandle, u64, Box<OpenFile>),
}

/// Destination of the file.
pub(super) enum Target<'a> {
    /// A local name.
    Local(LocalPlace<'a>),
    /// A file already created, which the caller renames.
    Store(&'a Store, Box<FileHandle>),
}

/// Result of moving a file.
pub(super) struct Moved {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether the source was modified meanwhile.
    pub modified: bool,
    /// Bytes in holes, which were not moved.
    pub hole_bytes: u64,
    /// Ranges that are damaged at rest and were left out.
    pub damaged: Vec<Range<u64>>,
}

/// Moves all bytes of a file.
///
/// # Errors
/// Names server and file. A local destination is unchanged.
pub(super) fn move_all(context: Context<'_>, tracer: &mut Tracer, source: Source, target: Target<'_>) -> Result<Moved> {
    let path = match &target {
        Target::Local(place) => place.path.display().to_string(),
        Target::Store(_, handle) => handle.path().to_owned(),
    };
    // Held open until the copy is done.
    let (from, size_bytes, direct, _open) = match source {
        Source::Local(local) => {
            let size_bytes = local.size_bytes();
            (From::Local(Arc::new(local)), Some(size_bytes), matches!(target, Target::Store(..)), None)
        }
        Source::Stream(stream) => (From::Stream(stream), None, false, None),
        Source::Store(store, handle, size_bytes, open) => (
            From::Store(StoreEnd::of(&store, handle, false)),
            Some(size_bytes),
            !context.job.skip_damaged && matches!(target, Target::Local(..)),
            Some(open),
        ),
    };
    let job = job_of(context, &from, &target);
    let chosen = Chosen::new(&job, direct)?;
    let object = context.trace.object(
        ObjectKind::File,
        &path,
        &size_bytes.map(|size| ("size_bytes", size.to_string())).into_iter().collect::<Vec<_>>(),
    );
    let source = OpenSource { end: from, size_bytes, mode: 0, object };
    let mut finish: Option<Finish<'_>> = None;
    let mut to = match target {
        Target::Local(LocalPlace { directory, name, path, mode, finish: attributes, left_alone }) => {
            let sink = LocalSink::create_in(directory, name, &path, size_bytes, (mode, context.job.force))?;
            if sink.left_alone.is_some() {
                left_alone();
            }
            finish = Some(attributes);
            To::Local(Arc::new(sink))
        }
        Target::Store(store, handle) => To::Store(StoreEnd::of(store, *handle, context.job.sync)),
    };
    let watch = Watch { context, size_bytes: size_bytes.unwrap_or(0), seen_bytes: Cell::new(0), seen_holes: Cell::new(0) };
    let (moved, damaged) = large(&job, &source, &to, chosen, &watch, context.trace, tracer)?;
    let hole_bytes = job.control.hole_bytes.load(Ordering::Relaxed);
    watch.progress(moved.saturating_sub(hole_bytes), Some(moved.saturating_sub(hole_bytes)));
    context.check()?;
    let modified = if let From::Local(local) = &source.end { local.check_unchanged()? } else { false };
    if let To::Local(sink) = &mut to {
        let sink = Arc::get_mut(sink).ok_or_else(|| Error::new(ErrorKind::Io, "the sink is still being written: a bug"))?;
        finish.map_or(Ok(()), |finish| finish(sink.file()))?;
        sink.keep(context.job.sync, moved)?;
    }
    Ok(Moved { size_bytes: moved, modified, hole_bytes, damaged })
}

/// Returns a job with the tree's options, for the code shared with single copies.
fn job_of(context: Context<'_>, from: &From, target: &Target<'_>) -> CopyJob {
    let store = match (from, target) {
        (From::Store(end), _) => end.store.clone(),
        (_, Target::Store(store, _)) => (*store).clone(),
        // Already checked: one end is a store.
        _ => return CopyJob::new(crate::copy::job::Source::Memory(0), Sink::Null),
    };
    let sink = Sink::Store(store, String::new(), LayoutChoice::default());
    let mut job = CopyJob::new(crate::copy::job::Source::Memory(0), sink);
    job.tuning = context.job.tuning.clone();
    job.sync = context.job.sync;
    job.sparse = context.job.sparse;
    job.skip_damaged = context.job.skip_damaged && matches!(from, From::Store(_));
    job.control = Arc::new(Control::part_of(&context.job.control));
    job
}

/// Reports a file's progress as part of the tree's.
struct Watch<'a> {
    context: Context<'a>,
    size_bytes: u64,
    seen_bytes: Cell<u64>,
    seen_holes: Cell<u64>,
}

impl CopyObserver for Watch<'_> {
    fn progress(&self, moved_bytes: u64, data_bytes: Option<u64>) {
        let hole_bytes = self.size_bytes.saturating_sub(data_bytes.unwrap_or(self.size_bytes));
        let seen = self.seen_holes.replace(hole_bytes);
        self.context.observer.holes(hole_bytes.saturating_sub(seen));
        let seen = self.seen_bytes.replace(moved_bytes);
        self.context.moved(moved_bytes.saturating_sub(seen));
    }

    fn cancelled(&self) -> bool {
        self.context.observer.cancelled()
    }
}
