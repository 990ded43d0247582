//! Running one copy, from its first open to its last rename.

use super::ends::{From, OpenSource, StoreEnd, To, open_sink, open_source, sink_name, source_name};
use super::holes::DataMap;
use super::job::{Chosen, CopyJob, CopyObserver, CopyOutcome, DataPath, Sink, Source, Sparse};
use super::output;
use super::record::Recorder;
use super::requests::Requests;
use super::room;
use super::small::{self, SMALL_BYTES};
use crate::files::Store;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use thalweg_base::numbers;
use thalweg_trace::{Knob, PLACE, Time, TraceHandle, Tracer};
use thalweg_wire::{Error, ErrorKind, Result};

/// Runs a copy.
///
/// # Errors
/// Names the file and, if involved, the server. The sink is unchanged.
pub fn run(job: &CopyJob, observer: &dyn CopyObserver) -> Result<CopyOutcome> {
    let stores = stores(job);
    if stores.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "neither end of the copy is in a store: name one as thal://HOST:PORT/path"));
    }
    let recorder = job.recording.as_ref().map(|recording| Recorder::start(recording, &stores)).transpose()?;
    let trace = recorder.as_ref().map_or_else(TraceHandle::off, |r| r.trace.clone());
    let mut tracer = trace.thread("main");
    let copied = copy(job, observer, &trace, &mut tracer);
    job.control.end(&trace, tracer.track());
    drop(tracer);
    let Some(recorder) = recorder else { return copied };
    let end = Time::now();
    let attributes = copied.as_ref().map_or_else(|_| Vec::new(), |outcome| attributes(job, outcome));
    let recorded = recorder.finish(end, i32::from(copied.is_err()), attributes);
    let mut outcome = copied?;
    outcome.recording = Some(recorded?);
    Ok(outcome)
}

fn stores(job: &CopyJob) -> Vec<&Store> {
    let from = if let Source::Store(store, _) = &job.source { Some(store) } else { None };
    let to = if let Sink::Store(store, ..) = &job.sink { Some(store) } else { None };
    let mut stores: Vec<&Store> = from.into_iter().collect();
    // The same store at both ends is recorded once.
    stores.extend(to.filter(|to| from.is_none_or(|from| from.data.map().store != to.data.map().store)));
    stores
}

fn attributes(job: &CopyJob, outcome: &CopyOutcome) -> Vec<(String, String)> {
    let direction = match (&job.source, &job.sink) {
        (Source::Store(..), Sink::Store(..)) => "between",
        (Source::Store(..), _) => "out",
        _ => "in",
    };
    let data_path = if outcome.data_path == DataPath::Direct { "direct" } else { "buffered" };
    let pairs = [
        ("from", source_name(&job.source)),
        ("to", sink_name(&job.sink)),
        ("direction", direction.to_owned()),
        ("size_bytes", outcome.size_bytes.to_string()),
        ("request_bytes", outcome.request_bytes.to_string()),
        ("requests", outcome.requests.to_string()),
        ("buffer_bytes", outcome.buffer_bytes.to_string()),
        ("depth", outcome.depth.to_string()),
        ("streams", outcome.streams.to_string()),
        ("servers", outcome.servers.to_string()),
        ("sync", job.sync.to_string()),
        ("data_path", data_path.to_owned()),
    ];
    let mut attributes: Vec<(String, String)> = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    attributes.extend(job.emulated_source.map(|rate| ("emulated.source".to_owned(), numbers::byte_rate(rate as f64))));
    let command = job.recording.as_ref().map_or(&[][..], |recording| &recording.command);
    let knobs = [("requests", outcome.requests), ("depth", outcome.depth), ("streams", outcome.streams)];
    for (name, value) in knobs {
        attributes.extend(Knob::of_flags(name, value, &[(&format!("--{name}"), PLACE)], command, &["cp"]).attributes());
    }
    attributes
}

fn copy(job: &CopyJob, observer: &dyn CopyObserver, trace: &TraceHandle, tracer: &mut Tracer) -> Result<CopyOutcome> {
    let begun = Instant::now();
    let source = open_source(job, trace, tracer, &|| observer.cancelled())?;
    let random_access = match (&source.end, &job.sink) {
        (From::Local(_) | From::Memory(_), Sink::Store(..)) | (From::Store(_), Sink::Null) => true,
        (From::Store(_), Sink::Local(path)) => !output::is_stream_output(path),
        _ => false,
    };
    let chosen = Chosen::new(job, random_access)?;
    let is_small = random_access && !job.skip_damaged && source.size_bytes.is_some_and(|size| size <= SMALL_BYTES);
    let mut sink = open_sink(job, &source, (trace, &mut *tracer), !is_small, &|| observer.cancelled())?;
    if let To::Local(sink) = &sink
        && let Some(path) = &sink.left_alone
    {
        observer.left_alone(path);
    }
    let moved = if is_small {
        let size = source.size_bytes.unwrap_or(0);
        small::copy(&source, &sink, (job.sparse, job.sync), size, tracer).map(|data_bytes| {
            job.control.moved_bytes.store(data_bytes, Ordering::Relaxed);
            job.control.hole_bytes.store(size - data_bytes, Ordering::Relaxed);
            (size, Vec::new())
        })
    } else {
        large(job, &source, &sink, chosen, observer, trace, tracer)
    };
    let finished = moved.and_then(|(size, damaged)| {
        if observer.cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
        let source_modified = if let From::Local(local) = &source.end { local.check_unchanged()? } else { false };
        keep(job, &mut sink, size, tracer)?;
        Ok((size, source_modified, damaged))
    });
    let servers = servers(&source, &sink);
    let (size_bytes, source_modified, damaged) = finished.map_err(|error| error.on_file(sink_name(&job.sink)))?;
    let hole_bytes = job.control.hole_bytes.load(Ordering::Relaxed);
    observer.progress(size_bytes - hole_bytes, Some(size_bytes - hole_bytes));
    let number = |of: &AtomicU32| of.load(Ordering::Relaxed);
    Ok(CopyOutcome {
        size_bytes,
        hole_bytes,
        damaged,
        elapsed: begun.elapsed(),
        source_modified,
        request_bytes: chosen.request_bytes,
        requests: number(&job.control.requests),
        buffer_bytes: job.control.buffer_bytes.load(Ordering::Relaxed),
        depth: number(&job.control.depth),
        streams: number(&job.control.streams),
        data_path: if chosen.direct { DataPath::Direct } else { DataPath::Buffered },
        servers,
        recording: None,
    })
}

fn servers(source: &OpenSource, sink: &To) -> u32 {
    let from = if let From::Store(end) = &source.end { Some(end) } else { None };
    let to = if let To::Store(end) = sink { Some(end) } else { None };
    let many = |end: &super::ends::StoreEnd| end.servers().map_or(0, |s| s.len());
    from.into_iter().chain(to).map(many).max().unwrap_or(0) as u32
}

/// Moves the bytes with threads, and makes them durable if requested. Returns the size, and damaged ranges that were left out.
pub(super) fn large(
    job: &CopyJob,
    source: &OpenSource,
    sink: &To,
    chosen: Chosen,
    observer: &dyn CopyObserver,
    trace: &TraceHandle,
    tracer: &mut Tracer,
) -> Result<(u64, Vec<Range<u64>>)> {
    let from = if let From::Store(end) = &source.end { Some(end) } else { None };
    let to = if let To::Store(end) = sink { Some(end) } else { None };
    for end in [from, to].into_iter().flatten() {
        end.start(&chosen, &job.control, trace)?;
    }
    // A pipe gets zeros for holes, so no data can be skipped.
    let sparse = if let To::Output(output) = sink
        && !output.takes_holes()
    {
        Sparse::Never
    } else {
        job.sparse
    };
    let mut data = DataMap::new(sparse);
    let known = data.begin(source, tracer)?;
    // A copy from memory is a trial that may be stopped long before its end.
    if sparse != Sparse::Always && !matches!(source.end, From::Memory(_)) {
        room::check(tracer, sink, known)?;
    }
    job.control.data_bytes.store(source.size_bytes.unwrap_or(0), Ordering::Relaxed);
    let requests = Requests::new((source, sink), (data, sparse), (chosen, job.skip_damaged), &job.control, trace.clone());
    let tick = || {
        let hole_bytes = job.control.hole_bytes.load(Ordering::Relaxed);
        let data_bytes = source.size_bytes.map(|size_bytes| size_bytes.saturating_sub(hole_bytes));
        [from, to].into_iter().flatten().for_each(StoreEnd::adjust);
        observer.progress(job.control.moved_bytes.load(Ordering::Relaxed), data_bytes);
        observer.cancelled()
    };
    let moved = requests.run(tracer, &tick);
    let moved = moved.and_then(|size| {
        requests.finish(size)?;
        match to {
            // Extend the datafiles over the file's trailing hole.
            Some(end) if job.control.hole_bytes.load(Ordering::Relaxed) > 0 => {
                end.store.data.truncate(tracer, &end.handle, size).map(|()| size)
            }
            _ => Ok(size),
        }
    });
    let synced = moved.and_then(|size| match to {
        Some(end) if job.sync => end.sync(tracer).map(|()| size),
        _ => Ok(size),
    });
    for end in [from, to].into_iter().flatten() {
        end.stop(synced.is_err());
    }
    synced.map(|size| (size, requests.damaged()))
}

/// Publishes the sink: every byte is written, and the file gets its name.
fn keep(job: &CopyJob, sink: &mut To, size_bytes: u64, tracer: &mut Tracer) -> Result<()> {
    match sink {
        To::Store(end) => end.keep(tracer, job.force, job.sync, size_bytes),
        To::Local(sink) => {
            let Some(sink) = Arc::get_mut(sink) else {
                return Err(Error::new(ErrorKind::Io, "the sink is still being written: a bug"));
            };
            sink.keep(job.sync, size_bytes)
        }
        To::Null(_) | To::Output(_) => Ok(()),
    }
}
