//! Copies of at most one flow buffer: on the caller's thread, over existing connections. The cost is round trips: create, write, rename
//! into a store; open, glimpse, read out of one.

use super::ends::{From, OpenSource, To};
use super::holes;
use super::job::Sparse;
use crate::files::StoreFile;
use crate::files::engine::flow::{Sink, Source};
use std::ops::Range;
use thalweg_base::ranges;
use thalweg_trace::{SpanFields, SpanKind, Tracer};
use thalweg_wire::Result;

/// Largest copy made this way, in bytes.
pub(super) const SMALL_BYTES: u64 = 1 << 20;

/// Moves all bytes of a short source; returns the bytes of data.
pub(super) fn copy(source: &OpenSource, sink: &To, (sparse, sync): (Sparse, bool), size_bytes: u64, tracer: &mut Tracer) -> Result<u64> {
    let request = tracer.begin();
    let mut memory = vec![0; size_bytes as usize];
    let about = SpanFields { parent: request.id(), offset_bytes: Some(0), size_bytes: Some(size_bytes), ..SpanFields::default() };
    let local: Option<&dyn Source> = match &source.end {
        From::Local(local) => Some(&**local),
        From::Memory(pattern) => Some(&**pattern),
        From::Store(_) | From::Stream(_) => None,
    };
    if let Some(local) = local {
        let reading = tracer.begin();
        local.read(&mut memory, 0)?;
        tracer.end(reading, SpanKind::FileRead, SpanFields { object: source.object, ..about });
    }
    if let From::Store(end) = &source.end {
        let file = StoreFile::new(std::sync::Arc::clone(&end.store.data), (*end.handle).clone());
        file.read_within(tracer, &mut memory, 0)?;
    }
    let data = holes::of_small(source, &memory, sparse, tracer)?;
    let data_bytes = ranges::length(&data);
    let bytes = |range: &Range<u64>| &memory[range.start as usize..range.end as usize];
    match sink {
        To::Store(end) => {
            let file = StoreFile::new(std::sync::Arc::clone(&end.store.data), (*end.handle).clone());
            if data_bytes < size_bytes {
                end.store.data.truncate(tracer, &end.handle, size_bytes)?;
            }
            data.iter().try_for_each(|range| file.write_traced(tracer, bytes(range), range.start))?;
            if sync {
                file.sync_traced(tracer)?;
            }
        }
        To::Local(local) => {
            let writing = tracer.begin();
            data.iter().try_for_each(|range| local.write(bytes(range), range.start))?;
            tracer.end(writing, SpanKind::FileWrite, SpanFields { object: local.object(), ..about });
        }
        To::Null(_) | To::Output(_) => {}
    }
    let about = SpanFields { object: source.object, offset_bytes: Some(0), size_bytes: Some(size_bytes), ..SpanFields::default() };
    tracer.end(request, SpanKind::AppRequest, about);
    Ok(data_bytes)
}
