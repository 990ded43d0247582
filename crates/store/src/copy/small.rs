//! A copy of no more than one flow buffer: on the caller's thread, over connections that are there already. What it costs
//! is round trips: create, write, rename on the way in; open, glimpse, read on the way out.

use super::ends::{From, OpenSource, To};
use crate::client::StoreFile;
use crate::client::engine::flow::{Sink, Source};
use crate::error::Result;
use thalweg_trace::{SpanFields, SpanKind, Tracer};

/// The largest copy that is made this way.
pub(super) const SMALL_BYTES: u64 = 1 << 20;

/// Moves all bytes of a short source.
pub(super) fn copy(source: &OpenSource, sink: &To, size_bytes: u64, sync: bool, tracer: &mut Tracer) -> Result<()> {
    let request = tracer.begin();
    let mut memory = vec![0; size_bytes as usize];
    let about = SpanFields { parent: request.id(), offset_bytes: Some(0), size_bytes: Some(size_bytes), ..SpanFields::default() };
    let local: Option<&dyn Source> = match &source.end {
        From::Local(local) => Some(&**local),
        From::Memory(pattern) => Some(&**pattern),
        From::Store(_) | From::Stdin => None,
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
    match sink {
        To::Store(end) => {
            let file = StoreFile::new(std::sync::Arc::clone(&end.store.data), (*end.handle).clone());
            file.write_traced(tracer, &memory, 0)?;
            if sync {
                file.sync_traced(tracer)?;
            }
        }
        To::Local(local) => {
            let writing = tracer.begin();
            local.write(&memory, 0)?;
            tracer.end(writing, SpanKind::FileWrite, SpanFields { object: local.object(), ..about });
        }
        To::Null(_) | To::Stdout => {}
    }
    let about = SpanFields { object: source.object, offset_bytes: Some(0), size_bytes: Some(size_bytes), ..SpanFields::default() };
    tracer.end(request, SpanKind::AppRequest, about);
    Ok(())
}
